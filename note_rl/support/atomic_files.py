"""Writing files that are never half there."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def atomic_target(path: Path) -> Iterator[Path]:
    """A path beside a file, to be written in a block: readers see the old file or the new one, never a part.

    Behind the block what was written is flushed to the disk, so that not even a power cut leaves a part, and takes the
    file's place; if the block fails, nothing is left. The name tells which process was writing what a kill has left
    behind.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(6).hex()}.aside")
    try:
        yield aside
        with aside.open("rb") as written:
            os.fsync(written.fileno())
        aside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise


@contextlib.contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """The same for a folder: a path that does not exist yet, to be made a folder in a block.

    One that is there is moved aside, and removed once the new one has its place. Readers that come in between find
    none.
    """
    token = f"{os.getpid()}-{os.urandom(6).hex()}.aside"
    aside, former = path.with_name(f".{path.name}.{token}"), path.with_name(f".{path.name}.former.{token}")
    try:
        yield aside
        if path.exists():
            path.rename(former)
        aside.rename(path)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    shutil.rmtree(former, ignore_errors=True)
