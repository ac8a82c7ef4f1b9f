"""Experts to learn from: demonstrations of whoever can choose actions, and of a controller that balances CartPole."""

from collections.abc import Callable

import numpy as np

from note_rl.environments import EnvLike, as_factory, flat_observations
from note_rl.settings.demonstrations import Demonstrations
from note_rl.types import Array


def record(
    choose: Callable[[Array], int | Array], env: EnvLike, num_episodes: int = 10, seed: int = 0
) -> Demonstrations:
    """What an expert sees and does in fresh environments.

    Args:
        choose: The expert: action for one observation [*obs].
        env: What to play in; a copy is made.
        num_episodes: Whole episodes.
        seed: Of the first episode; each further one has the next.

    Raises:
        NoteRLError: The environment cannot be made.
    """
    played = flat_observations(as_factory(env)())
    seen: list[Array] = []
    done: list[int | Array] = []
    try:
        for episode in range(num_episodes):
            obs, _ = played.reset(seed=seed + episode)
            over = False
            while not over:
                seen.append(np.asarray(obs))
                done.append(choose(seen[-1]))
                obs, _, terminated, truncated, _ = played.step(done[-1])
                over = terminated or truncated
    finally:
        played.close()
    action = np.asarray(done)
    return Demonstrations(np.stack(seen), action.astype(np.int32 if action.ndim == 1 else np.float32))


def cartpole_expert(num_episodes: int = 10, seed: int = 0) -> Demonstrations:
    """Demonstrations on CartPole-v1 of a linear controller that reaches 500, the most possible.

    It pushes towards the side that the pole leans and falls to, and a little back to the middle of the track.
    """
    weights = np.array([0.1, 0.3, 1.0, 0.5])  # of position, velocity, angle, angular velocity
    return record(lambda obs: int(weights @ obs > 0), "CartPole-v1", num_episodes, seed)
