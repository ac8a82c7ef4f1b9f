"""A replay as one CUDA graph, here of a GPU that is made up: the same numbers, frozen where it must not be."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from note_rl.agents.shared.torch import networks
from note_rl.learners.pytorch.step_graph import builder
from note_rl.learners.pytorch.step_graph.choice import scalars_on
from note_rl.learners.pytorch.step_graph.device_graph import DeviceGraph, why_not_captured
from note_rl.optimizers.pytorch import sgd
from tests.note_rl.learners.step_graph.recorded_agents import (
    NAMES,
    assert_same_state,
    built_in,
    learner_of,
    minibatches,
    stages,
)


class Gpu:
    """Stands in for CUDA: what is captured works on the same memory each time, on tensors as they lay then."""

    def __init__(self):
        self.num_captured = 0
        self.num_repeated = 0

    def capture(self, function, device=None):
        self.num_captured += 1
        results = function()

        def repeat():
            self.num_repeated += 1
            for result, values in zip(results, function(), strict=True):
                result.copy_(values)

        return repeat, results


@pytest.fixture
def gpu(monkeypatch):
    """A learner on the CPU that takes it for a GPU."""
    made_up = Gpu()
    monkeypatch.setattr(builder, "why_not_captured", lambda recording, device: "")
    monkeypatch.setattr(builder, "captured_by_cuda", made_up.capture)
    return made_up


def graph_of(weight):
    gpu, x = Gpu(), torch.tensor(2.0)
    return DeviceGraph(lambda x: [x * weight, x + weight], [weight], [x], 1, gpu.capture), gpu


def test_inputs_and_parameters_are_read_anew():
    weight = torch.tensor(3.0)
    graph, gpu = graph_of(weight)
    assert [float(one) for one in graph(torch.tensor(5.0))] == [15.0, 8.0]
    weight.fill_(4.0)
    assert [float(one) for one in graph(torch.tensor(6.0))] == [24.0, 10.0]
    assert (gpu.num_captured, gpu.num_repeated) == (1, 2)


def test_only_the_first_results_stay():
    graph, _ = graph_of(torch.tensor(3.0))
    product, total = graph(torch.tensor(5.0))
    graph(torch.tensor(7.0))
    assert (float(product), float(total)) == (15.0, 10.0)


def test_columns_of_several_types_and_layouts_are_copied():
    inputs = [torch.arange(6).reshape(2, 3).t(), torch.ones(2, 3), torch.tensor([7, 8], dtype=torch.uint8)]
    graph = DeviceGraph(lambda *given: [one.clone() for one in given], [], inputs, 3, Gpu().capture)
    others = [torch.arange(6, 12).reshape(2, 3).t(), torch.full((2, 3), 0.5), torch.tensor([1, 2], dtype=torch.uint8)]
    for found, expected in zip(graph(*others), others, strict=True):
        assert found.dtype == expected.dtype
        assert found.tolist() == expected.tolist()


def test_a_scheduled_hyperparameter_is_no_constant(gpu):
    agent = built_in("PPO")
    captured = learner_of(agent, "auto", names=("clip",))
    plain = learner_of(built_in("PPO"), False, names=("clip",))
    for seed, clip in enumerate((0.2, 0.01, 0.1)):
        for one in (captured, plain):
            one.agent.clip = clip
            one.update(minibatches("PPO", seed=seed), {"clip": clip})
    assert str(captured.step_way()) == "captured"
    assert gpu.num_captured == 1
    assert_same_state(captured, plain, rtol=1e-5, atol=1e-7)


def test_a_parameter_that_lies_elsewhere_is_captured_anew():
    weight = torch.tensor(3.0)
    graph, gpu = graph_of(weight)
    former = weight.data
    weight.data = torch.tensor(4.0)
    former.fill_(-1.0)
    assert [float(one) for one in graph(torch.tensor(5.0))] == [20.0, 9.0]
    assert gpu.num_captured == 2


def test_other_products_are_captured_anew():
    graph, gpu = graph_of(torch.tensor(3.0))
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        graph(torch.tensor(5.0))
    finally:
        torch.set_float32_matmul_precision(before)
    assert gpu.num_captured == 2


@pytest.mark.parametrize(
    ("device", "pure", "captured", "reason"),
    [
        ("mps", True, "mps", "parameters are on mps, which has no CUDA graphs"),
        ("cuda", False, "cuda", "the loss changes tensors in place"),
        ("cuda", True, "cpu", "the loss reads a tensor that is not on the GPU"),
        ("cuda", True, "cuda", ""),
    ],
)
def test_what_is_not_captured(device, pure, captured, reason):
    recording = SimpleNamespace(pure=pure, captured=[SimpleNamespace(device=torch.device(captured))])
    assert why_not_captured(recording, torch.device(device)) == reason


@pytest.mark.parametrize("name", NAMES)
def test_a_captured_step_is_the_replayed_one(gpu, name, monkeypatch):
    captured = learner_of(built_in(name), "auto")
    updates = [captured.update(minibatches(name, seed=seed), {}) for seed in range(3)]
    assert str(captured.step_way()) == "captured"
    assert set(stages(captured).values()) == {1}
    assert gpu.num_repeated >= 3 * 5
    monkeypatch.setattr(builder, "why_not_captured", lambda recording, device: "it is asked for")
    replayed = learner_of(built_in(name), "auto")
    for seed, update in enumerate(updates):
        expected = replayed.update(minibatches(name, seed=seed), {})
        np.testing.assert_array_equal(update.loss, expected.loss)
        assert dict(update.reported).keys() == dict(expected.reported).keys()
        for key, values in expected.reported.items():
            np.testing.assert_array_equal(update.reported[key], values)
    assert_same_state(captured, replayed, rtol=0, atol=0)
    assert replayed.step_way().way == "replayed"


def test_acting_in_between_is_no_change(gpu, monkeypatch):
    """Weights that NumPy acts with are copied from a GPU after each update block."""
    monkeypatch.setattr(networks, "are_on_host", lambda tensors: False)
    learner = learner_of(built_in("DQN"), "auto")
    obs = np.ones((1, 4), np.float32)
    for seed in range(3):
        learner.update(minibatches(seed=seed), {})
        expected = learner._framework_act(obs)
        np.testing.assert_allclose(learner.act(obs), expected, rtol=1e-5)
    assert learner.actor.is_mirrored()
    assert str(learner.step_way()) == "captured"
    assert gpu.num_captured == learner.num_traces == 1


class Hoarder(torch.optim.SGD):
    """Keeps the gradients themselves."""

    kept: tuple[torch.Tensor, ...] = ()

    def step(self, closure=None):
        self.kept = (*self.kept, self.param_groups[0]["params"][0].grad)
        return super().step(closure)


def test_gradients_that_an_optimizer_keeps_are_its_own(gpu):
    learner = learner_of(built_in("DQN"), "auto", lambda parameters, rate: Hoarder(parameters, rate))
    learner.update(minibatches(), {})
    ((optimizer, _),) = learner._optimizers
    first, second, *_ = optimizer.kept
    assert not torch.equal(first, second)


def test_other_optimizers_follow_it(gpu):
    learner = learner_of(built_in("DQN"), "auto", sgd)
    plain = learner_of(built_in("DQN"), False, sgd)
    for one in (learner, plain):
        one.update(minibatches(), {})
    assert str(learner.step_way()) == "captured"
    assert_same_state(learner, plain, rtol=1e-5, atol=1e-7)


def refusing(function, device):
    raise RuntimeError("operation not permitted when stream is capturing\nmore of that")


def lying(function, device):
    return (lambda: None), [torch.zeros_like(one) for one in function()]


@pytest.mark.parametrize(("capture", "reason"), [(refusing, "operation not permitted"), (lying, "other numbers")])
def test_what_cannot_be_captured_is_replayed(gpu, monkeypatch, caplog, capture, reason):
    monkeypatch.setattr(builder, "captured_by_cuda", capture)
    learner = learner_of(built_in("DQN"), "auto")
    with caplog.at_level(logging.WARNING):
        learner.update(minibatches(), {})
        learner.update(minibatches(), {})
    assert str(learner.step_way()).startswith("replayed: it cannot be captured as a CUDA graph: ")
    assert reason in str(learner.step_way())
    assert len([record for record in caplog.records if "CUDA graph" in record.message]) == 1


def test_hyperparameters_are_on_the_device_of_the_minibatch():
    """On an H200, PPO with a clip that falls was taken eagerly: clamp() wants its bounds where its input is."""
    assert [(one.device.type, one.dtype, one.shape) for one in scalars_on(torch.device("meta"), [0.2])] == [
        ("meta", torch.float64, ())
    ]
    assert [float(one) for one in scalars_on(torch.device("cpu"), [0.2, 3])] == [0.2, 3.0]
