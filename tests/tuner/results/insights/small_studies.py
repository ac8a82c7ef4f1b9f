"""Small studies whose insights can be counted by hand."""

from typing import Any

from tests.tuner.reporting.summaries import full_study, run
from tuner.results.records import RunRecord, StudySummary
from tuner.trial.messages import Outcome


def trial(number: int, score: float | None, **params: Any) -> RunRecord:
    outcome = Outcome.CRASHED if score is None else Outcome.COMPLETE
    return run(f"trial {number}", "screen", score, params=params, outcome=outcome)


def study(*screened: RunRecord, tests: tuple[float, ...] = (), **changes: Any) -> StudySummary:
    """Trial 0 is the winner; `tests` are its scores on test seeds."""
    tested = [run("trial 0", "test", score, seed=seed) for seed, score in enumerate(tests)]
    fields: dict[str, Any] = {"runs": (*screened, *tested), "winner_label": "trial 0", "importances": {}, **changes}
    return full_study(**fields)
