"""How much the gradients of agents written in Keras scatter."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from note_rl.learners.adjustable import Microbatches
from note_rl.learners.base import temporary_attributes
from note_rl.learners.gradient_noise import NoiseMoments, of_norms
from note_rl.learners.keras.variables import identity
from note_rl.learners.keras.xla import Compilation

NOT_COMPILABLE = (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.NotFoundError)
Losses = Callable[[dict[str, Any]], list[Any]]
Groups = Sequence[Sequence[Any]]


class NoiseMeter:
    """Measures how much gradients scatter: the noise of every loss along its group of parameters.

    Where all parameters belong to Dense layers that a loss uses once, one backward pass gives the norms of the
    gradients of single samples: gradients are products of what goes into a layer and what comes back (Goodfellow 2015,
    arXiv:1510.01799). Otherwise each part is evaluated by itself; so it is once at first, to see whether both agree.

    Args:
        losses: Of a minibatch, by name [B, ...]: means over it, one per group of parameters, or one for all.
        compilation: Decides whether to compile by XLA.

    Attributes:
        touches: Variables that measuring changes, such as random states, to be put back; None: not known yet.
    """

    def __init__(self, losses: Losses, compilation: Compilation) -> None:
        self._losses = losses
        self._compilation = compilation
        self._quickly: bool | None = None  # None: not tried yet
        self._functions: dict[tuple[int, int], Any] = {}  # by size and parts: choosing one ourselves is quicker
        self.num_traces = 0
        self.touches: list[Any] | None = None

    def has_touched(self, variables: list[Any]) -> None:
        """What the first measurement has changed is what all of them change."""
        if self.touches is None and self._quickly is not None:
            self.touches = variables

    def __call__(self, given: Microbatches, groups: Groups, networks: Iterable[Any]) -> list[NoiseMoments]:
        """Measures once.

        Args:
            given: The minibatch.
            groups: Parameters, by loss.
            networks: What the agent consists of.
        """
        if given.parts < 2:
            return [NoiseMoments(math.nan, math.nan) for _ in groups]
        columns = {name: tf.constant(values) for name, values in given.columns.items()}
        layers = _dense_layers(networks)
        if self._quickly is None:
            return self._tried(columns, given, groups, layers)
        parts = given.finest if self._quickly else given.parts
        if (given.size, parts) not in self._functions:
            self._functions[given.size, parts] = self._compiled(columns, parts, groups, layers)
        try:
            norms = self._functions[given.size, parts](columns)
        except NOT_COMPILABLE:
            if not self._compilation.uses_xla:
                raise
            self._compilation.give_up()
            self._functions.clear()
            return self(given, groups, networks)
        return _moments(norms, parts, given.size)

    def _tried(
        self, columns: dict[str, Any], given: Microbatches, groups: Groups, layers: Sequence[Any]
    ) -> list[NoiseMoments]:
        """In both ways, without compiling anything."""
        slowly = _moments(_one_by_one(self._losses, columns, given.parts, groups), given.parts, given.size)
        norms = _by_layers(self._losses, columns, given.parts, groups, layers)
        quickly = None if norms is None else _moments(norms, given.parts, given.size)
        self._quickly = quickly is not None and all(
            one.agrees_with(other) for one, other in zip(slowly, quickly, strict=True)
        )
        return slowly

    def _compiled(self, columns: dict[str, Any], parts: int, groups: Groups, layers: Sequence[Any]) -> Any:
        def norms(columns: dict[str, Any]) -> Any:
            self.num_traces += 1
            if self._quickly:
                return _by_layers(self._losses, columns, parts, groups, layers)
            return _one_by_one(self._losses, columns, parts, groups)

        return self._compilation.traced(norms, columns)


def _moments(norms: Any, parts: int, size: int) -> list[NoiseMoments]:
    return [of_norms(float(small), float(big), size // parts, size) for small, big in norms.numpy()]


def _dense_layers(networks: Iterable[Any]) -> list[Any]:
    """Those of what is a layer or a model, each once."""
    layers = [layer for one in networks if isinstance(one, keras.Layer) for layer in one._flatten_layers()]
    return list({id(layer): layer for layer in layers if type(layer) is keras.layers.Dense}.values())


@dataclass(frozen=True)
class _Noted:
    """One use of one layer: inputs [B, in] and what comes out before the activation, [B, out]."""

    layer: Any
    inputs: Any
    outputs: Any


@contextmanager
def _noting(layers: Sequence[Any]) -> Iterator[list[_Noted]]:
    """Writes down what goes through layers while the block lasts."""
    noted: list[_Noted] = []
    with ExitStack() as stack:
        for layer in layers:
            stack.enter_context(temporary_attributes(layer, {"call": _noted_call(layer, noted)}))
        yield noted


def _noted_call(layer: Any, noted: list[_Noted]) -> Callable[..., Any]:
    plain, activation = layer.call, layer.activation

    def call(inputs: Any, *arguments: Any, **named: Any) -> Any:
        def note(outputs: Any) -> Any:
            noted.append(_Noted(layer, inputs, outputs))
            return activation(outputs)

        with temporary_attributes(layer, {"activation": note}):
            return plain(inputs, *arguments, **named)

    return call


def _by_layers(losses: Losses, columns: dict[str, Any], parts: int, groups: Groups, layers: Sequence[Any]) -> Any:
    """[G, 2] as `_one_by_one` has it; None where a layer is used more than once, or for something else than samples."""
    size = columns["reward"].shape[0]
    with tf.GradientTape(persistent=True) as tape, _noting(layers) as noted:
        found = losses(columns)
    if not noted or any(one.inputs.shape.rank != 2 or one.inputs.shape[0] != size for one in noted):
        return None
    norms = []
    for index, group in enumerate(groups):
        back = tape.gradient(found[index if len(found) == len(groups) else 0], [one.outputs for one in noted])
        wanted = {identity(variable) for variable in group}
        used = [(one, g) for one, g in zip(noted, back, strict=True) if g is not None]
        used = [(one, g) for one, g in used if identity(one.layer._kernel) in wanted]
        covered = [identity(variable) for one, _ in used for variable in one.layer.variables]
        if len(set(covered)) < len(covered) or not wanted <= set(covered):
            return None
        of_layers = [_norms_of_layer(one, g, parts, identity(one.layer.bias) in wanted) for one, g in used]
        norms.append(tf.add_n(of_layers))
    return tf.stack(norms)


def _norms_of_layer(one: _Noted, back: Any, parts: int, has_bias: bool) -> Any:
    """By products of what goes in and what comes back, [2]: as `_one_by_one`, of sums where that has means."""
    if len(back) == parts:  # |g x'|^2 = |g|^2 |x|^2: no gradient of a single sample is made
        inputs = tf.reduce_sum(tf.square(one.inputs), axis=1) + float(has_bias)
        small = tf.reduce_sum(tf.reduce_sum(tf.square(back), axis=1) * inputs)
        whole = _gradients_of(one.inputs, back, has_bias)
    else:  # one product after the other: XLA multiplies batches of matrices on a CPU without its fast kernels
        pairs = zip(tf.split(one.inputs, parts), tf.split(back, parts), strict=True)
        of_parts = [_gradients_of(x, g, has_bias) for x, g in pairs]
        small = tf.add_n([_squared_norm(gradients) for gradients in of_parts])
        whole = [tf.add_n(list(several)) for several in zip(*of_parts, strict=True)]
    return tf.stack([parts * small, _squared_norm(whole)])


def _gradients_of(inputs: Any, back: Any, has_bias: bool) -> list[Any]:
    """Of kernel (transposed) and bias, summed over samples."""
    kernel = tf.matmul(back, inputs, transpose_a=True)
    return [kernel, tf.reduce_sum(back, axis=0)] if has_bias else [kernel]


def _one_by_one(losses: Losses, columns: Mapping[str, Any], parts: int, groups: Groups) -> Any:
    """Each part by itself: mean squared norm of the gradients of parts, and that of their mean, per group: [G, 2]."""
    split = {name: tf.reshape(one, (parts, -1, *one.shape[1:])) for name, one in columns.items()}

    def body(k: Any, small: Any, mean: list[list[Any]]) -> tuple[Any, Any, list[list[Any]]]:
        with tf.GradientTape(persistent=True) as tape:
            found = losses({name: column[k] for name, column in split.items()})
        found = found if len(found) == len(groups) else found * len(groups)
        gradients = [
            tape.gradient(loss, list(group), unconnected_gradients="zero")
            for loss, group in zip(found, groups, strict=True)
        ]
        squares = tf.stack([_squared_norm(group) for group in gradients])
        mean = [
            [total + one / parts for total, one in zip(*pair, strict=True)]
            for pair in zip(mean, gradients, strict=True)
        ]
        return k + 1, small + squares / parts, mean

    zeros = [[tf.zeros(one.shape) for one in group] for group in groups]
    _, small, mean = tf.while_loop(lambda k, *_: k < parts, body, (0, tf.zeros(len(groups)), zeros))
    return tf.stack([small, tf.stack([_squared_norm(group) for group in mean])], axis=1)


def _squared_norm(tensors: Sequence[Any]) -> Any:
    return tf.add_n([tf.reduce_sum(tf.square(one)) for one in tensors])
