"""A setting of a feature goes with its study, and is a fact of it."""

from pathlib import Path

import pytest

from tests.tuner.studies import FakeExecutor, journal, run_study
from tuner.errors import UserError
from tuner.features.ablation.facts import ABLATION
from tuner.results import features, summary_json
from tuner.results.records import Fact, StudySummary
from tuner.results.summary_json import summary_from_json, summary_to_json
from tuner.study import StudyStore, summarise, summary
from tuner.study.storage import soundness

LIMITS = Fact[dict[str, float]]("limits", {}, dict[str, float])


@pytest.fixture
def made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A feature that has a fact besides those that there are."""
    known = tuple(features.all_facts())
    for module in (summary, summary_json, soundness):
        monkeypatch.setattr(module, "all_facts", lambda: (*known, LIMITS))


def summary_of(folder: Path) -> StudySummary:
    with StudyStore(journal(folder)) as store:
        return summarise(store, "study", folder / "study")


@pytest.mark.usefixtures("made_up")
def test_a_setting_is_read_checked_and_reported(tmp_path: Path) -> None:
    run_study(tmp_path, FakeExecutor(), features={"limits": {"seconds": 3.0}})
    found = summary_of(tmp_path)
    assert LIMITS.of(found) == {"seconds": 3.0}
    assert ABLATION.of(found) is None
    assert list(found.facts) == ["limits"], "what is so by default is left out"
    again = summary_from_json(summary_to_json(found))
    assert again == found
    with StudyStore(journal(tmp_path)) as store:
        store.require("study").set_user_attr("limits", {"seconds": "many"})
    with pytest.raises(UserError, match=r"damaged, or was changed by hand .*seconds"):
        summary_of(tmp_path)
