"""A recording as a function that repeats it as quickly as Python can call kernels."""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.nn.functional import linear

from note_rl.learners.pytorch.step_graph.nodes import PRODUCTS, first_argument, is_kernel, is_random, matters, name_of
from note_rl.learners.pytorch.step_graph.products import MKL, ONEDNN, by_onednn, product
from note_rl.learners.pytorch.step_graph.record import Recording
from note_rl.learners.pytorch.torch_internals import BINDINGS

aten = torch.ops.aten
_BY_SHAPE = {
    *(aten.ones_like.default, aten.zeros_like.default, aten.full_like.default),
    *(aten.new_ones.default, aten.new_zeros.default, aten.new_full.default),
    *(aten.ones.default, aten.zeros.default, aten.full.default, aten.scalar_tensor.default),
    *(aten.eye.default, aten.arange.default, aten.lift_fresh_copy.default),
}  # the same in every replay; what is lifted is a literal, written down in the function
_IN_PLACE = {aten.relu.default: torch.relu_, aten.tanh.default: torch.tanh_}
# what a binding says to arguments that it has in another order or form than its kernel
_OTHER_ARGUMENTS = (TypeError, ValueError, RuntimeError)

Values = dict[fx.Node, Any]
"""Result of every node for one example."""


def replay(recording: Recording, inputs: Sequence[Tensor], matmul: str = MKL) -> Callable[..., list[Tensor]]:
    """Returns a function of the inputs that repeats the recording.

    Args:
        recording: Stays as it is.
        inputs: An example, on which every quick way of calling a kernel is tried.
        matmul: Who takes large products of matrices; see `products`.
    """
    module, captured = copy.deepcopy(recording.module), list(recording.captured)
    if recording.pure:  # else the order of calls matters, and trying them would change what they work on
        with torch.no_grad():
            values = _values(module.graph, [*captured, *inputs])
            captured = [*_fold_constants(module.graph, values), *captured]
            _merge_duplicates(module.graph)
            module.graph.eliminate_dead_code(matters)
            if matmul == ONEDNN:
                by_onednn(module.graph, recording.large_products, values)
            _call_quickly(module.graph, values)
    module.recompile()
    forward = module.forward
    return lambda *values: forward(*captured, *values)


def _values(graph: fx.Graph, inputs: list[Tensor]) -> Values:
    values: Values = {}
    remaining = iter(inputs)
    for node in graph.nodes:
        if node.op == "placeholder":
            values[node] = next(remaining)
        elif node.op == "call_function":
            values[node] = node.target(*_filled_in(node.args, values), **_filled_in(node.kwargs, values))
    return values


def _filled_in(arguments: Any, values: Values) -> Any:
    return fx.map_arg(arguments, lambda node: values[node])


def _fold_constants(graph: fx.Graph, values: Values) -> list[Tensor]:
    """Turns what depends on shapes only into placeholders at the beginning, and returns their tensors."""
    constant: set[fx.Node] = set()
    for node in graph.nodes:
        if _is_constant(node, constant) and isinstance(values[node], Tensor):
            constant.add(node)
    first = next(iter(graph.nodes))
    needed = [node for node in graph.nodes if node in constant and any(user not in constant for user in node.users)]
    for node in needed:
        with graph.inserting_before(first):
            placeholder = graph.placeholder(f"folded_{node.name}")
        values[placeholder] = values[node]
        node.replace_all_uses_with(placeholder)
    return [values[node] for node in needed]


def _is_constant(node: fx.Node, constant: set[fx.Node]) -> bool:
    if node.op != "call_function" or is_random(node):
        return False
    sources = node.all_input_nodes
    return node.target in _BY_SHAPE or (bool(sources) and all(source in constant for source in sources))


def _merge_duplicates(graph: fx.Graph) -> None:
    """Leaves one call where the same kernel was called twice with the same arguments."""
    known: dict[Any, fx.Node] = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or is_random(node):
            continue
        key = (node.target, repr(node.args), repr(node.kwargs))  # nodes are written as their unique names
        if key in known:
            node.replace_all_uses_with(known[key])
            graph.erase_node(node)
        else:
            known[key] = node


def _call_quickly(graph: fx.Graph, values: Values) -> None:
    """Calls the kernels by their ordinary Python bindings, in place where nobody else reads what is overwritten."""
    for node in list(graph.nodes):
        _make_linear(node, values)
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        source = first_argument(node)
        fresh = source is not None and source.target in (*PRODUCTS, product) and len(source.users) == 1
        if fresh and node.target in _IN_PLACE:
            node.target = _IN_PLACE[node.target]
        else:
            _bind(node, values)
    graph.eliminate_dead_code(lambda node: matters(node) or node.target in _IN_PLACE.values())


def _make_linear(node: fx.Node, values: Values) -> None:
    """Replaces bias + x @ weight.T by one call, which saves the one that transposes."""
    if node.target is not aten.addmm.default or node.kwargs:  # which may scale the two terms
        return
    bias, x, weight = node.args
    if not isinstance(weight, fx.Node) or not isinstance(bias, fx.Node):
        return
    if weight.target is aten.t.default and values[bias].ndim == 1:
        node.target, node.args = linear, (x, weight.args[0], bias)


def _bind(node: fx.Node, values: Values) -> None:
    """Replaces the general way of calling a kernel by the quick one, if that is seen to do the same."""
    if not is_kernel(node) or is_random(node):
        return
    name = name_of(node)
    arguments, options = _filled_in(node.args, values), _filled_in(node.kwargs, values)
    for home in BINDINGS:
        function = getattr(home, name, None)
        is_method = home is torch.Tensor
        if function is None or (is_method and not isinstance(node.args[0], fx.Node)):
            continue
        try:
            answer = function(*arguments, **options)
        except _OTHER_ARGUMENTS:
            continue
        if not _same(answer, values[node]):
            continue
        if is_method:
            node.op, node.target = "call_method", name
        else:
            node.target = function
        return


def _same(answer: Any, expected: Any) -> bool:
    if isinstance(answer, Tensor) and isinstance(expected, Tensor):
        return answer.dtype == expected.dtype and answer.stride() == expected.stride() and torch.equal(answer, expected)
    several = isinstance(answer, (list, tuple)) and isinstance(expected, (list, tuple))
    return several and len(answer) == len(expected) and all(map(_same, answer, expected))
