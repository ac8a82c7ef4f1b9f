"""Override lines and damaged files by the thousand: `python -m tests.benchmarks.fuzz_input LINES FILES [SEED] [RUNS]
[PAIRS]`, where PAIRS is the share of lines with two changes (0.2).

Every line is composed, checked and, if it is accepted, everything is built from it and a few trials are asked for; RUNS
of the accepted training lines are trained for a moment, too. Every damaged file is given to a command that reads it.
Prints figures and each failure; the exit status is 1 if there is one. 10,000 lines and 500 files take about half an
hour of processor time. Memory is limited, so that a value that asks for all of it is found out.
"""

import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from tests.fuzzing.answers import answer_to, check_and_use, names_the_key
from tests.fuzzing.composing import remembering_files
from tests.fuzzing.damage import some_cases, try_case
from tests.fuzzing.lines import Line, core_lines, some_lines
from tests.fuzzing.world import make_world
from tuner.cli import main as tuner

_MEMORY_BYTES = 8 << 30
_PATIENCE_S = 30
_SHORT = {
    "training.total_steps": "100",
    "evaluation.num_points": "2",
    "evaluation.num_episodes": "1",
    "buffer.learning_starts": "40",
    "hydra.run.dir": "tried",
}


def main(num_lines: int, num_files: int, seed: int = 0, num_runs: int = 100, pairs: float = 0.2) -> int:
    """Does it in a folder of its own."""
    os.environ.update(OMP_NUM_THREADS="1", WANDB_MODE="disabled")
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    with tempfile.TemporaryDirectory() as folder:
        world, workplace = Path(folder) / "world", Path(folder) / "workplace"
        for path in (world, workplace):
            path.mkdir()
        os.chdir(world)
        with redirect_stdout(StringIO()):
            make_world(world)
        failures = _fuzz_lines(num_lines, seed, num_runs, pairs)
        os.chdir(workplace)
        failures += _fuzz_files(num_files, seed, world, workplace)
        os.chdir("/")
    return int(failures > 0)


def _fuzz_lines(count: int, seed: int, num_runs: int, pairs: float) -> int:
    began, kinds, failures = time.process_time(), Counter[str](), 0
    with remembering_files():
        first = core_lines() if pairs < 1.0 else []
        lines = list(dict.fromkeys([*first, *some_lines(seed, count, pairs)]))[:count]
        accepted = []
        for line in lines:
            answer = check_and_use(line)
            kinds[answer.kind] += 1
            if answer.kind == "accepted" and line.command == "train":
                accepted.append(line)
            if not (answer.good and names_the_key(answer, line)):
                failures += 1
                _show(str(line), answer.text)
    _say(f"{len(lines)} lines: {dict(kinds)}, {failures} failures, {time.process_time() - began:.0f} s of processor")
    return failures + _train_some(accepted, num_runs, seed)


def _train_some(accepted: list[Line], count: int, seed: int) -> int:
    """Trains what was accepted, for a moment. Only what falls over fails; what takes its time may do so."""
    chosen = random.Random(seed).sample(accepted, min(count, len(accepted)))
    kinds, failures = Counter[str](), 0
    for line in chosen:
        shutil.rmtree("tried", ignore_errors=True)
        shortened = [f"{key}={value}" for key, value in _SHORT.items() if not _speaks_of(line, key)]
        answer = answer_to(lambda arguments=(*shortened, *line.overrides): _run(arguments))
        kinds[answer.kind] += 1
        if answer.kind == "fell":
            failures += 1
            _show(f"trained: {line}", answer.text)
    _say(f"{len(chosen)} accepted lines trained: {dict(kinds)}, {failures} failures")
    return failures


def _speaks_of(line: Line, key: str) -> bool:
    part = key.partition(".")[0]
    if part == "buffer" and "agent=synthetic" in line.overrides:
        return True
    on_policy = "agent=ppo" in line.overrides and part == "buffer"
    return on_policy or any(one.lstrip("+~").startswith((key, f"{part}=")) for one in line.overrides)


def _run(arguments: tuple[str, ...]) -> None:
    out = StringIO()
    with _limited(_PATIENCE_S), redirect_stdout(out), redirect_stderr(out):
        status = tuner(("train", "tracker=jsonl", *arguments))
    if status == 1 or "Traceback" in out.getvalue():
        raise AssertionError(out.getvalue())


class _limited:  # noqa: N801 - reads as a verb
    """Presses Ctrl-C after the given number of seconds."""

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        signal.signal(signal.SIGALRM, lambda number, frame: os.kill(os.getpid(), signal.SIGINT))
        signal.alarm(self._seconds)

    def __exit__(self, *error: object) -> None:
        signal.alarm(0)


def _fuzz_files(count: int, seed: int, world: Path, workplace: Path) -> int:
    began, statuses, failures = time.process_time(), Counter[str](), 0
    for case in some_cases(seed, count):
        outcome = try_case(case, world, workplace)
        statuses["went on" if outcome.status == 0 else "refused" if outcome.status == 2 else "fell"] += 1
        if outcome.complaints:
            failures += 1
            _show(f"{case}: {', '.join(outcome.complaints)}", outcome.said)
    _say(f"{count} files: {dict(statuses)}, {failures} failures, {time.process_time() - began:.0f} s of processor")
    return failures


def _show(what: str, text: str) -> None:
    _say(f"FAILED {what}")
    _say("".join(f"    {line}\n" for line in text.strip().splitlines()[-12:]))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    numbers = list(map(float, sys.argv[1:]))
    sys.exit(main(*map(int, numbers[:4]), *numbers[4:]))
