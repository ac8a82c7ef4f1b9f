"""Figures as the page holds them."""

from tests.tuner.reporting.summaries import full_study
from tests.tuner.reporting.test_page import Parsed
from tuner.reporting.page import make_figures, render_page
from tuner.reporting.page_data import packed_figures
from tuner.results.verdict import verdict


def test_figures_cross_to_the_page_unchanged_but_for_digits_nobody_sees() -> None:
    summary = full_study()
    drawings = make_figures(summary, verdict(summary))
    drawings["history-figure"]["data"][0]["y"][0] = 0.12345678901234
    packed = packed_figures(drawings)
    assert len(set(packed["texts"])) == len(packed["texts"])
    received = Parsed(render_page(summary)).figures()
    assert packed["figures"]["history-figure"]["data"][0]["y"][0] == 0.1234568
    for name, drawing in make_figures(summary, verdict(summary)).items():
        words = [trace.get("customdata") for trace in drawing["data"]]
        assert [trace.get("customdata") for trace in received[name]["data"]] == words
        assert [trace.get("name") for trace in received[name]["data"]] == [t.get("name") for t in drawing["data"]]
