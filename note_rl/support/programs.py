"""Folders for compiled programs, which are run from there in later processes: of the user's own, and not too large."""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

_NEEDED = 2**28  # bytes that must be free, as a program that cannot be kept may be a run that fails


def programs_folder(environment: Mapping[str, str], variable: str, compiler: str, made_for: Iterable[str]) -> Path:
    """Where programs of one compiler lie that run on this kind of CPU.

    Args:
        environment: Variables that there are.
        variable: The one that names a folder in place of the user's own for caches; "off" for none.
        compiler: Names the folder within that one.
        made_for: What else programs depend on, the compiler's version first.

    Raises:
        OSError: None is wanted, or nothing is known of the CPU.
    """
    given = environment.get(variable, "")
    home = given or str(caches_folder(environment) / compiler)
    if not os.path.isabs(home):
        raise OSError(f"{variable}={given} is no absolute path")
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    cpu = sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))})
    version, *others = made_for
    return Path(home, f"{version}-{hashlib.sha256(''.join([*cpu, *others]).encode()).hexdigest()[:12]}")


def caches_folder(environment: Mapping[str, str]) -> Path:
    """The folder of this project in the user's own for caches."""
    caches = environment.get("XDG_CACHE_HOME", "")
    return Path(caches if os.path.isabs(caches) else os.path.expanduser("~/.cache"), "note-rl")


def clear_caches(environment: Mapping[str, str]) -> int:
    """Deletes all compiled programs in that folder; those that are running are not touched.

    Returns:
        The bytes that were freed.
    """
    folder = caches_folder(environment)
    if folder.is_symlink():  # what it leads to may be anything
        return 0
    freed = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    shutil.rmtree(folder, ignore_errors=True)
    return freed


def is_usable(folder: Path) -> bool:
    """Whether programs may be kept in a folder, which is made: nobody else may write into it, and there is space."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        about = folder.stat()
        writable = os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > _NEEDED
    except OSError:
        return False
    return writable and about.st_uid == os.getuid() and not about.st_mode & 0o022


def remove_oldest(folder: Path, pattern: str, most_bytes: int) -> None:
    """Removes the oldest files of a folder, half-written ones among them, until the rest has `most_bytes` at most."""
    found = []
    for path in folder.glob(pattern):
        with contextlib.suppress(OSError):  # another process has removed it
            about = path.stat()
            found.append((about.st_mtime, about.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= most_bytes:
            break
        path.unlink(missing_ok=True)
        total -= size
