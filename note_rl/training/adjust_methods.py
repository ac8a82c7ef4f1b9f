"""The manuals' methods by which an agent adjusts its own hyperparameters, from its adjust_func() or a callback."""

import inspect
import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np

from note_rl.adaptive import ess
from note_rl.adaptive.adaptation import Adaptation
from note_rl.adaptive.running_means import weight_of_newest
from note_rl.adaptive.signals.base import Signal
from note_rl.adaptive.signals.gradient_noise import GradientNoise
from note_rl.adaptive.signals.priority_ess import PriorityEss
from note_rl.adaptive.signals.ratio_ess import RatioEss
from note_rl.adaptive.window import Trim, beyond_effective, least_kept, removable
from note_rl.errors import SettingsError, say_once
from note_rl.settings.adaptive import MANUAL_NAMES, Adapt, of_manual
from note_rl.settings.experience import ReplaySettings, RolloutSettings
from note_rl.settings.window_functions import Removal
from note_rl.support.value_kinds import Count, Kind, Number, OneOf, checked_arguments, refuse_unknown
from note_rl.training.counts import Shown
from note_rl.training.trainer import Trainer

_log = logging.getLogger(__name__)
Params = Mapping[str, Any] | None
WindowRule = Literal["mass", "ess"]
_NUMBERS: dict[str, Kind] = {
    "scale": Number(0.0, above=True, hint="; 1 keeps the effective size"),
    "rule": OneOf(get_args(WindowRule)),
    "target_ess": Number(0.0, above=True, hint=": a share up to 1, or a number of transitions"),
    "target_noise": Number(0.0, above=True),
    "num_samples": Count(),
    "p": Count(0),
    "ema": Number(0.0),
}


_NOT_TYPED = ("self", "params")
_SENSIBLE_NOISE = (0.01, 100.0)


class Adjustable:
    """The part of an agent that is concerned with this.

    Dictionaries `*_params` may hold scale, rate, min, max, align and smooth, as in the manuals, and whatever else
    `note_rl.settings.adaptive.Adapt` knows. Every value is worked out from what settings and schedules say, never from
    the present one, but for the batch by `target_ess`, and holds from the next training phase on. Which parameters
    there are is fixed by the first call. Before anything was learned, while the pool fills, adjusters do nothing.

    Attributes:
        adjust_func: Called without arguments after each training phase.
    """

    _trainer: Trainer | None
    settings: Any

    def _adaptation(self, method: str) -> Adaptation | None:
        """The adaptation while train() runs; None: nothing was learned yet."""
        if self._trainer is None or not self._trainer.is_running:
            raise SettingsError(
                f"{method}() goes by what was learned from last: call it while train() runs, in adjust_func(), "
                "window_size_func() or a callback"
            )
        adaptation = self._trainer.adaptation
        return None if adaptation.measurements.last is None else adaptation

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
        """Current size of the minibatches, which adjust() and its like may have changed; "rollout" before train()."""
        settings = self._trainer.experience.settings if self._trainer is not None else self.settings.experience
        size: int | str = settings.batch_size
        return size

    @checked_arguments(**_NUMBERS)
    def adjust_window_size(
        self,
        p: int | None = None,
        scale: float = 1.0,
        ema: float | None = None,
        smooth: float = 0.2,
        smooth_alpha: float | None = None,
        rule: WindowRule = "mass",
    ) -> int:
        """How many of the oldest experiences may go: few transitions make up most of what replay draws from the rest.

        Args:
            p: Number of a process; all of them fill one pool here, for which the answer holds.
            scale: Of rule "mass", aggressiveness: factor of the shares that may go, while at least 1/scale times the
                effective size stays. Of rule "ess", factor of what stays: the larger, the less goes.
            ema: Smoothed effective size; None: worked out here.
            smooth: Weight of the newest effective size in that.
            smooth_alpha: An older name of `smooth`.
            rule: "mass": the oldest, as long as they have together at most 2 % of what is drawn; at most a tenth at
                once; of a pool only where its effective size is below 0.3 of it, and never below half its capacity.
                "ess", as in the manuals: n - clip(int(ema * scale), 1, n - 1) of n, so that the newest stay, as many as
                the effective size, whatever they are.

        Returns:
            A number to remove. window_size_func() may return it as it is, and so may functions that window_size is
            given: unlike a plain int, which says how many to keep, it is known by its type (`Removal`).
        """
        del p
        if self._trainer is None:
            raise SettingsError("adjust_window_size() trims what training has stored: call it while train() runs")
        settings, weights = self._trainer.experience.settings, self._trainer.experience.priorities()
        if getattr(settings, "priority", None) is None:
            raise SettingsError("adjust_window_size() goes by priorities: add PR=True to set()")
        if weights is None:  # before the first rollout
            return Removal(0)
        if ema is None:
            sums = ess.of_weights(weights)
            kept = self._trainer.adaptation.window_ess
            kept.smooth = weight_of_newest(smooth if smooth_alpha is None else smooth_alpha)
            if sums.count:
                kept.add(sums.ess)
            ema = kept.value if kept.count else math.nan
        if rule == "ess":
            return beyond_effective(weights, scale, ema)
        return removable(weights, _trim(settings, scale), ema)

    @checked_arguments(**_NUMBERS)
    def adjust_batch_size(
        self, smooth: float = 0.2, target_ess: float | None = None, smooth_alpha: float | None = None, **params: Params
    ) -> None:
        """Adjusts by the effective sample size: of priorities (PR=True), else of PPO's ratios.

        Args:
            smooth: Weight of the newest measurement.
            target_ess: Wished effective size: a share of all up to 1, a number of transitions above; None: the median
                of the first 20. With it, the batch becomes its present size * (effective size / target_ess) * scale,
                within its bounds; that is the nearest of the scheduled size, its halves and its doubles, as each other
                size would be compiled for. Without it, the batch never exceeds a quarter of the effective number of
                transitions.
            smooth_alpha: An older name of `smooth`.
            **params: batch_params, alpha_params, lr_params, eps_params, freq_params, tau_params, gamma_params,
                store_params, weight_decay_params, beta1_params, beta2_params, clip_params, num_updates_params,
                per_beta_params (the exponent of importance weights), beta_params (the weight of a KL penalty: an
                attribute kl_coefficient, kl_coef or beta of the agent). Their `rate` is what is added where the
                measure is twice its target, in units of the parameter, and no share of it.
        """
        told = _told(params, "adjust_batch_size")
        adaptation = self._adaptation("adjust_batch_size")
        if adaptation is None:
            return
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
                takes the learning rate along; where there are lr_params, that goes by the noise itself instead.
        """
        del jit_compile
        told = _told(params, "adabatch")
        _warn_of_noise(target_noise)
        adaptation = self._adaptation("adabatch")
        if adaptation is None:
            return
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
        by_size = not signal.scales_with_batch
        if target is not None and target > 1.0 and by_size:
            target /= max(_num_weighed(adaptation), 1)
        before = adaptation.attributes()
        names: list[str] = []
        for name, how in told.items():
            if name == "batch_size" and how.law is None and target is not None and by_size:
                how = replace(how, law="ess")
            names += adaptation.adapt(name, replace(how, smooth=how.smooth or smooth), [signal], warm_up=1)
        adaptation.measurements.measure_again(signal, {how.smooth or smooth for how in told.values()})
        for name in names:
            adaptation.decide(name, self._trainer.clock, target)
        if adaptation.attributes() != before:
            self._trainer.adapted_anew()


def _num_weighed(adaptation: Adaptation) -> int:
    """Of how many transitions the effective size is measured: those of the pool, or of a rollout."""
    experience = adaptation.place.experience
    weights = experience.priorities()
    if weights is not None:
        return len(weights)
    num_envs = adaptation.measurements.num_envs
    return int(experience.settings.steps_per_env(num_envs) * num_envs)


def _trim(settings: Any, scale: float) -> Trim:
    """The limits of the rule "mass"; a rollout is forgotten anyway, so that its window need not wait for a collapse."""
    plain = Trim()
    limits = Trim(keep_scale=1.0 / scale, mass=min(plain.mass * scale, 1.0), share=min(plain.share * scale, 1.0))
    if isinstance(settings, ReplaySettings):
        return replace(limits, least=least_kept(settings))
    return replace(limits, least=settings.batch_size, low=math.inf)


def _warn_of_noise(target_noise: float) -> None:
    """Says where a target is one of the manuals' variances: the batch would go to its largest size, and stay."""
    low, high = _SENSIBLE_NOISE
    if not low <= target_noise <= high:
        end = "largest" if target_noise < low else "smallest"
        say_once(
            _log,
            f"adabatch(target_noise={target_noise:g}): here it is the noise scale over the batch size, about 1, and no "
            f"variance of gradients: the batch goes to its {end} size; leave target_noise out, or give one from "
            f"{low:g} to {high:g}",
        )


def _told(params: Mapping[str, Params], method: str) -> dict[str, Adapt]:
    """The dictionaries by our names of parameters.

    Raises:
        SettingsError: An argument or an entry that there is not.
    """
    further = [name for name in inspect.signature(getattr(Adjustable, method)).parameters if name not in _NOT_TYPED]
    refuse_unknown(method, params, [*further, *(f"{name}_params" for name in MANUAL_NAMES)])
    return of_manual({name.removesuffix("_params"): one for name, one in params.items()}, method)
