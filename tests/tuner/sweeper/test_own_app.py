"""`tuner train -m hydra/sweeper=optuna`, in this process."""

import json
import time
from collections.abc import Mapping

import optuna
import pytest
import yaml

from tests.tuner.command_line import RECORDING, SMALL, SMALL_AGENTS, CommandLine, Recording, RecordingRun
from tuner.config.paths import flatten
from tuner.study import StudyStore, summarise

SWEEP = ("train", "-m", "hydra/sweeper=optuna")
SEARCH = ("optimizer.learning_rate=tag(log,interval(1e-5,1e-2))", "hydra.sweeper.direction=maximize")


def test_training_runs_are_jobs_and_their_scores_are_recorded(tuner: CommandLine) -> None:
    """In this process; jobs in processes of their own are in test_plain_app.py."""
    small = [word for word in (*SMALL, *SMALL_AGENTS["dqn"][1:]) if not word.startswith("network")]
    search = (*SEARCH, "agent=choice(dqn,double_dqn)", "network.hidden_sizes=choice([8],[4,6])")
    sweep = (*SWEEP, *small, *search, "hydra.sweeper.num_trials=2", "hydra.sweeper.name=ours")
    sweep += ("+executor@hydra.sweeper.executor=inline",)
    for _ in range(2):  # the second time there is nothing left to do
        answer = tuner(*sweep)
        assert answer.status == 0, answer
    (folder,) = tuner.folder.glob("multirun/*")
    study = optuna.load_study(study_name="ours", storage="sqlite:///studies.db")
    assert len(study.trials) == 2
    for trial in study.trials:
        job = folder / str(trial.number)
        config = yaml.safe_load((job / "config.yaml").read_text())
        values = trial.user_attrs["run"]["values"]
        assert config["optimizer"]["learning_rate"] == values["optimizer.learning_rate"]
        assert config["network"]["hidden_sizes"] == values["network.hidden_sizes"]
        assert ("Double" in config["agent"]["_target_"]) == (values["agent"] == "double_dqn")
        curve = [json.loads(line)["value"] for line in (job / "reports.jsonl").read_text().splitlines()]
        area = ((curve[0] + curve[1]) / 2 + (curve[1] + curve[2]) / 2) / 2
        assert trial.value == pytest.approx(0.5 * area + 0.5 * curve[2])
        assert trial.intermediate_values == {333: curve[0], 667: curve[1], 1000: curve[2]}
    with StudyStore("sqlite:///studies.db") as store:
        summary = summarise(store, "ours", tuner.folder)
    assert [run.value for run in summary.runs] == [trial.value for trial in study.trials], "tuner report can read it"


JOURNAL = "journal:///studies.journal"
INLINE = (
    *(*SWEEP, "agent=synthetic", "hydra.sweeper.direction=maximize", "+executor@hydra.sweeper.executor=inline"),
    f"hydra.sweeper.storage={JOURNAL}",
)


def studies() -> list[optuna.Study]:
    with StudyStore(JOURNAL) as store:
        return [store.require(name) for name in sorted(store.names())]


def test_each_job_is_a_run_for_trackers_and_so_is_the_sweep(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    Recording.forget()
    rows: list[Mapping[str, float]] = []
    log = RecordingRun.log

    def noting(run: RecordingRun, step: int, metrics: dict[str, float]) -> None:
        rows.append(metrics)
        log(run, step, metrics)

    monkeypatch.setattr(RecordingRun, "log", noting)
    asked = ("hydra.sweeper.direction=minimize", "seed=choice(3,4,5)", "agent.gamma=0.95", "hydra.sweep.dir=both")
    answer = tuner(*INLINE, *asked, RECORDING)
    assert answer.status == 0, answer
    (study,) = studies()
    values = {f"seed={trial.params['seed']}": trial.value for trial in study.trials}
    assert sorted(values) == ["seed=3", "seed=4", "seed=5"], "each combination once"
    whole, *jobs = Recording.infos
    assert (whole.name, whole.job_type, whole.folder) == (study.study_name, "study", tuner.folder / "both")
    assert set(flatten(whole.config)) - {"study"} <= set(flatten(jobs[0].config)), "a column that no job has"
    assert {info.name for info in jobs} == values.keys()
    for info in jobs:
        assert (info.group, info.job_type, info.tags) == (study.study_name, "train", (info.name,))
        assert (info.config["agent"]["gamma"], f"seed={info.config['seed']}") == (0.95, info.name)
        assert "hydra" not in info.config
        code, summary = Recording.ends[info.name]
        assert (code, summary["outcome"], summary["value"]) == (0, "complete", values[info.name])
        total, reports = (
            info.config["training"]["total_steps"],
            (info.folder / "reports.jsonl").read_text().splitlines(),
        )
        assert Recording.steps[info.name] == [round(json.loads(line)["step"] * total) for line in reports]
    code, summary = Recording.ends[study.study_name]
    best = min(study.trials, key=lambda trial: trial.value or 0.0)
    seed = json.loads(summary["best_config"])["seed"]
    assert (code, summary["best_params"], seed) == (0, best.params, best.params["seed"])
    found = [
        (row["study/screen_score"], row["study/best_screening_score"]) for row in rows if "study/screen_score" in row
    ]
    assert [lowest for _, lowest in found] == [min(score for score, _ in found[: n + 1]) for n in range(3)]


def test_a_sweep_without_a_name_that_is_done_begins_anew(tuner: CommandLine) -> None:
    assert tuner(*INLINE, "seed=choice(3,4)").status == 0
    time.sleep(1.0 - time.time() % 1.0)  # Hydra names the folder of a sweep by the second
    assert tuner(*INLINE, "seed=choice(3,4)").status == 0
    first, second = studies()
    assert second.study_name == f"{first.study_name}-2"
    assert [len(study.trials) for study in (first, second)] == [2, 2]
    assert len(list(tuner.folder.glob("multirun/*/0"))) == 2


def test_a_named_sweep_stays_in_its_folder_and_runs_a_combination_that_another_sampler_left_over(
    tuner: CommandLine,
) -> None:
    named = (*INLINE, "seed=range(1,3)", "agent.activation=choice(relu,tanh)", "hydra.sweeper.study_name=mine")
    assert tuner(*named, "hydra.sweeper.n_trials=3", "hydra.sweep.dir=here").status == 0
    assert tuner(*named, "hydra.sweeper.n_trials=20").status == 0, "by the clock: it stays where it is"
    assert [path.parent.name for path in tuner.folder.glob("*/optimization_results.yaml")] == ["here"]
    (study,) = studies()
    found = [(trial.params["seed"], trial.params["agent.activation"]) for trial in study.trials]
    assert len(found) == 4
    assert found[3] not in found[:3]
    refused = tuner.refused(*named, "hydra.sweeper.n_trials=20", "hydra.sweep.dir=elsewhere")
    there, asked = (tuner.folder / name for name in ("here", "elsewhere"))
    assert f"the jobs of study mine are in {there}: leave hydra.sweep.dir={asked} out" in refused
    assert "hydra.sweeper.study_name=mine-2" in refused


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (SEARCH[:1], "hydra.sweeper.direction is not set"),
        (("optimizer.learning_rate=interval(-1,1)", *SEARCH[1:]), "optimizer.learning_rate=-1.0 is not possible"),
        ((*SEARCH, "hydra/sweeper/sampler=grid"), "GridSampler tries every combination"),
        ((*SEARCH, "+hydra.sweeper.sampler.n_start=3"), "TPESampler has no n_start"),
        ((*SEARCH, "hydra.launcher._target_=my.Launcher"), "a launcher runs a whole batch"),
    ],
)
def test_mistakes_are_refused_before_anything_runs(tuner: CommandLine, arguments: tuple[str, ...], reason: str) -> None:
    answer = tuner(*SWEEP, *SMALL, *arguments)
    assert answer.status == 2, answer
    assert reason in answer.errors
    assert "Traceback" not in answer.errors
    assert not list(tuner.folder.iterdir()), "nothing was left behind"


def test_a_study_is_no_job_of_a_sweep(tuner: CommandLine) -> None:
    answer = tuner("tune", "-m", "hydra/sweeper=optuna", "seed=range(3)", "hydra.sweeper.direction=maximize")
    assert answer.status == 2
    assert "tuner train -m" in answer.errors
