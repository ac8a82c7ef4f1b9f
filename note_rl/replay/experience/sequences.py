"""Training from each rollout once, and from sequences of former ones again and again."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from note_rl.replay.buffer import Parts, ReplayBuffer
from note_rl.replay.experience.base import MAX_BLOCK_BYTES, AgentView, BatchTransform, Clock, ladder_chunks
from note_rl.replay.readers import SequenceReader
from note_rl.settings.experience import SequenceSettings
from note_rl.types import Array, FloatArray, IntArray, Sample, Steps, Update


class SequenceExperience:
    """One gradient step on each rollout, then a random number of them on the pool that all rollouts join.

    A sample is a sequence of T steps of one environment, wherever it begins: minibatches are [K, B, T, ...]. How many
    steps follow a rollout is drawn anew each time from a Poisson distribution (Wang et al. 2016, algorithm 1,
    https://arxiv.org/abs/1611.01224); it may be none. They come in update blocks of 1, 2, 4, ... steps, so that
    compiled code is reused.

    Args:
        settings: What was chosen, `for_envs`.
        view: What is asked of the agent.
        rng: Draws numbers of steps, and sequences.
    """

    ahead = 0  # phases are whole rollouts

    def __init__(self, settings: SequenceSettings, view: AgentView, rng: np.random.Generator) -> None:
        self.settings = settings
        reader = SequenceReader(settings.num_steps)
        self.buffer = ReplayBuffer(
            settings.capacity, Parts(reader=reader, frame_stack=settings.frame_stack, chained=True)
        )
        self._view = view
        self._transform = BatchTransform(view, learned_reward=False, expert=None)
        self._rng = rng
        self._num_rollouts = 0  # stored last

    def phase_length(self, num_envs: int, remaining: int | None, collected: Sequence[Steps] = ()) -> int | None:
        """Always whole rollouts."""
        return self.settings.num_steps

    def store(self, steps: Steps, num_rounds: int = 1) -> None:
        """Adds a rollout to the pool, or several that were taken one after the other."""
        self.buffer.add(steps)
        self._num_rollouts = len(steps.ended) // self.settings.num_steps

    def interrupt(self) -> None:
        """The running episodes of the pool are over."""
        self.buffer.interrupt()

    def update_blocks(self, clock: Clock) -> Iterator[Sample]:
        """The newest rollouts, a gradient step each; then, if it is time, sequences of the whole pool."""
        batch_size = self.settings.batch_size
        assert batch_size != "rollout", "settings are made for_envs"
        yield self._read(self._newest(), clock)
        if clock.num_env_steps < self.settings.learning_starts:
            return
        num_gradient_steps = int(self._rng.poisson(self.settings.replay_ratio))
        for first, last in ladder_chunks(num_gradient_steps, self._max_block(batch_size)):
            yield self._read(self._rng.integers(self._num_beginnings(), size=(last - first, batch_size)), clock)

    def _newest(self) -> IntArray:
        """Ages at which the sequences of the newest rollouts begin, [K, E]."""
        num_envs = self.buffer.ring.num_envs
        per_rollout = self.settings.num_steps * num_envs
        number = min(self._num_rollouts, len(self.buffer) // per_rollout)
        ages: IntArray = len(self.buffer) - per_rollout * np.arange(number, 0, -1)[:, None] + np.arange(num_envs)
        return ages

    def _num_beginnings(self) -> int:
        """How many transitions, counted from the oldest, have enough others behind them for a sequence."""
        return len(self.buffer) - (self.settings.num_steps - 1) * self.buffer.ring.num_envs

    def _read(self, ages: IntArray, clock: Clock) -> Sample:
        """The sequences that begin at these ages [K, B]."""
        slots, sync = (
            self.buffer.ring.slots(ages),
            clock.sync_every(len(ages), self.settings.target_update_interval or 1),
        )
        return self._transform.transformed(self.buffer.gather(slots, self._view.discount(), sync, self._rng), self._rng)

    def _max_block(self, batch_size: int) -> int:
        """Gradient steps with which an update block is not too large for the memory."""
        per_sequence = 2 * self.buffer.ring.obs_nbytes * self.settings.num_steps
        return max(1, MAX_BLOCK_BYTES // max(batch_size * per_sequence, 1))

    def feedback(self, sample: Sample, update: Update) -> None:
        """Nothing is kept of it."""

    def logs(self) -> dict[str, float]:
        """Nothing: what is stored says little of a phase."""
        return {}

    def priorities(self) -> FloatArray | None:
        """All sequences are alike."""
        return None

    def get_state(self) -> dict[str, Array]:
        """The pool."""
        return {**self.buffer.get_state(), "num_rollouts": np.array(self._num_rollouts, np.int64)}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored pool."""
        self.buffer.set_state(state)
        self._num_rollouts = int(state["num_rollouts"])
