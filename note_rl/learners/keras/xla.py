"""Whether XLA compiles the functions of an agent written in Keras."""

import logging
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from note_rl.errors import say_once
from note_rl.errors.wording import Sentence
from note_rl.learners.keras.tensorflow_internals import left_unread, next_number, skip_numbers
from note_rl.learners.step_way import StepWay, Way
from note_rl.settings.switch_names import JIT_COMPILE
from note_rl.support.xla_cache import clear_xla_cache

_log = logging.getLogger(__name__)

# On CPUs, XLA turns these into plain loops. Measured on one core against TensorFlow's own kernels, per gradient step:
# convolutions take 3 times as long on pictures of 7 pixels a side, 5 times at 36 and 27 times at 84; in one dimension
# 12, in three 6, depthwise 10 times; gradients of maximum pooling 3 times. Dense, recurrent and attention layers,
# normalisation, dropout and average pooling are 1 to 4 times faster with it.
_SLOW_ON_CPU = ("Conv2D", "Conv3D", "DepthwiseConv2d", "MaxPoolGrad", "MaxPool3DGrad")
_SLOW_ON_CPU_EXACTLY = ("Conv",)
_NOT_COMPILABLE = (tf.errors.InvalidArgumentError, tf.errors.UnimplementedError, tf.errors.NotFoundError)
_PLAIN = ("abc", "builtins", "typing")
_ROUND = 2**16  # names that a trace makes at most


class Compilation:
    """Traces functions, for XLA where that was asked for or pays.

    It goes by the operations that were traced, wherever they come from: a layer of a model within a model, or a plain
    function. Nothing is measured, as the same run has to give the same results, and compiled code rounds otherwise.

    Args:
        asked: True, False, or "auto": where it pays.
        on_cpu: Whether the parameters are in the memory of the CPU.
        owner: The class whose functions they are.

    Attributes:
        uses_xla: Whether functions are traced for XLA, as far as is known.
        untraced: Whether functions are called as they are, as tracing them would change what they do.
    """

    untraced = False

    def __init__(self, asked: bool | str, on_cpu: bool, owner: type) -> None:
        self.uses_xla = bool(asked)
        self._reason = "" if asked else str(Sentence("{}, or a strategy of tf.distribute", JIT_COMPILE.at(False)))
        self._choosing = asked == "auto" and on_cpu
        self._owner = owner

    def traced(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Traces the function as a concrete one for arguments like these; it is compiled when it is first called."""
        traced = self._traced(function, *arguments)
        slow = slow_operations(traced) if self.uses_xla and self._choosing else []
        if not slow:
            return traced
        self.uses_xla = False
        anyway = Sentence("{} asks for it all the same", JIT_COMPILE.at(True))
        self._reason = f"XLA is slower at {', '.join(slow)} on a CPU; {anyway}"
        say_once(
            _log,
            "{}: {} is trained without XLA, which is several times slower than TensorFlow itself at {} on a CPU; {}",
            *(JIT_COMPILE.at("auto"), self._owner.__name__, ", ".join(slow), anyway),
        )
        return self._traced(function, *arguments)

    def _traced(self, function: Callable[..., Any], *arguments: Any) -> Any:
        inner = left_unread(function)  # what is written here holds no `if` over tensors, and is long

        def named(*tensors: Any) -> Any:
            if self.uses_xla:
                _begin_names_anew()
            return inner(*tensors)

        autograph = needs_autograph(self._owner)
        return tf.function(named, jit_compile=self.uses_xla, autograph=autograph).get_concrete_function(*arguments)

    def recovers(self, error: Exception) -> bool:
        """Whether to trace again after a compiled function failed, and what was given up for it.

        Where it failed at a program that was kept, what is kept; where XLA cannot compile it, XLA.
        """
        if not self.uses_xla:
            return False
        if is_not_kept(error) and clear_xla_cache():
            return True
        self.uses_xla = not isinstance(error, _NOT_COMPILABLE)
        self._reason = "" if self.uses_xla else f"XLA cannot compile it: {str(error).splitlines()[0]}"
        return not self.uses_xla

    def go_on_untraced(self, reason: str) -> None:
        """Has functions called as they are from now on."""
        self.untraced, self._reason = True, reason

    @property
    def way(self) -> StepWay:
        """The way in which gradient steps are taken."""
        return StepWay(Way.EAGER if self.untraced else Way.WHOLE if self.uses_xla else Way.TRACED, self._reason)


@tf.autograph.experimental.do_not_convert  # type: ignore[untyped-decorator]
def _begin_names_anew() -> None:
    """Brings the counter of which TensorFlow makes names to a round number.

    Equal programs then have equal names, whatever the process did before, and XLA finds what it has compiled of them
    (`note_rl.support.xla_cache`).
    """
    skip_numbers(-next_number() % _ROUND)


def needs_autograph(owner: type) -> bool:
    """Whether the methods of a class may hold an `if` or a `for` over tensors, which AutoGraph turns into operations.

    Nothing that is written here does, and reading its source takes AutoGraph some three seconds in every process. So it
    reads the agent's methods alone, see `left_unread`, and of built-in agents nothing.
    """
    return not all(base.__module__.partition(".")[0] in ("note_rl", *_PLAIN) for base in owner.__mro__)


def slow_operations(function: Any) -> list[str]:
    """Returns the kinds of operations in a concrete function, those it calls included, that XLA does slowly on CPUs."""
    definition = function.graph.as_graph_def()
    nodes = [*definition.node, *(node for function in definition.library.function for node in function.node_def)]
    return sorted({node.op for node in nodes if node.op in _SLOW_ON_CPU_EXACTLY or node.op.startswith(_SLOW_ON_CPU)})


def is_not_kept(error: Exception) -> bool:
    """Whether this may be an error of files: of a compiled program that cannot be read again, or not be kept."""
    of_reading = (tf.errors.OutOfRangeError, tf.errors.DataLossError)
    of_the_disk = (tf.errors.NotFoundError, tf.errors.ResourceExhaustedError)  # which names no file if memory is full
    return isinstance(error, of_reading) or (isinstance(error, of_the_disk) and ".pb" in str(error))


def is_on_cpu(variable: Any) -> bool:
    """Whether a variable of Keras or TensorFlow is in the memory of the CPU."""
    held = variable.value if isinstance(variable, keras.Variable) else variable
    return "CPU" in str(held.device)
