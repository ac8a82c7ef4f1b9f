"""`tuner tune`: from the command line to the winner's own. Trials are synthetic unless a test says otherwise."""

import importlib.util
import json
import shlex
import subprocess
import sys
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

import tuner as tuner_package
from tests.tuner.command_line import RECORDING, SMALL_AGENTS, Answer, CommandLine, Recording
from tests.tuner.studies import FakeExecutor, Script
from tuner.commands.preflight import preflight
from tuner.commands.tune import TuneResult, _commands, define
from tuner.config.composition import to_json
from tuner.errors import UserError
from tuner.results.findings import Finding
from tuner.study import StudyStore, find_winner, summarise
from tuner.trial.messages import JsonDict, Outcome

ROOT = Path(__file__).parents[3]
FAKE = ("--config-dir", "mine", "executor=fake", "tracker=jsonl", "storage=journal")
STORAGE = "journal:///studies.journal"
SMALL_STUDY = (
    *("study.num_trials=5", "study.num_candidates=2", "study.num_test_seeds=2", "study.num_race_seeds=0"),
    "study.name=mine",
)
NOT_JUDGED = ("seed", "checkpoint", "tracker", "resume", "trust", "progress")


@pytest.fixture(autouse=True)
def _fake_executor(tuner: CommandLine) -> None:
    """A group of the user's own, with an executor that needs no processes."""
    folder = tuner.folder / "mine" / "executor"
    folder.mkdir(parents=True)
    (folder / "fake.yaml").write_text("_target_: tests.tuner.studies.FakeExecutor\nparallel: 2\n")


def tune(tuner: CommandLine, *arguments: str) -> Answer:
    answer = tuner("tune", *FAKE, *SMALL_STUDY, *arguments)
    assert answer.status == 0, answer
    return answer


def judged(config: JsonDict) -> JsonDict:
    return {key: value for key, value in config.items() if key not in NOT_JUDGED}


def winner_of(tuner: CommandLine, name: str = "mine") -> JsonDict:
    with StudyStore(STORAGE) as store:
        winner = find_winner(store, name)
    assert winner is not None
    return winner.config


def line_after(answer: Answer, words: str) -> list[str]:
    lines = answer.output.splitlines()
    return shlex.split(lines[lines.index(f"{words}:") + 1])


# What comes out


def test_a_study_ends_with_a_verdict_and_ways_to_train_the_winner_again(tuner: CommandLine) -> None:
    answer = tune(tuner)
    assert "on 2 fresh seeds, against" in " ".join(answer.output.split())
    (page,) = line_after(answer, "look at everything")
    assert "trial" in Path(page).read_text()
    assert {path.name for path in Path("studies/mine").iterdir()} >= {"screen", "confirm", "test", "probe"}
    assert "nothing was left to run" not in answer.output
    finished = tune(tuner).output.splitlines()[-1]
    assert finished.startswith(
        "nothing was left to run, the study is finished; it goes on with a larger study.num_trials"
    )


def test_failed_trials_are_told_in_the_last_line(tuner: CommandLine) -> None:
    synthetic = ("agent=synthetic", "executor=inline", "agent.diverge_rate=0.5", "study.num_trials=8")
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


VARIANTS = {
    "ppo with schedules, an argument of the environment, lists as choices, words that need quotes": [
        *("agent=ppo", "schedule=linear_decay", "+env.kwargs.sutton_barto_reward=true"),
        "+space.network.hidden_sizes={choices: [[32, 32], [48]]}",
        "+wrapper.note={_target_: gymnasium.wrappers.TimeAwareObservation, _partial_: true}",
    ],
    "the other framework, a schedule taken away": ["backend=keras", "~schedule.eps"],
    "a published setting": ["experiment=ppo_cartpole"],
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_both_ways_to_train_the_winner_compose_exactly_its_config(tuner: CommandLine, variant: str) -> None:
    answer = tune(tuner, *VARIANTS[variant])
    line = line_after(answer, "train the winner again")
    assert line[:4] == ["tuner", "train", "--config-dir", "mine"]
    assert judged(to_json(preflight("train", line[4:], "mine"))) == judged(winner_of(tuner))
    file = line_after(answer, "the same as a file")
    assert file[:4] == ["tuner", "train", "--config-dir", "studies/mine"]
    assert judged(to_json(preflight("train", file[4:], "studies/mine"))) == judged(winner_of(tuner))
    assert shlex.join(file) in Path("studies/mine/experiment/winner.yaml").read_text()


def _judged_as(result: TuneResult, finding: Finding) -> TuneResult:
    class Judged(TuneResult):
        verdict = replace(result.verdict, finding=finding)

    return Judged(result.summary, result.folder, result.winners)


def test_what_is_to_be_typed_begins_with_what_the_verdict_advises(tuner: CommandLine) -> None:
    plain = ["agent=synthetic", "training.total_steps=900"]
    options = ["study.num_trials=3", "study.num_candidates=2", "study.num_test_seeds=2", "study.num_race_seeds=0"]
    result = tuner_package.tune([*plain, *options, "executor=inline"])
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


def test_an_experiment_file_finds_the_groups_of_the_user(tuner: CommandLine) -> None:
    own = tuner.folder / "mine" / "network"
    own.mkdir()
    (own / "narrow.yaml").write_text("defaults: [mlp]\nhidden_sizes: [3]\n")
    answer = tune(tuner, "network=narrow")
    assert winner_of(tuner)["network"]["hidden_sizes"] == [3]
    for words in ("train the winner again", "the same as a file"):
        line = line_after(answer, words)
        assert judged(to_json(preflight("train", line[4:], line[3]))) == judged(winner_of(tuner))


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


def test_the_same_command_continues(tuner: CommandLine) -> None:
    tune(tuner)
    before = {path: path.stat().st_mtime_ns for path in (tuner.folder / "studies").rglob("result.json")}
    assert tune(tuner).status == 0
    assert {path: path.stat().st_mtime_ns for path in (tuner.folder / "studies").rglob("result.json")} == before
    tune(tuner, "study.num_trials=7")
    assert len(list((tuner.folder / "studies" / "mine" / "screen").glob("*/result.json"))) == 7


def test_the_name_of_a_study_tells_what_it_is_about(tuner: CommandLine) -> None:
    tuner("tune", *FAKE, *SMALL_STUDY[:-1], "agent=ppo", "env.id=tests.tuner.studies:Mine-v0")
    answer = tuner("tune", *FAKE, *SMALL_STUDY[:-1], "agent=ppo")
    assert answer.status == 0
    assert (tuner.folder / "studies" / "ppo-CartPole-v1-torch-quick" / "screen").is_dir()
    assert tuner("tune", *FAKE, *SMALL_STUDY[:-1], "agent=ppo", "seed=2").status == 0
    assert (tuner.folder / "studies" / "ppo-CartPole-v1-torch-quick-seed2" / "screen").is_dir()


def test_a_plan_says_what_would_be_done_and_does_nothing(tuner: CommandLine) -> None:
    answer = tuner("tune", "plan=true", "study.steps_per_second=2000")
    assert answer.status == 0
    words = " ".join(answer.output.split())
    assert "agent.gamma 0.97 .. 0.999 (log of 1 - x)" in words
    assert "screen 20 runs 600,000 env steps" in words
    assert "race 4 runs 120,000 env steps" in words
    assert "confirm 3 x 2 runs 180,000 env steps" in words
    assert "test 2 x 5 runs 300,000 env steps" in words
    assert "rungs after 1/9 and 3/9 of a run" in words
    assert "at most 1,200,000 environment steps: about 5 min 00 s with 2 at a time" in words
    assert not (tuner.folder / "studies").exists()
    assert not (tuner.folder / "studies.db").exists()


def test_a_plan_names_rungs_only_where_runs_can_be_pruned(tuner: CommandLine) -> None:
    for argument in ("pruner=none", "study.metric=[mixed,seconds]", "study.num_trials=8"):
        words = tuner("tune", "plan=true", "study.steps_per_second=2000", argument).output
        assert "no run is pruned" in words
        assert "rungs" not in words


def test_a_plan_of_a_grid_ends_where_the_grid_does(tuner: CommandLine) -> None:
    parts = ("agent.gamma", "agent.batch_size", "agent.entropy_coef", "agent.learning_rate")  # 3 activations are left
    left = ("agent=synthetic", "sampler=grid", *(f"~space.{part}" for part in parts))
    sizes = ("study.num_trials=400", "study.num_race_seeds=2", "study.num_candidates=3")
    answer = tuner("tune", *left, *sizes, "plan=true", "study.steps_per_second=2000")
    assert "screen 3 runs" in " ".join(answer.output.split())
    assert "race" not in answer.output


def test_from_python_a_plan_is_refused_rather_than_run() -> None:
    with pytest.raises(UserError, match="plan=true prints a plan and runs nothing"):
        tuner_package.tune(["agent=synthetic", "plan=true"])


def test_a_plan_remembers_how_fast_runs_were(tuner: CommandLine) -> None:
    tune(tuner)  # a fake run says that it took one second
    words = " ".join(tuner("tune", *FAKE, "plan=true", "executor.parallel=1").output.split())
    assert "1,200,000 environment steps: about 40 s with 1 at a time" in words
    assert "30,000 steps per second each (the median of 5 earlier runs)" in words


def measured_plan(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, half_s: float) -> str:
    """The plan after a run that takes a second, and so long for the second half of its 4,000 steps."""
    clock = iter([100.0, 100.0 + half_s])
    monkeypatch.setattr("tuner.study.study_probe.time", SimpleNamespace(monotonic=lambda: next(clock)))
    (tuner.folder / "mine" / "executor" / "two.yaml").write_text(
        "_target_: tests.tuner.commands.test_tune.TwoReports\n"
    )
    answer = tuner("tune", "--config-dir", "mine", "executor=two", "plan=true")
    assert answer.status == 0, answer.errors
    return " ".join(answer.output.split())


def test_a_plan_counts_what_it_takes_to_start_a_run(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    words = measured_plan(tuner, monkeypatch, half_s=0.25)
    # 8000 steps a second are 150 s for 1,200,000, and each of 40 runs of 30,000 takes half a second besides
    assert (
        "about 2 min 50 s with 1 at a time, 8,000 steps per second each, and 0.5 s to start and end each run" in words
    )


def test_a_plan_measures_where_nothing_has_run(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    words = measured_plan(tuner, monkeypatch, half_s=4.0)
    # 2000 steps in 4 s are 500 a second; 1,200,000 of them take 40 minutes
    assert "about 40 min 00 s with 1 at a time, 500 steps per second each (measured just now, one run alone)" in words
    assert not (tuner.folder / "studies.db").exists()


class TwoReports(FakeExecutor):
    """Trials that report twice."""

    def __init__(self) -> None:
        super().__init__(behave=lambda spec, attempt: Script([(0.5, 1.0), (1.0, 2.0)]))


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


# What is refused, before anything is written


REFUSED = {
    "a space key that does not exist": (["+space.agent.gama={low:0.9,high:0.99}"], "agent.gamma?"),
    "an empty range": (["space.policy.eps.high=0.001"], "space.policy.eps is an empty range"),
    "a log range from 0": (["space.optimizer.learning_rate.low=0"], "must stay above 0, but low=0"),
    "a gamma of 1": (["space.agent.gamma.high=1.0"], "must stay below 1, but high=1"),
    "no power of two": (["space.buffer.batch_size.low=20"], "low=20 is not a power of two: use 16"),
    "fixed and searched": (["agent.gamma=0.98"], "agent.gamma is both fixed on the command line and searched"),
    "an unknown leaf key": (["+space.agent.gamma.lgo=true"], "space.agent.gamma has lgo"),
    "a list for a range": (["space.agent.gamma=[0.9,0.99]"], "space.agent.gamma=[0.9,0.99] is not possible"),
    "a space that is not there": (["space=ddqn"], "did you mean space=dqn?"),
    "no space at all": ([f"~space.{key}" for key in ("optimizer", "agent", "buffer", "policy")], "empty"),
    "an end that no run can have": (["space.policy.eps.high=2"], "space.policy.eps reaches 2.0, and no run can have"),
    "a choice that no run can have": (["+space.env.id={choices: [CartPole-v1, Nope-v0]}"], "reaches Nope-v0"),
    "seeds searched": (["+space.seed={low: 1, high: 5}"], "space.seed cannot be searched"),
    "an unknown metric": (["study.metric=mixd"], "did you mean mixed?"),
    "an unknown setting": (["+study.num_trails=3"], "study has no num_trails; did you mean study.num_trials?"),
    "no trials": (["study.num_trials=0"], "study.num_trials=0 is not possible: it must be at least 1"),
    "a rung beyond the end": (["study.pruning.rungs=[0.5,1.5]"], "[0.5, 1.5] is not possible: it must be above 0"),
    "an unknown sampler": (["sampler=foo"], "there is no sampler=foo (there is "),
    "an argument of one's own sampler": (
        ["sampler=random", "sampler._target_=my.Mine", "sampler.flavour=z"],
        "sampler has no flavour yet: to hand it to my.Mine, type +sampler.flavour=z",
    ),
    "a pruner's number out of range": (
        ["pruner=hyperband", "pruner.min_resource=-1"],
        "pruner.min_resource=-1 must be at least 1",
    ),
    "an unknown start": (["warm_start=zoo"], "warm_start=zoo must be off, default or an experiment"),
    "a baseline of another environment": (
        ["agent=dqn", "study.baselines=dqn_acrobot"],
        "study.baselines=dqn_acrobot is an experiment in Acrobot-v1, and the study is of CartPole-v1",
    ),
    "an unknown baseline": (["study.baselines=experimnt"], "(or a list of these); did you mean experiment?"),
    "a baseline that is the default": (
        ["experiment=dqn_cartpole", "study.baselines=dqn_cartpole", "training.total_steps=50000"],
        "study.baselines=dqn_cartpole is the default configuration of this study",
    ),
    "a baseline twice": (
        ["study.baselines=[dqn_cartpole,dqn_cartpole]"],
        "must be default, experiment or names of experiments, each once",
    ),
    "a baseline of several objectives": (
        ["study.metric=[mixed,seconds]", "study.baselines=dqn_cartpole"],
        "study.baselines=dqn_cartpole goes by one score, and study.metric names several objectives; leave it out",
    ),
    "a start of another agent": (["agent=dqn", "warm_start=ppo_cartpole"], "is an experiment with PPO, and DQN"),
    "a start without a value": (
        [
            *("agent=dqn", "warm_start=dqn_cartpole", "+env.kwargs.sutton_barto_reward=false"),
            "+space.env.kwargs.sutton_barto_reward={choices: [true, false]}",
        ],
        "sutton_barto_reward is searched, and this starting point has no such value",
    ),
    "a default outside": (["warm_start=default", "space.agent.gamma.low=0.995"], "cannot be a starting point"),
    "a name that is no folder": (["study.name=a/b"], "must be a plain name of at most 128 letters, without slashes"),
    "a sampler that is not there": (["sampler=tpee"], "did you mean sampler=tpe?"),
    "an argument a sampler does not take": (["+sampler.n_trials=3"], "sampler.n_trials"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_mistakes_are_answered_in_a_line_or_two(tuner: CommandLine, case: str) -> None:
    arguments, expected = REFUSED[case]
    assert expected in tuner.refused("tune", *arguments)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["storage.url=studies.db"], "is a file, and no URL: write sqlite:///studies.db"),
        (["storage.url=sqlite:///damaged.db"], "damaged.db is not a sound SQLite database"),
        (["storage.url=sqlite:///damaged.db/studies.db"], "cannot be written"),
        (["study.folder=damaged.db"], "cannot be used"),
        (["executor=local", "executor.parallel=0"], "executor.parallel must be at least 1, not 0"),
        (["executor=local", "executor.gpus=[-1]"], "executor.gpus=[-1] asks for GPUs, and "),
    ],
)
def test_places_that_cannot_be_used(tuner: CommandLine, arguments: list[str], expected: str) -> None:
    (tuner.folder / "damaged.db").write_bytes(b"nonsense" * 100)
    answer = tuner("tune", *FAKE, *arguments)
    assert answer.status == 2
    assert expected in answer.errors
    assert len(answer.errors.strip().splitlines()) <= 2
    assert (tuner.folder / "damaged.db").read_bytes() == b"nonsense" * 100


def test_going_on_with_another_space_names_the_difference(tuner: CommandLine) -> None:
    tune(tuner)
    answer = tuner("tune", *FAKE, *SMALL_STUDY, "space.optimizer.learning_rate.high=0.1")
    assert answer.status == 2
    changed = "optimizer.learning_rate was searched over 0.0001 .. 0.01 (log), and is now over 0.0001 .. 0.1 (log)"
    assert f"begun with another search space: {changed}" in answer.errors
    assert "study.name=mine-2" in answer.errors


@pytest.mark.parametrize("choice", ["sampler=gp", "sampler=qmc", "sampler=cmaes"])
def test_a_sampler_without_its_packages_says_what_to_install(
    tuner: CommandLine, monkeypatch: pytest.MonkeyPatch, choice: str
) -> None:
    kinds = ("GPSampler", "QMCSampler", "CmaEsSampler")
    monkeypatch.setattr("tuner.study.sampling.sampler_factory._NEEDED", dict.fromkeys(kinds, ("nowhere_to_be_found",)))
    answer = tuner("tune", *FAKE, *SMALL_STUDY, choice)
    assert answer.status == 2
    assert "pip install nowhere_to_be_found" in answer.errors


# All groups


GROUPS = {
    group: sorted(path.stem for path in (ROOT / "conf" / group).glob("*.yaml") if "???" not in path.read_text())
    for group in ("pruner", "storage", "study")
}  # those that a user has to complete are left out
GROUPS["study"].remove("pbt")  # which takes no pruner; see test_population.py
CHOICES = list(zip_longest(*([f"{group}={name}" for name in names] for group, names in GROUPS.items())))


@pytest.mark.parametrize("choices", CHOICES, ids=lambda choices: " ".join(filter(None, choices)))
def test_every_choice_of_every_group_runs_a_study(
    tuner: CommandLine, choices: tuple[str | None, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_URL", "sqlite:///elsewhere.db")
    needs = ["pruner.lower=-10"] if "pruner=threshold" in choices else []
    tune(
        tuner,
        *filter(None, choices),
        *needs,
        "study.num_trials=8",
        "study.num_select_seeds=1",
        "study.num_test_seeds=1",
    )


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_every_sampler_that_needs_nothing_more_runs_a_study(tuner: CommandLine, sampler: str) -> None:
    tune(tuner, f"sampler={sampler}", "study.num_trials=14", "study.num_select_seeds=1")
    with StudyStore(STORAGE) as store:
        runs = summarise(store, "mine", tuner.folder / "studies" / "mine").stage("screen")
    assert len({run.params["optimizer.learning_rate"] for run in runs}) == 14


def test_a_search_can_start_with_the_default_configuration(tuner: CommandLine) -> None:
    tune(tuner, "warm_start=default")
    with StudyStore(STORAGE) as store:
        first = summarise(store, "mine", tuner.folder).stage("screen")[0]
    default = OmegaConf.create(to_json(preflight("tune")))
    assert len(first.params) > 3
    assert first.params == {path: OmegaConf.select(default, path) for path in first.params}


@pytest.mark.parametrize("name", sorted(SMALL_AGENTS))
def test_the_default_configuration_of_every_agent_lies_in_its_space(name: str) -> None:
    sizes = [
        argument for argument in SMALL_AGENTS[name] if argument.startswith("buffer.") and "dataset" not in argument
    ]
    agent = [argument for argument in SMALL_AGENTS[name] if argument not in sizes]
    definition = define(preflight("tune", [*agent, "warm_start=default"]))
    values = definition.space.values(definition.space.drawn(definition.config), definition.config)
    assert values == {path: OmegaConf.select(OmegaConf.create(definition.config), path) for path in values}


# Real trials


SCRIPT = """
import sys
import tuner

result = tuner.tune({overrides!r})
print(result.verdict.sentence)
print(result.best_params)
print(sorted({{"sklearn", "pandas"}} & sys.modules.keys()))
tuner.train(result.overrides, folder="again")
"""


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
    assert "on 2 fresh seeds" in done.stdout
    assert "\n[]\n" in done.stdout, "notes for optuna-dashboard do without its server, which takes seconds to import"
    with StudyStore(STORAGE) as store:
        summary = summarise(store, "mine", tuner.folder / "studies" / "mine")
    assert {run.outcome for run in summary.runs} == {Outcome.COMPLETE}
    again = OmegaConf.load(tuner.folder / "again" / "config.yaml")
    assert summary.winner_label is not None
    for path, value in summary.params_of(summary.winner_label).items():
        assert OmegaConf.select(again, path) == value


def test_what_a_study_returns_says_how_to_train_the_winner(tuner: CommandLine) -> None:
    import tuner as api

    result = api.tune([*FAKE[2:], *SMALL_STUDY], config_dir=tuner.folder / "mine")
    assert isinstance(result, TuneResult)
    assert result.summary.winner_label is not None
    assert result.best_params == result.summary.params_of(result.summary.winner_label)
    assert judged(to_json(preflight("train", result.overrides))) == judged(result.config)
    assert result.experiment_file.exists()
    assert str(result.verdict.winner)
