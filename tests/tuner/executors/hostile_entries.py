"""Trials that are broken, or wish the controller ill. Framework-free; imported in the child."""

import json
import os
import socket
import stat
import sys
import time

from tuner.trial import TrialContext

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202ereversed\ud800"


class Silent(Exception):  # noqa: N818 - says nothing
    def __str__(self) -> str:
        raise RuntimeError("I do not say")


class HugeRepr:
    def __repr__(self) -> str:
        return "x" * 5_000_000


def raise_megabytes(context: TrialContext) -> None:
    raise ValueError("HEAD" + "x" * 5_000_000 + "TAIL")


def raise_giant_repr(context: TrialContext) -> None:
    raise KeyError(HugeRepr())


def raise_surrogate(context: TrialContext) -> None:
    raise ValueError("half a character: \ud800")


def raise_escapes(context: TrialContext) -> None:
    raise ValueError(f"before{ESCAPES}after")


def raise_silent(context: TrialContext) -> None:
    raise Silent


def raise_named_badly(context: TrialContext) -> None:
    raise type("Bad\x1b[2J", (Exception,), {})("words")


def raise_recursion(context: TrialContext) -> None:
    raise_recursion(context)


def raise_group(context: TrialContext) -> None:
    raise ExceptionGroup("many\x1b[2J", [ValueError("x" * 100_000) for _ in range(20)])


def raise_broken_syntax_error(context: TrialContext) -> None:
    error = SyntaxError("broken")
    error.filename, error.lineno, error.text, error.offset = 3, "a", 4, "b"  # type: ignore[assignment]
    raise error


def raise_a_long_chain(context: TrialContext) -> None:
    error: Exception | None = None
    for number in range(3000):
        try:
            raise ValueError(f"link {number}") from error
        except ValueError as caught:
            error = caught
    assert error is not None
    raise error


def log_strange_names(context: TrialContext) -> None:
    context.log(1, {f"loss{ESCAPES}": 1.0, "n" * 100_000: 2.0, "fine/name": 3.0})
    context.report(1.0, 1.0)


def _control(context: TrialContext) -> socket.socket:
    return context._line._socket  # type: ignore[attr-defined]


LINES = {
    "not_utf8": b'{"kind": "alive", "progress": "\xff\xfe"}\n',
    "not_json": b"\x00\x01\x02\n",
    "a_list": b"[1, 2]\n",
    "kind_is_a_list": b'{"kind": [1]}\n',
    "unknown_kind": b'{"kind": "\\u001b[2Jtakeover"}\n',
    "nested": b"[" * 100_000 + b"\n",
    "nan_report": b'{"kind": "report", "step": 0.5, "value": NaN}\n',
    "infinite_step": b'{"kind": "report", "step": Infinity, "value": 1.0}\n',
    "text_for_a_value": b'{"kind": "report", "step": 0.5, "value": "high"}\n',
    "null_for_a_value": b'{"kind": "report", "step": 0.5, "value": null}\n',
    "digits": b'{"kind": "report", "step": 0.5, "value": 1' + b"0" * 4000 + b"}\n",
    "true_for_a_value": b'{"kind": "report", "step": 0.5, "value": true}\n',
    "giant_step": b'{"kind": "report", "step": 1e300, "value": 1.0}\n',
    "log_of_text": b'{"kind": "log", "step": 1, "metrics": {"loss": "low"}}\n',
    "log_of_nothing": b'{"kind": "log", "step": 1, "metrics": null}\n',
    "log_of_a_list": b'{"kind": "log", "step": 1, "metrics": [1]}\n',
    "log_step": b'{"kind": "log", "step": 1' + b"0" * 400 + b', "metrics": {}}\n',
    "built_of_a_list": b'{"kind": "built", "seconds": 0.1, "config": [1]}\n',
    "built_of_text": b'{"kind": "built", "seconds": "soon", "config": {}}\n',
    "progress_of_text": b'{"kind": "alive", "progress": "half"}\n',
    "pid_of_text": b'{"kind": "started", "pid": "x"}\n',
    "pid_of_all": b'{"kind": "started", "pid": -1}\n',
    "refused_of_numbers": b'{"kind": "refused", "reason": 5}\n',
    "two_reports": b'{"kind": "report", "step": 0.25, "value": 1.0}\n{"kind": "report", "step": 0.5, "value": 1.0}\n',
    "endless": b"x" * 20_000_000,
}
"""Messages that no trial of ours sends, by name."""


def send_raw(context: TrialContext) -> None:
    """Sends one of `LINES`, then waits to be ended."""
    try:
        _control(context).sendall(LINES[context.spec.config["line"]])
    except OSError:
        return  # the controller hung up: it has heard enough
    time.sleep(60)


RESULTS = {
    "not_json": b"\xff\xfe",
    "nested": b"[" * 100_000,
    "numbers": json.dumps({"outcome": "complete", "reason": 5, "traceback": [], "seconds": "x"}).encode(),
    "seconds_of_nothing": json.dumps({"outcome": "complete", "seconds": None}).encode(),
    "nan_seconds": b'{"outcome": "complete", "seconds": NaN}',
    "unknown": json.dumps({"outcome": "won"}).encode(),
}
"""Results that no trial of ours leaves behind, by name."""


def leave_a_result(context: TrialContext) -> None:
    """Leaves one of `RESULTS` and goes without a word."""
    (context.folder / "result.json").write_bytes(RESULTS[context.spec.config["result"]])
    os._exit(0)


def leave_a_huge_result(context: TrialContext) -> None:
    """Leaves megabytes with escapes, as a result of the right form."""
    text = "HEAD" + ESCAPES + "x" * 5_000_000
    content = {"outcome": "crashed", "reason": text, "traceback": text, "seconds": 1.0, "deterministic": True}
    (context.folder / "result.json").write_text(json.dumps(content))
    os._exit(0)


def leave_pipes(context: TrialContext) -> None:
    """Puts a pipe, which nobody writes to, in the place of every file that the controller may read."""
    for name in ("result.json", "reports.jsonl", "output.log", "objective.json", "pid", "trial.json", "lock"):
        (context.folder / name).unlink(missing_ok=True)
        os.mkfifo(context.folder / name)
        assert stat.S_ISFIFO((context.folder / name).stat().st_mode)
    os._exit(0)


def flood_output(context: TrialContext) -> None:
    sys.stdout.write(ESCAPES * 100_000)
    sys.stdout.flush()
    os._exit(3)
