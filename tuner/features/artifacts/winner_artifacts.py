"""The page of each study that has a winner, and a film of the winner."""

import importlib.util
import subprocess
import sys
from pathlib import Path

from omegaconf import DictConfig
from rich.markup import escape

from tuner.commands.study_loading import load
from tuner.commands.study_result import StudyResult
from tuner.config.overrides import to_hydra
from tuner.errors import UserError
from tuner.features.artifacts.study_files import StudyFiles, keep
from tuner.reporting.page import PAGE_FILE, write_page
from tuner.results.features import chosen
from tuner.study import StudyStore, home_of, own_home, summarise
from tuner.support.console import PlainConsole
from tuner.support.plain_text import one_line

FILM = "play.gif"
"""As `tuner play` calls it."""
_MOST_SECONDS = 300


def of_all_studies(config: DictConfig, store: StudyStore) -> StudyFiles | None:
    """Notes page and film of each winner with its study.

    Args:
        config: Of `tuner dashboard`.
        store: Where the studies are kept.

    Returns:
        Where the dashboard reads them; None: there are none.
    """
    console, homes = PlainConsole(), []
    for name in store.names():
        try:
            home = _with_artifacts(config, store, name, console)
        except Exception as error:  # noqa: BLE001 - a damaged study may fail in any way: the others are shown
            reason = one_line(str(error) or type(error).__name__)
            console.print(f"{escape(name)} has no artifacts: {escape(reason)}", soft_wrap=True)
        else:
            homes += [] if home is None else [home]
    return StudyFiles(homes) if homes else None


def _with_artifacts(config: DictConfig, store: StudyStore, name: str, console: PlainConsole) -> Path | None:
    """The folder of a study, with its artifacts in it; None: it has no winner yet, or nothing to show of it.

    Raises:
        UserError: The folder is not where it was, nor where `folder` says.
    """
    home = home_of(store, name, own_home(store, name, Path(config.folder) / name))
    study = store.find(name)
    if study is None or not chosen(summarise(store, name, home)).labels:
        return None
    if not home.is_dir():
        raise UserError(f"its folder {home} is not there; name the one that it is in, as folder={home.parent}")
    found = [_page(store, name, home), _film(str(config.storage.url), name, home, console)]
    for file in filter(None, found):
        keep(study, home, file)
    return home if any(found) else None


def _page(store: StudyStore, name: str, home: Path) -> Path | None:
    """The page that the study has written at its end, or a new one; None: plotly is not installed."""
    page = home / PAGE_FILE
    if page.is_file() or importlib.util.find_spec("plotly") is None:
        return page if page.is_file() else None
    return write_page(summarise(store, name, home, thorough=True), home)


def _film(url: str, name: str, home: Path, console: PlainConsole) -> Path | None:
    """The film of the winner, which is played if there is none yet; None: it cannot be."""
    found = load(name, url)
    if not found.has_agent:
        return None
    film = found.best_run() / FILM
    if not film.is_file():
        console.print(f"filming the winner of {escape(name)}", soft_wrap=True)
        _play(found, console)
    return film if film.is_file() else None


def _play(found: StudyResult, console: PlainConsole) -> None:
    """In a process of its own: this one needs no framework."""
    typed = f"run={to_hydra(str(found.best_run()))}"  # a word with = in it would be another setting
    words = [sys.executable, "-m", "tuner", "play", typed, "num_episodes=1", f"gif={FILM}"]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, errors="replace", check=False, timeout=_MOST_SECONDS
        )
        said = (done.stderr or done.stdout).strip() if done.returncode else ""
    except subprocess.TimeoutExpired:
        said = f"it took more than {_MOST_SECONDS} s"
    if said:
        console.print(f"no film: {escape(one_line(said))}", soft_wrap=True)
