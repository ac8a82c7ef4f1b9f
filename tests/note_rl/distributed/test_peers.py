"""How minibatches are dealt out to replicas, and which losses cannot be."""

import numpy as np
import pytest

from note_rl.distributed.minibatch_shares import check_divides, share_of
from note_rl.errors import AgentContractError, SettingsError
from note_rl.learners.peers import Alone
from tests.note_rl.frameworks import frameworks
from tests.note_rl.samples import agent_with, ready, sample


def test_shares_are_the_rows_in_order_and_each_has_them_once():
    whole = sample(3, 6, sync=True, weights=np.arange(18, dtype=np.float32).reshape(3, 6), advantage=True)
    shares = [share_of(whole, rank, 3) for rank in range(3)]
    for name in ("obs", "action", "reward", "next_obs", "terminated", "discount", "weights"):
        together = np.concatenate([getattr(share, name) for share in shares], axis=1)
        np.testing.assert_array_equal(together, getattr(whole, name), strict=True)
    np.testing.assert_array_equal(shares[1].extras["advantage"], whole.extras["advantage"][:, 2:4])
    assert all(share.sync.tolist() == [True] * 3 for share in shares)


def test_what_cannot_be_dealt_out_is_refused():
    with pytest.raises(SettingsError, match=r"minibatches of 65 .* 2 replicas .* such as batch/batch_size=66"):
        check_divides(2, 65)
    with pytest.raises(SettingsError, match="minibatches of 4 cannot be dealt out to 3"):
        share_of(sample(2, 4), 0, 3)


def test_alone_gives_back_what_it_is_given():
    assert (Alone().size, Alone().rank, Alone().mean([1.0, 2.0])) == (1, 0, [1.0, 2.0])


class Two(Alone):
    size = 2


@pytest.mark.parametrize("framework", [frameworks()[0]])
def test_a_sum_over_samples_is_refused_as_replicas_are_averaged(framework):
    def loss(agent, s, r, d):
        return ((agent.action(s)[:, 0] - r) ** 2).sum()

    learner = ready(framework, agent_with(framework, loss))
    learner.update(sample(), {})  # alone, it may
    learner = ready(framework, agent_with(framework, loss))
    learner.join(Two())
    with pytest.raises(AgentContractError, match="a sum over samples"):
        learner.update(sample(), {})


@pytest.mark.parametrize("framework", [frameworks()[0]])
def test_a_mean_with_a_term_of_its_own_is_none(framework):
    def loss(agent, s, r, d):
        return ((agent.action(s)[:, 0] - r) ** 2).mean() + 0.1 * (agent.w**2).sum()

    learner = ready(framework, agent_with(framework, loss))
    learner.join(Two())
    learner.prepare(None, None, [], "auto")
    assert np.isfinite(learner.update(sample(), {}).loss).all()


def test_batch_normalisation_is_refused():
    import torch

    framework = frameworks()[0].values[0]
    agent = agent_with(framework, None)
    agent.net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    agent.param = [*agent.param, *agent.net.parameters()]
    with pytest.raises(AgentContractError, match="batch normalisation"):
        agent.learner.join(Two())
