"""Search spaces as data: nested YAML that mirrors the run config, checked against it before anything runs.

    space:
      optimizer: {learning_rate: {low: 1.0e-5, high: 1.0e-2, log: true}}
      agent:     {gamma: {low: 0.9, high: 0.9999, transform: one_minus}}
      buffer:    {batch_size: {low: 16, high: 256, transform: power_of_two, at_most: buffer.num_steps},
                  gradient_steps: {low: 0.125, high: 1.0, log: true, of: buffer.train_freq}}
      network:   {activation: {choices: [relu, tanh]}}
      noise:     {sigma: {low: 0.01, high: 0.5, when: {noise.kind: [gaussian]}}}    # searched with these choices only
    training:  {max_grad_norm: {low: 0.1, high: 10, log: true, prior: 0.5}}       # half of the first draws are near 0.5

On the command line: `space.optimizer.learning_rate.high=0.1`, `~space.agent.gamma`,
`'+space.agent.tau={low:0.001,high:1,log:true}'`.

Optuna's parameters carry the name of the coordinate that is really sampled (`1-agent.gamma`, `log2(buffer.batch_size)`,
`buffer.gradient_steps/buffer.train_freq`); the values in their own units go into the run config.
"""

import copy
import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

import optuna

from tuner.config.annotations import written
from tuner.config.paths import flatten, get_path, set_path
from tuner.errors import UserError
from tuner.results.records import Scalar
from tuner.study.space.conditions import check_conditions, in_order, is_active, parse_when
from tuner.study.space.coordinates import Bounds, Coordinate, Plain, as_number, following, product_of
from tuner.study.space.leaves import leaves_of, parse_coordinate
from tuner.study.space.parameter_text import describe_values
from tuner.support.names import did_you_mean
from tuner.trial.messages import JsonDict

__all__ = ["Parameter", "Space", "get_path"]

_STORED_AS: dict[type, str] = {Plain: "Range"}  # its name when the first studies were stored, which are to go on


@dataclass(frozen=True)
class Parameter:
    """One hyperparameter that is searched.

    Attributes:
        path: Its place in the run config, dotted.
        coordinate: How its values are walked through.
        of: Config paths whose product the coordinate is a share of; the value is then rounded to a whole number >= 1.
        at_most: Config paths whose product the value may not exceed; what is drawn above it stands for the product.
        when: Other parameters by config path, each with the choices that this one is searched with. With others it is
            not part of the trial and keeps its default.
        prior: The point of the coordinate at the value that is expected to be good, where there is one.
        has_prior: Whether there is one; a choice may be null.
    """

    path: str
    coordinate: Coordinate
    of: tuple[str, ...] = ()
    at_most: tuple[str, ...] = ()
    when: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    prior: Scalar = None
    has_prior: bool = False

    @property
    def name(self) -> str:
        """Optuna's name of it: the coordinate that is sampled."""
        if not self.of:
            return self.coordinate.name(self.path)
        whole = self.of[0] if len(self.of) == 1 else f"({'*'.join(self.of)})"
        return self.coordinate.name(f"{self.path}/{whole}")

    @property
    def rests_on(self) -> tuple[str, ...]:
        """Config paths that its value follows, besides what is drawn."""
        return (*self.of, *self.at_most)

    @property
    def distribution(self) -> optuna.distributions.BaseDistribution:
        """Optuna's distribution of the coordinate."""
        domain = self.coordinate.domain
        if not isinstance(domain, Bounds):
            return optuna.distributions.CategoricalDistribution(domain.labels)
        if domain.integer:
            return optuna.distributions.IntDistribution(
                int(domain.low), int(domain.high), log=domain.log, step=int(domain.step or 1)
            )
        return optuna.distributions.FloatDistribution(domain.low, domain.high, log=domain.log, step=domain.step)

    @property
    def ends(self) -> tuple[Scalar, ...]:
        """The outermost points of the coordinate, or all of them where they are choices."""
        domain = self.coordinate.domain
        if not isinstance(domain, Bounds):
            return domain.labels
        return (int(domain.low), int(domain.high)) if domain.integer else (domain.low, domain.high)

    def value(self, drawn: Scalar, config: JsonDict) -> object:
        """The value to train with, in its own units; `config` holds the values it is a share of."""
        return following(self.coordinate.to_value(drawn), self.of, self.at_most, config)

    def drawn(self, config: JsonDict) -> Scalar:
        """The point of the coordinate that stands for the value in this config; ValueError if it is outside."""
        value = get_path(config, self.path)
        if self.of:
            return self.coordinate.to_drawn(as_number(value) / product_of(config, self.of))
        if self.at_most and as_number(value) == product_of(config, self.at_most):
            return self._above(as_number(value))
        return self.coordinate.to_drawn(value)

    def _above(self, limit: float) -> Scalar:
        """The point of the coordinate that stands for the limit: that of its own value, or the largest, if above it."""
        try:
            return self.coordinate.to_drawn(limit)
        except ValueError:
            largest = self.ends[-1]
            if as_number(self.coordinate.to_value(largest)) < limit:
                raise
            return largest

    def check_drawn(self, drawn: object) -> None:
        """Refuses what is no point of the coordinate (ValueError)."""
        domain = self.coordinate.domain
        if isinstance(domain, Bounds):
            Plain(domain).to_drawn(drawn)
        elif not any(type(label) is type(drawn) and label == drawn for label in domain.labels):
            raise ValueError(f"it must be one of {', '.join(map(repr, domain.labels))}")

    def describe(self) -> JsonDict:
        """The parameter as plain data, the same for the same search."""
        domain = {key: list(value) if isinstance(value, tuple) else value for key, value in
                  dataclasses.asdict(self.coordinate.domain).items()}  # fmt: skip
        when = {"when": {path: list(values) for path, values in self.when.items()}} if self.when else {}
        limit = (
            {"at_most": list(self.at_most)} if self.at_most else {}
        )  # a space without one is stored as before there was this
        prior = {"prior": self.prior} if self.has_prior else {}
        scale = _STORED_AS.get(type(self.coordinate), type(self.coordinate).__name__)
        return {"path": self.path, "scale": scale, "of": list(self.of), **domain, **limit, **when, **prior}


@dataclass(frozen=True)
class Space:
    """The parameters of a study, in alphabetical order of their config paths."""

    parameters: tuple[Parameter, ...]
    _by_path: dict[str, Parameter] = field(init=False, repr=False, compare=False)
    _in_order: tuple[Parameter, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Indexes the parameters, and puts each behind those that it depends on."""
        object.__setattr__(self, "_by_path", {parameter.path: parameter for parameter in self.parameters})
        object.__setattr__(self, "_in_order", in_order(self.parameters))

    @classmethod
    def from_config(cls, tree: JsonDict, config: JsonDict, fixed: Iterable[str] = ()) -> "Space":
        """The space that a `space:` node describes, checked against the config it is to vary.

        Args:
            tree: The `space` node as plain data.
            config: The composed run config, resolved.
            fixed: Config paths set on the command line.

        Raises:
            UserError: A path that the config does not have (names the nearest), one that is also fixed on the command
                line, an empty or impossible range, wrong keys, an empty space.
        """
        leaves = dict(leaves_of(tree))
        if not leaves:
            raise UserError(
                "the search space is empty: choose one (space=dqn) or add to it: "
                "'+space.agent.gamma={low: 0.9, high: 0.999}'"
            )
        fixed = set(fixed)
        for path in leaves:
            _check_path(path, config)
            if _is_of_the_protocol(path):
                raise UserError(
                    f"space.{path} cannot be searched: seeds, budgets and evaluations are the same for all trials, or "
                    "their scores could not be compared"
                )
            if path in fixed:
                raise UserError(
                    f"{path} is both fixed on the command line and searched: drop {path}=... to search it, type "
                    f"++{path}=... if that is the default to compare with, or add ~space.{path} to keep it fixed"
                )
        there = _with_typed_priors(config, leaves)
        parameters = tuple(_parse(path, leaves[path], config, there) for path in sorted(leaves))
        check_conditions(parameters)
        derived = {parameter.path for parameter in parameters if parameter.rests_on}
        for parameter in parameters:
            for path in set(parameter.rests_on) & derived:
                key = "of" if path in parameter.of else "at_most"
                raise UserError(
                    f"space.{parameter.path}.{key}={path}, which itself follows something else; name what that follows"
                )
        return cls(parameters)

    @property
    def paths(self) -> tuple[str, ...]:
        """Config paths of all parameters."""
        return tuple(self._by_path)

    def with_priors(self, config: JsonDict) -> JsonDict | None:
        """The config with every value that is expected to be good; None: nothing is expected."""
        expected = {one.name: one.prior for one in self.parameters if one.has_prior}
        return self.apply(config, self.values(expected, config)) if expected else None

    def distributions(self) -> dict[str, optuna.distributions.BaseDistribution]:
        """Distributions that Optuna samples from."""
        return {parameter.name: parameter.distribution for parameter in self.parameters}

    def draw(self, suggest: Callable[[str, optuna.distributions.BaseDistribution], Scalar]) -> dict[str, Scalar]:
        """Asks for every parameter that is part of the trial, given those asked for before.

        Args:
            suggest: From name and distribution to a point of it.

        Returns:
            Optuna's parameters, by name.
        """
        drawn: dict[str, Scalar] = {}
        values: JsonDict = {}
        for parameter in self._in_order:
            if is_active(parameter, values):
                drawn[parameter.name] = suggest(parameter.name, parameter.distribution)
                if not parameter.rests_on:
                    values[parameter.path] = parameter.coordinate.to_value(drawn[parameter.name])
        return drawn

    def values(self, drawn: Mapping[str, Scalar], config: JsonDict) -> JsonDict:
        """From Optuna's parameters to values by config path, in their own units.

        Args:
            drawn: Optuna's parameters, by name.
            config: The composed run config, for what is not searched but part of a whole (`of`).
        """
        current = copy.deepcopy(config)
        values: JsonDict = {}
        for parameter in sorted(self.parameters, key=lambda parameter: bool(parameter.rests_on)):
            if parameter.name in drawn:
                values[parameter.path] = parameter.value(drawn[parameter.name], current)
                set_path(current, parameter.path, values[parameter.path])
        return {path: values[path] for path in self._by_path if path in values}

    def drawn(self, config: JsonDict) -> dict[str, Scalar]:
        """The point of the space at which this config lies.

        Raises:
            UserError: A value outside its range: Optuna would only warn and use it.
        """
        point: dict[str, Scalar] = {}
        values: JsonDict = {}
        for parameter in self._in_order:
            if not is_active(parameter, values):
                continue
            try:
                values[parameter.path] = get_path(config, parameter.path)
            except KeyError:
                raise UserError(f"{parameter.path} is searched, and this starting point has no such value") from None
            try:
                point[parameter.name] = parameter.drawn(config)
            except ValueError as error:
                raise UserError(
                    f"{parameter.path}={get_path(config, parameter.path)} cannot be a starting point of this search "
                    f"over {describe_values(parameter.describe())}: widen space.{parameter.path}, or begin "
                    "without it"
                ) from error
        return point

    def apply(self, config: JsonDict, values: JsonDict) -> JsonDict:
        """A copy of the config with these values in place; what refers to one of them does not follow."""
        result = copy.deepcopy(config)
        for path, value in values.items():
            set_path(result, path, copy.deepcopy(value))
        return result

    def describe(self) -> JsonDict:
        """The space as plain data by Optuna name, the same for the same search: stored with the study."""
        return {parameter.name: parameter.describe() for parameter in sorted(self.parameters, key=lambda p: p.name)}

    @property
    def fingerprint(self) -> str:
        """Short hash that two spaces share only if they are the same search."""
        return hashlib.sha256(json.dumps(self.describe(), sort_keys=True).encode()).hexdigest()[:16]

    def added_to(self, stored: JsonDict) -> list[str]:
        """The parameters, by path, that another space does not have; `stored` is its description."""
        before = {described["path"] for described in stored.values()}
        return [path for path in self.paths if path not in before]

    def difference(self, stored: JsonDict) -> list[str]:
        """Differences from the description of another space, one line per parameter; empty if there are none."""
        before = {str(described["path"]): described for described in stored.values()}
        now = {parameter.path: parameter.describe() for parameter in self.parameters}
        lines = []
        for path in sorted(before.keys() | now.keys()):
            if path not in now:
                lines.append(f"{path} was searched over {describe_values(before[path])}, and is not searched now")
            elif path not in before:
                lines.append(f"{path} is searched over {describe_values(now[path])}, and was not searched before")
            elif before[path] != now[path]:
                lines.append(f"{path} was searched over {_apart(before[path], now[path])}")
        return lines


def _apart(before: JsonDict, now: JsonDict) -> str:
    """Two searches of one parameter in words; where these are too rough to tell them apart, what differs itself."""
    was, is_now = describe_values(before), describe_values(now)
    if was == is_now:
        keys = [key for key in sorted(before.keys() | now.keys()) if before.get(key) != now.get(key)]
        was, is_now = (", ".join(f"{key} {one.get(key)}" for key in keys) for one in (before, now))
    return f"{was}, and is now over {is_now}"


def _with_typed_priors(config: JsonDict, leaves: Mapping[str, dict[str, object]]) -> JsonDict:
    """The config with all values that are expected to be good, as they are typed."""
    there = copy.deepcopy(config)
    for path, leaf in leaves.items():
        if _has_prior(leaf):
            set_path(there, path, leaf["prior"])
    return there


def _parse(path: str, leaf: dict[str, object], config: JsonDict, there: JsonDict) -> Parameter:
    of, at_most = (_paths_named(path, leaf, key, config) for key in ("of", "at_most"))
    if of and at_most:
        raise UserError(f"space.{path} has both of and at_most: a share is at most 1 already, leave at_most out")
    current = 1.0 if of else get_path(config, path)
    coordinate = parse_coordinate(path, leaf, current)
    found = Parameter(path, coordinate, of, at_most, parse_when(path, leaf.get("when")))
    return replace(found, prior=_prior(found, leaf["prior"], there), has_prior=True) if _has_prior(leaf) else found


def _has_prior(leaf: Mapping[str, object]) -> bool:
    """Whether a value is expected to be good: null means none, but where it is one of the choices."""
    choices = leaf.get("choices")
    return leaf.get("prior") is not None or ("prior" in leaf and isinstance(choices, list) and None in choices)


def _prior(parameter: Parameter, value: object, there: JsonDict) -> Scalar:
    """The point of the coordinate at a value that is expected to be good; what it follows has its own such value."""
    try:
        return parameter.drawn(there)
    except (ValueError, TypeError) as error:
        raise UserError(
            f"space.{parameter.path}.prior={written(value)} is not among what is searched, "
            f"{describe_values(parameter.describe())}: choose a value of these"
        ) from error


def _paths_named(path: str, leaf: dict[str, object], key: str, config: JsonDict) -> tuple[str, ...]:
    """The settings that a leaf names under a key, which must be numbers."""
    named = leaf.get(key)
    if named is None:
        return ()
    paths = (named,) if isinstance(named, str) else tuple(named) if isinstance(named, list) else ()
    if not (paths and all(isinstance(part, str) for part in paths)):
        raise UserError(
            f"space.{path}.{key}={named} must be a config path or a list of them, for example buffer.train_freq"
        )
    for part in paths:
        _check_path(part, config, f"space.{path}.{key}")
        if isinstance(value := get_path(config, part), bool) or not isinstance(value, int | float):
            what = "a number to take a share of" if key == "of" else "a number that is the most there can be"
            raise UserError(f"space.{path}.{key}={part} must be {what}, but the config has {value}")
    return paths


def _is_of_the_protocol(path: str) -> bool:
    return path in ("seed", "training.total_steps") or path.startswith(("evaluation.", "checkpoint.", "backend."))


def _where_it_may_be(section: str, config: JsonDict) -> str:
    part = config.get(section)
    is_chosen = part == {} or (isinstance(part, dict) and "_target_" in part)  # {}: none was chosen
    return f": choose a part that has it (tuner options {section}), or " if is_chosen else ": "


def _check_path(path: str, config: JsonDict, asked_by: str = "") -> None:
    try:
        value = get_path(config, path)
    except KeyError:
        argument = f": add it, '+{path}=...'" if path.startswith("env.kwargs.") else did_you_mean(path, flatten(config))
        if not argument and not asked_by:
            argument = f"{_where_it_may_be(path.partition('.')[0], config)}leave it out with ~space.{path}"
        raise UserError(
            f"{asked_by or 'space.' + path} names {path}, which the config does not have{argument}"
        ) from None
    if isinstance(value, dict) and value:
        numbers = next((key for key in value if not str(key).startswith("_")), next(iter(value)))
        raise UserError(
            f"space.{path}: {path} is a group of settings; search one of them, for example {path}.{numbers}"
        )
