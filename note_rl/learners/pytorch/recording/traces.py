"""Decides when gradient steps of the PyTorch learner are replayed from a recording, and sees to it that they may be.

A recording freezes what Python did: branches, numbers, the tensors it read. So it is made anew when a number, a tensor
or a network of the agent has been exchanged, it is compared with the ordinary way before it is used, and unless
`jit_compile=True` asks for it, only agents are recorded whose classes say that nothing else goes into their losses.
"""

import logging
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from note_rl.learners.adjustable import of_the_agent
from note_rl.learners.base import temporary_attributes
from note_rl.learners.pytorch.evaluated import Evaluated, flattened, form_of, unflattened
from note_rl.learners.pytorch.recording.compiled import compiled, pays
from note_rl.learners.pytorch.recording.graph import Recording, recorded
from note_rl.learners.pytorch.recording.guards import Guards, declares_to_be_traceable, is_same, parts_of
from note_rl.learners.pytorch.recording.playback import replay
from note_rl.learners.pytorch.recording.products import LEAST_WORK, MKL, ONEDNN
from note_rl.learners.pytorch.tensors import named_tensors
from note_rl.types import TRANSITION_COLUMNS

_log = logging.getLogger(__name__)

_WORTH_RECORDING = 2_000  # gradient steps to come: recording takes 0.1 to 0.5 s and saves 0.1 to 0.5 ms per step
_MAX_TRACES = 20
_NOT_TRACEABLE = (RuntimeError, TypeError, ValueError, AttributeError, LookupError)
_MISSING = object()
_ORDINARY = (0, 0)


# minibatch by name [B, ...], whether all groups learn -> what it gave; changes nothing but random numbers
Evaluate = Callable[[Mapping[str, Tensor], bool], Evaluated]


@dataclass
class _Trace:
    """A recorded step, made into a function of the columns of a minibatch and the hyperparameters."""

    run: Callable[..., list[Tensor]]
    form: Evaluated  # only where there is something matters, not what
    recording: Recording
    is_compiled: bool = False

    def __call__(self, values: Sequence[Tensor], quick: bool) -> Evaluated:
        with torch.inference_mode() if quick else torch.no_grad():
            return unflattened(self.run(*values), self.form)


@dataclass
class Traces:
    """The recorded gradient steps of one agent.

    Args:
        agent: Whose losses are recorded.
        evaluate: The ordinary way.
        undisturbed: Makes a context that puts back everything that evaluating might have changed.
        groups_at_sync: Groups that do not always learn; what only they need is left out of the other steps.
    """

    agent: Any
    evaluate: Evaluate
    undisturbed: Callable[[], AbstractContextManager[Any]]
    groups_at_sync: Sequence[int]
    num_traces: int = 0  # a change of hyperparameters must not add to it
    _jit: Any = False
    _matmul: str = MKL
    _names: tuple[str, ...] = ()  # of hyperparameters
    _known: dict[tuple[Any, ...], _Trace] = field(default_factory=dict)
    _watched: Guards | None = None
    _prepared: list[Any] = field(default_factory=list)
    _num_since: int = 0  # traces since then
    _expected: float = 0.0
    _resumed: tuple[int, int] = _ORDINARY  # stages that an earlier process had reached
    _given_up: bool = False
    _uncompilable: bool = False

    def prepare(self, jit: Any, matmul: str, hyperparameters: Sequence[str], further: Sequence[Any]) -> None:
        """Forgets what was recorded, if anything is not as it was.

        Args:
            jit: See `Learner.prepare`.
            matmul: Who takes large products of matrices; see `products`.
            hyperparameters: Their names.
            further: What recordings depend on besides the agent: optimizers, clipping.
        """
        self._jit = jit is True or (jit == "auto" and declares_to_be_traceable(self.agent) and "auto")
        self._matmul, self._names = matmul, tuple(of_the_agent(hyperparameters))
        prepared = [self._jit, self._matmul, self._names, *further, *parts_of(self.agent)]
        if len(prepared) != len(self._prepared) or not all(map(is_same, prepared, self._prepared)):
            self._known.clear()
            self._watched = None
            self._num_since = 0
            self._resumed = _ORDINARY
            self._prepared = prepared

    @property
    def stages(self) -> tuple[int, int]:
        """Returns how steps are taken by now in which not all groups learn, and those in which all do.

        0 the ordinary way, 1 from a recording, 2 compiled.
        """
        reached = list(self._resumed)
        for (_, due), trace in self._known.items():
            reached[due] = max(reached[due], 2 if trace.is_compiled else 1)
        return reached[0], reached[1]

    def resume(self, stages: tuple[int, int]) -> None:
        """Goes on from the stages that an earlier process had reached."""
        self._resumed = stages

    def expect(self, num_gradient_steps: float) -> None:
        """Hears that about so many gradient steps are still to come."""
        self._expected = num_gradient_steps

    def of(
        self, columns: Mapping[str, Sequence[Tensor]], due: Iterable[bool], hyperparameters: Mapping[str, float]
    ) -> "Replays | None":
        """Returns what stands in for evaluating these minibatches, or None: they are evaluated the ordinary way.

        Args:
            columns: K minibatches by name, [B, ...] each.
            due: In some of which all groups learn, or not.
            hyperparameters: Values by name.
        """
        begun = bool(self._known) or any(self._resumed)
        worthwhile = self._jit is True or begun or self._expected >= _WORTH_RECORDING
        if not self._jit or self._given_up or not worthwhile:
            return None
        if not self.up_to_date():
            if self._watched is not None:  # something has changed since then
                self._resumed = _ORDINARY
            self._known.clear()
            self._watched = Guards(self.agent, {*columns, *self._names})
        scalars = [torch.tensor(hyperparameters[name], dtype=torch.float64) for name in self._names]
        first = {name: values[0] for name, values in columns.items()}
        shape = tuple((name, values.shape, values.stride(), values.dtype) for name, values in first.items())
        try:
            traces = {all_learn: self._trace(shape, first, all_learn, scalars) for all_learn in set(due)}
        except _NOT_TRACEABLE as error:
            self._give_up(error)
            return None
        return Replays(traces, scalars)

    def up_to_date(self) -> bool:
        """Whether the agent's numbers, tensors and networks are those at the time of recording."""
        return self._watched is not None and self._watched.is_unchanged()

    def _trace(self, shape: Any, batch: Mapping[str, Tensor], due: bool, scalars: list[Tensor]) -> _Trace:
        trace = self._known.get((shape, due))
        if trace is None:
            if self._num_since >= _MAX_TRACES:
                raise ValueError(f"it was recorded {_MAX_TRACES} times, and yet something has changed again")
            self.num_traces += 1
            self._num_since += 1
            trace = self._known[shape, due] = self._recorded(batch, due, scalars)
        device = batch["reward"].device
        by_onednn = self._matmul == ONEDNN and trace.recording.largest_product >= LEAST_WORK  # compiled code takes MKL
        quicker = not by_onednn and pays(trace.recording, self._expected, device)
        wanted = self._jit is True or self._resumed[due] > 1 or quicker
        if wanted and not trace.is_compiled and not self._uncompilable:
            self._compile(trace, batch, due, scalars)
        return trace

    def _recorded(self, batch: Mapping[str, Tensor], due: bool, scalars: list[Tensor]) -> _Trace:
        """Returns a trace that was compared with the ordinary way.

        Raises:
            ValueError: It does not agree, or `__call__` leaves something behind on the agent.
            RuntimeError: What `__call__` does cannot be recorded.
        """
        forms: list[Evaluated] = []

        def step(*values: Tensor) -> list[Tensor]:
            numbers = dict(zip(self._names, values[len(batch) :], strict=True))
            with temporary_attributes(self.agent, numbers):
                forms.append(self._needed(dict(zip(batch, values, strict=False)), due))
            return flattened(forms[-1])

        inputs = [*batch.values(), *scalars]
        with self.undisturbed():
            self.evaluate(batch, True)  # once the ordinary way: what is made at the first call is there then
            before = dict(vars(self.agent))
            tensors = {id(tensor): tensor for _, tensor in named_tensors(self.agent)}
            recording = recorded(step, list(tensors.values()), inputs)
            changed = [name for name, value in vars(self.agent).items() if before.get(name, _MISSING) is not value]
            if changed:
                raise ValueError(f"__call__ sets self.{changed[0]}, which a recording cannot do")
        with self.undisturbed():  # replaying tries the kernels, and random ones draw
            run = replay(recording, inputs, self._matmul)
        trace = _Trace(run, form_of(forms[-1]), recording)
        self._check(trace.run, batch, due, scalars, 1e-5)
        return trace

    def _needed(self, batch: Mapping[str, Tensor], due: bool) -> Evaluated:
        """Returns what the ordinary way gives, without the losses of groups that do not learn now."""
        evaluated = self.evaluate(batch, due)
        waiting = () if due or len(evaluated.losses) == 1 else self.groups_at_sync
        losses = [None if index in waiting else loss for index, loss in enumerate(evaluated.losses)]
        return evaluated._replace(losses=losses)

    def _compile(self, trace: _Trace, batch: Mapping[str, Tensor], due: bool, scalars: list[Tensor]) -> None:
        """Has the trace run compiled code, if that can be had; else says once why not and goes on replaying."""
        try:
            with self.undisturbed():
                run = compiled(trace.recording, [*batch.values(), *scalars])
            self._check(run, batch, due, scalars, 1e-3)
        except Exception as error:  # noqa: BLE001 - a compiler and a disk fail in all kinds of ways; replaying does not
            self._uncompilable = True
            _log.warning("the update cannot be compiled, it is replayed instead: %s", _in_short(error))
        else:
            trace.run, trace.is_compiled = run, True

    def _check(
        self,
        run: Callable[..., list[Tensor]],
        batch: Mapping[str, Tensor],
        due: bool,
        scalars: list[Tensor],
        rtol: float,
    ) -> None:
        """Compares with the ordinary way, on another minibatch than the recorded one.

        What is reported counts for nothing: it is only looked at, and may be all rounding, as differences of nearly
        equal numbers are.

        Raises:
            ValueError: They disagree.
        """
        other = _another(batch)
        with self.undisturbed():
            needed = self._needed(other, due)
        with self.undisturbed(), torch.no_grad():
            replayed = [tensor.clone() for tensor in run(*other.values(), *scalars)]
        found = unflattened(replayed, form_of(needed))
        pairs = zip(flattened(found._replace(reported={})), flattened(needed._replace(reported={})), strict=True)
        for values, ordinary in pairs:
            scale = float(ordinary.detach().abs().nan_to_num(0.0, 0.0, 0.0).max()) if ordinary.numel() else 0.0
            if not torch.allclose(values, ordinary, rtol=rtol, atol=rtol * max(scale, 1e-6), equal_nan=True):
                raise ValueError("the recorded step gives other numbers than the loss itself")

    def _give_up(self, error: Exception) -> None:
        self._given_up = True
        self._known.clear()
        _log.warning("jit_compile: this agent's update runs eagerly, it cannot be recorded: %s", _in_short(error))


@dataclass
class Replays:
    """The steps of one update block."""

    traces: Mapping[bool, _Trace]
    scalars: list[Tensor]

    def __call__(self, batch: Sequence[Tensor], due: bool, quick: bool) -> Evaluated:
        """Returns what one minibatch gave.

        Args:
            batch: The columns, in the order in which they were recorded.
            due: Whether all groups learn.
            quick: Whether only kernels see the answer, which then never mixes with what autograd knows.
        """
        return self.traces[due]([*batch, *self.scalars], quick)


def _in_short(error: Exception) -> str:
    return textwrap.shorten(str(error), 200, placeholder="...")


def _another(batch: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the same samples in another order, with other rewards, advantages and so on."""
    as_they_are = {*TRANSITION_COLUMNS} - {"reward"}
    rolled = {name: values.roll(1, 0) for name, values in batch.items()}
    return {
        name: values if name in as_they_are or not values.is_floating_point() else 1.25 * values + 0.05
        for name, values in rolled.items()
    }
