"""Curves: what is drawn, and what is said when nothing can be."""

import logging
import sys

import matplotlib as mpl
import matplotlib.pyplot
import numpy as np
import pytest

from note_rl.errors import SettingsError
from note_rl.policy import EpsGreedyQPolicy
from note_rl.training import curve_plots
from note_rl.training.curve_plots import History, moving_average
from tests.note_rl.frameworks import frameworks
from tests.note_rl.small_environments import Counting

HISTORY = History(returns=[1.0, 3.0, 5.0], episode_steps=[2, 4, 8], losses=[np.nan, 0.5, 1.5], phase_steps=[2, 6, 8])


@pytest.fixture(autouse=True)
def without_windows():
    mpl.use("Agg")


@pytest.fixture
def drawn(monkeypatch):
    """The lines of the figures that would have been shown: [(label, x, y), ...] per axes."""
    figures = []

    def keep(figure, path):
        figures.extend([(line.get_label(), *line.get_data()) for line in axes.lines] for axes in figure.axes)
        mpl.pyplot.close(figure)

    monkeypatch.setattr(curve_plots, "show_or_save", keep)
    return figures


def test_moving_average_by_hand():
    np.testing.assert_allclose(moving_average([1.0, 3.0, 5.0, 11.0], 2), [1.0, 2.0, 4.0, 8.0])
    np.testing.assert_allclose(moving_average([np.nan, 4.0, np.nan, 6.0], 2), [np.nan, 4.0, 4.0, 6.0])
    assert moving_average([], 3).tolist() == []


def test_returns_over_episodes(drawn):
    curve_plots.plot_reward(HISTORY, 2, None)
    (((label, x, y), (smooth_label, _, smooth)),) = drawn
    assert (label, smooth_label) == ("return of an episode", "mean of 2")
    assert (list(x), list(y), list(smooth)) == ([1, 2, 3], [1.0, 3.0, 5.0], [1.0, 2.0, 4.0])


def test_losses_over_steps_begin_with_learning(drawn):
    curve_plots.plot_loss(HISTORY, 2, None)
    (((_, x, y), (_, _, smooth)),) = drawn
    assert (list(x), list(y), list(smooth)) == ([6, 8], [0.5, 1.5], [0.5, 1.0])


def test_both_share_the_steps(drawn):
    curve_plots.plot_reward_and_loss(HISTORY, None, None)
    upper, lower = drawn
    assert list(upper[0][1]) == [2, 4, 8]
    assert list(lower[0][1]) == [6, 8]


def test_an_empty_history_is_refused():
    for draw in (curve_plots.plot_reward, curve_plots.plot_loss, curve_plots.plot_reward_and_loss):
        with pytest.raises(SettingsError, match=r"nothing to draw.*call train"):
            draw(History(), None, None)
    with pytest.raises(SettingsError, match="no gradient step"):
        curve_plots.plot_loss(History(losses=[np.nan], phase_steps=[1]), None, None)


def test_history_survives_a_checkpoint():
    again = History.from_state(HISTORY.get_state())
    assert (again.returns, again.episode_steps, again.phase_steps) == ([1.0, 3.0, 5.0], [2, 4, 8], [2, 6, 8])
    np.testing.assert_array_equal(again.losses, HISTORY.losses)
    assert History.from_state({}) == History()


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("framework", frameworks())
def test_an_agent_writes_pictures(framework, tmp_path):
    agent = framework.agents.DQN(hidden_size=(4,), env=lambda: Counting(5))
    agent.set(policy=EpsGreedyQPolicy(0.1), pool_size=50, batch=4, num_updates=1)
    agent.train(optimizer=framework.optimizers.adam(agent.param), episodes=12, p=0)
    agent.visualize_reward(tmp_path / "sub" / "reward.png")
    agent.visualize_loss(tmp_path / "loss.pdf", window=3)
    agent.visualize_reward_loss(str(tmp_path / "both.png"))
    assert (tmp_path / "sub" / "reward.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "loss.pdf").read_bytes()[:4] == b"%PDF"
    assert (tmp_path / "both.png").stat().st_size > 5000
    assert mpl.pyplot.get_fignums() == []


def test_without_a_window_a_path_is_asked_for(caplog):
    with caplog.at_level(logging.WARNING):
        curve_plots.plot_reward(HISTORY, None, None)
    assert "no window to show the figure in" in caplog.text
    assert "path='curve.png'" in caplog.text


def test_where_there_are_windows_the_figure_is_shown(monkeypatch):
    from matplotlib import pyplot

    shown = []
    monkeypatch.setattr(pyplot, "get_backend", lambda: "TkAgg")
    monkeypatch.setattr(pyplot, "show", lambda: shown.append(len(pyplot.get_fignums())))
    curve_plots.plot_reward(HISTORY, None, None)
    assert shown == [1]


def test_without_matplotlib_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"visualize_loss\(\) needs matplotlib.*note-rl\[plot\]"):
        curve_plots.plot_loss(HISTORY, None, None)
