"""How a learning rate is searched, and the process of each test: which of them, and what its curve says."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, get_args

from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import POSITIVE, Count
from tuner.config.section_base import Section
from tuner.errors import UserError
from tuner.finders.comparison.candidates import CandidateBudget
from tuner.finders.find_arguments import with_strategy
from tuner.finders.finder_process import Measured
from tuner.finders.learning_rate import range_test
from tuner.finders.learning_rate.loss_curves import RISE, Points, points_of
from tuner.finders.subjects import Subject
from tuner.support.names import did_you_mean
from tuner.trial.context import TrialContext
from tuner.trial.messages import JsonDict

Mode: TypeAlias = Literal["auto", "loss", "kl", "return"]
MODES: Final = get_args(Mode)
_ALIASES = {"reward": "return"}
ONLINE: Final = "online"
"""The test that is an ordinary training with a rising rate."""


@dataclass(frozen=True)
class RateRange(Section):
    """Among which learning rates one is searched, and how.

    Attributes:
        mode: loss: the rate rises on frozen data; kl: each rate takes one phase from the same parameters, and how far
            the policy moves is measured; return: whole trainings at a few rates; auto: kl for agents that learn from
            rollouts, else loss.
        start_lr, end_lr: Of the range.
        num_steps: Steps of growth from the one to the other; kl and return try fewer rates.
        num_rates: Rates that kl and return try; None: 17 and 7.
        num_seeds: Each test is done with this many seeds.
        skip_begin, skip_end: Points left out where the steepest one is looked for.
        group: Index of the optimizer in a list whose rate is searched; None: all together, in proportion.
    """

    mode: str = "auto"
    start_lr: float = setting(1e-6, POSITIVE)
    end_lr: float = setting(1.0, POSITIVE)
    num_steps: int = setting(100, Count(5))
    num_rates: int | None = setting(None, Count(3))
    num_seeds: int = setting(3, Count())
    skip_begin: int = setting(5, Count(0))
    skip_end: int = setting(0, Count(0))
    group: int | None = None

    def __post_init__(self) -> None:
        """Refuses what makes no range."""
        super().__post_init__()
        object.__setattr__(self, "mode", _ALIASES.get(self.mode, self.mode))
        if self.mode not in MODES:
            near = did_you_mean(str(self.mode), MODES)
            raise UserError(f"mode (metrics) {self.mode!r} is unknown{near}")
        if not self.start_lr < self.end_lr:
            raise UserError(f"{self.typed('start_lr')} must be below {self.typed('end_lr')}")


@dataclass(frozen=True)
class RateSettings(RateRange):
    """How a learning rate is searched.

    Attributes:
        seed: The first of the seeds.
        episodes, total_steps: Of each training in mode return; in the others `episodes` asks for an ordinary training
            with a rising rate besides, to look at.
        options: Further arguments of train().
    """

    seed: int = setting(0, Count(0))
    episodes: int | None = None
    total_steps: int | None = None
    options: JsonDict = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuses two lengths of training, too."""
        super().__post_init__()
        CandidateBudget(self.episodes, self.total_steps)

    @property
    def seeds(self) -> list[int]:
        """Of the tests."""
        return list(range(self.seed, self.seed + self.num_seeds))


@dataclass(frozen=True)
class RangeTests:
    """Called in the process of each run."""

    subject: Subject
    mode: str
    rates: tuple[float, ...]
    online_rates: tuple[float, ...]
    settings: RateSettings

    def __call__(self, context: TrialContext, point: JsonDict) -> Measured:
        """Does the test of this point; its objective is the last stable rate."""
        test, _, seed = str(point["test"]).partition(" ")
        options, scope = with_strategy(self.settings.options if test == ONLINE else {})
        with scope:
            agent, optimizer = self.subject.build(int(seed))
        context.built({})
        if test == ONLINE:
            assert self.settings.episodes is not None
            length = range_test.Length(self.settings.episodes, context.alive)
            found = range_test.online_ramp(agent, optimizer, self.online_rates, length, options)
            return Measured((max(found["rates"], default=self.online_rates[0]),), found)
        tests: dict[str, Callable[..., JsonDict]] = {"loss": range_test.loss_ramp, "kl": range_test.kl_comb}
        found = tests[test](agent, optimizer, self.rates, context.report, self.settings.group)
        found["losses"] = [loss if math.isfinite(loss) else None for loss in found["losses"]]
        found["kl"] = [kl if math.isfinite(kl) else None for kl in found.get("kl", [])]
        found["ess"] = [ess if math.isfinite(ess) else 0.0 for ess in found.get("ess", [])]
        return Measured((points_in(self.mode, found, self.settings).stable,), found)


def losses_of(curve: JsonDict) -> list[float]:
    """Losses of a curve that was read from a file, where those that are not finite are null."""
    return [math.nan if loss is None else loss for loss in curve["losses"]]


def points_in(mode: str, curve: JsonDict, settings: RateSettings) -> Points:
    """The telling points of one test; the comb has a point after the first rate that breaks the loss."""
    losses = losses_of(curve)
    if mode == "kl":
        best, cut = min([curve["before"], *(loss for loss in losses if math.isfinite(loss))]), len(losses)
        for index, loss in enumerate(losses):
            if not loss - best <= RISE * max(abs(best), curve["before"] - best):
                cut = index
                break
        kept = losses[:cut] or losses[:1]
        found = points_of(curve["rates"], kept, settings.skip_begin // 2, settings.skip_end, beta=0.3)
        stable = curve["rates"][max(cut - 1, 0)]
        return Points(stable, cut < len(losses), found.steep, found.valley, found.minimum)
    return points_of(curve["rates"], losses, settings.skip_begin, settings.skip_end)
