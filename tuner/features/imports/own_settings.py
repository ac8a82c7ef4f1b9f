"""An entry of the Zoo as settings of our own agents, with the defaults of Stable-Baselines3 beneath it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from tuner.config.overrides import to_hydra
from tuner.errors import UserError
from tuner.features.imports.written_settings import (
    NOT_HERE,
    Written,
    add_environment,
    layers_of,
    normalised,
    number,
    shown,
    whole,
    wrappers_of,
)
from tuner.features.imports.zoo_files import LIBRARY, Falling, Symbol, ZooEntry
from tuner.support.names import some_of

AGENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "a2c": ("a2c", "a2c_continuous"),
    "crossq": ("crossq",),
    "ddpg": ("ddpg",),
    "dqn": ("dqn", "double_dqn", "dueling_dqn", "prioritized_dqn"),
    "ppo": ("ppo", "ppo_continuous"),
    "qrdqn": ("dqn",),
    "sac": ("sac",),
    "td3": ("td3",),
    "tqc": ("tqc",),
    "trpo": ("trpo", "trpo_continuous"),
}
"""By algorithm of the Zoo: ours, the first for actions that are choices."""
ON_POLICY: Final = ("a2c", "ppo", "trpo")

_ACTIVATIONS: Final = {"ReLU": "relu", "Tanh": "tanh", "ELU": "elu", "SiLU": "silu", "Identity": "linear"}
_LAYERS: Final[Mapping[str, Sequence[int] | dict[str, Any]]] = {
    "crossq": {"pi": [256, 256], "qf": [1024, 1024]},
    "sac": [256, 256],
    "td3": [400, 300],
    "tqc": [256, 256],
    "ddpg": [400, 300],
}
"""Of Stable-Baselines3, where it is not [64, 64]."""
_NETWORKS: Final = {"CnnPolicy": "cnn", "MultiInputPolicy": "dict"}
_TIME: Final = "TimeFeatureWrapper"
_ATARI: Final = "AtariWrapper"
_GSDE: Final = ("use_sde", "sde_sample_freq", "use_sde_at_warmup")
_OF_GSDE: Final = ("full_std", "use_expln", "clip_mean")
"""Of them, those in `policy_kwargs`."""
_UNIFORM: Final = "uniform"
"""How PyTorch begins weights, which is what `ortho_init=False` leaves."""
_LINEAR: Final = "note_rl.schedules.Linear"
_EPSILON: Final = 1e-5
"""Of Adam, for on-policy agents of Stable-Baselines3."""
_DT: Final = 0.01
"""Of its Ornstein-Uhlenbeck noise."""
_NUM_QUANTILES: Final = 200
_QUANTILE_EPSILON: Final = 0.01
"""Of QRDQN, by default; the latter is divided by the size of minibatches, and goes to Adam."""
_BOTH: Final = (
    "n_envs",
    "n_timesteps",
    "policy",
    "policy_kwargs",
    "normalize",
    "env_wrapper",
    "env_kwargs",
    "frame_stack",
)
_COMMON: Final = ("learning_rate", "gamma", *_BOTH, *_GSDE)
_READ: Final[Mapping[str, tuple[str, ...]]] = {
    "a2c": (
        *("n_steps", "gae_lambda", "ent_coef", "vf_coef", "max_grad_norm"),
        *("rms_prop_eps", "use_rms_prop", "normalize_advantage"),
    ),
    "ppo": (
        *("n_steps", "batch_size", "n_epochs", "gae_lambda", "clip_range", "clip_range_vf", "normalize_advantage"),
        *("ent_coef", "vf_coef", "max_grad_norm", "target_kl"),
    ),
    "trpo": (
        *("n_steps", "batch_size", "cg_max_steps", "cg_damping", "line_search_shrinking_factor"),
        *("line_search_max_iter", "n_critic_updates", "gae_lambda", "normalize_advantage", "target_kl"),
        "sub_sampling_factor",
    ),
    **dict.fromkeys(
        ("dqn", "qrdqn"),
        ("exploration_fraction", "exploration_initial_eps", "exploration_final_eps", "max_grad_norm"),
    ),
    "crossq": ("ent_coef", "target_entropy", "policy_delay"),
    "sac": ("ent_coef", "target_entropy"),
    "tqc": ("ent_coef", "target_entropy", "top_quantiles_to_drop_per_net"),
    "td3": ("policy_delay", "target_policy_noise", "target_noise_clip", "noise_type", "noise_std"),
    "ddpg": ("noise_type", "noise_std"),
}
_OFF_POLICY: Final = (
    *("buffer_size", "learning_starts", "batch_size", "tau", "train_freq", "gradient_steps", "n_steps"),
    "target_update_interval",
)
_OF_MEMORY: Final = ("optimize_memory_usage",)
"""Changes nothing of what is learned."""


def agent_of(entry: ZooEntry, typed: str | None, numbers: bool | None) -> str:
    """The agent of ours for an entry.

    Args:
        entry: Of the Zoo.
        typed: The typed agent; None: none.
        numbers: Whether actions are numbers; None: it is not known.

    Raises:
        UserError: There is none, or another one was typed.
    """
    known = AGENTS.get(entry.algorithm)
    if known is None:
        raise UserError(
            f"there is no agent of our own for {entry.algorithm}: add agent={LIBRARY} for that of the library"
        )
    if typed is None:
        return known[1] if len(known) == 2 and numbers else known[0]
    if typed not in known:
        raise UserError(
            f"agent={typed} is no {entry.algorithm}{some_of([*known, LIBRARY])}: {LIBRARY} is Stable-Baselines3 itself"
        )
    return typed


def own_settings(entry: ZooEntry, agent: str) -> Written:
    """The settings of one of our agents, with a line for each that has no counterpart.

    Args:
        entry: Of the Zoo.
        agent: Name of the agent.
    """
    written = Written(choices={"agent": agent})
    add_environment(written, entry)
    _add_wrappers(written, entry)
    written.values["training.total_steps"] = whole(entry, "n_timesteps")
    written.values["agent.gamma"] = number(entry, "gamma")
    _add_network(written, entry, agent)
    _add_normalisation(written, entry)
    add: Callable[[Written, ZooEntry], None] = _ADD[entry.algorithm]
    add(written, entry)
    _add_rate(written, entry)
    _add_gsde(written, entry, agent)
    read = {*_COMMON, *_READ[entry.algorithm], *_OF_MEMORY}
    read |= set() if entry.algorithm in ON_POLICY else set(_OFF_POLICY)
    for name, value in entry.given.items():
        if name not in read:
            written.remark(name, value)
    return written


def _add_wrappers(written: Written, entry: ZooEntry) -> None:
    frames = int(entry.given.get("frame_stack") or 1)
    if frames > 1 or entry.game is not None:
        written.values["training.frame_stack"] = frames
    for wrapper in wrappers_of(entry):
        name = wrapper.rpartition(".")[2]
        if name == _TIME:
            written.choices["wrapper"] = "time_aware"
        elif name != _ATARI or entry.game is None:
            written.remark(
                "env_wrapper", wrapper, "a class of its own; the group wrapper takes one (tuner guide extend)"
            )


def _add_network(written: Written, entry: ZooEntry, agent: str) -> None:
    policy, arguments = str(entry.given.get("policy", "MlpPolicy")), entry.policy_arguments
    images = policy == "CnnPolicy"
    if policy in _NETWORKS and entry.game is None:
        written.choices["network"] = _NETWORKS[policy]
    elif policy not in (*_NETWORKS, "MlpPolicy"):
        written.remark("policy", policy)
    layers = layers_of(entry)
    if layers is None and not images:
        layers = _LAYERS.get(entry.algorithm, [64, 64])
    activation = _activation(written, arguments) or ("tanh" if entry.algorithm in ON_POLICY else "relu")
    if policy == "MlpPolicy":
        written.values["network.activation"] = activation
    as_pytorch = policy == "MlpPolicy" and entry.algorithm in ON_POLICY and arguments.get("ortho_init") is False
    if as_pytorch:
        written.values["network.initializer"] = _UNIFORM
    if agent == "crossq" and layers is not None:
        _add_to_both(written, layers, activation)
    elif isinstance(layers, dict):
        _add_apart(written, layers, activation, as_pytorch)
    elif layers is not None:
        written.values["network.hidden_sizes"] = list(layers)
    _add_policy_arguments(written, entry, agent)


def _add_to_both(written: Written, layers: Sequence[Any] | Mapping[str, Any], activation: str) -> None:
    """Layers of actor and critics of CrossQ, whose file has a network for each; see `_add_network`."""
    apart = layers if isinstance(layers, Mapping) else {"pi": layers, "qf": layers}
    written.values["network.hidden_sizes"] = list(apart.get("pi", []))
    written.values["network.critic.hidden_sizes"] = list(apart.get("qf", []))
    written.values["network.critic.activation"] = activation


def _add_apart(written: Written, layers: Mapping[str, Any], activation: str, as_pytorch: bool) -> None:
    """Layers of the policy, and those of the values if they are others; see `_add_network`."""
    actor = list(layers.get("pi", []))
    critic = list(layers.get("vf", layers.get("qf", actor)))
    written.values["network.hidden_sizes"] = actor
    if critic != actor:
        written.added += [
            "+network@network.critic=mlp",
            f"network.critic.hidden_sizes={to_hydra(critic)}",
            f"network.critic.activation={activation}",
            *([f"network.critic.initializer={_UNIFORM}"] if as_pytorch else []),
        ]


def _activation(written: Written, arguments: Mapping[str, Any]) -> str | None:
    found = arguments.get("activation_fn")
    if found is None:
        return None
    name = found.last if isinstance(found, Symbol) else str(found)
    if name not in _ACTIVATIONS:
        written.remark("policy_kwargs.activation_fn", found)
    return _ACTIVATIONS.get(name)


def _add_policy_arguments(written: Written, entry: ZooEntry, agent: str) -> None:
    has_gsde = _has_gsde(entry, agent)
    for name, value in entry.policy_arguments.items():
        if name in ("net_arch", "activation_fn") or (name, value) in (("ortho_init", True), ("n_critics", 2)):
            continue
        if name == "ortho_init" and "network.initializer" in written.values:
            continue
        if name == "n_critics" and agent in ("sac", "crossq", "tqc"):
            written.values["agent.num_critics"] = int(value)
        elif name == "log_std_init" and (has_gsde or agent.endswith("_continuous")):
            written.values["agent.initial_log_std"] = float(value)
        elif name in _OF_GSDE and has_gsde:
            written.values[f"agent.gsde.{name}"] = _limit(value) if name == "clip_mean" else bool(value)
        elif name == "optimizer_kwargs" and isinstance(value, dict) and value.keys() <= {"eps", "weight_decay"}:
            names = {"eps": "epsilon", "weight_decay": "weight_decay"}
            written.values |= {f"optimizer.{names[key]}": float(one) for key, one in value.items()}
        elif name == "n_quantiles" and entry.algorithm in ("qrdqn", "tqc"):
            written.values["agent.num_quantiles"] = int(value)
        elif name == "optimizer_class" and entry.algorithm == "a2c" and "RMSprop" in str(value):
            continue  # which it has anyway
        else:
            written.remark(f"policy_kwargs.{name}", value)


def _add_normalisation(written: Written, entry: ZooEntry) -> None:
    obs, reward, rest = normalised(entry)
    written.values["training.normalise_obs"] = obs
    written.values["training.normalise_reward"] = reward
    for name, value in rest.items():
        written.remark(f"normalize.{name}", value)


def _add_rate(written: Written, entry: ZooEntry) -> None:
    """The learning rate, and what else falls with time."""
    written.values["optimizer.learning_rate"] = number(entry, "learning_rate")
    falling = tuple(name for name in ("learning_rate", "clip_range") if isinstance(entry.settings.get(name), Falling))
    if entry.algorithm not in ("dqn", "qrdqn"):  # whose schedule is that of exploration
        whole_list = {("learning_rate",): "linear_lr", ("learning_rate", "clip_range"): "linear_decay"}
        if falling in whole_list or entry.algorithm in ON_POLICY:  # by default that of our ppo falls
            written.choices["schedule"] = whole_list.get(falling, "none")
        if falling in whole_list:
            return
    for name in falling:
        key, path = ("clip", "agent.clip") if name == "clip_range" else (name, "optimizer.learning_rate")
        if path not in written.values:  # of another algorithm, and so among what has no place here
            continue
        start = to_hydra(written.values[path])
        written.added.append(f"+schedule.{key}={{_target_: {_LINEAR}, start: {start}, end: 0.0, fraction: 1.0}}")


def _has_gsde(entry: ZooEntry, agent: str) -> bool:
    """Whether an agent of ours explores by the state with these settings: its actions have to be numbers."""
    return bool(entry.settings.get("use_sde")) and (agent in ("sac", "tqc") or agent.endswith("_continuous"))


def _add_gsde(written: Written, entry: ZooEntry, agent: str) -> None:
    """State-dependent exploration. There a noise matrix lasts for a rollout, or for `sde_sample_freq` steps of it."""
    if not entry.settings.get("use_sde"):
        return
    if not _has_gsde(entry, agent):
        has_it = f"for actions that are numbers: agent={agent}_continuous has it"
        written.remark("use_sde", True, NOT_HERE if agent == "crossq" else has_it)
        return
    written.choices["policy"] = "squashed_gsde" if agent in ("sac", "tqc") else "gsde"
    between = whole(entry, "sde_sample_freq")
    if entry.algorithm in ON_POLICY:
        if 0 < between < whole(entry, "n_steps"):  # else for a rollout, as here
            written.values["policy.hold"] = between
        return
    if entry.settings.get("use_sde_at_warmup"):
        written.values["policy.num_random_steps"] = 0
    found = entry.settings["train_freq"]
    length, unit = found if isinstance(found, list) else (whole(entry, "train_freq"), "step")
    if unit == "step":
        written.values["policy.hold"] = min(between, int(length)) if between > 0 else int(length)
    elif between > 0:
        written.values["policy.hold"] = between
    else:
        written.remark("sde_sample_freq", between, "there noise lasts for an episode, here for policy.hold steps")


def _add_rollout(written: Written, entry: ZooEntry) -> int:
    """Adds the settings of all on-policy agents. Returns the steps of a rollout."""
    steps = whole(entry, "n_steps")
    written.values["buffer.num_steps"] = steps
    written.values["agent.gae_lambda"] = number(entry, "gae_lambda")
    written.values["agent.normalise_advantage"] = bool(entry.settings["normalize_advantage"])
    if entry.algorithm != "a2c":
        written.values["optimizer.epsilon"] = _EPSILON
    return steps * entry.num_envs


def _add_coefficients(written: Written, entry: ZooEntry) -> None:
    written.values["agent.entropy_coef"] = number(entry, "ent_coef")
    written.values["agent.value_coef"] = number(entry, "vf_coef")
    written.values["training.max_grad_norm"] = _limit(entry.settings["max_grad_norm"])


def _limit(value: Any) -> float | None:
    """A bound; none where it is switched off."""
    return None if value is None or value <= 0 else float(value)


def _add_ppo(written: Written, entry: ZooEntry) -> None:
    rollout = _add_rollout(written, entry)
    size = whole(entry, "batch_size")
    written.values["buffer.batch_size"] = "rollout" if size >= rollout else size
    written.values["buffer.num_epochs"] = whole(entry, "n_epochs")
    written.values["agent.clip"] = number(entry, "clip_range")
    _add_coefficients(written, entry)
    written.values["buffer.target_kl"] = _limit(entry.settings["target_kl"])
    limit = entry.settings["clip_range_vf"]
    if limit is not None and not (isinstance(limit, int | float) and limit < 0):
        written.remark("clip_range_vf", limit)
    if entry.settings["normalize_advantage"] and size < rollout:
        written.values["agent.normalise_advantage"] = "minibatch"


def _add_a2c(written: Written, entry: ZooEntry) -> None:
    _add_rollout(written, entry)
    _add_coefficients(written, entry)
    if not entry.settings["use_rms_prop"]:
        written.choices["optimizer"] = "adam"
        written.values["optimizer.epsilon"] = _EPSILON
    else:
        written.values["optimizer.epsilon"] = number(entry, "rms_prop_eps")


def _add_trpo(written: Written, entry: ZooEntry) -> None:
    rollout = _add_rollout(written, entry)
    written.values["agent.critic_batch_size"] = min(whole(entry, "batch_size"), rollout)
    written.values["agent.max_kl"] = number(entry, "target_kl")
    written.values["agent.cg_iterations"] = whole(entry, "cg_max_steps")
    written.values["agent.cg_damping"] = number(entry, "cg_damping")
    written.values["agent.line_search_shrink"] = number(entry, "line_search_shrinking_factor")
    written.values["agent.line_search_steps"] = whole(entry, "line_search_max_iter")
    written.values["agent.critic_iterations"] = whole(entry, "n_critic_updates")
    if entry.settings["sub_sampling_factor"] != 1:
        written.remark("sub_sampling_factor", entry.settings["sub_sampling_factor"])


def _add_replay(written: Written, entry: ZooEntry) -> None:
    """Adds the settings of all off-policy agents."""
    written.values["buffer.capacity"] = whole(entry, "buffer_size")
    written.values["buffer.batch_size"] = whole(entry, "batch_size")
    written.values["buffer.learning_starts"] = whole(entry, "learning_starts")
    written.values["buffer.num_steps"] = whole(entry, "n_steps")
    if "tau" in entry.settings:
        written.values["agent.tau"] = number(entry, "tau")
    steps = _train_freq(written, entry)
    gradient_steps = whole(entry, "gradient_steps")
    written.values["buffer.train_freq"] = steps
    written.values["buffer.gradient_steps"] = steps if gradient_steps < 0 else gradient_steps


def _train_freq(written: Written, entry: ZooEntry) -> int:
    """Environment steps between updates, of all environments together."""
    found = entry.settings["train_freq"]
    if not isinstance(found, list):
        return whole(entry, "train_freq") * entry.num_envs
    if len(found) != 2 or found[1] not in ("step", "episode"):
        raise UserError(f"{entry.file}: train_freq of {entry.key} must be a number or [N, step], not {shown(found)}")
    if found[1] == "step":
        return int(found[0]) * entry.num_envs
    written.remark("train_freq", found, "here as many updates, after each step")
    return entry.num_envs


def _add_dqn(written: Written, entry: ZooEntry) -> None:
    if written.choices["agent"] == "dqn":
        written.choices["buffer"] = "replay"
    _add_replay(written, entry)
    written.values["buffer.target_update_interval"] = None
    written.added.append(f"+buffer.target_update_env_steps={whole(entry, 'target_update_interval')}")
    written.values["training.max_grad_norm"] = _limit(entry.settings["max_grad_norm"])
    written.values["policy.eps"] = number(entry, "exploration_final_eps")
    written.values["schedule.eps.start"] = number(entry, "exploration_initial_eps")
    written.values["schedule.eps.fraction"] = number(entry, "exploration_fraction")


def _add_qrdqn(written: Written, entry: ZooEntry) -> None:
    _add_dqn(written, entry)
    written.values["agent.values"] = "quantiles"
    written.values.setdefault("agent.num_quantiles", _NUM_QUANTILES)
    if "optimizer_class" not in entry.policy_arguments:
        written.values["optimizer.epsilon"] = _QUANTILE_EPSILON / whole(entry, "batch_size")


def _add_sac(written: Written, entry: ZooEntry) -> None:
    _add_replay(written, entry)
    interval = "policy_delay" if entry.algorithm == "crossq" else "target_update_interval"
    written.values["buffer.target_update_interval"] = whole(entry, interval)
    weight, target = entry.settings["ent_coef"], entry.settings["target_entropy"]
    learned = isinstance(weight, str)
    written.values["agent.alpha"] = None if learned else number(entry, "ent_coef")
    written.values["agent.target_entropy"] = None if isinstance(target, str) else number(entry, "target_entropy")
    if learned and weight != "auto":
        written.values["agent.initial_alpha"] = _start_of(entry, weight)


def _add_tqc(written: Written, entry: ZooEntry) -> None:
    _add_sac(written, entry)
    written.values["agent.num_dropped_per_critic"] = whole(entry, "top_quantiles_to_drop_per_net")


def _start_of(entry: ZooEntry, weight: str) -> float:
    """Where a learned weight of the entropy starts: auto_0.1."""
    kind, _, start = weight.partition("_")
    try:
        if kind != "auto":
            raise ValueError(weight)
        return float(start)
    except ValueError as error:
        raise UserError(
            f"{entry.file}: ent_coef of {entry.key} must be a number, auto or auto_0.1, not {weight}"
        ) from error


def _add_td3(written: Written, entry: ZooEntry) -> None:
    _add_replay(written, entry)
    written.values["buffer.target_update_interval"] = whole(entry, "policy_delay")
    written.values["agent.target_noise"] = number(entry, "target_policy_noise")
    written.values["agent.noise_clip"] = number(entry, "target_noise_clip")
    _add_noise(written, entry)


def _add_ddpg(written: Written, entry: ZooEntry) -> None:
    _add_replay(written, entry)
    written.values["buffer.target_update_interval"] = 1
    _add_noise(written, entry)


def _add_noise(written: Written, entry: ZooEntry) -> None:
    kind = str(entry.given.get("noise_type") or "").strip()
    if not kind:
        written.choices["noise"] = "none"
    elif "normal" in kind:
        written.choices["noise"] = "gaussian"
        written.values["noise.sigma"] = float(number(entry, "noise_std"))
    elif "ornstein-uhlenbeck" in kind:
        written.choices["noise"] = "ornstein_uhlenbeck"
        written.values["noise.sigma"] = float(number(entry, "noise_std"))
        written.values["noise.dt"] = _DT
    else:
        written.remark("noise_type", kind, NOT_HERE)
        written.choices["noise"] = "none"


_ADD: Final[Mapping[str, Callable[[Written, ZooEntry], None]]] = {
    "a2c": _add_a2c,
    "crossq": _add_sac,
    "ddpg": _add_ddpg,
    "dqn": _add_dqn,
    "ppo": _add_ppo,
    "qrdqn": _add_qrdqn,
    "sac": _add_sac,
    "td3": _add_td3,
    "tqc": _add_tqc,
    "trpo": _add_trpo,
}


def is_of_numbers(entry: ZooEntry) -> bool | None:
    """Whether actions are numbers, as far as the settings say; None: they do not."""
    signs: Sequence[object] = (entry.given.get("use_sde"), entry.given.get("noise_type"))
    if any(signs) or "log_std_init" in entry.policy_arguments:
        return True
    return False if entry.game is not None else None
