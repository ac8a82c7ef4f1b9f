"""hydra/sweeper=optuna for somebody else's Hydra application, in this process and as its users run it."""

import copy
import io
import json
import logging
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.singleton import Singleton

import tuner
from tests.fuzzing.composing import remembering_files

ROOT = Path(tuner.__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tuner' / 'plugins'}", "OMP_NUM_THREADS": "1"}
NUM_TRIALS = 9
SWEEP = (
    *("-m", "hydra/sweeper=optuna", "x=interval(-3,3)", "model=choice('the, good',bad)"),
    *("hydra.sweeper.direction=minimize", "hydra.sweeper.study_name=quadratic", "hydra.sweeper.sampler.seed=1"),
    *(f"hydra.sweeper.n_trials={NUM_TRIALS}", "hydra.sweeper.retries=0", "hydra.sweep.subdir=job_${hydra.job.num}"),
    *("hydra/sweeper/pruner=median", "+executor@hydra.sweeper.executor=inline"),
)


class App:
    """The application in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copy(Path(__file__).with_name("plain_app.py"), folder / "app.py")
        (folder / "helper.py").write_text("PLUS = 0.0\n")
        (folder / "data.json").write_text('{"plus": 0.0}\n')

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "app.py", *arguments]
        return subprocess.Popen(
            command, cwd=self.folder, env=ENVIRONMENT, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def alone(self, *arguments: str, status: int = 0) -> str:
        """In a process of its own."""
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=300)
        assert process.returncode == status, output
        return output

    def __call__(self, *arguments: str, status: int = 0) -> str:
        """In this process, as its main module."""
        with _main_program(self.folder, "app.py", *arguments), redirect_stdout(io.StringIO()) as output:
            ended: object = 0
            try:
                with redirect_stderr(output):
                    runpy.run_path(str(self.folder / "app.py"), run_name="__main__")
            except SystemExit as end:
                ended = end.code
        assert ended == status, output.getvalue()
        return output.getvalue()

    def study(self, name: str) -> optuna.Study:
        return optuna.load_study(study_name=name, storage=f"sqlite:///{self.folder / 'studies.db'}")

    @property
    def sweep_folder(self) -> Path:
        (multirun,) = self.folder.glob("multirun/*/*")
        return multirun


@contextmanager
def _main_program(folder: Path, *argv: str) -> Iterator[None]:
    """Names that a program registers and imports are gone behind it; files that are composed are read anew."""
    root, store, known = logging.getLogger(), ConfigStore.instance(), set(sys.modules)
    handlers, level = list(root.handlers), root.level
    state = Singleton.get_state()  # a job may put other objects in their places
    state["instances"] = dict(state["instances"])
    with pytest.MonkeyPatch.context() as patch, remembering_files():
        patch.chdir(folder)
        patch.syspath_prepend(folder)
        patch.setattr(sys, "argv", list(argv))
        patch.setattr(store, "repo", copy.deepcopy(store.repo))
        try:
            yield
        finally:
            for handler in {*root.handlers} - {*handlers}:
                handler.close()
            root.handlers[:], root.level = handlers, level
            GlobalHydra.instance().clear()
            Singleton.set_state(state)
            for name in set(sys.modules) - known:
                if str(getattr(sys.modules[name], "__file__", None)).startswith(str(folder)):
                    del sys.modules[name]


def outcomes(study: optuna.Study) -> dict[int, str]:
    return {trial.number: trial.user_attrs["outcome"] for trial in study.trials}


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> App:
    app = App(tmp_path_factory.mktemp("plain"))
    app(*SWEEP)
    return app


def test_the_best_of_all_trials_is_near_the_optimum(swept: App) -> None:
    study = swept.study("quadratic")
    assert len(study.trials) == NUM_TRIALS
    values = {
        number: json.loads((swept.sweep_folder / f"job_{number}" / "objective.json").read_text())["values"][0]
        for number, outcome in outcomes(study).items()
        if outcome == "complete"
    }
    best = min(values, key=lambda number: values[number])
    results = yaml.safe_load((swept.sweep_folder / "optimization_results.yaml").read_text())
    params = results.pop("best_params")
    assert results == {"name": "optuna", "best_value": values[best], "best_job": f"job_{best}"}
    loss = (params["x"] - 1.0) ** 2 + (0.0 if params["model"] == "the, good" else 0.5)
    assert loss == pytest.approx(values[best])
    assert loss < 0.75


def test_the_sweep_has_a_page(swept: App) -> None:
    page = (swept.sweep_folder / "report.html").read_text()
    assert f"Best of {sum(kind == 'complete' for kind in outcomes(swept.study('quadratic')).values())} finished" in page
    assert "ValueError: it is three" in page
    assert "hydra.sweeper.study_name=quadratic" in page  # the command that goes on with it


def test_bad_ends_are_recorded_and_the_sweep_goes_on(swept: App) -> None:
    study = swept.study("quadratic")
    found = outcomes(study)
    assert [found[3], found[4], found[5]] == ["crashed", "crashed", "diverged"]
    assert {found[number] for number in found if number not in (3, 4, 5)} <= {"complete", "pruned"}
    reasons = [trial.user_attrs["ending"]["reason"] for trial in study.trials]
    assert reasons[3] == "ValueError: it is three"
    assert "the task function returned None" in reasons[4]
    ended = study.trials[5].datetime_complete
    others = [trial for trial in study.trials if trial.number != 5 and trial.value is not None]
    told = [trial.value for trial in others if trial.datetime_complete and ended and trial.datetime_complete <= ended]
    assert study.trials[5].value in told, "a diverged job has the worst value seen"
    told = (swept.sweep_folder / "job_3" / "output.log").read_text()
    assert re.search(rf'File "{swept.folder}/app.py", line \d+, in main\n +raise ValueError\("it is three"\)', told)


def test_jobs_are_pruned_early_and_say_so(swept: App) -> None:
    study = swept.study("quadratic")
    pruned = [number for number, outcome in outcomes(study).items() if outcome == "pruned"]
    assert pruned
    for number in pruned:
        folder = swept.sweep_folder / f"job_{number}"
        reports = [json.loads(line) for line in (folder / "reports.jsonl").read_text().splitlines()]
        assert len(reports) < 5 or reports[-1]["step"] == 4
        assert not (folder / "finished").exists(), "report() does not return in a job that is pruned"
        step, value = int(reports[-1]["step"]), reports[-1]["value"]
        others = [
            trial.intermediate_values[step]
            for trial in study.trials
            if trial.number != number
            and step in trial.intermediate_values
            and trial.user_attrs["outcome"] == "complete"
        ]
        assert value > min(others)


def test_each_job_has_its_hydra_folder(swept: App) -> None:
    study = swept.study("quadratic")
    assert yaml.safe_load((swept.sweep_folder / "multirun.yaml").read_text())["x"] == 0.0
    for trial in study.trials:
        folder = swept.sweep_folder / f"job_{trial.number}"
        config = yaml.safe_load((folder / ".hydra" / "config.yaml").read_text())
        assert {key: config[key] for key in trial.params} == trial.params, "values arrive as they were sampled"
        hydra = yaml.safe_load((folder / ".hydra" / "hydra.yaml").read_text())["hydra"]
        assert (hydra["job"]["num"], hydra["runtime"]["output_dir"]) == (trial.number, str(folder))


def test_another_command_code_or_configuration_is_refused_and_the_same_adds_nothing(swept: App) -> None:
    file = swept.folder / "app.py"
    before = file.read_text()
    refused = swept(*SWEEP, "x=interval(-3,4)", status=1)
    assert "x was searched over -3 .. 3, and is now over -3 .. 4" in refused
    file.write_text(before.replace("else 0.5)", "else 1000.0)").replace("steps: int = 5", "steps: int = 6"))
    other = swept(*SWEEP, status=1)
    assert "code.app.py was " in other
    assert "job.steps was 5 and is 6" in other
    for told in (refused, other):
        assert "hydra.sweeper.study_name=quadratic-2" in told
        assert "Traceback" not in told
    file.write_text(before)
    (swept.folder / "data.json").write_text('{"plus": 500.0}\n')
    (swept.folder / "helper.py").write_text("PLUS = 1000.0\n")
    changed = swept(*SWEEP, status=1)
    assert re.search(r"files that have changed: data.json was \w+ and is \w+; helper.py was \w+ and is \w+\.", changed)
    assert "begin another study with hydra.sweeper.study_name=quadratic-2" in changed
    (swept.folder / "data.json").write_text('{"plus": 0.0}\n')
    (swept.folder / "helper.py").write_text("PLUS = 0.0\n")
    again = swept(*SWEEP)
    assert f"{NUM_TRIALS} are done" in again
    assert f"The results of {NUM_TRIALS} jobs are kept: configuration, code and 3 files that jobs have read" in again
    assert "(app.py, data.json, helper.py) are the same. What jobs read otherwise is not compared: " in again
    assert "hydra.sweeper.study_name=quadratic-2 begins anew" in again
    assert len(swept.study("quadratic").trials) == NUM_TRIALS


GRID = (
    *("-m", "hydra/sweeper=optuna", "accidents=false", "hydra.sweeper.name=grid"),
    *("hydra/sweeper/sampler=grid", "hydra.sweeper.direction=minimize", "hydra.sweeper.params={model: 'choice(bad)'}"),
)
STOPS = """
import os, signal
asked = []
def __getattr__(name):
    if name != "PLUS":
        raise AttributeError(name)
    asked.append(name)
    if len(asked) == 2:
        os.kill(os.getpid(), signal.SIGINT)
    return 0.0
"""


def check_grid(app: App, *numbers: int) -> None:
    study = app.study("grid")
    assert sorted(trial.params["x"] for trial in study.trials) == [*numbers], "smaller than n_trials"
    assert set(outcomes(study).values()) == {"complete"}
    for trial in study.trials:
        folder = app.sweep_folder / str(trial.number)
        assert (folder / "finished").read_text() == "bad\n", "no job that had finished was run again"
        assert trial.value == (trial.params["x"] - 1.0) ** 2 + 0.5
        assert len((folder / "reports.jsonl").read_text().splitlines()) == 5
        assert sorted(trial.intermediate_values) == [0, 1, 2, 3, 4], "what is reported is kept all the same"


def test_a_grid_without_a_pruner_runs_whole_and_goes_on_after_ctrl_c(tmp_path: Path) -> None:
    app = App(tmp_path)
    (tmp_path / "stops.py").write_text(STOPS)
    sweep = (*GRID, "x=range(10,12)", "helper=stops", "seconds=0.02", "+executor@hydra.sweeper.executor=inline")
    app(*sweep, status=130)
    assert len(list(tmp_path.glob("multirun/*/*/*/finished"))) == 1, "Ctrl-C comes in the second job"
    app(*sweep)
    check_grid(app, 10, 11)


KILLED, STOPPED = (signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130)


@pytest.mark.parametrize("ends", [[KILLED], pytest.param([STOPPED, KILLED], marks=pytest.mark.slow)])
def test_a_grid_of_processes_goes_on_after_ctrl_c_and_kill_9(tmp_path: Path, ends: list[tuple[int, int]]) -> None:
    """The one above is stopped in one process, and studies of processes are in tests/tuner/study/test_crash.py."""
    app, sweep = App(tmp_path), (*GRID, "x=range(10,15)", "seconds=0.4")
    for number, status in ends:
        before = len(list(tmp_path.glob("multirun/*/*/*/finished")))
        process = app.start(*sweep)
        wait_for(lambda before=before: len(list(tmp_path.glob("multirun/*/*/*/finished"))) > before)
        process.send_signal(number)
        output, _ = process.communicate(timeout=300)
        assert process.returncode == status, output
    app.alone(*sweep)
    check_grid(app, *range(10, 15))


def wait_for(condition: Callable[[], Any], timeout_s: float = 300.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_hydra_imports_of_the_plugin_is_nothing_but_hydra() -> None:
    code = (
        "import sys, hydra.main, hydra.core.plugins, hydra._internal.core_plugins.basic_sweeper as basic\n"
        "before = set(sys.modules)\n"
        "import hydra_plugins.tuner_sweeper as shim\n"
        "print(*sorted(set(sys.modules) - before))\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["hydra_plugins", "hydra_plugins.tuner_sweeper"]
