import numpy as np

from tuner.results.learning_curves import Curve, band_over
from tuner.results.run_labels import compared_settings, labels_of


def test_a_curve_is_in_order_and_without_gaps() -> None:
    curve = Curve.of([30, 10, 20, 10, 40, 50], [3.0, 1.0, float("nan"), 1.5, float("inf"), 5.0])
    assert curve.x.tolist() == [10, 30, 50]
    assert curve.y.tolist() == [1.5, 3.0, 5.0], "of two values at a place the last one counts"


def test_a_band_is_the_middle_of_the_runs_that_have_got_there() -> None:
    long, short, early = Curve.of([0, 10, 20], [0, 10, 40]), Curve.of([0, 10], [4, 6]), Curve.of([5, 10], [7, 20])
    band = band_over([long, short, early])
    assert band.x.tolist() == [0, 5, 10, 20]
    assert band.num_runs.tolist() == [2, 3, 3, 1]
    assert band.middle.tolist() == [2.0, 5.0, 10.0, 40.0]  # of [0, 4], [5, 5, 7], [6, 10, 20], [40]
    assert band.low.tolist() == [1.0, 5.0, 8.0, 40.0]  # a quarter of the way from the lowest to the highest
    assert band.high.tolist() == [3.0, 6.0, 15.0, 40.0]
    whole = band_over([long, short, early], "range")
    assert (whole.low.tolist(), whole.high.tolist()) == ([0.0, 5.0, 6.0, 40.0], [4.0, 7.0, 20.0, 40.0])


def test_runs_that_have_no_place_in_common_leave_a_gap() -> None:
    band = band_over([Curve.of([0, 1], [1, 1]), Curve.of([5, 6], [3, 3])])
    assert band.x.tolist() == [0, 1, 5, 6]
    assert band.middle.tolist() == [1, 1, 3, 3]


def test_long_curves_are_thinned_and_stay_where_they_were() -> None:
    steps = np.arange(5000.0)
    band = band_over([Curve.of(steps, 2.0 * steps), Curve.of(steps + 0.5, 2.0 * steps)])
    assert len(band.x) == 1000
    np.testing.assert_allclose(band.middle[1:-1], 2.0 * band.x[1:-1] - 0.5)


def _settings(agent: str, **more: object) -> dict[str, object]:
    node = {"_target_": f"note_rl.agents.pytorch.{agent}", "gamma": 0.99}
    return compared_settings({"agent": node, "env": {"id": "CartPole-v1"}, **more, "seed": 3, "tracker": {"x": 1}})


def test_seeds_and_trackers_make_no_other_configuration() -> None:
    assert set(_settings("DQN")) == {"agent._target_", "agent.gamma", "env.id"}


def test_runs_are_called_by_what_they_differ_in() -> None:
    assert labels_of([_settings("DQN")]) == ["DQN"]
    assert labels_of([_settings("DQN", buffer={"size": 1}), _settings("PPO", buffer={"size": 2})]) == ["DQN", "PPO"]
    alike = [_settings("DQN", buffer={"size": 1}, net={"_target_": f"a.{name}"}) for name in ("Wide", "Deep")]
    assert labels_of([*alike, _settings("PPO")]) == ["DQN, net=Wide", "DQN, net=Deep", "PPO"]
    assert labels_of([_settings("DQN", optimizer={"lr": rate}) for rate in (0.1, 3e-4)]) == [
        "optimizer.lr=0.1",
        "optimizer.lr=0.0003",
    ]
    elsewhere = [_settings("DQN", env={"id": name}) for name in ("CartPole-v1", "my_envs:Corridor-v0")]
    assert labels_of(elsewhere) == ["CartPole-v1", "Corridor-v0"]
    only_one_has = [_settings("DQN"), _settings("DQN", training={"max_grad_norm": 0.5})]
    assert labels_of(only_one_has) == ["DQN", "training.max_grad_norm=0.5"]


def test_labels_are_short_and_unique() -> None:
    many = [_settings("DQN", net={**dict.fromkeys("abcd", 0), "e": number}) for number in (1, 2)]
    assert labels_of(many) == ["net.e=1", "net.e=2"]
    more = [_settings("DQN", net={**dict.fromkeys("abcd", number > 0), "e": number}) for number in (0, 1, 2)]
    assert labels_of(more) == [
        "net.a=false, net.b=false, net.c=false, net.d=false, ...",
        "net.a=true, net.b=true, net.c=true, net.d=true, ... (1)",
        "net.a=true, net.b=true, net.c=true, net.d=true, ... (2)",
    ]
