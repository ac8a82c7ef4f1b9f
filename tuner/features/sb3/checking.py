"""How an algorithm is typed: `agent=sb3 agent.algorithm=SAC` is the file of that algorithm, with its search space."""

from collections.abc import Sequence
from typing import Final

from tuner.checking.features import InChecking
from tuner.checking.hydra_messages import parse_overrides
from tuner.config.overrides import to_hydra
from tuner.errors import UserError
from tuner.features.sb3.sb3_algorithms import LIBRARIES, algorithm_in, file_of, spelled
from tuner.features.sb3.sb3_policies import ARGUMENTS, SHORT

_AGENT: Final = "agent="
_SHORT: Final = "agent=sb3"
_SBX: Final = "agent=sbx/"
_EXPERIMENT: Final = "experiment="
_ALGORITHM: Final = "agent.algorithm="
_LIBRARY: Final = "agent.library="
_COMPARED: Final = "settings="


def _file_of_algorithm(overrides: Sequence[str]) -> Sequence[str]:
    """The overrides, with the file of the algorithm in place of its name and its library.

    Beside settings that are compared the name stays behind the file: one of them may be another algorithm.

    Raises:
        UserError: There is no such algorithm, or two are named.
    """
    words = _of_the_last_agent(overrides)
    agents = [word for word in words if word.startswith(_AGENT)]
    chosen_by_file = not agents and any(word.lstrip("+").startswith(_EXPERIMENT) for word in words)
    if chosen_by_file or any(word.startswith((_SHORT, _SBX)) for word in agents):
        words = [one for word in words for one in _arguments_of_a_policy(word)]
    chosen = next((word for word in reversed(words) if word.startswith(_AGENT)), "")
    named, libraries = _typed(words, _ALGORITHM), _typed(words, _LIBRARY)
    of_file = algorithm_in(chosen.removeprefix(_AGENT))
    if of_file is None and chosen != _SHORT:
        return words
    if of_file is not None and named and not any(_is_of(chosen, name) for name in named):
        raise UserError(f"{chosen} and {_ALGORITHM}{named[-1]} are two algorithms: leave one of them out")
    name, library = of_file or ("PPO", "sb3")
    name, library = named[-1] if named else name, libraries[-1] if libraries else library
    wanted = [(spelled(one, place), place) for place in library.split(",") for one in name.split(",")]
    rest = [word for word in words if not word.startswith(_LIBRARY)]
    if [of_file] == wanted:
        return rest
    compared = any(word.startswith(_COMPARED) for word in words)
    files = [f"{_AGENT}{','.join(file_of(*one) for one in wanted)}"]
    files += [f"{_ALGORITHM}{one}" for one, _ in wanted if compared and len(wanted) == 1]
    rest = [word for word in rest if not word.startswith(_ALGORITHM)]
    at = rest.index(chosen)
    return [*rest[:at], *files, *rest[at + 1 :]]


def _arguments_of_a_policy(word: str) -> list[str]:
    """An override of arguments of the policy as several that the file of an algorithm takes.

    Its group of them is empty, and Hydra adds to it by `++` only. Two of them are settings of the agent.

    Raises:
        UserError: It cannot be read.
    """
    key, _, value = word.partition("=")
    path, is_group = key.lstrip("+"), value.startswith("{")
    if path == ARGUMENTS and is_group:
        given = parse_overrides([word])[0].value()
        return [_argument(name, to_hydra(one)) for name, one in given.items()] if isinstance(given, dict) else [word]
    return [_argument(path.removeprefix(f"{ARGUMENTS}."), value)] if path.startswith(f"{ARGUMENTS}.") else [word]


def _argument(name: str, value: str) -> str:
    return f"agent.{name}={value}" if name in SHORT else f"++{ARGUMENTS}.{name}={value}"


def _typed(words: Sequence[str], key: str) -> list[str]:
    return [word.removeprefix(key) for word in words if word.startswith(key)]


def _of_the_last_agent(overrides: Sequence[str]) -> list[str]:
    """The overrides, without an earlier file that a later one replaces, and without the name of its algorithm."""
    words = list(overrides)
    agents = [number for number, word in enumerate(words) if word.startswith(_AGENT)]
    for number in reversed(agents[:-1]):
        if words[number].startswith(_SHORT) or algorithm_in(words[number].removeprefix(_AGENT)) is not None:
            is_named = words[number + 1].startswith(_ALGORITHM) and _is_of(words[number], words[number + 1])
            del words[number : number + 1 + is_named]
    return words


def _is_of(file: str, name: str) -> bool:
    algorithm = name.removeprefix(_ALGORITHM).lower()
    return any(file == f"{_AGENT}{file_of(algorithm, library)}" for library in LIBRARIES)


def _typed_of_class(trainer: object) -> Sequence[str]:
    """Overrides for a class of these libraries; empty: it is none.

    Raises:
        UserError: It is a class that is derived from one, or a model.
    """
    kind = trainer if isinstance(trainer, type) else type(trainer)
    bases = [(one, library) for one in kind.__mro__ if (library := _library_of(one)) is not None]
    if not bases:
        return []
    (base, library), name = bases[0], kind.__name__
    if kind is not base:
        raise UserError(
            f"{name} is a class of your own, derived from {base.__name__}, and only the library's own classes have "
            f"settings here: write a function of a module that makes {name}, calls learn() and returns the score, and "
            "give that, as tuner.tune(train, space={'learning_rate': (1e-5, 1e-2)}) (tuner guide your-trainer)"
        )
    if trainer is not base:
        raise UserError(
            f"this {name} is a model already, and each trial makes its own: give the class and its settings, "
            f"as tuner.tune({name}, env='CartPole-v1', ...)"
        )
    return [f"agent={file_of(name, library)}"]


def _library_of(kind: type) -> str | None:
    """The library that an algorithm is of; None: the class is none."""
    package = kind.__module__.partition(".")[0]
    library = {"stable_baselines3": "sb3", "sb3_contrib": "sb3", "sbx": "sbx"}.get(package)
    return library if library is not None and kind.__name__ in LIBRARIES[library] else None


PART = InChecking(named=_file_of_algorithm, trainer=_typed_of_class)
