"""Where in its episode a transition stands: asked for any slots of a ring, answered without walking through it."""

from collections.abc import Mapping

import numpy as np

from note_rl.replay.ring import Ring, episode_starts
from note_rl.types import Array, BoolArray, IntArray, Steps


class EpisodeIndex:
    """Keeps for every slot how many steps came before it in its episode, and for every episode where it ends so far.

    Episodes are numbered in the order they begin. The table of ends is a ring as well, three times as long as the ring
    of transitions, which never holds more episodes than that. One that runs while very many others end gets a new
    number, and so counts as two.
    """

    def __init__(self) -> None:
        self._over: BoolArray | None = None  # [E] whether the next step begins an episode
        self._current: IntArray = np.zeros(0, np.int64)  # [E] number of the running episode
        self._num_episodes = 0
        self._num_stored = 0  # transitions ever stored; the newest has the number _num_stored - 1
        self._since_start: IntArray = np.zeros(0, np.int32)  # [slots]
        self._episode: IntArray = np.zeros(0, np.int64)  # [slots]
        self._last: IntArray = np.zeros(0, np.int64)  # [table] number of the newest transition of an episode
        self._since_now: IntArray = np.zeros(0, np.int32)  # [E] length of the running episode

    def add(self, steps: Steps, slots: IntArray, num_slots: int) -> None:
        """Takes note of what a ring has stored: the same steps, in the slots that its add() returned."""
        num_steps, num_envs = steps.ended.shape
        self._begin(num_slots, num_envs)
        assert self._over is not None
        starts = episode_starts(steps.ended, self._over)
        time = np.arange(num_steps)[:, None]
        begun = np.maximum.accumulate(np.where(starts, time, -1), axis=0)  # [T, E] step in here that began it, or -1
        numbers = np.where(starts, self._num_episodes + np.cumsum(starts.ravel()).reshape(starts.shape) - 1, 0)
        episode = np.where(begun >= 0, np.take_along_axis(numbers, np.maximum(begun, 0), axis=0), self._current)
        since_start = np.where(begun >= 0, time - begun, self._since_now + time)
        kept = slice(steps.num_env_steps - len(slots), None)
        self._since_start[slots] = since_start.ravel()[kept]
        self._episode[slots] = episode.ravel()[kept]
        count = self._num_stored + np.arange(steps.num_env_steps)
        self._last[episode.ravel() % len(self._last)] = count  # in order of time: the newest stays
        self._num_stored += steps.num_env_steps
        self._num_episodes += int(starts.sum())
        self._over, self._current = steps.ended[-1].copy(), episode[-1]
        self._since_now = (since_start[-1] + 1).astype(np.int32)

    def _begin(self, num_slots: int, num_envs: int) -> None:
        if len(self._episode) != num_slots:
            self._since_start = np.zeros(num_slots, np.int32)
            self._episode = np.zeros(num_slots, np.int64)
            self._last = np.zeros(3 * (num_slots + num_envs), np.int64)
        if self._over is None or len(self._over) != num_envs:
            self._over = np.ones(num_envs, np.bool_)
            self._current = np.zeros(num_envs, np.int64)
            self._since_now = np.zeros(num_envs, np.int32)
        stale = ~self._over & (self._num_episodes - self._current > num_slots)
        self._current = np.where(stale, self._num_episodes + np.cumsum(stale) - 1, self._current)
        self._num_episodes += int(stale.sum())

    def interrupt(self) -> None:
        """The next steps begin episodes, whether the running ones have ended or not."""
        if self._over is not None:
            self._over[:] = True

    def since_start(self, slots: IntArray) -> IntArray:
        """Steps before it in its episode, overwritten ones included."""
        return self._since_start[slots]

    def until_end(self, slots: IntArray, ring: Ring) -> IntArray:
        """Steps after it in its episode, as far as they are stored."""
        newest = self._num_stored - ring.size + ring.ages(slots)  # the numbers of these transitions
        last = self._last[self._episode[slots] % len(self._last)]
        left: IntArray = (last - newest) // ring.num_envs
        return left

    def stored_before(self, slots: IntArray, ring: Ring) -> IntArray:
        """Steps before it in its episode that are still kept."""
        return np.minimum(self._since_start[slots], ring.ages(slots) // ring.num_envs)

    def get_state(self) -> dict[str, Array]:
        """Everything."""
        if self._over is None:
            return {}
        return {
            "over": self._over,
            "current": self._current,
            "since_now": self._since_now,
            "since_start": self._since_start,
            "episode": self._episode,
            "last": self._last,
            "counts": np.array([self._num_episodes, self._num_stored], np.int64),
        }

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state."""
        self.__init__()  # type: ignore[misc]  # back to the beginning first
        if state:
            self._over = np.array(state["over"])
            self._current, self._since_now = np.array(state["current"]), np.array(state["since_now"])
            self._since_start, self._episode = np.array(state["since_start"]), np.array(state["episode"])
            self._last = np.array(state["last"])
            self._num_episodes, self._num_stored = (int(number) for number in state["counts"])
