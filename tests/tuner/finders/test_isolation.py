"""Runs in processes of their own: what one does to itself, it does neither to the others nor to the caller's agent."""

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from note_rl.opt_finder import OptFinder
from tests.tuner.finders.agents import Crashing, Dying, Hanging, params, small_dqn
from tests.tuner.finders.jobs import fare
from tuner.executors.base import Event
from tuner.executors.inline import InlineExecutor
from tuner.executors.local import LocalExecutor
from tuner.finders import FinderPlace, LRFinder
from tuner.finders.comparison.verdicts import compare
from tuner.finders.finder_study import Plan, run_plan
from tuner.trial.messages import Limits

NAMES = ["crashes", "dies", "hangs", "fares well"]


def test_a_candidate_that_crashes_dies_or_hangs_is_reported_and_the_others_finish(tmp_path: Path) -> None:
    place = FinderPlace("memory", tmp_path, parallel=4, limits=Limits(silence_s=3.0, grace_s=0.5))
    _, findings = run_plan(Plan("agent", "four", {}, {"candidate": NAMES, "seed": [5]}, fare), place)
    found = compare(NAMES, findings)
    assert [(standing.name, standing.scores) for standing in found.standings] == [("fares well", (7.0,))]
    assert found.failures.keys() == {"crashes", "dies", "hangs"}
    assert "this candidate is broken" in found.failures["crashes"]
    assert found.failures["dies"].startswith("crashed (seed 5)")
    assert found.failures["hangs"].startswith("hung (seed 5)")
    assert found.sentences[0] == "fares well is the only candidate that came to the end: return 7 over 1 seed."


def test_the_agent_is_as_it_was_whatever_its_runs_do_to_theirs(tmp_path: Path) -> None:
    with WithItsOwnNumbers() as executor:
        place = FinderPlace("memory", tmp_path, executor=lambda: contextlib.nullcontext(executor))
        check_as_it_was(tmp_path, place, Crashing)


class WithItsOwnNumbers(InlineExecutor):
    """Gives back the global generators as they were, as runs in processes of their own do not touch those of others."""

    def wait(self, timeout_s: float | None = None) -> list[Event]:
        numbers, states = np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
        try:
            return super().wait(timeout_s)
        finally:
            np.random.set_state(numbers)  # noqa: NPY002
            torch.set_rng_state(states)


@pytest.mark.slow  # the test above has runs in this process, which could do more to the agent
def test_the_agent_is_as_it_was_whatever_happens_to_its_runs(tmp_path: Path) -> None:
    with LocalExecutor(2, "torch", threads=1) as executor:
        place = FinderPlace("memory", tmp_path, executor=lambda: contextlib.nullcontext(executor))
        check_as_it_was(tmp_path, place, Dying)


def check_as_it_was(tmp_path: Path, place: FinderPlace, failing: type[torch.optim.SGD]) -> None:
    """After a comparison in which one optimizer fails, and a search of a rate for an agent that was never trained."""
    agent, fresh = small_dqn(), small_dqn()
    agent.train(optimizer=torch.optim.Adam(params(agent), lr=1e-3), total_steps=260, p=0)
    fresh.optimizer = torch.optim.Adam(params(fresh), lr=1e-3)
    before, learner, trainer = state(agent, tmp_path), agent._learner, agent._trainer
    weights, attributes = [one.detach().clone() for one in params(fresh)], dict(vars(fresh))
    numbers = random_numbers()
    optimizers = {"good": torch.optim.SGD(params(agent), lr=1e-3), "failing": failing(params(agent), lr=1e-3)}
    finder = OptFinder(agent, optimizers, place)
    finder.find(metrics="loss", num_gradient_steps=5, num_seeds=1)
    LRFinder(fresh, place).find(N=5, num_seeds=1)
    assert [standing.name for standing in finder.comparison.standings] == ["good"]
    assert random_numbers() == numbers
    assert state(agent, tmp_path) == before
    assert (agent._learner, agent._trainer) == (learner, trainer)
    assert all(torch.equal(one, other) for one, other in zip(params(fresh), weights, strict=True))
    assert vars(fresh) == attributes
    assert (fresh._learner, fresh.optimizer.param_groups[0]["lr"], len(fresh.optimizer.state)) == (None, 1e-3, 0)


def test_the_processes_of_runs_do_without_optuna() -> None:
    modules = "tuner.finders.learning_rate.tests, tuner.finders.comparison.candidates"
    asked = f"import sys, {modules}; sys.exit('optuna' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", asked], check=False).returncode == 0


@pytest.mark.slow
def test_optimizers_that_crash_die_or_hang(tmp_path: Path) -> None:
    agent = small_dqn()
    optimizers = {
        "good": torch.optim.SGD(params(agent), lr=1e-3),
        "crashing": Crashing(params(agent), lr=1e-3),
        "dying": Dying(params(agent), lr=1e-3),
        "hanging": Hanging(params(agent), lr=1e-3),
    }
    finder = OptFinder(agent, optimizers, FinderPlace("memory", tmp_path, limits=Limits(silence_s=15.0, grace_s=0.5)))
    finder.find(metrics="loss", num_gradient_steps=20, num_seeds=1)
    assert [standing.name for standing in finder.comparison.standings] == ["good"]
    failures = finder.comparison.failures
    assert failures.keys() == {"crashing", "dying", "hanging"}
    assert "this optimizer is broken" in failures["crashing"]
    assert "crashed" in failures["dying"]
    assert "hung" in failures["hanging"]


def random_numbers() -> tuple[bytes, ...]:
    """State of the global generators, as bytes."""
    _, keys, position, *_ = np.random.get_state()  # noqa: NPY002
    return bytes(keys), bytes([position // 256, position % 256]), torch.get_rng_state().numpy().tobytes()


def state(agent: Any, folder: Path) -> bytes:
    """Parameters, targets, slots, pool, counts and random numbers, as bytes."""
    path = folder / f"state-{os.urandom(4).hex()}.safetensors"
    agent.save(path)
    return path.read_bytes()
