"""Where XLA keeps what it has compiled, so that a run of a shape that was seen before does not compile."""

import contextlib
import hashlib
import os
import shutil
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

VARIABLE = "NOTE_RL_XLA_CACHE"
"""Names the folder, in place of the user's own for caches; "off" for none."""

_FLAGS = "TF_XLA_FLAGS"
_DIRECTORY, _PREFIX = "--tf_xla_persistent_cache_directory=", "note_rl"
_LARGEST = 2**30  # bytes; one program takes about half a megabyte
_NEEDED = 2**28  # bytes that must be free, as a program that cannot be kept is a run that fails
_cleared = False


def xla_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables by which TensorFlow, once it is imported, keeps compiled programs from one process to the next.

    A program is found again where its operations and shapes are the same; TensorFlow compares them. It runs only on the
    kind of CPU that it was made for, so that each has a folder of its own, which nobody else may write into: what lies
    there is run; TensorFlow does not compare the flags that it was compiled with either, so that these have one, too.
    The oldest are given up where all together take more than a gigabyte.

    Args:
        environment: Those that there are; flags of the user's own stay, and a cache of the user's own is used.

    Returns:
        Nothing where there is no place for it.
    """
    flags = environment.get(_FLAGS, "").strip()
    in_a_file = bool(flags) and not flags.startswith("-")  # which is named there
    folder = None if _DIRECTORY in flags or in_a_file else _usable(environment)
    if folder is None:
        return {}
    _remove(folder, _LARGEST)
    ours = f"{_DIRECTORY}{folder} --tf_xla_persistent_cache_prefix={_PREFIX} --tf_xla_persistent_cache_device_types=CPU"
    return {_FLAGS: f"{flags} {ours}".strip()}


def clear_xla_cache() -> bool:
    """Gives up what is kept, once in a process: a damaged file or a full disk must not end a run twice.

    Returns:
        Whether compiling may be tried again: there may be nothing left, if another process was there before.
    """
    global _cleared
    folder = next((Path(flag.removeprefix(_DIRECTORY)) for flag in _flags() if flag.startswith(_DIRECTORY)), None)
    if _cleared or folder is None:
        return False
    _cleared = True
    _remove(folder, -1)  # an empty file, too
    return True


def _usable(environment: Mapping[str, str]) -> Path | None:
    folder = _folder(environment)
    if folder is None:
        return None
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        about = folder.stat()
        writable = os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > _NEEDED
    except OSError:
        return None
    is_private = about.st_uid == os.getuid() and not about.st_mode & 0o022
    return folder if writable and is_private and " " not in str(folder) else None  # TensorFlow parts flags at spaces


def _folder(environment: Mapping[str, str]) -> Path | None:
    given = environment.get(VARIABLE, "")
    if given == "off":
        return None
    caches = environment.get("XDG_CACHE_HOME", "")
    home = given or os.path.join(caches if os.path.isabs(caches) else os.path.expanduser("~/.cache"), "note-rl", "xla")
    try:
        version, cpu = metadata.version("tensorflow"), Path("/proc/cpuinfo").read_text()
    except (metadata.PackageNotFoundError, OSError):
        return None
    kind = sorted({line for line in cpu.splitlines() if line.startswith(("model name", "flags", "Features"))})
    flags = [environment.get(name, "") for name in (_FLAGS, "XLA_FLAGS")]
    name = f"{version}-{hashlib.sha256(''.join([*kind, *filter(None, flags)]).encode()).hexdigest()[:12]}"
    return Path(home, name) if os.path.isabs(home) else None


def _flags() -> list[str]:
    return os.environ.get(_FLAGS, "").split()


def _remove(folder: Path, most_bytes: int) -> None:
    """Removes the oldest of our programs, half-written ones among them, until no more than so many bytes are left."""
    found = []
    for path in folder.glob(f"{_PREFIX}__*"):
        with contextlib.suppress(OSError):  # another process has removed it
            about = path.stat()
            found.append((about.st_mtime, about.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= most_bytes:
            break
        path.unlink(missing_ok=True)
        total -= size
