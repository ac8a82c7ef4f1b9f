"""Identity of a sweep: the configurations of its jobs, and the application's own code."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence

from omegaconf import DictConfig, OmegaConf

from tuner.config.own_code import IN_A_MODULE, digests_of
from tuner.config.paths import flatten
from tuner.sweeper.hydra_job import HydraApp, own_part
from tuner.trial.messages import JsonDict

_IN_A_MODULE = re.compile(IN_A_MODULE)


def identity_of(app: HydraApp, variants: Mapping[str, DictConfig], named: Sequence[str] = ()) -> JsonDict:
    """Properties that have to stay the same for a sweep to go on, besides its overrides.

    Nothing is resolved: a reference to the environment or the clock stays one. Texts stand as digests, as some are
    passwords.

    Args:
        app: The application.
        variants: The composed configs of some jobs, by what tells each from others: between them they have every choice
            and both ends of every range.
        named: Dotted paths of further code that decides what jobs there are.
    """
    first, *others = (_own_part(config) for config in variants.values())
    labels = list(variants)[1:]
    targets = sorted({*named, *(target for config in (first, *others) for target in _targets_in(config))})
    sweep = OmegaConf.to_container(app.config.hydra.sweep, resolve=False)
    assert isinstance(sweep, dict)
    return {
        "subdir": str(sweep["subdir"]),
        "job": {path: _shown(value) for path, value in flatten(first).items()},
        "jobs": {label: _digest(config) for label, config in zip(labels, others, strict=True)},
        "code": digests_of(app.task_function, targets),
    }


def is_made_of_time(template: str) -> bool:
    """Whether a path has another value each time that it is made out, as `${now:%Y}` and resolvers of the user's do."""
    return re.search(r"\$\{(?!oc\.|hydra:)[\w.]+:", template) is not None


def _own_part(config: DictConfig) -> JsonDict:
    """The config without Hydra's part, as plain data of JSON."""
    plain: JsonDict = json.loads(json.dumps(OmegaConf.to_container(own_part(config), resolve=False), default=str))
    return plain


def _shown(value: object) -> object:
    return value if value is None or isinstance(value, bool | int | float) else _digest(value)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:12]


def _targets_in(node: object, key: str = "") -> Iterator[str]:
    """Names of code in a config: `_target_`s, and modules before a colon."""
    if isinstance(node, Mapping):
        for name, value in node.items():
            yield from _targets_in(value, str(name))
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for value in node:
            yield from _targets_in(value, key)
    elif isinstance(node, str):
        named = _IN_A_MODULE.fullmatch(node)
        if key == "_target_" or named:
            yield named[1] if named else node
