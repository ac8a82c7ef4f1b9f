"""Adaptation within training, in both frameworks where frameworks matter."""

from typing import Any

import numpy as np
import pytest

from note_rl.adaptive import ess
from note_rl.adaptive.health import Health
from note_rl.adaptive.signals.base import MeasuredMean
from note_rl.adaptive.signals.gradient_noise import MeasuredNoise
from note_rl.errors import SettingsError
from note_rl.learners.adjustable import of_optimizers
from note_rl.policy import EpsGreedyQPolicy, SoftmaxPolicy
from note_rl.seeding import seed_everything
from note_rl.settings import Adaptive
from note_rl.settings.schedules import Linear
from note_rl.training.callbacks import LambdaCallback
from tests.note_rl.frameworks import Framework, frameworks
from tests.note_rl.small_environments import Corridor


def ppo(framework: Framework, adaptive: Adaptive | None, learning_rate: float = 1e-3, **options: Any) -> Any:
    make = framework.agents.PPO  # imports what is seeded
    seed_everything(1)
    agent = make(hidden_size=(8,), env=lambda: Corridor())
    arguments = {"PPO": True, "rollout_steps": 16, "num_envs": 4, "batch": 32, "num_epochs": 4, **options}
    agent.set(policy=SoftmaxPolicy(), seed=2, adaptive=adaptive, **arguments)
    agent.optimizer = framework.optimizers.adam(agent.param, learning_rate)
    return agent


def dqn(framework: Framework, adaptive: Adaptive | None, **options: Any) -> Any:
    make = framework.agents.DQN
    seed_everything(1)
    agent = make(hidden_size=(8,), env=lambda: Corridor(), tau=0.1)
    arguments = {"pool_size": 512, "batch": 16, "train_freq": 16, "gradient_steps": 4, "update_batches": 2, **options}
    agent.set(policy=EpsGreedyQPolicy(0.3), seed=2, adaptive=adaptive, **arguments)
    agent.optimizer = framework.optimizers.adam(agent.param, 1e-2)
    return agent


def _never(*_: Any) -> None:
    raise AssertionError("training had begun")


HOOKS: dict[str, Any] = {"on_train_begin": _never}


def trained(framework: Framework, agent: Any, total_steps: int = 640, jit: bool = False) -> list[np.ndarray]:
    agent.train(total_steps=total_steps, p=0, jit_compile=jit)
    return framework.parameters(agent)


def same(one: list[np.ndarray], other: list[np.ndarray]) -> bool:
    return all(np.array_equal(*pair) for pair in zip(one, other, strict=True))


QUICK = {"period": 1, "noise_period": 1, "warm_up": 1, "calibration": 2, "smooth": 1.0}
BY_RATIO = {"signals": ["ratio_ess"], "parameters": {"learning_rate": {}, "clip": {}}}


def assert_static(framework: Framework, monkeypatch: pytest.MonkeyPatch, jit: bool) -> None:
    """Advice, no gain and perfect health end at the bits of a run without adaptation."""
    static = trained(framework, ppo(framework, None), 256, jit)
    unwell = {**QUICK, **BY_RATIO, "targets": {"ratio_ess": 0.9999999}}
    for told in ({"mode": "advise"}, *([{"gain": 0.0}] if framework.package == "pytorch" else [])):
        agent = ppo(framework, Adaptive(**{**unwell, **told}))
        assert same(trained(framework, agent, 256, jit), static), told
        assert len(agent.decisions) >= 6
    monkeypatch.setattr(MeasuredMean, "health", lambda self, *_: Health(self.signal.name, 1.0, 1.0, 1.0, 1.0))
    names = ["learning_rate", "clip", "num_updates", "batch_size", "num_store", "gamma"]
    if framework.package == "pytorch":  # Keras works with 1 - beta, which a tensor holds in single precision
        names += ["beta1", "beta2"]
    told = {name: {"law": "feed_forward"} for name in names}
    agent = ppo(framework, Adaptive(**QUICK, signals=["ratio_ess"], parameters=told))
    assert same(trained(framework, agent, 256, jit), static)
    assert {one.reason for one in agent.decisions} == {"deadband"}


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("framework", frameworks())
def test_advice_no_gain_and_perfect_health_change_no_bit(framework: Framework, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_static(framework, monkeypatch, jit=False)


@pytest.mark.slow
@pytest.mark.parametrize("framework", frameworks())
def test_nor_do_they_where_steps_are_compiled(framework: Framework, monkeypatch: pytest.MonkeyPatch) -> None:
    assert_static(framework, monkeypatch, jit=True)


@pytest.mark.parametrize(("noise_period", "times"), [(4, 20), (8, 10), (1000, 0)])
def test_the_noise_of_gradients_is_measured_less_often(
    noise_period: int, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    framework = Framework("pytorch")
    told = {**QUICK, "period": 4, "noise_period": noise_period, "mode": "advise"}
    agent = dqn(framework, Adaptive(**told, signals=["gradient_noise"], parameters={"learning_rate": {}}))
    measured = []
    plain = type(agent.learner).gradient_noise

    def counted(self: Any, *arguments: Any) -> Any:
        measured.append(agent.num_gradient_steps)
        return plain(self, *arguments)

    monkeypatch.setattr(type(agent.learner), "gradient_noise", counted)
    trained(framework, agent, 320)  # 20 phases of 4 gradient steps
    assert len(measured) == times
    assert len(agent.decisions) == 20


def test_what_is_off_decides_nothing() -> None:
    framework = Framework("pytorch")
    agent = ppo(framework, Adaptive(**QUICK, **BY_RATIO, targets={"ratio_ess": 1e-9}, mode="off"))
    assert same(trained(framework, agent, 128), trained(framework, ppo(framework, None), 128))
    assert not agent.decisions


@pytest.mark.parametrize("framework", frameworks())
def test_noise_is_measured_without_a_trace(framework: Framework) -> None:
    told = {"signals": ["gradient_noise"], "parameters": {"batch_size": {}, "tau": {}}, "mode": "advise"}
    static = trained(framework, dqn(framework, None), 320)
    agent = dqn(framework, Adaptive(**{**QUICK, **told}))
    assert same(trained(framework, agent, 320), static)
    assert {one.parameter for one in agent.decisions} == {"batch_size", "tau"}
    assert any(one.signal == "gradient_noise" for one in agent.decisions)


@pytest.mark.parametrize("framework", frameworks())
def test_control_acts_where_it_says_and_never_traces_again(framework: Framework) -> None:
    parameters = {name: {} for name in ("learning_rate", "clip", "beta1", "beta2", "weight_decay")}
    agent = ppo(framework, Adaptive(**QUICK, signals=["ratio_ess"], parameters=parameters, targets={"ratio_ess": 2.0}))
    seed_everything(1)
    agent.optimizer = framework.optimizers.adam(agent.param, 1e-3, weight_decay=1e-3)
    seen: list[dict[str, float]] = []
    update = agent.learner.update

    def spied(sample: Any, hyperparameters: dict[str, float]) -> Any:
        seen.append({**hyperparameters, "agent.clip": agent.clip})
        return update(sample, hyperparameters)

    agent.learner.update = spied
    before = agent.learner.num_traces
    trained(framework, agent)
    last = seen[-1]
    assert last["learning_rate:0"] < 1e-3
    assert last["clip"] == last["agent.clip"] < 0.2
    assert last["beta1:0"] > 0.9
    assert last["beta2:0"] > 0.999
    assert last["weight_decay:0"] > 1e-3
    assert last["learning_rate:0"] == agent.decisions[-1].old or any(
        one.new == last["learning_rate:0"] for one in agent.decisions if one.parameter == "learning_rate:0"
    )
    assert agent.learner.num_traces - before <= 1
    assert agent.clip == 0.2  # as the user left it
    assert agent.learner.optimizer_numbers()[0].values["learning_rate"] == 1e-3


MOVED_BY: dict[str, dict[str, Any]] = {
    "schedule": {"adaptive": None, "schedules": {"learning_rate": Linear(1e-2, 5e-3)}},
    "adaptation": {"adaptive": Adaptive(**{**QUICK, **BY_RATIO}, targets={"ratio_ess": 2.0})},
    "both": {
        "adaptive": Adaptive(**{**QUICK, **BY_RATIO}, targets={"ratio_ess": 2.0}),
        "schedules": {"learning_rate": Linear(1e-2, 5e-3)},
    },
}


@pytest.mark.usefixtures("eager_updates")
@pytest.mark.parametrize("framework", frameworks())
@pytest.mark.parametrize("moved_by", MOVED_BY)
def test_the_users_optimizer_is_as_it_was_made_whatever_moves_its_rate(
    framework: Framework, moved_by: str, tmp_path: Any
) -> None:
    def rate(agent: Any) -> float:
        return float(agent.learner.optimizer_numbers()[0].values["learning_rate"])

    first = ppo(framework, **MOVED_BY[moved_by], num_epochs=1)
    rates = []
    update = first.learner.update
    first.learner.update = lambda sample, told: (rates.append(told), update(sample, told))[1]
    trained(framework, first, 128)
    moved = [told.get("learning_rate:0", told.get("learning_rate")) for told in rates]
    assert len(set(moved)) == 2, "it was another one in each phase"
    assert rate(first) == 1e-3
    first.save(tmp_path / "first")
    second = ppo(framework, **MOVED_BY[moved_by], num_epochs=1)
    second.restore(tmp_path / "first")
    trained(framework, second, 192)
    assert rate(second) == 1e-3


def test_a_scheduled_rate_is_that_of_every_optimizer_that_has_no_adapted_one() -> None:
    told = {"learning_rate": 0.1, "learning_rate:1": 0.2, "beta1:0": 0.9, "clip": 0.3}
    assert of_optimizers(told, 3) == {
        0: {"learning_rate": 0.1, "beta1": 0.9},
        1: {"learning_rate": 0.2},
        2: {"learning_rate": 0.1},
    }
    assert of_optimizers({"clip": 0.3}, 3) == {}


@pytest.mark.parametrize("framework", frameworks())
def test_without_its_schedule_an_agent_learns_at_the_rate_of_its_optimizer(framework: Framework) -> None:
    agent = ppo(framework, None, schedules={"learning_rate": Linear(0.1, 0.1)})
    agent.optimizer = framework.optimizers.sgd(agent.param, 0.0)
    begun = framework.parameters(agent)
    scheduled = trained(framework, agent, 64)
    assert not same(begun, scheduled)
    agent.set(schedules={})
    assert same(trained(framework, agent, 128), scheduled)


@pytest.mark.parametrize("framework", frameworks())
def test_batches_stay_on_their_ladder_and_each_is_compiled_once(framework: Framework) -> None:
    agent = ppo(framework, None, batch=16)
    told = Adaptive(**QUICK, signals=["ratio_ess"], parameters={"batch_size": {"law": "feed_forward", "align": 4}})
    agent.set(adaptive=told)
    sizes = []
    update = agent.learner.update
    agent.learner.update = lambda sample, hyper: (sizes.append(sample.reward.shape), update(sample, hyper))[1]
    agent.train(total_steps=64, p=0, jit_compile=False)
    adaptation = agent._trainer.adaptation
    controller = adaptation._adapters["batch_size"].controller
    for factor in (4.0, 1.0, 0.25, 4.0, 0.25, 1.0):
        controller.factor = factor
        agent.train(total_steps=agent.num_env_steps + 64, p=0, jit_compile=False)
    assert {shape[1] for shape in sizes} == {4, 16, 64}
    if framework.package == "keras":
        assert agent.learner.num_traces == 3


def test_a_larger_batch_takes_the_learning_rate_and_beta2_along() -> None:
    framework = Framework("pytorch")
    agent = ppo(framework, Adaptive(**QUICK, signals=["gradient_noise"], parameters={"batch_size": {}}), batch=16)
    agent.train(total_steps=64, p=0)
    adaptation = agent._trainer.adaptation
    adaptation._adapters["batch_size"].controller.factor = 4.0
    adaptation._coupling.noise = 48.0  # three times the batch of 16
    told = adaptation.move_to({}, agent._trainer.clock)
    assert adaptation.place.experience.settings.batch_size == 64
    assert told["learning_rate:0"] == pytest.approx(1e-3 * 1.5119, rel=1e-4)  # 2.2857^(1/2)
    assert told["beta2:0"] == pytest.approx(0.9960, abs=1e-4)


def test_exponent_of_priorities_follows_drifting_errors() -> None:
    """The effective share stays within a tenth of its target while the errors drift from exponential to log-normal."""
    framework = Framework("pytorch")
    told = Adaptive(**QUICK, signals=["priority_ess"], parameters={"alpha": {}}, targets={"priority_ess": 0.7})
    agent = dqn(framework, told, PR=True)
    agent.train(total_steps=512, p=0)
    trainer, rng = agent._trainer, np.random.default_rng(0)
    sampler, slots = trainer.experience.buffer.sampler, np.arange(512)
    exponential, normal = rng.exponential(size=512), rng.normal(size=512)
    shares, frozen = [], []
    for drift in np.linspace(0.0, 1.0, 40):
        errors = 0.1**drift * exponential ** (1 - drift) * np.exp(1.2 * drift * normal)
        sampler.update(slots, errors)
        frozen.append(ess.of_weights(errors**0.7).fraction)
        trainer.adaptation.measurements.fresh = True
        trainer.adaptation.end_of_phase(trainer.clock)
        trainer.adaptation.move_to({}, trainer.clock)
        shares.append(ess.of_weights(trainer.experience.priorities()).fraction)
    assert np.abs(np.array(shares[5:]) / 0.7 - 1).max() < 0.1
    assert np.abs(np.array(frozen) / 0.7 - 1).max() > 0.1  # what alpha as it was would have given


def test_noise_of_gradients_lowers_the_exponent_of_priorities(monkeypatch: pytest.MonkeyPatch) -> None:
    """To a share of sqrt(ratio) times what the exponent that was set gives; a ratio of 1 or more leaves it."""
    found = {"ratio": 4.0}
    monkeypatch.setattr(MeasuredNoise, "health", lambda *_: Health("gradient_noise", 1.0, 1.0, found["ratio"]))
    told = Adaptive(**{**QUICK, "period": 10**6}, signals=["gradient_noise"], parameters={"alpha": {}})
    agent = dqn(Framework("pytorch"), told, PR=True)
    agent.train(total_steps=512, p=0)
    trainer, errors = agent._trainer, np.random.default_rng(0).exponential(size=512)
    sampler = trainer.experience.buffer.sampler
    sampler.update(np.arange(512), errors)

    def decide() -> None:
        trainer.adaptation.measurements.fresh = True
        trainer.adaptation.end_of_phase(trainer.clock)
        trainer.adaptation.move_to({}, trainer.clock)

    decide()
    assert (sampler.alpha, agent.decisions[-1].reason) == (0.7, "deadband")
    found["ratio"] = 0.81
    for _ in range(10):
        decide()
    expected = 0.9 * ess.of_weights(errors**0.7).fraction
    assert sampler.alpha > 0.7
    assert ess.of_weights(errors**sampler.alpha).fraction == pytest.approx(expected, rel=0.01)


def test_one_parameter_may_be_left_out_or_only_advised_about() -> None:
    parameters = {"learning_rate": {"mode": "advise"}, "clip": {}, "num_updates": {"mode": "off"}}
    agent = ppo(
        Framework("pytorch"),
        Adaptive(**QUICK, signals=["ratio_ess"], parameters=parameters, targets={"ratio_ess": 2.0}),
    )
    logs: list[dict[str, float]] = []
    agent.train(total_steps=320, p=0, callbacks=[LambdaCallback(on_phase_end=lambda phase, logs_: logs.append(logs_))])
    assert {(one.parameter, one.mode) for one in agent.decisions} == {
        ("learning_rate:0", "advise"),
        ("clip", "control"),
    }
    assert set(agent.adapted_schedule) == {"clip"}
    assert logs[-1]["adaptive/clip"] < 0.2
    # what clipping hides is shown beside what is controlled by
    assert 1.0 >= logs[-1]["adaptive/clipped_ratio_ess"] >= logs[-1]["adaptive/ratio_ess"] - 1e-6


def test_a_collapsed_pool_loses_its_oldest_and_a_healthy_one_does_not() -> None:
    framework = Framework("pytorch")
    told = Adaptive(**{**QUICK, "period": 10**6}, signals=["priority_ess"], parameters={"window": {}})
    agent = dqn(framework, told, PR=True, batch=2, pool_size=100)
    agent.train(total_steps=96, p=0)
    trainer = agent._trainer
    buffer = trainer.experience.buffer
    assert len(buffer) == 96
    buffer.sampler.update(buffer.ring.slots(np.arange(96)), np.r_[np.full(90, 1e-6), np.full(6, 10.0)])
    trainer.adaptation.measurements.fresh = True
    trainer.adaptation.end_of_phase(trainer.clock)
    trainer.adaptation.move_to({}, trainer.clock)
    assert len(buffer) == 87
    assert agent.decisions[-1].parameter == "window"


def test_a_run_is_repeated_from_the_schedule_it_left(tmp_path: Any) -> None:
    framework = Framework("pytorch")
    schedules = {"learning_rate": Linear(1e-3, 1e-4)}
    told = Adaptive(
        **QUICK, **{**BY_RATIO, "parameters": {**BY_RATIO["parameters"], "num_updates": {}}}, targets={"ratio_ess": 3.0}
    )
    first = ppo(framework, told, schedules=schedules)
    expected = trained(framework, first)
    left = first._trainer.adaptation.log.schedule()
    assert len(left["learning_rate:0"]) > 3
    assert len(left["num_updates"]) > 1
    again = ppo(framework, Adaptive(schedule=left), schedules=schedules)
    assert same(trained(framework, again), expected)
    assert not same(trained(framework, ppo(framework, None, schedules=schedules)), expected)


class StopAfter:
    """Ends training after so many phases."""

    def __init__(self, phases: int) -> None:
        self._phases = phases

    def on_phase_end(self, phase: int) -> None:
        self.agent.stop_training = phase == self._phases

    def set_agent(self, agent: Any) -> None:
        self.agent = agent


def test_a_run_goes_on_from_its_checkpoint_as_if_it_had_not_stopped(tmp_path: Any) -> None:
    """In one framework, as the next one: what moves stands in NumPy, and Keras traces an update for each agent."""
    framework = Framework("pytorch")
    told = Adaptive(
        **{**QUICK, "cooldown": 1},
        signals=["ratio_ess", "kl", "gradient_noise"],
        parameters={"learning_rate": {}, "clip": {}, "num_updates": {}},
        targets={"ratio_ess": 1.3},
    )

    whole = ppo(framework, told)
    expected = trained(framework, whole, 384)
    half = ppo(framework, told)
    half.train(total_steps=384, p=0, jit_compile=False, callbacks=[StopAfter(3)])
    half.save(tmp_path / "half")
    rest = ppo(framework, told)
    rest.restore(tmp_path / "half")
    assert same(trained(framework, rest, 384), expected)
    assert [one.to_json() for one in rest.decisions] == [one.to_json() for one in whole.decisions]


BY_PRIORITIES = Adaptive(
    **QUICK,
    signals=["priority_ess"],
    parameters={"alpha": {}, "batch_size": {"align": 2}, "per_beta": {}},
    targets={"priority_ess": 0.5},
)


def test_so_does_prioritized_replay_and_its_schedule_repeats_it(tmp_path: Any) -> None:
    framework = Framework("pytorch")

    def prioritized(adaptive: Adaptive) -> Any:
        return dqn(framework, adaptive, PR=True, pool_size=256, batch=4, learning_starts=16)

    whole = prioritized(BY_PRIORITIES)
    expected = trained(framework, whole, 320)
    left = whole._trainer.adaptation.log.schedule()
    assert {name for name, steps in left.items() if len(steps) > 1} >= {"alpha", "batch_size"}
    half = prioritized(BY_PRIORITIES)
    half.train(total_steps=320, p=0, jit_compile=False, callbacks=[StopAfter(11)])
    assert half.num_env_steps < 320
    half.save(tmp_path / "half")
    rest = prioritized(BY_PRIORITIES)
    rest.restore(tmp_path / "half")
    assert same(trained(framework, rest, 320), expected)
    assert [one.to_json() for one in rest.decisions] == [one.to_json() for one in whole.decisions]
    assert same(trained(framework, prioritized(Adaptive(schedule=left)), 320), expected)
    assert not same(trained(framework, prioritized(Adaptive(mode="off")), 320), expected)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"signals": ["priority_ess"]}, "priority_ess needs priorities: set PR=True"),
        ({"signals": ["ratio_ess"]}, "compares PPO's policies"),
        ({"signals": ["gradient_noise"], "parameters": {"clip": {}}}, "DQN has no attribute clip"),
        ({"signals": ["gradient_noise"], "parameters": {"alpha": {}}}, "alpha is to be adapted, which needs PR=True"),
        ({"schedule": {"clip": [[0, 0.1]]}}, "DQN has no attribute clip"),
        ({"schedule": {"learning_rate:1": [[0, 0.1]]}}, "but of learning_rate there are learning_rate:0"),
        ({"schedule": {"learning_rat": [[0, 0.1]]}}, "DQN has no attribute learning_rat"),
    ],
)
def test_what_is_not_there_is_refused_before_the_first_step(told: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        dqn(Framework("pytorch"), Adaptive(**told)).train(total_steps=64, p=0, callbacks=[LambdaCallback(**HOOKS)])


@pytest.mark.parametrize(
    ("framework", "jit"),
    [
        (Framework("pytorch"), False),
        (Framework("pytorch"), "auto"),
        pytest.param(Framework("keras"), False, marks=pytest.mark.slow),
    ],
)
def test_any_number_of_the_agent_and_the_rates_of_all_optimizers_can_be_repeated(
    framework: Framework, jit: bool | str
) -> None:
    steps = {"entropy_coef": [[320, 0.5]], "gae_lambda": [[320, 0.5]], "learning_rate": [[320, 5e-3]]}
    repeating = ppo(framework, Adaptive(schedule=steps))
    repeating.train(total_steps=640, p=0, jit_compile=jit)
    assert (repeating.entropy_coef, repeating.gae_lambda) == (0.0, 0.95), "the user's numbers are put back"
    by_hand = ppo(framework, None)
    by_hand.train(total_steps=320, p=0, jit_compile=False)
    untouched = framework.parameters(by_hand)
    by_hand.entropy_coef, by_hand.gae_lambda = 0.5, 0.5
    for optimizer in [by_hand.optimizer] if framework.package == "keras" else by_hand.optimizer.param_groups:
        if framework.package == "keras":
            optimizer.learning_rate = 5e-3
        else:
            optimizer["lr"] = 5e-3
    by_hand.train(total_steps=640, p=0, jit_compile=False)
    expected = framework.parameters(by_hand)
    assert not same(untouched, expected)
    for one, other in zip(framework.parameters(repeating), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("framework", frameworks())
def test_numbers_that_an_optimizer_has_not_are_refused_by_name(framework: Framework) -> None:
    agent = dqn(framework, Adaptive(signals=["gradient_noise"], parameters={"beta1": {}}))
    agent.optimizer = framework.optimizers.sgd(agent.param, 0.1)
    with pytest.raises(SettingsError, match="beta1 of SGD cannot be changed while training goes on"):
        agent.train(total_steps=64, p=0)
