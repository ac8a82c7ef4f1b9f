"""Acting without exploration, evaluation on fresh environments, and the score of acting at random."""

import inspect
import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import NormalizeObservation

from note_rl.collect.contract import check_answers
from note_rl.collect.policy_runner import Act, answers_of, masked_answers
from note_rl.environments import (
    Env,
    Environments,
    EnvLike,
    VectorEnvironment,
    as_factory,
    flat_observations,
    for_evaluation,
)
from note_rl.environments.frames import FrameStack
from note_rl.environments.long_episodes import limited
from note_rl.environments.observations import check_finite, check_rewards, name_of
from note_rl.environments.wrappers import wrapper_of
from note_rl.errors import say_once
from note_rl.learners.recurrence import RecurrentState
from note_rl.policy import Policy, default_policy
from note_rl.seeding import generator
from note_rl.settings.training_settings import Settings
from note_rl.support.setting_fields import named
from note_rl.support.value_kinds import checked
from note_rl.types import Array, BoolArray, Evaluation, FloatArray

_log = logging.getLogger(__name__)
# (what E environments show [E, *obs], whether it is the first of an episode [E]) -> actions [E] or [E, A]; where they
# tell which actions they allow, and it takes a third argument: also that, [E, A]
Choose = Callable[..., Array]
ActingIn = Callable[[Any], Choose]
"""From the action space of an environment to how to act there."""

_MOST_AT_ONCE = 10


class Greedy:
    """Chooses actions without exploration, for environments that are stepped together.

    Args:
        act: The agent's answers [E, ...] to observations [E, *obs].
        policy: Knows which action an answer stands for; None: the highest value, or the answer itself if actions are
            numbers.
        action_space: Of one environment.
        frame_stack: Frames that the agent is shown together.

    Attributes:
        policy: What chooses.
        frame_stack: How many frames are shown together.
        frames: These, from one call to the next.
        state: Of a recurrent agent, from one call to the next.
    """

    def __init__(self, act: Act, policy: Policy | None, action_space: Any, frame_stack: int = 1) -> None:
        self.state = RecurrentState()
        self._act, self._answers_to = act, answers_of(act, self.state)
        self.policy = default_policy(action_space) if policy is None else policy
        self.policy.use_space(action_space)
        self._action_space = action_space
        self._answers_seen = False  # and found to fit
        self.frame_stack = frame_stack
        self.frames = FrameStack(frame_stack)

    def __call__(self, obs: Array, starts: BoolArray, action_mask: BoolArray | None = None) -> Array:
        """Actions [E] or [E, A].

        Args:
            obs: What the environments show. [E, *obs]
            starts: Whether that is the first observation of an episode. [E]
            action_mask: Which actions are allowed there; None: all. [E, A]
        """
        answers = self._answers_to(self.frames.show(obs, starts), starts)
        if not self._answers_seen:
            check_answers(answers, len(obs), self.policy, self._action_space)
            self._answers_seen = True
        return self.policy.greedy(masked_answers(self._act, self.policy, answers, action_mask))


def evaluate(acting_in: ActingIn, env: EnvLike, num_episodes: int, seed: int) -> Evaluation:
    """Plays episodes in fresh environments, several side by side.

    Args:
        acting_in: Given the action space, says how to act: a `Greedy`, for example.
        env: What to play in; copies are made, without wrappers that are for training only. Where it has no time limit,
            episodes are cut off after 1,000,000 steps, which is said.
        num_episodes: Exactly this many episodes count. Each environment plays its share, so that short episodes are not
            preferred to long ones.
        seed: Of the environments.

    Raises:
        NoteRLError: The environment cannot be made, or it does not fit the agent.
    """
    num_episodes, seed = checked(num_episodes=num_episodes, seed=seed).values()
    envs = _fresh_environments(env, num_episodes, seed)
    try:
        return _play(acting_in(envs.action_space), envs, num_episodes)
    finally:
        envs.close()


def random_policy_returns(
    env: EnvLike, num_episodes: int, seed: int, check: Callable[[], object] = lambda: None
) -> FloatArray:
    """Returns [num_episodes] of uniformly random actions: what an agent that learned nothing scores.

    Where the environment has no time limit, episodes are cut off after 10,000 steps, with a warning.

    Args:
        env: What to play in, as in `evaluate`.
        num_episodes: Exactly this many episodes count.
        seed: Of the environments and the actions.
        check: Called before each step: episodes may take long.
    """
    num_episodes, seed = checked(num_episodes=num_episodes, seed=seed).values()
    envs = _fresh_environments(env, num_episodes, seed, is_random=True)
    choose = random_actions(envs.action_space, seed)

    def choose_checked(obs: Array, starts: BoolArray, mask: BoolArray | None = None) -> Array:
        del starts
        check()
        return choose(obs, mask)

    try:
        return _play(choose_checked, envs, num_episodes).returns
    finally:
        envs.close()


def random_actions(space: Any, seed: int) -> Callable[[Array, BoolArray | None], Array]:
    """Chooses any allowed action, each equally likely; what is chosen is counted from 0.

    Args:
        space: Of one action.
        seed: Of the choice.

    Returns:
        (observations [E, *obs], masks [E, A] of what is allowed or None) -> actions [E, ...].
    """
    space.seed(int(generator(seed, "random policy").integers(2**31)))
    counted = isinstance(space, spaces.Discrete | spaces.MultiDiscrete) and np.any(space.start)

    def choose(obs: Array, mask: BoolArray | None) -> Array:
        drawn = [space.sample() if mask is None else space.sample(mask[i].astype(np.int8)) for i in range(len(obs))]
        return np.stack([np.asarray(one - space.start if counted else one) for one in drawn])

    return choose


def _fresh_environments(env: EnvLike, num_episodes: int, seed: int, *, is_random: bool = False) -> VectorEnvironment:
    factory = as_factory(for_evaluation(env))
    number = min(_MOST_AT_ONCE, num_episodes)
    made = [flat_observations(limited(factory(), is_random=is_random)) for _ in range(number)]
    _say_if_measured_anew(made[0])
    return VectorEnvironment(made, seed)


def _say_if_measured_anew(env: Env) -> None:
    """Says once that a wrapper normalises observations by statistics that nothing has gone into yet."""
    wrapper = wrapper_of(env, NormalizeObservation)
    if wrapper is not None and wrapper.obs_rms.count < 1:
        say_once(
            _log,
            "NormalizeObservation around {} begins anew in each environment that is made, so in an evaluation the "
            "agent sees other numbers than in training: take the wrapper away and set {}, whose statistics both share",
            *(name_of(env), named(Settings, "normalise_obs").at(True)),
        )


def _takes_three(choose: Choose) -> bool:
    try:
        inspect.signature(choose).bind(None, None, None)
    except (TypeError, ValueError):
        return False
    return True


def _play(choose: Choose, envs: Environments, num_episodes: int) -> Evaluation:
    share = [num_episodes // len(envs) + (index < num_episodes % len(envs)) for index in range(len(envs))]
    returns: list[list[float]] = [[] for _ in range(len(envs))]
    lengths: list[list[int]] = [[] for _ in range(len(envs))]
    total = np.zeros(len(envs))
    steps = np.zeros(len(envs), np.int64)
    starts = np.ones(len(envs), np.bool_)
    masked = envs.action_mask is not None and _takes_three(choose)
    while any(len(done) < wanted for done, wanted in zip(returns, share, strict=True)):
        further = (envs.action_mask,) if masked else ()
        check_finite(envs.name, envs.obs)
        *_, starts = envs.step(choose(envs.obs, starts, *further))
        total += envs.counted if envs.counted.ndim == 1 else envs.counted.sum(axis=-1)
        steps += 1
        for index in np.flatnonzero(starts):
            check_rewards(envs.name, total[index])
            returns[index].append(float(total[index]))
            lengths[index].append(int(steps[index]))
            total[index], steps[index] = 0.0, 0
    kept = [
        (r, n) for i, wanted in enumerate(share) for r, n in zip(returns[i][:wanted], lengths[i][:wanted], strict=True)
    ]
    return Evaluation(np.array([r for r, _ in kept]), np.array([n for _, n in kept]))
