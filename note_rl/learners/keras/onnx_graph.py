"""A traced function of TensorFlow's as an ONNX model: the operations that networks for agents are made of.

There is one function for each operation, or one word where ONNX has the same. Integers are 64 bits wide in the model,
as ONNX wants them for shapes. Images are turned round before and after what looks at them: TensorFlow keeps channels
last, ONNX first.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import tensorflow as tf
from onnx import TensorProto, helper, numpy_helper

from note_rl.learners.keras.tensorflow_internals import frozen
from note_rl.learners.onnx_files import OPSET
from note_rl.types import Array

_IR_VERSION = 9  # of the file, that which came with the operators
_TO_FIRST, _TO_LAST = (0, 3, 1, 2), (0, 2, 3, 1)  # channels


class UnknownOperationError(ValueError):
    """An operation that is not known here."""


def model_of(function: Any, inputs: Sequence[str], outputs: Sequence[str]) -> Any:
    """Returns the model of a concrete function.

    Args:
        function: Takes and gives batches.
        inputs: The names that its inputs have in the model, in order.
        outputs: The same of its outputs.

    Raises:
        UnknownOperationError: Names an operation, or a setting of one, that is not known here.
    """
    constant = frozen(function)
    given = [tensor for tensor in constant.inputs if tensor.dtype != tf.resource]
    writer = _GraphWriter()
    for tensor, name in zip(given, inputs, strict=True):
        narrow = tensor.dtype == tf.int32  # as it is shown, and wide inside
        writer.names[tensor.name] = writer.node("Cast", [name], to=TensorProto.INT64) if narrow else name
    for operation in constant.graph.get_operations():
        if operation.type not in ("Placeholder", "NoOp"):
            writer.add(operation)
    for name, tensor in zip(outputs, constant.outputs, strict=True):
        writer.node("Identity", [writer.name_of(tensor)], name)
    taken = [_info(name, _same(tensor.dtype), tensor) for name, tensor in zip(inputs, given, strict=True)]
    answered = [
        _info(name, _wide(tensor.dtype), tensor) for name, tensor in zip(outputs, constant.outputs, strict=True)
    ]
    graph = helper.make_graph(writer.nodes, "policy", taken, answered, writer.initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=_IR_VERSION)


def _info(name: str, kind: int, tensor: Any) -> Any:
    return helper.make_tensor_value_info(name, kind, ["batch", *tensor.shape.as_list()[1:]])


def _same(dtype: Any) -> int:
    """Returns ONNX's number of a type of TensorFlow's."""
    return int(helper.np_dtype_to_tensor_dtype(np.dtype(dtype.as_numpy_dtype)))


def _wide(dtype: Any) -> int:
    """Returns ONNX's number of the type that such a tensor has within the model."""
    return int(TensorProto.INT64) if dtype == tf.int32 else _same(dtype)


class _GraphWriter:
    """Gathers nodes and constants.

    Attributes:
        names: By the name of a tensor of TensorFlow's, that of the value in the model.
        constants: By the same, the values of those that are known.
    """

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self.names: dict[str, str] = {}
        self.constants: dict[str, Array] = {}

    def add(self, operation: Any) -> None:
        """Adds what stands for an operation; constants are written where they are used."""
        kind = operation.type
        if kind == "Const":
            self.constants[operation.outputs[0].name] = tf.make_ndarray(operation.get_attr("value"))
        elif kind in _PASSED_ON:
            for source, target in zip(operation.inputs, operation.outputs, strict=True):
                if source.name in self.constants:
                    self.constants[target.name] = self.constants[source.name]
                else:
                    self.names[target.name] = self.names[source.name]
        elif kind in _SAME:
            self.give(operation, self.node(_SAME[kind], list(map(self.name_of, operation.inputs))))
        elif kind in _WRITERS:
            _WRITERS[kind](self, operation)
        else:
            raise UnknownOperationError(f"TensorFlow's operation {kind} has no counterpart here")

    def give(self, operation: Any, *names: str) -> None:
        """Notes which values in the model are the outputs of an operation."""
        for tensor, name in zip(operation.outputs, names, strict=True):
            self.names[tensor.name] = name

    def node(self, kind: str, inputs: Sequence[str], output: str = "", **attributes: Any) -> str:
        """Adds a node with one output; returns its name."""
        name = output or f"value_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, values: Any) -> str:
        """Adds a constant; returns its name."""
        array = np.asarray(values)
        name = f"constant_{len(self.initializers)}"
        array = array.astype(np.int64) if array.dtype == np.int32 else np.ascontiguousarray(array).reshape(array.shape)
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def name_of(self, tensor: Any) -> str:
        """Returns the name of a tensor's value in the model."""
        if tensor.name not in self.names:
            self.names[tensor.name] = self.constant(self.constants[tensor.name])
        return self.names[tensor.name]

    def known(self, tensor: Any) -> Array:
        """Returns the values of a tensor that must be known, such as axes.

        Raises:
            UnknownOperationError: They are worked out.
        """
        if tensor.name not in self.constants:
            raise UnknownOperationError(f"{tensor.op.name} must be a constant")
        return self.constants[tensor.name]


def _matmul(graph: _GraphWriter, operation: Any) -> None:
    names = []
    for tensor, flag in zip(operation.inputs, ("transpose_a", "transpose_b"), strict=True):
        name = graph.name_of(tensor)
        names.append(graph.node("Transpose", [name], perm=[1, 0]) if operation.get_attr(flag) else name)
    graph.give(operation, graph.node("MatMul", names))


def _cast(graph: _GraphWriter, operation: Any) -> None:
    name = graph.name_of(operation.inputs[0])
    graph.give(operation, graph.node("Cast", [name], to=_wide(operation.outputs[0].dtype)))


def _argmax(graph: _GraphWriter, operation: Any) -> None:
    axis = int(graph.known(operation.inputs[1]))
    graph.give(operation, graph.node("ArgMax", [graph.name_of(operation.inputs[0])], axis=axis, keepdims=0))


def _softmax(graph: _GraphWriter, operation: Any) -> None:
    graph.give(operation, graph.node(operation.type, [graph.name_of(operation.inputs[0])], axis=-1))


def _reduced(kind: str) -> Callable[[_GraphWriter, Any], None]:
    def write(graph: _GraphWriter, operation: Any) -> None:
        axes = graph.constant(np.atleast_1d(graph.known(operation.inputs[1])))
        inputs = [graph.name_of(operation.inputs[0]), axes]
        graph.give(operation, graph.node(kind, inputs, keepdims=int(operation.get_attr("keep_dims"))))

    return write


def _rsqrt(graph: _GraphWriter, operation: Any) -> None:
    root = graph.node("Sqrt", [graph.name_of(operation.inputs[0])])
    graph.give(operation, graph.node("Reciprocal", [root]))


def _squared_difference(graph: _GraphWriter, operation: Any) -> None:
    difference = graph.node("Sub", list(map(graph.name_of, operation.inputs)))
    graph.give(operation, graph.node("Mul", [difference, difference]))


def _square(graph: _GraphWriter, operation: Any) -> None:
    name = graph.name_of(operation.inputs[0])
    graph.give(operation, graph.node("Mul", [name, name]))


def _leaky_relu(graph: _GraphWriter, operation: Any) -> None:
    alpha = float(operation.get_attr("alpha"))
    graph.give(operation, graph.node("LeakyRelu", [graph.name_of(operation.inputs[0])], alpha=alpha))


def _filled_like(value: float) -> Callable[[_GraphWriter, Any], None]:
    def write(graph: _GraphWriter, operation: Any) -> None:
        (tensor,) = operation.inputs
        shape = graph.node("Shape", [graph.name_of(tensor)])
        filling = helper.make_tensor("filling", _wide(tensor.dtype), [1], [value])
        graph.give(operation, graph.node("ConstantOfShape", [shape], value=filling))

    return write


def _squeeze(graph: _GraphWriter, operation: Any) -> None:
    axes = graph.constant(np.array(operation.get_attr("squeeze_dims"), np.int64))
    graph.give(operation, graph.node("Squeeze", [graph.name_of(operation.inputs[0]), axes]))


def _expand_dims(graph: _GraphWriter, operation: Any) -> None:
    axes = graph.constant(np.atleast_1d(graph.known(operation.inputs[1])))
    graph.give(operation, graph.node("Unsqueeze", [graph.name_of(operation.inputs[0]), axes]))


def _pack(graph: _GraphWriter, operation: Any) -> None:
    axis = int(operation.get_attr("axis"))
    axes = graph.constant(np.array([axis], np.int64))
    parts = [graph.node("Unsqueeze", [graph.name_of(tensor), axes]) for tensor in operation.inputs]
    graph.give(operation, graph.node("Concat", parts, axis=axis))


def _concat(graph: _GraphWriter, operation: Any) -> None:
    *tensors, axis = operation.inputs
    graph.give(operation, graph.node("Concat", list(map(graph.name_of, tensors)), axis=int(graph.known(axis))))


def _split(graph: _GraphWriter, operation: Any) -> None:
    axis, tensor = operation.inputs
    _into_parts(graph, operation, axis, [graph.name_of(tensor)], num_outputs=len(operation.outputs))


def _split_unevenly(graph: _GraphWriter, operation: Any) -> None:
    tensor, sizes, axis = operation.inputs
    _into_parts(graph, operation, axis, [graph.name_of(tensor), graph.constant(graph.known(sizes).astype(np.int64))])


def _into_parts(graph: _GraphWriter, operation: Any, axis: Any, inputs: Sequence[str], **attributes: Any) -> None:
    names = [f"part_{len(graph.nodes)}_{index}" for index in range(len(operation.outputs))]
    graph.nodes.append(helper.make_node("Split", inputs, names, axis=int(graph.known(axis)), **attributes))
    graph.give(operation, *names)


def _transpose(graph: _GraphWriter, operation: Any) -> None:
    order = graph.known(operation.inputs[1]).tolist()
    graph.give(operation, graph.node("Transpose", [graph.name_of(operation.inputs[0])], perm=order))


def _gather(graph: _GraphWriter, operation: Any) -> None:
    if operation.get_attr("batch_dims"):
        raise UnknownOperationError("gathering by rows of a batch is not known here")
    tensor, index, axis = operation.inputs
    inputs = [graph.name_of(tensor), graph.name_of(index)]
    graph.give(operation, graph.node("Gather", inputs, axis=int(graph.known(axis))))


def _strided_slice(graph: _GraphWriter, operation: Any) -> None:
    """Adds what `x[..., 2:5, None, 0]` and the like stand for: a slice, and axes that come or go."""
    begin, end, strides = (graph.known(tensor).tolist() for tensor in operation.inputs[1:])
    masks = {name: operation.get_attr(f"{name}_mask") for name in _MASKS}
    rank = operation.inputs[0].shape.rank
    slices: list[tuple[int, int, int, int]] = []  # axis, begin, end, stride
    gone: list[int] = []
    new: list[int] = []
    axis = 0
    for number in range(len(begin)):
        bit = 1 << number
        if masks["ellipsis"] & bit:
            axis = rank - (len(begin) - number - 1 - bin(masks["new_axis"] >> (number + 1)).count("1"))
        elif masks["new_axis"] & bit:
            new.append(axis - len(gone) + len(new))
        else:
            first = begin[number]
            if masks["shrink_axis"] & bit:
                slices.append((axis, first, first + 1 if first != -1 else _FAR, 1))
                gone.append(axis)
            else:
                back = strides[number] < 0
                first = (_FAR if back else 0) if masks["begin"] & bit else first
                last = (-_FAR if back else _FAR) if masks["end"] & bit else end[number]
                slices.append((axis, first, last, strides[number]))
            axis += 1
    name = graph.name_of(operation.inputs[0])
    if slices:
        axes, firsts, lasts, steps = (graph.constant(np.array(part, np.int64)) for part in zip(*slices, strict=True))
        name = graph.node("Slice", [name, firsts, lasts, axes, steps])
    if gone:
        name = graph.node("Squeeze", [name, graph.constant(np.array(gone, np.int64))])
    if new:
        name = graph.node("Unsqueeze", [name, graph.constant(np.array(new, np.int64))])
    graph.give(operation, name)


_FAR = 2**62
_MASKS = ("begin", "end", "ellipsis", "new_axis", "shrink_axis")


def _conv(graph: _GraphWriter, operation: Any) -> None:
    image, kernel = operation.inputs
    height, width, num_seen, _ = kernel.shape.as_list()
    dilations = list(operation.get_attr("dilations"))[1:3]
    reach = [(size - 1) * step + 1 for size, step in zip((height, width), dilations, strict=True)]
    settings = {"dilations": dilations, "group": image.shape[-1] // num_seen}
    weights = graph.constant(graph.known(kernel).transpose(3, 2, 0, 1))
    _on_image(graph, operation, "Conv", [weights], {**settings, **_moving(operation, reach)})


def _pool(kind: str) -> Callable[[_GraphWriter, Any], None]:
    def write(graph: _GraphWriter, operation: Any) -> None:
        size = list(operation.get_attr("ksize"))[1:3]
        _on_image(graph, operation, kind, [], {"kernel_shape": size, **_moving(operation, size)})

    return write


def _on_image(graph: _GraphWriter, operation: Any, kind: str, further: Sequence[str], settings: dict[str, Any]) -> None:
    first = graph.node("Transpose", [graph.name_of(operation.inputs[0])], perm=_TO_FIRST)
    graph.give(operation, graph.node("Transpose", [graph.node(kind, [first, *further], **settings)], perm=_TO_LAST))


def _moving(operation: Any, reach: Sequence[int]) -> dict[str, Any]:
    """Returns how a window of this height and width moves over an image: strides, and rows and columns added around.

    With padding "same" there are as many as it takes, half of them in front, one more behind where they are odd.
    """
    padding, strides = operation.get_attr("padding"), list(operation.get_attr("strides"))[1:3]
    if operation.get_attr("data_format") != b"NHWC" or padding not in (b"VALID", b"SAME"):
        raise UnknownOperationError(f"{operation.type} with channels first or padding of its own is not known here")
    added = [0, 0]
    if padding == b"SAME":
        sizes = zip(operation.inputs[0].shape.as_list()[1:3], strides, reach, strict=True)
        added = [max((-(-size // stride) - 1) * stride + window - size, 0) for size, stride, window in sizes]
    front = [number // 2 for number in added]
    return {"strides": strides, "pads": [*front, added[0] - front[0], added[1] - front[1]]}


_PASSED_ON = ("Identity", "IdentityN", "StopGradient", "PreventGradient")
_SAME = {
    **{
        name: name
        for name in ("Add", "Sub", "Mul", "Pow", "Neg", "Abs", "Exp", "Log", "Sqrt", "Sign", "Floor", "Erf", "Round")
    },
    **{name: name for name in ("Relu", "Tanh", "Elu", "Selu", "Sigmoid", "Softplus", "Softsign")},
    **{name: name for name in ("Greater", "GreaterEqual", "Less", "LessEqual", "Equal", "Reshape", "Shape")},
    **{"AddV2": "Add", "BiasAdd": "Add", "RealDiv": "Div", "Minimum": "Min", "Maximum": "Max"},
    **{"LogicalNot": "Not", "LogicalAnd": "And", "LogicalOr": "Or", "SelectV2": "Where", "Reciprocal": "Reciprocal"},
}
_WRITERS: dict[str, Callable[[_GraphWriter, Any], None]] = {
    "MatMul": _matmul,
    "Cast": _cast,
    "ArgMax": _argmax,
    "Softmax": _softmax,
    "LogSoftmax": _softmax,
    "Mean": _reduced("ReduceMean"),
    "Sum": _reduced("ReduceSum"),
    "Max": _reduced("ReduceMax"),
    "Min": _reduced("ReduceMin"),
    "Prod": _reduced("ReduceProd"),
    "Rsqrt": _rsqrt,
    "SquaredDifference": _squared_difference,
    "Square": _square,
    "LeakyRelu": _leaky_relu,
    "ZerosLike": _filled_like(0),
    "OnesLike": _filled_like(1),
    "Squeeze": _squeeze,
    "ExpandDims": _expand_dims,
    "Pack": _pack,
    "ConcatV2": _concat,
    "Split": _split,
    "SplitV": _split_unevenly,
    "Transpose": _transpose,
    "GatherV2": _gather,
    "StridedSlice": _strided_slice,
    "Conv2D": _conv,
    "MaxPool": _pool("MaxPool"),
    "AvgPool": _pool("AveragePool"),
}
