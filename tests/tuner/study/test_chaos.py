"""A short chaos with real agents; the long one is `python -m tests.benchmarks.study_chaos`."""

from pathlib import Path

import pytest

from tests.tuner.chaos import Chaos, assert_equal

DQN = (
    *("agent=dqn", "sampler=random", "pruner=none", "tracker=jsonl", "executor.parallel=2"),
    *("network.hidden_sizes=[16]", "training.total_steps=800", "buffer.learning_starts=100", "buffer.train_freq=8"),
    *("evaluation.num_points=4", "evaluation.num_episodes=2", "study.num_trials=2", "study.num_race_seeds=0"),
    *("study.num_candidates=1", "study.num_select_seeds=1", "study.num_test_seeds=1"),
    *("study.retries=100", "study.max_failures=100", "study.steps_per_second=1000"),  # which is not measured again
)


@pytest.mark.slow
def test_a_disturbed_study_of_dqn_equals_the_one_that_was_left_alone(tmp_path: Path) -> None:
    kinds = ["trial", "everything"]
    alone, disturbed = Chaos(tmp_path / "alone", DQN), Chaos(tmp_path / "disturbed", DQN, seed=1)
    alone.run()
    assert disturbed.run(kinds, longest_wait_s=0.4) == []
    assert_equal(disturbed, alone)
    assert disturbed.counted.total() == len(kinds)
    assert len(alone.parameters()) > 20
