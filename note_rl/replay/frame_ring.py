"""A ring of images: each frame is stored once, stacks of frames are put together when they are read."""

from collections.abc import Mapping

import numpy as np

from note_rl.environments.frames import join_frames
from note_rl.replay.ring import Ring, episode_starts, gathered
from note_rl.types import STEP_COLUMNS, Array, BoolArray, IntArray, Steps

_NONE = -1


class FrameRing(Ring):
    """A ring that stores one frame per transition and reads stacks of the `num_frames` newest, the oldest first.

    What was seen next is the frame of the successor. Only where there is none, because the episode ended or nothing
    has been stored since, that frame is kept as well. No stack reaches over the start of an episode: there, the first
    frame stands in for those before it. The ring holds `num_frames - 1` steps more than its capacity to look back at.

    Args:
        capacity: Most transitions kept.
        num_frames: Frames of a stack; 1 stores each frame once, too.
    """

    stored = tuple(name for name in STEP_COLUMNS if name != "next_obs")

    def __init__(self, capacity: int, num_frames: int) -> None:
        super().__init__(capacity, margin=num_frames - 1)
        self.num_frames = num_frames
        self._pending: Array = np.zeros(0)  # [E, *frame] what was seen after the newest step
        self._over: BoolArray = np.ones(0, np.bool_)  # [E] whether the next step begins an episode
        self._since_now: IntArray = np.zeros(0, np.int32)  # [E] length of the running episode
        self._since_start: IntArray = np.zeros(0, np.int32)  # [slots], at most num_frames
        self._final: Array = np.zeros(0)  # [room, *frame] last frames of episodes, number n at n modulo room
        self._final_number: IntArray = np.zeros(0, np.int64)  # [slots] which of them is this slot's; -1: none
        self._num_final = 0  # ever stored
        self._oldest_final = 0

    def add(self, steps: Steps) -> IntArray:
        """Stores all T*E transitions, oldest first; `next_obs` only where an episode ends.

        Returns:
            The slots written, in that order: min(T*E, number of slots) of them.
        """
        num_steps, num_envs = steps.ended.shape
        if len(self._over) != num_envs:
            self._over = np.ones(num_envs, np.bool_)
            self._since_now = np.zeros(num_envs, np.int32)
        slots = super().add(steps)
        kept = slice(steps.num_env_steps - len(slots), None)
        if len(self._since_start) != self.num_slots:
            self._since_start = np.zeros(self.num_slots, np.int32)
            self._final_number = np.full(self.num_slots, _NONE, np.int64)
        time = np.arange(num_steps, dtype=np.int32)[:, None]
        begun = np.maximum.accumulate(np.where(episode_starts(steps.ended, self._over), time, _NONE), axis=0)
        since_start = np.where(begun >= 0, time - begun, self._since_now + time)
        self._since_start[slots] = np.minimum(since_start, self.num_frames).ravel()[kept]
        self._since_now = np.minimum(since_start[-1] + 1, self.num_frames).astype(np.int32)
        self._over = steps.ended[-1].copy()
        self._pending = steps.next_obs[-1].copy()
        self._release(slots)
        self._keep_final(slots, steps.next_obs.reshape(-1, *steps.next_obs.shape[2:])[kept], steps.ended.ravel()[kept])
        return slots

    def _release(self, slots: IntArray) -> None:
        """The last frames that belonged to overwritten slots may be overwritten as well."""
        if len(slots):
            self._oldest_final = max(self._oldest_final, int(self._final_number[slots].max()) + 1)
            self._final_number[slots] = _NONE

    def _keep_final(self, slots: IntArray, frames: Array, ended: BoolArray) -> None:
        if not ended.any():
            return
        slots, frames = slots[ended], frames[ended]
        needed = self._num_final + len(slots) - self._oldest_final
        if needed > len(self._final):
            self._grow(max(needed, 2 * len(self._final), 16), frames)
        numbers = self._num_final + np.arange(len(slots))
        self._final[numbers % len(self._final)] = frames
        self._final_number[slots] = numbers
        self._num_final += len(slots)

    def _grow(self, room: int, like: Array) -> None:
        former = self._final
        self._final = np.zeros((room, *like.shape[1:]), like.dtype)
        numbers = np.arange(self._oldest_final, self._num_final)
        if len(numbers):
            self._final[numbers % room] = former[numbers % len(former)]

    def interrupt(self) -> None:
        """Running episodes count as truncated; their last frames are those seen after the newest step."""
        if not self.size:
            return
        slots = self.newest()
        frames = self._next_frame(slots)
        self._num_final -= int((self._final_number[slots] != _NONE).sum())  # numbered anew, in the order of the slots
        super().interrupt()
        self._final_number[slots] = _NONE
        self._keep_final(slots, frames, np.ones(len(slots), np.bool_))
        self._over[:] = True

    def obs(self, slots: IntArray) -> Array:
        """Stacks that end with what the agent saw: [..., *stack]."""
        return self._join([self._back(slots, steps) for steps in range(self.num_frames - 1, -1, -1)])

    def next_obs(self, slots: IntArray) -> Array:
        """Stacks that end with what it saw next: [..., *stack]."""
        earlier = [self._back(slots, steps) for steps in range(self.num_frames - 2, -1, -1)]
        return self._join([*earlier, self._next_frame(slots)])

    def _join(self, frames: list[Array]) -> Array:
        return join_frames(frames, self._fields["obs"].ndim - 1)

    def _back(self, slots: IntArray, steps: int) -> Array:
        """The frame a number of steps earlier, or the first of the episode."""
        return gathered(self._fields["obs"], self.ahead(slots, -np.minimum(steps, self._since_start[slots])))

    def _next_frame(self, slots: IntArray) -> Array:
        frames = gathered(self._fields["obs"], self.ahead(slots, 1))
        number = self._final_number[slots]
        final = number != _NONE
        if final.any():
            frames[final] = self._final[number[final] % len(self._final)]
        env = self.ages(slots) - (self.size - self.num_envs)  # of the newest step: which environment
        newest = (env >= 0) & ~final
        if newest.any():
            frames[newest] = self._pending[env[newest]]
        return frames

    @property
    def obs_nbytes(self) -> int:
        """Bytes of one stack."""
        return super().obs_nbytes * self.num_frames

    @property
    def nbytes(self) -> int:
        """Memory taken."""
        return super().nbytes + self._final.nbytes + self._since_start.nbytes + self._final_number.nbytes

    def get_state(self) -> dict[str, Array]:
        """As of every ring, and the frames that belong to no transition."""
        state = super().get_state()
        if not self.num_envs:
            return state
        numbers = np.arange(self._oldest_final, self._num_final)
        return {
            **state,
            "frames/pending": self._pending,
            "frames/over": self._over,
            "frames/since_now": self._since_now,
            "frames/since_start": self._since_start,
            "frames/final": self._final[numbers % len(self._final)] if len(numbers) else self._pending[:0],
            "frames/final_number": self._final_number,
            "frames/counts": np.array([self._oldest_final, self._num_final, self.num_frames], np.int64),
        }

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored state; refuses one of another capacity or kind (CheckpointError)."""
        super().set_state(state)
        if not self.num_envs:
            return
        self._pending, self._over = np.array(state["frames/pending"]), np.array(state["frames/over"])
        self._since_now = np.array(state["frames/since_now"])
        self._since_start = np.array(state["frames/since_start"])
        self._final_number = np.array(state["frames/final_number"])
        self._oldest_final, self._num_final, _ = (int(number) for number in state["frames/counts"])
        final = state["frames/final"]
        self._final = np.zeros((max(len(final), 16), *self._pending.shape[1:]), self._pending.dtype)
        if len(final):
            self._final[np.arange(self._oldest_final, self._num_final) % len(self._final)] = final
