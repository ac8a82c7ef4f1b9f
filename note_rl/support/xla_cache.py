"""Where XLA keeps what it has compiled, so that a run of a shape that was seen before does not compile."""

import os
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

from note_rl.support.programs import is_usable, programs_folder, remove_oldest

VARIABLE = "NOTE_RL_XLA_CACHE"
"""Names the folder, in place of the user's own for caches; "off" for none."""

_FLAGS = "TF_XLA_FLAGS"
_DIRECTORY, _PREFIX = "--tf_xla_persistent_cache_directory=", "note_rl"
_LARGEST = 2**30  # bytes; one program takes about half a megabyte
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
    remove_oldest(folder, f"{_PREFIX}__*", _LARGEST)
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
    remove_oldest(folder, f"{_PREFIX}__*", -1)  # an empty file, too
    return True


def _usable(environment: Mapping[str, str]) -> Path | None:
    flags = [environment.get(name, "") for name in (_FLAGS, "XLA_FLAGS")]
    try:
        made_for = [metadata.version("tensorflow"), *filter(None, flags)]
        folder = programs_folder(environment, VARIABLE, "xla", made_for)
    except (metadata.PackageNotFoundError, OSError):
        return None
    return folder if " " not in str(folder) and is_usable(folder) else None  # TensorFlow parts flags at spaces


def _flags() -> list[str]:
    return os.environ.get(_FLAGS, "").split()
