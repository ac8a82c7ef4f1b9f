"""hydra/sweeper=optuna for somebody else's Hydra application, which is run as its users run it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml

import tuner

ROOT = Path(tuner.__file__).parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tuner' / 'plugins'}", "OMP_NUM_THREADS": "1"}
NUM_TRIALS = 12
SWEEP = (
    *("-m", "hydra/sweeper=optuna", "x=interval(-3,3)", "model=choice('the, good',bad)"),
    *("hydra.sweeper.direction=minimize", "hydra.sweeper.study_name=quadratic", "hydra.sweeper.sampler.seed=1"),
    *(f"hydra.sweeper.n_trials={NUM_TRIALS}", "hydra.sweeper.retries=0", "hydra.sweep.subdir=job_${hydra.job.num}"),
    "hydra/sweeper/pruner=median",
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

    def __call__(self, *arguments: str, status: int = 0) -> str:
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=300)
        assert process.returncode == status, output
        return output

    def study(self, name: str) -> optuna.Study:
        return optuna.load_study(study_name=name, storage=f"sqlite:///{self.folder / 'studies.db'}")

    @property
    def sweep_folder(self) -> Path:
        (multirun,) = self.folder.glob("multirun/*/*")
        return multirun


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
    assert study.trials[5].value in told, "a diverged job is told with the worst value seen"
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
    assert f"The results of {NUM_TRIALS} jobs are kept: configuration, code and 2 files that jobs have read" in again
    assert "(data.json, helper.py) are the same. What jobs read otherwise is not compared: " in again
    assert "hydra.sweeper.study_name=quadratic-2 begins anew" in again
    assert len(swept.study("quadratic").trials) == NUM_TRIALS


def test_a_grid_without_a_pruner_runs_whole_and_goes_on_after_ctrl_c_and_kill_9(tmp_path: Path) -> None:
    app = App(tmp_path)
    sweep = (
        *("-m", "hydra/sweeper=optuna", "x=range(10,15)", "seconds=0.4", "accidents=false", "hydra.sweeper.name=grid"),
        *("hydra/sweeper/sampler=grid", "hydra.sweeper.direction=minimize"),
        "hydra.sweeper.params={model: 'choice(bad)'}",
    )
    for number, status in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        before = len(list(tmp_path.glob("multirun/*/*/*/finished")))
        process = app.start(*sweep)
        wait_for(lambda before=before: len(list(tmp_path.glob("multirun/*/*/*/finished"))) > before)
        process.send_signal(number)
        output, _ = process.communicate(timeout=300)
        assert process.returncode == status, output
    app(*sweep)
    study = app.study("grid")
    assert sorted(trial.params["x"] for trial in study.trials) == list(range(10, 15)), "smaller than n_trials"
    assert set(outcomes(study).values()) == {"complete"}
    for trial in study.trials:
        folder = app.sweep_folder / str(trial.number)
        assert (folder / "finished").read_text() == "bad\n", "no job that had finished was run again"
        assert trial.value == (trial.params["x"] - 1.0) ** 2 + 0.5
        assert len((folder / "reports.jsonl").read_text().splitlines()) == 5
        assert sorted(trial.intermediate_values) == [0, 1, 2, 3, 4], "what is reported is kept all the same"


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
