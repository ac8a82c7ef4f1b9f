"""Steps that workers have taken before anybody has asked for them."""

from collections.abc import Mapping

import numpy as np

from note_rl.collect.step_join import columns_of, joined, split, steps_of
from note_rl.types import Array, Episode, Steps, nested, under

Round = tuple[Steps, list[Episode]]
"""Steps [T, E] and the episodes that ended in them, in order."""


class WaitingSteps:
    """Holds one round of steps, to which later ones are added at the end."""

    def __init__(self) -> None:
        self._round: Round | None = None

    def __len__(self) -> int:
        """T: steps per environment."""
        return 0 if self._round is None else len(self._round[0].ended)

    @property
    def has_ended_episode(self) -> bool:
        """Whether an episode has ended in them."""
        return self._round is not None and bool(self._round[1])

    def add(self, steps: Steps, episodes: list[Episode]) -> None:
        """Puts steps behind those that are waiting."""
        if self._round is not None:
            steps, episodes = joined([self._round[0], steps]), self._round[1] + episodes
        self._round = steps, episodes

    def take_all(self) -> Round:
        """Returns all steps, of which there are some."""
        assert self._round is not None
        taken, self._round = self._round, None
        return taken

    def take(self, num_steps: int) -> Round:
        """Returns the first steps per environment, of which there are enough."""
        steps, episodes = self.take_all()
        if len(steps.ended) > num_steps:
            steps, later = split(steps, num_steps)
            num_ended = int(steps.ended.sum())
            self._round = later, episodes[num_ended:]
            episodes = episodes[:num_ended]
        return steps, episodes

    def drop(self) -> None:
        """Forgets them."""
        self._round = None

    def get_state(self) -> dict[str, Array]:
        """Returns the arrays of the steps, and their episodes as rows; nothing if there are none."""
        if self._round is None:
            return {}
        steps, episodes = self._round
        rows = [(episode.return_, episode.length, episode.env_index) for episode in episodes]
        return {**nested("waiting", columns_of(steps)), "waiting_episodes": np.array(rows).reshape(-1, 3)}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over what `get_state` gave."""
        self._round = None
        columns = under("waiting", state)
        if columns:
            rows = state["waiting_episodes"]
            episodes = [Episode(float(return_), int(length), int(env_index)) for return_, length, env_index in rows]
            self._round = steps_of(columns), episodes
