"""The registry of signals, and custom signals: by name and by object, in both frameworks."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from note_rl.adaptive.controller import Controller
from note_rl.adaptive.health import Health, Target
from note_rl.adaptive.signals import Need, Signal, TrainingView, register
from note_rl.adaptive.signals.gradient_noise import GradientNoise, NoiseReading
from note_rl.adaptive.signals.ratio_ess import RatioEss
from note_rl.errors import SettingsError
from note_rl.learners.batch_noise_scale import NoiseMoments
from note_rl.policy import EpsGreedyQPolicy
from note_rl.seeding import seed_everything
from note_rl.settings import Adaptive, RolloutSettings
from note_rl.settings.adaptive import Adapt
from note_rl.settings.schedules import Linear
from note_rl.settings.signals import described, registered
from note_rl.types import Sample, Update
from tests.note_rl.frameworks import Framework, frameworks
from tests.note_rl.small_environments import Corridor

CAPACITY, PHASE = 512, 16


@register
class PoolFill(Signal):
    """Known by hand: 16 transitions more after each phase."""

    name = "pool_fill"
    text = "share of the replay pool that is filled"
    target = 64 / CAPACITY

    def after_phase(self, view: TrainingView) -> float:
        experience: Any = view.experience
        return len(experience.buffer) / CAPACITY


class Crowding(PoolFill):
    """The same, of which less is better; it is in no registry."""

    name = "crowding"
    text = "transitions in the pool, in units of the user's choice"
    larger_is_better = False
    scales_with_batch = True

    def __init__(self, unit: float = 1.0) -> None:
        self.unit = unit

    def after_phase(self, view: TrainingView) -> float:
        return super().after_phase(view) / self.unit


QUICK = {"period": 1, "noise_period": 1, "warm_up": 1, "calibration": 2, "smooth": 1.0}
FREE = {"slew": 10.0}


def dqn(framework: Framework, adaptive: Adaptive, **options: Any) -> Any:
    make = framework.agents.DQN
    seed_everything(1)
    agent = make(hidden_size=(8,), env=lambda: Corridor(), tau=0.1)
    agent.set(
        policy=EpsGreedyQPolicy(0.3),
        seed=2,
        adaptive=adaptive,
        pool_size=CAPACITY,
        batch=16,
        train_freq=PHASE,
        gradient_steps=2,
        update_batches=2,
        **options,
    )
    agent.optimizer = framework.optimizers.sgd(agent.param, 0.01)
    return agent


def rates_used(agent: Any, num_phases: int) -> list[float]:
    """The learning rate of each phase."""
    rates: list[float] = []
    update = agent.learner.update

    def spied(sample: Any, hyperparameters: dict[str, float]) -> Any:
        rates.append(hyperparameters["learning_rate:0"])
        return update(sample, hyperparameters)

    agent.learner.update = spied
    agent.train(total_steps=num_phases * PHASE, p=0, jit_compile=False)
    return rates


@pytest.mark.slow_in_keras  # signals are read before any framework
@pytest.mark.parametrize("framework", frameworks())
def test_a_custom_signal_moves_a_hyperparameter_as_worked_out_by_hand(framework: Framework) -> None:
    told = Adaptive(**QUICK, signals=["pool_fill"], parameters={"learning_rate": {"gain": 0.5, **FREE}})
    agent = dqn(framework, told)
    # 16, 32, 48, 64, 80 of 64 wished: the square root of that, but for a ratio of 1, which changes nothing
    expected = [1.0, math.sqrt(16 / 64), math.sqrt(32 / 64), math.sqrt(48 / 64), math.sqrt(48 / 64), math.sqrt(80 / 64)]
    assert rates_used(agent, 6) == pytest.approx([0.01 * factor for factor in expected])
    decisions = agent.decisions
    assert {decision.signal for decision in decisions} == {"pool_fill"}
    assert [decision.q for decision in decisions] == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.25, 1.5])
    assert [decision.reason for decision in decisions] == ["law", "law", "law", "deadband", "law", "law"]
    assert agent.learner.optimizer_numbers()[0].values["learning_rate"] == pytest.approx(0.01)
    assert agent._trainer.adaptation.logs()["adaptive/pool_fill"] == 96 / CAPACITY


@pytest.mark.slow_in_keras
@pytest.mark.parametrize("framework", frameworks())
def test_so_does_an_object_smoothed_with_its_own_target_and_from_a_checkpoint(
    framework: Framework, tmp_path: Path
) -> None:
    """Units of 1/512, smoothed by halves, 32 wished, less is better."""
    told = Adaptive(
        **{**QUICK, "smooth": 0.5},
        signals=[Crowding(unit=1 / CAPACITY)],
        targets={"crowding": 32.0},
        parameters={"learning_rate": {"gain": 1.0, **FREE}},
    )
    whole = dqn(framework, told)
    # running means of 16, 32, 48, 64 without the pull towards 0: 16, 26.7, 38.9, 52.3
    means = [16, (16 + 2 * 32) / 3, (16 + 2 * 32 + 4 * 48) / 7, (16 + 2 * 32 + 4 * 48 + 8 * 64) / 15]
    expected = [0.01, *(0.01 * 32 / mean for mean in means)]
    assert rates_used(whole, 5) == pytest.approx(expected)
    half = dqn(framework, told)
    rates_used(half, 2)
    half.save(tmp_path / "half")
    rest = dqn(framework, told)
    rest.restore(tmp_path / "half")
    assert rates_used(rest, 5) == pytest.approx(expected[2:])
    assert np.array_equal(framework.parameters(rest)[0], framework.parameters(whole)[0])


def test_what_a_signal_needs_is_refused_before_the_first_step() -> None:
    class OfRollouts(PoolFill):
        name = "of_rollouts"
        needs = (Need(lambda experience: isinstance(experience, RolloutSettings), "needs rollouts: set PPO=True"),)

    with pytest.raises(SettingsError, match="adaptive: the signal of_rollouts needs rollouts: set PPO=True"):
        dqn(Framework("pytorch"), Adaptive(signals=[OfRollouts()], parameters={"eps": {}}))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"signals": [PoolFill]}, "is neither a name nor an object"),
        ({"signals": [3]}, "3 is neither a name nor an object"),
        ({"signals": ["pool_fil"]}, "there is no 'pool_fil'; did you mean pool_fill"),
        ({"signals": ["kl"], "targets": {"crowding": 1.0}}, "there is no 'crowding'"),
        ({"signals": ["pool_fill"], "parameters": {"eps": {"law": "kl_step"}}}, "which pool_fill cannot be read as"),
        (
            {"signals": [Crowding()], "parameters": {"learning_rate": {}, "batch_size": {}}},
            "learning_rate and batch_size both go by crowding",
        ),
        (
            {"parameters": {"clip": {}}},
            "give it signals to go by.*kl: KL divergence of.*pool_fill: share of the replay pool",
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        Adaptive(**options)


def test_two_signals_of_one_name_are_refused_and_one_that_comes_again_replaces_itself() -> None:
    class Other(Signal):
        name = "kl"
        text = "something else"

    with pytest.raises(SettingsError, match=r"a signal 'kl' already, note_rl\.adaptive\.signals\.kl\.KL; choose"):
        register(Other)
    before = registered()["pool_fill"]
    register(PoolFill)
    assert registered()["pool_fill"] is not before
    assert registered()["kl"].text != Other.text


def test_an_object_is_found_by_its_name_before_what_is_registered() -> None:
    class Stricter(PoolFill):
        target = 0.5

    given = Stricter()
    told = Adaptive(signals=[given], parameters={"eps": {"signals": ["pool_fill", "kl"]}})
    assert [signal is given for signal in told.all_signals()] == [True, False]
    assert told.target(told.signal("pool_fill")) == 0.5
    assert Crowding(2.0) == Crowding(2.0) != Crowding(3.0)  # so that set() compares it with the one given before


def test_every_signal_says_what_it_is_and_reads_something() -> None:
    hooks = ("before_update", "after_update", "after_phase")
    assert {"priority_ess", "weight_ess", "ratio_ess", "kl", "gradient_noise"} <= registered().keys()
    for name, signal in registered().items():
        assert f"{name}: {signal.text}" in described()
        assert any(getattr(type(signal), hook) is not getattr(Signal, hook) for hook in hooks)
        kl_ratio = signal.kl_ratio(0.5, 0.25)  # type: ignore[attr-defined]
        assert signal.stands_for_kl == (not math.isnan(kl_ratio))


def test_configurations_wish_what_signals_do() -> None:
    chosen = 0
    for path in sorted((Path(__file__).parents[3] / "conf" / "adaptive").glob("*.yaml")):
        node = yaml.safe_load(path.read_text())
        for name, target in (node.get("targets") or {}).items():
            assert registered()[name].target == target
            chosen += 1
    assert chosen == 4


def test_shares_are_averaged_by_their_reciprocals_and_read_as_divergences() -> None:
    measured = RatioEss().begin(0.5, Target(0.9, 1), warm_up=2)
    measured.add(0.5)
    assert measured.health(32).skip_reason == "warm-up: 1 of 2 measurements"
    measured.add(0.25)
    measured.add(math.nan)  # leaves no trace
    health = measured.health(32)
    assert health.value == pytest.approx(3 / (2 + 2 * 4))  # 1 / ((1/0.5 + 2/0.25) / 3)
    assert health.ratio == pytest.approx(0.3 / 0.9)
    assert health.kl_ratio == pytest.approx(math.log(0.9) / math.log(0.3))


def test_only_the_last_epoch_is_read() -> None:
    agent = Framework("pytorch").agents.PPO(hidden_size=(8,), env=lambda: Corridor())
    experience: Any = type("Experience", (), {"settings": RolloutSettings(num_steps=8, batch_size=2, num_epochs=2)})()
    view = TrainingView(experience, agent.learner, 1, lambda: 0.2)
    update = Update(np.zeros((4, 1)), ratio=np.array([[9.0, 1.0], [7.0, 1.0], [1.0, 3.0], [1.0, 1.0]]))
    sample: Any = None
    signal = RatioEss()
    assert signal.after_update(sample, update, view) == pytest.approx(36 / 12 / 4)
    assert signal.beside(update, view) == {"clipped_ratio_ess": pytest.approx(4.2**2 / 4.44 / 4)}
    with pytest.raises(SettingsError, match="ratio_ess needs the ratios of new to old policy: call"):
        signal.after_update(sample, Update(np.zeros((4, 1))), view)


def test_noise_may_be_wished_to_stay_what_it_was() -> None:
    measured = GradientNoise().begin(1.0, Target("auto", 2), warm_up=1)
    reading = NoiseReading([NoiseMoments(40.0, 10.0)], 600, 1000)  # a scale of 4, by 600 distinct samples of a thousand
    for _ in range(20):
        measured.add(reading)
    assert measured.health(32).skip_reason == "calibration of the target"
    measured.add(reading)
    assert measured.health(1000).ratio == pytest.approx(1.0)
    assert measured.health(500).ratio == pytest.approx(0.5)
    assert measured.health(500).noise_factor == pytest.approx(1.004 / 1.008)


@pytest.mark.parametrize(("warm_up", "needed"), [(1, 20), (30, 30)])
def test_noise_is_relied_upon_after_its_warm_up(warm_up: int, needed: int) -> None:
    measured = GradientNoise().begin(1.0, Target(1.0, 2), warm_up)
    for count in range(1, needed + 1):
        measured.add(NoiseReading([NoiseMoments(40.0, 10.0)], 1000, 1000))
        reason = measured.health(1000).skip_reason
        assert reason == (None if count == needed else f"unreliable: {count} of {needed} measurements")


def test_what_is_no_divergence_takes_no_step_of_one() -> None:
    with pytest.raises(SettingsError, match="law=kl_step goes by a KL divergence, which gradient_noise cannot be read"):
        Adaptive(signals=["gradient_noise"], parameters={"learning_rate": {"law": "kl_step"}})
    controller = Controller("learning_rate", Adapt(law="kl_step"))
    noisy = Health("gradient_noise", 9.0, 1.0, 1 / 9, noise_factor=0.2)
    result = controller.decide(1.0, noisy)  # beside a KL divergence it may be what rules
    assert (result.new, result.reason) == (1.0, "gradient_noise is no KL divergence")


def test_minibatches_are_read_before_they_are_learned_from_and_seldom() -> None:
    read: list[int] = []

    class Seldom(Signal):
        name = "seldom"
        text = "how often it is read"

        def before_update(self, sample: Sample, view: TrainingView) -> float:
            read.append(sample.num_gradient_steps)
            return float(len(read))

    told = {**QUICK, "noise_period": 6, "mode": "advise"}
    agent = dqn(Framework("pytorch"), Adaptive(**told, signals=[Seldom()], parameters={"eps": {}}))
    agent.train(total_steps=12 * PHASE, p=0)  # 12 phases of 2 gradient steps
    assert read == [2] * 4
    assert [decision.value for decision in agent.decisions if not math.isnan(decision.value)][-1] == 4.0


def test_a_schedule_goes_on_below_a_signal() -> None:
    told = Adaptive(**QUICK, signals=["pool_fill"], parameters={"learning_rate": {"gain": 1.0, **FREE}})
    agent = dqn(Framework("pytorch"), told, schedules={"learning_rate": Linear(0.1, 0.0)})
    # after 0, 16, 32 of 64 steps: 0.1, 0.075, 0.05, times 16/64 and 32/64 from the second on
    assert rates_used(agent, 4)[:3] == pytest.approx([0.1, 0.075 * 16 / 64, 0.05 * 32 / 64])
