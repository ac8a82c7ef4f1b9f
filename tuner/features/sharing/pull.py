"""`tuner pull FILE`: the run that `tuner push` has packed, on this machine or another."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig
from rich.markup import escape

from tuner.errors import UserError
from tuner.features.sharing.agent_archive import RESULT_FILE, unpack
from tuner.support.console import PlainConsole
from tuner.support.plain_text import one_line

_MOST_LINES = 40
"""Of the result, which somebody else has written, that are printed."""


def check(config: DictConfig, folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
    """Refuses a file that is not there, and a folder that is."""
    del folder, overrides, config_dir
    if config.file is None:
        raise UserError("name the file that tuner push has written: tuner pull FILE")
    if not Path(config.file).is_file():
        raise UserError(f"there is no file {config.file}")
    if _target(config).exists():
        raise UserError(f"{_target(config)} is there already: choose another with folder=...")


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Unpacks it; runs nothing of it."""
    del folder, overrides
    target = _target(config)
    unpack(Path(config.file), target)
    console = PlainConsole()
    result = target / RESULT_FILE
    if result.is_file():
        lines = result.read_text(encoding="utf-8", errors="replace").splitlines()
        for line in lines[:_MOST_LINES]:
            console.print(escape(one_line(line, 2000)), highlight=False, soft_wrap=True)
        if len(lines) > _MOST_LINES:
            rest = f"... and {len(lines) - _MOST_LINES:,} more lines in {result}"
            console.print(escape(rest), highlight=False, soft_wrap=True)
    console.print(f"watch it:\n  [bold]tuner play {escape(shlex.quote(str(target)))}[/bold]", soft_wrap=True)
    return 0


def _target(config: DictConfig) -> Path:
    return Path(config.folder or Path("runs") / Path(config.file).stem)
