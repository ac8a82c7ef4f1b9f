"""Reactions to returns that no longer rise."""

from dataclasses import dataclass
from typing import Any, Literal

from note_rl.errors import SettingsError
from note_rl.errors.wording import Name, out_of_range
from note_rl.support.setting_fields import check_fields, documented, setting
from note_rl.support.value_kinds import Count, Number, OneOf

Interval = Literal["evaluations", "episodes"]


@documented
@dataclass(frozen=True, kw_only=True)
class Plateau:
    """Learning rates that are lowered when returns no longer rise, and an end of training when that does not help.

    Returns are judged at intervals. An interval improves if its return is higher than the best one so far by more than
    `min_delta`; only the others count. After `patience` of them every learning rate is multiplied by `factor`, whatever
    schedules and adaptation make of it, and the count begins anew. After `early_stop` reductions without an improvement
    in between training ends.
    """

    by: Interval = setting(
        "episodes",
        OneOf(("evaluations", "episodes")),
        manual=None,
        text='Which intervals: "episodes", of which the mean return of the last `trial_count` is judged; '
        '"evaluations", as given to agent.note_evaluation().',
    )
    interval: int = setting(10, Count(), manual=None, text='Episodes of an interval, with by="episodes".')
    factor: float = setting(
        0.9,
        Number(0.0, 1.0, above=True),
        manual=None,
        text="What learning rates are multiplied by; 1: they stay, and only `early_stop` has an effect.",
    )
    patience: int = setting(10, Count(), manual=None, text="Intervals without an improvement before a reduction.")
    early_stop: int | None = setting(
        3,
        Count(),
        manual=None,
        text="Reductions without an improvement in between after which training ends; None: it never does.",
    )
    min_delta: float = setting(0.0, Number(0.0), manual=None, text="By how much the best return must be exceeded.")
    start_steps: int = setting(
        0, Count(0), manual=None, text="Environment steps before which nothing is counted; the best return is noted."
    )

    def __post_init__(self) -> None:
        """Refuses values out of range."""
        check_fields(self)


def plateau(name: Name, value: Any) -> Plateau:
    """A `Plateau`, and nothing else."""
    if not isinstance(value, Plateau):
        raise SettingsError(out_of_range(name, "be Plateau(patience=10, factor=0.9, ...) of note_rl.settings", value))
    return value
