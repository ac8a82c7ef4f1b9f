"""The names of PyTorch that are no part of its interface, all of them in this file; written for PyTorch 2.13.

Each says what it does and why there is no public way. `tests/note_rl/learners/test_torch_internals.py` holds one test
for each name, which says what breaks without it; `step_graph/test_compiler.py` there has those that compile.
"""

import inspect
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import IO, Any, Final, cast

import torch
from torch import Tensor, fx, nn
from torch._guards import TracingContext, tracing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx as make_fx
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import optimizer as optimizers

# Arithmetic on lists of tensors in one call, as torch.optim does it; public functions take one tensor each.
foreach_add_: Final[Callable[..., Any]] = torch._foreach_add_
foreach_copy_: Final[Callable[..., Any]] = torch._foreach_copy_
foreach_lerp_: Final[Callable[..., Any]] = torch._foreach_lerp_
foreach_mul: Final[Callable[..., Any]] = torch._foreach_mul
foreach_norm: Final[Callable[..., Any]] = torch._foreach_norm

# The kernels of `torch.optim.Adam(fused=True)` and of AdamW, without the 0.2 ms that the optimizer takes around them.
fused_adam_: Final[Callable[..., None]] = torch._fused_adam_
fused_adamw_: Final[Callable[..., None]] = torch._fused_adamw_

BatchNorm: Final[type[nn.Module]] = _BatchNorm
"""Base of all layers of batch normalisation, the lazy ones and those over processes included."""

Kernel: Final = torch._ops.OpOverload
"""Type of a kernel that a node of a recorded graph calls. `torch.ops` gives such objects; the class is not public."""

BINDINGS: Final[tuple[Any, ...]] = (torch, torch._C._nn, vars(torch._C)["_linalg"], torch.Tensor)
"""Where kernels have quick Python bindings by their own names; of Tensor they are methods.

`torch.nn.functional` and `torch.linalg` hold some of them under other names, or in functions of Python.
"""

INDUCTOR_LOGGER: Final = "torch._inductor"
"""By which inductor says which kernels it calls in the general way."""


def own_parameters(layer: nn.Module) -> Collection[Tensor | None]:
    """The parameters of a layer without those of its sublayers. `parameters(recurse=False)` takes ten times as long."""
    return layer._parameters.values()


def own_buffers(layer: nn.Module) -> Collection[Tensor | None]:
    """The buffers of a layer without those of its sublayers; see `own_parameters`."""
    return layer._buffers.values()


def hooks_of(layer: nn.Module) -> list[Mapping[int, Callable[..., Any]]]:
    """The hooks of a layer by kind. There are functions to register hooks, and none to ask for them."""
    return [layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks]


def hooks_of_tensor(tensor: Tensor) -> tuple[Callable[..., Any], ...]:
    """The hooks on the gradient of a tensor; see `hooks_of`."""
    return tuple((tensor._backward_hooks or {}).values())


def has_step_hooks(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the steps of an optimizer, or those of all, have listeners; see `hooks_of`."""
    return bool(
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or optimizers._global_optimizer_pre_hooks
        or optimizers._global_optimizer_post_hooks
    )


_COMPILER: Final = "torch._dynamo"
_LEFT_ALONE: Final = "__dynamo_disable"  # by this attribute of a method torch finds what to call in its place


@contextmanager
def compiler_left_out() -> Iterator[None]:
    """Within it, methods of optimizers do not import torch's compiler, which takes 2 s at the first call.

    Four of them import it only to be left alone by it, when a program that calls them is compiled.
    """
    kind = torch.optim.Optimizer
    methods: list[Any] = [kind.add_param_group, kind.state_dict, kind.load_state_dict, kind.zero_grad]
    bare = [method for method in map(inspect.unwrap, methods) if not hasattr(method, _LEFT_ALONE)]
    if _COMPILER in sys.modules:
        bare = []
    for method in bare:
        setattr(method, _LEFT_ALONE, method)
    try:
        yield
    finally:
        for method in bare:
            vars(method).pop(_LEFT_ALONE, None)  # another thread may have done so


def take_step(optimizer: torch.optim.Optimizer) -> None:
    """`optimizer.step()`, without the import of torch's compiler where nobody needs it; see `compiler_left_out`.

    Somebody may need it where the class is not torch's own, somebody listens to steps, or steps are differentiable.
    """
    kind = type(optimizer)
    own = kind.__module__.startswith("torch.optim.") and "step" not in vars(optimizer)
    if _COMPILER in sys.modules or not own or has_step_hooks(optimizer) or optimizer.defaults.get("differentiable"):
        optimizer.step()
        return
    with torch.no_grad():
        inspect.unwrap(kind.step)(optimizer)


def base_of(tensor: Tensor) -> Tensor | None:
    """The tensor that this is a view of; None: it has memory of its own. `is_leaf` and storages do not say it."""
    return tensor._base


def onednn_linear() -> Any:
    """The kernel of `linear_by_onednn`, as a node of a graph calls it."""
    return torch.ops.mkldnn._linear_pointwise.default


def linear_by_onednn(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """X [m, k] @ weight [n, k].T + bias [n] by oneDNN, whatever flags say; public functions choose by themselves."""
    answer: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return answer


def schema_of(node: fx.Node) -> Any:
    """Schema of a kernel: its arguments, its results and where it writes. `torch.ops` shows it as a text only."""
    return node.target._schema  # type: ignore[union-attr]


def overload_like(node: fx.Node, kernels: Any) -> Any:
    """Of another kernel's overloads the one of the same name as a node calls, if it changes nothing; else None."""
    overload = getattr(kernels, node.target._overloadname, None)  # type: ignore[union-attr]
    return None if overload is None or overload._schema.is_mutable else overload


def one_fake_mode() -> AbstractContextManager[Any]:
    """Within it, `make_fx` makes its stand-ins for values in one mode; each new one takes a millisecond."""
    return tracing(TracingContext(FakeTensorMode()))


def compile_into(
    file: IO[bytes], module: fx.GraphModule, tensors: Sequence[Tensor], options: Mapping[str, Any]
) -> None:
    """Compiles a graph by AOTInductor into a package.

    The documented `aoti_compile_and_package` wants the graph traced once more, by `torch.export`.
    """
    import torch._inductor  # takes a second
    from torch._inductor.package.package import package_aoti

    made: Any = torch._inductor.aot_compile(module, tuple(tensors), options=dict(options))
    package_aoti(file, made)


LOADS_A_PROGRAM = "import sys, torch; torch._C._aoti.AOTIModelContainerRunnerCpu(sys.argv[1], 1)"
"""The call of `loaded_program`, as a Python program of its own."""


def loaded_program(library: str) -> Any:
    """Loads a compiled library for the CPU, which has `run(tensors)`.

    The documented `aoti_load_package` imports dynamo (1.9 s in place of 5 ms), reads a specification of its arguments
    anew in each call (180 us in place of 130), and leaves a folder behind where a process is killed.
    """
    loaders: Any = torch._C._aoti
    return loaders.AOTIModelContainerRunnerCpu(library, 1)


@contextmanager
def called_by_inductor(kernels: Sequence[Any]) -> Iterator[None]:
    """Has inductor call kernels of torch in this block instead of writing loops; it has no option for that."""
    from torch._inductor import lowering as inductor

    lowering: Any = inductor
    before = {kernel: lowering.lowerings[kernel] for kernel in kernels}
    try:
        for kernel in kernels:
            lowering.make_fallback(kernel, warn=False)
        yield
    finally:
        lowering.lowerings.update(before)
        lowering.fallbacks.difference_update(kernels)


@contextmanager
def inductor_calling_onednn(graph: fx.Graph) -> Iterator[None]:
    """Has inductor call `onednn_linear` of a graph in this block with whatever weights; its own way wants constants.

    So does its own way of calling the kernel that adds another matrix, which inductor may take in its place.
    """
    if not any(str(node.target).startswith("mkldnn.") for node in graph.nodes):
        yield
        return
    from torch._inductor import ir, lowering, mkldnn_ir

    lowerings, calls = cast("Any", lowering.lowerings), cast("Any", mkldnn_ir)
    linear, added = onednn_linear(), torch.ops.mkldnn._linear_pointwise.binary
    before = {kernel: lowerings[kernel] for kernel in (linear, added)}
    lowerings[linear] = lambda *arguments: ir.TensorBox.create(calls.LinearUnary.create(*arguments))
    lowerings[added] = lambda *arguments: ir.TensorBox.create(calls.LinearBinary.create(*arguments))
    try:
        yield
    finally:
        lowerings.update(before)


def inductor_working_in(folder: str) -> AbstractContextManager[Any]:
    """Has inductor write to a folder in this block. An environment variable names one, for the whole process only."""
    from torch._inductor.utils import fresh_cache

    return fresh_cache(dir=folder)
