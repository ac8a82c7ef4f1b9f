"""Optimizers of both frameworks take the same steps."""

import inspect
import math

import keras
import numpy as np
import pytest
import torch

from note_rl.errors import SettingsError
from note_rl.optimizers import AdamSettings, AdamWSettings, RMSpropSettings, SGDSettings
from note_rl.optimizers import keras as keras_optimizers
from note_rl.optimizers import pytorch as pytorch_optimizers
from note_rl.support.setting_fields import fields_of
from tests.note_rl.frameworks import frameworks

GRADIENTS = (1e-4, -3e-4, 0.0)  # as small as those of a loss that is a mean


def moved_in_keras(name, **options):
    variable = keras.Variable(np.zeros(1, np.float32))
    optimizer = getattr(keras_optimizers, name)([variable], **options)
    places = []
    for gradient in GRADIENTS:
        optimizer.apply([keras.ops.convert_to_tensor(np.full(1, gradient, np.float32))], [variable])
        places.append(float(variable.numpy()[0]))
    return places


def moved_in_pytorch(name, **options):
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = getattr(pytorch_optimizers, name)([parameter], **options)
    places = []
    for gradient in GRADIENTS:
        parameter.grad = torch.full((1,), gradient)
        optimizer.step()
        places.append(parameter.item())
    return places


@pytest.mark.parametrize("moved", [moved_in_keras, moved_in_pytorch])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_rmsprop_by_hand(moved, momentum):
    """v = rho v + (1 - rho) g^2, m = momentum m + g / (sqrt(v) + epsilon), then -learning_rate m."""
    place = velocity = moment = 0.0
    expected = []
    for gradient in GRADIENTS:
        velocity = 0.99 * velocity + 0.01 * gradient**2
        moment = momentum * moment + gradient / (math.sqrt(velocity) + 1e-5)
        place -= 0.01 * moment
        expected.append(place)
    assert expected[0] == pytest.approx(-0.05)  # 1e-4 / (1e-5 + 1e-5), of which 0.01
    options = {"learning_rate": 0.01, "rho": 0.99, "epsilon": 1e-5, "momentum": momentum}
    assert moved("rmsprop", **options) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("moved", [moved_in_keras, moved_in_pytorch])
@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_adam_by_hand(moved, name):
    """Means m and v are corrected by 1 - beta^t, then -learning_rate m / (sqrt(v) + epsilon)."""
    place = mean = square = 0.0
    expected = []
    for step, gradient in enumerate(GRADIENTS, start=1):
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        place -= 0.01 * (mean / (1 - 0.9**step)) / (math.sqrt(square / (1 - 0.999**step)) + 1e-5)
        expected.append(place)
    assert expected[0] == pytest.approx(-0.01 / 1.1)  # 1e-4 / (1e-4 + 1e-5), of which 0.01
    options = {"learning_rate": 0.01, "epsilon": 1e-5, "weight_decay": 0.0}
    assert moved(name, **options) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize(
    ("dtype", "epsilon", "moves"),
    [("float16", 1e-7, True), ("bfloat16", 1e-5, False), ("float64", 1e-5, True)],  # beta2 rounds to 1 in bfloat16
)
def test_an_epsilon_that_rounds_to_0_leaves_weights_without_a_gradient_where_they_are(dtype, epsilon, moves):
    weights = keras.Variable([1.0, 2.0], dtype=dtype)
    optimizer = keras_optimizers.Adam(0.01, epsilon=1e-7)
    optimizer.epsilon = keras.ops.convert_to_tensor(epsilon, "float32")
    optimizer.apply([keras.ops.convert_to_tensor([0.0, 0.5], dtype)], [weights])
    assert float(weights[0]) == 1.0
    assert float(weights[1]) == pytest.approx(1.99 if moves else 2.0, abs=2e-3)


@pytest.mark.parametrize("framework", frameworks())
def test_both_frameworks_take_the_same_settings_and_refuse_the_same(framework):
    optimizers, parameters = framework.optimizers, [framework.variable([1.0])]
    for name, settings in [
        ("adam", AdamSettings),
        ("adamw", AdamWSettings),
        ("rmsprop", RMSpropSettings),
        ("sgd", SGDSettings),
    ]:
        make = getattr(optimizers, name)
        taken = list(inspect.signature(make).parameters.values())
        assert [one.name for one in taken] == ["parameters", *(one.name for one in fields_of(settings))]
        assert [one.default for one in taken[1:]] == [one.default for one in fields_of(settings)]
        assert "learning_rate: Size of a gradient step. Higher: " in make.__doc__
        assert make(parameters, 0.5) is not make(parameters, learning_rate=0.0), "a rate of 0 freezes"
    for make, message in [
        (lambda: optimizers.adam(parameters, -1e-3), "learning_rate must be above 0, got -0.001"),
        (lambda: optimizers.adam(parameters, beta2=1), "beta2 must be at least 0 and below 1, got 1"),
        (lambda: optimizers.rmsprop(parameters, epsilon=0), "epsilon must be above 0, got 0"),
        (lambda: optimizers.sgd(parameters, weight_decay=-1.0), "weight_decay must be at least 0, got -1.0"),
    ]:
        with pytest.raises(SettingsError, match=f"^{message}$"):
            make()
