"""What set() and train() were told, checked and in clear names. Every cross-check of arguments lives here."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from note_rl.errors import SettingsError
from note_rl.policy import Policy
from note_rl.schedules import Schedule


def _at_least(minimum: float, **values: float | None) -> None:
    for name, value in values.items():
        if value is not None and value < minimum:
            raise SettingsError(f"{name} must be at least {minimum}, got {value}")


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
        target_update_env_steps: The same in environment steps. At most one of the two; with neither, every step.
    """

    capacity: int = 100_000
    batch_size: int = 64
    learning_starts: int = 0
    train_freq: int | None = 4
    gradient_steps: int | None = 4
    target_update_interval: int | None = None
    target_update_env_steps: int | None = None

    def __post_init__(self) -> None:
        """Refuses values out of range and contradictions."""
        _at_least(1, capacity=self.capacity, batch_size=self.batch_size, train_freq=self.train_freq)
        _at_least(1, gradient_steps=self.gradient_steps, target_update_interval=self.target_update_interval)
        _at_least(1, target_update_env_steps=self.target_update_env_steps)
        _at_least(0, learning_starts=self.learning_starts)
        if self.batch_size > self.capacity:
            raise SettingsError(
                f"batch_size={self.batch_size} is more than the pool holds (capacity={self.capacity}); lower the batch "
                "or enlarge the pool"
            )
        if self.target_update_interval is not None and self.target_update_env_steps is not None:
            raise SettingsError(
                f"update_batches={self.target_update_interval} and update_steps={self.target_update_env_steps} both "
                "say when targets are updated; give one of them"
            )


@dataclass(frozen=True, kw_only=True)
class RolloutSettings:
    """On-policy experience: a rollout of the current policy, trained from for some epochs, then forgotten.

    Attributes:
        num_steps: Steps per environment and rollout.
        batch_size: Transitions per gradient step.
        num_epochs: Passes over each rollout.
    """

    num_steps: int = 128
    batch_size: int = 64
    num_epochs: int = 10

    def __post_init__(self) -> None:
        """Refuses values out of range."""
        _at_least(1, num_steps=self.num_steps, batch_size=self.batch_size, num_epochs=self.num_epochs)

    def check_num_envs(self, num_envs: int) -> None:
        """Refuses minibatches larger than a rollout of so many environments."""
        if self.batch_size > self.num_steps * num_envs:
            raise SettingsError(
                f"batch_size={self.batch_size} is more than a rollout holds (num_steps={self.num_steps} x "
                f"num_envs={num_envs} = {self.num_steps * num_envs}); lower the batch or collect more"
            )


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything a run is told besides the agent, the optimizer and the budget.

    Attributes:
        experience: Replay or rollout, with its numbers.
        policy: How actions are explored.
        num_envs: Environments stepped together; None: as many as the agent's `env` holds, or one.
        max_grad_norm: Gradients of each parameter group are scaled down to this global norm; None: never.
        seed: Root of all randomness of the run; None: a fresh one.
        schedules: `learning_rate`, an attribute of the policy (eps, tau) or of the agent (clip, ...) over progress.
        trial_count: Episodes averaged for `criterion`.
        criterion: Training stops when the mean return of the last `trial_count` episodes reaches it.
    """

    experience: ReplaySettings | RolloutSettings
    policy: Policy
    num_envs: int | None = None
    max_grad_norm: float | None = None
    seed: int | None = None
    schedules: Mapping[str, Schedule] = field(default_factory=dict)
    trial_count: int | None = None
    criterion: float | None = None

    def __post_init__(self) -> None:
        """Refuses values out of range and contradictions."""
        _at_least(1, num_envs=self.num_envs, trial_count=self.trial_count)
        if self.max_grad_norm is not None and self.max_grad_norm <= 0.0:
            raise SettingsError(
                f"max_grad_norm must be above 0, got {self.max_grad_norm}; leave it out for no clipping"
            )
        if self.criterion is not None and self.trial_count is None:
            raise SettingsError(f"criterion={self.criterion} needs trial_count: the mean of how many episodes?")
        if isinstance(self.experience, RolloutSettings) and self.num_envs is not None:
            self.experience.check_num_envs(self.num_envs)


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How long a call of train() goes on.

    Attributes:
        total_steps: Until the agent has taken so many environment steps in its life, earlier calls included.
        episodes: Until so many episodes have ended in this call.
    """

    total_steps: int | None = None
    episodes: int | None = None

    def __post_init__(self) -> None:
        """Refuses both at once and values below 1."""
        if self.total_steps is not None and self.episodes is not None:
            raise SettingsError(
                f"episodes={self.episodes} and total_steps={self.total_steps} both say how long; give one of them"
            )
        _at_least(1, total_steps=self.total_steps, episodes=self.episodes)

    def progress(self, num_env_steps: int, num_episodes: int) -> float:
        """Share of the budget used, 0 to 1; 0 throughout if there is no end."""
        if self.total_steps is not None:
            return min(num_env_steps / self.total_steps, 1.0)
        if self.episodes is not None:
            return min(num_episodes / self.episodes, 1.0)
        return 0.0


def settings_from_set(
    *,
    policy: Policy | None = None,
    pool_size: int | None = None,
    batch: int | None = None,
    num_updates: int | None = None,
    update_batches: int | None = None,
    update_steps: int | None = None,
    trial_count: int | None = None,
    criterion: float | None = None,
    PPO: bool = False,  # noqa: N803 (the manuals' name)
    rollout_steps: int | None = None,
    num_epochs: int | None = None,
    learning_starts: int | None = None,
    train_freq: int | None = None,
    num_envs: int | None = None,
    max_grad_norm: float | None = None,
    seed: int | None = None,
    schedules: Mapping[str, Schedule] | None = None,
) -> Settings:
    """Settings from the arguments of set(); see there for what each means."""
    if policy is None:
        raise SettingsError("set() needs a policy, for example policy=EpsGreedyQPolicy(eps=0.05)")
    experience: ReplaySettings | RolloutSettings
    if PPO:
        replay_only = {"num_updates": num_updates, "train_freq": train_freq, "learning_starts": learning_starts}
        for name, value in replay_only.items():
            if value is not None:
                raise SettingsError(f"{name}={value} belongs to replay; with PPO=True use rollout_steps and num_epochs")
        steps = rollout_steps or (update_steps // (num_envs or 1) if update_steps else 2048)
        experience = RolloutSettings(num_steps=max(steps, 1), batch_size=batch or 64, num_epochs=num_epochs or 10)
    else:
        for name, value in {"rollout_steps": rollout_steps, "num_epochs": num_epochs}.items():
            if value is not None:
                raise SettingsError(f"{name}={value} belongs to on-policy training; add PPO=True or leave it out")
        if pool_size is None or batch is None:
            raise SettingsError("set() needs pool_size and batch for replay, for example pool_size=10000, batch=64")
        experience = ReplaySettings(
            capacity=pool_size,
            batch_size=batch,
            learning_starts=learning_starts or 0,
            train_freq=train_freq,
            gradient_steps=num_updates,
            target_update_interval=update_batches,
            target_update_env_steps=update_steps,
        )
    return Settings(
        experience=experience,
        policy=policy,
        num_envs=num_envs,
        max_grad_norm=max_grad_norm,
        seed=seed,
        schedules=schedules or {},
        trial_count=trial_count,
        criterion=criterion,
    )
