"""How a crash is shown: the frames of the code that made it, without those of the libraries in between."""

import os
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import note_rl
from note_rl.errors import WorkerError
from tuner.errors import UserError
from tuner.support.plain_text import MAX_TRACEBACK, describe_error, plain, traceback_of

_OURS = (str(Path(__file__).parents[1]), str(Path(note_rl.__file__ or "").parent))
_STANDARD_LIBRARY = str(Path(traceback.__file__).parent)


@dataclass(frozen=True)
class _Culprit:
    """Whose error it is, in words, and the first of the frames to be shown."""

    words: str
    first: int


def describe_crash(error: BaseException) -> str:
    """The traceback of an exception that nobody foresaw, and a sentence that says whose it is.

    Code of the user's (an environment, a network, a wrapper) is shown alone, and so is an installed environment or
    wrapper that fails by itself. If there is none in the traceback, it is shown whole.
    """
    if isinstance(error, WorkerError) and (of_worker := _users_part(error)) is not None:
        return of_worker
    if isinstance(error, SyntaxError) and error.filename is not None and _is_users(error.filename):
        place = f"your own code, {Path(error.filename).name} line {error.lineno}"
        return f"The error comes from {place}:\n{plain(_last_lines(error), MAX_TRACEBACK)}"
    frames = list(traceback.walk_tb(error.__traceback__))
    files = [frame.f_code.co_filename for frame, _ in frames]
    own = [index for index, file in enumerate(files) if _is_users(file)]
    culprit = _installed_part(error.__traceback__, after=own[-1] if own else -1)
    lacking = _lacks_something(error)
    if culprit is not None and lacking is not None:  # a wrapper has only looked for it
        culprit = _Culprit(lacking, culprit.first)
    if culprit is None and own:
        last = frames[own[-1]]
        culprit = _Culprit(f"your own code, {Path(files[own[-1]]).name} line {last[1]}", own[0])
    if culprit is None:
        whole = plain(traceback_of(error), MAX_TRACEBACK)
        return f"{whole}\nNobody foresaw this. If it is not due to what was asked for, please report these lines.\n"
    shown = traceback.extract_tb(error.__traceback__)[culprit.first :]
    lines = "".join(traceback.format_list(shown)) + _last_lines(error)
    return f"The error comes from {culprit.words}:\n{plain(lines, MAX_TRACEBACK)}"


def _users_part(error: WorkerError) -> str | None:
    """An error of the user's code in a worker process, as it is shown; None: it was not raised by such code."""
    own = [index for index, frame in enumerate(error.frames) if _is_users(frame.filename)]
    if not own:
        return None
    last = error.frames[own[-1]]
    lines = "".join(traceback.format_list(list(error.frames[own[0] :])))
    said = str(error).partition("\n")[0]
    place = f"your own code, {Path(last.filename).name} line {last.lineno}"
    return f"The error comes from {place}:\n{plain(lines + said, MAX_TRACEBACK)}\n"


def exit_of_the_user(error: SystemExit) -> UserError:
    """The error for a job whose environment, agent or function calls `sys.exit`."""
    walked = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    file, line = next((place for place in reversed(walked) if _is_users(place[0])), walked[-1])
    return UserError(
        f"{file}:{line} ends the program by sys.exit({error.code!r}): raise an error that says what is wrong"
    )


def _lacks_something(error: BaseException) -> str | None:
    """In words, the environment of the user's in which an attribute is missing; None: it is another error."""
    import gymnasium

    lacking = error.obj if isinstance(error, AttributeError) else None
    if not isinstance(lacking, gymnasium.Env) or isinstance(lacking, gymnasium.Wrapper):
        return None
    module = sys.modules.get(type(lacking).__module__)
    if not _is_users(getattr(module, "__file__", None) or "<"):
        return None
    return f"your own code, the environment {type(lacking).__qualname__}"


def _last_lines(error: BaseException) -> str:
    try:
        return "".join(traceback.format_exception_only(error))
    except BaseException:  # noqa: BLE001 - it calls code of the exception's own
        return f"{describe_error(error)}\n"


def _installed_part(trace: TracebackType | None, after: int) -> _Culprit | None:
    """The innermost wrapper or environment that failed, if it is an installed one and calls no code of the user's.

    Args:
        trace: Of the error.
        after: Frames up to this one are the user's business.
    """
    import gymnasium  # not before there is a crash: --help can do without

    from note_rl.environments import EnvFactory

    found: _Culprit | None = None
    for index, (frame, _) in enumerate(traceback.walk_tb(trace)):
        maker = frame.f_locals.get("self")
        if isinstance(maker, EnvFactory) and "wrapper" in frame.f_locals:  # at the call that wraps
            found = _Culprit(_named(frame.f_locals["wrapper"], "wrapper"), index)
        elif isinstance(maker, gymnasium.Env) and not _is_ours(type(maker)):
            kind = "wrapper" if isinstance(maker, gymnasium.Wrapper) else "environment"
            found = _Culprit(_named(type(maker), kind), index)
        else:
            continue
        if index <= after:
            found = None
    return found


def _named(made_by: Any, kind: str) -> str:
    """`the wrapper gymnasium.wrappers.common.TimeLimit`."""
    target = getattr(made_by, "func", made_by)  # of a partial
    return f"the {kind} {target.__module__}.{target.__qualname__}"


def _is_ours(kind: type) -> bool:
    return kind.__module__.partition(".")[0] in ("note_rl", "tuner")


def _is_users(filename: str) -> bool:
    """Whether a file belongs to neither `tuner`, nor `note_rl`, nor anything installed, nor the interpreter."""
    if filename.startswith(("<", *_OURS, _STANDARD_LIBRARY)) or "site-packages" in filename:
        return False
    return os.path.exists(filename)  # compiled modules name the file that they were compiled from, elsewhere
