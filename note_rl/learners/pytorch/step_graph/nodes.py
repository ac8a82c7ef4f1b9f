"""Properties of single calls of a recorded graph, by the schemas that torch gives its kernels."""

import torch
from torch import Tensor, fx
from torch.nn.functional import linear

from note_rl.learners.pytorch.torch_internals import Kernel, schema_of

aten = torch.ops.aten

MATRIX_PRODUCTS = {aten.addmm.default, aten.mm.default}
"""Calls that multiply their last two arguments, matrices [m, k] and [k, n]."""

PRODUCTS = {*MATRIX_PRODUCTS, linear, aten.bmm.default, aten.convolution.default}
"""Calls whose time goes into arithmetic, whatever is done around them."""


_NORMALISING = {aten.native_batch_norm.default, aten.cudnn_batch_norm.default}  # x, weight, bias, mean, variance, train


def is_kernel(node: fx.Node) -> bool:
    """Whether the node calls a kernel in the general way, by which its schema is known."""
    return isinstance(node.target, Kernel)


def name_of(node: fx.Node) -> str:
    """Returns the name of a kernel without its namespace and overload: `add_` of `aten::add_.Tensor`."""
    name: str = schema_of(node).name
    return name.partition("::")[2]


def first_argument(node: fx.Node) -> fx.Node | None:
    """Returns the node that the first argument comes from, if it is one."""
    first = node.args[0] if node.args else None
    return first if isinstance(first, fx.Node) else None


def changes_something(node: fx.Node) -> bool:
    """Whether the call writes into one of its arguments."""
    return is_kernel(node) and (bool(schema_of(node).is_mutable) or _moves_statistics(node))


def _moves_statistics(node: fx.Node) -> bool:
    """Whether it is batch normalisation in train mode, whose schema does not say what it writes into."""
    return node.target in _NORMALISING and bool(node.args[5])


def changed_by(node: fx.Node) -> list[fx.Node]:
    """Returns the tensors that a call, which changes something, writes into."""
    if _moves_statistics(node):
        return [argument for argument in node.args[3:5] if isinstance(argument, fx.Node)]
    schema = schema_of(node)
    given = {argument.name: value for argument, value in zip(schema.arguments, node.args, strict=False)} | node.kwargs
    found: list[fx.Node] = []
    for argument in schema.arguments:
        if argument.alias_info is not None and argument.alias_info.is_write:
            fx.map_arg(given.get(argument.name), found.append)
    return found


def is_random(node: fx.Node) -> bool:
    """Whether the call draws random numbers."""
    return isinstance(node.target, Kernel) and torch.Tag.nondeterministic_seeded in node.target.tags


def matters(node: fx.Node) -> bool:
    """Whether a call has to stay although nobody uses its result; random numbers are drawn in any case."""
    return node.op in ("placeholder", "output") or changes_something(node) or is_random(node)


def gives_new_tensor(node: fx.Node) -> bool:
    """Whether nothing else shares the memory of the only result."""
    if not isinstance(node.target, Kernel):
        return False
    results = schema_of(node).returns
    return len(results) == 1 and results[0].alias_info is None


def work(x: Tensor, weight: Tensor) -> int:
    """Returns the multiplications in the product of matrices [m, k] and [k, n]."""
    return int(x.shape[0] * x.shape[1] * weight.shape[1])
