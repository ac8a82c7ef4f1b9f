"""Inputs of the jobs of a sweep: modules of the application's own, its files, and files named in the configuration.

Python says of every file that it opens (`sys.addaudithook`). What libraries in C open by themselves, what a subprocess
or a server reads, and files outside of the application's folder that no value names, nobody learns of.
"""

import hashlib
import os
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from tuner.config.own_code import is_own
from tuner.trial.folder import MAX_INPUTS

_READ_WHOLE = 16 * 2**20
"""Bytes of a file up to which its content is compared; of a larger one, its size and the time of its last change."""
_WRITES = os.O_WRONLY | os.O_RDWR


@dataclass(frozen=True)
class InputFiles:
    """Files that can be input of a sweep.

    Attributes:
        root: The folder of the application; names of files are relative to it.
        folders: Everything in these that is read is input.
        named: Files that the configuration names, wherever they are.
    """

    root: Path
    folders: tuple[Path, ...]
    named: frozenset[Path]

    @classmethod
    def of(cls, configs: Iterable[DictConfig]) -> "InputFiles":
        """Those of the application that runs in this process.

        Args:
            configs: Of its jobs, without Hydra's part.
        """
        here = Path.cwd()
        file = getattr(sys.modules["__main__"], "__file__", None)
        main = None if file is None else Path(file).resolve()
        root = main.parent if main is not None and is_own(main) else here
        named = {
            path.resolve()
            for config in configs
            for text in _texts(OmegaConf.to_container(config, resolve=False))
            for path in (folder / text for folder in {here, root})
            if _is_file(path)
        }
        return cls(root, (root, here), frozenset(named))

    def covers(self, file: Path) -> bool:
        """Whether a file can be input: code that is installed, and what is in hidden folders, are none."""
        if file in self.named:
            return True
        folder = next((folder for folder in self.folders if file.is_relative_to(folder)), None)
        if folder is None or file.suffix == ".pyc" or not is_own(file):
            return False
        return not any(part.startswith(".") for part in file.relative_to(folder).parts[:-1])

    def name_of(self, file: Path) -> str:
        """The name of a file in messages and in the storage."""
        return file.relative_to(self.root).as_posix() if file.is_relative_to(self.root) else str(file)

    def digest(self, name: str) -> str | None:
        """Of the file of that name as it is now; None: there is none, or it can be no input."""
        try:
            file = (self.root / name).resolve()
            return _digest(file) if self.covers(file) else None
        except (OSError, ValueError, RuntimeError):  # a storage may hold anything: no path, a link in a circle
            return None


@dataclass
class Reading:
    """Files that were read while a task ran.

    Attributes:
        digests: By name; None: it changed meanwhile.
    """

    digests: dict[str, str | None] = field(default_factory=dict)


@contextmanager
def noting_inputs(files: InputFiles, output: Path, reading: Reading) -> Iterator[None]:
    """Notes what is read in a block.

    Args:
        files: That count.
        output: A folder whose files are made by jobs.
        reading: Where it is noted.
    """
    opened, start = _Opened(files, output.resolve()), time.time_ns()
    _Hook.listen(opened)
    try:
        yield
    finally:
        _Hook.listen(None)
        read = {*filter(opened.counts, {*files.named, *_modules_in(files.folders)}), *opened.read}
        for file in [*sorted(read), *sorted(opened.written)][:MAX_INPUTS]:
            digest = _digest(file)
            if digest is not None:
                changed = file in opened.written or file.stat().st_mtime_ns >= start
                reading.digests[files.name_of(file)] = None if changed else digest


def _modules_in(folders: Iterable[Path]) -> Iterator[Path]:
    """The files of imported modules that lie in some folders; there are thousands that lie elsewhere."""
    beginnings = tuple({os.path.join(folder, "") for folder in folders})
    homes: dict[str, str] = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str):
            continue
        home, name = os.path.split(file)
        if home not in homes:
            homes[home] = os.path.realpath(home)
        path = os.path.realpath(file) if os.path.islink(file) else os.path.join(homes[home], name)
        if path.startswith(beginnings):
            yield Path(path)


class _Opened:
    """Files that Python has opened, as far as they count."""

    def __init__(self, files: InputFiles, output: Path) -> None:
        self._files = files
        self._output = output
        self._known: set[tuple[str, bool]] = set()
        self.read: set[Path] = set()
        self.written: set[Path] = set()

    def counts(self, file: Path) -> bool:
        return self._files.covers(file) and not file.is_relative_to(self._output)

    def see(self, path: str, writes: bool) -> None:
        path = os.path.abspath(path)
        if (path, writes) in self._known:
            return
        self._known.add((path, writes))
        file = Path(path).resolve()
        if self.counts(file):
            (self.written if writes else self.read).add(file)


class _Hook:
    """Audit hook for each file that Python opens; it stays as long as its process."""

    installed = False
    opened: _Opened | None = None

    @classmethod
    def listen(cls, opened: _Opened | None) -> None:
        cls.opened = opened
        if not cls.installed:
            cls.installed = True
            sys.addaudithook(cls.see)

    @classmethod
    def see(cls, event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or cls.opened is None:
            return
        path, _, flags = arguments
        if isinstance(path, str | bytes) and isinstance(flags, int):
            with suppress(OSError, ValueError, RuntimeError):  # a path that is none fails where it is opened
                cls.opened.see(os.fsdecode(path), bool(flags & _WRITES))


def _digest(file: Path) -> str | None:
    try:
        about = file.stat()
        if not stat.S_ISREG(about.st_mode):
            return None
        if about.st_size > _READ_WHOLE:
            return f"{about.st_size} bytes of {about.st_mtime_ns}"
        return hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    except OSError:
        return None


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a text that is no path
        return False


def _texts(node: object) -> Iterator[str]:
    if isinstance(node, Mapping):
        for value in node.values():
            yield from _texts(value)
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for value in node:
            yield from _texts(value)
    elif isinstance(node, str) and node:
        yield node
