"""Which names a mistyped one may stand for."""

import pytest

from note_rl.support.near_names import nearest


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("agent.gama", ["agent.gamma", "agent.tau", "optimizer.beta1"], ["agent.gamma"]),
        ("gamma", ["agent.gamma", "agent.tau"], ["agent.gamma"]),
        ("agent.learning_rate", ["optimizer.learning_rate", "buffer.learning_starts"], ["optimizer.learning_rate"]),
        ("dqn", ["dqn_cartpole", "ppo_cartpole"], ["dqn_cartpole"]),
        ("typo", ["seed", "agent"], []),
        ("pr", ["PER", "PR"], ["PR"]),
    ],
)
def test_nearest_names(name: str, known: list[str], expected: list[str]) -> None:
    assert nearest(name, known) == expected
