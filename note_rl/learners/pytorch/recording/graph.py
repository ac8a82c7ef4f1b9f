"""A function of tensors as a plain list of kernel calls: recorded once, then replayed without modules and autograd.

Around the arithmetic of small networks, most of the time of a gradient step goes into Python modules, the bookkeeping
of autograd and arguments that are parsed in the slow, general way. A recording has none of that.
"""

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten
_SAME_VALUE = {aten.detach.default, aten.alias.default}
_BY_SHAPE = {
    *(aten.ones_like.default, aten.zeros_like.default, aten.full_like.default),
    *(aten.new_ones.default, aten.new_zeros.default, aten.new_full.default),
    *(aten.ones.default, aten.zeros.default, aten.full.default, aten.scalar_tensor.default),
    *(aten.eye.default, aten.arange.default, aten.lift_fresh_copy.default),
}  # the same in every replay; what is lifted is a literal, written down in the function
_IN_PLACE = {aten.relu.default: torch.relu_, aten.tanh.default: torch.tanh_}
_PRODUCTS = {torch._C._nn.linear, aten.addmm.default, aten.mm.default, aten.bmm.default, aten.convolution.default}
# where the quick way to call a kernel is found
_HOMES: tuple[Any, ...] = (torch, torch._C._nn, vars(torch._C)["_linalg"], torch.Tensor)


@dataclass(frozen=True)
class Recording:
    """What a function did, as kernel calls.

    Attributes:
        module: Its placeholders are the captured tensors, then the inputs; it returns a flat list.
        captured: The tensors that the function read besides its inputs: these very objects, so that a replay follows
            them, not what they held.
        pure: Nothing was changed in place.
        num_calls: Kernel calls.
        num_elements: Numbers that were written by calls other than products of matrices.
    """

    module: fx.GraphModule
    captured: list[Tensor]
    pure: bool
    num_calls: int
    num_elements: int


def recorded(function: Callable[..., list[Tensor]], tensors: Sequence[Tensor], inputs: Sequence[Tensor]) -> Recording:
    """Calls the function once and writes down what it does.

    Args:
        function: Of the inputs; gradients may be taken in it.
        tensors: What it may read besides. Reading a number out of any of these, or of the inputs, is an error, as
            the number would not be known in a replay.
        inputs: Only their shapes and types are written down.

    Raises:
        RuntimeError: The function depends on what its tensors hold in a way that kernel calls cannot say.
    """
    num = len(tensors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about what the first, ordinary call has warned of
        module = make_fx(lambda *everything: function(*everything[num:]))(*tensors, *inputs)
    graph = module.graph
    graph.set_codegen(fx.graph.CodeGen())
    _drop_aliases(graph)
    _change_copies(graph)
    pure = not any(_changes_something(node) for node in graph.nodes)
    graph.eliminate_dead_code(_matters)
    captured = _with_constants_as_inputs(module, list(tensors), len(inputs))
    num_calls = sum(node.op == "call_function" for node in graph.nodes)
    num_elements = sum(map(_num_written, graph.nodes))
    for node in graph.nodes:
        node.meta.clear()  # examples of tensors
    return Recording(fx.GraphModule({}, graph), captured, pure, num_calls, num_elements)  # which owns no tensors


def _num_written(node: fx.Node) -> int:
    example = node.meta.get("val")
    counts = isinstance(example, Tensor) and _gives_new_tensor(node) and node.target not in _PRODUCTS
    return example.numel() if counts and isinstance(example, Tensor) else 0


def _changes_something(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and bool(node.target._schema.is_mutable)


def _random(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


def _matters(node: fx.Node) -> bool:
    """Whether a call has to stay although nobody uses its result; random numbers are drawn in any case."""
    return node.op in ("placeholder", "output") or _changes_something(node) or _random(node)


def _drop_aliases(graph: fx.Graph) -> None:
    """Without autograd, detached tensors are the tensors, and so are those transposed twice."""
    for node in list(graph.nodes):
        source = node.args[0] if node.args else None
        if node.target in _SAME_VALUE:
            node.replace_all_uses_with(source)
        elif node.target is aten.t.default and isinstance(source, fx.Node) and source.target is aten.t.default:
            node.replace_all_uses_with(source.args[0])


def _change_copies(graph: fx.Graph) -> None:
    """Rewrites calls in place that nobody can see, as backward passes make them, into ordinary ones."""
    for node in graph.nodes:
        source = node.args[0] if node.args else None
        if _changes_something(node) and isinstance(source, fx.Node) and _gives_new_tensor(source):
            ordinary = getattr(aten, node.target._schema.name.partition("::")[2].removesuffix("_"), None)
            overload = getattr(ordinary, node.target._overloadname, None)
            if len(source.users) == 1 and overload is not None and not overload._schema.is_mutable:
                node.target = overload


def _gives_new_tensor(node: fx.Node) -> bool:
    """Whether nothing else shares the memory of the only result."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    results = node.target._schema.returns
    return len(results) == 1 and results[0].alias_info is None


def _with_constants_as_inputs(module: fx.GraphModule, tensors: list[Tensor], num_inputs: int) -> list[Tensor]:
    """Drops unused placeholders of tensors and makes new ones for those that the function found elsewhere."""
    graph = module.graph
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    captured: list[tuple[fx.Node, Tensor]] = []
    for node, tensor in zip(placeholders, tensors, strict=False):
        if node.users:
            captured.append((node, tensor))
        else:
            graph.erase_node(node)
    first_input = placeholders[len(placeholders) - num_inputs]
    for node in [node for node in graph.nodes if node.op == "get_attr"]:
        tensor = getattr(module, str(node.target))
        known = next((one for one, other in captured if other is tensor), None)
        if known is None:
            with graph.inserting_before(first_input):
                known = graph.placeholder(f"constant_{len(captured)}")
            captured.append((known, tensor))
        node.replace_all_uses_with(known)
        graph.erase_node(node)
    return [tensor for _, tensor in captured]


def replay(recording: Recording, inputs: Sequence[Tensor]) -> Callable[..., list[Tensor]]:
    """A function of the inputs that repeats the recording as quickly as Python can call kernels.

    Args:
        recording: Stays as it is.
        inputs: An example, on which every quick way of calling a kernel is tried.
    """
    module, captured = copy.deepcopy(recording.module), list(recording.captured)
    if recording.pure:
        with torch.no_grad():
            values = _values(module.graph, [*captured, *inputs])
            captured = _fold(module.graph, values, captured)
            _merge_duplicates(module.graph)
            module.graph.eliminate_dead_code(_matters)
            _call_quickly(module.graph, values)
    module.recompile()
    forward = module.forward
    return lambda *values: forward(*captured, *values)


def _values(graph: fx.Graph, inputs: list[Tensor]) -> dict[fx.Node, Any]:
    """What every node gives."""
    values: dict[fx.Node, Any] = {}
    remaining = iter(inputs)
    for node in graph.nodes:
        if node.op == "placeholder":
            values[node] = next(remaining)
        elif node.op == "call_function":
            values[node] = node.target(*_of(values, node.args), **_of(values, node.kwargs))
    return values


def _of(values: dict[fx.Node, Any], arguments: Any) -> Any:
    return fx.map_arg(arguments, lambda node: values[node])


def _fold(graph: fx.Graph, values: dict[fx.Node, Any], captured: list[Tensor]) -> list[Tensor]:
    """Turns what depends on shapes only into further captured tensors."""
    constant: set[fx.Node] = set()
    first = next(iter(graph.nodes))
    for node in graph.nodes:
        if node.op != "call_function" or _random(node) or not isinstance(values[node], Tensor):
            continue
        if node.target in _BY_SHAPE or (node.all_input_nodes and all(one in constant for one in node.all_input_nodes)):
            constant.add(node)
    needed = [node for node in constant if any(user not in constant for user in node.users)]
    for node in needed:
        with graph.inserting_before(first):
            placeholder = graph.placeholder(f"folded_{node.name}")
        values[placeholder] = values[node]
        node.replace_all_uses_with(placeholder)
    return [*(values[node] for node in graph.nodes if node.name.startswith("folded_")), *captured]


def _merge_duplicates(graph: fx.Graph) -> None:
    """One call where the same kernel was called twice with the same arguments."""
    known: dict[Any, fx.Node] = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or _random(node):
            continue
        key = (node.target, repr(node.args), repr(node.kwargs))  # nodes are written as their unique names
        if key in known:
            node.replace_all_uses_with(known[key])
            graph.erase_node(node)
        else:
            known[key] = node


def _call_quickly(graph: fx.Graph, values: dict[fx.Node, Any]) -> None:
    """Calls the kernels by their ordinary Python bindings, in place where nobody else reads what is overwritten."""
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target is aten.addmm.default and not node.kwargs:
            bias, x, weight = node.args
            if isinstance(weight, fx.Node) and weight.target is aten.t.default and values[bias].ndim == 1:
                node.target, node.args = torch._C._nn.linear, (x, weight.args[0], bias)
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        source = node.args[0] if node.args else None
        fresh = isinstance(source, fx.Node) and source.target in _PRODUCTS and len(source.users) == 1
        if fresh and node.target in _IN_PLACE:
            node.target = _IN_PLACE[node.target]
        else:
            _bind(node, values)
    graph.eliminate_dead_code(lambda node: _matters(node) or node.target in _IN_PLACE.values())


def _bind(node: fx.Node, values: dict[fx.Node, Any]) -> None:
    """Replaces the general way of calling a kernel by the quick one, if that is seen to do the same."""
    if not isinstance(node.target, torch._ops.OpOverload) or _random(node):
        return
    name = node.target._schema.name.partition("::")[2]
    arguments, options = _of(values, node.args), _of(values, node.kwargs)
    for home in _HOMES:
        function = getattr(home, name, None)
        if function is None or (home is torch.Tensor and not isinstance(node.args[0], fx.Node)):
            continue
        try:
            answer = function(*arguments, **options)
        except (TypeError, ValueError, RuntimeError):  # other arguments, as bindings have them for some kernels
            continue
        if _same(answer, values[node]):
            if home is torch.Tensor:
                node.op, node.target = "call_method", name
            else:
                node.target = function
            return


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.dtype == other.dtype and one.stride() == other.stride() and torch.equal(one, other)
    alike = isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other)
    return alike and all(map(_same, one, other))
