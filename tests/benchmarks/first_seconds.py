# ruff: noqa: T201
"""Seconds until a command answers: its first word, a refusal, the first trial of a study.

Run it as `python tests/benchmarks/first_seconds.py [ROUNDS]` (5). The first word and the first trial are timed by the
clock, so nothing else should run; the first word in a terminal of its own. Refusals and help are measured in seconds
of the processor. Each line is the median over the rounds, with the range.
"""

import os
import pty
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

ANSWERED = {
    "help": ["--help"],
    "help of a command": ["tune", "--help"],
    "a choice that is not there": ["train", "agent=ppoo"],
    "a setting that is not there": ["train", "agent.gama=0.9"],
    "a value out of range": ["train", "agent.gamma=2"],
    "an environment that is not there": ["train", "env.id=CartPoole-v1"],
    "an agent that does not fit the environment": ["train", "agent=sac", "env=cartpole"],
    "a range out of range": ["tune", "space.agent.gamma.high=2"],
}
STUDY = ("training.total_steps=100000", "study.num_trials=2", "storage=journal")
_PATIENCE_S = 120.0


def main(rounds: int) -> None:
    """Measures and prints."""
    print_line("first word of tuner tune, s", first_word, rounds)
    for name, words in ANSWERED.items():
        print_line(f"{name} ({' '.join(words)}), CPU s", lambda words=words: answered(words), rounds)  # type: ignore[misc]
    for backend in ("torch", "keras"):
        print_line(f"first trial of tuner tune, {backend}, s", lambda b=backend: first_trial(b), rounds)  # type: ignore[misc]


def print_line(name: str, measure: Callable[[], float], rounds: int) -> None:
    """One that is measured some times; the first time, which reads files from the disk, is left out."""
    measure()
    found = [measure() for _ in range(rounds)]
    print(f"{name}: {statistics.median(found):.2f} [{min(found):.2f}, {max(found):.2f}]", flush=True)


def first_word() -> float:
    """Seconds from the start of a command to the first byte in its terminal."""
    began = time.monotonic()
    process, terminal = pty.fork()
    if process == 0:
        os.execv(sys.executable, [sys.executable, "-m", "tuner", "tune", "plan=true"])
    os.read(terminal, 1)
    seconds = time.monotonic() - began
    with suppress(OSError):  # the end of a terminal is an error
        while os.read(terminal, 4096):
            pass
    os.waitpid(process, 0)
    return seconds


def answered(words: Sequence[str]) -> float:
    """Seconds of the processor that an answer takes, its processes included."""
    before = _of_children()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "tuner", *words], cwd=folder, capture_output=True, check=False)
    return _of_children() - before


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def first_trial(backend: str) -> float:
    """Seconds from the start of a study's command until its first trial runs; the study is ended then."""
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        words = [sys.executable, "-m", "tuner", "tune", f"backend={backend}", *STUDY]
        process = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not any(Path(folder, "studies").glob("*/screen/0/pid")):
                if process.poll() is not None or time.monotonic() - began > _PATIENCE_S:
                    raise SystemExit(f"{' '.join(words)} began no trial")
                time.sleep(0.005)
            return time.monotonic() - began
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2] or ["5"]))
