"""Two machines, simulated: whole studies over Ray, with machines and processes killed. `pytest -m cluster`."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tuner.chaos import Chaos, assert_equal
from tests.tuner.executors.ray_cluster import ROOT, ClusterChaos, command_of, living, simulated_cluster
from tests.tuner.runs.command.test_command_study import TRAINING
from tests.tuner.studies import CONFIG, run_study, sqlite
from tuner.executors.base import Event, TrialEnded, TrialReported
from tuner.executors.local import LocalExecutor
from tuner.executors.ray.executor import RayExecutor
from tuner.trial import Limits, Outcome, TrialSpec

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]

DQN = (
    *("agent=dqn", "sampler=random", "pruner=none", "tracker=jsonl", "executor.parallel=2"),
    *("network.hidden_sizes=[16]", "training.total_steps=1500", "buffer.learning_starts=100"),
    *("evaluation.num_points=6", "evaluation.num_episodes=4", "study.num_trials=2", "study.num_race_seeds=0"),
    *("study.num_candidates=1", "study.num_select_seeds=1", "study.num_test_seeds=1"),
    *("study.retries=100", "study.max_failures=100"),
)

POPULATION = (
    *("study=pbt", "agent=dqn", "tracker=jsonl", "executor.parallel=1", "network.hidden_sizes=[16]"),
    *("training.total_steps=1200", "buffer.learning_starts=100", "evaluation.num_points=3"),
    *("evaluation.num_episodes=4", "study.num_trials=4", "study.evolution.generations=3"),
    *("study.num_candidates=1", "study.num_select_seeds=1", "study.num_test_seeds=1"),
    *("study.retries=100", "study.max_failures=100"),
)

_OTHERS = (
    *("sampler=random", "pruner=none", "tracker=jsonl", "executor.parallel=2", "space=none", "study.num_trials=2"),
    *("study.num_race_seeds=0", "study.num_candidates=1", "study.num_select_seeds=1", "study.num_test_seeds=1"),
)
SB3 = (
    *("agent=sb3_ppo", "agent.n_steps=32", "agent.batch_size=16", "agent.net_arch=[8]", "env.max_episode_steps=40"),
    *("training.total_steps=192", "evaluation.num_points=3", "evaluation.num_episodes=2", *_OTHERS),
    "+space.agent.learning_rate={low: 1.0e-4, high: 0.1, log: true}",
)
COMMAND = (
    *("agent=command", f"agent.command='{sys.executable} HERE/train.py {{rate}} {{steps}}'", "agent.read=jsonl"),
    *("agent.metric=ret", "agent.step=step", "+agent.rate=0.5", "+space.agent.rate={low: 0.0, high: 1.0}"),
    *("training.total_steps=800", "evaluation.num_points=4", *_OTHERS),
)

PATIENCE_S = 60.0
"""How long a busy machine may take to end processes; trials without a controller would wait for an answer for ever."""


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> None:
    """Ray keeps descriptors and processes of its own until it is shut down."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    with simulated_cluster() as cluster:
        yield cluster


@pytest.fixture(params=["pull", pytest.param("shared", marks=pytest.mark.slow)])
def executor(cluster: Any, request: pytest.FixtureRequest) -> Iterator[RayExecutor]:
    limits = Limits(silence_s=10.0, grace_s=1.0)  # a busy machine keeps trials waiting, too
    with RayExecutor(2, address=cluster.address, limits=limits, files=request.param) as executor:
        yield executor


def iter_events(executor: RayExecutor) -> Iterator[Event]:
    """Until a trial ends."""
    while True:
        for event in executor.wait(60.0):
            yield event
            if isinstance(event, TrialEnded):
                return


def run(executor: RayExecutor, folder: Path, entry: str, verdict: str = "continue", **config: object) -> Any:
    executor.start(TrialSpec("study", "screen", 0, 11, config, entry=f"trial_entries:{entry}"), folder)
    for event in iter_events(executor):
        if isinstance(event, TrialReported):
            executor.answer(event.key, verdict)  # type: ignore[arg-type]
    return event.result


def test_ends_are_what_they_are_on_this_machine(tmp_path: Path, executor: RayExecutor) -> None:
    ends = [
        run(executor, tmp_path / str(number), entry, verdict, learning_rate=0.1, end="exit").outcome
        for number, (entry, verdict) in enumerate(
            [
                ("complete", "continue"),
                ("complete", "prune"),
                ("complete", "stop"),
                ("raise_error", ""),
                ("raise_diverged", ""),
                ("kill_itself", ""),
                ("hang", ""),
            ]
        )
    ]
    assert ends == [
        Outcome.COMPLETE,
        Outcome.PRUNED,
        Outcome.STOPPED,
        Outcome.CRASHED,
        Outcome.DIVERGED,
        Outcome.CRASHED,
        Outcome.HUNG,
    ]


def test_the_working_directory_is_sent_along(tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "at_home.py").write_text("import helper\n\ndef entry(trial):\n    trial.report(1.0, helper.value)\n")
    (tmp_path / "helper.py").write_text("value = 7.5\n")
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "checkpoint.safetensors").write_bytes(bytes(1000))
    monkeypatch.chdir(tmp_path)
    spec = TrialSpec("study", "screen", 0, 11, {}, entry="at_home:entry")
    reports = []
    with RayExecutor(1, address=cluster.address, ship=True) as executor:
        executor.start(spec, tmp_path / "studies" / "0")
        for event in iter_events(executor):
            if isinstance(event, TrialReported):
                reports.append(event.value)
                executor.answer(event.key, "continue")
    assert reports == [7.5]


def facts_of(summary: Any) -> list[Any]:
    return [(run.stage, run.number, run.seed, run.params, run.outcome, run.value, run.curve) for run in summary.runs]


SLOW = {**CONFIG, "sleep_s": 0.05}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Results of a study on this machine."""
    folder = tmp_path_factory.mktemp("local")
    with LocalExecutor(1) as executor:
        return facts_of(run_study(folder, executor, url=sqlite(folder), config=SLOW, num_trials=6))


@pytest.mark.parametrize("kind", ["pull", "shared"])
def test_a_study_over_two_machines_equals_the_local_one(
    tmp_path: Path, cluster: Any, undisturbed: list[Any], kind: Any
) -> None:
    with RayExecutor(1, address=cluster.address, files=kind) as executor:
        summary = run_study(tmp_path, executor, url=sqlite(tmp_path), config=SLOW, num_trials=6)
    assert facts_of(summary) == undisturbed


def test_machines_and_seats_that_die_cost_nothing_but_time(tmp_path: Path, cluster: Any) -> None:
    alone = Chaos(tmp_path / "alone", DQN)
    disturbed = ClusterChaos(cluster, tmp_path / "disturbed", DQN, seed=1)
    alone.run()
    kinds = ["node", "actor"]
    assert disturbed.run(kinds, longest_wait_s=0.4) == []
    assert_equal(disturbed, alone)
    assert disturbed.counted.total() == len(kinds)


@pytest.mark.parametrize("words", [pytest.param(SB3, marks=pytest.mark.slow), COMMAND], ids=["sb3", "command"])
def test_trainers_of_others_give_the_same_numbers_there(tmp_path: Path, cluster: Any, words: tuple[str, ...]) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    typed = [word.replace("HERE", str(tmp_path)) for word in words]
    here, away = Chaos(tmp_path / "here", typed), ClusterChaos(cluster, tmp_path / "away", typed)
    here.run()
    away.run()
    assert len(here.records()) >= 4
    assert len({record["value"] for record in here.records()}) > 1
    assert_equal(away, here)


@pytest.mark.slow
def test_a_population_whose_machines_die_has_the_tree_that_it_would_have_had(tmp_path: Path, cluster: Any) -> None:
    """Copies go on from checkpoints that were made on machines that are gone."""
    alone = Chaos(tmp_path / "alone", POPULATION)
    disturbed = ClusterChaos(cluster, tmp_path / "disturbed", POPULATION, seed=2)
    alone.run()
    assert disturbed.run(["node", "actor"], longest_wait_s=4.0) == []
    assert_equal(disturbed, alone)
    tree = [record["descent"] for record in alone.records() if record["stage"] == "evolve"]
    assert sorted((one["member"], one["generation"]) for one in tree) == [(m, g) for m in range(4) for g in range(3)]


def test_nothing_outlives_a_controller_that_is_killed(tmp_path: Path, cluster: Any) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from tests.tuner.studies import CONFIG, run_study, sqlite\n"
        "from tuner.executors.ray.executor import RayExecutor\n"
        "folder = Path(sys.argv[1])\n"
        "with RayExecutor(2, address=sys.argv[2]) as executor:\n"
        "    run_study(folder, executor, url=sqlite(folder), config={**CONFIG, 'sleep_s': 0.5}, num_trials=6)\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path), cluster.address]
    controller = subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})
    while len(list(tmp_path.glob("studies/study/screen/*/reports.jsonl"))) < 2:
        assert controller.poll() is None
        time.sleep(0.1)
    working = _seats_and_trials()
    assert all(any(kind in command for command in working) for kind in ("ray::Seat", "tuner.trial")), working
    controller.send_signal(signal.SIGKILL)
    controller.wait()
    deadline = time.monotonic() + PATIENCE_S
    while _seats_and_trials() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert _seats_and_trials() == []


def _seats_and_trials() -> list[str]:
    """How seats, fork servers and trials were started."""
    commands = [" ".join(command_of(process)) for process in living()]
    return [command for command in commands if "ray::Seat" in command or "tuner.trial" in command]
