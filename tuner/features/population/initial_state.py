"""Initial state of a run of a population: the files of the run that it continues."""

import shutil
from pathlib import Path

from note_rl.support.atomic_files import atomic_folder, atomic_target
from tuner.trial import folder as files

_DEPTH_OF_ARRAYS = 2
"""Names below the folder of a function's checkpoints: that of the checkpoint, and of its file."""


def inherit(folder: Path, source: Path, *, is_copy: bool) -> None:
    """Gives a new folder the state of another run; one that has begun already is left alone.

    Reports come last: with them a folder is complete, so that a kill in between costs nothing.

    Args:
        folder: Of the run that is to begin.
        source: Of the run that it goes on from, paused.
        is_copy: Whether another member goes on, with random numbers of its own.
    """
    if (folder / files.REPORTS_FILE).exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    _share(source / files.CHECKPOINT_FILE, folder / (files.INHERITED_FILE if is_copy else files.CHECKPOINT_FILE))
    _share(source / files.BEST_FILE, folder / files.BEST_FILE)
    _share_folder(source / files.STATE_FOLDER, folder / files.STATE_FOLDER)
    for name in (files.METRICS_FILE, files.REPORTS_FILE):  # which grow, and so are copied
        if (source / name).exists():
            _copy(source / name, folder / name)


def drop_state(folder: Path) -> None:
    """Removes what only a run that goes on from this one needs."""
    for name in (files.CHECKPOINT_FILE, files.INHERITED_FILE):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / files.STATE_FOLDER, ignore_errors=True)


def _share(source: Path, target: Path) -> None:
    """A second name for a file that is only ever replaced as a whole; where file systems have none, a copy."""
    if not source.exists():
        return
    target.unlink(missing_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:
        _copy(source, target)


def _share_folder(source: Path, target: Path) -> None:
    """The same for the checkpoints of a function; files in folders of its own, which it may write into, are copied."""

    def share(path: str, shared: str) -> str:
        if len(Path(path).relative_to(source).parts) > _DEPTH_OF_ARRAYS:
            return str(shutil.copy2(path, shared))  # with its times: a program may look for its newest file
        _share(Path(path), Path(shared))
        return shared

    if source.is_dir():
        with atomic_folder(target) as aside:
            shutil.copytree(source, aside, copy_function=share, ignore=shutil.ignore_patterns(".*.aside"))


def _copy(source: Path, target: Path) -> None:
    with atomic_target(target) as aside:
        shutil.copyfile(source, aside)
