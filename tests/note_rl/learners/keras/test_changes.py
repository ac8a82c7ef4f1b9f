"""Changes after a Keras agent was traced: traced steps are those that are taken as they are written."""

from functools import cache

import keras
import numpy as np
import pytest

from note_rl.agents.shared.keras.networks import soft_update
from note_rl.policy import EpsGreedyQPolicy
from tests.note_rl.learners.keras.changing_agents import OfLayers, OfNumbers, set_to, trained
from tests.note_rl.learners.keras.noted import assert_followed
from tests.note_rl.samples import sample


def exchange(agent):
    agent.net.layers[3].inner = agent.net.layers[3].other


LAYERS = {  # numbers of other layers, and those of own ones: test_layers_that_change.py
    "rate of dropout": set_to("net.layers[1].rate", 0.0),
    "frozen layer": set_to("net.layers[0].trainable", False),
    "constraint": set_to("net.layers[0].kernel.constraint.max_value", 0.01),
    "frozen variable": set_to("net.layers[0].kernel.trainable", False),
    "activation": set_to("net.layers[0].activation", keras.activations.tanh),
    "another layer within one": exchange,
}


@cache
def unchanged():
    weights = trained(OfLayers, lambda agent: None, untraced=True).net.get_weights()
    return weights


@pytest.mark.parametrize("what", LAYERS)
def test_layers_that_change_are_followed(what):
    agent = OfLayers()
    assert_followed(agent, LAYERS[what])


@pytest.mark.parametrize(  # that they are traced anew where a change is noticed
    "what",
    ["rate of dropout", *(pytest.param(what, marks=pytest.mark.slow) for what in ("frozen layer", "activation"))],
)
def test_traced_steps_use_layers_that_have_changed(what):
    followed = trained(OfLayers, LAYERS[what], again=what == "rate of dropout")
    assert followed.learner.num_traces == 2
    found, expected = followed.net.get_weights(), trained(OfLayers, LAYERS[what], untraced=True).net.get_weights()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    assert max(np.abs(a - b).max() for a, b in zip(found, unchanged(), strict=True)) > 1e-3


@pytest.mark.parametrize("untraced", [False, True])
def test_frozen_layers_stay_as_they_are_while_others_learn(untraced):
    before = []

    def freeze(agent):
        agent.net.layers[0].trainable = False
        before.extend(agent.net.get_weights())

    agent = trained(OfLayers, freeze, untraced)
    moved = [not np.array_equal(a, b) for a, b in zip(before, agent.net.get_weights(), strict=True)]
    assert moved[:2] == [False, False]
    assert all(moved[2:8])  # batch normalisation with its statistics, and the inner layer of the last one
    agent.net.trainable = False  # nothing is left to learn
    before = agent.net.get_weights()
    agent.learner.update(sample(1, 4), {})
    np.testing.assert_equal(agent.net.get_weights(), before)


def test_a_frozen_layer_s_target_moves_on_as_softly_as_before():
    online, target = (keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)]) for _ in range(2))
    online.set_weights([np.array([[1.0]]), np.array([1.0])])
    target.set_weights([np.array([[0.0]]), np.array([0.0])])
    online.layers[0].trainable = False
    soft_update(target, online, 0.25)
    np.testing.assert_equal(target.get_weights(), [np.array([[0.25]], np.float32), np.array([0.25], np.float32)])


class PastTheAgent(OfNumbers):
    """Reads what no attribute of its own leads to, or an object of this project."""

    def __init__(self, read):
        super().__init__()
        self.read_so = read
        self.exploring = EpsGreedyQPolicy(1.0)

    def scale(self):
        if self.read_so == "type":
            return type(self).margin
        if self.read_so == "class":
            return self.__class__.margin
        if self.read_so == "dictionary":
            return self.__dict__["nested"]["a"]["b"]
        return self.exploring.eps


@pytest.mark.parametrize(
    ("read", "change"),
    [
        ("type", lambda agent: setattr(PastTheAgent, "margin", 3.0)),
        ("class", lambda agent: setattr(PastTheAgent, "margin", 3.0)),
        ("dictionary", lambda agent: agent.nested["a"].update(b=3.0)),
        ("policy", lambda agent: setattr(agent.exploring, "eps", 3.0)),
    ],
)
def test_what_is_read_past_the_agent_is_followed(read, change, monkeypatch):
    monkeypatch.setattr(PastTheAgent, "margin", 1.0, raising=False)
    agent = PastTheAgent(read)
    assert agent.scale() == 1.0
    assert_followed(agent, change)
    assert agent.scale() == 3.0


@pytest.mark.parametrize(
    ("read", "change", "back"),
    [
        (
            lambda held: 3.0 if keras.config.floatx() == "float64" else 1.0,
            lambda agent: keras.config.set_floatx("float64"),
            lambda: keras.config.set_floatx("float32"),
        ),
        (
            lambda held: 3.0 if keras.config.epsilon() > 1e-3 else 1.0,
            lambda agent: keras.config.set_epsilon(1e-2),
            lambda: keras.config.set_epsilon(1e-7),
        ),
        (
            lambda held: 3.0 if keras.config.dtype_policy().name == "mixed_float16" else 1.0,
            lambda agent: keras.config.set_dtype_policy("mixed_float16"),
            lambda: keras.config.set_dtype_policy("float32"),
        ),
    ],
    ids=["floatx", "epsilon", "dtype policy"],
)
def test_settings_of_keras_are_followed(read, change, back):
    try:
        assert read(None) == 1.0
        assert_followed(OfNumbers(None, read), change)
        assert read(None) == 3.0
    finally:
        back()
