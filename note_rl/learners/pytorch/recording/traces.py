"""Decides when gradient steps of the PyTorch learner are replayed from a recording, and sees to it that they may be.

A recording freezes what Python did: branches, numbers, the tensors it read. So it is made anew when a number, a tensor
or a network of the agent has been exchanged, it is compared with the ordinary way before it is used, and unless
`jit_compile=True` asks for it, only agents are recorded whose classes say that nothing else goes into their losses.
"""

import logging
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from note_rl.learners.adjustable import of_the_agent
from note_rl.learners.base import temporary_attributes
from note_rl.learners.pytorch.evaluated import Evaluated, TakenStep, flattened, form_of, unflattened
from note_rl.learners.pytorch.optimizer_step import Stepper
from note_rl.learners.pytorch.recording.compiled import compiled, pays
from note_rl.learners.pytorch.recording.graph import Recording, recorded
from note_rl.learners.pytorch.recording.guards import Guards, declares_to_be_traceable, is_same, parts_of
from note_rl.learners.pytorch.recording.playback import replay
from note_rl.learners.pytorch.recording.products import LEAST_WORK, MKL, ONEDNN
from note_rl.learners.pytorch.recording.whole import WholeStep, WholeSteps, smooth_steps
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
    whole: WholeStep | None = None
    targets_stay: bool = False  # after some of these steps

    @property
    def stage(self) -> int:
        """See `Traces.stages`."""
        if self.whole is not None:
            return 3 if self.whole.moves_targets else 2
        return 2 if self.is_compiled else 1

    def __call__(self, values: Sequence[Tensor], quick: bool) -> Evaluated:
        with torch.inference_mode() if quick else torch.no_grad():
            return unflattened(self.run(*values), self.form)


@dataclass
class Traces:
    """The recorded gradient steps of one agent.

    Args:
        agent: Whose losses are recorded.
        evaluate: The ordinary way.
        undisturbed: Makes a context that puts back everything that evaluating might have changed, or given tensors.
        groups_at_sync: Groups that do not always learn; what only they need is left out of the other steps.
    """

    agent: Any
    evaluate: Evaluate
    undisturbed: Callable[..., AbstractContextManager[Any]]
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
    _steppers: Sequence[Stepper] = ()
    _given_up: bool = False
    _uncompilable: bool = False
    _in_parts: bool = False  # whole steps cannot be made

    def __post_init__(self) -> None:
        self._whole_steps = WholeSteps(self.agent, self.undisturbed)

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
        self._steppers = steppers
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

        0 the ordinary way, 1 from a recording, 2 compiled, 3 with the target update.
        """
        reached = list(self._resumed)
        for (_, due), trace in self._known.items():
            reached[due] = max(reached[due], trace.stage)
        return reached[0], reached[1]

    def resume(self, stages: tuple[int, int]) -> None:
        """Goes on from the stages that an earlier process had reached."""
        self._resumed = stages

    def expect(self, num_gradient_steps: float) -> None:
        """Hears that about so many gradient steps are still to come."""
        self._expected = num_gradient_steps

    def of(
        self,
        columns: Mapping[str, Sequence[Tensor]],
        due: Sequence[bool],
        sync: Sequence[bool],
        hyperparameters: Mapping[str, float],
    ) -> "Replays | None":
        """Returns what stands in for evaluating these minibatches, or None: they are evaluated the ordinary way.

        Args:
            columns: K minibatches by name, [B, ...] each.
            due: In which of them all groups learn.
            sync: After which of them targets are updated.
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
            stay = {all_learn for all_learn, synced in zip(due, sync, strict=True) if not synced}
            traces = {one: self._trace(shape, first, one, scalars, one in stay) for one in set(due)}
        except _NOT_TRACEABLE as error:
            self._give_up(error)
            return None
        return Replays(traces, scalars)

    def up_to_date(self) -> bool:
        """Whether the agent's numbers, tensors and networks are those at the time of recording."""
        return self._watched is not None and self._watched.is_unchanged()

    def _trace(
        self, shape: Any, batch: Mapping[str, Tensor], due: bool, scalars: list[Tensor], targets_stay: bool
    ) -> _Trace:
        trace = self._known.get((shape, due))
        if trace is None:
            if self._num_since >= _MAX_TRACES:
                raise ValueError(f"it was recorded {_MAX_TRACES} times, and yet something has changed again")
            self.num_traces += 1
            self._num_since += 1
            trace = self._known[shape, due] = self._recorded(batch, due, scalars)
        trace.targets_stay = trace.targets_stay or targets_stay
        if self._jit is True or self._resumed[due] > 1 or trace.stage > 1 or self._pays(trace, batch["reward"].device):
            self._compile(trace, batch, due, scalars)
        return trace

    def _pays(self, trace: _Trace, device: torch.device) -> bool:
        if self._matmul == ONEDNN and trace.recording.largest_product >= LEAST_WORK:  # compiled code takes MKL
            return False
        return pays(trace.recording, self._expected, device)

    def _recorded(self, batch: Mapping[str, Tensor], due: bool, scalars: list[Tensor]) -> _Trace:
        """Returns a trace that was compared with the ordinary way.

        Raises:
            ValueError: It does not agree, or `__call__` leaves something behind on the agent.
            RuntimeError: What `__call__` does cannot be recorded.
        """
        forms: list[Evaluated] = []

        def step(*values: Tensor) -> list[Tensor]:
            forms.append(self._with_numbers(list(batch), values, due))
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

    def _with_numbers(self, names: Sequence[str], values: Sequence[Tensor], due: bool) -> Evaluated:
        """Returns what the ordinary way gives for the columns of these names, and hyperparameters, which follow."""
        numbers = dict(zip(self._names, values[len(names) :], strict=True))
        with temporary_attributes(self.agent, numbers):
            return self._needed(dict(zip(names, values, strict=False)), due)

    def _needed(self, batch: Mapping[str, Tensor], due: bool) -> Evaluated:
        """Returns what the ordinary way gives, without the losses of groups that do not learn now."""
        evaluated = self.evaluate(batch, due)
        waiting = () if due or len(evaluated.losses) == 1 else self.groups_at_sync
        losses = [None if index in waiting else loss for index, loss in enumerate(evaluated.losses)]
        return evaluated._replace(losses=losses)

    def _compile(self, trace: _Trace, batch: Mapping[str, Tensor], due: bool, scalars: list[Tensor]) -> None:
        """Has steps run compiled code, if that can be had; else says once why not and goes on replaying."""
        moves_targets = self._moves_targets(trace, due)
        if trace.whole is not None and trace.whole.fits() and trace.whole.moves_targets == moves_targets:
            return
        trace.whole = None
        if not self._in_parts and self._steppers and self._whole_steps.suit(self._steppers, trace.form):
            self._compile_whole(trace, batch, due, scalars, moves_targets)
            if not self._in_parts:
                return
        if trace.is_compiled or self._uncompilable:
            return
        try:
            with self.undisturbed():
                run = compiled(trace.recording, [*batch.values(), *scalars])
            self._check(run, batch, due, scalars, 1e-3)
        except Exception as error:  # noqa: BLE001 - a compiler and a disk fail in all kinds of ways; replaying does not
            self._uncompilable = True
            _log.warning("the update cannot be compiled, it is replayed instead: %s", _in_short(error))
        else:
            trace.run, trace.is_compiled = run, True

    def _compile_whole(
        self, trace: _Trace, batch: Mapping[str, Tensor], due: bool, scalars: list[Tensor], moves_targets: bool
    ) -> None:
        """The same for the steps as a whole, as soon as their optimizers have taken their first."""
        followed = self._whole_steps.followed(self._steppers, trace.form)
        if followed is None:
            return
        names, inputs = list(batch), [*batch.values(), *scalars]
        try:
            whole = self._whole_steps.made(
                lambda values: self._with_numbers(names, values, due), inputs, followed, moves_targets
            )
            self._check_whole(whole, trace.form, batch, due, scalars)
        except Exception as error:  # noqa: BLE001 - see above; and update_param() may do what cannot be recorded
            self._in_parts = True
            _log.debug("losses and gradients are compiled without what follows: %s", _in_short(error))
        else:
            trace.whole = whole

    def _moves_targets(self, trace: _Trace, due: bool) -> bool:
        """Whether the target update is to be a part of these steps: it follows each, and depends on no hyperparameter.

        Where an earlier process had compiled them, it is as it was there.
        """
        if trace.targets_stay or self._names or self._resumed[due] == 2:
            return False
        return self._whole_steps.can_move_targets()

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
            _check_near(values, ordinary, rtol)

    def _check_whole(
        self, whole: WholeStep, form: Evaluated, batch: Mapping[str, Tensor], due: bool, scalars: list[Tensor]
    ) -> None:
        """Compares with the ordinary way; see `_check`. All that it changes is compared, too.

        Raises:
            ValueError: They disagree.
        """
        other = _another(batch)

        def ordinary() -> Evaluated:
            evaluated = self._needed(other, due)
            for stepper, direction in zip(self._steppers, evaluated.directions, strict=True):
                stepper.follow(direction)
            if whole.moves_targets:
                with torch.no_grad():
                    self.agent.update_param()
            return evaluated

        learning = [stepper for stepper, (kept, _) in zip(self._steppers, form.directions, strict=True) if kept]
        with smooth_steps(learning):
            expected = self._whole_steps.outcome(ordinary, whole.followed)
            found = self._whole_steps.outcome(lambda: whole([*other.values(), *scalars]), whole.followed)
        for values, wanted in zip(found, expected, strict=True):
            _check_near(values, wanted, 1e-3)

    def _give_up(self, error: Exception) -> None:
        self._given_up = True
        self._known.clear()
        _log.warning("jit_compile: this agent's update runs eagerly, it cannot be recorded: %s", _in_short(error))


@dataclass
class Replays:
    """The steps of one update block."""

    traces: Mapping[bool, _Trace]
    scalars: list[Tensor]

    def whole(self, due: bool) -> WholeStep | None:
        """Returns what takes such steps as a whole, if there is such a program."""
        return self.traces[due].whole

    def step(self, whole: WholeStep, batch: Sequence[Tensor]) -> TakenStep:
        """Takes a step as a whole; see `WholeStep`."""
        return whole([*batch, *self.scalars])

    def __call__(self, batch: Sequence[Tensor], due: bool, quick: bool) -> Evaluated:
        """Returns what one minibatch gave.

        Args:
            batch: The columns, in the order in which they were recorded.
            due: Whether all groups learn.
            quick: Whether only kernels see the answer, which then never mixes with what autograd knows.
        """
        return self.traces[due]([*batch, *self.scalars], quick)


def _check_near(values: Tensor, ordinary: Tensor, rtol: float) -> None:
    scale = float(ordinary.detach().abs().nan_to_num(0.0, 0.0, 0.0).max()) if ordinary.numel() else 0.0
    if not torch.allclose(values, ordinary, rtol=rtol, atol=rtol * max(scale, 1e-6), equal_nan=True):
        raise ValueError("the recorded step gives other numbers than the loss itself")


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
