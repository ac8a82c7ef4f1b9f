"""`tuner dashboard`: Optuna's dashboard on a storage."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from tuner.commands.features import InCommands
from tuner.commands.report import require_studies
from tuner.errors import UserError
from tuner.features import parts
from tuner.study import StudyStore, fill_in_missing
from tuner.study.storage.open_storage import check_url, open_storage
from tuner.study.watching.typed_trials import with_typed_trials
from tuner.support.console import PlainConsole
from tuner.support.passwords import shown


def check(config: DictConfig, folder: Path, overrides: Sequence[str], config_dir: str | Path | None = None) -> None:
    """Refuses an address that nothing can be behind."""
    del folder, overrides, config_dir
    check_url(config.storage.url)


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Serves it until Ctrl-C."""
    del folder, overrides
    url = str(config.storage.url)
    if importlib.util.find_spec("optuna_dashboard") is None:
        raise UserError("tuner dashboard needs optuna-dashboard, which is not installed: pip install 'note-rl[report]'")
    require_studies(url)
    with StudyStore(url) as store:
        fill_in_missing(store, Path(config.folder))
        files = next(filter(None, (part.files(config, store) for part in parts(InCommands))), None)
    storage = with_typed_trials(open_storage(url))
    from optuna_dashboard import run_server

    address = f"http://{config.host}:{config.port}"
    PlainConsole().print(f"studies of {shown(url)} on [bold]{address}[/bold] (Ctrl-C ends it)", soft_wrap=True)
    try:
        run_server(storage, host=str(config.host), port=int(config.port), artifact_store=files)
    except OSError as error:
        raise UserError(f"{address} cannot be served: {error.strerror}; choose another with port=...") from error
    return 0
