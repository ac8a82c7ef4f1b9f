"""Environments in worker processes: the same as in this one, and nothing is left behind."""

import enum
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

import numpy as np
import psutil
import pytest

from note_rl.collect.agent_recipe import Recipe
from note_rl.collect.collector import Collector
from note_rl.collect.policy_runner import PolicyRunner
from note_rl.collect.step_join import columns_of
from note_rl.collect.workers.pool_network import PoolCollector
from note_rl.environments import VectorEnvironment
from note_rl.errors import CheckpointError, EnvironmentMismatchError, SettingsError, WorkerError
from note_rl.policy import NoisyPolicy
from note_rl.policy.noise import GaussianWhiteNoiseProcess
from note_rl.seeding import generator
from note_rl.settings import WorkerSettings
from note_rl.settings.schedules import Linear
from tests.note_rl.collect.counting import (
    CountingAgent,
    Dying,
    Forking,
    Inside,
    OldGym,
    Tidy,
    Watched,
    running_pool,
    settings,
)

TURNS = WorkerSettings(processes=2, overlapping=False)
AHEAD = WorkerSettings(processes=2, overlapping=True)


def agent(workers, env=Watched, mirrored=True, **options):
    made = CountingAgent(env, mirrored)
    made.settings = settings(workers, **options)
    return made


def workers_left():
    """Processes of pools that this one has started."""
    return [
        child for child in psutil.Process().children(recursive=True) if "note_rl.collect" in " ".join(_words(child))
    ]


def _words(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def actions(made):
    """What was done in each phase: [T, E] of updates that the agent had seen."""
    return [sample.action[0].reshape(-1) for sample in made.learner.seen]


@pytest.mark.parametrize(("start_method", "mirrored"), [("forkserver", True), ("spawn", False)])
def test_workers_collect_what_collectors_over_the_same_environments_would(start_method, mirrored):
    workers = WorkerSettings(processes=2, overlapping=False, start_method=start_method)
    made = agent(workers, mirrored=mirrored, num_envs=5)
    policy = NoisyPolicy(GaussianWhiteNoiseProcess(sigma=0.5))
    with running_pool(made, policy) as (pool, act):
        found = [pool.collect(act, 12) for _ in range(3)]
    assert workers_left() == []
    for number, places in enumerate([[0, 1, 2], [3, 4]]):
        policy = NoisyPolicy(GaussianWhiteNoiseProcess(sigma=0.5))
        envs = VectorEnvironment([Watched() for _ in places], 5, places)
        here = Collector(envs, policy, generator(5, "exploration", number))
        for steps, episodes in found:
            expected, expected_episodes = here.collect(act, 12)
            for name, values in columns_of(expected).items():
                np.testing.assert_array_equal(columns_of(steps)[name][:, places], values, name)
            own = [(one.return_, one.length) for one in episodes if one.env_index in places]
            assert own == [(one.return_, one.length) for one in expected_episodes]
    for steps, episodes in found:
        assert [one.env_index for one in episodes] == np.nonzero(steps.ended)[1].tolist()


def test_in_turn_every_phase_is_collected_with_the_newest_parameters():
    made = agent(TURNS, rollout=3)
    made.train(total_steps=5 * 3 * 4)
    assert [set(phase) for phase in actions(made)] == [{0.0}, {1.0}, {2.0}, {3.0}, {4.0}]


def test_overlapping_phases_are_collected_with_parameters_one_phase_old():
    made = agent(AHEAD, rollout=3)
    made.train(total_steps=5 * 3 * 4)
    assert [set(phase) for phase in actions(made)] == [{0.0}, {0.0}, {1.0}, {2.0}, {3.0}]


def everything_seen(made):
    return [np.concatenate([s.obs[0].ravel(), s.action[0].ravel()]).tolist() for s in made.learner.seen]


@pytest.mark.parametrize(("workers", "rollout"), [(TURNS, 6), (AHEAD, 6), (replace(AHEAD, random_places=True), None)])
def test_a_run_in_two_parts_is_the_run_in_one_also_when_it_was_saved_between(workers, rollout, tmp_path):
    def fresh():
        noise = NoisyPolicy(GaussianWhiteNoiseProcess(sigma=0.5, sigma_min=0.1, n_steps_annealing=300))
        return agent(workers, rollout=rollout, policy=noise)

    first, restored, whole = fresh(), fresh(), fresh()
    phases_before = len(first.train(total_steps=4 * 24).losses)
    first.save(tmp_path / "agent.dat")
    first.train(total_steps=8 * 24)
    restored.restore(tmp_path / "agent.dat")
    restored.train(total_steps=8 * 24)
    whole.train(total_steps=8 * 24)
    assert everything_seen(first) == everything_seen(whole)
    assert everything_seen(restored) == everything_seen(whole)[phases_before:]


def test_environments_have_the_same_episodes_whichever_worker_they_belong_to():
    def marks(workers):
        made = agent(workers, num_envs=6)
        with running_pool(made, NoisyPolicy(), seed=6) as (pool, act):
            steps, _ = pool.collect(act, 20)
        return pool._places, steps.obs

    balanced, obs = marks(TURNS)
    drawn, obs_drawn = marks(replace(TURNS, random_places=True))
    three, obs_three = marks(WorkerSettings(processes=3))
    assert balanced == [[0, 1, 2], [3, 4, 5]]
    assert three == [[0, 1], [2, 3], [4, 5]]
    assert drawn != balanced
    assert sorted(np.concatenate(drawn).tolist()) == list(range(6))
    np.testing.assert_array_equal(obs, obs_drawn)
    np.testing.assert_array_equal(obs, obs_three)


def test_a_phase_without_length_ends_when_an_episode_has_ended():
    made = agent(TURNS)
    result = made.train(episodes=9)
    assert len(result.returns) >= 9
    assert all(3 <= length <= 8 for length in result.lengths)


def test_schedules_and_counts_of_steps_reach_the_policies_of_workers():
    noise = NoisyPolicy(GaussianWhiteNoiseProcess(sigma=4.0, sigma_min=0.0, n_steps_annealing=80))
    made = agent(TURNS, rollout=10, policy=noise)
    made.train(total_steps=160)
    noise_of_phases = [np.abs(phase - number).max() for number, phase in enumerate(actions(made))]
    assert noise_of_phases[0] > 1.0  # 40 steps of four environments each: it is gone after two phases
    assert noise_of_phases[2:] == [0.0, 0.0]
    made = agent(
        TURNS, rollout=10, policy=NoisyPolicy(GaussianWhiteNoiseProcess()), schedules={"sigma": Linear(8.0, 0.0)}
    )
    made.train(total_steps=400)
    spreads = [np.std(phase) for phase in actions(made)]
    assert spreads[0] > 4.0
    assert spreads[-1] < 2.0  # a tenth of 8, instead of 1


Kind = enum.IntEnum("Kind", "A B", module="__main__")


def test_attributes_of_an_agent_that_is_made_again_are_those_of_now():
    made = agent(TURNS, mirrored=False, num_envs=2)
    made.kind = Kind.A  # a number, but of a class that workers do not have
    with running_pool(made, NoisyPolicy()) as (pool, act):
        made.offset = np.float32(3.0)
        first, _ = pool.collect(act, 2)
        made.offset = -1.0
        second, _ = pool.collect(act, 2)
    assert (first.action == 3.0).all()
    assert (second.action == -1.0).all()


@pytest.mark.parametrize("per_environment", [False, True])
def test_what_anneals_goes_on_where_it_was_with_other_workers(per_environment):
    def policy():
        return NoisyPolicy(GaussianWhiteNoiseProcess(sigma=1.0, sigma_min=0.0, n_steps_annealing=200))

    given = [policy() for _ in range(4)] if per_environment else policy()
    made = agent(TURNS, rollout=10, policy=given)
    made.train(total_steps=1000)
    made.settings = replace(made.settings, workers=WorkerSettings(processes=4, overlapping=False))
    made.train(total_steps=1040)
    former, last = made.learner.seen[0], made.learner.seen[-1]
    assert np.std(former.action) > 0.3
    assert np.unique(last.action).size == 1  # the number of updates, without noise


def test_whether_workers_run_ahead_changes_nothing_about_their_episodes():
    made = agent(TURNS, rollout=3)
    made.train(total_steps=24)
    running = made._trainer.collector
    made.settings = replace(made.settings, workers=AHEAD)
    made.train(total_steps=48)
    assert made._trainer.collector is running
    assert [phase.tolist() for phase in actions(made)] == [[0] * 12, [1] * 12, [2] * 12, [2] * 12]


def test_a_start_that_is_refused_leaves_no_descriptor_open():
    made = agent(TURNS, mirrored=False)
    made.recipe = Recipe(CountingAgent, (threading.Lock(),), {})
    act = PolicyRunner(made.learner, made.obs_normaliser, False)
    pool = PoolCollector(made, made.settings, NoisyPolicy(), 0)
    before = psutil.Process().num_fds()
    with pytest.raises(SettingsError, match="argument 'env' of CountingAgent"):
        pool.begin(act)
    assert psutil.Process().num_fds() == before


def test_each_object_of_a_list_goes_to_one_worker():
    made = agent(TURNS, env=[Inside() for _ in range(3)], num_envs=None, rollout=None)
    made.settings = replace(made.settings, num_envs=None)
    with running_pool(made, NoisyPolicy()) as (pool, act):
        steps, _ = pool.collect(act, 4)
    pids = [set(steps.obs[:, place, 0].tolist()) for place in range(3)]
    assert pids[0] == pids[1] != pids[2]
    assert float(os.getpid()) not in pids[0] | pids[2]
    assert not steps.obs[..., 1].any()  # no framework was imported there


def test_an_environment_that_breaks_the_rules_is_refused_as_in_this_process():
    made = agent(TURNS, env=OldGym, rollout=3)
    with pytest.raises(EnvironmentMismatchError, match=r"^step\(\) of OldGym gave a tuple of 4, .*give them\)$"):
        made.train(total_steps=1000)
    assert workers_left() == []


@pytest.mark.parametrize("workers", [TURNS, AHEAD])
def test_the_traceback_of_a_worker_is_told(workers):
    made = agent(workers, env=lambda: Watched(fails_at=2.0), rollout=3)
    with pytest.raises(WorkerError, match=r"ZeroDivisionError: the bridge has collapsed\n(.|\n)*counting.py.*in step"):
        made.train(total_steps=1000)
    assert workers_left() == []


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_a_killed_worker_is_missed_though_its_environments_child_holds_the_line(start_method, tmp_path):
    workers = WorkerSettings(processes=2, start_method=start_method)
    made = agent(workers, env=partial(Forking, str(tmp_path / "child")), rollout=3)
    try:
        with pytest.raises(WorkerError, match="was ended by SIGKILL"):
            made.train(total_steps=100)
    finally:
        for pid in (tmp_path / "child").read_text().split():
            os.kill(int(pid), signal.SIGKILL)


@pytest.mark.parametrize("start_method", ["forkserver", "spawn"])
def test_a_killed_worker_ends_training_with_the_name_of_the_signal(start_method):
    made = agent(replace(TURNS, start_method=start_method), env=Dying, rollout=3)
    with pytest.raises(WorkerError, match="was ended by SIGKILL"):
        made.train(total_steps=1000)
    assert workers_left() == []


def test_a_worker_that_is_killed_is_missed_at_once_while_it_collects_and_while_the_agent_learns():
    made = agent(AHEAD, env=lambda: Watched(step_s=30.0), rollout=3)
    killed = []

    def kill():
        while not killed:
            found = [child for child in workers_left() if child.num_threads() == 2 and not child.children()]
            if len(found) >= 2:
                time.sleep(0.3)
                killed.append(time.monotonic())
                found[0].kill()

    thread = threading.Thread(target=kill)
    thread.start()
    with pytest.raises(WorkerError, match="was ended by SIGKILL"):
        made.train(total_steps=1000)
    assert time.monotonic() - killed[0] < 10.0  # a step takes 30 s
    thread.join()
    assert workers_left() == []


def test_nothing_is_left_when_the_agent_fails_and_training_can_go_on():
    whole = agent(AHEAD, rollout=3)
    whole.train(total_steps=72)
    made = agent(AHEAD, rollout=3)
    made.fails_at = 2.0
    with pytest.raises(ArithmeticError, match="stopped here"):
        made.train(total_steps=72)
    assert workers_left() == []
    made.fails_at = None
    made.train(total_steps=72)
    assert everything_seen(made) == everything_seen(whole)


@pytest.mark.parametrize("fails_at", [None, 2.0])
def test_workers_close_their_environments_and_say_their_last_words(fails_at, tmp_path, capfd):
    made = agent(TURNS, env=lambda: Tidy(str(tmp_path), fails_at=fails_at), rollout=3)
    with nullcontext() if fails_at is None else pytest.raises(WorkerError, match="the bridge has collapsed"):
        made.train(total_steps=36)
    assert workers_left() == []
    assert len(list(tmp_path.iterdir())) == made.settings.num_envs
    assert capfd.readouterr().out.count("closed") == made.settings.num_envs


def test_paths_to_import_from_need_not_be_text(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [*sys.path, tmp_path])
    made = agent(TURNS, rollout=3)
    assert made.train(total_steps=36).num_env_steps == 36


def test_every_worker_has_an_environment_or_it_is_said(caplog):
    made = agent(TURNS, rollout=3, num_envs=1)
    made.train(total_steps=6)
    assert "processes=2, but num_envs=1: every worker process needs an environment" in caplog.text
    measured = agent(TURNS, rollout=3, num_envs=1)
    measured.settings = replace(measured.settings, num_envs="auto")
    measured._measured = (measured.env, 1)
    measured.train(total_steps=12)
    assert measured._trainer.collector.num_envs == TURNS.processes


def test_what_cannot_be_pickled_is_refused_by_name():
    class Locked(Watched):
        def __init__(self):
            super().__init__()
            self.lock = threading.Lock()

    with pytest.raises(
        SettingsError, match=r"sends agent.env\[1\] to worker.*lock.*set self.env to an id, an EnvFactory"
    ):
        agent(TURNS, env=[Watched(), Locked()], num_envs=2).train(total_steps=10)
    made = CountingAgent(Watched, mirrored=threading.Lock())  # true, but no plain argument
    made.settings = settings(TURNS)
    made.mirrored = False
    with pytest.raises(SettingsError, match=r"constructor's argument 'mirrored' of CountingAgent.*lock"):
        made.train(total_steps=10)
    assert workers_left() == []


def test_a_checkpoint_of_other_workers_is_refused(tmp_path):
    made = agent(TURNS, rollout=3)
    made.train(total_steps=12)
    made.save(tmp_path / "agent.dat")
    for workers, described in (
        (None, "2 worker processes"),
        (WorkerSettings(processes=4), "4 environments in 4 worker"),
    ):
        other = agent(workers, rollout=3)
        other.restore(tmp_path / "agent.dat")
        with pytest.raises(CheckpointError, match=described):
            other.train(total_steps=24)
    here = agent(None, rollout=3)
    here.train(total_steps=12)
    here.save(tmp_path / "agent.dat")
    other = agent(TURNS, rollout=3)
    other.restore(tmp_path / "agent.dat")
    with pytest.raises(CheckpointError, match="stepped in the training process, this run has 4 environments in 2"):
        other.train(total_steps=24)


SCRIPT = """
    import ctypes, os, sys, time
    import numpy as np
    from tests.note_rl.collect.counting import CountingAgent, Watched, settings
    from note_rl.settings import WorkerSettings

    HERE = sys.argv[0]

    class Slow(Watched):
        def step(self, action):
            if action[0] >= 2.0:
                open(HERE + f".{os.getpid()}", "w").close()
                if sys.argv[1] == "hold":
                    ctypes.PyDLL(None).sleep(60)  # and no other thread runs
                time.sleep(60.0)
            return super().step(action)

    agent = CountingAgent(Watched if sys.argv[1] == "work" else Slow)
    agent.settings = settings(WorkerSettings(processes=2, start_method=sys.argv[2]), rollout=3)
    print(len(agent.train(total_steps=72).returns))
"""


def run_script(tmp_path, *arguments):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    return subprocess.Popen(
        [sys.executable, str(script), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def test_a_script_needs_no_guard_and_its_classes_travel(tmp_path):
    process = run_script(tmp_path, "work", "spawn")
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert int(output) > 4


@pytest.mark.parametrize(
    ("start_method", "way", "what"),
    [
        ("forkserver", "kill", "hang"),
        ("spawn", "kill", "hold"),
        ("forkserver", "interrupt", "hang"),
        ("spawn", "interrupt", "hold"),
    ],
)
def test_workers_end_with_the_process_that_trains(tmp_path, start_method, way, what):
    process = run_script(tmp_path, what, start_method)
    wait_for(lambda: len(list(tmp_path.glob("script.py.*"))) == 2)
    workers = psutil.Process(process.pid).children(recursive=True)
    assert len(workers) == (3 if start_method == "forkserver" else 4)
    if way == "kill":
        process.kill()
    else:
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, errors = process.communicate(timeout=20)
    _, alive = psutil.wait_procs(workers, timeout=20)
    assert alive == []
    if way == "interrupt":
        assert errors.count("Traceback") == 1
        assert errors.rstrip().endswith("KeyboardInterrupt")


def wait_for(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
