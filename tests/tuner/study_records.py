"""Records of a study: its trials in the storage, its scores, what the user was shown."""

from pathlib import Path

import optuna

from tests.tuner.entries import synthetic_curve
from tests.tuner.studies import journal
from tuner.results.metric import Mixed
from tuner.results.records import StudySummary
from tuner.study import StudyListener, StudyStore
from tuner.trial.messages import Outcome


def stored(folder: Path, stage: str = "screen") -> optuna.Study:
    store = StudyStore(journal(folder))
    study = store.find("study", stage)
    assert study is not None
    return study


def scores(summary: StudySummary) -> list[tuple[object, ...]]:
    return [(run.stage, run.label, run.seed, dict(run.params), run.value) for run in summary.runs]


class Notes(StudyListener):
    """Keeps what the user should read."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def on_note(self, text: str) -> None:
        self.texts.append(text)


def check_complete(summary: StudySummary, num_trials: int = 6) -> None:
    assert [run.number for run in summary.stage("screen")] == list(range(num_trials))
    assert len(summary.stage("confirm")) == 4
    assert len(summary.stage("test")) == 4
    for run in summary.runs:
        assert run.outcome is Outcome.COMPLETE
        rate = run.params.get("optimizer.learning_rate", 0.1)
        config = {"optimizer": {"learning_rate": rate}}
        assert run.curve == tuple(synthetic_curve(config, run.seed))
        assert run.value == Mixed()(run.curve)
