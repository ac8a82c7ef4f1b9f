"""From the arguments of set(), in the manuals' names, to settings."""

import inspect
import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from note_rl.checking import checked, flag, refuse_unknown
from note_rl.errors import SettingsError, say_once
from note_rl.policy import Policy, exploration
from note_rl.settings import Settings
from note_rl.settings.adaptive import Adaptive
from note_rl.settings.demonstrations import Demonstrations, Expert
from note_rl.settings.experience import ReplaySettings, RolloutSettings
from note_rl.settings.replay import Hindsight, Priority, RolloutPriority
from note_rl.settings.schedules import Schedule

_log = logging.getLogger(__name__)
_DEFAULT_POOL_SIZE = 10_000
_DEFAULT_BATCH = 64
_DEFAULT_ROLLOUT_STEPS = 2048


def settings_from_set(**arguments: Any) -> Settings:
    """Settings from the arguments of set(); see there for what each means.

    Raises:
        SettingsError: Arguments that are unknown, of another kind, out of range or contradict each other.
    """
    refuse_unknown("set", arguments, inspect.signature(_settings).parameters)
    return _settings(**{name: value for name, value in checked(**arguments).items() if value is not None})


def _settings(
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
    adaptive: Adaptive | None = None,
) -> Settings:
    """From arguments that are each of their kind."""
    if num_updates is not None and gradient_steps is not None:
        raise SettingsError(
            f"num_updates={num_updates} and gradient_steps={gradient_steps} are two names of one thing; give one"
        )
    number = num_updates if num_updates is not None else gradient_steps
    if expert is not None and not isinstance(expert, Demonstrations | str | os.PathLike):
        raise SettingsError(f"expert must be Demonstrations(obs, action) or the path of a file of them, got {expert!r}")
    common: dict[str, Any] = {
        "learned_reward": IRL,
        "expert": expert,
        "frame_stack": 1 if frame_stack is None else frame_stack,
    }
    priority = {"initial_td": initial_TD, "alpha": alpha}
    ratio = {"initial_ratio": initial_ratio, "lambda_": lambda_}
    if not PR:
        priority = _but_for_defaults(priority)
    if not (PR and PPO):
        ratio = _but_for_defaults(ratio)
    experience: ReplaySettings | RolloutSettings
    refused: dict[str, Any]
    if PPO:
        refused = {"num_updates": number, "train_freq": train_freq, "learning_starts": learning_starts}
        _refuse_given(refused, "belongs to replay; with PPO=True use rollout_steps and num_epochs")
        _refuse_given({"num_steps": num_steps}, "is n of n-step replay; with PPO=True use gae_lambda")
        _refuse_given({"HER": HER or None, "TRL": TRL or None}, "reads old transitions, PPO=True forgets them; drop it")
        _refuse_given({"beta": beta}, "anneals the importance weights of replay; leave it out with PPO=True")
        if rollout_steps is not None and update_steps is not None:
            raise SettingsError(
                f"rollout_steps={rollout_steps} and update_steps={update_steps} both say how long a rollout is, of "
                "each environment or of all together; give one of them"
            )
        if pool_size is not None:
            say_once(
                _log,
                f"pool_size={pool_size} has no effect with PPO=True: rollouts are forgotten once learned from, "
                "and update_steps says how long they are",
            )
        experience = RolloutSettings(
            num_steps=_DEFAULT_ROLLOUT_STEPS if rollout_steps is None else rollout_steps,
            num_env_steps=update_steps,
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
            batch_size=min(_DEFAULT_BATCH, capacity) if batch is None else batch,
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
        adaptive=adaptive,
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


def _but_for_defaults(values: Mapping[str, Any]) -> dict[str, Any]:
    """Nothing where a value is the documented default, which says nothing else than leaving it out."""
    documented = vars(RolloutPriority())
    return {name: None if value == documented[name] else value for name, value in values.items()}


def _priority(chosen: bool | Priority | RolloutPriority, values: Mapping[str, Any]) -> Priority | None:
    given = _given(values, bool(chosen))
    if isinstance(chosen, RolloutPriority):
        raise SettingsError("PR=RolloutPriority(...) is for PPO=True; without it give PR=True or PR=Priority(...)")
    if isinstance(chosen, Priority):
        return replace(chosen, **given)
    return Priority(**given) if flag("PR", chosen) else None


def _rollout_priority(chosen: bool | Priority | RolloutPriority, values: Mapping[str, Any]) -> RolloutPriority | None:
    given = _given(values, bool(chosen))
    if isinstance(chosen, Priority):
        raise SettingsError("PR=Priority(...) is for replay; with PPO=True give PR=True or PR=RolloutPriority(...)")
    if isinstance(chosen, RolloutPriority):
        return replace(chosen, **given)
    return RolloutPriority(**given) if flag("PR", chosen) else None


def _hindsight(chosen: bool | str | Hindsight) -> Hindsight | None:
    if isinstance(chosen, Hindsight):
        return chosen
    if isinstance(chosen, str):
        return Hindsight(strategy=chosen)  # type: ignore[arg-type]  # checked there
    return Hindsight() if flag("HER", chosen) else None
