"""The update of a Keras agent as one compiled function, and when it has to be compiled anew."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from note_rl.errors import AgentContractError, say_once
from note_rl.learners.adjustable import of_the_agent
from note_rl.learners.base import temporary_attributes
from note_rl.learners.keras.custom_update import OwnUpdateStep
from note_rl.learners.keras.hyperparameter_override import Optimizers, in_a_trace
from note_rl.learners.keras.keras_internals import identity
from note_rl.learners.keras.modes import Modes
from note_rl.learners.keras.snapshot import ParameterSnapshot, value_of
from note_rl.learners.keras.step import GradientStep
from note_rl.learners.keras.tensor_packing import PackedFunction, PackedRows, Packing
from note_rl.learners.keras.trace_constants import Constants, NotTraceableError
from note_rl.learners.keras.variables import named_variables, optimizer_slots
from note_rl.learners.keras.xla import Compilation, is_on_cpu
from note_rl.learners.losses import batch_attributes
from note_rl.learners.step_way import NONE_TAKEN, StepWay
from note_rl.types import Array, BoolArray

MakeStep = Callable[[Optimizers, float | None], GradientStep | OwnUpdateStep]

_log = logging.getLogger(__name__)
_SYNC, _SCALARS = "(sync)", "(scalars)"  # among the columns, where they are packed
_ACTING = "(acting)"  # among the results
_MOST_RECOMPILED = 5  # in one training run, and one more after this many blocks again; XLA takes seconds each time
_BLOCKS_PER_COMPILED = 500


class CompiledUpdate:
    """A loop over minibatches that holds forward pass, gradients, clipping, optimizer step and target update.

    Hyperparameters enter as tensors, so changing them never traces again.

    Args:
        agent: Whose parameters learn.
        groups: Its parameters.
        make_step: Makes what is traced of one minibatch, from optimizers and `max_grad_norm`.
        modes: Of its networks.
        on_compile: Called when the way of compiling functions changes.

    Attributes:
        compilation: How functions are compiled.
        num_traces: How many traced functions came of it; a change of hyperparameters must not add to it.
        acting: Gives the variables whose new values are wanted after each block, to act by.
        acting_values: These, by the id of the variable, after the last block; where that does not know them, nothing.
        always_traced: Whether steps cannot be taken untraced.
        averages_over_replicas: Whether each replica sees a part of a minibatch only.
        strategy: Of tf.distribute, under which steps are taken; None: there is none.
    """

    always_traced = False
    averages_over_replicas = False
    strategy: Any = None

    def __init__(
        self,
        agent: Any,
        groups: Sequence[Sequence[Any]],
        make_step: MakeStep,
        modes: Modes,
        on_compile: Callable[[Compilation], None],
    ) -> None:
        self._agent = agent
        self._groups = groups
        self._make_step = make_step
        self._modes = modes
        self._on_compile = on_compile
        self._optimizers: Optimizers = []
        self._hyperparameters: Sequence[str] = ()
        self._step: Any = None
        self._traced: dict[tuple[Any, ...], Any] = {}  # by signature: choosing one ourselves is quicker
        self._prepared: list[Any] = []  # what the update was compiled for
        self._constants = Constants(agent)  # and what it has taken for constant
        self._num_recompiled = 0  # in this training run
        self._num_blocks = 0  # in this training run
        self.compilation = Compilation(False, True, type(agent))
        self.num_traces = 0
        self.acting: Callable[[], Sequence[Any]] = list
        self.acting_values: dict[int, Array] = {}

    def prepare(
        self, optimizers: Optimizers, max_grad_norm: float | None, hyperparameters: Sequence[str], jit: Any
    ) -> None:
        """Compiles anew if anything is not as it was; see `Learner.prepare`."""
        several = [optimizer for optimizer, _ in optimizers]
        prepared = [jit, max_grad_norm, *several, *hyperparameters]
        if prepared != self._prepared or self.compilation.untraced or self._constants.changed():
            self._prepared = prepared
            self._optimizers, self._hyperparameters = optimizers, hyperparameters
            self.compilation = Compilation(jit, is_on_cpu(self._groups[0][0]), type(self._agent))
            self._step = self._make_step(optimizers, max_grad_norm)
            self._compile()
        self._num_recompiled = self._num_blocks = 0

    def follow_changes(self) -> None:
        """Compiles anew where something has changed that was taken for constant; if that goes on, nothing is traced."""
        self._num_blocks += 1
        changed = [] if self.compilation.untraced else self._constants.changed()
        if not changed:
            return
        self._num_recompiled += 1
        if self._num_recompiled <= _MOST_RECOMPILED + self._num_blocks // _BLOCKS_PER_COMPILED:
            self._compile()
        else:
            self._go_on_untraced(
                f"reads {' and '.join(changed)}, which {'keep' if len(changed) > 1 else 'keeps'} changing",
                "numbers that change go into set(schedules={...}), or into a tf.Variable",
            )

    def _go_on_untraced(self, reason: str, remedy: str) -> None:
        """Takes steps as they are written from now on, until train() is called again (AgentContractError: cannot)."""
        kind = type(self._agent).__name__
        if self.always_traced:
            raise AgentContractError(f"{kind} {reason}, and under a strategy of tf.distribute all is traced: {remedy}")
        say_once(
            _log,
            f"{kind} {reason}: its gradient steps are taken untraced from now on, which is right and takes many times "
            f"as long; {remedy}",
        )
        self.compilation.go_on_untraced(f"{kind} {reason}")
        self._compile()

    def _compile(self) -> None:
        """Forgets what was traced; the next call traces again."""
        self._traced.clear()
        several, parameters = [one for one, _ in self._optimizers], [one for group in self._groups for one in group]
        self._constants = Constants(self._agent, several, self._hyperparameters, parameters)
        self._on_compile(self.compilation)

    def __call__(self, columns: Mapping[str, Array], sync: BoolArray, scalars: Mapping[str, float]) -> dict[str, Array]:
        """Takes the steps of an update block.

        Args:
            columns: K minibatches by name, [K, B, ...] each.
            sync: After which of them targets are updated, [K].
            scalars: Hyperparameters by name.

        Returns:
            Losses [K, G], whether the block had to be undone [], what was handed to the replay, [K, B] each, and what
            was reported [K, R], in the order of `reported_names`.
        """
        signature = (tuple((name, column.dtype.str, column.shape) for name, column in columns.items()), *scalars)
        numbers = np.fromiter(scalars.values(), np.float32, len(scalars))
        arrays = {**columns, _SYNC: sync.astype(np.float32), _SCALARS: numbers}
        if signature not in self._traced:  # traced apart from the first run, so that a refused agent is not trained
            if self.compilation.uses_xla:
                _log.info("compiling the update: some seconds, or less where this shape was compiled before")
            packing, rows = Packing(arrays), PackedRows()
            acting = [variable for variable in self.acting() if variable.dtype == tf.float32]
            loop = partial(self._packed_loop, packing, rows, list(scalars), acting)
            function = self._trace(loop, *packing.packed(arrays))
            self._traced[signature] = PackedFunction(function, packing, rows), acting
        function, acting = self._traced[signature]
        try:
            found: dict[str, Array] = function(arrays)
        except tf.errors.OpError as error:
            if not self.compilation.recovers(error):
                raise
            if not self.compilation.uses_xla:
                _log.warning("XLA cannot compile this agent's update, going on without: %s", str(error).splitlines()[0])
            self._compile()  # under other names: XLA remembers what it failed at
            return self(columns, sync, scalars)
        self.acting_values = {id(one): found.pop(f"{_ACTING}{index}") for index, one in enumerate(acting)}
        return found

    def minimise(self, loss: Callable[[], Any], optimizer: Any) -> Any:
        """Takes one step of an optimizer along the gradient of a loss; see `Learner.minimise`."""
        return self._step.minimise(loss, optimizer)

    def _trace(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self.compilation.untraced:
            return partial(self._untraced, function)
        try:
            with self._modes.learning(), self._raising_refusals():
                traced = self._constants.traced(lambda: self.compilation.traced(function, *arguments))
        except NotTraceableError as error:
            self._go_on_untraced(
                str(error), "a count can be a tf.Variable that assign_add() changes, and random numbers normal_inputs"
            )
            return partial(self._untraced, function)
        self.num_traces += 1
        return traced

    def _untraced(self, function: Callable[..., Any], *arguments: Any) -> Any:
        with self._modes.learning(), self._raising_refusals():
            return function(*arguments)

    @contextmanager
    def _raising_refusals(self) -> Iterator[None]:
        """Raises what the step refuses, instead of what TensorFlow wraps it into."""
        try:
            yield
        finally:
            refusal, self._step.refusal = self._step.refusal, None
            if refusal is not None:
                raise refusal from None

    def _packed_loop(
        self, packing: Packing, rows: PackedRows, names: Sequence[str], acting: Sequence[Any], *tensors: Any
    ) -> Any:
        """The loop, of tensors as `packing` has them, which returns one as `rows` has it.

        With it come the variables that are acted by: to read them apart takes as long as a small gradient step.
        """
        columns = packing.unpacked(tensors)
        sync, numbers = columns.pop(_SYNC) > 0.5, columns.pop(_SCALARS)
        found = self._loop(columns, sync, {name: numbers[i] for i, name in enumerate(names)})
        learned = {f"{_ACTING}{index}": value_of(variable) for index, variable in enumerate(acting)}
        return rows.packed({**found, **learned})

    def _loop(self, columns: dict[str, Any], sync: Any, scalars: dict[str, Any]) -> dict[str, Any]:
        num_gradient_steps, batch_size = columns["reward"].shape[:2]
        handed_over: set[str] = set()  # known once the body is traced; XLA drops the columns that nobody fills
        learning = [parameter for _, parameters in self._optimizers for parameter in parameters]
        snapshot = ParameterSnapshot(self._variables(), learning)

        def body(k: Any, rows: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            batch = {name: column[k] for name, column in columns.items()}
            read = {**{name: scalars[name] for name in of_the_agent(scalars)}, **batch_attributes(batch)}
            with in_a_trace(self._optimizers, scalars), temporary_attributes(self._agent, read):
                step_rows = self._step(batch, sync[k])
                tf.cond(sync[k], self._sync_targets, lambda: 0)
            handed_over.update(step_rows)
            filled = {name: tf.tensor_scatter_nd_update(rows[name], [[k]], [row]) for name, row in step_rows.items()}
            return k + 1, {**rows, **filled}

        empty = {name: tf.zeros((num_gradient_steps, batch_size)) for name in ("td_error", "ratio")}
        empty["loss"] = tf.zeros((num_gradient_steps, self._step.num_losses))
        empty["reported"] = tf.zeros((num_gradient_steps, self._step.reports.width))
        rows = tf.while_loop(lambda k, _: k < num_gradient_steps, body, (0, empty))[1]
        return {"diverged": snapshot.unless_sound(rows["loss"]), **{name: rows[name] for name in sorted(handed_over)}}

    @property
    def way(self) -> StepWay:
        """The way in which steps are taken now."""
        return self.compilation.way if self._traced else NONE_TAKEN

    @property
    def reported_names(self) -> list[str]:
        """Of the numbers that each step reports."""
        names: list[str] = self._step.reports.names
        return names

    def _variables(self) -> list[Any]:
        """Returns the variables that an update block may change, each once."""
        slots = [variable for optimizer, _ in self._optimizers for _, variable in optimizer_slots(optimizer)]
        variables = [*(variable for _, variable in named_variables(self._agent)), *slots]
        return list({identity(variable): variable for variable in variables}.values())

    def _sync_targets(self) -> int:
        try:
            self._agent.update_param()
        except NotImplementedError as error:  # TensorFlow's word for numbers that are asked for while tracing
            name = type(self._agent).__name__
            self._step.refusal = AgentContractError(
                f"{name}.update_param() is part of the compiled update and cannot read numbers, as get_weights() and "
                "numpy() do: write `for target, weight in zip(self.target.weights, self.network.weights): "
                f"target.assign(weight)` with your networks' names ({error})"
            )
            raise
        return 0
