"""Numbers set on the layers of one agent are set on those of another that is like it, as ranks do with each other."""

import json
from typing import Any

import numpy as np
import pytest

from tests.note_rl.frameworks import Framework, frameworks


class Fixed:
    """Agents with a dropout layer between two others, in each framework; `layers` are the three."""

    def __init__(self, framework: Framework) -> None:
        self.is_torch = framework.package == "pytorch"
        if self.is_torch:
            from torch import nn

            network: Any = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))
        else:
            import keras

            network = keras.Sequential([keras.layers.Dense(4), keras.layers.Dropout(0.5), keras.layers.Dense(2)])
            network.build((None, 3))

        class Agent(framework.base()):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.networks = [network]
                self.param = list(network.parameters()) if hasattr(network, "parameters") else network.weights

            def action(self, s: Any) -> Any:
                return self.networks[0](s)

            def __call__(self, s: Any, a: Any, next_s: Any, r: Any, d: Any) -> Any:
                return self.networks[0](s).mean()

        self.agent = Agent()

    def layers(self, agent: Any) -> list[Any]:
        network = agent.networks[0]
        return list(network) if self.is_torch else network.layers

    def freeze(self, layer: Any) -> None:
        if self.is_torch:
            layer.weight.requires_grad_(False)
        else:
            layer.trainable = False

    def learns(self, layer: Any) -> list[bool]:
        if self.is_torch:
            return [parameter.requires_grad for parameter in layer.parameters()]
        return [variable.trainable for variable in layer.weights]

    @property
    def rate(self) -> str:
        return "p" if self.is_torch else "rate"


@pytest.mark.parametrize("framework", frameworks())
def test_numbers_and_frozen_layers_are_listed_and_taken_over(framework: Framework) -> None:
    made, like = Fixed(framework), Fixed(framework)
    first, second = made.agent, like.agent
    second.learner.set_state(first.learner.get_state())
    before = first.learner.layer_numbers()
    dense, dropout, _ = made.layers(first)
    setattr(dropout, made.rate, 0.25)
    made.freeze(dense)
    after = first.learner.layer_numbers()
    assert after.kinds == before.kinds == second.learner.layer_numbers().kinds
    changed = {
        (place, name): value
        for place, numbers in after.numbers.items()
        for name, value in numbers.items()
        if before.numbers[place][name] != value
    }
    assert sorted(map(str, changed.values())) == ["0.25", "False"]
    second.learner.set_layer_numbers(json.loads(json.dumps(after.numbers)))
    assert getattr(made.layers(second)[1], made.rate) == 0.25
    assert [made.learns(layer) for layer in made.layers(second)] == [made.learns(layer) for layer in made.layers(first)]
    assert made.learns(made.layers(second)[0])[0] is False
    assert all(made.learns(made.layers(second)[2]))
    assert second.learner.layer_numbers() == after
    observations = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(first.learner.act(observations), second.learner.act(observations))


@pytest.mark.parametrize("framework", frameworks())
def test_another_layer_is_of_another_kind(framework: Framework) -> None:
    made = Fixed(framework)
    before = made.agent.learner.layer_numbers().kinds
    network = made.agent.networks[0]
    made.agent.networks.append(Fixed(framework).agent.networks[0])
    assert made.agent.learner.layer_numbers().kinds != before
    made.agent.networks.pop()
    assert made.agent.learner.layer_numbers().kinds == before
    if made.is_torch:
        network[0].register_forward_hook(lambda *arguments: None)
    else:
        network.pop()
    assert made.agent.learner.layer_numbers().kinds != before
