"""The process of a range test: what learning rates do to an agent, measured where nothing else moves.

Three tests. `loss_ramp`: the rate rises from step to step, on data that stay as they are (Smith 2017). `kl_comb`: each
rate begins at the same parameters and takes the steps of one ordinary training phase, so that no rate suffers from the
one before. `online_ramp`: ordinary training with a rising rate, as the manuals have it; it shows returns, which lag
behind the rate and improve with time anyway, so nothing is concluded from it.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from note_rl.errors import DivergedError, SettingsError
from note_rl.optimizers.rates import Rates
from note_rl.training.callbacks import Callback, Logs
from note_rl.training.frozen import FrozenData
from tuner.finders.find_arguments import trained
from tuner.finders.learning_rate.loss_curves import has_diverged
from tuner.trial.messages import JsonDict

Listener = Callable[[int, float], None]
"""Called at each point: its number, and the loss there."""

KL_TARGET = 0.015
"""Change of the policy in one training phase that is about right (Schulman et al. 2017: 0.003 to 0.03)."""

LEAST_ESS = 0.97
"""Share of the samples that ought to remain worth something after a phase."""


@dataclass(frozen=True)
class Length:
    """How long the ordinary training with a rising rate is, and which listener is notified of its progress."""

    episodes: int
    alive: Callable[[float], None]


def loss_ramp(agent: Any, optimizer: Any, rates: Sequence[float], tell: Listener, only: int | None = None) -> JsonDict:
    """Loss on fixed minibatches after one step at each rate, up to divergence."""
    data = FrozenData(agent, optimizer, len(rates))
    try:
        moved = Rates(optimizer, only)
        losses: list[float] = []
        before = data.loss()
        for number, rate in enumerate(rates):
            moved.set(rate)
            losses.append(data.step())
            if math.isfinite(losses[-1]):
                tell(number + 1, losses[-1])
            if has_diverged([before, *losses]):
                break
    finally:
        data.close()
    return {"rates": list(rates), "losses": losses, "before": before}


def kl_comb(agent: Any, optimizer: Any, rates: Sequence[float], tell: Listener, only: int | None = None) -> JsonDict:
    """Change of the policy, and the loss, after one training phase at each rate, from the same parameters.

    Raises:
        SettingsError: The policy cannot say how likely its actions were.
    """
    data = FrozenData(agent, optimizer, None)
    found: JsonDict = {"rates": list(rates), "kl": [], "ess": [], "losses": [], "before": data.loss()}
    try:
        if data.policy_change() is None:
            raise SettingsError(
                f"mode='kl' needs the probabilities of actions, and {type(agent.settings.policy).__name__} has none: "
                "use mode='loss'"
            )
        moved = Rates(optimizer, only)
        for number, rate in enumerate(rates):
            data.restart()
            moved.set(rate)
            loss = data.step(data.num_per_phase)
            change = data.policy_change()
            assert change is not None
            found["losses"].append(loss)
            found["kl"].append(change.kl)
            found["ess"].append(change.ess)
            if math.isfinite(change.kl):
                tell(number + 1, change.kl)
    finally:
        data.close()
    return found


def online_ramp(agent: Any, optimizer: Any, rates: Sequence[float], length: Length, options: JsonDict) -> JsonDict:
    """Returns of episodes, and losses of training phases, while the rate rises over the episodes to the last one."""
    growth = _Growth(rates)
    agent.settings = replace(agent.settings, schedules={**agent.settings.schedules, "learning_rate": growth})
    watch = _RateRecorder(length)
    try:
        trained(agent, options, optimizer=optimizer, episodes=length.episodes, callbacks=[watch], p=0)
    except DivergedError as error:
        watch.found["diverged"] = str(error)
    return watch.found


class _Growth:
    """The schedule of a rising rate: as many equal steps over the progress of training as there are rates."""

    def __init__(self, rates: Sequence[float]) -> None:
        self._rates = list(rates)

    def __call__(self, progress: float) -> float:
        return self._rates[min(int(progress * len(self._rates)), len(self._rates) - 1)]


class _RateRecorder(Callback):
    """Writes down returns and losses with the rate at that time."""

    changes_parameters = False

    def __init__(self, length: Length) -> None:
        self._length = length
        self.found: JsonDict = {"rewards": [], "reward_rates": [], "losses": [], "rates": []}
        self._waiting: list[float] = []

    def on_episode_end(self, episode: int, logs: Logs) -> None:
        """Waits for the phase to end, which knows the rate."""
        del episode
        self._waiting.append(float(logs["reward"]))

    def on_phase_end(self, phase: int, logs: Logs) -> None:
        """Everything of the phase."""
        del phase
        self._length.alive(min(len(self.found["rewards"]) / self._length.episodes, 1.0))
        rate = float(logs["learning_rate"])
        self.found["rewards"] += self._waiting
        self.found["reward_rates"] += [rate] * len(self._waiting)
        self._waiting = []
        if math.isfinite(logs["loss"]):
            self.found["losses"].append(float(logs["loss"]))
            self.found["rates"].append(rate)


def rate_at_kl(rates: Sequence[float], kl: Sequence[float], ess: Sequence[float]) -> float | None:
    """The rate at which the policy first changes by `KL_TARGET`, or samples are worth less than `LEAST_ESS`.

    Between two rates both are taken as straight lines over the logarithm of the rate. None: nothing changes that much.
    """
    crossing = [_crossing(rates, kl, KL_TARGET), _crossing(rates, [1.0 - one for one in ess], 1.0 - LEAST_ESS)]
    known = [rate for rate in crossing if rate is not None]
    return min(known) if known else None


def _crossing(rates: Sequence[float], values: Sequence[float], limit: float) -> float | None:
    for index, value in enumerate(values):
        if not value <= limit:
            if index == 0 or not math.isfinite(value):
                return rates[max(index - 1, 0)]
            before = values[index - 1]
            share = (limit - before) / (value - before)
            low, high = math.log(rates[index - 1]), math.log(rates[index])
            return math.exp(low + share * (high - low))
    return None
