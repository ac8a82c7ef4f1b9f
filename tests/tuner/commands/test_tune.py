"""`tuner tune`: from the command line to the winner's own. Trials are synthetic unless a test says otherwise."""

import importlib.util
import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import OmegaConf

import tuner as tuner_package
from tests.tuner.command_line import RECORDING, CommandLine, Recording
from tests.tuner.commands.fake_studies import FAKE, SMALL_STUDY, STORAGE, judged, line_after, tune
from tuner.commands.preflight import preflight
from tuner.commands.tune import TuneResult, _commands
from tuner.config.composition import to_json
from tuner.results.findings import Finding
from tuner.study import StudyStore, summarise
from tuner.study.storage import open_storage
from tuner.trial.messages import Outcome

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.usefixtures("fake_executor")


def test_a_study_ends_with_a_verdict_and_ways_to_train_the_winner_again(tuner: CommandLine) -> None:
    answer = tune(tuner)
    assert "on 2 test seeds, against" in " ".join(answer.output.split())
    (page,) = line_after(answer, "look at everything")
    assert "trial" in Path(page).read_text()
    assert {path.name for path in Path("studies/mine").iterdir()} >= {"screen", "confirm", "test", "probe"}
    assert "nothing was left to run" not in answer.output
    finished = tune(tuner).output.splitlines()[-1]
    assert finished.startswith("nothing was left to run, the study is finished; to continue it, raise study.num_trials")


def test_failed_trials_are_counted_in_the_last_line(tuner: CommandLine) -> None:
    synthetic = ("agent=synthetic", "executor=inline", "agent.diverge_rate=0.5", "study.num_trials=8")
    synthetic += ("warm_start=default",)  # one configuration at least comes to its end on all seeds
    answer = tuner("tune", "tracker=jsonl", "storage=journal", *SMALL_STUDY, *synthetic)
    assert answer.status == 0
    last = answer.output.splitlines()[-1]
    with StudyStore(STORAGE) as store:
        failed = [run for run in summarise(store, "mine", tuner.folder / "studies" / "mine").runs if run.failed]
    assert len(failed) > 1
    assert last.startswith(f"{len([run for run in failed if run.stage == 'screen'])} of 8 trials")
    assert f"failed ({len(failed)} diverged); most often: " in last
    assert Path(last.rpartition("; see ")[2]).exists()
    assert "failed" not in tune(tuner, "study.name=good").output.splitlines()[-1]


def _judged_as(result: TuneResult, finding: Finding) -> TuneResult:
    class Judged(TuneResult):
        verdict = replace(result.verdict, finding=finding)

    return Judged(result.summary, result.folder, result.winners)


def test_what_is_to_be_typed_begins_with_what_the_verdict_advises(tuner: CommandLine) -> None:
    plain = ["agent=synthetic", "training.total_steps=900"]
    options = ["study.num_trials=3", "study.num_candidates=2", "study.num_test_seeds=2", "study.num_race_seeds=0"]
    result = tuner_package.tune([*plain, *options, "executor=inline", "warm_start=off"])
    commands = {
        finding: _commands(_judged_as(result, finding), "sqlite:///studies.db")
        for finding in (Finding.BETTER, Finding.DEFAULT_AS_GOOD)
    }
    retrain = {
        "train the winner again": result.summary.retrain_command,
        "the same as a file": result.experiment_command,
    }
    why = {"see which changes made it better": f"tuner ablate {result.summary.name}"}
    assert commands[Finding.BETTER] == {**retrain, **why}
    told = commands[Finding.DEFAULT_AS_GOOD]
    assert list(told) == ["train the default, as the verdict advises", *retrain]
    line = shlex.split(told["train the default, as the verdict advises"])
    assert line[:2] == ["tuner", "train"]
    assert judged(to_json(preflight("train", line[2:]))) == judged(to_json(preflight("train", plain)))


def test_searched_values_reach_every_run_and_what_refers_to_them(tuner: CommandLine) -> None:
    tune(tuner, "agent=ppo", "schedule=linear_decay")
    with StudyStore(STORAGE) as store:
        runs = summarise(store, "mine", tuner.folder / "studies" / "mine").runs
    assert len(runs) == 5 + 4 + 4
    for run in runs:
        config = json.loads((Path(run.folder) / "trial.json").read_text())["config"]
        for path, value in run.params.items():
            assert OmegaConf.select(OmegaConf.create(config), path) == value
        assert config["schedule"]["learning_rate"]["start"] == config["optimizer"]["learning_rate"]
        assert config["schedule"]["clip"]["start"] == config["agent"]["clip"]
        assert config["buffer"]["num_steps"] * config["env"]["num_envs"] % config["buffer"]["batch_size"] == 0


def test_the_same_command_continues(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    tune(tuner)
    before = {path: path.stat().st_mtime_ns for path in (tuner.folder / "studies").rglob("result.json")}
    opened, real = [], open_storage._open_journal
    monkeypatch.setattr(open_storage, "_open_journal", lambda path, log: opened.append(path) or real(path, log))
    assert tune(tuner).status == 0
    assert len(opened) == 4, "a journal is read from its beginning each time"
    assert {path: path.stat().st_mtime_ns for path in (tuner.folder / "studies").rglob("result.json")} == before
    tune(tuner, "study.num_trials=7")
    assert len(list((tuner.folder / "studies" / "mine" / "screen").glob("*/result.json"))) == 7


def test_without_plotly_the_end_says_how_to_get_the_page(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "plotly" else found(name, *rest)
    )
    assert "pip install 'note-rl[report]' && tuner report mine" in tune(tuner).output


def test_ctrl_c_names_the_command_that_goes_on(tuner: CommandLine) -> None:
    press = "+tracker.stop={_target_: tests.tuner.command_line.Interrupting, after_steps: 20000}"
    answer = tuner("tune", *FAKE, *SMALL_STUDY, press)
    assert answer.status == 130
    words = " ".join(answer.output.split())
    assert "stopped by SIGINT with 2 runs under way; the same command goes on: tuner tune --config-dir mine" in words
    assert tune(tuner).status == 0
    with StudyStore(STORAGE) as store:
        runs = summarise(store, "mine", tuner.folder / "studies" / "mine").runs
    assert {run.outcome for run in runs} == {Outcome.COMPLETE}


def test_ctrl_c_ends_all_studies_of_a_multirun(tuner: CommandLine) -> None:
    press = "+tracker.stop={_target_: tests.tuner.command_line.Interrupting, after_steps: 20000}"
    fake = [word for word in FAKE if not word.startswith("study.name")]
    answer = tuner("tune", "-m", *fake, *SMALL_STUDY, press, "study.name=first,second")
    assert answer.status == 130
    with StudyStore(STORAGE) as store:
        assert store.names() == ["first"], "the second was not begun"
    assert "the same command goes on:\n  tuner tune -m --config-dir mine " in answer.errors
    assert "study.name=first,second" in answer.errors


@pytest.mark.parametrize("named", [(), ("study.name=mine",), ("seed=0,1",)])
def test_jobs_of_a_sweep_that_are_the_same_study_are_refused(tuner: CommandLine, named: tuple[str, ...]) -> None:
    refused = tuner.refused("tune", "-m", "agent=synthetic", *SMALL_STUDY, "sampler=tpe,random", *named)
    assert "sampler=tpe and sampler=random are searched in the same study, " in refused
    assert "type a command for each, with a study.name of its own" in refused
    assert not (tuner.folder / "studies").exists()


def test_so_are_those_of_a_range(tuner: CommandLine) -> None:
    refused = tuner.refused("tune", "-m", "agent=synthetic", *SMALL_STUDY, "study.retries=range(2,9)")
    assert "study.retries=2 and study.retries=3 are searched in the same study, " in refused


def test_a_value_that_is_listed_twice_is_refused(tuner: CommandLine) -> None:
    refused = tuner.refused("tune", "-m", "agent=synthetic", *SMALL_STUDY, "seed=1,1")
    assert "two jobs of this sweep are the same study, " in refused
    assert "list each value once" in refused


def test_every_run_is_tracked_in_the_group_of_its_study(tuner: CommandLine) -> None:
    Recording.forget()
    tune(tuner, RECORDING)
    assert len(Recording.infos) == len(Recording.ends) == 5 + 4 + 4 + 1
    assert {info.group for info in Recording.infos} == {"mine"}
    assert {info.job_type for info in Recording.infos} == {"screen", "confirm", "test", "study"}
    for info in Recording.infos:
        if info.job_type == "study":
            continue
        code, summary = Recording.ends[info.name]
        good = summary["outcome"] in ("complete", "pruned")
        assert code == (0 if good else 1)
        assert info.config["seed"] == json.loads((info.folder / "trial.json").read_text())["seed"]
        assert Recording.steps[info.name] == sorted(Recording.steps[info.name])


SCRIPT = """
import sys
import tuner

result = tuner.tune({overrides!r})
print(result.verdict.sentence)
print(result.best_params)
print(sorted({{"sklearn", "pandas"}} & sys.modules.keys()))
tuner.train(result.overrides, folder="again")
"""


@pytest.mark.slow  # test_own_agent.py trains the winner of a study again, in this process
def test_a_script_without_a_guard_runs_real_trials_and_trains_the_winner_again(tuner: CommandLine) -> None:
    """In processes of their own; test_own_agent.py does it with an agent."""
    overrides = ["agent=synthetic", "tracker=jsonl", "storage=journal", *SMALL_STUDY]
    overrides += ["study.num_trials=2", "study.num_select_seeds=1", "study.num_candidates=1"]
    script = tuner.folder / "script.py"
    script.write_text(SCRIPT.format(overrides=overrides))
    done = subprocess.run(
        [sys.executable, "-W", "error", script.name],
        cwd=tuner.folder,
        env={**__import__("os").environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "on 2 test seeds" in done.stdout
    assert "\n[]\n" in done.stdout, "notes for optuna-dashboard do without its server, which takes seconds to import"
    with StudyStore(STORAGE) as store:
        summary = summarise(store, "mine", tuner.folder / "studies" / "mine")
    assert {run.outcome for run in summary.runs} == {Outcome.COMPLETE}
    again = OmegaConf.load(tuner.folder / "again" / "config.yaml")
    assert summary.winner_label is not None
    for path, value in summary.params_of(summary.winner_label).items():
        assert OmegaConf.select(again, path) == value
