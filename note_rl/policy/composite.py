"""Several policies as one: per environment or per agent; and what set(policy=, noise=) means."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from note_rl.errors import SettingsError
from note_rl.policy.base import Policy
from note_rl.policy.continuous import NoisyPolicy
from note_rl.policy.discrete import GreedyQPolicy
from note_rl.policy.noise import NoiseProcess
from note_rl.policy.restartable import Restartable
from note_rl.types import Array, BoolArray, FloatArray, IntArray, nested_parts, under


class _Several(Policy):
    """Common base of both kinds."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        super().__init__()
        if not policies:
            raise SettingsError("policy is an empty list; give at least one policy")
        if len({id(policy) for policy in policies}) < len(policies):
            raise SettingsError(
                "the list of policies (or noises) holds the same object twice, and each has a state of its own: make "
                "one object per entry, for example [EpsGreedyQPolicy(0.1) for _ in range(4)]"
            )
        self.policies = list(policies)

    def _inner(self) -> Sequence[Restartable]:
        """All of them."""
        return self.policies

    def get_state(self) -> dict[str, Array]:
        """Those of its parts, numbered."""
        return nested_parts(policy.get_state() for policy in self.policies)

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""
        for index, policy in enumerate(self.policies):
            policy.set_state(under(str(index), state))


class PolicyPerEnvironment(_Several):
    """The i-th policy acts in the i-th environment, so that some explore more than others.

    Each counts the steps of its own environment only: random steps at the beginning, and those that noise falls over.
    """

    def bind(self, action_space: Any, num_envs: int) -> None:
        """Refuses another number of environments."""
        if len(self.policies) != num_envs:
            raise SettingsError(
                f"a list of {len(self.policies)} policies (or noises) for {num_envs} environments: give one per "
                "environment, or a single one for all"
            )
        for policy in self.policies:
            policy.bind(action_space, 1)

    def use_space(self, action_space: Any) -> None:
        """Tells each of them."""
        for policy in self.policies:
            policy.use_space(action_space)

    def num_answers(self, action_space: Any) -> int | None:
        """As many as the first of them takes: the agent answers all environments alike."""
        return self.policies[0].num_answers(action_space)

    def masked(self, scores: FloatArray, mask: BoolArray) -> FloatArray:
        """[E, A], each in its own way."""
        pairs = enumerate(self.policies)
        return np.concatenate([policy.masked(scores[i : i + 1], mask[i : i + 1]) for i, policy in pairs])

    def select(self, scores: FloatArray, rng: np.random.Generator) -> Array:
        """Actions [E] or [E, A]."""
        return np.concatenate([policy.select(scores[i : i + 1], rng) for i, policy in enumerate(self.policies)])

    @property
    def chooses_several(self) -> bool:  # type: ignore[override]  # of others it is a constant
        """Whether all of them can."""
        return all(policy.chooses_several for policy in self.policies)

    def greedy(self, scores: FloatArray) -> Array:
        """Without exploration they all act alike."""
        return self.policies[0].greedy(scores)

    def log_prob(self, scores: FloatArray, action: Array) -> FloatArray | None:
        """[E], or None where one of them has none."""
        return _together([p.log_prob(scores[i : i + 1], action[i : i + 1]) for i, p in enumerate(self.policies)])

    @property
    def tells_importance(self) -> bool:  # type: ignore[override]  # of others it is a constant
        """Whether all of them do."""
        return all(policy.tells_importance for policy in self.policies)

    def likelihoods(self, scores: FloatArray, action: Array) -> tuple[FloatArray | None, FloatArray | None]:
        """[E] each, None where one of them has none."""
        pairs = [p.likelihoods(scores[i : i + 1], action[i : i + 1]) for i, p in enumerate(self.policies)]
        log_probs, ratios = zip(*pairs, strict=True)
        return _together(log_probs), _together(ratios)

    def for_env(self, action: Array) -> Array:
        """[E] or [E, A]."""
        return np.concatenate([policy.for_env(action[i : i + 1]) for i, policy in enumerate(self.policies)])

    def reset(self, env_indices: IntArray) -> None:
        """Passed on to those that act there."""
        for index in env_indices:
            self.policies[index].reset(np.zeros(1, np.int64))


class PolicyPerAgent(_Several):
    """The i-th policy acts for the i-th agent of every environment: scores [E, n, ...], actions [E, n] or [E, n, A]."""

    def bind(self, action_space: Any, num_envs: int) -> None:
        """Of several agents' joint space; refuses another number of agents."""
        for policy, space in zip(self.policies, self._spaces(action_space), strict=True):
            policy.bind(space, num_envs)

    def use_space(self, action_space: Any) -> None:
        """Tells each of them its own."""
        for policy, space in zip(self.policies, self._spaces(action_space), strict=True):
            policy.use_space(space)

    def _spaces(self, action_space: Any) -> list[Any]:
        per_agent = _split(action_space)
        if len(per_agent) != len(self.policies):
            raise SettingsError(
                f"a list of {len(self.policies)} policies (or noises) for {len(per_agent)} agents: give one per "
                "agent, or a single one for all"
            )
        return per_agent

    def select(self, scores: FloatArray, rng: np.random.Generator) -> Array:
        """Actions [E, n] or [E, n, A]."""
        return np.stack([policy.select(scores[:, i], rng) for i, policy in enumerate(self.policies)], axis=1)

    def greedy(self, scores: FloatArray) -> Array:
        """[E, n] or [E, n, A]."""
        return np.stack([policy.greedy(scores[:, i]) for i, policy in enumerate(self.policies)], axis=1)

    def log_prob(self, scores: FloatArray, action: Array) -> FloatArray | None:
        """[E, n], or None where one of them has none."""
        parts = [policy.log_prob(scores[:, i], action[:, i]) for i, policy in enumerate(self.policies)]
        known = [part for part in parts if part is not None]
        return np.stack(known, axis=1) if len(known) == len(parts) else None

    def for_env(self, action: Array) -> Array:
        """[E, n] or [E, n, A]."""
        return np.stack([policy.for_env(action[:, i]) for i, policy in enumerate(self.policies)], axis=1)

    def reset(self, env_indices: IntArray) -> None:
        """Passed on to each."""
        for policy in self.policies:
            policy.reset(env_indices)


def _together(parts: Sequence[FloatArray | None]) -> FloatArray | None:
    known = [part for part in parts if part is not None]
    return np.concatenate(known) if len(known) == len(parts) else None


def _split(joint: Any) -> list[Any]:
    """The spaces of the agents that act in a joint space, MultiDiscrete [n] or Box [n, A]."""
    if isinstance(joint, spaces.MultiDiscrete):
        return [spaces.Discrete(int(number)) for number in joint.nvec]
    if isinstance(joint, spaces.Box) and len(joint.shape) > 1:
        return [spaces.Box(low, high) for low, high in zip(joint.low, joint.high, strict=True)]
    return [joint]


def exploration(
    policy: Policy | Sequence[Policy] | None,
    noise: NoiseProcess | Sequence[NoiseProcess] | None,
    *,
    per_agent: bool = False,
) -> Policy:
    """The policy that set(policy=, noise=) asks for.

    Args:
        policy: One, or a list.
        noise: One, or a list; stands for a `NoisyPolicy`.
        per_agent: Whether a list has one entry per agent rather than per environment.

    Raises:
        SettingsError: Neither was given, both were, or something else.
    """
    if noise is not None and policy is not None:
        raise SettingsError(
            "policy and noise both say how to explore: noise is added to actions that are numbers, a policy chooses; "
            "give one of them (NoisyPolicy(noise, ...) has further options)"
        )
    if noise is not None:
        policy = [NoisyPolicy(one) for one in noise] if isinstance(noise, Sequence) else NoisyPolicy(noise)
    if policy is None:
        raise SettingsError(
            "set() needs a policy, for example policy=EpsGreedyQPolicy(eps=0.05), or for actions that are numbers "
            "noise=GaussianWhiteNoiseProcess(sigma=0.1)"
        )
    for one in policy if isinstance(policy, list | tuple) else [policy]:
        if not isinstance(one, Policy):
            hint = f"; write {one.__name__}()" if isinstance(one, type) and issubclass(one, Policy) else ""
            raise SettingsError(f"policy must be a policy such as EpsGreedyQPolicy(eps=0.05), got {one!r}{hint}")
    if isinstance(policy, Sequence):
        return PolicyPerAgent(policy) if per_agent else PolicyPerEnvironment(policy)
    return policy


def default_policy(action_space: Any) -> Policy:
    """How an agent without a setting for it acts without exploration."""
    return NoisyPolicy() if isinstance(action_space, spaces.Box) else GreedyQPolicy()
