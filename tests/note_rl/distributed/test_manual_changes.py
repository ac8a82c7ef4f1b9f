"""Changes by a callback on rank 0 reach all ranks."""

import numpy as np
import pytest
import torch

from note_rl.agents.pytorch import DQN
from note_rl.errors import SettingsError
from note_rl.policy import EpsGreedyQPolicy
from note_rl.settings import Budget
from note_rl.training.callbacks import Callback
from tests.note_rl.distributed.rank_agents import REPLAY, dqn, made, optimizer_of, parameters
from tests.note_rl.distributed.ranks import alike, trained_together


class ByHand(Callback):
    """Sets by hand what a run learns with, in the middle of it.

    Args:
        agent: That of rank 0.
        optimizer: Of it.
    """

    def __init__(self, agent, optimizer):
        self.agent, self.optimizer = agent, optimizer
        self.kept = None

    def on_phase_end(self, phase, logs):
        with torch.no_grad():
            if phase == 8:
                self.agent.param[0].mul_(0.5)
            if phase == 10:
                for tensor in self.agent.target_q_net.parameters():
                    tensor.add_(0.1)
            if phase == 12:
                self.optimizer.state[self.agent.param[1]]["exp_avg"].zero_()
        if phase == 14:
            self.agent.param[2].requires_grad_(False)
            self.kept = self.agent.param[2].detach().clone()


def test_what_a_callback_sets_reaches_every_rank(monkeypatch):
    monkeypatch.setattr("note_rl.distributed.leader._COMPARED_OFTEN", 1)
    results = []
    for size in (1, 2):
        agent, optimizers, steps = made(lambda: dqn(num_envs=2))
        agents = alike(agent, size)
        given = [optimizer_of(one, optimizers) for one in agents]
        by_hand, errors = ByHand(agent, given[0]), []
        if size == 1:
            agent.train(given[0], total_steps=steps, callbacks=by_hand, p=0)
        else:
            trained_together(agents, given, Budget(total_steps=steps), errors, callbacks=by_hand)
        assert not errors
        assert by_hand.kept is not None
        for one in agents:
            torch.testing.assert_close(one.param[2].detach(), by_hand.kept, rtol=0, atol=0)  # frozen on each of them
        first = {name: values for name, values in agent.learner.get_state().items() if "random" not in name}
        for other in agents[1:]:
            for name, values in first.items():
                np.testing.assert_array_equal(other.learner.get_state()[name], values)
        results.append(parameters(agent))
    for name, values in results[0].items():
        np.testing.assert_allclose(results[1][name], values, rtol=0, atol=1e-5)


class Dropping(DQN):
    """DQN with units that are dropped, and a note of what each loss has found of its layers."""

    def __init__(self):
        super().__init__(hidden_size=(8,))
        self.q_net = torch.nn.Sequential(self.q_net, torch.nn.Dropout(0.5))
        self.seen = []

    def __call__(self, *arguments):
        self.seen.append((self.q_net[1].p, self.q_net[1].training))
        return super().__call__(*arguments)


def dropping():
    agent = Dropping()
    agent.set(policy=EpsGreedyQPolicy(0.2), **REPLAY, seed=1)
    return agent, [torch.optim.Adam(agent.param, 1e-3)], 120


class ChangingLayers(Callback):
    def __init__(self, agent):
        self.agent = agent

    def on_phase_end(self, phase, logs):
        if phase == 7:
            self.agent.q_net[1].p = 0.25
        if phase == 9:
            self.agent.q_net[1].eval()


def test_layers_are_on_all_ranks_what_a_callback_has_made_of_them():
    agent, optimizers, steps = made(dropping)
    agents = alike(agent, 2)
    given = [optimizer_of(one, optimizers) for one in agents]
    errors = []
    trained_together(agents, given, Budget(total_steps=steps), errors, callbacks=ChangingLayers(agent))
    assert not errors
    for one in agents:
        assert list(dict.fromkeys(one.seen)) == [(0.5, True), (0.25, True), (0.25, False)]
    mine = agents[0].seen[-40:]
    assert agents[1].seen[-40:] == mine


@pytest.mark.parametrize(
    "change",
    [
        lambda agent: setattr(agent, "q_net", torch.nn.Sequential(agent.q_net, torch.nn.Identity())),
        lambda agent: agent.q_net[1].register_forward_hook(lambda *arguments: None),
        lambda agent: agent.q_net.append(torch.nn.Identity()),
    ],
    ids=["another network", "a hook", "one layer more"],
)
def test_layers_that_cannot_be_sent_are_refused(change):
    class Exchanging(Callback):
        def on_phase_end(self, phase, logs):
            if phase == 7:
                change(agent)

    agent, optimizers, steps = made(dropping)
    agents = alike(agent, 2)
    given = [optimizer_of(one, optimizers) for one in agents]
    with pytest.raises(SettingsError, match="exchanged, added or removed a layer or a hook"):
        trained_together(agents, given, Budget(total_steps=steps), [], callbacks=Exchanging())
