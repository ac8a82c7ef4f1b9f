"""Large products of recorded steps by oneDNN: the same steps within rounding, and only where they are large."""

import logging
import platform
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from note_rl.agents.pytorch import DQN, TD3
from note_rl.errors import SettingsError
from note_rl.learners.pytorch.step_graph import products
from note_rl.learners.pytorch.step_graph.record import recorded
from note_rl.learners.pytorch.step_graph.replay import replay
from note_rl.optimizers.pytorch import adam
from note_rl.policy import EpsGreedyQPolicy
from note_rl.seeding import seed_everything
from note_rl.settings import ReplaySettings, Settings
from note_rl.types import Sample

CPU = torch.device("cpu")
TRAINING = ReplaySettings(capacity=500, batch_size=128, learning_starts=128, train_freq=8, gradient_steps=8)


@pytest.fixture
def calls(monkeypatch):
    """Shapes of the products that oneDNN has taken."""
    taken = []
    product = products.product

    def counted(x, weight, bias):
        taken.append((*x.shape, weight.shape[0]))
        return product(x, weight, bias)

    monkeypatch.setattr(products, "product", counted)
    return taken


@pytest.fixture
def cpu(monkeypatch):
    """Pretends to be a CPU of a vendor and a family, with a set of instructions."""
    products._mkl_is_slow.cache_clear()

    def pretend(vendor, family, instructions):
        products._mkl_is_slow.cache_clear()
        monkeypatch.setattr(platform, "machine", lambda: "x86_64")
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: instructions)
        monkeypatch.setattr(Path, "read_text", lambda *_, **__: f"vendor_id\t: {vendor}\ncpu family\t: {family}\n")

    yield pretend
    products._mkl_is_slow.cache_clear()


@pytest.mark.parametrize(
    ("vendor", "family", "instructions", "expected"),
    [
        ("AuthenticAMD", 26, "AVX512", "onednn"),
        ("AuthenticAMD", 25, "AVX512", "mkl"),  # Zen 4
        ("AuthenticAMD", 26, "AVX2", "mkl"),
        ("GenuineIntel", 26, "AVX512", "mkl"),
    ],
)
def test_auto_goes_by_the_cpu(cpu, vendor, family, instructions, expected):
    cpu(vendor, family, instructions)
    assert products.library("auto", CPU) == expected
    assert products.library("mkl", CPU) == "mkl"
    assert products.library("onednn", CPU) == "onednn"
    assert products.library("onednn", torch.device("cuda")) == "mkl"  # which multiplies as it does


@pytest.mark.parametrize(("family", "expected"), [(26, "onednn"), (25, "mkl")])
def test_where_there_is_no_file_about_the_cpu_the_system_says_it(cpu, monkeypatch, family, expected):
    cpu("AuthenticAMD", family, "AVX512")

    def missing(*_, **__):
        raise FileNotFoundError

    monkeypatch.setattr(Path, "read_text", missing)
    monkeypatch.setattr(platform, "processor", lambda: f"AMD64 Family {family} Model 68 Stepping 0, AuthenticAMD")
    assert products.library("auto", CPU) == expected


def test_a_product_that_is_off_is_not_used(cpu, monkeypatch, caplog):
    """As one in bfloat16 would be."""
    cpu("AuthenticAMD", 26, "AVX512")
    products._without_onednn.cache_clear()
    monkeypatch.setattr(products, "product", lambda x, weight, _: (x.bfloat16() @ weight.bfloat16().t()).float())
    try:
        with caplog.at_level(logging.WARNING):
            assert products.library("auto", CPU) == "mkl"
        assert "more than single precision" in caplog.text
        with pytest.raises(SettingsError, match=r"has an error of .*; use matmul=auto or matmul=mkl"):
            products.library("onednn", CPU)
    finally:
        products._without_onednn.cache_clear()


def test_only_large_products_are_taken_with_bias_and_without_either_way_round(calls):
    """Weights [n, k] as layers hold them, [k, n] as backward passes meet them, gradients of weights."""
    generator = torch.Generator().manual_seed(0)
    x, weight, back = (torch.randn(128, 128, generator=generator) for _ in range(3))
    bias, small = torch.randn(128, generator=generator), torch.randn(128, 4, generator=generator)

    def function(x, back):
        return [
            torch.addmm(bias, x, weight.t()),
            x @ weight,
            back.t() @ x,
            torch.addmm(bias, x, weight.t(), beta=0.5),  # which oneDNN's call does not say
            small.t() @ x,
        ]

    recording = recorded(function, [weight, bias, small], [x, back])
    assert len(recording.large_products) == 3
    expected = replay(recording, [x, back])(x, back)
    assert calls == []
    by_onednn = replay(recording, [x, back], "onednn")
    del calls[:]
    for one, other in zip(by_onednn(x, back), expected, strict=True):
        scale = float(other.abs().max())
        torch.testing.assert_close(one, other, rtol=0, atol=2e-6 * scale)
        assert one.is_contiguous()
    # those that stand in the graph as `product` itself were replaced while the fixture counted
    assert calls == [(128, 128, 128)] * 3
    again = [one.clone() for one in by_onednn(x, back)]
    for one, other in zip(by_onednn(x, back), again, strict=True):
        assert torch.equal(one, other)


def minibatches(seed, num=6, size=128):
    rng = np.random.default_rng(seed)

    def numbers(*inner):
        return rng.normal(size=(num, size, *inner)).astype(np.float32)

    ended = (rng.random((num, size)) < 0.3).astype(np.float32)
    return Sample(
        **{"obs": numbers(3), "action": np.tanh(numbers(1)), "reward": numbers(), "next_obs": numbers(3)},
        **{"terminated": ended, "discount": 0.9 * (1 - ended), "sync": np.array([False, True] * (num // 2))},
        extras={"next_noise": numbers(1)},
        weights=rng.random((num, size)).astype(np.float32),
    )


def learner(matmul, hidden_size):
    seed_everything(0)
    agent = TD3(hidden_size=(hidden_size, hidden_size), env="Pendulum-v1")
    agent.settings = Settings(experience=TRAINING, policy=agent.default_policy(), matmul=matmul)
    agent.learner.prepare([adam(group, 1e-3) for group in agent.param], None, (), "auto")
    agent.learner.expect(1e9)  # for which compiling would pay
    return agent.learner


def test_steps_agree_within_rounding(calls):
    """One update block of TD3 with 128-128 units and a batch of 128: 128^3 multiplications a product."""
    by_mkl, by_onednn = learner("mkl", 128), learner("onednn", 128)
    for one in (by_mkl, by_onednn):
        one.expect(2_500)  # for which compiling would not pay
    expected, found = (one.update(minibatches(0), {}) for one in (by_mkl, by_onednn))
    assert calls
    assert by_onednn.stages == by_mkl.stages == (1, 1)
    np.testing.assert_allclose(found.td_error, expected.td_error, rtol=1e-4, atol=1e-5)
    theirs = by_mkl.get_state()
    for name, values in by_onednn.get_state().items():
        np.testing.assert_allclose(values, theirs[name], rtol=1e-3, atol=2e-5, err_msg=name)


@pytest.mark.parametrize(("error", "stages"), [(3e-5, (1, 1)), (1e-3, (0, 0))])
def test_rounding_of_onednn_is_no_disagreement(monkeypatch, caplog, error, stages):
    """Where terms nearly cancel, as in means over a minibatch, its last digits come to more than 1e-5 of the result."""
    product = products.product
    monkeypatch.setattr(products, "product", lambda *factors: product(*factors) * (1.0 + error))
    one = learner("onednn", 128)
    one.expect(2_500)
    one.update(minibatches(0), {})
    assert one.stages == stages
    assert ("gives other numbers" in caplog.text) == (stages == (0, 0))


def test_small_networks_are_left_alone(calls):
    """To the bit: a product of 32 and 128 is 128 * 32 * 32 multiplications."""
    by_mkl, by_onednn = learner("mkl", 32), learner("onednn", 32)
    for one in (by_mkl, by_onednn):
        one.expect(10_000)
        one.update(minibatches(0), {})
    assert calls == []
    theirs = by_mkl.get_state()
    for name, values in by_onednn.get_state().items():
        np.testing.assert_array_equal(values, theirs[name], err_msg=name)


def test_a_resumed_run_that_multiplies_otherwise_says_so(tmp_path, caplog):
    def agent(matmul):
        seed_everything(0)
        made = DQN(hidden_size=(8,), env="CartPole-v1")
        made.settings = Settings(experience=TRAINING, policy=EpsGreedyQPolicy(0.1), seed=0, matmul=matmul)
        return made

    first = agent("onednn")
    first.train(optimizer=adam(first.param, 1e-3), total_steps=160, p=0)
    first.save(tmp_path / "saved.safetensors")
    for matmul, says in (("onednn", False), ("mkl", True)):
        second = agent(matmul)
        second.restore(tmp_path / "saved.safetensors")
        caplog.clear()
        second.train(optimizer=adam(second.param, 1e-3), total_steps=240, p=0)
        assert ("were taken by onednn, and now they are by mkl" in caplog.text) is says


def test_words_that_mean_nothing_are_refused():
    with pytest.raises(SettingsError, match="matmul must be one of auto, mkl, onednn, got 'blis'"):
        replace(Settings(experience=TRAINING, policy=EpsGreedyQPolicy(0.1)), matmul="blis")
