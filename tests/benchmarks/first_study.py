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
from tuner.commands.study_result import StudyResult
from tuner.results.findings import Estimate, estimate
from tuner.results.insights.differences import difference_of, scores_of
from tuner.results.records import TEST

STUDY = (
    *("training.total_steps=10000", "study.num_trials=30", "study.num_test_seeds=10"),
    "study.baselines=[default,dqn_cartpole]",
)


def row(seed: int, overrides: tuple[str, ...]) -> tuple[str, bool, bool | None]:
    """One study in words, and whether its winner is better than the default, and not behind published settings.

    None: the study does not test any.
    """
    name = f"first-{seed}"
    typed = ["tuner", "tune", *overrides, f"study.name={name}", f"seed={seed}"]
    began = time.perf_counter()
    subprocess.run(typed, check=True, capture_output=True)
    seconds = time.perf_counter() - began
    result = tuner.load(name)
    verdict, summary = result.verdict, result.summary
    difference = verdict.difference  # None: the winner is the default configuration itself
    scores = scores_of(summary, TEST, summary.winner_label)
    others = [difference_of(scores, scores_of(summary, TEST, label)) for label in summary.baselines]
    ends = [_at_end(result, label) for label in (summary.winner_label, summary.default_label)]
    cells = [verdict.winner, verdict.default, "none" if difference is None else difference.signed]
    cells += [other.signed for other in others] or ["not tested"]
    return (
        f"| {' | '.join(map(str, [seed, *cells, *ends, f'{seconds:.0f} s']))} |",
        difference is not None and difference.is_above_zero,
        not any(other.is_below_zero for other in others) if others else None,
    )


def _at_end(result: StudyResult, label: str | None) -> Estimate:
    """The return at the end of the test runs of a configuration."""
    return estimate([float(row["final"]) for row in result.rows if (row["stage"], row["label"]) == (TEST, label)])


def main(seeds: str = "10", *overrides: str) -> None:
    """Runs the studies and prints them."""
    print("| seed | winner | default | winner minus default | minus published | end: winner | end: default | time |")
    print("| --- " * 8 + "|")
    found = []
    for seed in range(int(seeds)):
        words, *holds = row(seed, overrides or STUDY)
        found.append(holds)
        print(words, flush=True)
    better, level = zip(*found, strict=True)
    behind = "" if None in level else f", not behind published settings in {sum(level)} of them"
    print(f"better than the default in {sum(better)} of {len(found)}{behind}")


if __name__ == "__main__":
    main(*sys.argv[1:])
