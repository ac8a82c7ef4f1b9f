"""The page of each study that has a winner, and a film of the winner."""

import importlib.util
import subprocess
import sys
from pathlib import Path

from omegaconf import DictConfig
from rich.markup import escape

from tuner.commands.study_loading import load
from tuner.commands.study_result import StudyResult
from tuner.errors import UserError
from tuner.features.artifacts.study_files import StudyFiles, keep
from tuner.reporting.page import PAGE_FILE, write_page
from tuner.results.features import chosen
from tuner.study import StudyStore, home_of, summarise
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
        home = home_of(store, name, Path(config.folder) / name)
        study, summary = store.find(name), summarise(store, name, home)
        if study is None or not home.is_dir() or not chosen(summary).labels:
            continue
        try:
            for file in (_page(store, name, home), _film(str(config.storage.url), name, home, console)):
                if file is not None:
                    keep(study, home, file)
            homes.append(home)
        except (OSError, UserError) as error:
            console.print(f"{escape(name)} has no artifacts: {escape(one_line(str(error)))}", soft_wrap=True)
    return StudyFiles(homes) if homes else None


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
    words = [sys.executable, "-m", "tuner", "play", str(found.best_run()), "num_episodes=1", f"gif={FILM}"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_MOST_SECONDS)
        said = (done.stderr or done.stdout).strip() if done.returncode else ""
    except subprocess.TimeoutExpired:
        said = f"it took more than {_MOST_SECONDS} s"
    if said:
        console.print(f"no film: {escape(one_line(said))}", soft_wrap=True)
