"""A program in the place of an agent: what it writes becomes reports, and how it ends is its outcome."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import tuner as api
from tests.tuner.runs.reporters import Reporter
from tuner.errors import UserError
from tuner.runs.command.external import Script, ScriptError, _failure
from tuner.runs.functions import run_function
from tuner.trial import system
from tuner.trial.launch import SILENCE_VARIABLE
from tuner.trial.messages import Outcome, TrialInterrupted

SCRIPT = """
import json, os, sys, time
kind, steps = sys.argv[1], int(sys.argv[2])
out = open("log.jsonl", "a")
def log(step, value, **more):
    print(json.dumps({"step": step, "ret": value, **more}), file=out, flush=True)
"""


def config(tmp_path: Path, body: str, kind: str = "x", **settings: Any) -> dict[str, Any]:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + body)
    agent = {
        "_target_": "tuner.runs.command.Script",
        "command": f"{sys.executable} {script} {kind} {{steps}} {{seed}}",
        "read": "jsonl",
        "metric": "ret",
        "step": "step",
        "steps": 100,
        "points": 4,
        **settings,
    }
    return {"agent": agent, "seed": 3, "training": {"total_steps": 100}}


def run(tmp_path: Path, body: str, reporter: Reporter | None = None, **settings: Any) -> Reporter:
    reporter = reporter or Reporter()
    folder = tmp_path / "run"
    folder.mkdir(exist_ok=True)
    run_function(config(tmp_path, body, **settings), folder, reporter)
    return reporter


def test_what_it_writes_is_reported_on_the_grid_and_it_runs_in_a_folder_of_its_own(tmp_path: Path) -> None:
    found = run(tmp_path, "for step in range(10, 101, 10): log(step, step * 2, seed=int(sys.argv[3]))")
    assert found.reported == [(0.25, 30.0), (0.5, 80.0), (0.75, 130.0), (1.0, 180.0)]
    rows = (tmp_path / "run" / "script" / "log.jsonl").read_text().splitlines()
    assert json.loads(rows[0]) == {"step": 10, "ret": 20, "seed": 3}


def test_its_environment_names_the_folder_of_tuner_also_when_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    body = "print(os.environ['TUNER_HERE'], *sys.argv[4:], file=open('here.txt', 'a')); log(steps, 1)"
    for _ in range(2):
        run(tmp_path, body, resume_flag="--on")
    assert (tmp_path / "run" / "script" / "here.txt").read_text() == f"{tmp_path}\n{tmp_path} --on\n"


def test_output_is_read_by_a_pattern(tmp_path: Path) -> None:
    pattern = r"at (?P<step>\d+): (?P<value>\S+)"
    found = run(
        tmp_path,
        "for step in (50, 100): print(f'at {step}: {step / 10}')",
        **{"read": "output", "metric": "", "step": None, "pattern": pattern},
    )
    assert found.reported == [(0.25, 5.0), (0.5, 5.0), (0.75, 10.0), (1.0, 10.0)]


def test_one_that_ends_early_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    reporter = Reporter()
    monkeypatch.setattr(reporter, "ends", lambda reason, used: said.append((reason, used)))
    found = run(tmp_path, "log(25, 1); log(40, 7)", reporter)
    assert found.reported == [(0.25, 1.0), (0.5, 7.0), (0.75, 7.0), (1.0, 7.0)]
    assert said == [("the command ended at step 40 of 100: its last score counts for the rest", 0.4)]


@pytest.mark.parametrize(
    ("body", "settings", "message"),
    [
        (
            "",
            {"files": "m.jsonl"},
            r"status 0, but agent.metric=ret never appeared: .* written no file m.jsonl .*printed n",
        ),
        ("", {}, r"1 file \*.jsonl with nothing in it; it printed nothing"),
        ("print(json.dumps({'retrn': 1}), file=out)", {}, r"1 file \*.jsonl with retrn; did you mean retrn\?"),
        ("print(json.dumps({'ret': 1}), file=out)", {}, "its rows have no step beside it"),
        (
            "print('hello')",
            {"read": "output", "metric": "", "step": None, "pattern": r"(?P<step>\d+) (?P<value>\d+)"},
            "never appeared: no line of script-output.log matches",
        ),
        ("log(1, 'high')", {}, 'never appeared: it is there, but holds no number: "high"'),
        ("log(1, None)", {}, "it is there, but holds no number: null"),
        ("log('early', 1.0)", {}, 'the step beside it is no number: "early"'),
        (
            "print('1 n/a')",
            {"read": "output", "metric": "", "step": None, "pattern": r"(?P<step>\d+) (?P<value>\S+)"},
            'lines of script-output.log match, but the group value holds no number: "n/a"',
        ),
    ],
)
def test_one_that_gives_no_score_is_refused_with_what_it_gave(
    tmp_path: Path, body: str, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        run(tmp_path, body, **settings)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        (
            "log(10, 1); raise ValueError('no such layer')",
            ScriptError,
            "exit status 1; its last line: ValueError: no such layer\n  before it:",
        ),
        ("sys.exit(7)", ScriptError, "ended with exit status 7; it printed nothing"),
        ("print('bye'); sys.exit(7)", ScriptError, "exit status 7; its last line: bye"),
        ("os.kill(os.getpid(), 9)", ScriptError, "was killed by SIGKILL, which the kernel does when memory runs out"),
        ("os.kill(os.getpid(), 11)", ScriptError, "was ended by SIGSEGV"),
        ("raise MemoryError", MemoryError, "MemoryError"),
    ],
)
def test_one_that_fails_is_reported_with_its_status_and_last_lines(
    tmp_path: Path, body: str, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=f"(?s){message}"):
        run(tmp_path, body)


def test_a_metric_that_never_appears_ends_it_before_the_controller_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SILENCE_VARIABLE, "0.3")
    began = time.monotonic()
    with pytest.raises(UserError, match=r"did not appear within executor.limits.silence_s=0.3 s: 1 file .* with other"):
        run(tmp_path, "print(json.dumps({'other': 1}), file=out, flush=True)\ntime.sleep(60)")
    assert time.monotonic() - began < 10.0


TREE = """
import subprocess
children = [
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"], start_new_session=alone)
    for alone in (False, True)
]
open("pids", "w").write(" ".join(str(one.pid) for one in children) + f" {os.getpid()}")
log(50, 1)
"""


def assert_gone(tmp_path: Path) -> None:
    pids = [int(pid) for pid in (tmp_path / "run" / "script" / "pids").read_text().split()]
    assert len(pids) == 3
    deadline = time.monotonic() + 5.0
    while alive := [pid for pid in pids if system.start_time(pid) is not None and not is_zombie(pid)]:
        assert time.monotonic() < deadline, alive
        time.sleep(0.02)


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_run_that_is_ended_ends_all_that_the_program_has_started(tmp_path: Path) -> None:
    with pytest.raises(TrialInterrupted):
        run(tmp_path, TREE + "time.sleep(100)", Reporter(stop_at=0.4))
    assert_gone(tmp_path)


def test_nothing_that_it_has_left_in_its_group_outlives_it(tmp_path: Path) -> None:
    run(tmp_path, TREE.replace("(False, True)", "(False, False)"))
    assert_gone(tmp_path)


GOES_ON = """
begin = int(open(sys.argv[-1]).read()) if "--resume" in sys.argv else 0
for step in range(begin + 25, steps + 1, 25):
    log(step, step + (1000 if begin else 0))
    open("model.ckpt", "w").write(str(step))
    if step == 50 and not begin:
        sys.exit(1)
"""


def test_a_resume_flag_lets_it_go_on(tmp_path: Path) -> None:
    reporter = Reporter()
    more = {"resume_flag": "--resume {checkpoint}", "checkpoint": "*.ckpt"}
    with pytest.raises(ScriptError):
        run(tmp_path, GOES_ON, reporter, **more)
    assert reporter.reported == [(0.25, 25.0), (0.5, 50.0)]
    run(tmp_path, GOES_ON, reporter, **more)
    assert reporter.reported == [(0.25, 25.0), (0.5, 50.0), (0.75, 1075.0), (1.0, 1100.0)]


HANGS = """
if "--resume" in sys.argv:
    open(sys.argv[0] + ".hung", "a").write("x")
    time.sleep(60)
for step in range(25, steps + 1, 25):
    log(step, step)
    open("model.ckpt", "w").write("torn")
    if step == 75 and not os.path.exists(sys.argv[0] + ".hung"):
        sys.exit(1)
"""


def test_one_that_hangs_where_it_goes_on_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its checkpoint is tried once; the points that were reported keep their scores."""
    more = {"resume_flag": "--resume {checkpoint}", "checkpoint": "*.ckpt"}
    reporter = Reporter()
    with pytest.raises(ScriptError):
        run(tmp_path, HANGS, reporter, **more)
    monkeypatch.setenv(SILENCE_VARIABLE, "2.0")
    notes: list[str] = []
    monkeypatch.setattr(reporter, "note", notes.append)
    began = time.monotonic()
    run(tmp_path, HANGS, reporter, **more)
    assert 1.8 < time.monotonic() - began < 20.0
    assert reporter.reported == [(0.25, 25.0), (0.5, 50.0), (0.75, 75.0), (1.0, 100.0)]
    assert (tmp_path / "script.py.hung").read_text() == "x"
    assert len([note for note in notes if "gave no value within executor.limits.silence_s=2 s" in note]) == 1


def test_what_lies_in_a_folder_from_elsewhere_is_not_gone_on_with(tmp_path: Path) -> None:
    """A program that goes on reads it, and `python -m` takes a module from there before any other."""
    reporter = Reporter()
    more = {"resume_flag": "--resume {checkpoint}", "checkpoint": "*.ckpt"}
    with pytest.raises(ScriptError):
        run(tmp_path, GOES_ON, reporter, **more)
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / "run").rename(other / "run")
    with pytest.raises(UserError, match=r"other/run/script was not made by a run in this place"):
        run(other, GOES_ON, Reporter(), **more)
    (other / "run").rename(tmp_path / "run")
    run(tmp_path, GOES_ON, reporter, **more)
    assert max(reporter.reported) == (1.0, 1100.0)


def test_without_one_it_begins_anew_in_an_empty_folder(tmp_path: Path) -> None:
    reporter = Reporter()
    with pytest.raises(ScriptError):
        run(tmp_path, GOES_ON, reporter)
    (tmp_path / "run" / "script" / "old").touch()
    with pytest.raises(ScriptError):
        run(tmp_path, GOES_ON, reporter)
    assert not (tmp_path / "run" / "script" / "old").exists()
    assert len((tmp_path / "run" / "script" / "log.jsonl").read_text().splitlines()) == 2


CHECKPOINTS = {"resume_flag": "--resume {checkpoint}", "checkpoint": "*.ckpt"}
KILLED = TrialInterrupted(Outcome.STOPPED, "killed")


class Killed(Reporter):
    """The controller's process and this one are killed while a point is reported: nobody has it."""

    def __init__(self, at: float) -> None:
        super().__init__()
        self.at = at

    def report(self, step: float, value: float, seconds: float | None = None) -> None:
        if step == self.at:
            raise KILLED
        super().report(step, value, seconds)

    def next_attempt(self) -> "Killed":
        """With what was reported."""
        self.at = 2.0
        return self


@pytest.mark.parametrize("read", ["jsonl", "output"])
def test_what_was_written_behind_the_last_report_is_taken_up(tmp_path: Path, read: str) -> None:
    """Its checkpoint is behind that, so that the program does not give these values again."""
    body = """
begin = int(open(sys.argv[-1]).read()) if "--resume" in sys.argv else 0
for step in range(begin + 10, steps + 1, 10):
    log(step, step)
    print(f"at {step}: {step}", flush=True)
    open("model.ckpt", "w").write(str(step))
    if step == 70 and not begin:
        time.sleep(0.3)
        os.kill(os.getpid(), 15)
"""
    settings: dict[str, Any] = dict(CHECKPOINTS)
    if read == "output":
        settings |= {"read": read, "metric": "", "step": None, "pattern": r"at (?P<step>\d+): (?P<value>\S+)"}
    reporter = Killed(at=0.5)
    with pytest.raises((TrialInterrupted, ScriptError)):
        run(tmp_path, body, reporter, **settings)
    assert reporter.reported == [(0.25, 15.0)]
    (tmp_path / "run" / "script" / "model.ckpt").write_text("70")  # the program had got there before it was killed
    lines = "".join(f'{{"step": {step}, "ret": {step}}}\n' for step in range(10, 71, 10))
    (tmp_path / "run" / "script" / "log.jsonl").write_text(lines + '{"step": 75, "r')
    printed = "".join(f"at {step}: {step}\n" for step in range(10, 71, 10))
    (tmp_path / "run" / "script-output.log").write_text(printed + "at 75: 7")
    run(tmp_path, body, reporter.next_attempt(), **settings)
    assert reporter.reported == [(0.25, 15.0), (0.5, 40.0), (0.75, 65.0), (1.0, 90.0)]


def test_one_that_had_finished_before_the_kill_keeps_its_points(tmp_path: Path) -> None:
    body = """
if "--resume" not in sys.argv:
    open("model.ckpt", "w").write("x")
    out.write("".join(json.dumps({"step": step, "ret": step}) + "\\n" for step in range(10, steps, 10)))
"""
    reporter = Killed(at=0.5)
    with pytest.raises(TrialInterrupted):
        run(tmp_path, body, reporter, **CHECKPOINTS)
    run(tmp_path, body, reporter.next_attempt(), **CHECKPOINTS)
    assert reporter.reported == [(0.25, 15.0), (0.5, 40.0), (0.75, 65.0), (1.0, 85.0)]


def test_a_run_whose_points_are_all_reported_starts_nothing(tmp_path: Path) -> None:
    reporter = Reporter()
    reporter.reported = [(0.25, 1.0), (0.5, 2.0), (0.75, 3.0), (1.0, 4.0)]
    run(tmp_path, "open('begun', 'w')", reporter)
    assert not (tmp_path / "run" / "script").exists()


def test_points_of_an_attempt_that_begins_anew_do_not_count(tmp_path: Path) -> None:
    """It has no checkpoint, so that its folder is emptied; the log of what it prints is kept, and is not read again."""
    pattern = r"at (?P<step>\d+): (?P<value>\S+)"
    body = """
first = not os.path.exists(sys.argv[0] + ".begun")
open(sys.argv[0] + ".begun", "w")
for step in (10, 20) if first else (30, 100):
    print(f"at {step}: {1000 if first else step}", flush=True)
sys.exit(first)
"""
    settings = {**CHECKPOINTS, "read": "output", "metric": "", "step": None, "pattern": pattern}
    reporter = Reporter()
    with pytest.raises(ScriptError):
        run(tmp_path, body, reporter, **settings)
    run(tmp_path, body, reporter, **settings)
    assert reporter.reported == [(0.25, 30.0), (0.5, 30.0), (0.75, 100.0), (1.0, 100.0)]
    assert (tmp_path / "run" / "script-output.log").read_text().startswith("at 10: 1000\nat 20: 1000\nat 30: 30")


GOES_ON_FROM = """
import glob
number = int(sys.argv[-1].partition("ckpt-")[2] or -1) if "--resume" in sys.argv else 0
open(sys.argv[0] + ".starts", "a").write(f"{number}\\n")
if number:
    assert open(sys.argv[-1]).read() == "whole", "checkpoint is damaged"
for step in range(number + 25, steps + 1, 25):
    log(step, step)
    open(f"ckpt-{step}", "w").write("whole")
    if step == 75 and not number:
        sys.exit(1)
"""


def starts(tmp_path: Path) -> list[int]:
    return [int(line) for line in (tmp_path / "script.py.starts").read_text().split()]


@pytest.mark.parametrize(
    ("damaged", "begins"), [([], [75]), ([75], [75, 50]), ([75, 50], [75, 50, 0]), ([75, 50, 25], [75, 50, 0])]
)
def test_a_checkpoint_that_the_program_cannot_read_is_passed_over(
    tmp_path: Path, damaged: list[int], begins: list[int]
) -> None:
    reporter, settings = Reporter(), {"resume_flag": "--resume {checkpoint}", "checkpoint": "ckpt-*"}
    with pytest.raises(ScriptError):
        run(tmp_path, GOES_ON_FROM, reporter, **settings)
    for number, step in enumerate((25, 50, 75)):
        path = tmp_path / "run" / "script" / f"ckpt-{step}"
        if step in damaged:
            path.write_text("hal")
        os.utime(path, (1000 + number, 1000 + number))
    if begins[-1] == 0:  # where it fails at step 75, as before
        with pytest.raises(ScriptError):
            run(tmp_path, GOES_ON_FROM, reporter, **settings)
        assert reporter.reported == [(0.25, 25.0), (0.5, 50.0), (0.75, 75.0)]
    else:
        run(tmp_path, GOES_ON_FROM, reporter, **settings)
        assert reporter.reported == [(0.25, 25.0), (0.5, 50.0), (0.75, 75.0), (1.0, 100.0)]
    assert starts(tmp_path) == [0, *begins]


def test_checkpoints_outlast_a_program_that_does_not_start_at_all(tmp_path: Path) -> None:
    """A package is missing, or a disk: nothing is wrong with what it would go on from."""
    body = """
if os.path.exists(sys.argv[0] + ".fails"):
    sys.exit("no such package")
open("model.ckpt", "w").write("x")
log(100 if "--resume" in sys.argv else 25, 1)
sys.exit("--resume" not in sys.argv)
"""
    reporter = Reporter()
    with pytest.raises(ScriptError):
        run(tmp_path, body, reporter, **CHECKPOINTS)
    (tmp_path / "script.py.fails").touch()
    with pytest.raises(ScriptError, match="no such package"):
        run(tmp_path, body, reporter, **CHECKPOINTS)
    assert sorted(path.name for path in (tmp_path / "run").iterdir() if path.is_dir()) == ["script"]
    (tmp_path / "script.py.fails").unlink()
    run(tmp_path, body, reporter, **CHECKPOINTS)
    assert reporter.reported[-1] == (1.0, 1.0)


@pytest.mark.parametrize("number", [9, 15])
def test_one_that_is_ended_from_outside_keeps_its_checkpoint(tmp_path: Path, number: int) -> None:
    reporter = Reporter()
    with pytest.raises(ScriptError):
        run(tmp_path, GOES_ON, reporter, **CHECKPOINTS)
    with pytest.raises(ScriptError):
        run(tmp_path, f"os.kill(os.getpid(), {number})", reporter, **CHECKPOINTS)
    assert (tmp_path / "run" / "script" / "model.ckpt").read_text() == "50"


def test_a_value_that_is_no_number_does_not_end_a_run(tmp_path: Path) -> None:
    found = run(tmp_path, "log(5, float('nan')); [log(step, step) for step in range(10, 101, 10)]")
    assert found.reported == [(0.25, 15.0), (0.5, 40.0), (0.75, 65.0), (1.0, 90.0)]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"read": "csvv"}, "agent.read=csvv must be one of tensorboard, jsonl, csv, wandb, output"),
        ({"metric": ""}, "agent.metric is missing"),
        ({"step": None}, r"agent.step is missing: the name of the step axis beside ret \(agent.read=jsonl\)"),
        ({"read": "tensorboard"}, "agent.step has no meaning with agent.read=tensorboard"),
        ({"pattern": "x"}, "agent.pattern has no meaning with agent.read=jsonl: use agent.read=output"),
        ({"read": "output"}, "agent.read=output needs agent.pattern"),
        ({"files": "/tmp/x.csv"}, "agent.files=/tmp/x.csv must be within the run's own folder"),
        ({"files": "../x.csv"}, "agent.files=../x.csv must be within"),
        ({"steps": 0}, "agent.steps=0 must be 1 or more"),
        ({"window": 0}, "agent.window=0 must be 1 or more"),
        ({"resume_flag": "--from {checkpoint}"}, "agent.checkpoint says which files these are"),
        ({"checkpoint": "*.pt"}, r"agent.checkpoint is for \{checkpoint\} in agent.resume_flag"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Script(**{"command": "true", "read": "jsonl", "metric": "ret", "step": "step", **settings})


def test_outside_of_a_run_it_does_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="agent=command runs by tuner train or tuner tune only"):
        Script("touch started", "ret", "jsonl", step="step")(seed=0)
    assert list(tmp_path.iterdir()) == []


def test_a_complete_run_goes_on_with_more_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "script.py").write_text(f"{SCRIPT}for step in range(10, steps + 1, 10): log(step, step)")
    command = f"agent.command='{sys.executable} script.py x {{steps}} {{seed}}'"
    typed = ["agent=command", command, "agent.read=jsonl", "agent.metric=ret", "agent.step=step", "tracker=jsonl"]
    api.train([*typed, "training.total_steps=40", "evaluation.num_points=4"], folder=tmp_path / "run")
    outcome = api.train([f"resume={tmp_path / 'run'}", "training.total_steps=80"])
    found = [(point.num_env_steps, point.mean_return) for point in outcome.evaluations]
    assert found == [(10, 10.0), (20, 20.0), (30, 30.0), (40, 40.0), (60, 55.0), (80, 75.0)]


def test_one_that_is_resumed_without_a_value_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = """
if "--resume" in sys.argv:
    sys.exit(0)
log(25, 1)
open("a.ckpt", "w").close()
log(50, 2)
sys.exit(1)
"""
    reporter, said = Reporter(), list[str]()
    monkeypatch.setattr(reporter, "ends", lambda reason, used: said.append(reason))
    with pytest.raises(ScriptError):
        run(tmp_path, body, reporter, **CHECKPOINTS)
    run(tmp_path, body, reporter, **CHECKPOINTS)
    assert reporter.reported[-1] == (1.0, 2.0)
    (line,) = said
    assert line.startswith("the command ended at step 50 of 100 and gave no value after it was resumed: its last score")


def test_a_signal_without_a_name_is_given_by_its_number() -> None:
    assert "the command was ended by signal 35; it printed nothing" in str(_failure(-35, ""))
    assert "the command was ended by SIGSEGV" in str(_failure(-11, ""))
