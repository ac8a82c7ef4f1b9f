"""One test for each private name of PyTorch: it says what breaks if the name is gone or means something else.

Those that compile are in step_graph/test_compiler.py, as compiling once takes some seconds.
"""

import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.functional import linear
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from note_rl.learners.pytorch import torch_internals as internals

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda xs, ys: internals.foreach_add_(xs, 1.0), [[2.0, 3.0], [4.0]]),
        (lambda xs, ys: internals.foreach_copy_(xs, ys), [[5.0, 6.0], [8.0]]),
        (lambda xs, ys: internals.foreach_lerp_(xs, ys, 0.25), [[2.0, 3.0], [4.25]]),
    ],
    ids=["add", "copy", "lerp"],
)
def test_arithmetic_on_lists_in_place(call, expected):
    """torch._foreach_*_: without them, soft updates and counters of Adam take a call for each tensor."""
    xs, ys = [torch.tensor([1.0, 2.0]), torch.tensor([3.0])], [torch.tensor([5.0, 6.0]), torch.tensor([8.0])]
    call(xs, ys)
    assert [x.tolist() for x in xs] == expected


def test_arithmetic_on_lists():
    """torch._foreach_mul, _foreach_norm: without them, clipping takes a call for each gradient."""
    xs = [torch.tensor([3.0, 4.0]), torch.tensor([2.0])]
    assert [float(norm) for norm in internals.foreach_norm(xs)] == [5.0, 2.0]
    assert [x.tolist() for x in internals.foreach_mul(xs, torch.tensor(2.0))] == [[6.0, 8.0], [4.0]]


@pytest.mark.parametrize(
    ("kernel", "kind"), [(internals.fused_adam_, torch.optim.Adam), (internals.fused_adamw_, torch.optim.AdamW)]
)
def test_kernels_of_adam(kernel, kind):
    """torch._fused_adam_, _fused_adamw_: without them, each gradient step takes 0.2 ms more."""
    theirs = torch.tensor([1.0, -2.0], requires_grad=True)
    theirs.grad = torch.tensor([0.5, 0.25])
    kind([theirs], lr=0.1, weight_decay=0.1, fused=True).step()
    mine, slots, steps = torch.tensor([1.0, -2.0]), [torch.zeros(2) for _ in range(2)], torch.ones(())
    options = {"lr": 0.1, "beta1": 0.9, "beta2": 0.999, "weight_decay": 0.1, "eps": 1e-8}
    kernel([mine], [theirs.grad.clone()], [slots[0]], [slots[1]], [], [steps], amsgrad=False, maximize=False, **options)
    torch.testing.assert_close(mine, theirs.detach(), rtol=0, atol=0)


def test_batch_norm():
    """_BatchNorm: without it, statistics of a class that is not listed would move while the agent acts."""
    kinds = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.LazyBatchNorm1d, nn.SyncBatchNorm)
    assert all(issubclass(kind, internals.BatchNorm) for kind in kinds)
    assert not issubclass(nn.LayerNorm, internals.BatchNorm)


def test_parts_of_one_layer():
    """Module._parameters, _buffers: without them, finding what a soft update moves takes longer than moving it."""
    network = nn.Sequential(nn.Linear(2, 3, bias=False), nn.BatchNorm1d(3))
    assert [tuple(one.shape) for one in internals.own_parameters(network[0]) if one is not None] == [(3, 2)]
    assert [tuple(one.shape) for one in internals.own_buffers(network[1]) if one is not None] == [(3,), (3,), ()]
    assert list(internals.own_parameters(network)) == []


@pytest.mark.parametrize(
    "register", ["register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook",
                 "register_full_backward_pre_hook"]
)  # fmt: skip
def test_hooks_of_a_layer(register):
    """Module._forward_hooks and the like: without them, a hook is lost in a recorded step."""
    layer = nn.Linear(1, 1)
    assert not any(internals.hooks_of(layer))
    getattr(layer, register)(lambda *_: None)
    assert sum(map(len, internals.hooks_of(layer))) == 1


def test_hooks_of_a_tensor():
    """Tensor._backward_hooks: without it, a hook on the gradient of a parameter is lost in a recorded step."""
    tensor = torch.ones(1, requires_grad=True)
    assert internals.hooks_of_tensor(tensor) == ()
    tensor.register_hook(hook := lambda gradient: gradient * 2.0)
    assert internals.hooks_of_tensor(tensor) == (hook,)


@pytest.mark.parametrize("register", ["pre", "post", "every pre", "every post"])
def test_hooks_of_an_optimizer(register):
    """Optimizer._optimizer_step_*_hooks, _global_optimizer_*_hooks: without them, hooks are no longer called."""
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], 0.1)
    assert not internals.has_step_hooks(optimizer)
    ways = {
        "pre": lambda hook: optimizer.register_step_pre_hook(hook),
        "post": lambda hook: optimizer.register_step_post_hook(hook),
        "every pre": register_optimizer_step_pre_hook,
        "every post": register_optimizer_step_post_hook,
    }
    handle = ways[register](lambda *_: None)
    try:
        assert internals.has_step_hooks(optimizer)
    finally:
        handle.remove()
    assert not internals.has_step_hooks(optimizer)


def test_the_compiler_is_left_out():
    """Optimizer.step.__wrapped__, __dynamo_disable: without them, a first evaluation comes 2 s later."""
    program = """
import sys, torch
from note_rl.learners.pytorch import torch_internals as internals
from note_rl.learners.pytorch.tensors import load_slots, optimizer_slots
from note_rl.optimizers import pytorch as optimizers
for make in (optimizers.adam, optimizers.adamw, optimizers.rmsprop, optimizers.sgd):
    parameter = torch.tensor([1.0], requires_grad=True)
    optimizer = make([parameter], learning_rate=0.5)
    parameter.grad = torch.tensor([2.0])
    internals.take_step(optimizer)
    assert parameter.item() < 1.0, make
    load_slots(optimizer, {f"a/{name}": slot.numpy() for name, slot in optimizer_slots(optimizer)}, "a/")
assert "torch._dynamo" not in sys.modules
sys.modules["torch._dynamo"] = None  # importing it fails at once
try:
    torch.optim.SGD([parameter])
except ModuleNotFoundError:
    sys.exit()
sys.exit("PyTorch no longer imports its compiler: compiler_left_out can go")
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.SGD])
def test_a_step_without_the_compiler_is_the_same(kind, monkeypatch):
    def after_two(step):
        parameter = torch.tensor([1.0, -2.0], requires_grad=True)
        optimizer = kind([parameter], lr=0.1, weight_decay=0.1)
        for gradient in ([0.5, 0.25], [-1.0, 3.0]):
            parameter.grad = torch.tensor(gradient)
            step(optimizer)
        return parameter.tolist()

    expected = after_two(lambda optimizer: optimizer.step())
    monkeypatch.setattr(internals, "_COMPILER", "not imported")
    assert after_two(internals.take_step) == expected


def test_a_step_that_somebody_else_takes_or_watches_is_theirs(monkeypatch):
    class Doubling(torch.optim.SGD):
        def step(self, closure=None):
            super().step(closure)
            super().step(closure)

    parameter = torch.tensor([1.0], requires_grad=True)
    parameter.grad = torch.tensor([1.0])
    doubling, watched = Doubling([parameter], lr=0.25), torch.optim.SGD([parameter], lr=0.25)
    seen = []
    watched.register_step_post_hook(lambda *_: seen.append(parameter.item()))
    monkeypatch.setattr(internals, "_COMPILER", "not imported")
    internals.take_step(doubling)
    internals.take_step(watched)
    assert seen == [0.25]


def test_base_of_a_view():
    """Tensor._base: without it, the counters of Adam are put together anew in each update block."""
    whole = torch.zeros(3)
    assert internals.base_of(whole.unbind(0)[1]) is whole
    assert internals.base_of(whole) is None


@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch was built without oneDNN")
@pytest.mark.parametrize("bias", [None, torch.tensor([10.0, 20.0, 30.0])])
def test_product_by_onednn(bias):
    """mkldnn._linear_pointwise: without it, large products on CPUs of AMD take twice as long."""
    x, weight = torch.tensor([[1.0, 2.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    expected = torch.tensor([[1.0, 2.0, 3.0]]) + (0.0 if bias is None else bias)
    torch.testing.assert_close(internals.linear_by_onednn(x, weight, bias), expected)


def graph_of(function, *inputs):
    return [node for node in make_fx(function)(*inputs).graph.nodes if node.op == "call_function"]


def test_kernels_and_schemas():
    """torch._ops.OpOverload, _schema: without them, nothing is known of what a recorded call writes into."""
    (node,) = graph_of(lambda x: x.add_(1.0), torch.ones(2))
    assert isinstance(node.target, internals.Kernel)
    schema = internals.schema_of(node)
    assert (schema.name, schema.is_mutable) == ("aten::add_", True)
    assert [argument.name for argument in schema.arguments if argument.alias_info is not None] == ["self"]


def test_overloads_of_another_kernel():
    """OpOverload._overloadname: without it, calls in place of backward passes stay, and nothing is made quick."""
    (node,) = graph_of(lambda x: x.add_(1.0), torch.ones(2))
    assert internals.overload_like(node, aten.add) is aten.add.Tensor
    assert internals.overload_like(node, aten.add_) is None, "it changes something"
    assert internals.overload_like(node, None) is None


def test_quick_bindings():
    """torch._C._nn, torch._C._linalg: without them, recorded calls go by the dispatcher, 1 us more for each."""
    _, by_nn, by_linalg, _ = internals.BINDINGS
    assert by_nn.linear is linear
    x = torch.tensor([3.0, 4.0])
    assert float(by_linalg.linalg_vector_norm(x)) == 5.0


def test_one_mode_of_stand_ins():
    """torch._guards.tracing, FakeTensorMode: without them, each recording makes a mode for each of its values."""
    with internals.one_fake_mode():
        first, second = (make_fx(torch.sin)(torch.ones(2)) for _ in range(2))
    (one,), (other,) = ([n for n in graph.graph.nodes if n.op == "call_function"] for graph in (first, second))
    assert one.meta["val"].fake_mode is other.meta["val"].fake_mode
