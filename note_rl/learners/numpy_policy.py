"""Acting without the framework: a plain multilayer perceptron evaluated in NumPy.

One observation through a 64-64 network costs about 10 us here against 50-450 us for a call into a framework, which
would be most of the time that collecting takes.
"""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from note_rl.errors import EnvironmentMismatchError, about_shapes
from note_rl.types import Array, FloatArray

Activation = Callable[[FloatArray], FloatArray]
# (kernel [in, out], bias [out], the activation or its name)
DenseLayer = tuple[FloatArray, FloatArray, str | Activation]
ReadLayers = Callable[[], Sequence[DenseLayer] | None]


_ZERO = np.float32(0.0)  # several times faster than a plain 0.0, which is converted in each call


def _softmax(x: FloatArray) -> FloatArray:
    shares: FloatArray = np.exp(x - x.max(axis=-1, keepdims=True))
    shares /= shares.sum(axis=-1, keepdims=True)
    return shares


def softmax_of_each(x: FloatArray, sizes: Sequence[int]) -> FloatArray:
    """Returns probabilities [E, sum of sizes] of several choices, each the softmax of its own numbers."""
    return np.concatenate([_softmax(part) for part in np.split(x, np.cumsum(sizes)[:-1], axis=-1)], axis=-1)


def _relu(x: FloatArray) -> FloatArray:
    return np.maximum(x, _ZERO, out=x)


def _tanh(x: FloatArray) -> FloatArray:
    return np.tanh(x, out=x)


# Of numbers that nobody else holds: some overwrite them.
_ACTIVATIONS: dict[str, Activation] = {
    "linear": lambda x: x,
    "relu": _relu,
    "tanh": _tanh,
    "elu": lambda x: np.where(x > 0.0, x, np.expm1(np.minimum(x, 0.0))),
    "silu": lambda x: 0.5 * x * (1.0 + np.tanh(0.5 * x)),  # x * sigmoid(x), which cannot overflow in this form
    "softmax": _softmax,
    "sigmoid": lambda x: 0.5 * (1.0 + np.tanh(0.5 * x)),
}


def knows_activation(name: str) -> bool:
    """Whether an activation of this name is known here."""
    return name in _ACTIVATIONS


def activated(name: str, x: FloatArray) -> FloatArray:
    """Returns the outputs of a known activation; some overwrite their inputs."""
    return _ACTIVATIONS[name](x)


def scaled_tanh(centre: FloatArray, scale: FloatArray) -> Activation:
    """Returns x -> centre + scale * tanh(x): how deterministic actors stay within the bounds of their actions."""
    return lambda x: centre + scale * np.tanh(x)


def dense_layers_of(network: Any, output_activation: str | Activation | None = None) -> list[DenseLayer] | None:
    """Returns the layers that a network says it consists of, by its `dense_layers()`; None: it does not.

    Args:
        network: Of any kind.
        output_activation: What the agent applies to its linear outputs; None: nothing.
    """
    show = getattr(network, "dense_layers", None)
    layers: list[DenseLayer] | None = None if show is None else show()
    if layers is None or output_activation is None:
        return layers
    *hidden, (kernel, bias, _) = layers
    return [*hidden, (kernel, bias, output_activation)]


def with_constant_outputs(layers: list[DenseLayer], constants: FloatArray) -> list[DenseLayer]:
    """Returns the layers with further outputs behind those of the last one that are the same for all inputs."""
    *hidden, (kernel, bias, activation) = layers
    wider = np.pad(kernel, ((0, 0), (0, len(constants))))
    return [*hidden, (wider, np.concatenate([bias, constants]), activation)]


def with_hidden_beside(layers: list[DenseLayer], activation: Activation) -> list[DenseLayer]:
    """Returns the layers with the inputs of the last one behind its outputs, and an activation for all of them."""
    *hidden, (kernel, bias, _) = layers
    wider = np.concatenate([kernel, np.eye(len(kernel), dtype=kernel.dtype)], axis=1)
    return [*hidden, (wider, np.pad(bias, (0, len(kernel))), activation)]


class NumpyPolicy:
    """Follows the layers that an agent says its action() consists of.

    Args:
        layers: Called again whenever parameters have changed.
    """

    def __init__(self, layers: ReadLayers) -> None:
        self._read = layers
        self._layers: Sequence[DenseLayer] = ()
        self.stale = True

    def __call__(self, obs: Array) -> FloatArray:
        """Returns outputs [E, A] for observations [E, *obs], which are flattened."""
        x: FloatArray = obs.reshape(len(obs), -1)
        for kernel, bias, activation in self.layers():
            activate = _ACTIVATIONS[activation] if isinstance(activation, str) else activation
            x = x @ kernel
            x += bias
            x = activate(x)
        return x

    @property
    def scale(self) -> float:
        """The size of what is summed up to an answer."""
        return scale_of(self.layers()[-1][2])

    def layers(self) -> Sequence[DenseLayer]:
        """Returns the current layers."""
        if self.stale:
            self._layers = self._read() or ()
            self.stale = False
        return self._layers

    @staticmethod
    def supports(layers: Sequence[DenseLayer]) -> bool:
        """Whether every activation is known here."""
        return all(not isinstance(activation, str) or activation in _ACTIVATIONS for _, _, activation in layers)


def verified_mirror(layers: ReadLayers | None, act: Callable[[Array], FloatArray], obs: Array) -> NumpyPolicy | None:
    """Returns a mirror that was seen to agree with the framework on the given observations [E, *obs], or None."""
    if layers is None or obs.dtype != np.float32:
        return None
    read = layers()
    if read is None or not NumpyPolicy.supports(read):
        return None
    mirror = NumpyPolicy(layers)
    return mirror if agree(mirror(obs), act(obs), mirror.scale) else None


def agree(answers: FloatArray, expected: FloatArray, scale: float = 1.0) -> bool:
    """Whether answers of NumPy are those of a framework, up to rounding.

    Args:
        answers: Of NumPy.
        expected: Of the framework.
        scale: The size of what is summed up to an answer, if that is above 1.
    """
    same, atol = answers.shape == expected.shape, 1e-5 * max(1.0, scale)
    return same and np.allclose(answers, expected, rtol=1e-4, atol=atol, equal_nan=True)


def scale_of(activation: str | Activation | None) -> float:
    """The size of what an activation sums up, by its attribute `scale`."""
    return float(getattr(activation, "scale", 1.0))


class Actor:
    """Answers observations in NumPy where the agent's layers allow it, else through the framework.

    Args:
        agent: May have `acting_layers()`, or `acting_layers(i)` where there are several agents.
        framework_act: (observations [E, *obs], index of the agent or None) -> answers [E, ...].
        mirrored: Whether NumPy may be used at all: the parameters are in the memory of the CPU.
        reading: Makes of what reads the layers something that does so more quickly.

    Attributes:
        examples: By index, one of the observations that were answered, [1, *obs].
        num_changes: Of the parameters, as far as it is known here.
    """

    def __init__(
        self,
        agent: Any,
        framework_act: Callable[[Array, int | None], FloatArray],
        mirrored: bool,
        reading: Callable[[ReadLayers], ReadLayers] = lambda read: read,
    ) -> None:
        self._agent = agent
        self._reading = reading
        self._framework_act = framework_act
        self._mirrored = mirrored
        self._mirrors: dict[int | None, NumpyPolicy | None] = {}
        self._former: dict[int | None, NumpyPolicy] = {}  # those that no longer agree, by which workers may go on
        self._answered: dict[int | None, tuple[int, ...]] = {}  # shape of the observation that was answered last
        self.examples: dict[int | None, Array] = {}  # an observation of that shape, [1, *obs]
        self.num_changes = 0
        self._doubted: set[int | None] = set()

    def __call__(self, obs: Array, index: int | None = None) -> FloatArray:
        """Returns answers [E, ...] to observations [E, *obs], of one agent among several if an index is given.

        Raises:
            EnvironmentMismatchError: The agent's network takes observations of another shape.
        """
        if self._answered.get(index) == obs.shape[1:]:
            return self._answers(obs, index)
        with self.first_of_its_shape(obs, index, lambda: self._layers_now(index)):
            return self._answers(obs, index)

    def has_answered(self, obs: Array) -> bool:
        """Whether the last observations that were answered had this shape."""
        return self._answered.get(None) == obs.shape[1:]

    def _answers(self, obs: Array, index: int | None) -> FloatArray:
        if index not in self._mirrors:
            layers = self._layers(index) if self._mirrored else None
            self._mirrors[index] = verified_mirror(layers, lambda obs: self._framework_act(obs, index), obs)
        mirror = self._mirrors[index]
        if mirror is not None and not mirror.layers():  # there are none any more
            mirror = self._mirrors[index] = None
        if mirror is not None and index in self._doubted:
            self._doubted.discard(index)
            if not agree(mirror(obs), self._framework_act(obs, index), mirror.scale):
                self._former[index] = mirror
                mirror = self._mirrors[index] = None
        return mirror(obs) if mirror is not None else self._framework_act(obs, index)

    def _layers(self, index: int | None) -> ReadLayers | None:
        layers = getattr(self._agent, "acting_layers", None)
        if layers is None or self._acts_in_its_own_way():
            return None
        if bool(inspect.signature(layers).parameters) != (index is not None):
            return None
        return self._reading(layers if index is None else partial(layers, index))

    def _layers_now(self, index: int | None) -> Sequence[DenseLayer] | None:
        read = self._layers(index) if self._mirrored else None
        return read() if read is not None else None

    @contextmanager
    def first_of_its_shape(self, obs: Array, index: int | None, read: ReadLayers) -> Iterator[None]:
        """Stands around the first answer to observations of this shape: says what networks say of shapes in words.

        Args:
            obs: The observations, one of which becomes an example.
            index: See `__call__`.
            read: Gives the layers that see them, if they are known.

        Raises:
            EnvironmentMismatchError: See `__call__`.
        """
        try:
            yield
        except (RuntimeError, ValueError) as error:
            if type(error) not in (RuntimeError, ValueError):  # a memory that is full, or a refusal in words already
                raise
            layers = read()
            if layers and np.prod(obs.shape[1:]) != len(layers[0][0]):
                reason = f"its network takes {len(layers[0][0])} numbers"
            else:
                reason = about_shapes(error)
            if obs.ndim == 1:
                reason += "; a batch [E, *observation] is wanted, obs[None] of a single one"
            raise EnvironmentMismatchError(
                f"{type(self._agent).__name__} cannot answer observations of the shape {list(obs.shape[1:])} "
                f"({obs.dtype}): {reason}"
            ) from error
        self._answered[index], self.examples[index] = obs.shape[1:], obs[:1].copy()

    def _acts_in_its_own_way(self) -> bool:
        """Whether action() was written anew below the class whose layers are meant to be all that it does."""
        order = type(self._agent).__mro__
        definers = {
            name: next((place for place, kind in enumerate(order) if name in vars(kind)), len(order))
            for name in ("action", "acting_layers")
        }
        return definers["action"] < definers["acting_layers"]

    def is_mirrored(self, index: int | None = None) -> bool:
        """Whether actions are worked out in NumPy; decided at the first one."""
        return self._mirrors.get(index) is not None

    def layers(self, index: int | None = None) -> Sequence[DenseLayer]:
        """Returns the current layers, where `is_mirrored` was true once: workers go on as they began."""
        mirror = self._mirrors[index] or self._former[index]
        return mirror.layers()

    def parameters_changed(self) -> None:
        """Has the layers read again before the next answer, and now and then compared with the framework again.

        What they leave out may have no effect at first, as a batch normalisation that has seen nothing.
        """
        self.num_changes += 1
        if self.num_changes & (self.num_changes - 1) == 0:  # after 1, 2, 4, 8, ... changes: ever more seldom
            self._doubted.update(self._mirrors)
        for mirror in (*self._mirrors.values(), *self._former.values()):
            if mirror is not None:
                mirror.stale = True
