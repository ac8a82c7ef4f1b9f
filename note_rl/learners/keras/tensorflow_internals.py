"""The names of TensorFlow that are no part of its interface, all of them in this file; written for TensorFlow 2.21.

Each says what it does and why there is no public way. `tests/note_rl/learners/test_tensorflow_internals.py` holds one
test for each name, which says what breaks without it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from itertools import repeat, starmap
from typing import Any, Final

import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.autograph.core import ag_ctx
from tensorflow.python.autograph.impl import api
from tensorflow.python.eager import context, execute
from tensorflow.python.framework import op_def_registry
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

READS_SEVERAL: Final = op_def_registry.get("_ReadVariablesOp") is not None
"""Whether variables can be read together; a TensorFlow without that operation reads them one by one."""


def read_variables(variables: Sequence[Any]) -> Sequence[Any]:
    """The values of variables of one device, in one operation; public ones read one variable each."""
    types = tuple(variable.dtype.as_datatype_enum for variable in variables)
    handles = [variable.handle for variable in variables]
    attributes = ("N", len(handles), "dtypes", types)
    tensors: Sequence[Any] = execute.execute(b"_ReadVariablesOp", len(handles), handles, attributes, context.context())
    return tensors


def quick_call(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns what calls a concrete function of tensors that gives one tensor, and does nothing else.

    What TensorFlow does around it, for structured arguments, gradients and calls within other graphs, takes longer than
    the call. Where any of that is needed, of other functions, and by a TensorFlow that has other private names, the
    function itself is called.
    """
    known: Any = function
    if not isinstance(known, tf.types.experimental.ConcreteFunction) or len(known.outputs) != 1:
        return function
    private = hasattr(known, "_captured_inputs") and hasattr(known, "_inference_function")
    if not private or not hasattr(context.context(), "call_function"):
        return function
    if any(map(callable, known._captured_inputs)):  # some are looked up in each call
        return function
    captured, name = list(known.captured_inputs), known._inference_function.name

    def call(*tensors: Any) -> Any:
        now = context.context()
        if not now.executing_eagerly():
            return function(*tensors)
        return now.call_function(name, [*tensors, *captured], 1)[0]

    return call


def frozen(function: Any) -> Any:
    """A concrete function with its variables as constants. The public converter writes files of its own formats."""
    return convert_variables_to_constants_v2(function)


def left_unread(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function as one whose source AutoGraph does not read, though code that it calls may be read again.

    The public `do_not_convert` holds for all that is called within, too.
    """

    def called(*arguments: Any) -> Any:
        return function(*arguments)

    called.autograph_info__ = {}  # type: ignore[attr-defined]  # by which AutoGraph knows what is finished
    return called


def call_read(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """Calls a function by AutoGraph, if that is at work where this is called; for what `left_unread` calls.

    The public `to_graph` has no other way for code that cannot be read, and the errors of `tf.function` come wrapped.
    """
    now = ag_ctx.control_status_ctx()
    if now.status is ag_ctx.Status.ENABLED:
        return api.converted_call(function, tuple(arguments), None, options=now.options.call_options())
    return function(*arguments)


def next_number() -> int:
    """The number that TensorFlow puts behind the next name of a function; it counts over the whole process."""
    return int(pywrap_tfe.TFE_Py_UID())


def skip_numbers(count: int) -> None:
    """Takes `count` of these numbers in one call of C: a profiler would note each call in Python."""
    deque(starmap(pywrap_tfe.TFE_Py_UID, repeat((), count)), maxlen=0)


def abort_collectives(how: str) -> None:
    """Ends exchanges that wait for a lost process, which TensorFlow alone would find out after minutes."""
    context.context().abort_collective_ops(tf.errors.UNAVAILABLE, how)


def cluster_of(strategy: Any) -> dict[str, list[str]]:
    """The addresses of a ParameterServerStrategy by kind; its public resolver is None."""
    cluster: dict[str, list[str]] = strategy._cluster_resolver.cluster_spec().as_dict()
    return cluster
