"""Calling the methods of a Keras agent by which it acts and judges."""

import logging
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from note_rl.errors import AgentContractError, say_once
from note_rl.learners.keras.modes import Modes
from note_rl.learners.keras.trace_constants import Constants, NotTraceableError
from note_rl.learners.keras.xla import needs_autograph
from note_rl.types import Array, FloatArray

_log = logging.getLogger(__name__)

_MOST_TRACES = 5  # of one method; if its constants change on, it is called as it is, which is right but slower


class TracedMethods:
    """Methods of an agent as concrete functions, which are traced again when what they took for constant changes."""

    def __init__(self, agent: Any, modes: Modes) -> None:
        self._agent = agent
        self._modes = modes
        self._functions: dict[tuple[Any, ...], tuple[Any, Constants]] = {}
        self._num_traces: dict[tuple[Any, ...], int] = {}

    def __call__(self, method: str, arrays: Sequence[Array], *further: Any) -> FloatArray:
        """Returns what the method answers to arrays of any length N of these shapes, and further constants.

        Raises:
            AgentContractError: It is no tensor.
        """
        key = (method, *((array.shape[1:], array.dtype.str) for array in arrays), *further)
        if key not in self._functions or self._functions[key][1].changed():
            self._trace(key, method, arrays, further)
        output = self._functions[key][0](*map(tf.constant, arrays))
        if not tf.is_tensor(output):
            raise AgentContractError(f"{method}() must return a tensor, it returned {type(output).__name__}")
        answers: FloatArray = output.numpy()
        return answers

    def _trace(self, key: tuple[Any, ...], method: str, arrays: Sequence[Array], further: Sequence[Any]) -> None:
        def evaluate(*inputs: Any) -> Any:
            with self._modes.evaluating():
                return getattr(self._agent, method)(*inputs, *further)

        self._num_traces[key] = self._num_traces.get(key, 0) + 1
        self._functions[key] = evaluate, Constants(self._agent)
        if self._num_traces[key] > _MOST_TRACES:
            return
        signature = [tf.TensorSpec((None, *array.shape[1:]), array.dtype) for array in arrays]
        autograph = needs_autograph(type(self._agent))

        def traced() -> Any:
            return tf.function(evaluate, input_signature=signature, autograph=autograph).get_concrete_function()

        constants = Constants(self._agent)
        try:
            self._functions[key] = constants.traced(traced), constants
        except NotTraceableError as error:
            kind = type(self._agent).__name__
            say_once(_log, f"{kind}.{method}() {error}: it is called untraced, which is right and takes longer")
