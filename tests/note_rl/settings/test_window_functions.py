"""How much of a pool is kept: `window_size_func` and `window_size_fn`."""

import pytest

from note_rl.errors import SettingsError
from tests.note_rl.small_dqn import ONCE, dqn, train


@ONCE
@pytest.mark.parametrize("name", ["window_size_func", "window_size_fn"])
def test_window_functions_by_both_names(framework, name):
    kind = type("Own", (framework.agents.DQN,), {name: lambda self, p: 6})
    as_method, as_attribute = dqn(framework, kind=kind), dqn(framework)
    setattr(as_attribute, name, lambda p: 6)
    for agent in (as_method, as_attribute):
        train(framework, agent, 6)
        assert len(agent._trainer.experience.buffer.ring) == 6


@ONCE
def test_window_functions_that_differ_or_are_none(framework):
    agent = dqn(framework)
    agent.window_size_func, agent.window_size_fn = (lambda p: 6), (lambda p: 7)
    with pytest.raises(SettingsError, match="window_size_func and window_size_fn are two names of one thing"):
        train(framework, agent)
    agent.window_size_func, agent.window_size_fn = None, 100
    with pytest.raises(SettingsError, match="window_size_fn must be a function such as"):
        train(framework, agent)
