"""How a crash is shown: the user's own frames, without those of the libraries in between."""

import traceback
from pathlib import Path

import note_rl
from tuner.plain_text import MAX_TRACEBACK, describe_error, plain, traceback_of

_OURS = (str(Path(__file__).parent), str(Path(note_rl.__file__ or "").parent))
_STANDARD_LIBRARY = str(Path(traceback.__file__).parent)


def describe_crash(error: BaseException) -> str:
    """The traceback of an exception that nobody foresaw, and a sentence that says whose it is.

    Code of the user's (an environment, a network, a wrapper) is shown alone. If there is none in the traceback, it is
    shown whole.
    """
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_users(frame.filename)]
    if not own:
        whole = plain(traceback_of(error), MAX_TRACEBACK)
        return f"{whole}\nNobody foresaw this. If it is not due to what was asked for, please report these lines.\n"
    shown = frames[next(index for index, frame in enumerate(frames) if _is_users(frame.filename)) :]
    lines = "".join(traceback.format_list(shown)) + _last_lines(error)
    last = own[-1]
    where = f"{Path(last.filename).name} line {last.lineno}"
    return f"The error comes from your own code, {where}:\n{plain(lines, MAX_TRACEBACK)}"


def _last_lines(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception_only(error))
    except BaseException:  # noqa: BLE001 - it calls code of the exception's own
        return f"{describe_error(error)}\n"


def _is_users(filename: str) -> bool:
    """Whether a file belongs to neither `tuner`, nor `note_rl`, nor anything installed, nor the interpreter."""
    return not filename.startswith(("<", *_OURS, _STANDARD_LIBRARY)) and "site-packages" not in filename
