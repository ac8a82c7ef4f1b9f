"""What an agent must know of its environment before it can build networks."""

from dataclasses import dataclass

from note_rl.environments import EnvLike, as_factory, flat_observations, num_discrete_actions


@dataclass(frozen=True)
class DiscreteSpaces:
    """Shape of an observation and number of actions."""

    obs_shape: tuple[int, ...]
    num_actions: int


def discrete_spaces(env: EnvLike, agent: str, state_dim: int | None, action_dim: int | None) -> DiscreteSpaces:
    """Taken from the arguments where both are given, else read from the environment.

    Raises:
        EnvironmentMismatchError: The environment cannot be made or its actions are not discrete.
    """
    if state_dim is not None and action_dim is not None:
        return DiscreteSpaces((state_dim,), action_dim)
    probe = flat_observations(as_factory(env)())
    try:
        shape = probe.observation_space.shape or ()
        return DiscreteSpaces(tuple(shape), num_discrete_actions(probe, agent))
    finally:
        probe.close()
