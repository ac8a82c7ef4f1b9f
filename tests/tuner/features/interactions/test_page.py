"""Pairs of parameters on the page."""

from tests.tuner.reporting.summaries import full_study
from tuner.features.interactions.facts import INTERACTIONS, Interactions
from tuner.features.interactions.figures import interactions_figure
from tuner.reporting.page import render_page


def test_pairs_of_weight_and_above_chance_are_named() -> None:
    pairs = (("optimizer.learning_rate", "agent.gamma", 0.3), ("agent.gamma", "agent.tau", 0.06), ("a.b", "a.c", 0.04))
    text = render_page(full_study(facts={INTERACTIONS.key: Interactions(pairs, 0.05)}))
    assert "above it are optimizer.learning_rate with agent.gamma (30%) and agent.gamma with agent.tau (6%)." in text
    assert "above it is optimizer.learning_rate with agent.gamma (30%)." in render_page(
        full_study(facts={INTERACTIONS.key: Interactions(pairs, 0.2)})
    )
    none = render_page(full_study(facts={INTERACTIONS.key: Interactions(pairs[2:], 0.01)}))
    assert "no pair is above it with 5% or more" in none
    figure = interactions_figure(Interactions(pairs, 0.05))
    bars, marks = figure["data"]
    assert bars["y"] == ["a.b x a.c 4%", "agent.gamma x agent.tau 6%", "optimizer.learning_rate x agent.gamma 30%"]
    assert bars["x"] == [0.04, 0.06, 0.3]
    assert marks["x"] == [0.05] * 3
    assert "30 trials with a score" in render_page(full_study())
