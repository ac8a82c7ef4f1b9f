"""One YAML of the user's own in the group `executor` serves every command that runs trials."""

import pytest
import yaml

from tests.tuner.command_line import SMALL, SMALL_AGENTS, CommandLine
from tests.tuner.finders.jobs import fare
from tests.tuner.own_executor import NOTES
from tuner.finders import FinderPlace
from tuner.finders.finder_study import Plan, run_plan

OWN = ("--config-dir", "mine")
SWEEP = (
    *("-m", "hydra/sweeper=optuna", "+executor@hydra.sweeper.executor=noting"),
    "hydra.sweeper.direction=maximize",
)


@pytest.fixture(autouse=True)
def _own_group(tuner: CommandLine) -> None:
    folder = tuner.folder / "mine" / "executor"
    folder.mkdir(parents=True)
    target = "_target_: tests.tuner.own_executor.NotingExecutor"
    (folder / "noting.yaml").write_text(f"{target}\nnotes: {tuner.folder / NOTES}\nparallel: 2\n")


def noted(tuner: CommandLine) -> list[str]:
    return (tuner.folder / NOTES).read_text().splitlines()


def test_tune_with_its_probe(tuner: CommandLine) -> None:
    small = ("study.num_trials=2", "study.num_candidates=1", "study.num_select_seeds=1", "study.num_test_seeds=1")
    study = ("study.num_race_seeds=0", "study.name=s", "storage=journal")
    answer = tuner(
        "tune", *OWN, "executor=noting", *SMALL, *SMALL_AGENTS["dqn"], *small, *study, "~space.buffer", "warm_start=off"
    )
    assert answer.status == 0, answer
    runs = ["probe/0", "screen/0", "screen/1", "confirm/0", "test/0", "test/1"]
    assert noted(tuner) == [f"s {run} of 2" for run in runs]


def test_find(tuner: CommandLine) -> None:
    asked = ("finder.candidates=[adam,sgd]", "finder.metric=loss", "finder.num_gradient_steps=4", "finder.num_seeds=1")
    own = ("executor=noting", "storage=journal", "study.name=f")
    answer = tuner("find", "optimizer", *OWN, *own, *SMALL, *SMALL_AGENTS["dqn"], *asked)
    assert answer.status == 0, answer
    assert noted(tuner) == ["f screen/0 of 2", "f screen/1 of 2"]


def test_what_its_constructor_raises_is_said(tuner: CommandLine) -> None:
    (tuner.folder / "broken_place.py").write_text("class Broken:\n    def __init__(self): raise KeyError('no queue')\n")
    (tuner.folder / "mine" / "executor" / "broken.yaml").write_text("_target_: broken_place.Broken\n")
    answer = tuner("tune", *OWN, "executor=broken", "agent=synthetic", "study.name=s", "storage=journal")
    assert answer.status == 2
    assert "Error in call to target 'broken_place.Broken': KeyError('no queue')" in answer.errors


def test_compare_runs_again_what_was_lost_with_its_machine(tuner: CommandLine) -> None:
    asked = (*SMALL, *SMALL_AGENTS["ppo"], "adaptive=ppo_kl", "num_seeds=2")
    target = "_target_: tests.tuner.own_executor.LosingExecutor"
    (tuner.folder / "mine" / "executor" / "losing.yaml").write_text(f"{target}\nnum_lost: 3\ntoo_often: false\n")
    losing = (*OWN, "executor=losing")
    alone = tuner("compare", *asked, "executor=inline", "hydra.run.dir=alone")
    lossy = tuner("compare", *losing, *asked, "hydra.run.dir=lossy")
    assert (alone.status, lossy.status) == (0, 0), lossy
    assert lossy.output.replace("lossy", "alone") == alone.output
    answer = tuner("compare", *losing, "executor.too_often=true", *asked, "hydra.run.dir=lost")
    assert answer.status != 0
    assert "came to no good end: its machine is gone" in answer.errors


def test_compare_gives_the_same_scores_by_any_executor(tuner: CommandLine) -> None:
    asked = (*SMALL, *SMALL_AGENTS["ppo"], "adaptive=ppo_kl", "num_seeds=2")
    answer = tuner("compare", *OWN, "executor=noting", *asked, "hydra.run.dir=by_two")
    assert answer.status == 0, answer
    lines = [line.split() for line in answer.output.splitlines() if " seed " in line]
    assert [arm for arm, *_ in lines] == ["adaptive", "frozen"] * 2
    assert noted(tuner) == [f"compare {arm}/{seed} of 2" for arm, _, seed, _ in lines]
    scores = tuner.folder / "by_two" / "compare.jsonl"
    scores.write_bytes(scores.read_bytes()[:-5])
    again = tuner("compare", *OWN, "executor=noting", *asked, "hydra.run.dir=by_two")
    assert (again.output, len(noted(tuner))) == (answer.output, 5), "only the score that was cut short is not known"
    assert tuner("compare", *asked, "hydra.run.dir=one_by_one").output == answer.output
    assert len(noted(tuner)) == 5, "without a choice, in this process"


def test_a_comparison_says_why_a_run_came_to_no_end(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*arguments: object) -> None:
        raise RuntimeError("it is broken")

    monkeypatch.setattr("tuner.runs.training.run_training", breaks)
    asked = (*SMALL, *SMALL_AGENTS["ppo"], "adaptive=ppo_kl", "num_seeds=2", "hydra.run.dir=pairs")
    answer = tuner("compare", *asked)
    assert answer.status == 2
    assert "came to no good end: RuntimeError: it is broken" in answer.errors
    assert not (tuner.folder / "pairs" / "compare.jsonl").exists()


def test_a_finder_from_python(tuner: CommandLine) -> None:
    node = yaml.safe_load((tuner.folder / "mine" / "executor" / "noting.yaml").read_text())
    place = FinderPlace("memory", tuner.folder, "p", executor=node)
    run_plan(Plan("agent", "one", {}, {"candidate": ["fares well"], "seed": [5, 6]}, fare), place)
    assert noted(tuner) == ["p screen/0 of 2", "p screen/1 of 2"]


@pytest.mark.parametrize(
    ("asked", "parallel"), [pytest.param((), 2, marks=pytest.mark.slow), (("hydra.sweeper.n_jobs=1",), 1)]
)
def test_a_hydra_sweep(tuner: CommandLine, asked: tuple[str, ...], parallel: int) -> None:
    search = ("agent=synthetic", "seed=range(0,2)", "hydra.sweeper.name=h", "hydra/sweeper/sampler=grid")
    answer = tuner("train", *OWN, *SWEEP, *search, *asked, "tracker=jsonl")
    assert answer.status == 0, answer
    assert noted(tuner) == [f"h screen/{number} of {parallel}" for number in range(2)]


def test_settings_of_the_sweepers_own_executor_are_refused_beside_it(tuner: CommandLine) -> None:
    answer = tuner("train", *OWN, *SWEEP, "agent=synthetic", "seed=range(0,3)", "hydra.sweeper.threads=2")
    assert answer.status == 2
    assert "hydra.sweeper.threads is for the jobs of this machine" in answer.errors
    assert not (tuner.folder / NOTES).exists()
