"""Decides when gradient steps of the PyTorch learner are replayed from a recording, and sees to it that they may be.

A recording freezes what Python did: branches, numbers, the tensors it read. So what is read is noted, looked at before
each update block, and recorded anew where it has changed; what changes unseen is not recorded (see `guards`). Each
recording is compared with the eager way before it is used. Unless `jit_compile=True` asks for it, only agents are
recorded whose classes declare it, made of layers that are known here.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from note_rl.errors import say_once
from note_rl.learners.adjustable import of_the_agent
from note_rl.learners.captured_values import is_same
from note_rl.learners.pytorch.optimizer_step import Stepper
from note_rl.learners.pytorch.step_graph.builder import Builder
from note_rl.learners.pytorch.step_graph.compiler import NO_COMPILER, why_not_compiled
from note_rl.learners.pytorch.step_graph.eager import EagerWay, Example
from note_rl.learners.pytorch.step_graph.guards import why_not_recorded
from note_rl.learners.pytorch.step_graph.program import Includes, Trace
from note_rl.learners.pytorch.step_graph.replay_failures import StepError, in_short
from note_rl.learners.pytorch.step_result import Evaluated
from note_rl.learners.pytorch.tensors import named_tensors
from note_rl.learners.step_way import NONE_TAKEN, StepWay, Way
from note_rl.settings.switch_names import JIT_COMPILE

_log = logging.getLogger(__name__)

_WORTH_RECORDING = 2_000  # gradient steps to come: recording takes 0.1 to 0.5 s and saves 0.1 to 0.5 ms per step
_MAX_TRACES = 20
_NOT_TRACEABLE = (RuntimeError, TypeError, ValueError, AttributeError, LookupError, AssertionError)
_TOO_FEW = f"fewer than {_WORTH_RECORDING:,} gradient steps were to come, and a recording takes longer than it saves"
_ORDINARY = (0, 0)

Replay = Callable[[Sequence[Tensor], bool, bool], tuple[Evaluated, Includes]]
"""Of one minibatch, in an update block: columns, whether all groups learn, `quick` -> what it gave; see `Program`."""


def scalars_on(device: torch.device, values: Iterable[float]) -> list[Tensor]:
    """Hyperparameters as inputs of recorded steps, [] each: a graph would freeze one that is on the CPU of a GPU."""
    return [torch.tensor(value, dtype=torch.float64, device=device) for value in values]


@dataclass
class Traces:
    """The recorded gradient steps of one agent.

    Args:
        eager: The way in which its losses are evaluated otherwise.

    Attributes:
        num_traces: How often a step was recorded.
        given_up: Whether all steps are taken eagerly from now on.
    """

    eager: EagerWay
    num_traces: int = 0  # a change of hyperparameters must not add to it
    given_up: bool = False
    why_eager: str = NONE_TAKEN.reason  # as long as nothing is recorded
    _not_recorded: str = ""  # why steps could not be recorded when enough were to come
    _jit: Any = False
    _known: dict[tuple[Any, ...], Trace] = field(default_factory=dict)
    _prepared: list[Any] = field(default_factory=list)
    _num_since: int = 0  # traces since then
    _expected: float = 0.0
    _resumed: tuple[int, int] = _ORDINARY  # stages that an earlier process had reached

    def __post_init__(self) -> None:
        self._builder = Builder(self.eager)

    def prepare(
        self,
        jit: Any,
        matmul: str,
        hyperparameters: Sequence[str],
        further: Sequence[Any],
        steppers: Sequence[Stepper],
    ) -> None:
        """Forgets what was recorded, if anything is not as it was.

        Args:
            jit: See `Learner.prepare`.
            matmul: Who takes large products of matrices; see `products`.
            hyperparameters: Their names.
            further: What recordings depend on besides the agent: optimizers, clipping.
            steppers: The optimizers whose steps may become a part of compiled code; none: they are not to.
        """
        self._builder.steppers, self._builder.matmul = steppers, matmul
        self._jit, self._not_recorded = jit, ""
        names = tuple(of_the_agent(hyperparameters))
        self.eager.names = names
        prepared = [self._jit, matmul, *names, *further]
        if len(prepared) != len(self._prepared) or not all(map(is_same, prepared, self._prepared)):
            self._known.clear()
            self.eager.guards = None
            self._num_since = 0
            self._resumed = _ORDINARY
            self._prepared = prepared

    @property
    def stages(self) -> tuple[int, int]:
        """Returns how steps are taken in which not all groups learn, and those in which all do.

        0 the eager way, 1 from a recording, 2 compiled, 3 with the target update.
        """
        reached = list(self._resumed)
        for (_, due), trace in self._known.items():
            reached[due] = max(reached[due], trace.program.stage)
        return reached[0], reached[1]

    @property
    def refusals(self) -> tuple[str, str]:
        """See `Staged.refusals`."""
        return self._builder.refusals

    def resume(self, stages: tuple[int, int], refusals: tuple[str, str]) -> None:
        """Goes on from the stages that an earlier process had reached, without what failed there."""
        self._resumed, self._builder.refusals = stages, refusals

    def expect(self, num_gradient_steps: float) -> None:
        """Takes the expected number of remaining gradient steps."""
        self._expected = num_gradient_steps

    def of(
        self,
        columns: Mapping[str, Sequence[Tensor]],
        due: Sequence[bool],
        sync: Sequence[bool],
        hyperparameters: Mapping[str, float],
    ) -> Replay | None:
        """Returns what stands in for evaluating these minibatches, or None: they are evaluated eagerly.

        Args:
            columns: K minibatches by name, [B, ...] each.
            due: In which of them all groups learn.
            sync: After which of them targets are updated.
            hyperparameters: Values by name.
        """
        if self._are_eager(columns):
            return None
        first = {name: values[0] for name, values in columns.items()}
        scalars = scalars_on(first["reward"].device, [hyperparameters[name] for name in self.eager.names])
        shape = tuple((name, values.shape, values.stride(), values.dtype) for name, values in first.items())
        try:
            stay = {all_learn for all_learn, synced in zip(due, sync, strict=True) if not synced}
            traces = {one: self._trace(shape, Example(first, one, scalars), one in stay) for one in set(due)}
        except _NOT_TRACEABLE as error:
            self._give_up(f"it cannot be recorded: {in_short(error)}")
            return None

        def replayed(batch: Sequence[Tensor], due: bool, quick: bool) -> tuple[Evaluated, Includes]:
            program = traces[due].program
            return program([*batch, *scalars], quick), program.includes

        return replayed

    def _are_eager(self, columns: Iterable[str]) -> bool:
        """Whether steps are neither recorded nor repeated from a recording; notes why."""
        if self.given_up:
            return True
        begun = bool(self._known) or any(self._resumed)
        if not self._jit:
            self.why_eager = str(JIT_COMPILE.at(False))
        elif self._jit is not True and not begun and self._expected < _WORTH_RECORDING:
            self.why_eager = self._not_recorded or _TOO_FEW  # at the end of a run, too few are always to come
        else:
            return not self._follows(columns)
        return True

    @property
    def way(self) -> StepWay:
        """The way in which steps are taken in which all groups learn."""
        ways = [trace.way for (_, due), trace in self._known.items() if due]
        return ways[-1] if ways else StepWay(Way.EAGER, self.why_eager)

    def graphs(self) -> list[str]:
        """Returns the kernel calls of each kind of recorded step, as code."""
        names, texts = {id(tensor): name for name, tensor in named_tensors(self.eager.agent)}, []
        for (columns, due), trace in self._known.items():
            adams = [f"the numbers of Adam {index}" for index, _ in enumerate(trace.program.includes.optimizers)]
            inputs = [*(f"{name} {list(shape)}" for name, shape, *_ in columns), *self.eager.names, *adams]
            calls = trace.program.recording.text(names, inputs)
            texts.append(f"# {trace.way}; {'all groups learn' if due else 'some groups wait'}\n{calls}")
        return texts

    def _follows(self, columns: Iterable[str]) -> bool:
        """Forgets what was recorded if something is no longer as it was; returns whether steps may be recorded."""
        if self.up_to_date():
            return True
        if self.eager.guards is not None:  # something has changed since then
            self._resumed = _ORDINARY
        self._known.clear()
        self.eager.guards = None
        if self._jit == "auto" and (why := why_not_recorded(self.eager.agent)) is not None:
            self.why_eager = self._not_recorded = why.reason
            said = "{}: its gradient steps are taken eagerly; {} they are recorded and take about half the time"
            say_once(_log, said, why.reason, why.remedy)
            return False
        self.eager.watch(columns)
        return True

    def up_to_date(self) -> bool:
        """Whether all that recordings depend on is as it was when they were made."""
        return self.eager.guards is not None and self.eager.guards.is_unchanged()

    def _trace(self, shape: Any, example: Example, targets_stay: bool) -> Trace:
        trace = self._known.get((shape, example.due))
        if trace is None:
            if self._num_since >= _MAX_TRACES:
                raise ValueError(f"it was recorded {_MAX_TRACES} times, and yet something has changed again")
            self.num_traces += 1
            self._num_since += 1
            trace = self._known[shape, example.due] = Trace(self._builder.replayed(example))
            self._builder.capture(trace, example)
        trace.targets_stay = trace.targets_stay or targets_stay
        resumed = self._resumed[example.due]
        if self._jit is True or resumed > 1 or trace.program.is_compiled or self._is_to_be_compiled(trace, example):
            # Where an earlier process had compiled steps, targets are updated as there. What update_param() does may
            # depend on numbers that are adapted, which are no inputs to it.
            may_move = not trace.targets_stay and not self.eager.names and resumed != 2
            self._builder.compile(trace, example, may_move)
        return trace

    def _is_to_be_compiled(self, trace: Trace, example: Example) -> bool:
        if trace.program.is_captured:
            return False
        reason = why_not_compiled(trace.replayed.recording, self._expected, example.batch["reward"].device)
        trace.why_not_quicker = trace.why_not_captured or reason
        if reason == NO_COMPILER:
            say_once(_log, f"the update is replayed rather than compiled: {reason}")
        return not reason

    def fail(self, error: StepError) -> None:
        """Notes that a recorded step could not be repeated."""
        self._give_up(f"a recorded step failed: {error}")

    def _give_up(self, reason: str) -> None:
        self.given_up, self.why_eager = True, reason
        self._known.clear()
        _log.warning("%s: this agent's update runs eagerly, %s", JIT_COMPILE, reason)
