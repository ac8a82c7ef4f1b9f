"""Adaptation within training, in both frameworks where frameworks matter."""

from typing import Any

import pytest

from note_rl.adaptive.health import Health
from note_rl.adaptive.signals.base import MeasuredMean
from note_rl.seeding import seed_everything
from note_rl.settings import Adaptive
from note_rl.training.callbacks import LambdaCallback
from tests.note_rl.adaptive.adapted_agents import BY_RATIO, QUICK, dqn, ppo, same, trained
from tests.note_rl.frameworks import Framework, frameworks


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


def test_what_is_off_decides_nothing() -> None:
    framework = Framework("pytorch")
    agent = ppo(framework, Adaptive(**QUICK, **BY_RATIO, targets={"ratio_ess": 1e-9}, mode="off"))
    assert same(trained(framework, agent, 128), trained(framework, ppo(framework, None), 128))
    assert not agent.decisions


@pytest.mark.traced
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


class StopAfter:
    """Ends training after the given number of phases."""

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
