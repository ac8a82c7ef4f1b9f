"""`tuner compare settings=[A,B]`: a benchmark of two settings of one agent in one environment."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from omegaconf import DictConfig

from tuner.config.typed_command import typed_config_dir, typed_line
from tuner.errors import UserError
from tuner.features.benchmark.bench import check_cells, measure
from tuner.features.benchmark.entrants import Cell, setting_cells
from tuner.runs.config_checks import resolve
from tuner.trial.messages import JsonDict

_METRIC: Final = "mixed"


def check(config: DictConfig, folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
    """Refuses other than two settings, and what cannot be run."""
    resolved = resolve(config)
    check_cells(resolved, folder, _cells(resolved, overrides, config_dir), _METRIC)


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Trains both on the same fresh seeds and writes the page of the benchmark that this is."""
    resolved = resolve(config)
    config_dir = typed_config_dir()
    cells, command = _cells(resolved, overrides, config_dir), typed_line("compare", overrides, config_dir)
    return measure(resolved, cells, folder, command, int(resolved["num_seeds"]))


def _cells(config: JsonDict, overrides: Sequence[str], config_dir: str | Path | None) -> list[Cell]:
    settings = config["settings"]
    if not isinstance(settings, list) or len(settings) != 2:
        listed = shlex.join(map(str, settings)) if isinstance(settings, list) else str(settings)
        raise UserError(
            f"settings: tuner compare takes two, not {listed or 'none'}; tuner bench takes any number of them"
        )
    return setting_cells(config, overrides, config_dir)
