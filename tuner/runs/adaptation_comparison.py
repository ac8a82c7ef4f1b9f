"""A configuration with its adaptation against the same without it, on held-out seeds."""

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from note_rl.collect.evaluation import random_policy_returns
from tuner.config.composition import RunConfig
from tuner.errors import UserError
from tuner.results.findings import MIN_SCORES_FOR_INTERVAL
from tuner.results.metric import Mixed, make_metric
from tuner.results.protocol import comparison_seeds, penalty
from tuner.results.statistics import Interval, difference_interval, iqm
from tuner.runs.build import build_run
from tuner.runs.functions import is_function, random_return
from tuner.runs.probe import NUM_EPISODES
from tuner.support.text_files import atomic_write, parse_json
from tuner.trial.messages import JsonDict

ARMS = ("adaptive", "frozen")
DEFAULT_METRIC = Mixed.name
_RESULTS = "compare.jsonl"


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
            margin: The largest loss that counts as no worse, as a share of the largest absolute score.
        """
        if list(self.adaptive) == list(self.frozen):
            return "adaptation changed nothing: both score the same on every seed"
        if len(self.adaptive) < MIN_SCORES_FOR_INTERVAL:
            return f"on fewer than {MIN_SCORES_FOR_INTERVAL} seeds nothing can be concluded; add some (num_seeds)"
        allowed = margin * float(np.abs([*self.adaptive, *self.frozen]).max())
        low, high = self.interval
        if low > 0.0:
            return "adaptation is better"
        if high < 0.0:
            return "adaptation is worse"
        if low > -allowed:
            return f"adaptation is no worse (by more than {allowed:.3g})"
        return f"undecided: adaptation may be worse by more than {allowed:.3g}; add seeds (num_seeds)"


def runs_of(config: JsonDict, num_seeds: int) -> Iterator[tuple[str, int, JsonDict]]:
    """All runs: which arm, which seed, and with which configuration."""
    for seed in comparison_seeds(int(config["seed"]), num_seeds):
        for arm in ARMS:
            yield arm, seed, {**config, "seed": seed, "adaptive": config["adaptive"] if arm == "adaptive" else {}}


def what_is_compared(config: JsonDict) -> JsonDict:
    """The configuration without what may change between two calls."""
    return {name: value for name, value in config.items() if name not in ("num_seeds", "margin", "trust", "executor")}


class Scores:
    """The scores of a comparison, kept in its folder as they come.

    Args:
        folder: Of the comparison.
        name: Of the file.

    Raises:
        UserError: They cannot be read.
    """

    def __init__(self, folder: Path, name: str = _RESULTS) -> None:
        self._path = folder / name
        self._known = _read(self._path)

    def __contains__(self, key: object) -> bool:
        return key in self._known

    def __getitem__(self, key: tuple[str, int]) -> float:
        return self._known[key]

    def add(self, arm: str, seed: int, score: float) -> None:
        """Writes one down."""
        self._known[arm, seed] = score
        lines = [json.dumps([*key, known]) + "\n" for key, known in self._known.items()]
        atomic_write(self._path, "".join(lines))


def score_of(curve: Sequence[tuple[float, float]], metric: str = DEFAULT_METRIC) -> float:
    """Score of evaluations by a metric; by default half their area, half their final part."""
    return float(make_metric(metric)(sorted(curve)))


def score_without_an_end(
    config: JsonDict, curve: Sequence[tuple[float, float]], metric: str = DEFAULT_METRIC
) -> float | None:
    """Of a run that diverged: it ends with what a random policy scores, or its own worst evaluation if that is less.

    None: it is of a function that plays in an environment of its own, and has reported nothing.
    """
    if is_function(config):
        random = random_return(config)
    else:
        run = RunConfig.from_json(config)
        random = float(random_policy_returns(build_run(run).environment, NUM_EPISODES, run.seed).mean())
    worst = penalty(random, [value for _, value in curve])
    return None if worst is None else score_of([*curve, (1.0, worst)], metric)


def _read(path: Path) -> dict[tuple[str, int], float]:
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
