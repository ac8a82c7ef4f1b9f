"""Coverage of a search in the verdict and on the page."""

from dataclasses import replace
from pathlib import Path

from tests.tuner.reporting.summaries import full_study
from tests.tuner.studies import run_study
from tuner.features.coverage.facts import COVERAGE, Coverage, Reach
from tuner.reporting.page import render_page
from tuner.results.records import StudySummary
from tuner.results.verdict import verdict

EDGE = Reach("agent.gamma", 10, 9, 6, 6.5, "low", "space.agent.gamma.low=0.8")
NARROW = Reach("optimizer.learning_rate", 10, 8, 2, 6.5)


def said_of(summary: StudySummary) -> str:
    return "\n".join(verdict(summary).details)


def test_of_many_edges_three_are_said() -> None:
    paths = ("agent.gamma", "optimizer.learning_rate", "a.b", "a.c", "a.d")
    edges = tuple(replace(EDGE, path=path, widen=f"space.{path}.low=0") for path in paths)
    summary = full_study(facts={COVERAGE.key: Coverage(10, edges)}, space=dict.fromkeys(paths, "0 to 1"))
    said = said_of(summary)
    assert "a.b" in said
    assert "a.c" not in said
    assert "and 2 further parameters (see the report)" in said


def test_an_edge_is_said_with_what_to_type() -> None:
    summary = full_study(facts={COVERAGE.key: Coverage(10, (EDGE, NARROW))})
    assert (
        "The winner and most of the best trials lie at an edge of the search space: agent.gamma 0.98 (low end of 0.9 "
        "to 0.999). To search beyond it, begin another study (study.name=...) with "
        "'space.agent.gamma.low=0.8'."
    ) in verdict(summary).details
    assert "one corner" not in said_of(summary), "narrow in one parameter only"
    page = render_page(summary)
    assert "space.agent.gamma.low=0.8" in page
    assert "Coverage of the search space" in page
    assert "2 (few)" in page


def test_a_corner_is_said_with_what_was_seen() -> None:
    other = Reach("agent.gamma", 10, 9, 1, 6.5)
    said = said_of(full_study(facts={COVERAGE.key: Coverage(10, (other, NARROW))}))
    assert (
        "The last 10 trials lie in one corner of the search space: in 2 of 2 parameters they cover less than half of "
        "what evenly drawn trials would cover (agent.gamma 1 of 10 parts of its range and "
        "optimizer.learning_rate 2 of 10 parts of its range)."
    ) in said
    assert "edge" not in said


def test_nothing_is_said_of_a_search_that_has_looked_everywhere() -> None:
    wide = Reach("agent.gamma", 10, 10, 7, 6.5)
    assert verdict(full_study(facts={COVERAGE.key: Coverage(10, (wide,))})) == verdict(full_study())
    assert "Coverage of the search space" not in render_page(full_study())


def test_a_study_sees_it_in_its_trials(tmp_path: Path) -> None:
    found = COVERAGE.of(run_study(tmp_path, num_trials=20))
    assert found is not None
    assert found.num_late == 10
    assert [reach.path for reach in found.reaches] == ["agent.gamma", "buffer.batch_size", "optimizer.learning_rate"]
    assert not found.is_corner, "they are drawn at random"
    assert COVERAGE.of(run_study(tmp_path / "few", num_trials=15)) is None
