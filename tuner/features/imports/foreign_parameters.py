"""Which key of ours a parameter of another program is, and how its values are written here.

A parameter that nothing is known of keeps its name. Those of RL Baselines3 Zoo are known: it draws some of them in
another form (`one_minus_gamma`, `batch_size_pow`), which are the coordinates that are drawn here, too. Source:
`rl_zoo3/hyperparams_opt.py` of version 2.9.0a2.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.trial import FrozenTrial

from tuner.errors import UserError
from tuner.results.records import Scalar
from tuner.study.space.coordinates import (
    Bounds,
    Choices,
    Coordinate,
    OneMinus,
    Plain,
    PowerOfTwo,
    label_of,
    one_minus,
)
from tuner.study.space.space import Parameter, Space
from tuner.support.names import did_you_mean
from tuner.trial.messages import JsonDict

_ONE_MINUS: Final = "one_minus_"
_POWER: Final = "_pow"
_OWN: Final[Mapping[str, str]] = {
    "learning_rate": "optimizer.learning_rate",
    "gamma": "agent.gamma",
    "gae_lambda": "agent.gae_lambda",
    "batch_size": "buffer.batch_size",
    "n_steps": "buffer.num_steps",
    "n_epochs": "buffer.num_epochs",
    "clip_range": "agent.clip",
    "ent_coef": "agent.entropy_coef",
    "vf_coef": "agent.value_coef",
    "max_grad_norm": "training.max_grad_norm",
    "tau": "agent.tau",
    "buffer_size": "buffer.capacity",
    "learning_starts": "buffer.learning_starts",
    "train_freq": "buffer.train_freq",
    "exploration_final_eps": "policy.eps",
    "exploration_fraction": "schedule.eps.fraction",
    "noise_std": "noise.sigma",
    "net_arch": "network.hidden_sizes",
    "activation_fn": "network.activation",
    "target_kl": "agent.max_kl",
    "cg_max_steps": "agent.cg_iterations",
    "n_critic_updates": "agent.critic_iterations",
    "n_quantiles": "agent.num_quantiles",
    "top_quantiles_to_drop_per_net": "agent.num_dropped_per_critic",
}
"""Settings of Stable-Baselines3, and their keys here."""
_OF_TRPO: Final = {"batch_size": "agent.critic_batch_size"}
_OF_SAC: Final = {"ent_coef": "agent.alpha"}
_LEARN_ALPHA: Final = ("crossq", "sac", "tqc")
_OF_THE_LIBRARY: Final = {"noise_std": "agent.action_noise_std", "noise_type": "agent.action_noise"}
"""Where the agent is an algorithm of Stable-Baselines3 all others are called as they are there, behind `agent.`."""

_ACTIVATIONS: Final[Mapping[Scalar, object]] = {"tanh": "Tanh", "relu": "ReLU", "elu": "ELU", "leaky_relu": "LeakyReLU"}
_NOISES: Final[Mapping[Scalar, object]] = {"ornstein-uhlenbeck": "ornstein_uhlenbeck"}
_ON_POLICY_LAYERS: Final[Mapping[Scalar, object]] = {"tiny": [64], "small": [64, 64], "medium": [256, 256]}
_OFF_POLICY_LAYERS: Final[Mapping[Scalar, object]] = {
    "small": [64, 64],
    "medium": [256, 256],
    "big": [400, 300],
    "large": [256, 256, 256],
    "verybig": [512, 512, 512],
}
_MARKS: Final = ({"one_minus_gamma"}, {"gamma", "learning_rate", "net_arch"})
"""Parameters that all studies of the Zoo have: of 2.8 and later, and of earlier ones."""


@dataclass(frozen=True)
class MeantAgent:
    """The agent whose keys are meant.

    Attributes:
        name: As typed; empty: any of ours.
        paths: All keys of its configuration; none: these are not known.
        own: Whether it is one of ours; else an algorithm of Stable-Baselines3.
    """

    name: str = ""
    paths: frozenset[str] = frozenset()
    own: bool = True

    def key_of(self, setting: str) -> str | None:
        """The key of a setting of Stable-Baselines3; None: it has none."""
        if not self.own:
            path = _OF_THE_LIBRARY.get(setting, f"agent.{setting}")
        else:
            special = _OF_TRPO if self.name.startswith("trpo") else _OF_SAC if self.name in _LEARN_ALPHA else {}
            path = {**_OWN, **special}.get(setting, "")
        return path if path and (not self.paths or path in self.paths) else None


@dataclass(frozen=True)
class Imported:
    """The parameters of a study of another program, as parameters of ours.

    Attributes:
        space: Theirs, by the keys here.
        names: The name there of each, by the path here.
        unmapped: Names that have no key here.
        derived: Further values of a trial by path, from its parameters there.
        in_place_of: A value there, by name, and what stands for it here.
    """

    space: Space
    names: Mapping[str, str]
    unmapped: tuple[str, ...]
    derived: Callable[[Mapping[str, Any]], JsonDict]
    in_place_of: Mapping[str, Mapping[Scalar, object]] = field(default_factory=dict)

    def drawn(self, trial: FrozenTrial) -> dict[str, Scalar]:
        """The point of the space that a trial is at, by the names of Optuna's parameters here."""
        return {
            one.name: _inside(one, self._value(self.names[one.path], trial.params[self.names[one.path]]))
            for one in self.space.parameters
            if self.names[one.path] in trial.params
        }

    def values(self, trial: FrozenTrial) -> dict[str, Scalar]:
        """The values that a trial was run with, by key."""
        drawn = self.drawn(trial)
        values = {
            one.path: one.coordinate.to_value(drawn[one.name]) for one in self.space.parameters if one.name in drawn
        }
        return {path: label_of(value) for path, value in {**self.derived(trial.params), **values}.items()}

    def _value(self, name: str, value: object) -> Scalar:
        label = label_of(_plain(value))
        return label_of(self.in_place_of.get(name, {}).get(label, label))


def is_of_the_zoo(names: Iterable[str]) -> bool:
    """Whether parameters are those of a study of RL Baselines3 Zoo."""
    known = set(names)
    return any(marks <= known for marks in _MARKS)


def imported(trials: Sequence[FrozenTrial], keys: Mapping[str, str], agent: MeantAgent) -> Imported:
    """The parameters of trials of another program, with their keys here.

    Args:
        trials: At least one.
        keys: As typed, by the names there.
        agent: Whose keys they are.

    Raises:
        UserError: A name or a key that there is not, or two of one key.
    """
    found: dict[str, list[BaseDistribution]] = {}
    drawn: dict[str, list[object]] = {}
    for trial in trials:
        for name, distribution in trial.distributions.items():
            found.setdefault(name, []).append(distribution)
            drawn.setdefault(name, []).append(trial.params[name])
    _check_keys(keys, found, agent)
    zoo = is_of_the_zoo(found)
    known = _Keys(keys, agent, zoo)
    words = _instead(found, agent) if zoo else {}
    instead = {name: meant for name, meant in words.items() if known.path_of(name) is not None}
    parameters: dict[str, Parameter] = {}
    names: dict[str, str] = {}
    unmapped: list[str] = []
    for name in sorted(found):
        path = known.path_of(name) or name
        merged = _merged(found[name], drawn[name])
        coordinate: Coordinate = merged
        if path in names:
            raise UserError(f"keys: {names[path]} and {name} would both be {path} here; give one of them another key")
        if known.path_of(name) is not None:
            coordinate = _coordinate(name, known.setting(name), merged, instead.get(name, {}))
        elif name not in agent.paths:
            unmapped.append(name)
        parameters[path], names[path] = Parameter(path, coordinate), name
    derived = _derived_by(agent) if zoo else _nothing_derived
    return Imported(
        Space(tuple(parameters[path] for path in sorted(parameters))), names, tuple(unmapped), derived, instead
    )


def _check_keys(keys: Mapping[str, str], found: Mapping[str, object], agent: MeantAgent) -> None:
    for name, key in keys.items():
        if name not in found:
            raise UserError(f"keys: the study has no parameter {name}{did_you_mean(name, found)}")
        if agent.paths and key not in agent.paths:
            raise UserError(f"keys: agent={agent.name} has no setting {key}{did_you_mean(key, agent.paths)}")


@dataclass(frozen=True)
class _Keys:
    """Where the key of a parameter is looked for.

    Attributes:
        typed: By the names there.
        agent: Whose keys they are.
        zoo: Whether the study is one of the Zoo.
    """

    typed: Mapping[str, str]
    agent: MeantAgent
    zoo: bool

    def setting(self, name: str) -> str:
        """The setting of Stable-Baselines3 that a parameter is a form of."""
        return name.removeprefix(_ONE_MINUS).removesuffix(_POWER) if self.zoo else name

    def path_of(self, name: str) -> str | None:
        """The key here; None: there is none that is known."""
        if name in self.typed:
            return self.typed[name]
        if self.zoo or self.agent.name:
            return self.agent.key_of(self.setting(name))
        return None


def _coordinate(form: str, setting: str, merged: Plain | Choices, instead: Mapping[Scalar, object]) -> Coordinate:
    """How the values of a parameter with a key are walked through here.

    Args:
        form: Its name there.
        setting: The setting that it is a form of.
        merged: How they are walked through there.
        instead: Values that stand for others here.
    """
    if isinstance(merged, Choices):
        labels = dict.fromkeys(label_of(instead.get(label, label)) for label in merged.domain.labels)
        known = {label_of(value): value for value in instead.values()}
        return Choices(tuple(known.get(label, label) for label in labels))
    if form == setting:
        return merged
    low, high = merged.interval.low, merged.interval.high
    return OneMinus(one_minus(high), one_minus(low)) if form.startswith(_ONE_MINUS) else PowerOfTwo(int(low), int(high))


def _merged(distributions: Sequence[BaseDistribution], drawn: Sequence[object]) -> Plain | Choices:
    """All that was drawn from, as one: ranges may change from trial to trial.

    Args:
        distributions: Of the trials.
        drawn: The drawn value of each of them.
    """
    numeric = [one for one in distributions if isinstance(one, FloatDistribution | IntDistribution)]
    if len(numeric) < len(distributions):
        offered = [one.choices for one in distributions if isinstance(one, CategoricalDistribution)]
        labels: list[Scalar] = []
        for choice in (*(choice for choices in offered for choice in choices), *drawn):
            label = label_of(_plain(choice))
            if not any(label == known and isinstance(label, bool) == isinstance(known, bool) for known in labels):
                labels.append(label)
        return Choices(tuple(labels))
    steps = {one.step for one in numeric}
    lows = {one.low for one in numeric}
    integer = all(isinstance(one, IntDistribution) for one in numeric)
    step = next(iter(steps)) if len(steps) == len(lows) == 1 else None
    return Plain(
        Bounds(
            min(lows),
            max(one.high for one in numeric),
            log=all(one.log for one in numeric),
            step=None if integer and step == 1 else step,
            integer=integer,
        )
    )


def _inside(parameter: Parameter, drawn: Scalar) -> Scalar:
    """A drawn number, moved onto a bound that it misses by a rounding error."""
    domain = parameter.coordinate.domain
    if not isinstance(domain, Bounds) or isinstance(drawn, str | bool) or drawn is None:
        return drawn
    return type(drawn)(min(max(drawn, domain.low), domain.high))


def _plain(value: object) -> object:
    """A choice as JSON has it."""
    return list(value) if isinstance(value, tuple) else value


def _instead(names: Iterable[str], agent: MeantAgent) -> dict[str, dict[Scalar, object]]:
    """Meanings of the Zoo's words, by parameter."""
    on_policy = bool({"one_minus_gae_lambda", "gae_lambda"} & set(names))
    layers = _ON_POLICY_LAYERS if on_policy else _OFF_POLICY_LAYERS
    return {
        "net_arch": dict(layers),
        **({} if agent.own else {"activation_fn": dict(_ACTIVATIONS), "noise_type": dict(_NOISES)}),
    }


def _nothing_derived(params: Mapping[str, Any]) -> JsonDict:
    del params
    return {}


def _derived_by(agent: MeantAgent) -> Callable[[Mapping[str, Any]], JsonDict]:
    """Settings that the Zoo derives from the sampled parameters, by our keys: the frequency of gradient steps."""
    group = "buffer" if agent.own else "agent"

    def derived(params: Mapping[str, Any]) -> JsonDict:
        if "train_freq" not in params or not isinstance(params["train_freq"], int):
            return {}
        steps = max(params["train_freq"] // params.get("subsample_steps", 1), 1)
        found: JsonDict = {f"{group}.gradient_steps": steps}
        if agent.own and "target_update_interval" in params:  # there in environment steps
            found["buffer.target_update_interval"] = max(
                round(params["target_update_interval"] * steps / params["train_freq"]), 1
            )
        return {path: value for path, value in found.items() if not agent.paths or path in agent.paths}

    return derived
