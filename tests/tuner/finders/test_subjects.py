"""Contents of an agent at hand that a finder's processes are given."""

from collections import OrderedDict, deque
from typing import Any

import numpy as np
import pytest

from note_rl.agents.pytorch import DQN
from note_rl.errors import SettingsError
from note_rl.learners.keras.keras_internals import all_layers
from note_rl.policy import EpsGreedyQPolicy
from tests.note_rl.frameworks import Framework, frameworks
from tuner.finders.subjects import LiveSubject, live_subject


@pytest.fixture(params=frameworks())
def framework(request: pytest.FixtureRequest) -> Framework:
    found: Framework = request.param
    return found


def test_what_was_set_since_an_agent_was_made_goes_along(framework: Framework) -> None:
    agent = made(framework)
    agent.gamma, agent.weights, agent.table = 0.5, {"of": [5.0, (0.1,)]}, np.array([3.0, 4.0], np.float32)
    there, _ = subject(framework, agent).build(0)
    assert (there.gamma, there.weights) == (0.5, {"of": [5.0, (0.1,)]})
    np.testing.assert_array_equal(there.table, agent.table)
    assert there.env is not None


class Sharing(DQN):
    """Holds a list that one of its layers holds, too."""

    def __init__(self) -> None:
        super().__init__(env="CartPole-v1", hidden_size=4)
        self.coefs, self.bonus = [1.0], 5.0
        self.q_net.coefs = self.coefs


def test_what_is_as_the_constructor_made_it_stays_that() -> None:
    agent = Sharing()
    agent.set(policy=EpsGreedyQPolicy(0.1))
    framework = Framework("pytorch")
    there, _ = subject(framework, agent).build(0)
    assert there.coefs is there.q_net.coefs
    agent.bonus, agent.counts = None, OrderedDict(a=deque([1]))
    there, _ = subject(framework, agent).build(0)
    assert (there.bonus, there.counts) == (None, OrderedDict(a=deque([1])))


def test_a_frozen_layer_is_frozen_there(framework: Framework) -> None:
    agent = made(framework)
    before = subject(framework, agent).about
    freeze_the_first_layer(framework, agent)
    there, _ = subject(framework, agent).build(0)
    wanted = [False, False, *[True] * (len(agent.param) - 2)]
    assert learning(framework, there) == learning(framework, agent) == wanted
    frozen = subject(framework, agent).about
    assert before["layers"] != frozen["layers"]
    assert before["weights"] == frozen["weights"]
    agent.table = [1.0]
    assert subject(framework, agent).about["attributes"] != frozen["attributes"]
    assert agent._learner is None, "it is as it was"


def test_a_layer_that_was_exchanged_is_refused_by_name() -> None:
    framework = Framework("pytorch")
    agent = made(framework)
    agent.q_net.linears[0].register_forward_hook(lambda layer, args, out: 2 * out)
    with pytest.raises(SettingsError, match=r"^a layer of DQN, or a hook of one, was set after the agent was made"):
        subject(framework, agent).build(0)


def made(framework: Framework) -> Any:
    agent = framework.agents.DQN(env="CartPole-v1", hidden_size=4)
    agent.set(policy=EpsGreedyQPolicy(0.1))
    return agent


def freeze_the_first_layer(framework: Framework, agent: Any) -> None:
    if framework.package == "pytorch":
        for parameter in agent.q_net.linears[0].parameters():
            parameter.requires_grad_(False)
    else:
        first_layer(agent.q_net).trainable = False


def first_layer(network: Any) -> Any:
    return next(layer for layer in all_layers(network) if layer.weights and all_layers(layer) == [layer])


def learning(framework: Framework, agent: Any) -> list[bool]:
    """Of each parameter, whether it learns."""
    if framework.package == "pytorch":
        return [parameter.requires_grad for parameter in agent.param]
    frozen = {id(one) for layer in all_layers(agent.q_net) if not layer.trainable for one in layer.weights}
    return [id(parameter) not in frozen for parameter in agent.param]


def subject(framework: Framework, agent: Any) -> LiveSubject:
    return live_subject(agent, framework.optimizers.sgd(agent.param, learning_rate=0.1), "LRFinder")
