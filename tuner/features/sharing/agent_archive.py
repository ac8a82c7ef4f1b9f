"""The file that is shared: a ZIP archive of the settings of a run, its weights and what is known of it.

It holds these files and no other. Nothing in it is code: settings are YAML that is read as data, weights are
safetensors. What the settings name is built only when the run is used, by the rules of `tuner.config.trust`.
"""

import hashlib
import json
import lzma
import os
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from note_rl.support.atomic_files import atomic_target
from tuner.errors import UserError
from tuner.runs.function_state import ARRAYS_FILE, HEAD_FILE
from tuner.runs.run_folders import CONFIG_FILE
from tuner.support.text_files import lives, parse_json, sweep_unfinished
from tuner.trial.folder import CHECKPOINT_FILE, STATE_FOLDER

DIGESTS_FILE: Final = "digests.json"
RESULT_FILE: Final = "result.md"
FILES: Final = (CONFIG_FILE, CHECKPOINT_FILE, RESULT_FILE)
STATE_FILES: Final = tuple(f"{STATE_FOLDER}/000001/{name}" for name in (HEAD_FILE, ARRAYS_FILE))
"""In the place of the checkpoint, of a function whose state is arrays (`tuner.runs.function_state`)."""
_MOST_BYTES: Final = {CONFIG_FILE: 10_000_000, RESULT_FILE: 100_000, DIGESTS_FILE: 100_000, STATE_FILES[0]: 100_000}
_MOST_WEIGHTS: Final = 20_000_000_000
_OF_DAMAGE: Final = (EOFError, NotImplementedError, RuntimeError, ValueError, zlib.error, lzma.LZMAError)
"""Errors on reading a changed archive; encrypted entries are a RuntimeError."""
_ASIDE: Final = ".unpacked"
_UNFINISHED: Final = re.compile(rf"\..+\.(?P<pid>\d{{1,10}})-\w+\{_ASIDE}")
"""Folders beside the one that an archive is unpacked into, with the number of the process."""
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The date of all files in it, so that the same agent makes the same archive."""


def pack(folder: Path, target: Path) -> None:
    """Packs the files of a folder.

    Args:
        folder: Holds `FILES`, or `STATE_FILES` in the place of the checkpoint; the result may be missing.
        target: The archive, which is replaced as a whole.

    Raises:
        UserError: It cannot be written.
    """
    names = [name for name in (*FILES, *STATE_FILES) if (folder / name).is_file()]
    digests = {name: _digest(folder / name) for name in names}
    sweep_unfinished(target.parent)
    try:
        with atomic_target(target) as aside, zipfile.ZipFile(aside, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_entry(DIGESTS_FILE), json.dumps(digests, indent=1) + "\n")
            for name in names:
                of_archive = archive.open(_entry(name), "w", force_zip64=True)
                with of_archive as inside, (folder / name).open("rb") as file:
                    shutil.copyfileobj(file, inside)
    except OSError as error:
        raise UserError(f"{target} cannot be written: {error.strerror}; name another file=...") from error


def _entry(name: str) -> zipfile.ZipInfo:
    found = zipfile.ZipInfo(name, _EPOCH)
    found.compress_type = zipfile.ZIP_DEFLATED
    return found


def unpack(source: Path, folder: Path) -> None:
    """Unpacks an archive into a new folder, which is there as a whole or not at all.

    Raises:
        UserError: It is none of ours, it is damaged, the folder is there already, or the disk has no room for it.
    """
    if os.path.lexists(folder):
        raise UserError(f"{folder} is there already: choose another with folder=...")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _sweep(folder.parent)
        prefix = f".{folder.name}.{os.getpid()}-"
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix=prefix, suffix=_ASIDE) as place:
            made = Path(place) / "run"
            made.mkdir()
            with zipfile.ZipFile(source) as archive:
                _unpack_into(made, archive, source)
            made.replace(folder)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, *_OF_DAMAGE) as error:
        raise UserError(f"{source} is damaged, or no archive of tuner push: {error}") from error
    except OSError as error:
        raise UserError(f"{source} cannot be unpacked into {folder}: {error.strerror or error}") from error


def _sweep(folder: Path) -> None:
    """Removes what was being unpacked by processes that were killed."""
    for path in folder.glob(f".*{_ASIDE}"):
        found = _UNFINISHED.fullmatch(path.name)
        if found is not None and path.is_dir() and not path.is_symlink() and not lives(int(found["pid"])):
            shutil.rmtree(path, ignore_errors=True)


def _unpack_into(folder: Path, archive: zipfile.ZipFile, source: Path) -> None:
    """Only files of known names and sizes are looked at, so none can lead out of the folder or fill the disk."""
    names = [one.filename for one in archive.infolist()]
    strange = [name for name in names if name not in (*FILES, *STATE_FILES, DIGESTS_FILE)]
    weights = STATE_FILES if {*STATE_FILES} & {*names} else (CHECKPOINT_FILE,)
    missing = [name for name in (CONFIG_FILE, *weights, DIGESTS_FILE) if name not in names]
    if strange or missing or len(set(names)) < len(names):
        what = (
            f"it holds {strange[0]!r}" if strange else f"it has no {missing[0]}" if missing else "a name stands twice"
        )
        raise UserError(f"{source} is no archive of tuner push: {what}")
    needed, free = sum(one.file_size for one in archive.infolist()), shutil.disk_usage(folder).free
    if needed > free:  # no more than this is ever unpacked
        raise UserError(
            f"{source} needs {needed / 1e6:,.1f} MB, and {folder.parent.parent} has {free / 1e6:,.1f} MB left: choose "
            "another disk with folder=..."
        )
    digests = _digests_in(archive, source)
    for name in names:
        if name == DIGESTS_FILE:
            continue
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        _copy(archive, name, folder / name, source)
        if _digest(folder / name) != digests.get(name):
            raise UserError(f"{source} is damaged: {name} is not the file that was packed; get another copy")


def _digests_in(archive: zipfile.ZipFile, source: Path) -> Mapping[str, object]:
    with archive.open(DIGESTS_FILE) as file:
        text = file.read(_MOST_BYTES[DIGESTS_FILE])
    try:
        found = parse_json(text)
    except ValueError as error:
        raise UserError(f"{source} is damaged: {DIGESTS_FILE} cannot be read") from error
    if not isinstance(found, dict):
        raise UserError(f"{source} is damaged: {DIGESTS_FILE} holds no digests")
    return found


def _copy(archive: zipfile.ZipFile, name: str, target: Path, source: Path) -> None:
    """Counts what is really unpacked: what an archive says of its sizes may be wrong."""
    left = _MOST_BYTES.get(name, _MOST_WEIGHTS)
    with archive.open(name) as inside, target.open("wb") as file:
        while block := inside.read(1 << 20):
            left -= len(block)
            if left < 0:
                raise UserError(f"{source}: {name} is larger than an agent can be, and is not unpacked")
            file.write(block)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
