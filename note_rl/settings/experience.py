"""What can be chosen about experience: replay, or rollouts of the current policy."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from note_rl.checking import check_fields, checked
from note_rl.errors import SettingsError
from note_rl.settings.demonstrations import Expert
from note_rl.settings.replay import Hindsight, Priority, RolloutPriority, Window, WindowFunction


@dataclass(frozen=True, kw_only=True)
class ReplaySettings:
    """Off-policy experience: a ring of transitions, trained from again and again.

    Attributes:
        capacity: Transitions kept, all environments together.
        batch_size: Transitions per gradient step.
        learning_starts: Environment steps before the first gradient step.
        train_freq: Environment steps (all environments together) between training phases; None: one episode.
        gradient_steps: Gradient steps per training phase; None: one shuffled pass over the pool.
        target_update_interval: Gradient steps between calls of update_param().
        target_update_env_steps: The same in environment steps. At most one of the two; with neither, the trainer
            chooses: see `note_rl.training.target_updates`.
        num_steps: n of n-step returns, put together when sampled.
        priority: Transitions are read by the size of their TD error; None: all alike.
        hindsight: Goals are replaced by achieved ones; None: never.
        trajectories: Minibatches hold triplets of one episode, see `note_rl.replay.trajectories`.
        learned_reward: The reward of a minibatch is what the agent's reward() says when it is sampled.
        expert: Demonstrations, or the path of a file of them, offered with every minibatch.
        window: Keeps the pool shorter than its capacity.
        frame_stack: Frames shown together; each is stored once and they are put together when sampled.
    """

    capacity: int = 100_000
    batch_size: int = 64
    learning_starts: int = 0
    train_freq: int | None = 4
    gradient_steps: int | None = 4
    target_update_interval: int | None = None
    target_update_env_steps: int | None = None
    num_steps: int = 1
    priority: Priority | None = None
    hindsight: Hindsight | None = None
    trajectories: bool = False
    learned_reward: bool = False
    expert: Expert | None = None
    window: Window | None = None
    frame_stack: int = 1

    def __post_init__(self) -> None:
        """Refuses values out of range and contradictions."""
        check_fields(self)
        if self.batch_size > self.capacity:
            raise SettingsError(
                f"batch/batch_size={self.batch_size} is more than the pool holds (pool_size/capacity={self.capacity}); "
                "lower the batch or enlarge the pool"
            )
        if self.target_update_interval is not None and self.target_update_env_steps is not None:
            raise SettingsError(
                f"update_batches={self.target_update_interval} and update_steps={self.target_update_env_steps} both "
                "say when targets are updated; give one of them"
            )
        self._check_window()
        for first, second, reason in _CONTRADICTIONS:
            if self._has(first) and self._has(second):
                raise SettingsError(f"{_NAMES[first]} and {_NAMES[second]} cannot be combined: {reason}")

    def _check_window(self) -> None:
        least = self.window.least(self.capacity) if self.window is not None else None
        if least is not None and least < self.batch_size:
            raise SettingsError(
                f"the window leaves {least} transitions of the pool, less than a minibatch (batch={self.batch_size}); "
                "keep more or lower the batch"
            )

    def _has(self, name: str) -> bool:
        value = getattr(self, name)
        return value > 1 if name in ("num_steps", "frame_stack") else bool(value)


_NAMES = {
    "num_steps": "num_steps above 1",
    "priority": "PR",
    "hindsight": "HER",
    "trajectories": "TRL",
    "learned_reward": "IRL",
    "frame_stack": "frame_stack above 1",
}
_CONTRADICTIONS = (
    (
        "hindsight",
        "num_steps",
        "only the first reward of n could be worked out anew for another goal; leave num_steps out",
    ),
    (
        "hindsight",
        "trajectories",
        "a triplet's goal is a state of its own trajectory already; leave one of them out",
    ),
    ("hindsight", "learned_reward", "both say what the reward of a minibatch is; leave one of them out"),
    ("hindsight", "frame_stack", "a stack of frames has no place for a goal; leave frame_stack out"),
    (
        "trajectories",
        "num_steps",
        "the two steps of a triplet are as long as they come; leave num_steps out",
    ),
    (
        "trajectories",
        "priority",
        "a priority belongs to one transition, a triplet is drawn from three; leave PR out",
    ),
    (
        "trajectories",
        "learned_reward",
        "the reward of many steps cannot be learned from their ends; leave one of them out",
    ),
    (
        "learned_reward",
        "num_steps",
        "the reward of n steps cannot be learned from their ends; leave num_steps out",
    ),
)


@dataclass(frozen=True, kw_only=True)
class RolloutSettings:
    """On-policy experience: a rollout of the current policy, trained from for some epochs, then forgotten.

    Attributes:
        num_steps: Steps per environment and rollout.
        num_env_steps: Steps of all environments together and rollout, which replace `num_steps`; None: that holds.
        batch_size: Transitions per gradient step.
        num_epochs: Passes over each rollout.
        target_update_interval: Gradient steps between calls of update_param(); None: at the end of each rollout.
        priority: Minibatches are drawn by TD error and ratio instead of in shuffled passes; None: never.
        window: Transitions of the highest score that are kept, from which what is left of the rollout's training draws:
            a number, or a function that is asked for it; never less than a minibatch; None: all. Applied at each target
            update, or after each epoch if targets are updated at the end of the rollout only.
        learned_reward: The reward of a rollout is what the agent's reward() says of it.
        expert: Demonstrations, or the path of a file of them, offered with every minibatch.
        frame_stack: Frames shown together; each is stored once and they are put together when read.
    """

    num_steps: int = 128
    num_env_steps: int | None = None
    batch_size: int = 64
    num_epochs: int = 10
    target_update_interval: int | None = None
    priority: RolloutPriority | None = None
    window: int | WindowFunction | None = None
    learned_reward: bool = False
    expert: Expert | None = None
    frame_stack: int = 1

    def __post_init__(self) -> None:
        """Refuses values out of range and contradictions."""
        check_fields(self)
        if self.window is not None and self.priority is None:
            raise SettingsError(
                "window_size_ppo keeps the transitions of the highest priority, and there are none; add PR=True"
            )
        if not callable(self.window):
            object.__setattr__(self, "window", checked(window_size_ppo=self.window)["window_size_ppo"])

    def steps_per_env(self, num_envs: int) -> int:
        """Steps that each of so many environments contributes to a rollout."""
        return self.num_steps if self.num_env_steps is None else max(self.num_env_steps // num_envs, 1)

    def check_num_envs(self, num_envs: int) -> None:
        """Refuses minibatches larger than a rollout of so many environments."""
        steps = self.steps_per_env(num_envs)
        if self.batch_size > steps * num_envs:
            raise SettingsError(
                f"batch/batch_size={self.batch_size} is more than a rollout holds ({steps} steps of each of {num_envs} "
                f"environments, {steps * num_envs} in all); lower the batch, or collect more (rollout_steps, "
                "update_steps, num_envs)"
            )


def with_train_arguments(
    experience: ReplaySettings | RolloutSettings,
    *,
    window_size: int | float | WindowFunction | None = None,
    clearing_freq: int | None = None,
    window_size_: int | None = None,
    window_size_ppo: int | None = None,
    window_size_pr: int | None = None,
    window_size_func: WindowFunction | None = None,
    processes_her: int | None = None,
    processes_pr: int | None = None,
) -> ReplaySettings | RolloutSettings:
    """The settings with the windows that train() was given, in the manuals' names.

    `window_size_func` is asked before `window_size_ppo` and `window_size_pr`, which are what holds without it.

    Raises:
        SettingsError: Arguments that do not go with the kind of experience.
    """
    if processes_her is not None and getattr(experience, "hindsight", None) is None:
        raise SettingsError(f"processes_her={processes_her} prepares hindsight batches; add HER=True to set()")
    if processes_pr is not None and experience.priority is None:
        raise SettingsError(f"processes_pr={processes_pr} prepares prioritized batches; add PR=True to set()")
    if isinstance(experience, RolloutSettings):
        replay_only = {"window_size": window_size, "clearing_freq": clearing_freq, "window_size_": window_size_}
        _refuse_given({**replay_only, "window_size_pr": window_size_pr}, "trims a pool, and PPO=True has none")
        by_function = window_size_func is not None and experience.priority is not None
        window = window_size_func if by_function else window_size_ppo
        return experience if window is None else replace(experience, window=window)
    _refuse_given({"window_size_ppo": window_size_ppo}, "trims a rollout; add PPO=True and PR=True to set()")
    if experience.priority is None:
        _refuse_given({"window_size_pr": window_size_pr}, "keeps what has priority; add PR=True to set()")
    on_sync = window_size_func if window_size_func is not None else window_size_pr
    if all(value is None for value in (window_size, clearing_freq, window_size_, on_sync)):
        return experience
    trimmed = Window(size=window_size, clearing_freq=clearing_freq, clear_size=window_size_, on_sync=on_sync)
    return replace(experience, window=trimmed)


def _refuse_given(values: Mapping[str, object], reason: str) -> None:
    for name, value in values.items():
        if value is not None:
            raise SettingsError(f"{name}={value} {reason}")
