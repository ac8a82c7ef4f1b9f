"""Lines of overrides: every key of two levels of every primary config with every value that makes no sense there."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from omegaconf import DictConfig, OmegaConf

from tuner.config.composition import HYDRA_KEYS, compose, config_loader

VALUES = (
    *("null", "[]", "{}", "x", "-1", "1e400", "nan", "-1e400"),
    *("true", "0", "0.5", "''", "1e3", "2024", "123456789012345678901234567890"),
    *("[[[]]]", "[1,2]", "[null]", "[x,x]", "[nan]", "{a:1}", "{_target_:x}", "{_target_:1}", "{a:{b:[{}]}}"),
    *("{_partial_: true}", "{_args_: [1]}", "choice(1,2)", "interval(0,1)", "'\"0.5\"'"),
    *("lin_0.1", "[1,2", "{a=1}", "1e\u22123"),
    *("'a b/../c'", "'\\n'", "${nothing}", "${seed}", "???", "a:b:c", "'%s{}'", "é"),
)
"""Values that are put behind the = of every key."""

MUTATIONS = ("~{key}", *(f"{{key}}={value}" for value in VALUES), "+{key}.new=1", "{key}.new=1", "++{key}.new=[1]")

_OF_HYDRA = ("hydra.run.dir", "hydra.sweep.dir", "hydra.job.name")
_LEVELS = 3
"""Two levels of every primary config, and what the second one holds."""


@dataclass(frozen=True)
class Line:
    """The words behind `tuner`: a command and its overrides.

    Attributes:
        command: Its name.
        overrides: What makes the line whole (a run to play, an adaptation to compare), then what is tried.
        keys: The keys that are tried.
    """

    command: str
    overrides: tuple[str, ...]
    keys: tuple[str, ...]

    def __str__(self) -> str:
        return " ".join(["tuner", self.command, *self.overrides])


_SYNTHETIC = ("agent=synthetic", "executor=inline")
STARTS = {
    "train": (
        (),
        ("agent=ppo", "env=pendulum", "policy=gaussian"),
        ("agent=td3", "env=pendulum"),
        ("agent=synthetic",),
        ("adaptive=ess", "buffer=prioritized"),
        ("wrapper=frame_stack",),
        ("experiment=dqn_cartpole",),
        ("collector=pool", "env.num_envs=2"),
    ),
    "tune": (
        (),
        _SYNTHETIC,
        ("sampler=grid",),
        ("pruner=patient",),
        ("sampler=nsga2", "study.metric=[mixed,seconds]", *_SYNTHETIC),
        ("pruner=hyperband",),
        ("sampler=cmaes", *_SYNTHETIC),
        ("agent=ppo", "pruner=threshold", "pruner.lower=0"),
    ),
    "find": (("finder=lr",), ("finder=optimizer",), ("finder=agent",), ("finder=lr", "agent=ppo")),
    "compare": (("agent=prioritized_dqn", "adaptive=ess"),),
    "play": (("run=trained",),),
    "report": ((), ("study.name=small",)),
    "ablate": ((),),
    "dashboard": ((),),
}
"""For each command, what its lines begin with."""


@cache
def keys_of(command: str, start: tuple[str, ...]) -> tuple[str, ...]:
    """Dotted keys of what a line beginning so composes, two levels and what they hold; groups are keys, too."""
    config = compose(config_loader(), command, start)
    groups = [str(name) for name in config.hydra.runtime.choices if not str(name).startswith("hydra/")]
    return tuple(sorted({*_keys(config), *groups, *_OF_HYDRA}))


def _keys(config: DictConfig, prefix: str = "", depth: int = 1) -> Iterator[str]:
    for key, node in config.items_ex(resolve=False):
        name = str(key)
        if (not prefix and name == "hydra") or (name in HYDRA_KEYS and name != "_target_"):
            continue
        path = f"{prefix}{name}"
        yield path
        if depth < _LEVELS and OmegaConf.is_dict(node) and not node._is_none() and not node._is_interpolation():
            yield from _keys(node, f"{path}.", depth + 1)


def all_lines() -> list[Line]:
    """Each key of each start with each mutation."""
    return [
        Line(command, (*start, mutation.replace("{key}", key)), (key,))
        for command, starts in STARTS.items()
        for start in starts
        for key in keys_of(command, start)
        for mutation in MUTATIONS
    ]


CORE = ("~{key}", *(f"{{key}}={value}" for value in ("null", "[]", "{}", "x", "-1", "1e400", "nan", "true")))


def core_lines() -> list[Line]:
    """Each key of the plain start of each command with the mistakes that are made most."""
    return [
        Line(command, (*starts[0], mutation.replace("{key}", key)), (key,))
        for command, starts in STARTS.items()
        for key in keys_of(command, starts[0])
        for mutation in CORE
    ]


def some_lines(seed: int, count: int, pairs: float = 0.2) -> list[Line]:
    """Returns `count` different lines, drawn from all commands alike; a share of them tries two keys at once.

    Args:
        seed: Of the draw.
        count: How many.
        pairs: The share with two keys.
    """
    rng = random.Random(seed)
    by_command: dict[str, list[Line]] = {}
    for line in all_lines():
        by_command.setdefault(line.command, []).append(line)
    for lines in by_command.values():
        rng.shuffle(lines)
    drawn: dict[tuple[str, tuple[str, ...]], Line] = {}
    while len(drawn) < count:
        command = rng.choice(list(by_command))
        lines = by_command[command]
        line = lines.pop() if lines and rng.random() >= pairs else _pair(command, rng)
        drawn[line.command, line.overrides] = line
    return list(drawn.values())


def _pair(command: str, rng: random.Random) -> Line:
    start = rng.choice(STARTS[command])
    keys = tuple(rng.choice(keys_of(command, start)) for _ in range(2))
    return Line(command, (*start, *(rng.choice(MUTATIONS).replace("{key}", key) for key in keys)), keys)
