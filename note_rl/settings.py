"""What set() and train() were told, checked and in clear names. Every cross-check of arguments lives here.

`ReplaySettings` and `RolloutSettings` are defined in `experience_settings`, `Priority` and its like in
`replay.options`; they are all meant to be imported from here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from note_rl.demonstrations import Demonstrations, Expert
from note_rl.errors import SettingsError
from note_rl.experience_settings import ReplaySettings, RolloutSettings, with_train_arguments
from note_rl.policy import Policy, exploration
from note_rl.replay.options import Hindsight, Priority, RolloutPriority, Window, at_least
from note_rl.schedules import Schedule
from note_rl.worker_settings import WorkerSettings

__all__ = [
    "Budget",
    "Demonstrations",
    "Hindsight",
    "Priority",
    "ReplaySettings",
    "RolloutPriority",
    "RolloutSettings",
    "Settings",
    "Window",
    "WorkerSettings",
    "settings_from_set",
    "with_train_arguments",
]

_DEFAULT_POOL_SIZE = 10_000
_DEFAULT_BATCH = 64


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything a run is told besides the agent, the optimizer and the budget.

    Attributes:
        experience: Replay or rollout, with its numbers.
        policy: How actions are explored; `note_rl.policy.exploration` makes one of several.
        num_envs: Environments stepped together; None: as many as the agent's `env` holds, or one; "auto": chosen by
            measuring when training begins, so not the same on every machine.
        max_grad_norm: Gradients of each parameter group are scaled down to this global norm; None: never.
        seed: Root of all randomness of the run; None: a fresh one.
        schedules: `learning_rate`, an attribute of the policy (eps, tau) or of the agent (clip, ...) over progress.
        trial_count: Episodes averaged for `criterion`.
        criterion: Training stops when the mean return of the last `trial_count` episodes reaches it.
        normalise_obs: Observations are shifted and scaled by their running mean and deviation.
        normalise_reward: Rewards are scaled by the running deviation of the discounted return.
        multi_agent: Several agents share each environment.
        gamma: Discount of one step that the agent's own is replaced by; None: left.
        gae_lambda: The same for the weight of long against short returns.
        device: Where the agent's parameters are moved before training; None: left where they are.
        workers: Who steps the environments; None: this process.
    """

    experience: ReplaySettings | RolloutSettings
    policy: Policy
    num_envs: int | str | None = None
    max_grad_norm: float | None = None
    seed: int | None = None
    schedules: Mapping[str, Schedule] = field(default_factory=dict)
    trial_count: int | None = None
    criterion: float | None = None
    normalise_obs: bool = False
    normalise_reward: bool = False
    multi_agent: bool = False
    gamma: float | None = None
    gae_lambda: float | None = None
    device: str | None = None
    workers: WorkerSettings | None = None

    def __post_init__(self) -> None:
        """Refuses values out of range and contradictions."""
        if isinstance(self.num_envs, str):
            if self.num_envs != "auto":
                raise SettingsError(f"num_envs must be a number or 'auto', got {self.num_envs!r}")
        else:
            at_least(1, num_envs=self.num_envs)
        at_least(1, trial_count=self.trial_count)
        if self.max_grad_norm is not None and self.max_grad_norm <= 0.0:
            raise SettingsError(
                f"max_grad_norm must be above 0, got {self.max_grad_norm}; leave it out for no clipping"
            )
        if self.criterion is not None and self.trial_count is None:
            raise SettingsError(f"criterion={self.criterion} needs trial_count: the mean of how many episodes?")
        for name, share in {"gamma": self.gamma, "gae_lambda": self.gae_lambda}.items():
            if share is not None and not 0.0 <= share <= 1.0:
                raise SettingsError(f"{name} must lie between 0 and 1, got {share}")
        if isinstance(self.experience, RolloutSettings) and isinstance(self.num_envs, int):
            self.experience.check_num_envs(self.num_envs)
        if self.normalise_obs and self.experience.frame_stack > 1:
            raise SettingsError(
                "normalise_obs would turn the stored frames into floats of their own scale; leave it out and divide by "
                "255 in the network"
            )
        if self.multi_agent:
            self._check_multi_agent()

    def _check_multi_agent(self) -> None:
        experience = self.experience
        if isinstance(experience, RolloutSettings):
            raise SettingsError("MARL and PPO cannot be combined: several agents are trained from replay; drop PPO")
        excluded = {
            "HER": experience.hindsight is not None,
            "TRL": experience.trajectories,
            "IRL": experience.learned_reward,
            "frame_stack": experience.frame_stack > 1,
        }
        for name, given in excluded.items():
            if given:
                raise SettingsError(f"MARL and {name} cannot be combined: {name} is for one agent; drop one of them")


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
        at_least(1, total_steps=self.total_steps, episodes=self.episodes)

    def progress(self, num_env_steps: int, num_episodes: int) -> float:
        """Share of the budget used, 0 to 1; 0 throughout if there is no end."""
        if self.total_steps is not None:
            return min(num_env_steps / self.total_steps, 1.0)
        if self.episodes is not None:
            return min(num_episodes / self.episodes, 1.0)
        return 0.0


def settings_from_set(
    *,
    policy: Policy | Sequence[Policy] | None = None,
    noise: Any = None,
    pool_size: int | None = None,
    batch: int | None = None,
    num_updates: int | None = None,
    gradient_steps: int | None = None,
    num_steps: int | None = None,
    update_batches: int | None = None,
    update_steps: int | None = None,
    trial_count: int | None = None,
    criterion: float | None = None,
    PPO: bool = False,  # noqa: N803 (the manuals' names, here and below)
    HER: bool | str | Hindsight = False,  # noqa: N803
    TRL: bool = False,  # noqa: N803
    MARL: bool = False,  # noqa: N803
    PR: bool | Priority | RolloutPriority = False,  # noqa: N803
    IRL: bool = False,  # noqa: N803
    initial_ratio: float | None = None,
    initial_TD: float | None = None,  # noqa: N803
    lambda_: float | None = None,
    alpha: float | None = None,
    beta: float | None = None,
    expert: Expert | None = None,
    frame_stack: int | None = None,
    rollout_steps: int | None = None,
    num_epochs: int | None = None,
    learning_starts: int | None = None,
    train_freq: int | None = None,
    num_envs: int | str | None = None,
    gamma: float | None = None,
    gae_lambda: float | None = None,
    max_grad_norm: float | None = None,
    normalise_obs: bool = False,
    normalise_reward: bool = False,
    device: str | None = None,
    seed: int | None = None,
    schedules: Mapping[str, Schedule] | None = None,
) -> Settings:
    """Settings from the arguments of set(); see there for what each means."""
    if num_updates is not None and gradient_steps is not None:
        raise SettingsError(
            f"num_updates={num_updates} and gradient_steps={gradient_steps} are two names of one thing; give one"
        )
    number = num_updates if num_updates is not None else gradient_steps
    common: dict[str, Any] = {"learned_reward": IRL, "expert": expert, "frame_stack": frame_stack or 1}
    priority = {"initial_td": initial_TD, "alpha": alpha}
    ratio = {"initial_ratio": initial_ratio, "lambda_": lambda_}
    experience: ReplaySettings | RolloutSettings
    refused: dict[str, Any]
    if PPO:
        refused = {"num_updates": number, "train_freq": train_freq, "learning_starts": learning_starts}
        _refuse_given(refused, "belongs to replay; with PPO=True use rollout_steps and num_epochs")
        _refuse_given({"num_steps": num_steps}, "is n of n-step replay; with PPO=True use gae_lambda")
        _refuse_given({"HER": HER or None, "TRL": TRL or None}, "reads old transitions, PPO=True forgets them; drop it")
        _refuse_given({"beta": beta}, "anneals the importance weights of replay; leave it out with PPO=True")
        if update_steps and not rollout_steps and isinstance(num_envs, str):
            raise SettingsError(
                f"num_envs={num_envs!r} is known only later: give rollout_steps instead of update_steps"
            )
        shared = num_envs if isinstance(num_envs, int) else 1
        steps = rollout_steps or (update_steps // max(shared, 1) if update_steps else 2048)
        experience = RolloutSettings(
            num_steps=max(steps, 1),
            batch_size=_DEFAULT_BATCH if batch is None else batch,
            num_epochs=10 if num_epochs is None else num_epochs,
            target_update_interval=update_batches,
            priority=_rollout_priority(PR, {**priority, **ratio}),
            **common,
        )
    else:
        refused = {"rollout_steps": rollout_steps, "num_epochs": num_epochs, "gae_lambda": gae_lambda, **ratio}
        _refuse_given(refused, "belongs to on-policy training; add PPO=True or leave it out")
        capacity = _DEFAULT_POOL_SIZE if pool_size is None else pool_size
        experience = ReplaySettings(
            capacity=capacity,
            batch_size=max(min(_DEFAULT_BATCH, capacity), 1) if batch is None else batch,
            learning_starts=learning_starts or 0,
            train_freq=train_freq,
            gradient_steps=number,
            target_update_interval=update_batches,
            target_update_env_steps=update_steps,
            num_steps=1 if num_steps is None else num_steps,
            priority=_priority(PR, {**priority, "beta": beta}),
            hindsight=_hindsight(HER),
            trajectories=TRL,
            **common,
        )
    return Settings(
        experience=experience,
        policy=exploration(policy, noise, per_agent=MARL),
        num_envs=num_envs,
        max_grad_norm=max_grad_norm,
        seed=seed,
        schedules=schedules or {},
        trial_count=trial_count,
        criterion=criterion,
        normalise_obs=normalise_obs,
        normalise_reward=normalise_reward,
        multi_agent=MARL,
        gamma=gamma,
        gae_lambda=gae_lambda,
        device=device,
    )


def _refuse_given(values: Mapping[str, Any], reason: str) -> None:
    for name, value in values.items():
        if value is not None:
            raise SettingsError(f"{name}={value} {reason}")


def _given(values: Mapping[str, Any], switched_on: bool) -> dict[str, Any]:
    if not switched_on:
        _refuse_given({_MANUAL.get(name, name): value for name, value in values.items()}, "needs PR=True; add it")
    return {name: value for name, value in values.items() if value is not None}


_MANUAL = {"initial_td": "initial_TD"}


def _priority(chosen: bool | Priority | RolloutPriority, values: Mapping[str, Any]) -> Priority | None:
    given = _given(values, bool(chosen))
    if isinstance(chosen, RolloutPriority):
        raise SettingsError("PR=RolloutPriority(...) is for PPO=True; without it give PR=True or PR=Priority(...)")
    if isinstance(chosen, Priority):
        return replace(chosen, **given)
    return Priority(**given) if chosen else None


def _rollout_priority(chosen: bool | Priority | RolloutPriority, values: Mapping[str, Any]) -> RolloutPriority | None:
    given = _given(values, bool(chosen))
    if isinstance(chosen, Priority):
        raise SettingsError("PR=Priority(...) is for replay; with PPO=True give PR=True or PR=RolloutPriority(...)")
    if isinstance(chosen, RolloutPriority):
        return replace(chosen, **given)
    return RolloutPriority(**given) if chosen else None


def _hindsight(chosen: bool | str | Hindsight) -> Hindsight | None:
    if isinstance(chosen, Hindsight):
        return chosen
    if isinstance(chosen, str):
        return Hindsight(strategy=chosen)  # type: ignore[arg-type]  # checked there
    return Hindsight() if chosen else None
