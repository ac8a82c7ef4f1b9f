"""Learning rates that are lowered where returns no longer rise, and an end of training where that does not help."""

from typing import Any

import numpy as np
import pytest

from note_rl.errors import CheckpointError, SettingsError
from note_rl.learners.adjustable import OptimizerNumbers, learning_rates, with_learning_rates
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy, SquashedGaussianPolicy
from note_rl.policy.noise import GaussianWhiteNoiseProcess
from note_rl.replay.experience import Clock
from note_rl.schedules import Linear
from note_rl.seeding import seed_everything
from note_rl.settings import Plateau
from note_rl.training.callbacks import Callback, LambdaCallback
from note_rl.training.checkpoint import read_checkpoint, write_checkpoint
from note_rl.training.plateau_watch import PlateauWatch
from tests.note_rl.frameworks import Framework, frameworks
from tests.note_rl.small_environments import Corridor

PYTORCH = Framework("pytorch")
REPLAY = {"pool_size": 200, "batch": 8, "num_updates": 2, "learning_starts": 16, "train_freq": 16, "update_batches": 4}
CASES = {
    "DQN": (Corridor, {"policy": EpsGreedyQPolicy(0.2), **REPLAY}),
    "PPO": (
        "CartPole-v1",
        {"policy": SoftmaxPolicy(), "PPO": True, "rollout_steps": 16, "batch": 16, "num_epochs": 1},
    ),
    "DDPG": ("Pendulum-v1", {"noise": GaussianWhiteNoiseProcess(0.1), **REPLAY}),
    "TD3": ("Pendulum-v1", {"noise": GaussianWhiteNoiseProcess(0.1), **REPLAY}),
    "SAC": ("Pendulum-v1", {"policy": SquashedGaussianPolicy(), **REPLAY}),
    "TRPO": ("CartPole-v1", {"policy": SoftmaxPolicy(), "rollout_steps": 16}),
    "ACER": ("CartPole-v1", {"policy": SoftmaxPolicy(), "sequence_length": 16, "pool_size": 96}),
}


def make(framework: Framework, name: str, **settings: Any) -> tuple[Any, list[Any]]:
    """An agent, and one optimizer for each of its groups; those of several have different learning rates."""
    kind = getattr(framework.agents, name)  # imports the framework, which is then seeded
    seed_everything(3)
    env, own = CASES[name]
    agent = kind(hidden_size=(8,), env=env)
    agent.set(seed=3, **own, **settings)
    groups = agent.param if isinstance(agent.param[0], list | tuple) and name != "PPO" else [agent.param]
    return agent, [framework.optimizers.adam(group, 2.0 ** -(6 + index)) for index, group in enumerate(groups)]


class Evaluating(Callback):
    """Tells of an evaluation after each phase."""

    def __init__(self, value: float = 1.0) -> None:
        self.value = value
        self.said: list[str] = []
        self.rates: list[float] = []

    def on_phase_end(self, phase: int, logs: Any) -> None:
        self.rates.append(logs.get("learning_rate"))
        self.agent.note_evaluation(self.value)

    def on_plateau(self, text: str, logs: Any) -> None:
        self.said.append(text)


def judged(plateau: Plateau, returns: list[float], steps: int = 100) -> list[tuple[float, bool]]:
    """The factor, and whether training is over, after each interval of `steps` steps."""
    watch, clock, found = PlateauWatch(plateau), Clock(), []
    for number, value in enumerate(returns, 1):
        clock.num_env_steps = number * steps
        watch.note_evaluation(value, clock.num_env_steps, clock)
        found.append((watch.factor, watch.is_over))
    return found


def test_only_intervals_without_an_improvement_count() -> None:
    plateau = Plateau(by="evaluations", patience=2, factor=0.5, early_stop=2)
    rising = [float(number) for number in range(20)]
    assert judged(plateau, rising) == [(1.0, False)] * 20
    #                        best       flat  flat: reduced   best    flat   flat: reduced  flat   flat: the second
    expected = [(1.0, False), (1.0, False), (0.5, False), (0.5, False), (0.5, False), (0.25, False), (0.25, False)]
    assert judged(plateau, [5.0, 5.0, 4.0, 6.0, 3.0, 6.0, 6.0, 1.0]) == [*expected, (0.125, True)]


def test_an_improvement_must_exceed_min_delta_and_nothing_counts_before_start_steps() -> None:
    plateau = Plateau(by="evaluations", patience=1, factor=0.5, early_stop=None, min_delta=1.0, start_steps=300)
    #    steps: 100 (best -3), 200, 300 (flat), 400 (best: above -2), 500 (flat: exactly 1 more)
    assert [factor for factor, _ in judged(plateau, [-3.0, -2.5, -2.0, -1.5, -0.5])] == [1.0, 1.0, 0.5, 0.5, 0.25]


def test_with_a_factor_of_one_training_only_ends() -> None:
    plateau = Plateau(by="evaluations", patience=2, factor=1.0, early_stop=1)
    assert judged(plateau, [0.0, 0.0, 0.0]) == [(1.0, False), (1.0, False), (1.0, True)]


def test_an_interval_is_judged_once() -> None:
    watch, clock = PlateauWatch(Plateau(by="evaluations", patience=2)), Clock(num_env_steps=90)
    for at in (50, 80, 80, 60):
        watch.note_evaluation(1.0, at, clock)
    assert (watch.best, watch.num_flat) == (1.0, 1)


def test_episodes_are_judged_by_the_mean_of_the_window_once_it_is_full() -> None:
    watch, clock = PlateauWatch(Plateau(interval=4, patience=1, factor=0.5)), Clock()
    seen = []
    for num_episodes, mean in [(3, None), (4, None), (7, 2.0), (8, 2.0), (9, 1.0), (15, 1.0), (16, 3.0)]:
        clock.num_episodes = num_episodes
        watch.end_of_phase(clock, mean)
        seen.append((watch.judged_at, watch.factor))
    assert seen == [(0, 1.0), (0, 1.0), (1, 1.0), (2, 0.5), (2, 0.5), (3, 0.25), (4, 0.25)]
    watch.note_evaluation(0.0, 100, clock)
    assert watch.judged_at == 4  # not by these


@pytest.mark.parametrize(
    ("framework", "name"),
    [
        *((PYTORCH, name) for name in CASES),
        pytest.param(  # rates that hold for one update in Keras: learners/test_hyperparameter_override.py
            Framework("keras"), "DDPG", id="keras-DDPG", marks=pytest.mark.slow
        ),
    ],
)
def test_every_optimizer_is_reduced_as_if_its_owner_had_done_it(framework: Framework, name: str) -> None:
    def halve(optimizers: list[Any]) -> None:
        for optimizer in optimizers:
            if framework.package == "pytorch":
                optimizer.param_groups[0]["lr"] *= 0.5
            else:
                optimizer.learning_rate.assign(optimizer.learning_rate * 0.5)

    options = {"total_steps": 96, "p": 0, "jit_compile": False}
    plateau = Plateau(by="evaluations", patience=1, factor=0.5, early_stop=None)
    agent, optimizers = make(framework, name, plateau=plateau)
    plain, others = make(framework, name)
    initial = framework.parameters(plain)
    # the first evaluation is the best one so far, and from the second one on each is a reason to reduce
    by_hand = LambdaCallback(on_phase_end=lambda phase, logs: halve(others) if logs["num_env_steps"] > 16 else None)
    agent.train(optimizer=optimizers if len(optimizers) > 1 else optimizers[0], callbacks=Evaluating(), **options)
    plain.train(optimizer=others if len(others) > 1 else others[0], callbacks=by_hand, **options)
    assert agent.learning_rate_factor == 0.5**5
    for left, right, before in zip(framework.parameters(agent), framework.parameters(plain), initial, strict=True):
        np.testing.assert_array_equal(left, right)
        assert not np.array_equal(left, before)
    rates = [one.param_groups[0]["lr"] if hasattr(one, "param_groups") else one.learning_rate for one in optimizers]
    assert [float(rate) for rate in rates] == [2.0 ** -(6 + index) for index in range(len(optimizers))], "the owner's"


@pytest.mark.traced
@pytest.mark.slow_in_keras
@pytest.mark.parametrize("framework", frameworks())
def test_a_reduction_compiles_nothing_anew(framework: Framework) -> None:
    plateau = Plateau(by="evaluations", patience=1, early_stop=None)
    agent, optimizers = make(framework, "DDPG", plateau=plateau)  # of two optimizers with different rates
    traces = []
    noting = LambdaCallback(on_phase_end=lambda phase, logs: traces.append(agent.learner.num_traces))
    agent.train(optimizer=optimizers, callbacks=[Evaluating(), noting], total_steps=96, p=0, jit_compile=False)
    assert agent.learning_rate_factor == pytest.approx(0.9**5)
    assert traces[-1] == traces[2]


def test_reductions_lie_on_top_of_a_schedule_and_are_said_once() -> None:
    agent, optimizers = make(
        PYTORCH,
        "DQN",
        plateau=Plateau(by="evaluations", patience=2, factor=0.5, early_stop=2),
        schedules={"learning_rate": Linear(1.0, 0.0)},
    )
    told = Evaluating()
    result = agent.train(optimizer=optimizers, callbacks=told, total_steps=160, p=0)
    assert (result.stop_reason, result.num_env_steps) == ("early_stopping", 80)  # best, 2 flat, 2 flat
    assert told.rates == pytest.approx([1.0, 0.9, 0.8, 0.7 * 0.5, 0.6 * 0.5])
    assert told.said == [
        "learning rate 0.8 -> 0.4: no return above 1 in 2 intervals",
        "learning rate 0.3 -> 0.15: no return above 1 in 2 intervals",
    ]


def test_rates_that_are_scheduled_adapted_or_the_optimizer_s_own() -> None:
    optimizers = [OptimizerNumbers("Adam", {"learning_rate": rate, "beta1": 0.9}, None) for rate in (1.0, 2.0, 3.0)]
    assert learning_rates({"clip": 0.2}, optimizers) == [1.0, 2.0, 3.0]
    told = {"clip": 0.2, "beta1:0": 0.5, "learning_rate": 0.1, "learning_rate:1": 0.4}
    assert learning_rates(told, optimizers) == [0.1, 0.4, 0.1]
    assert with_learning_rates(told, [0.2, 0.2, 0.2]) == {"clip": 0.2, "beta1:0": 0.5, "learning_rate": 0.2}
    different = {"learning_rate:0": 0.2, "learning_rate:1": 0.8, "learning_rate:2": 0.2}
    assert with_learning_rates(told, [0.2, 0.8, 0.2]) == {"clip": 0.2, "beta1:0": 0.5, **different}


def test_a_run_without_a_reduction_is_the_run_without_a_plateau() -> None:
    options = {"total_steps": 128, "p": 0}
    agent, optimizers = make(PYTORCH, "DDPG", plateau=Plateau(by="evaluations", patience=100))
    plain, others = make(PYTORCH, "DDPG")
    agent.train(optimizer=optimizers, callbacks=Evaluating(), **options)
    plain.train(optimizer=others, **options)
    for left, right in zip(PYTORCH.parameters(agent), PYTORCH.parameters(plain), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("by", ["evaluations", "episodes"])
@pytest.mark.parametrize("stop_at", [48, 80, 112])
def test_a_resumed_run_is_the_undisturbed_one_bit_for_bit(tmp_path: Any, by: Any, stop_at: int) -> None:
    plateau = Plateau(by=by, interval=1, patience=1, early_stop=None, min_delta=1e3)
    settings = {"plateau": plateau, "trial_count": 2, "schedules": {"learning_rate": Linear(1e-2, 1e-3)}}
    whole, optimizers = make(PYTORCH, "DQN", **settings)
    whole.train(optimizer=optimizers, callbacks=Evaluating(), total_steps=160, p=0)
    whole.save(tmp_path / "whole")
    stopped, optimizers = make(PYTORCH, "DQN", **settings)
    stop = LambdaCallback(
        on_phase_end=lambda phase, logs: setattr(stopped, "stop_training", logs["num_env_steps"] >= stop_at)
    )
    stopped.train(optimizer=optimizers, callbacks=[Evaluating(), stop], total_steps=160, p=0)
    stopped.save(tmp_path / "part")
    resumed, optimizers = make(PYTORCH, "DQN", **settings)
    resumed.restore(tmp_path / "part")
    resumed.train(optimizer=optimizers, callbacks=Evaluating(), total_steps=160, p=0)
    resumed.save(tmp_path / "resumed")
    (left, head), (right, other) = (read_checkpoint(tmp_path / name) for name in ("whole", "resumed"))
    assert left.keys() == right.keys()
    for name, values in left.items():
        np.testing.assert_array_equal(values, right[name], err_msg=name)
    assert head["trainer"] == other["trainer"]
    assert head["trainer"]["plateau"]["factor"] < 1.0


def test_what_was_reduced_stays_so_where_the_plateau_is_left_out() -> None:
    agent, optimizers = make(PYTORCH, "DQN", plateau=Plateau(by="evaluations", patience=1, factor=0.5, early_stop=1))
    told = Evaluating()
    assert agent.train(optimizer=optimizers, callbacks=told, total_steps=96, p=0).stop_reason == "early_stopping"
    agent.set(plateau=Plateau(by="evaluations", early_stop=None))
    assert agent.train(callbacks=told, total_steps=96, p=0).stop_reason == "total_steps"
    assert told.rates == [2.0**-6] * 2 + [2.0**-7] * 4


def test_what_is_refused(tmp_path: Any) -> None:
    agent, optimizers = make(PYTORCH, "DQN")
    with pytest.raises(SettingsError, match="plateau must be Plateau"):
        agent.set(plateau=3)
    with pytest.raises(SettingsError, match="call it while train"):
        agent.note_evaluation(1.0)
    for wrong in ({"factor": 0.0}, {"factor": 1.5}, {"patience": 0}, {"by": "steps"}, {"min_delta": -1.0}):
        with pytest.raises(SettingsError, match=next(iter(wrong))):
            Plateau(**wrong)
    agent.train(optimizer=optimizers, total_steps=32, p=0)
    agent.save(tmp_path / "good")
    arrays, head = read_checkpoint(tmp_path / "good")
    for damage in ({"factor": 0.0}, {"factor": "x"}, {"best": [1]}, {"judged_at": float("nan")}):
        state = {**head["trainer"]["plateau"], **damage}
        write_checkpoint(tmp_path / "bad", arrays, {**head, "trainer": {**head["trainer"], "plateau": state}})
        with pytest.raises(CheckpointError, match="damaged"):
            make(PYTORCH, "DQN")[0].restore(tmp_path / "bad")
