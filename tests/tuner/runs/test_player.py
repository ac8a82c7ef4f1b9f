"""`predict`: the same answers as evaluation, in the form that users of Stable-Baselines3 know."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from tests.tuner.command_line import SMALL, SMALL_AGENTS
from tuner.commands.preflight import preflight
from tuner.config.composition import RunConfig, to_json
from tuner.errors import UserError
from tuner.runs.build import BuiltRun, build_run
from tuner.runs.player import Player


class FromOne(gymnasium.Env[np.ndarray, int]):
    """Its actions are called 1, 2 and 3."""

    observation_space = spaces.Box(-1.0, 1.0, (4,), np.float32)
    action_space = spaces.Discrete(3, start=1)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros(4, np.float32), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        assert self.action_space.contains(action)
        return np.zeros(4, np.float32), 0.0, False, False, {}


gymnasium.register("FromOne-v0", f"{__name__}:FromOne", max_episode_steps=5)


def built(*overrides: str, agent: str = "dqn") -> BuiltRun:
    return build_run(RunConfig.from_json(to_json(preflight("train", [*SMALL, *SMALL_AGENTS[agent], *overrides]))))


def samples(player: Player, num: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(num, *(player.observation_space.shape or ()))).astype(np.float32)


@pytest.mark.parametrize(("agent", "backend"), [("dqn", "torch"), ("dqn", "keras"), ("sac", "keras"), ("ppo", "torch")])
def test_single_and_batched_observations_get_the_actions_of_evaluation(agent: str, backend: str) -> None:
    run = built(f"backend={backend}", agent=agent)
    player = Player(run)
    many = samples(player, 16)
    wanted = run.agent.greedy_in(player.action_space)(many, np.ones(16, np.bool_))
    actions, state = player.predict(many)
    assert state is None
    assert np.array_equal(actions, wanted)
    assert actions.shape == (16, *(player.action_space.shape or ()))
    for obs, action in zip(many, actions, strict=True):
        one, _ = player.predict(obs, deterministic=True)
        np.testing.assert_allclose(one, action, rtol=1e-4, atol=1e-6)
        assert player.action_space.contains(one)
    assert np.array_equal(player.predict(many.tolist())[0], wanted)


@pytest.mark.parametrize("backend", ["torch", "keras"])
def test_without_determinism_it_explores_as_in_training(backend: str) -> None:
    run = built(f"backend={backend}", "policy.eps=0.3")
    obs = np.repeat(samples(Player(run), 1), 4000, axis=0)
    explored, _ = Player(run, seed=0).predict(obs, deterministic=False)
    greedy, _ = Player(run).predict(obs)
    assert np.unique(greedy).size == 1
    assert np.mean(explored != greedy) == pytest.approx(0.15, abs=0.02)  # half of the random actions are the best one
    assert np.array_equal(explored, Player(run, seed=0).predict(obs, deterministic=False)[0])
    assert not np.array_equal(explored, Player(run, seed=1).predict(obs, deterministic=False)[0])


def test_random_steps_of_the_beginning_are_over() -> None:
    player = Player(built("policy.num_random_steps=1000", "noise.sigma=0.0", agent="td3"), seed=0)
    obs = samples(player, 50)
    np.testing.assert_allclose(player.predict(obs, deterministic=False)[0], player.predict(obs)[0], atol=1e-6)


def test_actions_are_called_as_the_environment_calls_them() -> None:
    run = built(f"env.id={__name__}:FromOne-v0")
    explored, _ = Player(run, seed=0).predict(np.zeros((500, 4)), deterministic=False)
    assert 1 <= explored.min() <= explored.max() <= 3
    player = Player(run)
    env = player.make_env()
    obs, _ = env.reset(seed=0)
    env.step(player.predict(obs)[0])


def test_goal_observations_may_be_given_as_they_are() -> None:
    run = built(agent="ddpg_her")
    player = Player(run)
    env = player.make_env()
    parts = [env.reset(seed=seed)[0] for seed in range(3)]
    flat = np.stack([np.concatenate([part["observation"], part["desired_goal"]]) for part in parts])
    wanted = run.agent.greedy_in(player.action_space)(flat, np.ones(3, np.bool_))
    batch = {name: np.stack([part[name] for part in parts]) for name in parts[0]}
    np.testing.assert_allclose(player.predict(batch)[0], wanted, atol=1e-6)
    np.testing.assert_allclose(player.predict(parts[1])[0], wanted[1], atol=1e-6)


def test_frames_shown_together_begin_anew_with_an_episode() -> None:
    run = built("+buffer.frame_stack=2", "+agent.frame_stack=2")
    frames = samples(Player(run), 40)
    asked: list[np.ndarray] = []
    act = run.agent.learner.act
    run.agent.learner.act = lambda obs: (asked.append(obs), act(obs))[1]  # type: ignore[method-assign]
    player = Player(run)
    for frame in frames[:3]:
        player.predict(frame)
    player.predict(frames[3], episode_start=True)
    shown = [frames[[0, 0]], frames[[0, 1]], frames[[1, 2]], frames[[3, 3]]]
    np.testing.assert_array_equal(np.concatenate(asked), [pair.ravel() for pair in shown])


def test_what_does_not_fit_is_said() -> None:
    player = Player(built())
    with pytest.raises(UserError, match=r"CartPole-v1 has the shape \[4\].*this one has \[3, 7\]"):
        player.predict(np.zeros((3, 7)))
    with pytest.raises(UserError, match="several act in this environment"):
        Player(built(agent="maddpg"))
