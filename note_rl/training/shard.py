"""The part of environments, pool and minibatches that is one rank's, where ranks are fed by environments of their own.

A rank is a model of the whole on a smaller scale: its settings are those of all ranks divided by their number, and so
is what its experience knows of the clock. So ranks that collect as many steps come to the same decisions by themselves
(whether it is time to learn, how often, when targets move). What depends on what was collected, they gather.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from note_rl.collect.contract import window_function
from note_rl.errors import AgentContractError, CheckpointError, PeerError, SettingsError
from note_rl.learners.lines import Line
from note_rl.policy import Policy, PolicyPerEnvironment, exploration
from note_rl.replay.experience import Clock
from note_rl.seeding import generator
from note_rl.settings import ReplaySettings, SequenceSettings, Settings
from note_rl.settings.experience import ExperienceSettings
from note_rl.training.restoring import check_not_lost
from note_rl.types import Array

EXCHANGE = "exchange"
_COUNTS = ("capacity", "batch_size", "train_freq", "learning_starts", "num_env_steps", "target_update_env_steps")
"""Of experience, those numbers that count transitions or steps of all environments together."""


class Shard:
    """Which part is this process's: the whole, until it joins others.

    Attributes:
        rank, size: Its number, and of how many.
    """

    def __init__(self, rank: int = 0, size: int = 1, lines: Sequence[Line] = ()) -> None:
        self.rank = rank
        self.size = size
        self._lines = lines

    @contextmanager
    def joined(self, rank: int, size: int, lines: Sequence[Line]) -> Iterator[None]:
        """It is that of a rank within; see `note_rl.training.distributing.Ranks`."""
        self.__init__(rank, size, lines)  # type: ignore[misc]
        try:
            yield
        finally:
            self.__init__()  # type: ignore[misc]

    def gathered(self, values: Array) -> Array:
        """The values [R, ...] of all ranks, the same on each of them; all call this at the same place of training.

        Raises:
            PeerError: A rank is lost, or at another place.
        """
        if self.size == 1:
            return values[None]
        if self.rank:
            self._lines[0].send({"do": EXCHANGE}, {"values": values})
            return self._heard(self._lines[0])
        whole = np.stack([values, *map(self._heard, self._lines)])
        for line in self._lines:
            line.send({"do": EXCHANGE}, {"values": whole})
        return whole

    def _heard(self, line: Line) -> Array:
        message = line.receive()
        if message.head.get("do") != EXCHANGE:
            raise PeerError(f"{line.name} is at another place of training: do all ranks run the same versions?")
        return message.arrays["values"]

    def of(self, number: int) -> int:
        """The part of a number, rounded up."""
        return -(-number // self.size)

    def of_clock(self, clock: Clock) -> Clock:
        """What experience is to know of the clock."""
        return replace(clock, num_env_steps=clock.num_env_steps // self.size)

    def of_experience(self, experience: ExperienceSettings) -> ExperienceSettings:
        """The settings of a part."""
        if self.size == 1:
            return experience
        names = {one.name for one in fields(experience)}
        counts = {name: getattr(experience, name) for name in _COUNTS if name in names}
        shares: dict[str, Any] = {n: count // self.size for n, count in counts.items() if isinstance(count, int)}
        return replace(experience, **shares)

    def of_settings(self, settings: Settings, env: Any) -> Settings:
        """The settings of a part of these environments."""
        if self.size == 1:
            return settings
        num_envs = total_envs(settings, env) // self.size
        return replace(settings, experience=self.of_experience(settings.experience), num_envs=num_envs)

    def of_environments(self, env: Any, num_envs: int) -> tuple[Any, range]:
        """The environments, of a list its own, and their numbers among all; `num_envs` are this rank's."""
        numbers = range(self.rank * num_envs, (self.rank + 1) * num_envs)
        return (env[numbers.start : numbers.stop] if isinstance(env, list | tuple) else env), numbers

    def check_goes_on(self, shards: Sequence[Any] | None) -> None:
        """Refuses a checkpoint of another number of ranks than train now (CheckpointError)."""
        check_not_lost(shards)
        stored = len(shards or ()) + 1
        if stored != self.size:
            ways = [f"{size} ranks with feeding=sharded" if size > 1 else "one process" for size in (stored, self.size)]
            raise CheckpointError(
                f"the checkpoint holds environments and pools of {ways[0]}, and {ways[1]} would go on from it: train "
                "as it was trained, or take over the parameters only (restore_param)"
            )

    def generator(self, seed: int, name: str) -> np.random.Generator:
        """Random numbers of this rank; those of the first are the ones that a single process has."""
        return generator(seed, name, *([self.rank] if self.rank else []))


def check_can_be_sharded(agent: Any, settings: Settings, size: int, env: Any = None) -> None:
    """Refuses what ranks that have their own environments cannot do together, before anything runs.

    Args:
        agent: One, or its class.
        settings: What set() was told.
        size: How many ranks.
        env: The environment, as far as it is known.

    Raises:
        AgentContractError: The agent decides something by itself that all ranks would have to know.
        SettingsError: Naming the first setting that does not go with it, or cannot be divided.
    """
    experience = settings.experience
    for what, given, reason in _excluded(settings, experience):
        if given:
            raise SettingsError(f"feeding=sharded and {what} cannot be combined: {reason}, or use feeding=split")
    if getattr(agent, "adjust_func", None) is not None or window_function(agent) is not None:
        raise AgentContractError(
            "feeding=sharded and adjust_func or window_size_func cannot be combined: each rank would decide by what it "
            "has seen alone; leave them out, or use feeding=split"
        )
    if isinstance(env, VectorEnv):
        raise SettingsError(
            "feeding=sharded takes single environments apart, and agent.env is a vector environment: set env to an id, "
            "an EnvFactory or a function that makes one, or use feeding=split"
        )
    counts = {_NAMES.get(name, name): getattr(experience, name, None) for name in _COUNTS}
    _check_divides({"num_envs": total_envs(settings, env), **counts}, size)
    Shard(0, size).of_settings(settings, env)  # which refuses rollouts that are shorter than a minibatch


def total_envs(settings: Settings, env: Any) -> int:
    """How many environments all ranks step together."""
    if isinstance(env, list | tuple):
        return len(env)
    assert not isinstance(settings.num_envs, str)
    return settings.num_envs or 1


_NAMES = {
    "capacity": "pool_size/capacity",
    "batch_size": "batch/batch_size",
    "num_env_steps": "update_steps/num_env_steps",
    "target_update_env_steps": "update_steps/target_update_env_steps",
}


def _check_divides(counts: Mapping[str, Any], size: int) -> None:
    odd = {name: value for name, value in counts.items() if isinstance(value, int) and value % size}
    if not odd:
        return
    given = ", ".join(f"{name}={value}" for name, value in odd.items())
    even = ", ".join(f"{name}={(value // size + 1) * size}" for name, value in odd.items())
    one = len(odd) == 1
    raise SettingsError(
        f"{given} {'is that' if one else 'are those'} of all {size} ranks together, and with feeding=sharded each has "
        f"its share: make {'it a multiple' if one else 'them multiples'} of {size}, such as {even}"
    )


def _excluded(settings: Settings, experience: ExperienceSettings) -> list[tuple[str, bool, str]]:
    """What does not go with it: its name, whether it is asked for, and why it does not, with what to do."""
    replay = isinstance(experience, ReplaySettings)
    policy: Policy = exploration(settings.policy, None, per_agent=settings.multi_agent)
    return [
        (
            "sequences",
            isinstance(experience, SequenceSettings),
            "each rank would draw another number of gradient steps; leave sequences out",
        ),
        (
            "TRL (trajectories)",
            experience.trajectories if isinstance(experience, ReplaySettings) else False,
            "whether there is a triplet depends on how the episodes of a rank have ended; leave it out",
        ),
        (
            "training once per episode (no train_freq)",
            replay and getattr(experience, "train_freq", 0) is None,
            "episodes end at other times on each rank; set train_freq to a number of environment steps",
        ),
        (
            "a window (window_size, clearing_freq, ...)",
            experience.window is not None,
            "what it leaves of a pool would differ between ranks; leave it out",
        ),
        (
            "dataset",
            getattr(experience, "dataset", None) is not None,
            "every rank would begin with the same steps; leave it out",
        ),
        (
            "worker processes (pool_network, collector)",
            settings.workers is not None,
            "each rank steps its environments itself; leave them out",
        ),
        (
            'num_envs="auto"',
            isinstance(settings.num_envs, str),
            "each rank would measure another number; give a number",
        ),
        (
            "adaptive",
            settings.adaptive is not None,
            "it would go by what the first rank has measured of its share; leave it out",
        ),
        (
            "a list of policies or noises, one per environment",
            isinstance(policy, PolicyPerEnvironment),
            "ranks explore alike; give one for all",
        ),
    ]
