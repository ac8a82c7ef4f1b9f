"""Every agent learns the same in both frameworks: equal weights before training, and equal seeds, give equal weights.

A loss, a target or an optimizer that is wrong in one framework shows here, also where each looks plausible by itself.
"""

from typing import Any

import numpy as np
import pytest

from note_rl.learners.base import parameter_groups
from note_rl.seeding import seed_everything
from tests.note_rl.conftest import take_untraced_steps
from tests.note_rl.frameworks import Framework
from tests.tuner.command_line import SMALL_AGENTS
from tests.tuner.runs.reporters import run_config
from tuner.runs.build import build_run

TORCH, KERAS = Framework("pytorch"), Framework("keras")
TARGETS = "buffer.target_update_interval=4"  # by default these are not updated within so few gradient steps
CONSTANT = "schedule=none"  # the rate of the optimizer below
FEW = "buffer.gradient_steps=3"  # after 64 and after 72 steps; enough for actors that learn in every third one
OF_REPLAY = ("crossq", "ddpg", "ddpg_her", "maddpg", "sac", "sac_discrete", "td3", "tqc")
CASES = {
    **{agent: (agent,) for agent in SMALL_AGENTS},
    **{agent: (agent, FEW) for agent in OF_REPLAY},
    **{agent: (agent, TARGETS) for agent in ("dqn", "double_dqn", "dueling_dqn", "prioritized_dqn", "rainbow")},
    "ppo": ("ppo", CONSTANT),
    "bc_continuous": ("bc_continuous", "buffer.gradient_steps=10"),
    "a2c_lstm": ("a2c", "network=lstm"),
    "ppo_gru": ("ppo", CONSTANT, "network=gru"),
    "ppo_gsde": ("ppo_continuous", "policy=gsde"),
    "sac_gsde": ("sac", FEW, "policy=squashed_gsde"),
    "sac_of_many_critics": (
        *("sac", FEW, "agent.num_critics=4", "agent.num_target_critics=2", "agent.critic_layer_norm=true"),
    ),
    "quantiles": ("dqn", "agent.values=quantiles", TARGETS),
    "images": ("dqn", "env=catch", "network=minatar", TARGETS),
}
# One of each kind of update; the others are slow.
IN_CI = ("crossq", "images", "ppo_gru", "rainbow", "sac_gsde", "td3", "trpo_continuous")


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tracing takes longer than these few gradient steps."""
    take_untraced_steps(monkeypatch)


@pytest.mark.parametrize(
    "case", [case if case in IN_CI else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_equal_weights_stay_equal(case: str) -> None:
    agent, *typed = CASES[case]
    first, second = (
        build_run(run_config(*typed, agent=agent, backend=backend)).agent for backend in ("torch", "keras")
    )
    rng = np.random.default_rng(0)  # usual first weights of a policy are so small that the layers before hardly learn
    before = [values + rng.normal(scale=0.1, size=values.shape) for values in weights(TORCH, first)]
    for framework, trained in ((TORCH, first), (KERAS, second)):
        assign(framework, trained, before)
        seed_everything(0)
        # an epsilon this large: rounding of gradients near 0 would otherwise decide the direction of a step
        optimizer = framework.optimizers.adam(trained.param, learning_rate=0.01, epsilon=0.01)
        trained.train(optimizer=optimizer, total_steps=72, callbacks=[], jit_compile=False, p=0)
    assert first.num_gradient_steps == second.num_gradient_steps > 1
    after = weights(TORCH, first)
    assert min(np.abs(now - then).max() for now, then in zip(after, before, strict=True)) > 1e-4
    for ours, theirs in zip(after, weights(KERAS, second), strict=True):
        np.testing.assert_allclose(theirs, ours, rtol=1e-5, atol=1e-5)


def weights(framework: Framework, agent: Any) -> list[np.ndarray]:
    """Copies of all trained parameters, with the axes in Keras' order."""
    axes = axes_of_keras(framework, agent)
    return [np.transpose(framework.array(one), axes.get(id(one), range(len(one.shape)))) for one in parameters(agent)]


def assign(framework: Framework, agent: Any, values: list[np.ndarray]) -> None:
    """Sets the parameters of an agent and of its target networks, from arrays as `weights` gives them."""
    axes = axes_of_keras(framework, agent)
    for parameter, array in zip(parameters(agent), values, strict=True):
        framework.set(parameter, np.transpose(array, np.argsort(axes.get(id(parameter), range(array.ndim)))))
    if hasattr(agent, "tau"):
        agent.tau, usual = 1.0, agent.tau
        agent.update_param()
        agent.tau = usual


def parameters(agent: Any) -> list[Any]:
    return [parameter for group in parameter_groups(agent.param) for parameter in group]


def axes_of_keras(framework: Framework, agent: Any) -> dict[int, tuple[int, ...]]:
    """The axes of weights that PyTorch's own layers keep in another order, by the identity of the parameter."""
    if framework is KERAS:
        return {}
    from torch import nn

    values = [one for value in vars(agent).values() for one in (value if isinstance(value, list | tuple) else [value])]
    layers = [layer for value in values if isinstance(value, nn.Module) for layer in value.modules()]
    own = [one for layer in layers if isinstance(layer, nn.Linear | nn.Conv2d) for one in layer.parameters(False)]
    return {id(one): {4: (2, 3, 1, 0), 2: (1, 0)}[one.ndim] for one in own if one.ndim > 1}
