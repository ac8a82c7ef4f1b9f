"""Training from a replay pool."""

import logging
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from note_rl.errors import AgentContractError, SettingsError
from note_rl.errors.wording import Sentence
from note_rl.replay.buffer import Parts, ReplayBuffer
from note_rl.replay.episodes import EpisodeIndex
from note_rl.replay.experience.base import (
    MAX_BLOCK_BYTES,
    AgentView,
    BatchTransform,
    Clock,
    check_handed_over,
    fixed_chunks,
    ladder_chunks,
)
from note_rl.replay.hindsight import HindsightReader, require_goals
from note_rl.replay.readers import NStep, Reader, one_step
from note_rl.replay.samplers import PrioritizedSampler
from note_rl.replay.trajectories import TripletReader
from note_rl.settings.experience import ReplaySettings
from note_rl.settings.training_settings import Settings
from note_rl.settings.window_functions import Removal, ask, kept
from note_rl.support.setting_fields import given, named
from note_rl.types import Array, BoolArray, FloatArray, IntArray, Sample, Steps, Update

_log = logging.getLogger(__name__)
_MAX_BLOCK = 512  # gradient steps per framework call: enough to amortise the call, little enough to stay responsive
_MAX_PRIORITIZED_BLOCK = 32  # priorities change between update blocks only: the same with an eye on their age


class ReplayExperience:
    """Trains from a replay pool, `gradient_steps` after every `train_freq` environment steps.

    E environments take E steps at once, and `train_freq` may be no multiple of that. What a phase collects beyond it
    counts for the next one, and where it is enough for several at once, `gradient_steps` are taken once for each. So
    there are as many gradient steps for as many environment steps, whatever E; with episodes that end together alike.

    Args:
        settings: What was chosen.
        view: What is asked of the agent.
        rng: Chooses what is read.

    Raises:
        AgentContractError: The agent does not have what the settings need.
    """

    def __init__(self, settings: ReplaySettings, view: AgentView, rng: np.random.Generator) -> None:
        self.settings = settings
        self.buffer = ReplayBuffer(settings.capacity, make_parts(settings, view))
        self._view = view
        self._transform = BatchTransform(view, settings.learned_reward, settings.expert)
        self._rng = rng
        self._new_steps = 0
        self._num_due = 1  # times that `gradient_steps` are to be taken now
        self.ahead = 0
        self._since_clearing = 0
        self._warned = False

    def phase_length(self, num_envs: int, remaining: int | None, collected: Sequence[Steps] = ()) -> int | None:
        """The environment steps that are missing to `train_freq`, rounded up to whole steps of all environments."""
        if self.settings.train_freq is None:
            return None
        taken = self.ahead + sum(steps.num_env_steps for steps in collected)
        wanted = self.settings.train_freq * (len(collected) + 1) - taken
        wanted = wanted if remaining is None else min(wanted, remaining)
        return max(-(-wanted // num_envs), 1)

    def begin_with(self, recorded: Steps) -> None:
        """Fills the pool with steps that were not taken for it.

        Raises:
            SettingsError: There is no room for all of them, or there are too few to learn from.
        """
        number, settings = recorded.num_env_steps, self.settings
        if number > settings.capacity:
            capacity = named(ReplaySettings, "capacity")
            raise SettingsError(
                "the data set holds {} steps and the pool {}: set {} or more",
                *(number, settings.capacity, capacity.at(number)),
            )
        if settings.offline and number < settings.batch_size:
            raise SettingsError(
                "the data set holds {} steps, less than a minibatch ({}): lower the batch",
                *(number, given(settings, "batch_size")),
            )
        self.buffer.add(recorded)

    def store(self, steps: Steps, num_rounds: int = 1) -> None:
        """Adds the steps to the pool, unless that is a data set alone, and drops what the window leaves out."""
        self._new_steps = steps.num_env_steps
        self._count(steps, num_rounds)
        if self.settings.offline:
            return
        self.buffer.add(steps)
        window = self.settings.window
        if window is None:
            return
        if window.clearing_freq is not None and window.clear_size is not None:
            rounds, self._since_clearing = divmod(self._since_clearing + self._new_steps, window.clearing_freq)
            self.buffer.drop_oldest(rounds * window.clear_size)
        if window.size is not None:
            keep = kept(window.size, self.buffer.capacity, self.settings.batch_size, len(self.buffer))
            self.buffer.drop_oldest(len(self.buffer) - keep)

    def _count(self, steps: Steps, num_rounds: int) -> None:
        """Finds out how often `gradient_steps` are due; a phase that the budget cut short has its own all the same."""
        episodes = self.settings.train_freq is None
        new = int(steps.ended.sum()) if episodes else steps.num_env_steps
        per_phase = num_rounds * (self.settings.train_freq or 1)
        self._num_due, self.ahead = divmod(self.ahead + new, per_phase)
        if self._num_due == 0:
            self._num_due, self.ahead = 1, 0

    def interrupt(self) -> None:
        """The running episodes of the pool are over."""
        self.buffer.interrupt()

    def update_blocks(self, clock: Clock) -> Iterator[Sample]:
        """Minibatches for one phase, in update blocks of a few fixed sizes so that compiled code is reused."""
        settings = self.settings
        if not self._ready(clock):
            return
        sampler = self.buffer.sampler
        prioritized = isinstance(sampler, PrioritizedSampler)
        if isinstance(sampler, PrioritizedSampler):
            sampler.progress = clock.progress
        if settings.gradient_steps is not None:
            total = settings.gradient_steps * self._num_due_since_start(clock)
            slots, chunks = None, fixed_chunks(total, self._max_block())
        else:
            slots = self._one_pass()
            chunks = ladder_chunks(len(slots), self._max_block())
        sync = self._sync(chunks[-1][1], clock)
        for first, last in chunks:
            if slots is None or prioritized:
                shape = (last - first, settings.batch_size)
                sample = self.buffer.sample(shape, self._view.discount(), sync[first:last], self._rng)
            else:
                sample = self.buffer.gather(slots[first:last], self._view.discount(), sync[first:last], self._rng)
            yield self._transform.transformed(sample, self._rng)

    def _num_due_since_start(self, clock: Clock) -> int:
        """How often `gradient_steps` are due, less what was due before learning started."""
        if self.settings.train_freq is None:
            return self._num_due
        since = max(clock.num_env_steps - self.ahead - self.settings.learning_starts, 0)
        return min(self._num_due, since // self.settings.train_freq + 1)

    def _ready(self, clock: Clock) -> bool:
        buffer = self.buffer
        if clock.num_env_steps < self.settings.learning_starts or len(buffer) < self.settings.batch_size:
            return False
        if buffer.num_live == 0:
            return False
        reader = buffer.parts.reader
        return not isinstance(reader, TripletReader) or reader.possible(buffer.ring)

    def feedback(self, sample: Sample, update: Update) -> None:
        """New priorities; where targets were updated, the window then keeps the highest of them, or the newest."""
        if self.settings.priority is not None:
            assert sample.slots is not None
            self.buffer.update_priorities(sample.slots, check_handed_over(update))
        window = self.settings.window
        if window is None or window.on_sync is None or not sample.sync.any():
            return
        told = ask(window.on_sync) if callable(window.on_sync) else window.on_sync
        if isinstance(told, Removal):
            self.buffer.drop_oldest(min(told, len(self.buffer) - self.settings.batch_size))
            return
        keep = max(told, self.settings.batch_size)
        if isinstance(self.buffer.sampler, PrioritizedSampler):
            self.buffer.sampler.keep_highest(keep)
        else:
            self.buffer.drop_oldest(len(self.buffer) - keep)

    def logs(self) -> dict[str, float]:
        """Nothing: what is stored says little of a phase."""
        return {}

    def priorities(self) -> FloatArray | None:
        """|TD error|^alpha of what is stored and may be drawn, the oldest first."""
        if not isinstance(self.buffer.sampler, PrioritizedSampler):
            return None
        scores = self.buffer.sampler.scores[self.buffer.ring.slots(np.arange(len(self.buffer)))]
        return scores[scores > 0.0]

    def _one_pass(self) -> IntArray:
        """Every stored transition once, shuffled, the rest of the division left out: [K, B]."""
        batch_size = self.settings.batch_size
        num_batches = len(self.buffer) // batch_size
        if num_batches > 100 * self._new_steps and not self._warned:
            self._warned = True
            _log.warning(
                "each phase passes over the whole pool: now %d gradient steps for %d new environment steps; "
                "set %s to train less often",
                *(num_batches, self._new_steps, Sentence(named(ReplaySettings, "gradient_steps"))),
            )
        ages = self._rng.permutation(len(self.buffer))[: num_batches * batch_size].reshape(-1, batch_size)
        return self.buffer.ring.slots(ages)

    def _sync(self, num_gradient_steps: int, clock: Clock) -> BoolArray:
        """After which of the coming gradient steps the targets are updated: [K]."""
        every = self.settings.target_update_env_steps
        if every is not None:  # environment steps do not pass while training: the targets move between phases
            before = (clock.num_env_steps - self._new_steps) // every
            sync = np.zeros(num_gradient_steps, np.bool_)
            sync[-1] = clock.num_env_steps // every > before
            return sync
        return clock.sync_every(num_gradient_steps, self.settings.target_update_interval or 1)

    def _max_block(self) -> int:
        """Gradient steps with which an update block is not too large for the memory nor, with priorities, too old."""
        per_transition = 2 * self.buffer.ring.obs_nbytes * (2 if self.settings.trajectories else 1)
        per_transition += self._view.normal_nbytes
        largest = _MAX_BLOCK if self.settings.priority is None else _MAX_PRIORITIZED_BLOCK
        return max(1, min(largest, MAX_BLOCK_BYTES // max(self.settings.batch_size * per_transition, 1)))

    def get_state(self) -> dict[str, Array]:
        """The pool, and how far it is to the next clearing."""
        return {**self.buffer.get_state(), "since_clearing": np.array(self._since_clearing, np.int64)}

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over a stored pool."""
        self.buffer.set_state(state)
        self._since_clearing = int(state["since_clearing"])


def make_parts(settings: ReplaySettings, view: AgentView) -> Parts:
    """Returns the parts of the pool.

    Raises:
        AgentContractError: The agent has no gamma for n steps, or knows no goals for hindsight.
    """
    episodes = EpisodeIndex() if settings.hindsight is not None or settings.trajectories else None
    reader: Reader = one_step
    if settings.num_steps > 1:
        if view.gamma is None:
            raise AgentContractError(
                "{} sums discounted rewards, but the agent has no attribute gamma: set self.gamma, or give {}",
                *(given(settings, "num_steps"), named(Settings, "gamma")),
            )
        reader = NStep(settings.num_steps)
    elif settings.hindsight is not None and episodes is not None:
        reader = HindsightReader(settings.hindsight, require_goals(view.goals), episodes)
    elif settings.trajectories and episodes is not None:
        reader = TripletReader(episodes)
    return Parts(
        sampler=None if settings.priority is None else PrioritizedSampler(settings.priority),
        reader=reader,
        episodes=episodes,
        frame_stack=settings.frame_stack,
        chained=reader is not one_step,
    )
