# ruff: noqa: T201
"""Whether the study that README begins with pays: its winner against the default and against published settings.

Run it as `python tests/benchmarks/first_study.py [SEEDS [OVERRIDE ...]]` (10) in an empty folder, on a quiet machine:
each seed is one study, with the published settings as a further baseline; a study that is there goes on. By
default it is DQN on CartPole with 10,000 steps a run, 30 trials and ten test seeds. Winner, default and published
settings are trained for as many steps on fresh seeds that played no part in the search.
"""

import subprocess
import sys
import time

import tuner
from tuner.results.findings import Estimate
from tuner.results.insights.differences import difference_of, scores_of
from tuner.results.records import TEST

STUDY = (
    *("training.total_steps=10000", "study.num_trials=30", "study.num_test_seeds=10"),
    "study.baselines=[default,dqn_cartpole]",
)


def row(seed: int, overrides: tuple[str, ...]) -> tuple[str, bool, bool]:
    """One study in words, and whether its winner is better than the default, and not behind published settings."""
    name = f"first-{seed}"
    typed = ["tuner", "tune", *overrides, f"study.name={name}", f"seed={seed}"]
    began = time.perf_counter()
    subprocess.run(typed, check=True, capture_output=True)
    seconds = time.perf_counter() - began
    result = tuner.load(name)
    difference = result.verdict.difference
    assert difference is not None
    scores = scores_of(result.summary, TEST, result.summary.winner_label)
    others = [difference_of(scores, scores_of(result.summary, TEST, label)) for label in result.summary.baselines]
    return (
        f"{seed:4d} {seconds:6.0f} s  {_words(difference):28} {' '.join(map(_words, others)):28}",
        difference.is_above_zero,
        not any(other.is_below_zero for other in others),
    )


def _words(difference: Estimate) -> str:
    return difference.signed


def main(seeds: str = "10", *overrides: str) -> None:
    """Runs the studies and prints them."""
    print("seed     time  winner minus default         winner minus published settings")
    found = []
    for seed in range(int(seeds)):
        words, *holds = row(seed, overrides or STUDY)
        found.append(holds)
        print(words, flush=True)
    better, level = map(sum, zip(*found, strict=True))
    print(f"better than the default in {better} of {len(found)}, not behind published settings in {level} of them")


if __name__ == "__main__":
    main(*sys.argv[1:])
