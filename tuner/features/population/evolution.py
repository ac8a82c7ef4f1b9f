"""How a population evolves: sizes, and what of them makes sense."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from note_rl.errors.wording import Name
from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import SHARE, Count, Number, OneOf, described
from tuner.config.section_base import Section
from tuner.errors import UserError
from tuner.features.population.facts import EVOLVE
from tuner.results.protocol import StagePlan, StudySettings, stage_seeds
from tuner.results.records import CONFIRM, TEST

FIRST_COPIES = 2
"""Generation at whose beginning members are first compared: scores of the first one are of agents that know nothing."""

_TOO_FEW = f": members are first compared after {FIRST_COPIES}, and something has to be trained behind that"


@described("different numbers of generations")
def _frequencies(name: Name, value: Any) -> tuple[int, ...]:
    return tuple(Count()(name, one) for one in value)


@dataclass(frozen=True)
class Evolution(Section, path="study.evolution"):
    """How a population evolves (Jaderberg et al. 2017); its size is the study's number of trials.

    Attributes:
        generations: Parts of equal length into which training is cut. Between two of them members are compared.
        share: The lowest such share of members goes on from copies of the highest such share.
        frequencies: Members are split into as many subpopulations; each is compared at its own interval of generations.
            Patient ones keep what pays late: they are copied by hastier ones, and never copy from these (after
            Doulazmi et al. 2025, who let several subpopulations evolve at different frequencies).
        explore: How copies get their values: "gp", from a model of what each part of training has gained
            (`tuner.features.population.gains`), or "perturb", near those of the member that is copied.
        resampled: With "perturb", the share of parameters that is drawn anew; the others are multiplied by 0.8 or 1.25.
    """

    stage: ClassVar = EVOLVE
    name: ClassVar = "population based training"

    generations: int = setting(8, Count(FIRST_COPIES + 1, hint=_TOO_FEW))
    share: float = setting(0.25, Number(0.0, 0.5, above=True))
    frequencies: tuple[int, ...] = setting((1,), _frequencies)
    resampled: float = setting(0.25, SHARE)
    explore: str = setting("gp", OneOf(("perturb", "gp")))

    def __post_init__(self) -> None:
        """Refuses what is no evolution."""
        super().__post_init__()
        wrong = [one for one in self.frequencies if one >= self.generations]
        if not self.frequencies or wrong or len(set(self.frequencies)) < len(self.frequencies):
            raise UserError(
                f"study.evolution.frequencies={list(self.frequencies)} must be different numbers of generations, each "
                f"from 1 to {self.generations - 1}, such as [1]{' or [1,4]' if self.generations > 4 else ''}"
            )

    def check_size(self, num_members: int) -> None:
        """Refuses a population in which nobody could be copied.

        Raises:
            UserError: A subpopulation is too small.
        """
        fewest = num_members // len(self.frequencies)
        if fewest * self.share < 1.0:
            needed = len(self.frequencies) * -int(-1.0 // self.share)
            parts = f"split into {len(self.frequencies)} subpopulations, " if len(self.frequencies) > 1 else ""
            raise UserError(
                f"study.num_trials={num_members} members, {parts}of which study.evolution.share={self.share:g} are "
                f"replaced, is less than one: at least {needed} are needed"
            )

    def check(self, settings: StudySettings) -> None:
        """Refuses sizes of a study that a population has no use for.

        Raises:
            UserError: Names one.
        """
        for name, bound in (("budget", settings.budget_s), ("max_env_steps", settings.max_env_steps)):
            if bound is not None:
                raise UserError(
                    f"study.{name} ends a search that may end anywhere, and study=pbt has its members and their "
                    "steps: leave it out, or set study.num_trials and training.total_steps"
                )
        self.check_size(settings.num_trials)
        if settings.others or settings.num_race_seeds:
            key = "study.metric with several objectives" if settings.others else "study.num_race_seeds"
            raise UserError(f"{key} has no meaning with study.evolution: a population is compared by one score")

    def sizes(self, num_trials: int) -> dict[str, int]:
        """Its sizes, as the storage keeps them."""
        return {"members": num_trials, "generations": self.generations}

    def plan(self, settings: StudySettings, study_seed: int, total_steps: int) -> tuple[StagePlan, ...]:
        """Stages of the study: its members together train as long as whole runs of all do."""
        members, candidates = settings.num_trials, 2 * settings.num_candidates
        seeds = stage_seeds(study_seed, EVOLVE, members)
        words = "parts of runs: members are compared behind each, the worst copy the best and change"
        evolve = StagePlan(EVOLVE, self.generations, seeds, members * total_steps, words)
        tested = 3 + len(settings.baselines)
        later = {CONFIRM: (candidates, settings.num_select_seeds), TEST: (tested, settings.num_test_seeds)}
        return evolve, *(
            StagePlan(stage, count, stage_seeds(study_seed, stage, seeds), count * seeds * total_steps)
            for stage, (count, seeds) in later.items()
        )

    def frequency_of(self, member: int) -> int:
        """After how many generations a member is compared."""
        return self.frequencies[member % len(self.frequencies)]

    def compared(self, generation: int) -> Sequence[int]:
        """The frequencies of the subpopulations that are compared at the beginning of a generation."""
        if generation < FIRST_COPIES:
            return ()
        return [frequency for frequency in self.frequencies if generation % frequency == 0]
