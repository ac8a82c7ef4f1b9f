"""The manuals' methods by which an agent adjusts its own hyperparameters, from its adjust_func() or a callback."""

import inspect
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from note_rl.adaptive import ess
from note_rl.adaptive.adaptation import Adaptation
from note_rl.adaptive.signals.base import Signal
from note_rl.adaptive.signals.gradient_noise import GradientNoise
from note_rl.adaptive.signals.priority_ess import PriorityEss
from note_rl.adaptive.signals.ratio_ess import RatioEss
from note_rl.adaptive.smoothing import weight_of_newest
from note_rl.adaptive.window import Trim, least_kept, removable
from note_rl.errors import SettingsError
from note_rl.settings.adaptive import MANUAL_NAMES, Adapt, of_manual
from note_rl.settings.experience import ReplaySettings, RolloutSettings
from note_rl.settings.window_functions import Removal
from note_rl.support.checking import Count, Kind, Number, checked_arguments, refuse_unknown
from note_rl.training.counts import Shown
from note_rl.training.trainer import Trainer

Params = Mapping[str, Any] | None
_NUMBERS: dict[str, Kind] = {
    "scale": Number(0.0, above=True, hint="; 1 keeps the effective size"),
    "target_ess": Number(0.0, above=True, hint=": a share up to 1, or a number of transitions"),
    "target_noise": Number(0.0, above=True),
    "num_samples": Count(),
    "p": Count(0),
    "ema": Number(0.0),
}


_NOT_TYPED = ("self", "params")


class Adjustable:
    """The part of an agent that is concerned with this.

    Dictionaries `*_params` may hold scale, rate, min, max, align and smooth, as in the manuals, and whatever else
    `note_rl.settings.adaptive.Adapt` knows. Every value is worked out from what settings and schedules say, never from
    the present one, and holds from the next training phase on. Which parameters there are is fixed by the first call.

    Attributes:
        adjust_func: Called without arguments after each training phase.
    """

    _trainer: Trainer | None
    settings: Any

    def _adaptation(self, method: str) -> Adaptation:
        if self._trainer is None or self._trainer.adaptation.measurements.last is None:
            raise SettingsError(
                f"{method}() goes by what was learned from last: call it while train() runs, in adjust_func(), "
                "window_size_func() or a callback, once learning has begun"
            )
        if self._trainer.num_ranks > 1:
            raise SettingsError(
                f"feeding=sharded and {method}() cannot be combined: it would go by what the first rank has measured "
                "of its share; leave it out, or use feeding=split"
            )
        return self._trainer.adaptation

    @property
    def decisions(self) -> list[Any]:
        """Every decision about a hyperparameter so far, as `note_rl.adaptive.decisions.Decision`."""
        return [] if self._trainer is None else self._trainer.adaptation.log.decisions

    @property
    def adapted_schedule(self) -> dict[str, list[list[float]]]:
        """By parameter, which value held from which environment step on: `Adaptive(schedule=...)` repeats it."""
        return {} if self._trainer is None else self._trainer.adaptation.log.schedule()

    @staticmethod
    def compute_ess_from_weights(weights: Any) -> float:
        """Effective number of samples of weights [n] that are not negative: (sum w)^2 / sum w^2; n if all are 0."""
        return ess.of_weights(np.asarray(weights, np.float64).ravel()).ess

    @Shown
    def ema_ess(self) -> float | None:
        """The smoothed effective size that adjust_window_size() has come to; None before."""
        smoothed = None if self._trainer is None else self._trainer.adaptation.window_ess
        return smoothed.value if smoothed is not None and smoothed.count else None

    @Shown
    def batch(self) -> int | str:
        """Size of the minibatches by now, which adjust() and its like may have changed; "rollout" before train()."""
        settings = self._trainer.experience.settings if self._trainer is not None else self.settings.experience
        size: int | str = settings.batch_size
        return size * self._trainer.num_ranks if isinstance(size, int) and self._trainer is not None else size

    @checked_arguments(**_NUMBERS)
    def adjust_window_size(
        self,
        p: int | None = None,
        scale: float = 1.0,
        ema: float | None = None,
        smooth: float = 0.2,
        smooth_alpha: float | None = None,
    ) -> int:
        """How many of the oldest experiences may go: few transitions make up most of what replay draws from the rest.

        Args:
            p: Number of a process; all of them fill one pool here, for which the answer holds.
            scale: Aggressiveness: the pool keeps at least 1/scale times its effective size.
            ema: Smoothed effective size; None: worked out here.
            smooth: Weight of the newest effective size in that.
            smooth_alpha: An older name of `smooth`.

        Returns:
            A number to remove. window_size_func() may return it as it is, and so may functions that window_size is
            given: unlike a plain int, which says how many to keep, it is known by its type (`Removal`).
        """
        del p
        if self._trainer is None:
            raise SettingsError("adjust_window_size() trims what training has stored: call it while train() runs")
        weights = self._trainer.experience.priorities()
        if weights is None:
            raise SettingsError("adjust_window_size() goes by priorities: add PR=True to set()")
        if ema is None:
            sums = ess.of_weights(weights)
            kept = self._trainer.adaptation.window_ess
            kept.smooth = weight_of_newest(smooth if smooth_alpha is None else smooth_alpha)
            if sums.count:
                kept.add(sums.ess)
            ema = kept.value if kept.count else math.nan
        settings = self._trainer.experience.settings
        least = least_kept(settings) if isinstance(settings, ReplaySettings) else settings.batch_size
        return Removal(removable(weights, Trim(keep_scale=1.0 / scale, least=least), ema))

    @checked_arguments(**_NUMBERS)
    def adjust_batch_size(
        self, smooth: float = 0.2, target_ess: float | None = None, smooth_alpha: float | None = None, **params: Params
    ) -> None:
        """Adjusts by the effective sample size: of priorities (PR=True), else of PPO's ratios.

        Args:
            smooth: Weight of the newest measurement.
            target_ess: Wished effective size: a share of all up to 1, a number of transitions above; None: the median
                of the first 20.
            smooth_alpha: An older name of `smooth`.
            **params: batch_params (the batch never exceeds a quarter of the effective number of transitions),
                alpha_params, lr_params, eps_params, freq_params, tau_params, gamma_params, store_params,
                weight_decay_params, beta1_params, beta2_params, clip_params, num_updates_params, per_beta_params (the
                exponent of importance weights), beta_params (the weight of a KL penalty: an attribute kl_coefficient,
                kl_coef or beta of the agent).
        """
        told = _told(params, "adjust_batch_size")
        adaptation = self._adaptation("adjust_batch_size")
        rollout = isinstance(adaptation.place.experience.settings, RolloutSettings)
        weights = adaptation.place.experience.priorities()
        if weights is None and not rollout:
            raise SettingsError("adjust_batch_size() goes by effective sample sizes: add PR=True or PPO=True to set()")
        signal = RatioEss() if weights is None else PriorityEss()
        smooth = smooth if smooth_alpha is None else smooth_alpha
        self._adjust(adaptation, told, signal, smooth, target_ess)

    @checked_arguments(**_NUMBERS)
    def adabatch(
        self,
        num_samples: int,
        target_noise: float = 1.0,
        smooth: float = 0.2,
        jit_compile: bool = True,
        smooth_alpha: float | None = None,
        **params: Params,
    ) -> None:
        """Adjusts by the noise of gradients: B_simple = tr(Sigma) / |G|^2 over the batch size.

        Args:
            num_samples: Minibatches that are measured in each call. A value is believed after 20 of them.
            target_noise: Wished noise over batch size. (A variance, as the manuals' 1e-3 was, means another thing for
                every network and loss; this does not.)
            smooth: Weight of the newest measurement.
            jit_compile: Taken; gradients are evaluated as training evaluates them.
            smooth_alpha: An older name of `smooth`.
            **params: As in adjust_batch_size(). The batch becomes B_simple / target_noise, as far as bounds let it, and
                takes the learning rate along, so that lr_params are not given together with batch_params.
        """
        del jit_compile
        told = _told(params, "adabatch")
        if {"batch_size", "learning_rate"} <= set(told):
            raise SettingsError("adabatch(): batch_params take the learning rate along; leave lr_params out")
        adaptation = self._adaptation("adabatch")
        smooth = smooth if smooth_alpha is None else smooth_alpha
        signal = GradientNoise()
        adaptation.measurements.measure_minibatches(adaptation.measurements.measured(signal, smooth), num_samples)
        self._adjust(adaptation, told, signal, smooth, target_noise)

    @checked_arguments(**_NUMBERS)
    def adjust(
        self,
        target_ess: float | None = None,
        target_noise: float | None = None,
        num_samples: int | None = None,
        smooth: float = 0.2,
        jit_compile: bool = True,
        smooth_alpha: float | None = None,
        **params: Any,
    ) -> None:
        """adabatch() if there is a `target_noise`, else adjust_batch_size(); see there for the arguments."""
        smooth = smooth if smooth_alpha is None else smooth_alpha
        _told(params, "adjust")
        if target_noise is None:
            self.adjust_batch_size(smooth=smooth, target_ess=target_ess, **params)
            return
        if num_samples is None:
            raise SettingsError(f"adjust(target_noise={target_noise}) needs num_samples: minibatches to measure")
        self.adabatch(num_samples, target_noise, smooth, jit_compile=jit_compile, **params)

    def _adjust(
        self, adaptation: Adaptation, told: Mapping[str, Adapt], signal: Signal, smooth: float, target: float | None
    ) -> None:
        """Measures, and decides about every parameter that has a dictionary."""
        assert self._trainer is not None
        weights = adaptation.place.experience.priorities()
        if target is not None and target > 1.0 and isinstance(signal, PriorityEss) and weights is not None:
            target = min(target / max(len(weights), 1), 1.0)
        before = adaptation.attributes()
        names: list[str] = []
        for name, how in told.items():
            names += adaptation.adapt(name, replace(how, smooth=how.smooth or smooth), [signal], warm_up=1)
        adaptation.measurements.measure_again(signal, {how.smooth or smooth for how in told.values()})
        for name in names:
            adaptation.decide(name, self._trainer.clock, target)
        if adaptation.attributes() != before:
            self._trainer.adapted_anew()


def _told(params: Mapping[str, Params], method: str) -> dict[str, Adapt]:
    """The dictionaries by our names of parameters.

    Raises:
        SettingsError: An argument or an entry that there is not.
    """
    further = [name for name in inspect.signature(getattr(Adjustable, method)).parameters if name not in _NOT_TYPED]
    refuse_unknown(method, params, [*further, *(f"{name}_params" for name in MANUAL_NAMES)])
    return of_manual({name.removesuffix("_params"): one for name, one in params.items()}, method)
