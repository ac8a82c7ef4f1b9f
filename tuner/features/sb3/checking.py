"""How an algorithm is typed: `agent=sb3 agent.algorithm=SAC` is the file of that algorithm, with its search space."""

from collections.abc import Sequence
from typing import Final

from tuner.checking.features import InChecking
from tuner.errors import UserError
from tuner.features.sb3.sb3_algorithms import KNOWN, file_of
from tuner.support.names import did_you_mean

_AGENT: Final = "agent="
_SHORT: Final = "agent=sb3"
_ALGORITHM: Final = "agent.algorithm="
_COMPARED: Final = "settings="


def _file_of_algorithm(overrides: Sequence[str]) -> Sequence[str]:
    """The overrides, with the file of the algorithm in place of its name.

    Beside settings that are compared the name stays behind the file: one of them may be another algorithm.

    Raises:
        UserError: There is no such algorithm, or two are named.
    """
    words = _of_the_last_agent(overrides)
    chosen = next((word for word in reversed(words) if word.startswith(_AGENT)), "")
    named = [word.removeprefix(_ALGORITHM) for word in words if word.startswith(_ALGORITHM)]
    of_file = chosen.startswith(f"{_SHORT}_") and bool(named)
    if of_file and not any(_is_of(chosen, name) for name in named):
        raise UserError(f"{chosen} and {_ALGORITHM}{named[-1]} are two algorithms: leave one of them out")
    if chosen != _SHORT and not (of_file and not _is_of(chosen, named[-1])):
        return words
    spelled = {one.lower(): one for one in KNOWN}
    names = (named[-1] if named else "PPO").split(",")
    for name in names:
        if name.lower() not in spelled:
            raise UserError(f"{_ALGORITHM}{name}: there is no such algorithm{did_you_mean(name, KNOWN)}")
    compared = any(word.startswith(_COMPARED) for word in words)
    files = [f"{_AGENT}{','.join(map(file_of, names))}"]
    files += [f"{_ALGORITHM}{spelled[name.lower()]}" for name in names if compared and len(names) == 1]
    rest = [word for word in words if not word.startswith(_ALGORITHM)]
    at = rest.index(chosen)
    return [*rest[:at], *files, *rest[at + 1 :]]


def _of_the_last_agent(overrides: Sequence[str]) -> list[str]:
    """The overrides, without an earlier file that a later one replaces, and without the name of its algorithm."""
    words = list(overrides)
    agents = [number for number, word in enumerate(words) if word.startswith(_AGENT)]
    for number in reversed(agents[:-1]):
        if words[number].startswith(_SHORT):
            is_named = words[number + 1].startswith(_ALGORITHM) and _is_of(words[number], words[number + 1])
            del words[number : number + 1 + is_named]
    return words


def _is_of(file: str, name: str) -> bool:
    return file == f"{_AGENT}{file_of(name.removeprefix(_ALGORITHM))}"


def _typed_of_class(trainer: object) -> Sequence[str]:
    """Overrides for a class of these libraries; empty: it is none."""
    package = str(getattr(trainer, "__module__", "")).partition(".")[0]
    if package not in ("stable_baselines3", "sb3_contrib"):
        return []
    if not isinstance(trainer, type) or trainer.__name__ not in KNOWN:
        return []
    return [f"agent={file_of(trainer.__name__)}"]


PART = InChecking(named=_file_of_algorithm, trainer=_typed_of_class)
