"""Small trainers for `study_chaos.py`: a function, a program that goes on from its files, and a wrapper.

Each counts its steps in a file for each attempt, which a `kill -9` leaves as it is. Run as a program, it imports
nothing of this project.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import numpy as np

STEPS, EVERY, PAUSE_S = 200, 20, 0.04
"""Of a run; between two values of its score; slept in each step, so that a run can be interrupted."""
_TARGET: Final = np.array([1.0, -2.0, 0.5, 3.0])
_COUNTS: Final = "steps-*"
_CHECKPOINTS: Final = "state-*.json"
_KEPT: Final = 3


class Count:
    """The steps of one attempt.

    Args:
        folder: Of the run.
        begins: The step that it goes on from.
    """

    def __init__(self, folder: Path, begins: int) -> None:
        name = _COUNTS.replace("*", f"{time.time_ns()}-{begins}-{os.getpid()}")
        self._file = os.open(folder / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        self._number = 0

    def add(self) -> None:
        """A step was taken: the system keeps what was written, however the process ends."""
        self._number += 1
        os.pwrite(self._file, str(self._number).encode(), 0)


def attempts(folder: Path) -> list[tuple[int, int]]:
    """The attempts of a run that took a step, in order: where each began, and how many steps it took."""
    found = sorted(folder.glob(_COUNTS))
    return [(int(path.name.split("-")[2]), int(path.read_text() or 0)) for path in found]


class Line:
    """Weights found by single steps along noisy gradients. The same state leads to the same numbers.

    Args:
        rate: Of learning.
        seed: Of all random numbers.
        state: To go on from; None: it begins.
    """

    def __init__(self, rate: float, seed: int, state: Mapping[str, Any] | None = None) -> None:
        self._rate, self._dice = rate, np.random.default_rng(seed)
        self._weights, self.steps = np.zeros(len(_TARGET)), 0
        if state is not None:
            self._weights, self.steps = np.array(state["weights"], float), int(state["steps"])
            self._dice.bit_generator.state = json.loads(state["random"])

    @property
    def state(self) -> dict[str, Any]:
        """All of it, as JSON holds it."""
        kept = json.dumps(self._dice.bit_generator.state)
        return {"weights": self._weights.tolist(), "steps": self.steps, "random": kept}

    @property
    def score(self) -> float:
        """Higher is better."""
        return -float(np.square(self._weights - _TARGET).sum())

    def learn(self, count: Count) -> Iterator[float]:
        """Learns to the end; yields the score at each `EVERY`-th step."""
        while self.steps < STEPS:
            time.sleep(PAUSE_S)
            inputs = self._dice.normal(size=len(_TARGET))
            error = inputs @ (self._weights - _TARGET) + self._dice.normal()
            self._weights = self._weights - self._rate * error * inputs
            self.steps += 1
            count.add()
            if self.steps % EVERY == 0:
                yield self.score


def train(rate: float, seed: int, saves: str = "arrays") -> None:
    """The function of agent=function.

    Args:
        rate: Of learning.
        seed: Of the run.
        saves: arrays, or a folder.
    """
    import tuner
    from tuner.runs.function_state import folder_of
    from tuner.trial.context import current_trial

    trial = current_trial()
    assert trial is not None
    state = tuner.resume()
    if isinstance(state, Path):
        state = json.loads((state / "state.json").read_text())
    line = Line(rate, seed, state)
    for score in line.learn(Count(folder_of(trial), line.steps)):
        saved: Any = line.state
        if saves == "folder":
            saved = folder_of(trial) / "my_state"
            saved.mkdir(exist_ok=True)
            (saved / "state.json").write_text(json.dumps(line.state))
        tuner.report(line.steps / STEPS, score, checkpoint=saved, steps=line.steps)


def counting(env: Any, total_steps: int) -> Any:
    """A wrapper of environments of training, for agent=sb3.

    Args:
        env: Of Gymnasium.
        total_steps: Of a run.
    """
    import gymnasium

    class Counting(gymnasium.Wrapper[Any, Any, Any, Any]):
        count: Count | None = None

        def step(self, action: Any) -> Any:
            if self.count is None:
                self.count = _count_of_trial(total_steps)
            self.count.add()
            return super().step(action)

    return Counting(env)


def _count_of_trial(total_steps: int) -> Count:
    from tuner.runs.function_state import folder_of
    from tuner.trial.context import current_trial

    trial = current_trial()
    assert trial is not None
    done = max((step for step, _ in trial.reported), default=0.0)
    return Count(folder_of(trial), round(done * total_steps))


def main() -> None:
    """The program of agent=command. Its checkpoints are not written at once: a kill may leave a part of one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--resume", type=Path)
    args = parser.parse_args()
    line = Line(args.rate, args.seed, None if args.resume is None else json.loads(args.resume.read_text()))
    with Path("log.jsonl").open("a") as log:
        for score in line.learn(Count(Path(".."), line.steps)):
            print(json.dumps({"step": line.steps, "score": score}), file=log, flush=True)
            Path(_CHECKPOINTS.replace("*", f"{line.steps:06d}")).write_text(json.dumps(line.state))
            for path in sorted(Path().glob(_CHECKPOINTS))[:-_KEPT]:
                with suppress(FileNotFoundError):
                    path.unlink()


if __name__ == "__main__":
    main()
