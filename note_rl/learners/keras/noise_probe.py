"""How much the gradients of agents written in Keras scatter."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import keras
import tensorflow as tf

from note_rl.learners.adjustable import Microbatches
from note_rl.learners.base import temporary_attributes
from note_rl.learners.batch_noise_scale import NoiseMoments, of_norms
from note_rl.learners.keras.keras_internals import all_layers, identity, kernel_of
from note_rl.learners.keras.xla import Compilation
from note_rl.learners.noise_meter import (
    Groups,
    LayerPass,
    MeasuredLosses,
    NoiseMeter,
    PassGradient,
    gradients_of_group,
    one_per_group,
)


class KerasNoiseMeter(NoiseMeter):
    """Measures by traced functions, from the second time on; the first, in which both ways are tried, is eager.

    Args:
        losses: Of the agent.
        compilation: Decides whether to compile by XLA.

    Attributes:
        num_traces: How often a function was traced.
    """

    def __init__(self, losses: MeasuredLosses, compilation: Compilation) -> None:
        super().__init__()
        self._losses = losses
        self._compilation = compilation
        # by way, size and parts: choosing a concrete function ourselves is quicker
        self._functions: dict[tuple[str, int, int], Any] = {}
        self.num_traces = 0

    def _layers_of(self, networks: Iterable[Any]) -> Sequence[Any]:
        layers = [layer for held in networks if isinstance(held, keras.Layer) for layer in all_layers(held)]
        return list({id(layer): layer for layer in layers if type(layer) is keras.layers.Dense}.values())

    def _by_layers(
        self, minibatch: Microbatches, num_parts: int, groups: Groups, layers: Sequence[Any]
    ) -> list[NoiseMoments] | None:
        def norms(columns: dict[str, Any]) -> Any:
            return _norms_by_layers(self._losses, columns, num_parts, groups, layers)

        evaluated = self._evaluated("layers", norms, minibatch, num_parts)
        return None if evaluated is None else _moments(evaluated, num_parts, minibatch.size)

    def _by_parts(self, minibatch: Microbatches, groups: Groups) -> list[NoiseMoments]:
        def norms(columns: dict[str, Any]) -> Any:
            return _norms_by_parts(self._losses, columns, minibatch.parts, groups)

        return _moments(self._evaluated("parts", norms, minibatch, minibatch.parts), minibatch.parts, minibatch.size)

    def _evaluated(self, way: str, norms: Callable[[dict[str, Any]], Any], minibatch: Microbatches, parts: int) -> Any:
        """Evaluates the norms, by a traced function unless both ways are being tried."""
        if self._quickly is None or self._compilation.untraced:
            return norms(minibatch.columns)

        def counted(columns: dict[str, Any]) -> Any:
            self.num_traces += 1
            return norms(columns)

        key = (way, minibatch.size, parts)
        if key not in self._functions:
            self._functions[key] = self._compilation.traced(counted, minibatch.columns)
        try:
            return self._functions[key](minibatch.columns)
        except tf.errors.OpError as error:
            if not self._compilation.recovers(error):
                raise
            self._functions.clear()
            return self._evaluated(way, norms, minibatch, parts)


def _moments(norms: Any, parts: int, size: int) -> list[NoiseMoments]:
    return [of_norms(float(small), float(big), size // parts, size) for small, big in norms.numpy()]


@contextmanager
def _noting(layers: Sequence[Any]) -> Iterator[list[LayerPass]]:
    """Writes down what goes through layers while the block lasts."""
    passes: list[LayerPass] = []
    with ExitStack() as stack:
        for layer in layers:
            stack.enter_context(temporary_attributes(layer, {"call": _noted_call(layer, passes)}))
        yield passes


def _noted_call(layer: Any, passes: list[LayerPass]) -> Callable[..., Any]:
    """Returns the layer's `call`, with its activation replaced, as only that sees what comes before it."""
    plain, activation = layer.call, layer.activation

    def call(inputs: Any, *arguments: Any, **named: Any) -> Any:
        def note(outputs: Any) -> Any:
            bias = None if layer.bias is None else identity(layer.bias)
            passes.append(LayerPass(inputs, outputs, identity(kernel_of(layer)), bias))
            return activation(outputs)

        with temporary_attributes(layer, {"activation": note}):
            return plain(inputs, *arguments, **named)

    return call


def _norms_by_layers(
    losses: MeasuredLosses, columns: dict[str, Any], parts: int, groups: Groups, layers: Sequence[Any]
) -> Any:
    """Returns [G, 2] as `_norms_by_parts`; None where layers do not hold all, or are used in other ways."""
    size = columns["reward"].shape[0]
    with tf.GradientTape(persistent=True) as tape, _noting(layers) as passes:
        of_groups = one_per_group(losses(columns), len(groups))
    if not passes or any(seen.inputs.shape.rank != 2 or seen.inputs.shape[0] != size for seen in passes):
        return None
    norms = []
    for group, loss in zip(groups, of_groups, strict=True):
        back = tape.gradient(loss, [seen.outputs for seen in passes])
        gradients = gradients_of_group(passes, back, {identity(variable) for variable in group})
        if gradients is None:
            return None
        norms.append(tf.add_n([_norms_of_layer(gradient, parts) for gradient in gradients]))
    return tf.stack(norms)


def _norms_of_layer(gradient: PassGradient, parts: int) -> Any:
    """By products of what goes in and what comes back, [2]: as `_norms_by_parts`, of sums where that has means."""
    if gradient.back.shape[0] == parts:  # |g x'|^2 = |g|^2 |x|^2: no gradient of a single sample is made
        inputs = tf.reduce_sum(tf.square(gradient.inputs), axis=1) + float(gradient.has_bias)
        small = tf.reduce_sum(tf.reduce_sum(tf.square(gradient.back), axis=1) * inputs)
        whole = _gradients_of(gradient.inputs, gradient.back, gradient.has_bias)
    else:  # one product after the other: XLA multiplies batches of matrices on a CPU without its fast kernels
        pairs = zip(tf.split(gradient.inputs, parts), tf.split(gradient.back, parts), strict=True)
        of_parts = [_gradients_of(inputs, back, gradient.has_bias) for inputs, back in pairs]
        small = tf.add_n([_squared_norm(gradients) for gradients in of_parts])
        whole = [tf.add_n(list(several)) for several in zip(*of_parts, strict=True)]
    return tf.stack([parts * small, _squared_norm(whole)])


def _gradients_of(inputs: Any, back: Any, has_bias: bool) -> list[Any]:
    """Returns the gradients of kernel (transposed) and bias, summed over samples."""
    kernel = tf.matmul(back, inputs, transpose_a=True)
    return [kernel, tf.reduce_sum(back, axis=0)] if has_bias else [kernel]


def _norms_by_parts(losses: MeasuredLosses, columns: Mapping[str, Any], parts: int, groups: Groups) -> Any:
    """Returns the mean squared norm of the gradients of parts, and that of their mean, per group: [G, 2]."""
    split = {name: tf.reshape(column, (parts, -1, *column.shape[1:])) for name, column in columns.items()}

    def body(k: Any, small: Any, mean: list[list[Any]]) -> tuple[Any, Any, list[list[Any]]]:
        with tf.GradientTape(persistent=True) as tape:
            of_groups = one_per_group(losses({name: column[k] for name, column in split.items()}), len(groups))
        gradients = [
            tape.gradient(loss, list(group), unconnected_gradients="zero")
            for loss, group in zip(of_groups, groups, strict=True)
        ]
        squares = tf.stack([_squared_norm(group) for group in gradients])
        mean = [
            [total + gradient / parts for total, gradient in zip(*pair, strict=True)]
            for pair in zip(mean, gradients, strict=True)
        ]
        return k + 1, small + squares / parts, mean

    zeros = [[tf.zeros(parameter.shape) for parameter in group] for group in groups]
    _, small, mean = tf.while_loop(lambda k, *_: k < parts, body, (0, tf.zeros(len(groups)), zeros))
    return tf.stack([small, tf.stack([_squared_norm(group) for group in mean])], axis=1)


def _squared_norm(tensors: Sequence[Any]) -> Any:
    return tf.add_n([tf.reduce_sum(tf.square(tensor)) for tensor in tensors])
