"""The control law: numbers by hand, signs, bounds, and that nothing happens where nothing should."""

import itertools
import json
import math

import pytest

from note_rl.adaptive.controller import Controller
from note_rl.adaptive.health import Health, Target, worst
from note_rl.adaptive.signals.kl import KL
from note_rl.errors import SettingsError
from note_rl.settings.adaptive import Adapt, Adaptive, of_manual
from note_rl.settings.adaptive_rules import HORIZON, RULES

FREE = Adapt(slew=1e9)
BASES = {"gamma": 0.99, "beta1": 0.9, "beta2": 0.999, "eps": 0.2, "alpha": 0.6, "per_beta": 0.4, "clip": 0.2}
BASES |= {"batch_size": 64, "num_updates": 8, "update_interval": 100, "num_store": 2, "learning_rate": 3e-4}
BASES |= {"tau": 0.005, "kl_coefficient": 0.5, "weight_decay": 0.01}


def health(q: float, skip_reason: str | None = None, signal: str = "ratio_ess") -> Health:
    return Health(signal, q, 1.0, q, q, skip_reason)


def decided(name: str, base: float, q: float, how: Adapt = FREE) -> float:
    return Controller(name, how).decide(base, health(q)).new


def test_numbers_by_hand() -> None:
    assert decided("learning_rate", 3e-4, 0.5) == pytest.approx(2.1213e-4, rel=1e-4)
    assert decided("learning_rate", 3e-4, 4.0, Adapt()) == pytest.approx(3.75e-4)  # as far as the slew lets it
    assert decided("tau", 0.005, 0.5) == pytest.approx(3.5355e-3, rel=1e-4)
    assert decided("beta1", 0.9, 0.5, Adapt(gain=1, slew=1e9)) == pytest.approx(0.95)
    assert HORIZON.moved(0.99, 0.5) == pytest.approx(0.98)
    assert decided("gamma", 0.99, 2.0, Adapt(gain=1, slew=1e9)) == pytest.approx(0.995)
    assert decided("gamma", 0.99, 0.5, Adapt(gain=1, slew=1e9)) == 0.99  # never down


def test_learning_rate_by_the_noise_of_its_step() -> None:
    """At B = B_simple a step should be half as long as without noise (McCandlish et al. 2018, eq. 2.6)."""
    noisy = Health("gradient_noise", 1.0, 0.0, 0.1, noise_factor=0.5)  # target 0: relative to a step without noise
    assert Controller("learning_rate", Adapt(law="noise", gain=1, slew=9)).decide(1.0, noisy).new == pytest.approx(0.5)
    assert Controller("learning_rate", Adapt(law="noise", slew=9)).decide(1.0, noisy).new == pytest.approx(0.7071, 1e-4)


def test_a_batch_by_the_effective_size_goes_from_where_it_is() -> None:
    """64 * 0.4 = 25.6 is nearest to 32, 32 * 3 = 96 to 128 (by factors), 128 * 0.3 = 38.4 to 32, within 16 to 300."""
    controller = Controller("batch_size", Adapt(law="ess", min=16, max=300))
    assert [controller.decide(64, health(q)).new for q in (0.4, 3.0, 1.2, 0.3, 1e-3, 1e9)] == [
        32,
        128,
        128,
        32,
        16,
        256,
    ]
    scaled = Controller("batch_size", Adapt(law="ess", min=16, max=300, scale=4.0))
    assert [scaled.decide(64, health(q)).new for q in (0.25, 1.0, 0.25)] == [64, 256, 256]
    assert Controller("batch_size", Adapt(law="ess"), gain=0.0).decide(64, health(0.1)).new == 64


@pytest.mark.parametrize("name", RULES)
def test_health_as_wished_or_no_gain_is_the_schedule_itself(name: str) -> None:
    for how, gain in ((Adapt(), 1.0), (Adapt(), 0.0), (Adapt(gain=0.0), 1.0)):
        controller = Controller(name, how, gain)
        for step in range(30):
            base = BASES[name] * (1 - 0.01 * step)
            q = 1.0 if gain and how.gain is None else (0.01, 0.3, 50.0)[step % 3]
            assert controller.decide(base, health(q)).new == base
            assert controller.value(base) == base


@pytest.mark.parametrize("name", RULES)
def test_every_parameter_moves_as_its_sign_says(name: str) -> None:
    values = []
    for q in (0.2, 0.5, 0.8, 1.0, 1.3, 2.0, 5.0):
        controller = Controller(name, Adapt())
        for _ in range(40):
            controller.decide(BASES[name], health(q))
        values.append(controller.value(BASES[name]) * RULES[name].sign)
    assert values == sorted(values)
    assert values[0] < values[-1]


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("law", ["feed_forward", "kl_step", "additive"])
def test_no_signal_drives_a_parameter_out_of_its_bounds(name: str, law: str) -> None:
    hostile = (math.nan, 0.0, math.inf, 1e9, -1.0, 1e-300, 1e300)
    how = Adapt(law=law, rate=1e6 if law == "additive" else None)
    for sequence in itertools.product(hostile, repeat=3):
        controller = Controller(name, how)
        for q in sequence * 4:
            value = controller.decide(BASES[name], health(q)).new
            low, high = controller.bounds(BASES[name])
            assert min(low, BASES[name]) <= value <= max(high, BASES[name])
            assert math.isfinite(value)


BOUNDED = {
    "tau": (Adapt(max=5.0, slew=9), 0.5, (0.125, 1.0)),
    "eps": (Adapt(max=3.0, slew=9), 0.6, (0.3, 1.0)),
    "alpha": (Adapt(max=2.0, min=-1.0, slew=9), 0.6, (0.0, 1.0)),
    "learning_rate": (Adapt(min=0.5, slew=9), 1.0, (0.5, 3.0)),
    "batch_size": (Adapt(min=32), 64, (32, 256)),
    "num_store": (Adapt(max=2), 1, (1, 2)),
}


@pytest.mark.parametrize("name", BOUNDED)
def test_bounds_of_the_user_narrow_those_that_are_hard(name: str) -> None:
    how, base, expected = BOUNDED[name]
    controller = Controller(name, how)
    assert controller.bounds(base) == pytest.approx(expected)
    for q in (1e-6, 1e6):
        values = [controller.decide(base, health(q)).new for _ in range(40)]
        assert all(expected[0] <= value <= expected[1] for value in values)
        assert len(set(values[-5:])) == 1, "it comes to rest"


def test_a_start_out_of_bounds_is_refused_and_a_schedule_that_leaves_them_is_followed() -> None:
    controller = Controller("batch_size", Adapt(min=32, max=256))
    with pytest.raises(SettingsError, match="batch_size begins at 16, out of its bounds min=32 and max=256"):
        controller.check(16)
    controller.check(32)
    decayed = Controller("learning_rate", Adapt(min=0.01))
    assert decayed.bounds(1e-3) == pytest.approx((1e-3, 3e-3))
    assert {decayed.decide(1e-3, health(0.1)).new for _ in range(20)} == {1e-3}, "no rise where it is to fall"


def test_slew_bounds_deadband_and_cooldown() -> None:
    controller = Controller("learning_rate", Adapt(), cooldown=1)
    reasons = [controller.decide(1.0, health(0.1)).reason for _ in range(4)]
    assert reasons == ["slew", "cooldown", "slew", "cooldown"]
    assert controller.value(1.0) == pytest.approx(1 / 1.25**2)
    assert controller.decide(1.0, health(0.93)).reason == "deadband"
    assert controller.value(1.0) == pytest.approx(1 / 1.25**2)  # held
    controller = Controller("learning_rate", Adapt(gain=9))
    for _ in range(50):
        outcome = controller.decide(1.0, health(1e-6))
    assert (outcome.new, outcome.reason) == (pytest.approx(0.1), "bound")
    assert controller.value(0.5) == pytest.approx(0.05)  # the schedule goes on


def test_unreliable_signals_hold_the_value() -> None:
    controller = Controller("learning_rate", Adapt())
    held = controller.decide(1.0, health(0.1)).new
    outcome = controller.decide(1.0, health(5.0, "unreliable: 3 of 20 measurements"))
    assert (outcome.old, outcome.new, outcome.reason) == (held, held, "unreliable: 3 of 20 measurements")


def test_steps_of_kl() -> None:
    controller = Controller("learning_rate", Adapt(law="kl_step", max_factor=30, min_factor=1 / 30))
    values = [controller.decide(1.0, health(q)).new for q in (0.4, 0.4, 0.6, 1.9, 2.1)]
    assert values == pytest.approx([1 / 1.5, 1 / 2.25, 1 / 2.25, 1 / 2.25, 1 / 1.5])
    for _ in range(50):
        controller.decide(1.0, health(9.0))
    assert controller.value(1.0) == pytest.approx(30)
    assert decided("learning_rate", 1.0, 0.4, Adapt(law="kl_step", gain=2)) == pytest.approx(1 / 2.25)
    assert Controller("learning_rate", Adapt(law="kl_step"), 0.0).decide(1.0, health(0.4)).new == 1.0
    coefficient = Controller("kl_coefficient", Adapt(law="kl_step"))
    assert [coefficient.decide(1.0, health(q)).new for q in (0.6, 1.6, 1.4)] == pytest.approx([2.0, 1.0, 1.0])


def test_additive_law_of_the_manuals() -> None:
    assert decided("clip", 0.2, 0.5, Adapt(rate=0.1)) == pytest.approx(0.2 / 1.25)  # 0.15, but for the slew
    assert decided("clip", 0.2, 0.5, Adapt(rate=0.1, slew=9)) == pytest.approx(0.15)
    assert decided("eps", 0.2, 0.5, Adapt(rate=0.1, slew=9)) == pytest.approx(0.25)


def test_batches_move_on_a_ladder_of_five() -> None:
    controller = Controller("batch_size", Adapt())
    assert controller.rungs(64) == [16, 32, 64, 128, 256]
    assert controller.rungs(20) == [8, 16, 20, 40, 80]  # multiples of 8, but for what was set
    seen = {controller.decide(64, health(0.05 * 1.3**k)).new for k in range(40) for _ in range(3)}
    assert seen <= {16, 32, 64, 128, 256}
    assert len(seen) >= 4
    limited = Controller("batch_size", Adapt(min=32, max=128, align=32))
    assert limited.rungs(64) == [32, 64, 128]


def test_worst_signal_counts_and_unreliable_ones_do_not() -> None:
    assert worst([health(0.7), health(0.5, signal="kl"), health(2.0)]).signal == "kl"
    assert worst([health(0.7), health(0.1, "warm-up", "kl")]).signal == "ratio_ess"
    assert worst([health(0.1, "warm-up", "kl")]).skip_reason == "warm-up"


def test_target_is_the_median_of_the_first_measurements() -> None:
    signal = KL().begin(1.0, Target("auto", 3), warm_up=1)
    for value in (0.03, 0.01, 0.02):
        assert signal.health(32).skip_reason is not None
        signal.add(value)
    signal.add(0.04)
    assert signal.health(32).ratio == pytest.approx(0.5)


def test_state_survives_a_checkpoint() -> None:
    first, second = (Controller("clip", Adapt(), cooldown=2) for _ in range(2))
    for q in (0.5, 0.6, 0.4):
        first.decide(0.2, health(q))
    second.take(json.loads(json.dumps(first.to_json())))
    for q in (3.0, 0.2, 0.2, 0.9):
        assert second.decide(0.2, health(q)) == first.decide(0.2, health(q))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"parameters": {"learning_rat": {}}}, "did you mean learning_rate"),
        ({"parameters": {"clip": {"ratee": 1}}}, "clip: there is no 'ratee'; did you mean rate"),
        ({"parameters": {"clip": {}}}, "clip: give it signals to go by"),
        ({"parameters": {"clip": 3}}, "clip: 3 is no dict of min, max, gain"),
        ({"signals": ["kll"]}, "did you mean kl"),
        ({"mode": "on"}, "known are off, advise, control"),
        ({"gain": -1}, "gain must be at least 0"),
        ({"signals": ["kl"], "parameters": {"clip": {"law": "additive"}}}, "clip: law=additive needs rate"),
        ({"signals": ["kl"], "parameters": {"clip": {"law": "solve"}}}, "law=solve is for alpha"),
        ({"signals": ["kl"], "parameters": {"clip": {"law": "ess"}}}, "law=ess is for batch_size"),
        ({"signals": ["kl"], "parameters": {"clip": {"min": 2, "max": 1}}}, "min=2 is above max=1"),
        ({"signals": ["gradient_noise"], "parameters": {"learning_rate": {}, "batch_size": {}}}, "adapt one of them"),
        ({"schedule": {"clip": [[5, 1.0], [5, 2.0]]}}, "in rising order"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        Adaptive(**options)  # type: ignore[arg-type]


def test_the_manuals_dictionaries() -> None:
    found = of_manual({"lr": {"rate": 1e-4, "min": 1e-5}, "store": {"scale": 2.0}, "eps": None, "beta": {}}, "adjust")
    assert set(found) == {"learning_rate", "num_store", "kl_coefficient"}
    assert found["learning_rate"].law == "additive"
    with pytest.raises(SettingsError, match=r"adjust\(batch_params=...\) must be a dict"):
        of_manual({"batch": 64}, "adjust")
