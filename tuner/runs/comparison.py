"""A configuration with its adaptation against the same without it, on seeds that nothing was chosen by."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from note_rl.collect.evaluation import random_policy_returns
from note_rl.errors import DivergedError
from tuner.config.composing import RunConfig
from tuner.errors import UserError
from tuner.files import parse_json
from tuner.results.findings import MIN_SCORES_FOR_INTERVAL
from tuner.results.objective import Mixed
from tuner.results.protocol import penalty, seed_stream
from tuner.results.statistics import Interval, difference_interval, iqm
from tuner.runs.build import build_run
from tuner.runs.folders import CONFIG_FILE, begin
from tuner.runs.probe import NUM_EPISODES
from tuner.runs.training import run_training
from tuner.trial.folder import CHECKPOINT_FILE, cut_torn_tail
from tuner.trial.messages import JsonDict

ARMS = ("adaptive", "frozen")
_RESULTS = "compare.jsonl"


@dataclass
class _Curve:
    """Keeps what a run reports."""

    reported: list[tuple[float, float]] = field(default_factory=list)

    def report(self, step: float, value: float) -> None:
        self.reported.append((step, value))

    def built(self, config: JsonDict) -> None: ...
    def log(self, step: int, metrics: Mapping[str, float]) -> None: ...
    def alive(self, progress: float) -> None: ...


@dataclass(frozen=True)
class AdaptiveComparison:
    """Scores on the same seeds (half area under the curve of evaluations, half their final part), [n] each."""

    adaptive: Sequence[float]
    frozen: Sequence[float]

    @property
    def difference(self) -> float:
        """Interquartile mean with adaptation minus that without."""
        return float(iqm(self.adaptive) - iqm(self.frozen))

    @property
    def interval(self) -> Interval:
        """Of the difference, 95 %, by bootstrap over pairs."""
        return difference_interval(self.adaptive, self.frozen, paired=True)

    def verdict(self, margin: float) -> str:
        """One sentence.

        Args:
            margin: What counts as no worse, as a share of the largest absolute score.
        """
        if list(self.adaptive) == list(self.frozen):
            return "adaptation changed nothing: both score the same on every seed"
        if len(self.adaptive) < MIN_SCORES_FOR_INTERVAL:
            return f"on fewer than {MIN_SCORES_FOR_INTERVAL} seeds nothing can be told; add some (num_seeds)"
        allowed = margin * float(np.abs([*self.adaptive, *self.frozen]).max())
        low, high = self.interval
        if low > 0.0:
            return "adaptation is better"
        if high < 0.0:
            return "adaptation is worse"
        if low > -allowed:
            return f"adaptation is no worse (by more than {allowed:.3g})"
        return f"undecided: adaptation may be worse by more than {allowed:.3g}; add seeds (num_seeds)"


def runs_of(config: JsonDict, num_seeds: int) -> Iterator[tuple[str, int, RunConfig]]:
    """All runs: which arm, which seed, and what is trained."""
    for seed in seed_stream(int(config["seed"]), "test", num_seeds):
        for arm in ARMS:
            told = {**config, "seed": seed, "adaptive": config["adaptive"] if arm == "adaptive" else {}}
            yield arm, seed, RunConfig.from_json(told)


def what_is_compared(config: JsonDict) -> JsonDict:
    """The configuration without what may change between two calls."""
    return {name: value for name, value in config.items() if name not in ("num_seeds", "margin", "trust")}


def check_known(folder: Path) -> None:
    """Refuses to go on with scores that cannot be read.

    Raises:
        UserError: Names the line.
    """
    _known(folder / _RESULTS)


def _known(path: Path) -> dict[tuple[str, int], float]:
    """The scores so far, by arm and seed; of a last line that was cut short, none."""
    if not os.path.lexists(path):
        return {}
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}; move it away to begin anew") from error
    known = {}
    for number, line in enumerate(lines, start=1):
        if number == len(lines) and not line.endswith(b"\n"):
            break
        try:
            arm, seed, score = parse_json(line)
            known[str(arm), int(seed)] = float(score)
        except (ValueError, TypeError, OverflowError) as error:
            raise UserError(f"{path} is damaged in line {number}; restore it, or move it away to begin anew") from error
    return known


def compare(config: JsonDict, folder: Path, num_seeds: int) -> Iterator[tuple[str, int, float]]:
    """Trains what is not known yet; gives arm, seed and score of each run. The same call goes on where it was ended.

    A run that diverges ends with what a random policy scores, or with the worst of its own evaluations if that is less.
    """
    if not (folder / CONFIG_FILE).exists():
        begin(folder, what_is_compared(config))
    path = folder / _RESULTS
    cut_torn_tail(path)
    known = _known(path)
    for arm, seed, run in runs_of(config, num_seeds):
        if (arm, seed) not in known:
            own = folder / f"{arm}_{seed}"
            own.mkdir(parents=True, exist_ok=True)
            (own / CHECKPOINT_FILE).unlink(missing_ok=True)
            curve = _Curve()
            try:
                run_training(run, own, curve)
            except DivergedError:
                returns = random_policy_returns(build_run(run).environment, NUM_EPISODES, seed)
                worst = penalty(float(returns.mean()), [value for _, value in curve.reported])
                assert worst is not None
                curve.reported.append((1.0, worst))
            known[arm, seed] = Mixed()(curve.reported)
            with path.open("a") as file:
                file.write(json.dumps([arm, seed, known[arm, seed]]) + "\n")
        yield arm, seed, known[arm, seed]
