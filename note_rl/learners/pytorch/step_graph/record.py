"""A function of tensors as a plain list of kernel calls: recorded once, then replayed without modules and autograd.

Around the arithmetic of small networks, most of the time of a gradient step goes into Python modules, the bookkeeping
of autograd and arguments that are parsed in the slow, general way. A recording has none of that.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, fx

from note_rl.learners.pytorch.step_graph.nodes import (
    PRODUCTS,
    changed_by,
    changes_something,
    first_argument,
    gives_new_tensor,
    is_kernel,
    is_random,
    matters,
    name_of,
)
from note_rl.learners.pytorch.step_graph.products import is_large_product
from note_rl.learners.pytorch.torch_internals import make_fx, one_fake_mode, overload_like

aten = torch.ops.aten
_SAME_VALUE = {aten.detach.default, aten.alias.default}


@dataclass(frozen=True)
class Recording:
    """The kernel calls of a function.

    Attributes:
        module: Its placeholders are the captured tensors, then the inputs; it returns a flat list.
        captured: The tensors that the function read besides its inputs: these very objects, so that a replay follows
            them, not what they held.
        pure: Nothing was changed in place.
        written: Which of the captured tensors and inputs, in this order, are changed in place.
        is_random: Random numbers are drawn.
        num_calls: Kernel calls.
        num_elements: Numbers that were written by calls other than products of matrices.
        large_products: Names of the nodes of the module that are large products of two matrices; see `products`.
    """

    module: fx.GraphModule
    captured: list[Tensor]
    pure: bool
    written: list[int]
    is_random: bool
    num_calls: int
    num_elements: int
    large_products: frozenset[str]

    def text(self, names: Mapping[int, str], inputs: Sequence[str]) -> str:
        """Returns the calls as code, below a line on each argument.

        Args:
            names: Of tensors, by their identity.
            inputs: Names of the inputs.
        """
        arguments = [node.name for node in self.module.graph.nodes if node.op == "placeholder"]
        captured = [f"{names.get(id(one), 'a constant or slot')} {list(one.shape)}" for one in self.captured]
        lines = [f"# {name}: {meaning}" for name, meaning in zip(arguments, [*captured, *inputs], strict=True)]
        return "\n".join([*lines, self.module.code.strip()])


def recorded(function: Callable[..., list[Tensor]], tensors: Sequence[Tensor], inputs: Sequence[Tensor]) -> Recording:
    """Calls the function once and writes down what it does.

    Args:
        function: Of the inputs; gradients may be taken in it.
        tensors: What it may read besides. Reading a number out of any of these, or of the inputs, is an error, as
            the number would not be known in a replay.
        inputs: Only their shapes and types are written down.

    Raises:
        RuntimeError: The function depends on what its tensors hold in a way that kernel calls cannot say.
        ValueError: So do the shapes in it.
    """
    num = len(tensors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about what the first, ordinary call has warned of
        # tensors that are arguments become placeholders; all others would be frozen as they are
        with one_fake_mode():
            module = make_fx(lambda *everything: function(*everything[num:]))(*tensors, *inputs)
    graph = module.graph
    graph.set_codegen(fx.graph.CodeGen())  # plain positional arguments and results
    _check_shapes(graph)
    _drop_aliases(graph)
    _make_ordinary(graph)
    pure = not any(changes_something(node) for node in graph.nodes)
    graph.eliminate_dead_code(matters)
    for node in graph.nodes:
        if node.op == "get_attr":
            node.meta["val"] = getattr(module, str(node.target))
    large_products = frozenset(node.name for node in graph.nodes if is_large_product(node))
    captured = _with_constants_as_inputs(module, tensors, len(inputs))
    num_calls = sum(node.op == "call_function" for node in graph.nodes)
    num_elements = sum(map(_num_written, graph.nodes))
    for node in graph.nodes:
        node.meta.clear()  # it holds examples of tensors, and with them their memory
    module = fx.GraphModule({}, graph)  # which owns no tensors
    written, draws = _written(graph), any(map(is_random, graph.nodes))
    return Recording(module, captured, pure, written, draws, num_calls, num_elements, large_products)


def _check_shapes(graph: fx.Graph) -> None:
    """Refuses calls that give a shape, or a number to Python, that is another for each minibatch."""
    for node in graph.nodes:
        tags = node.target.tags if is_kernel(node) else ()
        if torch.Tag.data_dependent_output in tags or (torch.Tag.dynamic_output_shape in tags and _picks(node)):
            raise ValueError(f"what {name_of(node)} gives depends on the minibatch in its shape")


def _picks(node: fx.Node) -> bool:
    """Whether a call with a shape of its own, if it takes entries by index, takes them by a mask."""
    if node.target is not aten.index.Tensor:
        return True
    indices = [index.meta["val"] for index in node.args[1] if isinstance(index, fx.Node)]  # type: ignore[union-attr]
    return any(index.dtype in (torch.bool, torch.uint8) for index in indices)


def _written(graph: fx.Graph) -> list[int]:
    """Returns which placeholders are changed in place, themselves or through views."""
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    written = {_base(target) for node in graph.nodes if changes_something(node) for target in changed_by(node)}
    return [index for index, node in enumerate(placeholders) if node in written]


def _base(node: fx.Node) -> fx.Node:
    """Returns the tensor that a view is of."""
    source = first_argument(node)
    return node if source is None or gives_new_tensor(node) else _base(source)


def _drop_aliases(graph: fx.Graph) -> None:
    """Removes what is nothing without autograd: detaching, and transposing twice."""
    for node in list(graph.nodes):
        source = first_argument(node)
        if source is None:
            continue
        if node.target in _SAME_VALUE:
            node.replace_all_uses_with(source)
        elif node.target is aten.t.default and source.target is aten.t.default:
            node.replace_all_uses_with(source.args[0])


def _make_ordinary(graph: fx.Graph) -> None:
    """Rewrites calls in place that nobody can see, as backward passes make them, into ordinary ones.

    A new tensor with one user cannot be read by anybody else, neither before nor after it is overwritten.
    """
    for node in graph.nodes:
        source = first_argument(node)
        if source is None or not changes_something(node) or not gives_new_tensor(source) or len(source.users) != 1:
            continue
        kernel = getattr(aten, name_of(node).removesuffix("_"), None)
        overload = overload_like(node, kernel)
        if overload is not None:
            node.target = overload


def _with_constants_as_inputs(module: fx.GraphModule, tensors: Sequence[Tensor], num_inputs: int) -> list[Tensor]:
    """Drops unused placeholders of tensors and makes new ones for those that the function found elsewhere.

    Returns:
        The tensors that the placeholders before the inputs stand for.
    """
    graph = module.graph
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    first_input = placeholders[len(placeholders) - num_inputs]
    captured: list[tuple[fx.Node, Tensor]] = []
    for node, tensor in zip(placeholders, tensors, strict=False):
        if node.users:
            captured.append((node, tensor))
        else:
            graph.erase_node(node)
    for node in [node for node in graph.nodes if node.op == "get_attr"]:
        tensor = getattr(module, str(node.target))
        placeholder = next((known for known, other in captured if other is tensor), None)
        if placeholder is None:
            with graph.inserting_before(first_input):
                placeholder = graph.placeholder(f"constant_{len(captured)}")
            captured.append((placeholder, tensor))
        node.replace_all_uses_with(placeholder)
        graph.erase_node(node)
    return [tensor for _, tensor in captured]


def _num_written(node: fx.Node) -> int:
    """Returns how many numbers a call writes, if writing is what takes its time."""
    example = node.meta.get("val")
    if not isinstance(example, Tensor) or not gives_new_tensor(node) or node.target in PRODUCTS:
        return 0
    return example.numel()
