"""How the weights of a perceptron begin, in both frameworks."""

import numpy as np
import pytest

from note_rl.errors import SettingsError
from note_rl.seeding import seed_everything
from tests.note_rl.frameworks import frameworks

pytestmark = pytest.mark.parametrize("framework", frameworks())


def perceptron(framework, initializer, output_gain=0.01):
    """As PPO begins."""
    made = framework.module("shared/networks").MLP((3,), 2, (16, 16), "tanh", initializer)
    made.start_orthogonal(output_gain)
    return made.dense_layers()


def agent_layers(framework, **options):
    from functools import partial

    seed_everything(0)
    network = partial(framework.module("shared/networks").MLP, hidden_sizes=(16, 16), activation="tanh", **options)
    return framework.agents.A2C(env="Pendulum-v1", network=network).actor.dense_layers()


@pytest.mark.parametrize("initializer", [None, "orthogonal"])
def test_orthogonal_where_the_agent_begins_so(framework, initializer):
    (_, _, _), (kernel, bias, _), (last, _, _) = perceptron(framework, initializer)
    np.testing.assert_allclose(kernel.T @ kernel, 2.0 * np.eye(16), atol=1e-5)
    np.testing.assert_allclose(last.T @ last, 1e-4 * np.eye(2), atol=1e-7)
    np.testing.assert_array_equal(bias, np.zeros(16))


@pytest.mark.parametrize(
    ("initializer", "bound"), [("uniform", 0.25), ("he_uniform", 6**0.5 / 4), ("glorot_uniform", (6 / 32) ** 0.5)]
)
def test_another_initializer_stays_whatever_the_agent_begins_with(framework, initializer, bound):
    """The hidden layer has 16 inputs and 16 outputs."""
    _, (kernel, bias, _), (last, _, _) = perceptron(framework, initializer)
    largest = np.abs(kernel).max()
    assert 0.9 * bound < largest <= bound
    assert np.abs(last).max() > 0.1, "no small gain of an orthogonal layer"
    assert bool(np.any(bias)) is (initializer == "uniform")


def test_biases_are_drawn_for_themselves(framework):
    """Not as the first numbers of the kernel."""
    for kernel, bias, _ in perceptron(framework, "uniform"):
        assert not np.isclose(kernel.ravel()[: len(bias)], bias).any()


def test_an_agent_is_made_with_it(framework):
    plain, uniform = agent_layers(framework), agent_layers(framework, initializer="uniform")
    assert np.abs(plain[-1][0]).max() < 0.02 < np.abs(uniform[-1][0]).max()


def test_an_unknown_one_is_refused(framework):
    with pytest.raises(SettingsError, match="initializer must be one of orthogonal"):
        perceptron(framework, "normal")
