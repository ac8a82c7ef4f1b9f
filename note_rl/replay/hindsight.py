"""Hindsight: transitions as they would have been, had the goal been one that was achieved."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from note_rl.environments.goals import GoalLayout
from note_rl.errors import AgentContractError
from note_rl.replay.episodes import EpisodeIndex
from note_rl.replay.readers import one_step
from note_rl.replay.ring import Ring
from note_rl.settings.replay_choices import Hindsight
from note_rl.settings.switch_names import HER
from note_rl.types import Array, BoolArray, FloatArray, IntArray, Transitions

_log = logging.getLogger(__name__)

WithGoal = Callable[[Array, Array], Array]
AchievedGoal = Callable[[Array], Array]


def goal_at_the_end(obs: Array, goal: Array) -> Array:
    """Observations [N, S] whose last entries are the goals [N, G]: the layout of environments with a goal."""
    changed = obs.copy()
    changed[..., -goal.shape[-1] :] = goal
    return changed


class GoalReward:
    """The reward of achieving one goal while another was desired, for many pairs at once.

    The function is tried on some pairs together, one more than a goal has numbers. One that can only do one at a time
    (`0.0 if done else -1.0`) is called row by row from then on.

    Args:
        function: (achieved, desired) -> (reward, done), or the reward alone, which ends nothing.
        name: What it is called in messages.
    """

    def __init__(self, function: Callable[[Array, Array], Any], name: str = "reward_done_func") -> None:
        self._function = function
        self._name = name
        self._vectorised: bool | None = None

    def __call__(self, achieved: Array, desired: Array) -> tuple[FloatArray, BoolArray]:
        """Rewards [N] and whether the task is done [N], for goals [N, G]."""
        if self._vectorised is None:
            self._vectorised = self._try(achieved, desired)
        if self._vectorised:
            reward, done = _pair(self._function(achieved, desired))
        else:
            rows = [_pair(self._function(one, other)) for one, other in zip(achieved, desired, strict=True)]
            reward, done = np.stack([row[0] for row in rows]), np.stack([row[1] for row in rows])
        if reward.shape != (len(achieved),) or done.shape != (len(achieved),):
            raise AgentContractError(
                f"{self._name} must give one reward and one done per pair of goals, [{len(achieved)}]; it gave the "
                f"shapes {list(reward.shape)} and {list(done.shape)}"
            )
        return reward.astype(np.float32), done.astype(np.bool_)

    def _try(self, achieved: Array, desired: Array) -> bool:
        number = max(2, achieved.shape[-1] + 1)  # else `x, y = achieved` would take two pairs for two numbers
        tried = np.arange(number) % len(achieved)
        try:
            reward, done = _pair(self._function(achieved[tried], desired[tried]))
        except (ValueError, TypeError, IndexError):  # "the truth value of an array is ambiguous" and its like
            reward, done = np.zeros(()), np.zeros(())
        vectorised: bool = reward.shape == (number,) and done.shape == (number,)
        if not vectorised:
            _log.warning(
                "%s takes one pair of goals at a time, so hindsight calls it for every sample; written for arrays "
                "[N, G] (np.where instead of if, axis=-1 in norms) it is much faster",
                self._name,
            )
        return vectorised


def _pair(answer: Any) -> tuple[Array, Array]:
    reward, done = answer if isinstance(answer, tuple) else (answer, None)
    reward = np.asarray(reward)
    return reward, np.zeros(reward.shape, np.bool_) if done is None else np.broadcast_to(np.asarray(done), reward.shape)


@dataclass(frozen=True)
class GoalFunctions:
    """The facts about a task that hindsight needs.

    Attributes:
        reward_done: Rewards [N] and dones [N] for goals achieved [N, G] and desired [N, G].
        with_goal: Observations [N, *obs] with other goals [N, G] in them.
        achieved_goal: Goals [N, G] that observations [N, *obs] achieve; None: stored with every transition.
    """

    reward_done: Callable[[Array, Array], tuple[FloatArray, BoolArray]]
    with_goal: WithGoal = goal_at_the_end
    achieved_goal: AchievedGoal | None = None


def goal_functions(agent: Any, layout: GoalLayout | None) -> GoalFunctions | None:
    """Goal functions of agent and environment; the agent's reward_done_func wins over the environment's compute_reward.

    Args:
        agent: May define reward_done_func(achieved, desired), and for environments that show no goals achieved_goal(s)
            and with_goal(s, goal).
        layout: Of an environment that shows goals, else None.

    Returns:
        None where neither knows the reward of a pair of goals.
    """
    reward_done = getattr(agent, "reward_done_func", None)
    if reward_done is None and layout is not None and layout.compute_reward is not None:
        reward_done = _of_the_environment(layout)
    if reward_done is None:
        return None
    return GoalFunctions(
        reward_done=GoalReward(reward_done),
        with_goal=getattr(agent, "with_goal", goal_at_the_end),
        achieved_goal=getattr(agent, "achieved_goal", None),
    )


def require_goals(goals: GoalFunctions | None) -> GoalFunctions:
    """Returns what is known of goals.

    Raises:
        AgentContractError: Nothing is, and hindsight needs it.
    """
    if goals is None:
        raise AgentContractError(
            "{} needs the reward of any pair of goals: an environment with compute_reward(achieved, desired, "
            "info), or an agent that defines reward_done_func(self, achieved_goal, desired_goal) -> (reward, done)",
            HER.at(True),
        )
    return goals


def _of_the_environment(layout: GoalLayout) -> Callable[[Array, Array], Any]:
    """As gymnasium-robotics does it: both functions take an info, which for pairs of goals is empty."""
    compute_reward, compute_terminated = layout.compute_reward, layout.compute_terminated
    assert compute_reward is not None

    def reward_done(achieved: Array, desired: Array) -> Any:
        reward = compute_reward(achieved, desired, {})
        return reward if compute_terminated is None else (reward, compute_terminated(achieved, desired, {}))

    return reward_done


class HindsightReader:
    """Replaces the goals of a random share of a minibatch by ones achieved in the same episode, and what follows.

    Args:
        hindsight: Which goals, and how many.
        goals: The task.
        episodes: Where episodes begin and end in the ring.
    """

    def __init__(self, hindsight: Hindsight, goals: GoalFunctions, episodes: EpisodeIndex) -> None:
        self._hindsight = hindsight
        self._goals = goals
        self._episodes = episodes
        self._has_compared = False

    def __call__(self, ring: Ring, slots: IntArray, gamma: float, rng: np.random.Generator) -> Transitions:
        """See `readers.Reader`."""
        transitions = one_step(ring, slots, gamma, rng)
        changed = rng.random(slots.shape) < self._hindsight.fraction  # [K, B]
        source = self._goal_slots(ring, slots, rng)[changed]
        if not len(source):
            return transitions
        goal, achieved = self._achieved(ring, source), self._achieved(ring, slots[changed])
        obs, next_obs = transitions.obs, transitions.next_obs
        before = obs[changed]
        self._compare_once(before, achieved, transitions.reward[changed])
        reward, done = self._goals.reward_done(achieved, goal)
        done |= self._ended_otherwise(before, achieved, transitions.terminated[changed])
        obs[changed] = self._goals.with_goal(before, goal)
        next_obs[changed] = self._goals.with_goal(next_obs[changed], goal)
        transitions.reward[changed] = reward
        transitions.terminated[changed] = done
        return replace(transitions, discount=np.float32(gamma) * (1.0 - transitions.terminated))

    def _desired(self, obs: Array, achieved: Array) -> Array | None:
        """The goals [N, G] in observations as they were shown; None: only the agent knows where they stand."""
        return obs[..., -achieved.shape[-1] :] if self._goals.with_goal is goal_at_the_end else None

    def _ended_otherwise(self, obs: Array, achieved: Array, terminated: Array) -> BoolArray:
        """Which transitions [N] have ended the task, but not by their goal: as by a fall, which no goal undoes."""
        ended = terminated.astype(np.bool_)
        desired = self._desired(obs[ended], achieved[ended])
        if desired is None or not len(desired):
            return np.zeros_like(ended)
        ended[ended] = ~self._goals.reward_done(achieved[ended], desired)[1]
        return ended

    def _compare_once(self, obs: Array, achieved: Array, reward: Array) -> None:
        """Says so where the environment gives other rewards than those that hindsight works out."""
        if self._has_compared:
            return
        self._has_compared = True
        desired = self._desired(obs, achieved)
        if desired is None:
            return
        expected, _ = self._goals.reward_done(achieved, desired)
        if not np.allclose(reward, expected, rtol=1e-3, atol=1e-5):
            at = int(np.argmax(np.abs(reward - expected)))
            _log.warning(
                "the environment gave a reward of %g where its compute_reward, or reward_done_func, gives %g: "
                "hindsight mixes both; define compute_reward(achieved, desired, info) in the wrapper that changes "
                "rewards",
                *(reward[at], expected[at]),
            )

    def _goal_slots(self, ring: Ring, slots: IntArray, rng: np.random.Generator) -> IntArray:
        """The transitions whose achieved goal is taken, one for each slot."""
        later = self._episodes.until_end(slots, ring)
        if self._hindsight.strategy == "final":
            return ring.ahead(slots, later)
        earlier = 0 if self._hindsight.strategy == "future" else self._episodes.stored_before(slots, ring)
        return ring.ahead(slots, rng.integers(-earlier, later + 1, size=slots.shape))

    def _achieved(self, ring: Ring, slots: IntArray) -> Array:
        if self._goals.achieved_goal is not None:
            return np.asarray(self._goals.achieved_goal(ring.next_obs(slots)))
        if not ring.has("achieved_goal"):
            raise AgentContractError(
                "{} needs to know what was achieved: an environment whose observations are a dictionary of "
                "observation, achieved_goal and desired_goal, or an agent that defines achieved_goal(s) -> [N, G] and "
                "with_goal(s, goal) -> s",
                HER.at(True),
            )
        return ring.column("achieved_goal", slots)
