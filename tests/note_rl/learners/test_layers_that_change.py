"""Kinds of layers times what may be set on them between updates: steps are those that are taken as they are written."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from note_rl import RL, RL_pytorch
from note_rl.optimizers import keras as of_keras
from note_rl.optimizers import pytorch as of_torch
from note_rl.seeding import seed_everything
from tests.note_rl.learners.keras.noted import assert_followed
from tests.note_rl.samples import sample

LONG = 10_000  # gradient steps to come, for which recording pays


class OwnLayers:
    """Layers with a number, in each framework; made when they are asked for."""

    @staticmethod
    def torch() -> Any:
        from torch import nn

        class Times(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.scale, self.held = 1.0, {"inner": [1.0]}

            def forward(self, x: Any) -> Any:
                return x * self.scale * self.held["inner"][0]

        return Times()

    @staticmethod
    def keras() -> Any:
        import keras

        class Times(keras.layers.Layer):
            def __init__(self) -> None:
                super().__init__()
                self.scale, self.held = 1.0, {"inner": [1.0]}

            def call(self, x: Any) -> Any:
                return x * self.scale * self.held["inner"][0]

        return Times()


def torch_agent(make: Callable[[], Any]) -> Any:
    """Learns the reward by a network with one such layer in its middle."""
    from torch import nn

    layer = make()

    class Agent(RL_pytorch):
        traceable = True
        couples_samples = True

        def __init__(self) -> None:
            super().__init__()
            first: Any = nn.Linear(2, 8)
            self.net = nn.Sequential(first, layer, nn.Linear(8, 1))
            self.param = list(self.net.parameters())

        def action(self, s: Any) -> Any:
            return self.net(s)

        def __call__(self, s: Any, a: Any, next_s: Any, r: Any, d: Any) -> Any:
            return (self.net(s)[:, 0] - r).square()

    return Agent()


def keras_agent(make: Callable[[], Any]) -> Any:
    """The same in Keras."""
    import keras
    import tensorflow as tf

    layer = make()

    class Agent(RL):
        couples_samples = True

        def __init__(self) -> None:
            super().__init__()
            self.net = keras.Sequential([keras.Input((2,)), keras.layers.Dense(8), layer, keras.layers.Dense(1)])
            self.param = self.net.trainable_variables

        def action(self, s: Any) -> Any:
            return self.net(s)

        def __call__(self, s: Any, a: Any, next_s: Any, r: Any, d: Any) -> Any:
            return tf.reduce_mean(tf.square(self.net(s)[:, 0] - r))

    return Agent()


def torch_layers() -> Any:
    from torch import nn

    return nn


def keras_layers() -> Any:
    import keras

    return keras.layers


Change = Callable[[Any], object]


def setting(**values: Any) -> Change:
    def change(layer: Any) -> None:
        for name, value in values.items():
            setattr(layer, name, value)

    return change


def off(layer: Any) -> Any:
    return layer.requires_grad_(False)


def evaluating(layer: Any) -> Any:
    return layer.eval()


def hooked(layer: Any) -> Any:
    return layer.register_forward_hook(lambda layer, inputs, output: 0.5 * output)


def hooked_before(layer: Any) -> Any:
    return layer.register_forward_pre_hook(lambda layer, inputs: (0.5 * inputs[0],))


def hooked_backwards(layer: Any) -> Any:
    return layer.register_full_backward_hook(lambda layer, given, gave: (0.5 * given[0],))


OF_TORCH: dict[str, tuple[Callable[[], Any], dict[str, Change]]] = {
    "Dropout": (lambda: torch_layers().Dropout(0.5), {"p": setting(p=0.1), "eval": evaluating, "hook": hooked}),
    "AlphaDropout": (lambda: torch_layers().AlphaDropout(0.5), {"p": setting(p=0.1), "eval": evaluating}),
    "BatchNorm": (
        lambda: torch_layers().BatchNorm1d(8),
        {"momentum": setting(momentum=None), "track": setting(track_running_stats=False), "frozen": off},
    ),
    "LayerNorm": (
        lambda: torch_layers().LayerNorm(8),
        {"eps": setting(eps=1.0), "frozen": off, "bias": setting(bias=None), "hook before": hooked_before},
    ),
    "GroupNorm": (
        lambda: torch_layers().GroupNorm(2, 8),
        {"eps": setting(eps=1.0), "num_groups": setting(num_groups=4), "frozen": off},
    ),
    "RMSNorm": (lambda: torch_layers().RMSNorm(8), {"eps": setting(eps=1.0), "frozen": off}),
    "RReLU": (lambda: torch_layers().RReLU(), {"upper": setting(upper=0.9), "eval": evaluating}),
    "ELU": (lambda: torch_layers().ELU(), {"alpha": setting(alpha=3.0), "hook backwards": hooked_backwards}),
    "Softplus": (lambda: torch_layers().Softplus(), {"beta": setting(beta=3.0), "threshold": setting(threshold=-9.0)}),
    "Hardtanh": (lambda: torch_layers().Hardtanh(), {"max_val": setting(max_val=0.1)}),
    "PReLU": (lambda: torch_layers().PReLU(), {"frozen": off}),
    "own": (OwnLayers.torch, {"number": setting(scale=3.0), "held": lambda layer: layer.held["inner"].insert(0, 3.0)}),
}
OF_KERAS: dict[str, tuple[Callable[[], Any], dict[str, Change]]] = {
    "GaussianDropout": (lambda: keras_layers().GaussianDropout(0.5), {"rate": setting(rate=0.1)}),
    "GaussianNoise": (lambda: keras_layers().GaussianNoise(0.5), {"stddev": setting(stddev=3.0)}),
    "BatchNormalization": (
        lambda: keras_layers().BatchNormalization(),
        {"epsilon": setting(epsilon=1.0), "momentum": setting(momentum=0.1), "frozen": setting(trainable=False)},
    ),
    "LayerNormalization": (
        lambda: keras_layers().LayerNormalization(),
        {"epsilon": setting(epsilon=1.0), "frozen": setting(trainable=False)},
    ),
    "GroupNormalization": (
        lambda: keras_layers().GroupNormalization(2),
        {"epsilon": setting(epsilon=1.0)},
    ),
    "RMSNormalization": (lambda: keras_layers().RMSNormalization(), {"epsilon": setting(epsilon=1.0)}),
    "LeakyReLU": (lambda: keras_layers().LeakyReLU(), {"negative_slope": setting(negative_slope=3.0)}),
    "Dense": (
        lambda: keras_layers().Dense(8),
        {"dtype_policy": setting(dtype_policy="float16"), "use_bias": setting(bias=None)},
    ),
    "own": (OwnLayers.keras, {"number": setting(scale=3.0), "held": lambda layer: layer.held["inner"].insert(0, 3.0)}),
}


def cases(table: dict[str, tuple[Callable[[], Any], dict[str, Change]]]) -> list[Any]:
    return [
        pytest.param(make, change, id=f"{kind}-{what}")
        for kind, (make, changes) in table.items()
        for what, change in changes.items()
    ]


def weights_of(learner: Any) -> dict[str, np.ndarray]:
    return {name: np.asarray(values) for name, values in learner.get_state().items() if "random" not in name}


def torch_learner(make: Callable[[], Any], change: Change, jit: Any) -> Any:
    seed_everything(0)
    agent = torch_agent(make)
    agent.learner.prepare(of_torch.sgd(agent.param, 0.1), None, (), jit)
    agent.learner.expect(LONG)
    agent.learner.update(sample(1, 8), {})
    change(agent.net[1])
    agent.learner.update(sample(1, 8, seed=1), {})
    return agent.learner


def keras_learner(make: Callable[[], Any], change: Change, untraced: bool) -> Any:
    seed_everything(0)
    agent = keras_agent(make)
    agent.learner.prepare(of_keras.sgd(agent.param, 0.1), None, (), False)
    agent.learner._update.compilation.untraced = untraced
    agent.learner.update(sample(1, 8), {})
    change(agent.net.layers[1])
    agent.learner.update(sample(1, 8, seed=1), {})
    return agent.learner


@cache
def unchanged(learner_of: Callable[..., Any], make: Callable[[], Any], way: bool) -> dict[str, np.ndarray]:
    return weights_of(learner_of(make, lambda layer: None, way))


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], **tolerance: float) -> None:
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, err_msg=name, **tolerance)


def assert_moved(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> None:
    assert any(not np.array_equal(values, other.get(name)) for name, values in one.items()), "it changes nothing"


@pytest.mark.parametrize(("make", "change"), cases(OF_TORCH))
def test_a_layer_of_torch_that_changes_is_followed_to_the_last_bit(make: Callable[[], Any], change: Change) -> None:
    plain, recorded = (torch_learner(make, change, jit) for jit in (False, "auto"))
    assert recorded.num_traces >= 1 or make is OwnLayers.torch  # which only jit_compile=True records
    assert_same(weights_of(recorded), weights_of(plain), rtol=0)
    assert_moved(weights_of(plain), unchanged(torch_learner, make, False))


@pytest.mark.parametrize(("make", "change"), cases(OF_KERAS))
def test_a_layer_of_keras_that_changes_is_followed(make: Callable[[], Any], change: Change) -> None:
    assert_followed(keras_agent(make), lambda agent: change(agent.net.layers[1]))


TRACED = {"BatchNormalization": "frozen", "Dense": "use_bias", "own": "held"}


@pytest.mark.slow  # once: keras/test_changes.py; that each is noticed: the test above
@pytest.mark.parametrize(
    ("make", "change"),
    cases({kind: (OF_KERAS[kind][0], {what: OF_KERAS[kind][1][what]}) for kind, what in TRACED.items()}),
)
def test_traced_steps_use_layers_that_have_changed(make: Callable[[], Any], change: Change) -> None:
    plain, traced = (keras_learner(make, change, untraced) for untraced in (True, False))
    assert traced.num_traces == 2
    assert_same(weights_of(traced), weights_of(plain), rtol=1e-3, atol=1e-4)
    assert_moved(weights_of(plain), unchanged(keras_learner, make, True))
