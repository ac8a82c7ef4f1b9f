"""The variables that Keras agents and optimizers hold, under stable names."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Generic, TypeVar

import keras
import numpy as np
import tensorflow as tf

from note_rl.errors import AgentContractError
from note_rl.learners.base import WAITING_STEPS
from note_rl.learners.keras.keras_internals import held_by, identity, rate_of
from note_rl.learners.keras.tensorflow_internals import READS_SEVERAL, read_variables
from note_rl.learners.keras.trace_constants import Everything
from note_rl.types import Array

Result = TypeVar("Result")


def named_variables(agent: Any) -> Iterator[tuple[str, Any]]:
    """Yields the variables of everything the agent holds, under the names of its attributes."""
    for name, value in vars(agent).items():
        if name != "param":
            yield from _named_variables_in(name, value)


def arrays_of(agent: Any) -> dict[str, Array]:
    """Returns the values of `named_variables`, copied."""
    return {name: as_array(variable) for name, variable in named_variables(agent)}


def _named_variables_in(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, keras.Layer):
        for index, variable in enumerate(value.variables):
            yield f"{name}/{index}", variable
    elif isinstance(value, (tf.Variable, keras.Variable)):
        yield name, value
    elif isinstance(value, keras.random.SeedGenerator):
        yield f"{name}/state", value.state
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _named_variables_in(f"{name}/{key}", item)
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _named_variables_in(f"{name}/{index}", item)


def optimizer_slots(optimizer: Any) -> Iterator[tuple[str, Any]]:
    """Yields the optimizer's variables but for the learning rate, which stays that of the optimizer at hand."""
    for index, variable in enumerate(optimizer.variables):
        if variable is not rate_of(optimizer):
            yield WAITING_STEPS if variable.name == WAITING_STEPS else str(index), variable


def not_frozen(variables: Sequence[Any]) -> list[Any]:
    """Returns those that learn at this moment: layers can be frozen by `trainable = False` while training goes on."""
    return [variable for variable in variables if variable.trainable]


def as_vector(gradients: Sequence[Any], variables: Sequence[Any]) -> Any:
    """Returns all numbers in a row; 0 where there is no gradient."""
    complete = [
        tf.zeros(variable.shape) if gradient is None else tf.convert_to_tensor(gradient)
        for gradient, variable in zip(gradients, variables, strict=True)
    ]
    return tf.concat([tf.reshape(gradient, (-1,)) for gradient in complete], 0)


def constants(columns: Mapping[str, Array]) -> dict[str, Any]:
    """Returns arrays as tensors, under the same names."""
    return {name: tf.constant(values) for name, values in columns.items()}


def as_array(variable: Any) -> Array:
    """Returns a copy of the values of a variable or tensor: by one operation, where `numpy` takes three."""
    reading = _reading.get()
    if reading is not None and (known := reading.known(variable)) is not None:
        return known
    held = variable.value if isinstance(variable, keras.Variable) else variable
    if not isinstance(held, tf.Variable) or isinstance(held, tf.distribute.DistributedValues):
        return np.asarray(held.numpy())
    if reading is not None and "CPU" in held.device:
        return reading.values_of(held)
    return _read_together([held])[0]


class ReadTogether(Generic[Result]):
    """Calls a function that reads variables by `as_array`, and has those read at once that it read the last time.

    Networks that act after every gradient step are read as often, which was most of what acting cost.

    Args:
        function: Reads what it reads anew in each call.
        at_hand: Gives values that are known already, by the id of the variable; those used are taken out.

    Attributes:
        variables: Those that were read the last time.
    """

    def __init__(self, function: Callable[[], Result], at_hand: Callable[[], dict[int, Array]] = dict) -> None:
        self._function = function
        self._at_hand = at_hand
        self.variables: list[Any] = []
        self._values: dict[int, Array] = {}
        self._read: dict[int, Any] = {}

    def __call__(self) -> Result:
        """Returns what the function gives."""
        known = self._at_hand()
        self._values = {id(one): known.pop(id(one)) for one in self.variables if id(one) in known}
        missing = [one for one in self.variables if id(one) not in self._values]
        if missing:
            self._values |= zip(map(id, missing), _read_together(missing), strict=True)
        self._read = {}
        token = _reading.set(self)
        try:
            return self._function()
        finally:
            _reading.reset(token)
            self.variables, self._values = list(self._read.values()), {}

    def known(self, variable: Any) -> Array | None:
        """Returns values that were read together with others, once: each who asks gets a copy of his own."""
        held = held_by(variable)
        values = self._values.pop(id(held), None)
        if values is not None:
            self._read[id(held)] = held
        return values

    def values_of(self, variable: Any) -> Array:
        """Returns a copy of the values of a variable of TensorFlow in the memory of the CPU, read by itself."""
        self._read[id(variable)] = variable
        return _read_together([variable])[0]


def _read_together(variables: Sequence[Any]) -> list[Array]:
    """Returns copies of the values of variables, by one operation per device where TensorFlow has it."""
    if not READS_SEVERAL:
        return [np.asarray(variable.numpy()) for variable in variables]
    devices = [variable.device for variable in variables]
    if len(set(devices)) > 1:  # parameter servers
        found: dict[int, Any] = {}
        for device in set(devices):
            there = [index for index, other in enumerate(devices) if other == device]
            found |= dict(zip(there, _read_together([variables[index] for index in there]), strict=True))
        return [found[index] for index in range(len(variables))]
    return [tensor.numpy() for tensor in read_variables(variables)]


_reading: ContextVar[ReadTogether[Any] | None] = ContextVar("reading", default=None)


class VariablesOf:
    """The variables of an agent; see `note_rl.learners.target_networks.Weights`."""

    def __init__(self, agent: Any, groups: Sequence[Sequence[Any]]) -> None:
        self._agent = agent
        self._learning = [variable for group in groups for variable in group]

    def learning(self) -> list[str]:
        """Returns the names of those that learn."""
        ours = {identity(variable) for variable in self._learning}
        return [name for name, variable in named_variables(self._agent) if identity(variable) in ours]

    def read(self) -> dict[str, Array]:
        """Returns all of them, by name."""
        return arrays_of(self._agent)

    def move(self) -> None:
        """Changes what learns."""
        for variable in self._learning:
            variable.assign(variable + 1.0)


@contextmanager
def undisturbed(agent: Any, among: Sequence[Any] | None = None) -> Iterator[list[Any]]:
    """Puts back attributes with what they hold, and variables, random states among them, as they were before the block.

    Args:
        agent: Whose.
        among: The only variables that may change; None: all may.

    Yields:
        A list that holds, after the block, the variables that had changed.
    """
    everything = Everything(agent)
    among = [variable for _, variable in named_variables(agent)] if among is None else among
    before = [(variable, as_array(variable)) for variable in among]
    changed: list[Any] = []
    try:
        yield changed
    finally:
        everything.put_back()
        for variable, values in before:
            if not np.array_equal(as_array(variable), values):
                variable.assign(values)
                changed.append(variable)


def check_made_within(strategy: Any, variables: Sequence[Any], what: str) -> None:
    """Refuses variables that the strategy does not hold on each of its devices (AgentContractError)."""
    held = [getattr(variable, "value", variable) for variable in variables]
    if not all(strategy.extended.variable_created_in_scope(variable) for variable in held):
        raise AgentContractError(f"{what} was made outside of the strategy: make it within `with strategy.scope():`")
