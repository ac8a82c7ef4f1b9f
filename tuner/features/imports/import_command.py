"""`tuner import study` and `tuner import zoo`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from omegaconf import DictConfig

from tuner.errors import UserError
from tuner.features.imports.imported_study import import_study
from tuner.features.imports.zoo_line import import_zoo
from tuner.runs.config_checks import resolve
from tuner.study.storage.open_storage import IN_MEMORY, check_url
from tuner.support.names import did_you_mean
from tuner.trial.messages import JsonDict

_OF_A_STUDY: Final = ("source", "name", "keys")
_TYPED: Final = {"source": "storage", "agent_name": "agent"}


def check(config: DictConfig, folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
    """Refuses what is neither, and settings of the other one."""
    del folder, overrides, config_dir
    resolved = resolve(config)
    kind, *rest = _words(resolved)
    if kind == "study":
        if len(rest) > 1 or (rest and resolved["name"] is not None):
            raise UserError("study takes one name: tuner import study storage=URL name=NAME")
        if resolved["file"] is not None:
            raise UserError("file is of tuner import zoo: name the storage of the study, storage=URL")
        if resolved["storage"]["url"] in IN_MEMORY:
            raise UserError("storage=memory keeps nothing: name where the copy goes, storage.url=sqlite:///studies.db")
        check_url(resolved["storage"]["url"])
        return
    typed = next((key for key in _OF_A_STUDY if resolved[key] is not None), None)
    if typed is not None:
        raise UserError(f"{_TYPED.get(typed, typed)} is of tuner import study: leave it out")
    if len(rest) != 1 or rest[0].count("/") < 1:
        got = f", not {' '.join(rest)}" if rest else ""
        raise UserError(f"zoo takes ALGORITHM/ENVIRONMENT, such as ppo/CartPole-v1{got}")


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Imports a study, or prints the command line of an entry of the Zoo."""
    del folder, overrides
    resolved = resolve(config)
    kind, *rest = _words(resolved)
    if kind == "zoo":
        return import_zoo(rest[0], resolved["agent_name"], resolved["file"])
    return import_study({**resolved, "name": rest[0] if rest else resolved["name"]})


def _words(resolved: JsonDict) -> list[str]:
    typed = resolved["what"]
    words = [typed] if isinstance(typed, str) else [str(word) for word in typed]
    if not words:
        raise UserError("import takes study or zoo: tuner import study storage=URL, tuner import zoo ppo/CartPole-v1")
    if words[0] not in ("study", "zoo"):
        raise UserError(f"import takes study or zoo, not {words[0]}{did_you_mean(words[0], ('study', 'zoo'))}")
    return words
