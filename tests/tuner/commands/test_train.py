"""`tuner train`: what a run leaves, how it goes on, and what is refused."""

import json
import sys
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pyarrow.parquet
import pytest
import yaml

import tuner as package
from note_rl.errors import DivergedError
from tests.tuner.command_line import RECORDING, SMALL, SMALL_AGENTS, CommandLine
from tests.tuner.runs.reporters import CASES, evaluations, overrides
from tuner.errors import UserError
from tuner.trial.folder import APPENDED, REPLACED, acquire_lock, read_reports


@pytest.mark.parametrize(
    ("agent", "backend"),
    [pytest.param(*case, marks=pytest.mark.slow) if "keras" in case else case for case in CASES[:3]],
)
def test_a_run_leaves_everything_in_its_folder(tuner: CommandLine, agent: str, backend: str) -> None:
    answer = tuner("train", *overrides(agent, backend))
    assert (answer.status, answer.errors) == (0, "")
    assert "watch it: tuner play mine" in answer.output
    assert answer.output.count("compiling the update") == (backend == "keras"), "said once, where it is compiled"
    folder = tuner.folder / "mine"
    assert [fraction for fraction, _ in evaluations(folder)] == [1 / 3, 2 / 3, 1.0]
    assert read_reports(folder) == evaluations(folder)
    history = pyarrow.parquet.read_table(folder / "history.parquet").to_pydict()
    assert set(history) == {"mean_reward", "best_reward", "episode_reward", "step", "time"}
    assert history["best_reward"] == list(np.maximum.accumulate(history["episode_reward"]))
    logged = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["eval/mean_return"] for line in logged if "eval/mean_return" in line][-1] == evaluations(folder)[-1][1]
    trained = [line for line in logged if "train/loss" in line]
    assert trained[-1]["step"] == (256 if agent == "ppo" else 240), (
        "what came last is logged, however short the run was"
    )
    config = yaml.safe_load((folder / "config.yaml").read_text())
    assert (config["training"]["total_steps"], config["backend"]["name"]) == (240, backend)
    assert (folder / "checkpoint.safetensors").is_file()


def test_progress_is_a_line_per_evaluation_where_there_is_no_terminal(tuner: CommandLine) -> None:
    lines = tuner("train", *overrides("dqn", "torch")).output.splitlines()
    assert lines[0] == "training in mine"
    assert [line.split()[0] for line in lines[1:4]] == ["33%", "67%", "100%"]
    assert "80 steps  mean return" in lines[1]


def test_a_line_speaks_of_the_moment_of_its_evaluation(tuner: CommandLine) -> None:
    """Rollouts of 128 steps pass the points at 80, 160 and 240 at 128 and 256."""
    ppo = ("agent=ppo", "env.num_envs=4", "buffer.num_steps=32", "buffer.num_epochs=1", "buffer.batch_size=16")
    answer = tuner("train", *SMALL, *ppo, "training.reward_window=3", "progress.decimals=3", "hydra.run.dir=mine")
    lines = [line for line in answer.output.splitlines() if "%" in line]
    assert [line.split("steps")[0].split() for line in lines] == [["53%", "128"], ["100%", "256"]]
    history = pyarrow.parquet.read_table(tuner.folder / "mine" / "history.parquet").to_pydict()
    for line, step in zip(lines, (128, 256), strict=True):
        mean = [row for row, end in zip(history["mean_reward"], history["step"], strict=True) if end <= step][-1]
        assert f", {mean:.3f} while training" in line
    told = json.loads((tuner.folder / "mine" / "result.json").read_text())["evaluations"]
    assert [point["num_env_steps"] for point in told] == [128, 256, 256]
    assert tuner("train", "resume=mine", "training.total_steps=480").status == 0
    told = json.loads((tuner.folder / "mine" / "result.json").read_text())["evaluations"]
    assert [point["num_env_steps"] for point in told][:3] == [128, 256, 256], "where they took place, once and for all"


def test_an_update_that_is_not_compiled_is_not_said_to_be(tuner: CommandLine) -> None:
    typed = ("backend=keras", "training.jit_compile=false", "hydra.run.dir=mine")
    answer = tuner("train", *SMALL, *SMALL_AGENTS["dqn"], *typed)
    assert (answer.status, answer.errors) == (0, "")
    assert "compiling the update" not in answer.output


def test_the_folder_is_named_after_the_run(tuner: CommandLine) -> None:
    tuner("train", *SMALL, *SMALL_AGENTS["dqn"], "seed=4")
    assert [path.name.split("_", 2)[2] for path in (tuner.folder / "runs").iterdir()] == ["dqn_CartPole-v1_s4"]


def test_ctrl_c_saves_and_says_how_to_continue(tuner: CommandLine) -> None:
    stop = "+tracker.stop={_target_: tests.tuner.command_line.Interrupting, after_steps: 80}"
    answer = tuner("train", *overrides("dqn", "torch"), stop)
    assert answer.status == 130
    assert answer.errors.strip() == "stopped; continue with: tuner train resume=mine"
    assert json.loads((tuner.folder / "mine/result.json").read_text())["outcome"] == "stopped"
    continued = tuner("train", "resume=mine", "tracker=jsonl")
    assert (continued.status, continued.errors) == (0, "")
    straight = tuner("train", *overrides("dqn", "torch"), "hydra.run.dir=straight")
    assert straight.status == 0
    assert evaluations(tuner.folder / "mine") == evaluations(tuner.folder / "straight")
    rows = [json.loads(line) for line in (tuner.folder / "mine/metrics.jsonl").read_text().splitlines()]
    for kind in ("eval/mean_return", "train/loss"):
        steps = [row["step"] for row in rows if kind in row]
        assert steps == sorted(set(steps)), kind
    assert len(rows) == sum(("eval/mean_return" in row) + ("train/loss" in row) for row in rows), "nothing else"


def test_a_finished_run_continues_with_a_larger_budget(tuner: CommandLine) -> None:
    tuner("train", *overrides("dqn", "torch"))
    before = evaluations(tuner.folder / "mine")
    assert "mine has all of its 240 steps; to go on training add training.total_steps=480" in tuner.refused(
        "train", "resume=mine"
    )
    fewer = tuner.refused("train", "resume=mine", "training.total_steps=100")
    assert "mine has all of its 240 steps, and training.total_steps=100 asks for no more" in fewer
    continued = tuner("train", "resume=mine", "training.total_steps=480")
    assert (continued.status, continued.output.splitlines()[0]) == (0, "training in mine, from step 240 on")
    after = evaluations(tuner.folder / "mine")
    assert after[:3] == [(fraction / 2, value) for fraction, value in before]
    assert [fraction for fraction, _ in after[3:]] == [2 / 3, 1.0]
    assert yaml.safe_load((tuner.folder / "mine/config.yaml").read_text())["training"]["total_steps"] == 480


@pytest.mark.parametrize(
    ("typed", "name"), [(("dqn",), "eps"), (("ppo",), "learning_rate"), (("ppo", "schedule=none"), None)]
)
def test_a_run_that_goes_on_says_what_its_schedules_do(
    tuner: CommandLine, typed: tuple[str, ...], name: str | None
) -> None:
    """They are those of the run, not those of the default agent."""
    agent, *more = typed
    assert tuner("train", *overrides(agent, "torch"), *more).status == 0
    again = ("train", "resume=mine", "training.total_steps=480")
    first, second, *_ = tuner(*again).output.splitlines()
    said = "schedules go over all of training.total_steps=480: "
    if name is None:
        assert not second.startswith(said)
        return
    begun = int(first.partition("from step ")[2].partition(" ")[0])
    assert second == f"{said}{name} continues where it is after {100 * begun / 480:.0f} % of it"


def test_a_folder_in_the_place_of_any_file_of_a_run_is_refused_before_it_goes_on(tuner: CommandLine) -> None:
    assert tuner("train", "agent=synthetic", "training.total_steps=100", RECORDING, "hydra.run.dir=run").status == 0
    run = tuner.folder / "run"
    written = (*REPLACED, *APPENDED, "history.parquet", "summary.json", "decisions.jsonl")
    for name in dict.fromkeys([*written, *(path.name for path in run.iterdir() if path.is_file())]):
        kept = (run / name).read_bytes() if (run / name).exists() else None
        (run / name).unlink(missing_ok=True)
        (run / name).mkdir()
        refused = tuner.refused("train", "resume=run", "training.total_steps=200")
        assert f"run/{name}" in refused
        (run / name).rmdir()
        if kept is not None:
            (run / name).write_bytes(kept)
    assert tuner("train", "resume=run").status == 0


def test_what_makes_another_run_cannot_be_changed_on_resume(tuner: CommandLine) -> None:
    tuner("train", *overrides("dqn", "torch"))
    answer = tuner.refused("train", "resume=mine", "agent.gamma=0.5")
    assert "agent.gamma cannot be changed when a run is continued (resume=...), only training.total_steps" in answer
    assert "leave -m and hydra.run.dir out" in tuner.refused("train", "-m", "resume=mine", "seed=1,2")


def test_two_processes_cannot_train_in_one_folder(tuner: CommandLine) -> None:
    tuner("train", *overrides("dqn", "torch"))
    lock = acquire_lock(tuner.folder / "mine", 0.0)
    assert lock is not None
    answer = tuner("train", "resume=mine", "training.total_steps=480")
    assert answer.status == 2
    assert "another process is training in mine" in answer.errors


ENVIRONMENT = """
import gymnasium
import gymnasium
import numpy as np

class MyEnv(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (3,))
    action_space = gymnasium.spaces.Discrete(2, start=1)
    num_steps = 0

    def __init__(self, fail_at=None):
        self.fail_at = fail_at

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), {}

    def step(self, action):
        assert action in (1, 2)
        self.time += 1
        MyEnv.num_steps += 1
        if MyEnv.num_steps == self.fail_at:
            self.broken()
        return self.np_random.uniform(-1, 1, 3).astype(np.float32), 1.0, self.time == 7, False, {}

    def broken(self):
        raise KeyError("missing")

gymnasium.register("MyEnv-v0", MyEnv)
"""


@pytest.fixture
def own_environment(tuner: CommandLine) -> Iterator[str]:
    (tuner.folder / "my_pkg.py").write_text(ENVIRONMENT)
    yield "env.id=my_pkg:MyEnv-v0"
    sys.modules.pop("my_pkg", None)
    gymnasium.registry.pop("MyEnv-v0", None)


def test_an_environment_of_the_users_in_the_working_directory(tuner: CommandLine, own_environment: str) -> None:
    answer = tuner("train", *overrides("dqn", "torch"), own_environment)
    assert (answer.status, answer.errors) == (0, "")
    assert evaluations(tuner.folder / "mine")[-1] == (1.0, 7.0)
    played = tuner("play", "mine")
    assert "mean return 7 over 20 episodes" in played.output
    assert "no film: my_pkg:MyEnv-v0 draws no pictures" in played.output


def test_a_crash_in_the_users_code_is_shown_as_such(tuner: CommandLine, own_environment: str) -> None:
    answer = tuner("train", *overrides("dqn", "torch"), own_environment, "+env.kwargs.fail_at=100")
    assert answer.status == 1
    lines = answer.errors.strip().splitlines()
    assert lines[0].startswith("The error comes from your own code, my_pkg.py line ")
    assert lines[-1] == "KeyError: 'missing'"
    assert "in broken" in answer.errors
    assert "note_rl/" not in answer.errors
    result = json.loads((tuner.folder / "mine/result.json").read_text())
    assert (result["outcome"], result["reason"]) == ("crashed", "KeyError: 'missing'")


def test_a_run_that_diverges_says_so(tuner: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    def diverge(*arguments: Any, **options: Any) -> None:
        raise DivergedError("the loss became nan at gradient step 3")

    monkeypatch.setattr("tuner.commands.train.run_training", diverge)
    answer = tuner("train", *overrides("dqn", "torch"))
    assert (answer.status, answer.errors) == (1, "tuner train: the loss became nan at gradient step 3\n")
    assert json.loads((tuner.folder / "mine/result.json").read_text())["outcome"] == "diverged"


def test_the_python_interface(tuner: CommandLine) -> None:
    outcome = package.train([*SMALL, *SMALL_AGENTS["ppo"], "seed=3"], folder="here")
    assert outcome.folder == tuner.folder / "here"
    assert [point.num_env_steps for point in outcome.evaluations] == [96, 160, 256]  # where rollouts of 32 steps end
    assert outcome.final_return == outcome.evaluations[-1].mean_return
    assert outcome.num_env_steps == 256
    assert len(outcome.returns) > 3
    with pytest.raises(UserError, match=r"did you mean agent\.gamma"):
        package.train(["agent.gama=1"])
    package.report(0.5, 1.0)  # outside a trial: nothing happens


@pytest.mark.parametrize("several", [(), ("-m",)])
def test_whole_numbers_may_be_written_as_powers_of_ten(tuner: CommandLine, several: tuple[str, ...]) -> None:
    chosen = ("agent=synthetic", "training.total_steps=1e3", "evaluation.num_points=5e0")
    answer = tuner("train", *several, *chosen, "hydra.run.dir=run", "hydra.sweep.dir=.", "hydra.sweep.subdir=run")
    assert answer.status == 0, answer
    assert len(read_reports(tuner.folder / "run")) == 5
