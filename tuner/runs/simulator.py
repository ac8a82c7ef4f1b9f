"""A training run that takes no time: synthetic learning curves with a known optimum, noise over seeds, and accidents.

For trying the platform out (`tuner tune agent=synthetic executor=inline`) and for testing it: what a sampler, a pruner
or the protocol finds can be compared with `expected_curve`, which has no noise. Everything random follows from the
seed and the configuration, so a run that is repeated or continued repeats itself.
"""

import math
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from note_rl.support.setting_fields import setting
from note_rl.support.value_kinds import NOT_NEGATIVE, POSITIVE, SHARE, SHARE_BELOW_1, Count, OneOf
from tuner.config.section_base import Section
from tuner.trial.context import current_trial
from tuner.trial.reporter import Reporter

BEST = 100.0
"""Score of the best configuration: learning_rate 1e-3, gamma 0.99, batch_size 64, activation tanh."""

_ACTIVATIONS = {"tanh": 0.0, "relu": 0.5, "sigmoid": 1.5}
_SPEED = 4.0
_HANG_S = 3600.0
_MEMORY_STEP = 16 * 2**20


@dataclass(frozen=True)
class Synthetic(Section, path="agent"):
    """A synthetic learner. Called with a seed it reports its learning curve, from where an earlier attempt stopped.

    The scores at the end form one smooth hill over the first four arguments; the fifth changes nothing.

    Attributes:
        learning_rate: Best at 1e-3; a tenth of it or ten times as much costs two thirds of the score.
        gamma: Best at 0.99.
        batch_size: Best at 64.
        activation: tanh is best, then relu, then sigmoid.
        entropy_coef: Does nothing.
        num_points: Reports of a run, on an even grid.
        seed_noise: Standard deviation, over seeds, of the level of a whole run.
        evaluation_noise: Standard deviation of each report around the run's own curve.
        diverge_above: Runs with a higher learning rate diverge half-way; None: none does.
        crash_rate: Share of runs that crash once, somewhere behind their first report; continued, they get through.
        hang_rate: Share of runs that once fall silent for an hour.
        diverge_rate: Share of configurations that report NaN, at every attempt.
        memory_rate: Share of configurations that run out of memory, at every attempt.
        memory_mb: So much memory such a run takes before it raises MemoryError; a limit of the executor may come first.
        sleep_s: Seconds of work before each report.
        num_helpers: Child processes that a run keeps, and without which it cannot go on.
    """

    learning_rate: float = setting(1e-4, POSITIVE)
    gamma: float = setting(0.9, SHARE_BELOW_1)
    batch_size: int = setting(256, Count())
    activation: str = setting("relu", OneOf(tuple(_ACTIVATIONS)))
    entropy_coef: float = 0.0
    num_points: int = setting(9, Count())
    seed_noise: float = setting(5.0, NOT_NEGATIVE)
    evaluation_noise: float = 2.0
    diverge_above: float | None = None
    crash_rate: float = setting(0.0, SHARE)
    hang_rate: float = setting(0.0, SHARE)
    diverge_rate: float = setting(0.0, SHARE)
    memory_rate: float = setting(0.0, SHARE)
    memory_mb: float = setting(64.0, NOT_NEGATIVE)
    sleep_s: float = setting(0.0, NOT_NEGATIVE)
    num_helpers: int = setting(0, Count(0))

    @property
    def quality(self) -> float:
        """Score that a run comes to without noise, in (0, 100]."""
        distances = (
            math.log10(self.learning_rate / 1e-3) / 0.7,
            math.log10((1.0 - self.gamma) / 0.01),
            math.log2(self.batch_size / 64) / 3.0,
            _ACTIVATIONS[self.activation],
        )
        return BEST * math.exp(-0.5 * sum(distance**2 for distance in distances))

    def expected_curve(self) -> list[tuple[float, float]]:
        """The learning curve without noise: (fraction of the budget, score)."""
        points = [point / self.num_points for point in range(1, self.num_points + 1)]
        return [(x, self.quality * math.expm1(-_SPEED * x) / math.expm1(-_SPEED)) for x in points]

    def curve(self, seed: int) -> list[tuple[float, float]]:
        """The learning curve of one seed."""
        rng = self._random(seed, "curve")
        level = self.seed_noise * rng.gauss(0.0, 1.0)
        return [(x, value + level + self.evaluation_noise * rng.gauss(0.0, 1.0)) for x, value in self.expected_curve()]

    def __call__(self, seed: int) -> float:
        """Runs; without a run around it, returns the last score at once."""
        trial = current_trial()
        curve = self.curve(seed)
        if trial is not None:
            with self._helpers() as helpers:
                self._learn(trial, curve, seed, helpers)
        return curve[-1][1]

    def _learn(
        self, trial: Reporter, curve: list[tuple[float, float]], seed: int, helpers: list[subprocess.Popen[bytes]]
    ) -> None:
        accidents = self._accidents(seed)
        done = {step for step, _ in trial.reported}
        for number, (step, value) in enumerate(curve, start=1):
            if accidents.get("memory") == number:
                _use_memory(self.memory_mb)
            if step in done:
                continue
            time.sleep(self.sleep_s)
            trial.alive(step)
            if any(helper.poll() is not None for helper in helpers):
                raise RuntimeError("a helper process has died")
            trial.report(step, math.nan if accidents.get("diverge") == number else value)
            if accidents.get("crash") == number:
                raise RuntimeError("a synthetic crash")
            if accidents.get("hang") == number:
                time.sleep(_HANG_S)

    def _accidents(self, seed: int) -> dict[str, int]:
        """Accidents of the run: each kind, and at which report it happens."""
        found = {}
        for kind in ("crash", "hang", "diverge", "memory"):
            rng = self._random(seed if kind in ("crash", "hang") else None, kind)
            if rng.random() < getattr(self, f"{kind}_rate"):
                found[kind] = rng.randint(1, self.num_points)
        if self.diverge_above is not None and self.learning_rate > self.diverge_above:
            found["diverge"] = math.ceil(self.num_points / 2)
        return found

    def _random(self, seed: int | None, purpose: str) -> random.Random:
        searched = (self.learning_rate, self.gamma, self.batch_size, self.activation, self.entropy_coef)
        return random.Random(f"{purpose} {seed} {searched!r}")

    @contextmanager
    def _helpers(self) -> Iterator[list[subprocess.Popen[bytes]]]:
        command = [sys.executable, "-S", "-E", "-c", f"import time; time.sleep({_HANG_S})"]
        helpers = [subprocess.Popen(command) for _ in range(self.num_helpers)]
        try:
            yield helpers
        finally:
            for helper in helpers:
                helper.kill()
                helper.wait()


def _use_memory(megabytes: float) -> None:
    blocks: list[bytearray] = []
    while len(blocks) * _MEMORY_STEP < megabytes * 1e6:
        blocks.append(bytearray(b"\1") * _MEMORY_STEP)
        time.sleep(0.05)
    raise MemoryError("a synthetic run out of memory")
