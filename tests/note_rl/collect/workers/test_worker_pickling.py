"""Parts that cannot go to worker processes are named."""

import threading

import pytest

from note_rl.errors import SettingsError
from tests.note_rl.collect.counting import CountingAgent, Watched, settings
from tests.note_rl.collect.workers.pool_agents import TURNS, agent, workers_left


def test_what_cannot_be_pickled_is_refused_by_name():
    class Locked(Watched):
        def __init__(self):
            super().__init__()
            self.lock = threading.Lock()

    with pytest.raises(
        SettingsError, match=r"sends agent.env\[1\] to worker.*lock.*set self.env to an id, an EnvFactory"
    ):
        agent(TURNS, env=[Watched(), Locked()], num_envs=2).train(total_steps=10)
    made = CountingAgent(Watched, mirrored=threading.Lock())  # true, but no plain argument
    made.settings = settings(TURNS)
    made.mirrored = False
    with pytest.raises(SettingsError, match=r"constructor's argument 'mirrored' of CountingAgent.*lock"):
        made.train(total_steps=10)
    assert workers_left() == []
