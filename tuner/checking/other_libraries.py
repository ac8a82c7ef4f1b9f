"""Names of settings and choices in other libraries and in the manuals' Python classes, and their names here."""

import re
from collections.abc import Collection
from typing import Final

from tuner.checking.env_names import GROUP, as_typed_here

_SETTINGS: Final = {
    **dict.fromkeys(
        ("max_steps", "total_timesteps", "timesteps", "num_timesteps", "n_timesteps", "steps"), "training.total_steps"
    ),
    **dict.fromkeys(("lr", "step_size"), "optimizer.learning_rate"),
    **dict.fromkeys(("discount", "discount_factor"), "agent.gamma"),
    **dict.fromkeys(("ent_coef", "entropy_weight"), "agent.entropy_coef"),
    **dict.fromkeys(("vf_coef", "value_loss_weight"), "agent.value_coef"),
    **dict.fromkeys(("buffer_size", "buffer_max_size", "memory_size"), "buffer.capacity"),
    **dict.fromkeys(("batch", "minibatch_size", "buffer_batch_size"), "buffer.batch_size"),
    **dict.fromkeys(("n_steps", "rollout_length"), "buffer.num_steps"),
    **dict.fromkeys(("n_epochs", "ppo_epochs"), "buffer.num_epochs"),
    **dict.fromkeys(("n_envs", "nenvs", "num_workers"), "env.num_envs"),
    **dict.fromkeys(("net_arch", "policy_kwargs"), "network.hidden_sizes, a list such as [64,64]"),
    "activation_fn": "network.activation",
    "random_seed": "seed",
    **dict.fromkeys(("criterion", "target_return"), "training.target_reward"),
    **dict.fromkeys(("trial_count", "reward_buffer_size", "return_window"), "training.reward_window"),
    **dict.fromkeys(("init_from", "weights", "init_weights"), "init"),
    **dict.fromkeys(("plateau_reduce_factor", "lr_factor"), "plateau.factor, with plateau=episodes or evaluations"),
    "plateau_reduce_patience": "plateau.patience, with plateau=episodes or evaluations",
    "early_stop_patience": "plateau.early_stop, with plateau=episodes or evaluations",
    **dict.fromkeys(("log_frequency", "log_interval"), "progress.every, in training episodes, of tuner train"),
    "display_precision": "progress.decimals, of tuner train",
    **dict.fromkeys(("quiet", "silent"), "progress=quiet, of tuner train"),
    "divergence_monitoring_steps": "plateau.start_steps, with plateau=episodes or evaluations",
}
_POLICIES: Final = {
    "MlpPolicy": "network=mlp (policy is how an agent explores)",
    "CnnPolicy": "network=cnn (policy is how an agent explores)",
    "MultiInputPolicy": "network=dict (policy is how an agent explores)",
}
"""Of Stable-Baselines3, whose policies are networks."""

_SCHEDULED: Final = re.compile(r"lin_(?P<initial>[\d.]+(?:[eE][+-]?\d+)?)")  # of rl-zoo3


def called_here(path: str, known: Collection[str]) -> str:
    """The setting that others call by that name, with what else it needs; empty if there is none.

    Args:
        path: As typed: `lr`, or `policy_kwargs.net_arch`.
        known: All settings there are.
    """
    first, _, last = path.partition(".")[0], *path.rpartition(".")[1:]
    said = _SETTINGS.get(last, "") or _SETTINGS.get(first, "")
    setting, _, needs = said.partition(", ")
    return said if setting in known or (needs and "training" in known) else ""


def chosen_here(group: str, name: str) -> str:
    """The override for a choice that other libraries call so: `env=atari env.game=pong`; empty if none is known."""
    if group == GROUP:
        return as_typed_here(name) or ""
    return _POLICIES.get(name, "") if group == "policy" else ""


def falls_from(value: str) -> str:
    """The number that a schedule of rl-zoo3 begins with, `0.001` of `lin_0.001`; empty: it is no such schedule."""
    found = _SCHEDULED.fullmatch(value)
    return "" if found is None else found["initial"]


def scheduled_here(path: str, value: str) -> str:
    """Overrides for a number that decreases linearly to 0; empty if the value is not such a schedule.

    Args:
        path: Of the setting.
        value: As rl-zoo3 writes it: `lin_0.001`.
    """
    initial = falls_from(value)
    if not initial:
        return ""
    if path == "optimizer.learning_rate":
        return f"{path}={initial} schedule=linear_lr"
    name = path.rpartition(".")[2]
    schedule = f"{{_target_: note_rl.schedules.Linear, start: {initial}, end: 0.0}}"
    return f"{path}={initial} '+schedule.{name}={schedule}'"
