"""Numbers of an update that can be changed, and the minibatch on which its noise is measured."""

import numpy as np
import pytest

from note_rl.learners.adjustable import of_optimizers
from tests.note_rl.learners.update_blocks import block


def test_a_scheduled_rate_is_that_of_every_optimizer_that_has_no_adapted_one() -> None:
    told = {"learning_rate": 0.1, "learning_rate:1": 0.2, "beta1:0": 0.9, "clip": 0.3}
    assert of_optimizers(told, 3) == {
        0: {"learning_rate": 0.1, "beta1": 0.9},
        1: {"learning_rate": 0.2},
        2: {"learning_rate": 0.1},
    }
    assert of_optimizers({"clip": 0.3}, 3) == {}


def test_transitions_drawn_twice_count_once() -> None:
    from note_rl.learners.adjustable import minibatch_in_parts

    slots = np.array([[5, 5, 7, 5], [8, 7, 9, 5]])
    given = minibatch_in_parts(block(2, 4, slots=slots), {"reward": slots}, None)
    assert (given.columns["reward"].tolist(), given.parts, given.finest) == ([5, 7, 8, 9], 4, 4)


@pytest.mark.parametrize(
    ("distinct", "size", "used", "parts"),
    [(64, 64, 64, 8), (63, 64, 56, 8), (57, 64, 56, 8), (61, 61, 56, 8), (6, 6, 6, 6), (3, 32, 2, 2), (1, 32, 1, 1)],
)
def test_how_many_of_a_minibatch_are_measured(distinct: int, size: int, used: int, parts: int) -> None:
    from note_rl.learners.adjustable import minibatch_in_parts

    slots = np.minimum(np.arange(size), distinct - 1)[None]
    given = minibatch_in_parts(block(1, size, slots=slots), {"reward": slots}, None)
    assert (given.size, given.parts, given.finest) == (used, parts, used)


def test_parts_of_a_rollout_are_its_environments() -> None:
    from note_rl.learners.adjustable import minibatch_in_parts

    slots = np.random.default_rng(0).permutation(64).reshape(4, 16)  # 16 steps of 4 environments
    given = minibatch_in_parts(block(4, 16, slots=slots), {"reward": slots}, 4)
    assert given.parts == given.finest == 4
    assert (given.columns["reward"].reshape(4, 4) % 4 == np.arange(4)[:, None]).all()
    given = minibatch_in_parts(block(4, 16, slots=slots), {"reward": slots}, 1)
    assert given.parts == 8  # of one environment: different times
    assert (given.columns["reward"].reshape(8, 2) // 8 == np.arange(8)[:, None]).all()
