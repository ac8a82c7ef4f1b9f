"""How an algorithm is typed: `agent=sb3 agent.algorithm=SAC` is the file of that algorithm, with its search space."""

from collections.abc import Sequence
from typing import Final

from tuner.checking.features import InChecking
from tuner.errors import UserError
from tuner.features.sb3.sb3_algorithms import KNOWN, file_of
from tuner.support.names import did_you_mean

_AGENT: Final = "agent=sb3"
_ALGORITHM: Final = "agent.algorithm="


def _file_of_algorithm(overrides: Sequence[str]) -> Sequence[str]:
    """What was typed, with the file of the algorithm in place of its name.

    Raises:
        UserError: There is no such algorithm, or two are named.
    """
    named = [word.removeprefix(_ALGORITHM) for word in overrides if word.startswith(_ALGORITHM)]
    file = next((word for word in overrides if word.startswith(f"{_AGENT}_")), None)
    if file is not None and named and file != f"agent={file_of(named[-1])}":
        raise UserError(f"{file} and {_ALGORITHM}{named[-1]} are two algorithms: leave one of them out")
    if _AGENT not in overrides:
        return overrides
    spelled = {one.lower(): one for one in KNOWN}
    files = []
    for name in (named[-1] if named else "PPO").split(","):
        if name.lower() not in spelled:
            raise UserError(f"{_ALGORITHM}{name}: there is no such algorithm{did_you_mean(name, KNOWN)}")
        files.append(file_of(name))
    rest = [word for word in overrides if not word.startswith(_ALGORITHM)]
    return [f"agent={','.join(files)}" if word == _AGENT else word for word in rest]


def _typed_of_class(trainer: object) -> Sequence[str]:
    """What is typed for a class of these libraries; nothing: it is none."""
    package = str(getattr(trainer, "__module__", "")).partition(".")[0]
    if package not in ("stable_baselines3", "sb3_contrib"):
        return []
    if not isinstance(trainer, type) or trainer.__name__ not in KNOWN:
        return []
    return [f"agent={file_of(trainer.__name__)}"]


PART = InChecking(named=_file_of_algorithm, trainer=_typed_of_class)
