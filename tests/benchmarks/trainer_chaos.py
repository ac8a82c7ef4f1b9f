# ruff: noqa: T201
"""kill -9 of studies of other trainers: functions, algorithms of Stable-Baselines3, and programs.

`study_chaos.py` runs these cases. A study is run twice, once alone and once disturbed.
"""

import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import psutil

from tests.benchmarks import chaos_programs
from tests.benchmarks.chaos_programs import EVERY, STEPS
from tests.tuner.chaos import ROOT, STUDY, Chaos, assert_equal
from tuner.results.records import SCREEN
from tuner.runs.function_state import REPORT_METRIC, REPORT_STEP
from tuner.trial import folder as files

KINDS: Final = ("controller", "forkserver", "trial", "everything")
PROGRAM: Final = "program"
"""A kill of the program alone, which its trial has started."""
_COMMON = (
    *("sampler=random", "pruner=none", "tracker=jsonl", "executor.parallel=2", "space=none"),
    *("study.num_race_seeds=0", "study.num_candidates=2", "study.num_select_seeds=1", "study.num_test_seeds=1"),
    *("study.retries=1000", "study.max_failures=1000", "study.num_trials=6"),
)
_RATE = ("+agent.rate=0.1", "+space.agent.rate={low: 0.001, high: 0.1, log: true}")
_SB3_STEPS, _SB3_POINTS = 6000, 10
_COUNTED = f"{{_target_: {chaos_programs.__name__}.counting, _partial_: true, total_steps: {_SB3_STEPS}}}"
_SB3 = (
    *(f"training.total_steps={_SB3_STEPS}", f"evaluation.num_points={_SB3_POINTS}", "evaluation.num_episodes=2"),
    *("env.max_episode_steps=50", "agent.net_arch=[16]", f"+wrapper_training.count={_COUNTED}"),
    "+space.agent.learning_rate={low: 1.0e-4, high: 1.0e-2, log: true}",
)
_SCRIPT = ROOT / "tests" / "tuner" / "runs" / "command" / "ppo_script.py"
_PPO_STEPS = 2048
_PPO = (
    f"{sys.executable} {_SCRIPT} --learning-rate {{learning_rate}} --seed {{seed}} --total-timesteps {{steps}} "
    "--num-steps 32 --num-envs 2"
)


@dataclass(frozen=True)
class Case:
    """A study.

    Attributes:
        words: Of `tuner tune`.
        interval: Steps of an evaluation interval; 0: the program counts none, and begins anew when it is ended.
        steps: Of a run.
        is_exact: Whether a run that goes on gives the same numbers as one that was left alone.
    """

    words: tuple[str, ...]
    interval: int
    steps: int
    is_exact: bool = True


def _function(saves: str) -> Case:
    words = ("agent=function", f"agent._target_={chaos_programs.__name__}.train", f"+agent.saves={saves}", *_RATE)
    return Case((*words, f"training.total_steps={STEPS}"), EVERY, STEPS)


def _sb3(*words: str) -> Case:
    return Case((*words, *_SB3), _SB3_STEPS // _SB3_POINTS, _SB3_STEPS, is_exact=False)


CASES: Final[Mapping[str, Mapping[str, Case]]] = {
    "functions": {saves: _function(saves) for saves in ("arrays", "folder")},
    "sb3": {
        "ppo": _sb3("agent=sb3_ppo", "agent.n_steps=64", "agent.batch_size=32", "agent.n_epochs=2"),
        "dqn": _sb3("agent=sb3_dqn", "agent.learning_starts=100", "agent.buffer_size=2000"),
    },
    "commands": {
        "goes-on": Case(
            (
                "agent=command",
                f"agent.command='{sys.executable} {chaos_programs.__file__} --rate {{rate}} --seed {{seed}}'",
                *("agent.resume_flag='--resume {checkpoint}'", "agent.checkpoint='state-*.json'", *_RATE),
                *("agent.read=jsonl", "agent.metric=score", "agent.step=step", f"training.total_steps={STEPS}"),
                f"evaluation.num_points={STEPS // EVERY // 2}",
            ),
            2 * EVERY,
            STEPS,
        ),
        "begins-anew": Case(
            (
                *("agent=command", f"agent.command='{_PPO}'", "agent.read=jsonl", "agent.step=global_step"),
                *("agent.metric=charts/episodic_return", "evaluation.num_points=4", "+agent.learning_rate=1e-3"),
                "+space.agent.learning_rate={low: 1e-4, high: 1e-2, log: true}",
                f"training.total_steps={_PPO_STEPS}",
            ),
            0,
            _PPO_STEPS,
        ),
    },
}
"""By what is typed behind `study_chaos.py`, and by a name within."""


class ProgramChaos(Chaos):
    """Kills programs as well, whose trials live on."""

    def _strike(self, process: Any, kind: str) -> bool:
        if kind != PROGRAM:
            return super()._strike(process, kind)
        for trial in self._trials():
            try:
                programs = trial.children()
                for one in programs:
                    one.kill()
            except psutil.NoSuchProcess:
                continue
            if programs:
                return True
        return False


def disturb_trainers(name: str, rounds: int) -> None:
    """Kills each study of `CASES[name]` an equal number of times, and prints what was done and found.

    Args:
        name: Of the cases.
        rounds: How many kills, all cases together.
    """
    cases = CASES[name]
    kinds = (*KINDS, PROGRAM) if name == "commands" else KINDS
    counted, began = Counter[str](), time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        for number, (of, case) in enumerate(cases.items()):
            share = rounds // len(cases) + (number < rounds % len(cases))
            counted += _disturb(f"{name}-{of}", case, share, kinds, Path(place))
    print(f"{counted.total()} kills {dict(counted)} in {time.monotonic() - began:.0f} s")


def _disturb(name: str, case: Case, rounds: int, kinds: Sequence[str], place: Path) -> Counter[str]:
    words = (*_COMMON, *case.words)
    alone = ProgramChaos(place / f"{name}-alone", words)
    alone.run()
    compare(alone, alone, case)
    waiting = [kinds[number % len(kinds)] for number in range(rounds)]
    counted = Counter[str]()
    for copy in range(rounds):  # a study that is over before is followed by another
        disturbed = ProgramChaos(
            place / f"{name}-{copy}", words, copy, lambda line: print(f"{name} {line}", flush=True)
        )
        waiting = disturbed.run(waiting, longest_wait_s=3.0)
        counted += disturbed.counted
        print(f"{name}: {compare(disturbed, alone, case)}", flush=True)
        if not waiting:
            break
    return counted


def compare(disturbed: Chaos, alone: Chaos, case: Case) -> str:
    """Nothing is lost, nothing doubled; returns what was found, in a line.

    Raises:
        AssertionError: Names what differs.
    """
    runs, expected = disturbed.records(), alone.records()
    twice = [
        key for key, times in Counter((run["stage"], run["label"], run["seed"]) for run in runs).items() if times > 1
    ]
    assert not twice, f"a configuration has run twice on a seed: {twice}"
    found = (path.parent for path in (disturbed.folder / "studies" / STUDY).glob(f"*/*/{files.REPORTS_FILE}"))
    stages = {run["stage"] for run in runs}  # a random policy is measured beside them
    places = sorted(path for path in found if path.parent.name in stages)
    assert len(places) == len(runs), f"{len(places)} folders of {len(runs)} runs"
    for place in places:
        assert_once(place)
    losses = [loss for place in places for loss in losses_of(place, case)] if case.interval else []
    repeated = f"{len(losses)} attempts ended early and lost {sum(losses)} steps, {max(losses, default=0)} at most"
    if case.is_exact:
        assert_equal(disturbed, alone)
        return f"{len(runs)} runs, equal; {repeated if case.interval else 'programs began anew'}"
    assert [_plan(run) for run in runs if run["stage"] == SCREEN] == [
        _plan(one) for one in expected if one["stage"] == SCREEN
    ]
    assert Counter(run["stage"] for run in runs) == Counter(run["stage"] for run in expected)
    equal = 0
    for run, one in zip(runs, expected, strict=True):
        if run["stage"] == SCREEN:
            known = points_of_first_attempt(disturbed.folder / "studies" / STUDY / SCREEN, run["number"], case)
            assert run["curve"][:known] == one["curve"][:known], f"{run} began as {one}"
            equal += known
    return f"{len(runs)} runs of the same configurations and seeds, {equal} scores before kills equal; {repeated}"


def _plan(run: Mapping[str, Any]) -> list[Any]:
    """Values of a run that do not depend on its scores."""
    return [run["number"], run["label"], run["seed"], run["params"], run["outcome"], [step for step, _ in run["curve"]]]


def points_of_first_attempt(stage: Path, number: int, case: Case) -> int:
    """How many points of a run were reported before anything was killed."""
    (place,) = (path for path in stage.iterdir() if path.name.isdigit() and int(path.name) == number)
    tries = chaos_programs.attempts(place)
    return case.steps // case.interval if len(tries) == 1 else max(0, tries[0][1] - 1) // case.interval


def assert_once(place: Path) -> None:
    """Each point of a run was reported once, and stands once in its metrics.

    Raises:
        AssertionError: Names the file.
    """
    for name, keys in ((files.REPORTS_FILE, ("step",)), (files.METRICS_FILE, (REPORT_STEP,))):
        rows = list(_rows(place / name))
        kinds = ([row for row in rows if (REPORT_METRIC in row) == is_value] for is_value in (True, False))
        for several in kinds:
            points = [tuple(row[key] for key in keys) for row in several if all(key in row for key in keys)]
            assert len(points) == len(set(points)), f"{place / name} has a point twice"


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        yield from (json.loads(line) for line in path.read_text().splitlines())


def losses_of(place: Path, case: Case) -> list[int]:
    """The steps that each attempt but the last one of a run took for nothing: one evaluation interval at most.

    Raises:
        AssertionError: It lost more, or left steps out.
    """
    tries = chaos_programs.attempts(place)
    assert tries, f"{place} took no step"
    assert tries[0][0] == 0, f"{place} began at {tries[0][0]}"
    ends = [begin + steps for begin, steps in tries]
    assert ends[-1] == case.steps, f"{place} ended at {ends[-1]} of {case.steps}"
    losses = [end - begin for end, (begin, _) in zip(ends, tries[1:], strict=False)]
    assert all(0 <= loss <= case.interval for loss in losses), f"{place} lost {losses}: {tries}"
    return losses
