"""Choices about experience: replay, rollouts of the current policy, or both in sequences."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from note_rl.errors import SettingsError
from note_rl.errors.wording import Name, Part, Sentence, out_of_range
from note_rl.settings.demonstrations import Demonstrations, Expert
from note_rl.settings.recordings import RecordedSteps, steps_or_dataset
from note_rl.settings.replay_choices import Hindsight, Priority, RolloutPriority, Window
from note_rl.settings.switch_names import DATASET, FRAME_STACK, HER, IRL, NUM_ENVS, OFFLINE, PR, TRL
from note_rl.settings.window_functions import WindowFunction
from note_rl.support.setting_fields import check_fields, documented, fields_of, given, like, named, setting
from note_rl.support.value_kinds import (
    Count,
    Described,
    Number,
    count_or_function,
    count_or_rollout,
    flag,
    refuse_given,
    refuse_unknown,
)

UPDATES_OF_COPIES = 100
"""Gradient steps between updates of targets that are copies, where nobody says how many; see `target_updates`."""


def _expert(name: Name, value: Any) -> Expert:
    """Demonstrations, or the path of a file of them."""
    if not isinstance(value, Demonstrations | str | os.PathLike):
        raise SettingsError(out_of_range(name, f"be {demonstrations.range}", value))
    return value


demonstrations = Described("Demonstrations(obs, action) or the path of a file of them", _expert)


@documented
@dataclass(frozen=True, kw_only=True)
class ReplaySettings:
    """Off-policy experience: a ring of transitions, trained from again and again."""

    capacity: int = setting(10_000, Count(), manual="pool_size", text="Transitions kept, all environments together.")
    batch_size: int = setting(64, Count(), manual="batch", text="Transitions per gradient step.")
    learning_starts: int = setting(0, Count(0), text="Environment steps before the first gradient step.")
    train_freq: int | None = setting(
        None,
        Count(),
        text="Environment steps (all environments together) between training phases; None: one episode. What several "
        "environments take beyond it counts for the next phase.",
    )
    gradient_steps: int | None = setting(
        None,
        Count(),
        manual="num_updates",
        text="Gradient steps per training phase, or for every `train_freq` steps in it if they are several times as "
        "many; None: one shuffled pass over the pool.",
    )
    target_update_interval: int | None = setting(
        None,
        Count(),
        manual="update_batches",
        text=f"Gradient steps between calls of update_param(); None: {UPDATES_OF_COPIES} if it copies, else 1, or what "
        "the agent says.",
    )
    target_update_env_steps: int | None = setting(
        None,
        Count(),
        manual="update_steps",
        text="The same in environment steps, in place of it; None: gradient steps count.",
    )
    num_steps: int = setting(1, Count(), text="n of n-step returns, put together when sampled.")
    priority: Priority | None = setting(
        None,
        manual="PR",
        text="Transitions are read by the size of their TD error; None: all alike.",
    )
    hindsight: Hindsight | None = setting(None, manual="HER", text="Goals are replaced by achieved ones; None: never.")
    trajectories: bool = setting(
        False, flag, manual="TRL", text="Minibatches hold triplets of one episode, see `note_rl.replay.trajectories`."
    )
    learned_reward: bool = setting(
        False,
        flag,
        manual="IRL",
        text="The reward of a minibatch is what the agent's reward() says when it is sampled.",
    )
    expert: Expert | None = setting(
        None,
        demonstrations,
        text="Demonstrations, or the path of a file of them, offered with every minibatch; None: none.",
    )
    window: Window | None = setting(None, manual=None, text="Keeps the pool shorter than its capacity; None: never.")
    frame_stack: int = setting(
        1, Count(), text="Frames shown together; each is stored once and they are put together when sampled."
    )
    dataset: RecordedSteps | str | None = setting(
        None,
        steps_or_dataset,
        text="Recorded steps that the pool begins with: the id of a Minari data set, or a RecordedSteps; None: none.",
    )
    offline: bool = setting(
        False,
        flag,
        text="Nothing is collected, and the pool is `dataset` as it is. Steps of the budget pass as if environments "
        "were stepped, which only evaluation does.",
    )

    def __post_init__(self) -> None:
        """Refuses values out of range and contradictions."""
        check_fields(self)
        if self.offline and self.dataset is None:
            raise SettingsError(
                "{} learns from a data set alone, and there is none: give {}", OFFLINE.at(True), DATASET.at("...")
            )
        if self.batch_size > self.capacity:
            raise SettingsError(
                "{} is more than the pool holds ({}); lower the batch or enlarge the pool",
                *(given(self, "batch_size"), given(self, "capacity")),
            )
        if self.target_update_interval is not None and self.target_update_env_steps is not None:
            raise SettingsError(
                "{} and {} both say when targets are updated; give one of them",
                *(given(self, "target_update_interval"), given(self, "target_update_env_steps")),
            )
        self._check_window()
        for first, second, reason, remedy in _CONTRADICTIONS:
            if self._has(first) and self._has(second):
                both = (_NAMES[first], _NAMES[second])
                raise SettingsError("{} and {} cannot be combined: {}; {}", *both, reason, remedy)

    def _check_window(self) -> None:
        least = self.window.least(self.capacity) if self.window is not None else None
        if least is not None and least < self.batch_size:
            raise SettingsError(
                "the window leaves {} transitions of the pool, less than a minibatch ({}); keep more or lower the "
                "batch",
                *(least, given(self, "batch_size")),
            )

    def _has(self, name: str) -> bool:
        value = getattr(self, name)
        return value > 1 if name in ("num_steps", "frame_stack") else bool(value)


_NUM_STEPS, _WINDOW = named(ReplaySettings, "num_steps"), named(ReplaySettings, "window")
_NAMES: Mapping[str, Part] = {
    "num_steps": Sentence("{} above 1", _NUM_STEPS),
    "priority": PR,
    "hindsight": HER,
    "trajectories": TRL,
    "learned_reward": IRL,
    "frame_stack": Sentence("{} above 1", FRAME_STACK),
    "dataset": DATASET,
    "window": _WINDOW,
    "offline": OFFLINE,
}
_ONE_OF_THEM = "leave one of them out"
_CONTRADICTIONS: tuple[tuple[str, str, str, Part], ...] = (
    (
        *("hindsight", "num_steps", "only the first reward of n could be worked out anew for another goal"),
        _NUM_STEPS.leave_out(),
    ),
    ("hindsight", "trajectories", "a triplet's goal is a state of its own trajectory already", _ONE_OF_THEM),
    ("hindsight", "learned_reward", "both say what the reward of a minibatch is", _ONE_OF_THEM),
    ("hindsight", "frame_stack", "a stack of frames has no place for a goal", FRAME_STACK.leave_out()),
    ("trajectories", "num_steps", "the two steps of a triplet are as long as they come", _NUM_STEPS.leave_out()),
    ("trajectories", "priority", "a priority belongs to one transition, a triplet is drawn from three", PR.leave_out()),
    ("trajectories", "learned_reward", "the reward of many steps cannot be learned from their ends", _ONE_OF_THEM),
    ("learned_reward", "num_steps", "the reward of n steps cannot be learned from their ends", _NUM_STEPS.leave_out()),
    ("dataset", "hindsight", "a data set does not tell which goal each step achieved", HER.leave_out()),
    (
        *("dataset", "frame_stack", "a data set holds what was seen, frames put together already"),
        FRAME_STACK.leave_out(),
    ),
    ("offline", "window", "a data set is kept as it is", _WINDOW.leave_out()),
)


@documented
@dataclass(frozen=True, kw_only=True)
class RolloutSettings:
    """On-policy experience: a rollout of the current policy, trained from for some epochs, then forgotten."""

    num_steps: int = setting(2048, Count(), manual="rollout_steps", text="Steps per environment and rollout.")
    num_env_steps: int | None = setting(
        None,
        Count(),
        manual="update_steps",
        text="Steps of all environments together and rollout, which replace `num_steps`; None: that holds.",
    )
    batch_size: int | Literal["rollout"] = setting(
        ReplaySettings.batch_size,
        count_or_rollout,
        manual="batch",
        text="Transitions per gradient step; rollout: all of the rollout at once.",
    )
    num_epochs: int = setting(10, Count(), text="Passes over each rollout.")
    sequence_length: int | None = setting(
        None,
        Count(),
        text="Steps of the sequences of one environment that an agent with a memory learns from; None: the most that "
        "rollout and minibatch both consist of whole ones of.",
    )
    target_kl: float | None = setting(
        None,
        Number(0.0, above=True, hint="; leave it out to take all epochs"),
        text="Passes over a rollout end after the one whose minibatches have, on average, more than 1.5 times this "
        "approximate KL divergence from the collecting policy, by the ratios that the loss hands over. Targets that "
        "are updated at the end of a rollout are then updated after each pass. None: all passes are taken.",
    )
    target_update_interval: int | None = setting(
        None,
        Count(),
        manual="update_batches",
        text="Gradient steps between calls of update_param(); None: at the end of each rollout.",
    )
    priority: RolloutPriority | None = setting(
        None,
        manual="PR",
        text="Minibatches are drawn by TD error and ratio instead of in shuffled passes; None: never.",
    )
    window: int | WindowFunction | None = setting(
        None,
        count_or_function,
        manual="window_size_ppo",
        text="Transitions of the highest score that are kept, from which what is left of the rollout's training draws: "
        "a number, or a function that is asked for it; never less than a minibatch; None: all. Applied at each target "
        "update, or after each epoch if targets are updated at the end of the rollout only.",
    )
    learned_reward: bool = setting(
        False, flag, manual="IRL", text="The reward of a rollout is what the agent's reward() says of it."
    )
    expert: Expert | None = like(ReplaySettings, "expert")
    frame_stack: int = like(ReplaySettings, "frame_stack")

    offline: ClassVar[bool] = False  # goes with replay only

    def __post_init__(self) -> None:
        """Refuses values out of range and contradictions."""
        check_fields(self)
        if self.window is not None and self.priority is None:
            raise SettingsError(
                "{} keeps the transitions of the highest priority, and there are none; {}",
                *(named(type(self), "window"), PR.add()),
            )

    def steps_per_env(self, num_envs: int) -> int:
        """Steps that each of `num_envs` environments contributes to a rollout."""
        return self.num_steps if self.num_env_steps is None else max(self.num_env_steps // num_envs, 1)

    def check_memory(self, has_memory: bool, num_envs: int) -> None:
        """Refuses what does not go with an agent that has a memory, or has none.

        Raises:
            SettingsError: Naming what to leave out or change.
        """
        if not has_memory:
            if self.sequence_length is not None:
                raise SettingsError(
                    "{} is about agents with a memory, and this one has none: {}, or choose a network with one "
                    "(lstm, gru)",
                    *(given(self, "sequence_length"), named(type(self), "sequence_length").leave_out()),
                )
            return
        if self.priority is not None:
            raise SettingsError(
                "{} draws single transitions, and an agent with a memory learns from whole sequences: {}",
                *(PR.at(True), PR.leave_out()),
            )
        self.steps_of_sequence(num_envs)

    def steps_of_sequence(self, num_envs: int) -> int:
        """Steps of each sequence that an agent with a memory learns from.

        Raises:
            SettingsError: Rollout or minibatch do not consist of whole ones, or of such of a single step only.
        """
        own = self.for_envs(num_envs)
        steps, batch_size = own.steps_per_env(num_envs), own.batch_size
        assert batch_size != "rollout"
        steps_name, batch = named(type(self), "num_steps"), named(type(self), "batch_size")
        length = math.gcd(steps, batch_size) if self.sequence_length is None else self.sequence_length
        if self.sequence_length == 1 < steps:
            raise SettingsError(
                "{}: an agent with a memory learns from sequences of several steps; choose more, or {}",
                *(given(self, "sequence_length"), named(type(self), "sequence_length").leave_out()),
            )
        if steps % length or batch_size % length:
            raise SettingsError(
                "{}: an agent with a memory learns from whole sequences, and neither {} steps of each environment nor "
                "{} transitions of a minibatch may leave a rest; choose {} and {} as multiples of it, or {}",
                *(given(self, "sequence_length"), steps, batch_size, steps_name, batch),
                named(type(self), "sequence_length").leave_out(),
            )
        if length == 1 < steps:
            raise SettingsError(
                "an agent with a memory learns from sequences of several steps, and a rollout of {} steps of each "
                "environment and minibatches of {} transitions have none in common: make {} a multiple of {}",
                *(steps, batch_size, batch, steps_name),
            )
        return length

    def for_envs(self, num_envs: int) -> "RolloutSettings":
        """The same, with a number for "rollout".

        Raises:
            SettingsError: Minibatches are larger than a rollout of this number of environments.
        """
        steps = self.steps_per_env(num_envs)
        if self.batch_size == "rollout":
            return replace(self, batch_size=steps * num_envs)
        if self.batch_size > steps * num_envs:
            raise SettingsError(
                "{} is more than a rollout holds ({} steps of each of {} environments, {} in all); lower the batch, "
                "or collect more ({}, {}, {})",
                *(given(self, "batch_size"), steps, num_envs, steps * num_envs),
                *(named(type(self), "num_steps"), named(type(self), "num_env_steps"), NUM_ENVS),
            )
        return self


@documented
@dataclass(frozen=True, kw_only=True)
class SequenceSettings:
    """Both: each rollout is learned from once as it is taken, and joins a pool whose sequences are read again."""

    num_steps: int = setting(
        20,
        Count(),
        manual="sequence_length",
        text="Steps of a sequence; each environment takes as many per rollout.",
    )
    capacity: int = like(ReplaySettings, "capacity")
    batch_size: int | Literal["rollout"] = setting(
        "rollout",
        count_or_rollout,
        manual="batch",
        text="Sequences per gradient step on the pool; rollout: as many as a rollout has, one per environment.",
    )
    replay_ratio: float = setting(
        4.0,
        Number(0.0),
        text="Gradient steps on the pool per rollout, on average: after each, a number is drawn from a Poisson "
        "distribution.",
    )
    learning_starts: int = like(ReplaySettings, "learning_starts")
    target_update_interval: int | None = setting(
        None, Count(), manual="update_batches", text="Gradient steps between calls of update_param(); None: each one."
    )
    frame_stack: int = like(ReplaySettings, "frame_stack")

    # What goes with the other kinds only.
    offline: ClassVar[bool] = False
    priority: ClassVar[None] = None
    hindsight: ClassVar[None] = None
    window: ClassVar[None] = None
    expert: ClassVar[None] = None
    trajectories: ClassVar[bool] = False
    learned_reward: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuses values out of range."""
        check_fields(self)

    def steps_per_env(self, num_envs: int) -> int:
        """Steps that each of `num_envs` environments contributes to a rollout."""
        return self.num_steps

    def for_envs(self, num_envs: int) -> "SequenceSettings":
        """The same, with a number for "rollout".

        Raises:
            SettingsError: The pool is smaller than a rollout of this number of environments.
        """
        if self.num_steps * num_envs > self.capacity:
            raise SettingsError(
                "{} is less than one rollout ({} steps of each of {} environments); enlarge the pool, or shorten {}",
                *(given(self, "capacity"), self.num_steps, num_envs, named(type(self), "num_steps")),
            )
        return replace(self, batch_size=num_envs) if self.batch_size == "rollout" else self


ExperienceSettings = ReplaySettings | RolloutSettings | SequenceSettings

_OF_POOLS = tuple(str(one.manual_name) for one in fields_of(Window))
_OF_TRAIN = {str(one.manual_name): one.kind for one in fields_of(Window) if one.kind}
_OF_TRAIN["window_size_ppo"] = count_or_function


def with_train_arguments(
    experience: ExperienceSettings, window_size_func: WindowFunction | None = None, **windows: Any
) -> ExperienceSettings:
    """The settings with the windows that train() was given.

    Args:
        experience: The settings of set().
        window_size_func: Asked before `window_size_ppo` and `window_size_pr`, which are what holds without it.
        **windows: In the manuals' names: window_size, clearing_freq, window_size_, window_size_ppo, window_size_pr.

    Raises:
        SettingsError: Arguments that do not go with the kind of experience.
    """
    refuse_unknown("with_train_arguments", windows, _OF_TRAIN)
    windows = {name: _OF_TRAIN[name](name, value) for name, value in windows.items() if value is not None}
    if isinstance(experience, SequenceSettings):
        refuse_given(windows, _OF_TRAIN, "does not go with sequences=True, whose pool is as long as pool_size says")
        return experience
    if isinstance(experience, RolloutSettings):
        return _with_rollout_window(experience, window_size_func, windows)
    return _with_pool_window(experience, window_size_func, windows)


def _with_rollout_window(
    experience: RolloutSettings, window_size_func: WindowFunction | None, windows: Mapping[str, Any]
) -> RolloutSettings:
    refuse_given(windows, _OF_POOLS, "trims a pool, and PPO=True has none")
    window = windows.get("window_size_ppo")
    if window_size_func is not None and experience.priority is not None:
        window = window_size_func
    return experience if window is None else replace(experience, window=window)


def _with_pool_window(
    experience: ReplaySettings, window_size_func: WindowFunction | None, windows: Mapping[str, Any]
) -> ReplaySettings:
    refuse_given(windows, ["window_size_ppo"], "trims a rollout; add PPO=True and PR=True to set()")
    if experience.priority is None:
        refuse_given(windows, ["window_size_pr"], "keeps what has priority; add PR=True to set()")
    trimmed = {one.name: windows.get(str(one.manual_name)) for one in fields_of(Window)}
    if window_size_func is not None:
        trimmed["on_sync"] = window_size_func
    if all(value is None for value in trimmed.values()):
        return experience
    return replace(experience, window=Window(**trimmed))
