"""Numbers of the experience that are adapted: batches, priorities and the window."""

import numpy as np
import pytest

from note_rl.adaptive import ess
from note_rl.adaptive.health import Health
from note_rl.adaptive.signals.base import MeasuredMean
from note_rl.adaptive.signals.gradient_noise import MeasuredNoise
from note_rl.errors import SettingsError
from note_rl.settings import Adaptive
from tests.note_rl.adaptive.adapted_agents import QUICK, dqn, ppo
from tests.note_rl.frameworks import Framework, frameworks


@pytest.mark.traced
@pytest.mark.slow_in_keras  # one trace for each size of a minibatch: learners/keras/test_xla.py
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
    for factor in (4.0, 0.25, 1.0, 4.0):
        controller.factor = factor
        agent.train(total_steps=agent.num_env_steps + 64, p=0, jit_compile=False)
    assert {shape[1] for shape in sizes} == {4, 16, 64}
    if framework.package == "keras":
        assert agent.learner.num_traces == 3


def test_a_minibatch_grows_to_its_rollout_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MeasuredMean, "health", lambda self, *_: Health(self.signal.name, 1.0, 1.0, 0.01, 0.01))
    told = Adaptive(**QUICK, signals=["ratio_ess"], parameters={"batch_size": {"law": "feed_forward"}})
    agent = ppo(Framework("pytorch"), told, batch=16, num_epochs=2)
    result = agent.train(total_steps=8 * 64, p=0)  # rollouts of 64
    assert [decision.new for decision in agent.decisions][-3:] == [64, 64, 64]
    assert agent.decisions[-1].reason == "bound"
    # epochs of 4 minibatches at first, of one in the end
    sizes = [16, *(decision.new for decision in agent.decisions)]
    assert result.num_gradient_steps == sum(2 * 64 // size for size in sizes[:8])


def test_a_scheduled_minibatch_beyond_its_rollout_is_refused() -> None:
    told = Adaptive(schedule={"batch_size": [(0, 16), (256, 128)]})
    with pytest.raises(SettingsError, match="batch_size has become 128, more than the 64 transitions of a rollout"):
        ppo(Framework("pytorch"), told, batch=16).train(total_steps=8 * 64, p=0)


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
