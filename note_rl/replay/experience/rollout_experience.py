"""Training from the rollout just taken."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from note_rl.errors import AgentContractError, SettingsError
from note_rl.learners.reports import approx_kl
from note_rl.replay.experience.base import (
    MAX_BLOCK_BYTES,
    AgentView,
    BatchTransform,
    Clock,
    check_handed_over,
    fixed_chunks,
)
from note_rl.replay.frame_ring import FrameRing
from note_rl.replay.returns import explained_variance
from note_rl.replay.rollout import Rollout, RolloutScores
from note_rl.settings.experience import RolloutSettings
from note_rl.settings.switch_names import TARGET_KL
from note_rl.settings.window_functions import Removal, ask
from note_rl.support.setting_fields import named
from note_rl.types import Array, BoolArray, FloatArray, IntArray, Sample, Steps, Update

_MAX_PRIORITIZED_BLOCK = 8  # scores change between update blocks only
_KL_TOLERANCE = 1.5  # as in OpenAI's baselines, Spinning Up and Stable-Baselines3


class RolloutExperience:
    """Trains from each rollout for some epochs, then forgets it.

    Args:
        settings: What was chosen, `for_envs`.
        view: What is asked of the agent.
        rng: Shuffles.

    Attributes:
        num_transitions: Of a rollout; no number before the first one.

    Raises:
        AgentContractError: The agent does not have what the settings need.
    """

    ahead = 0  # phases are whole rollouts

    def __init__(self, settings: RolloutSettings, view: AgentView, rng: np.random.Generator) -> None:
        self.settings = settings
        self.num_transitions: float = math.inf
        self._view = view
        self._transform = BatchTransform(view, settings.learned_reward, settings.expert)
        self._rng = rng
        self._rollout: Rollout | None = None
        self._max_block = 1  # gradient steps
        self._scores: RolloutScores | None = None
        self._epoch: list[Update] = []  # blocks of the present one, where it matters how far the policy has moved
        self._num_epochs = 0.0  # over the last rollout
        self._value_fit: tuple[FloatArray, FloatArray] | None = None  # values and returns of the last rollout
        self._frames: FrameRing | None = None  # holds the frames before a rollout, too

    @property
    def _batch_size(self) -> int:
        """Current transitions per gradient step."""
        size = self.settings.batch_size
        assert size != "rollout", "settings are made for_envs"
        return size

    def phase_length(self, num_envs: int, remaining: int | None, collected: Sequence[Steps] = ()) -> int | None:
        """Always whole rollouts: a shorter last one would be another problem."""
        return self.settings.steps_per_env(num_envs)

    def store(self, steps: Steps, num_rounds: int = 1) -> None:
        """Keeps the rollout and works out its advantages, if the agent has a value function."""
        view = self._view
        if self.settings.frame_stack > 1:
            self._add_frames(steps)
        elif view.normalises_obs:
            steps = replace(steps, obs=view.seen(steps.obs), next_obs=view.seen(steps.next_obs))
        if not self.settings.learned_reward and view.normalise_reward is not None:
            steps = replace(steps, reward=view.normalise_reward(steps.reward))
        per_transition = 2 * steps.obs[0, 0].nbytes * self.settings.frame_stack
        self._max_block = max(1, MAX_BLOCK_BYTES // max(self._batch_size * per_transition, 1))
        self._rollout = self._made(steps)
        self.num_transitions = len(self._rollout)
        if self.settings.learned_reward and view.reward is not None:
            self._rollout.replace_reward(view.reward)
        value = view.value or view.value_from
        if value is not None:
            self._rollout.add_advantages(value, view.gae_lambda(), view.standardise_advantage)
            self._value_fit = self._rollout.value_fit()
        self._scores = None
        if self.settings.priority is not None:
            self._scores = RolloutScores(self.settings.priority, len(self._rollout))

    def _made(self, steps: Steps) -> Rollout:
        return Rollout(steps, self._view.discount(), self._frames)

    def _add_frames(self, steps: Steps) -> None:
        if self._frames is None or self._frames.capacity != steps.num_env_steps:
            self._frames = FrameRing(steps.num_env_steps, self.settings.frame_stack)
        self._frames.add(steps)

    def interrupt(self) -> None:
        """The next rollout begins with new episodes."""
        if self._frames is not None:
            self._frames.interrupt()

    def update_blocks(self, clock: Clock) -> Iterator[Sample]:
        """All epochs over the rollout in as few update blocks as memory allows, or by priority in short ones.

        No block reaches over a point where the window is applied, nor, with `target_kl`, over the end of an epoch.
        """
        rollout, settings = self._rollout, self.settings
        assert rollout is not None, "store() comes first"
        per_epoch = len(rollout) // self._batch_size
        if not per_epoch:
            raise SettingsError(
                "{} has become {}, more than the {} transitions of a rollout: let what changes it end there",
                *(named(RolloutSettings, "batch_size"), self._batch_size, len(rollout)),
            )
        total = settings.num_epochs * per_epoch
        draw, max_block = self._drawing(rollout)
        sync = self._sync(total, per_epoch, clock)
        windows = self._window_ends(sync, per_epoch)
        epochs = [] if settings.target_kl is None else list(range(per_epoch, total, per_epoch))
        begin = 0
        self._epoch.clear()
        for end in sorted({*windows, *epochs, total}):
            if begin in epochs and self._moved_too_far():
                break
            if begin in windows:
                self._apply_window()
            for first, last in fixed_chunks(end - begin, max_block):
                yield self._dressed(rollout, draw(begin + first, begin + last), sync[begin + first : begin + last])
            begin = end
        self._num_epochs = begin / per_epoch
        self._rollout = None  # its scores stay for those who ask how the rollout was drawn from

    def _drawing(self, rollout: Rollout) -> tuple[Callable[[int, int], IntArray], int]:
        """A function that draws transitions [k, B] for some gradient steps, and the most such steps in one block."""
        scores, rng, batch_size = self._scores, self._rng, self._batch_size
        if scores is not None:
            return lambda first, last: scores.draw((last - first, batch_size), rng), _MAX_PRIORITIZED_BLOCK
        index = rollout.epochs(self.settings.num_epochs, batch_size, rng)
        return lambda first, last: index[first:last], self._max_block

    def _window_ends(self, sync: BoolArray, per_epoch: int) -> list[int]:
        """Gradient steps [K'] after which the window is applied.

        That is where targets are updated, or, if that is left to the end of the rollout, after each epoch.
        """
        if self._scores is None or self.settings.window is None:
            return []
        if self.settings.target_update_interval is None:
            return list(range(per_epoch, len(sync), per_epoch))
        return [int(step) + 1 for step in np.flatnonzero(sync[:-1])]

    def _moved_too_far(self) -> bool:
        """Whether the policy has left the one that collected further than wished, in the epoch that has ended."""
        assert self.settings.target_kl is not None
        found = approx_kl(self._epoch)
        self._epoch.clear()
        assert found is not None, "feedback() checks that it is given"
        return float(found) > _KL_TOLERANCE * self.settings.target_kl

    def _apply_window(self) -> None:
        window, scores = self.settings.window, self._scores
        assert window is not None
        assert scores is not None
        told = ask(window) if callable(window) else window
        if isinstance(told, Removal):
            scores.give_up_oldest(min(told, scores.num_live - self._batch_size))
        else:
            scores.keep_highest(max(told, self._batch_size))

    def _dressed(self, rollout: Rollout, index: IntArray, sync: BoolArray) -> Sample:
        return self._transform.with_expert(rollout.gather(index, sync), self._rng)

    def _sync(self, num_gradient_steps: int, per_epoch: int, clock: Clock) -> BoolArray:
        """After which of the coming gradient steps the targets are updated: [K]."""
        every = self.settings.target_update_interval
        if every is None:
            sync = np.zeros(num_gradient_steps, np.bool_)
            sync[-1 if self.settings.target_kl is None else slice(per_epoch - 1, None, per_epoch)] = True
            return sync
        return clock.sync_every(num_gradient_steps, every)

    def feedback(self, sample: Sample, update: Update) -> None:
        """New scores, and how far the policy has moved."""
        if self.settings.target_kl is not None:
            _check_tells_kl(update)
            self._epoch.append(update)
        if self._scores is None:
            return
        assert sample.slots is not None
        ratio = None if update.ratio is None else update.ratio.ravel()
        self._scores.update(sample.slots.ravel(), check_handed_over(update).ravel(), ratio)

    def logs(self) -> dict[str, float]:
        """How well values have predicted the returns of the last rollout, and its epochs where these may end early."""
        values = {} if self._value_fit is None else {"explained_variance": explained_variance(*self._value_fit)}
        return values if self.settings.target_kl is None else {**values, "num_epochs": self._num_epochs}

    def priorities(self) -> FloatArray | None:
        """score^alpha of what is drawn from this rollout, or was from the last one."""
        return None if self._scores is None else self._scores.drawn_in_proportion_to

    def get_state(self) -> dict[str, Array]:
        """Between phases there is no rollout, but the frames before the next one."""
        return {} if self._frames is None else self._frames.get_state()

    def set_state(self, state: Mapping[str, Array]) -> None:
        """Takes over the frames before the next rollout."""
        if "position" in state:
            self._frames = FrameRing(int(state["position"][2]), self.settings.frame_stack)
            self._frames.set_state(state)


def _check_tells_kl(update: Update) -> None:
    """Refuses a loss of which nobody knows how far its policy has moved (AgentContractError)."""
    if approx_kl([update]) is None:
        raise AgentContractError(
            "{} ends epochs by how far the policy has moved, which this loss never says: call "
            "self.prioritized_replay.update(TD, ratio) or self.report(approx_kl=...) in __call__, or {}",
            *(TARGET_KL, TARGET_KL.leave_out()),
        )
