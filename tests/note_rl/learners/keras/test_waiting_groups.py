"""Steps of groups that wait, where one optimizer serves all groups."""

from contextlib import nullcontext
from functools import partial

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.optimizers import Adam, Adamax, AdamW, Lamb, Nadam

from note_rl.agents.keras import TD3
from note_rl.distributed.keras.replicated_update import replicate
from note_rl.errors import CheckpointError
from note_rl.learners.keras.variables import arrays_of
from note_rl.learners.keras.waiting_groups import counted_apart, counts_of
from note_rl.optimizers.keras import adam
from note_rl.policy import NoisyPolicy
from tests.note_rl.agents import continuous

WAITING = "optimizer/0/steps_of_waiting_groups"
SLOW = pytest.mark.slow


class OwnAdam(Adam):
    """A user's own."""


def made(optimizer):
    keras.utils.set_random_seed(1)
    agent = TD3(env=continuous.Target, hidden_size=(4,))
    return agent, continuous.ready(agent, optimizer)


def counts(optimizer):
    return [int(count) for count in counts_of(optimizer)]


def seven_steps(agent, learner):
    """Two of them also of the actor."""
    learner.update(continuous.sample(agent, 5), {})
    learner.update(continuous.sample(agent, 2, sync=True), {})


@SLOW
def test_they_are_those_of_an_optimizer_of_their_own_in_traced_steps():
    check_steps(partial(adam, ()))


@pytest.mark.usefixtures("eager_updates")
def test_they_are_those_of_an_optimizer_of_their_own():
    check_steps(partial(adam, ()))


@pytest.mark.usefixtures("eager_updates")
@pytest.mark.parametrize("make", [Adam, pytest.param(AdamW, marks=SLOW), pytest.param(Adamax, marks=SLOW), Lamb])
def test_so_they_are_with_optimizers_of_keras(make):
    check_steps(make)


def check_steps(make):
    optimizer = make(0.01)
    together, learner = made(optimizer)
    seven_steps(together, learner)
    assert counts(optimizer) == [7, 2]
    apart, learner = made([make(0.01), make(0.01)])
    seven_steps(apart, learner)
    for name, values in arrays_of(apart).items():
        np.testing.assert_array_equal(arrays_of(together)[name], values, err_msg=name)


@pytest.mark.usefixtures("eager_updates")
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(partial(Nadam, 0.01), id="a product of all its steps"),
        pytest.param(lambda: OwnAdam(0.01), id="what only its author knows"),
        pytest.param(partial(Adam, 0.01, use_ema=True), id="averages of weights"),
        pytest.param(partial(Adam, 0.01, gradient_accumulation_steps=2), id="sums of gradients"),
        pytest.param(partial(Adam, 0.01, global_clipnorm=1.0), id="a norm of all groups"),
        pytest.param(
            lambda: Adam(keras.optimizers.schedules.ExponentialDecay(0.01, 10, 0.9)), id="a schedule of steps"
        ),
    ],
)
def test_where_groups_share_more_than_the_count_there_is_one(make):
    optimizer = make()
    seven_steps(*made(optimizer))
    assert counts(optimizer) == [7]


def test_steps_from_before_count_for_both():
    optimizer, weight = Adam(0.01), keras.Variable([1.0])
    optimizer.build([weight])
    for _ in range(3):
        optimizer.apply([keras.ops.ones(1)], [weight])
    first = counted_apart(optimizer)
    assert counts(optimizer) == [3, 3]
    assert counted_apart(optimizer) == first


@pytest.mark.usefixtures("eager_updates")
def test_a_file_with_one_count_has_it_for_both():
    agent, learner = made(Adam(0.01))
    seven_steps(agent, learner)
    state = learner.get_state()
    assert state[WAITING] == 2
    earlier = {name: values for name, values in state.items() if name != WAITING}
    optimizer = Adam(0.01)
    made(optimizer)[1].set_state(earlier)
    assert counts(optimizer) == [7, 7]
    made_anew = Adam(0.01)
    made(made_anew)[1].set_state(state)
    assert counts(made_anew) == [7, 2]


@pytest.mark.usefixtures("eager_updates")
def test_a_file_without_a_slot_is_refused():
    agent, learner = made(Adam(0.01))
    seven_steps(agent, learner)
    state = learner.get_state()
    del state["optimizer/0/4"]
    with pytest.raises(CheckpointError, match="it has no 'optimizer/0/4'"):
        made(Adam(0.01))[1].set_state(state)


@pytest.mark.usefixtures("eager_updates")
def test_a_run_is_resumed_from_a_file_with_one_count(tmp_path):
    options = {"pool_size": 60, "batch": 4, "train_freq": 4, "num_updates": 2, "learning_starts": 8, "seed": 1}

    def made_for_training():
        agent = made(Adam(0.01))[0]
        agent.set(policy=NoisyPolicy(), **options)
        return agent

    first, second, optimizer = made_for_training(), made_for_training(), Adam(0.01)
    first.train(optimizer=Adam(0.01), total_steps=40, p=0, jit_compile=False)
    first.save(tmp_path / "half")
    second.restore(tmp_path / "half")
    del second._restored.arrays["learner/" + WAITING]
    second.train(optimizer=optimizer, total_steps=48, p=0, jit_compile=False)
    new_steps = counts(optimizer)[0] - first.num_gradient_steps
    assert counts(optimizer)[1] - first.num_gradient_steps in range(1, new_steps)


@pytest.mark.usefixtures("eager_updates")
def test_a_replica_counts_as_an_agent_that_is_alone():
    """Two replicas take a process of their own; see distributed/keras_replicas.py."""
    found = []
    for strategy in (None, tf.distribute.MirroredStrategy(["CPU:0"])):
        keras.utils.set_random_seed(1)
        with nullcontext() if strategy is None else strategy.scope():
            agent, optimizer = TD3(env=continuous.Target, hidden_size=(4,)), Adam(0.01)
        if strategy is not None:
            replicate(agent.learner, strategy)
        seven_steps(agent, continuous.ready(agent, optimizer))
        assert [int(count.numpy()) for count in counts_of(optimizer)] == [7, 2]
        found.append(arrays_of(agent))
    for name, values in found[0].items():
        np.testing.assert_allclose(found[1][name], values, rtol=0, atol=1e-6, err_msg=name)
