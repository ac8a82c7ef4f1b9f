"""One gradient step of an agent written in Keras, as it is traced into the update."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from note_rl.errors import AgentContractError
from note_rl.learners.adjustable import numbered
from note_rl.learners.keras.tensorflow_internals import call_read
from note_rl.learners.keras.variables import not_frozen
from note_rl.learners.keras.waiting_groups import StepCounts, counts_for
from note_rl.learners.losses import NOT_IN_A_LOSS, Losses, without_gradient
from note_rl.learners.peers import Alone, Peers
from note_rl.learners.reports import GRADIENT_NORM, MOST_REPORTED


class TensorFlowArithmetic:
    """Operations on TensorFlow's tensors that losses need; see `Arithmetic`."""

    def is_tensor(self, value: object) -> bool:
        """Whether this is a tensor, be it a symbolic one."""
        return bool(tf.is_tensor(value))

    def can_be_learned(self, loss: Any) -> bool:
        """Whether it may be; only asking for the gradient tells."""
        return True

    def answer(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Returns what a function of the agent answers, whose source AutoGraph may have to read."""
        return call_read(function, arguments)

    def ones(self, num: int) -> Any:
        """Returns a tensor [num]."""
        return tf.ones(num)

    def mean(self, values: Any) -> Any:
        """Returns the mean [] of values [B]."""
        return tf.reduce_mean(values)

    def total(self, losses: Sequence[Any]) -> Any:
        """Returns the sum [] of losses []."""
        return tf.add_n(list(losses))


class ReportedRow:
    """Makes rows of what the steps of an agent report.

    Args:
        num_further: Numbers that the learner adds to those of the agent.

    Attributes:
        names: Of the numbers in a row, as far as tracing has found them out.
        width: Of a row: what there may be, as the loop needs its shape before the loss is traced.
    """

    def __init__(self, num_further: int) -> None:
        self.names: list[str] = []
        self.width = MOST_REPORTED + num_further

    def __call__(self, reported: Mapping[str, Any]) -> Any:
        """Returns the means of what is reported, each at the place of its name, and nan elsewhere."""
        self.names.extend(name for name in reported if name not in self.names)
        means = {name: tf.reduce_mean(tf.cast(value, tf.float32)) for name, value in reported.items()}
        row = [means.get(name, math.nan) for name in self.names]
        return tf.stack([*row, *[math.nan] * (self.width - len(row))])


Gradients = dict[int, list[Any]]
"""By parameter group."""


def averaged(
    peers: Peers, losses: Sequence[Any], told: Mapping[str, Any], gradients: Gradients
) -> tuple[list[Any], dict[str, Any], Gradients]:
    """Returns losses, means of what was reported, and gradients, of all replicas on average, in one exchange."""
    means = {name: tf.reduce_mean(tf.cast(value, tf.float32)) for name, value in told.items()}
    dense = {index: [tf.convert_to_tensor(gradient) for gradient in group] for index, group in gradients.items()}
    found = iter(peers.mean([*losses, *means.values(), *(gradient for group in dense.values() for gradient in group)]))
    return (
        [next(found) for _ in losses],
        {name: next(found) for name in means},
        {index: [next(found) for _ in group] for index, group in dense.items()},
    )


class GradientStep:
    """Losses, gradients, clipping and the steps of the optimizers.

    Args:
        agent: Whose parameters learn.
        groups: Its parameters.
        losses: Of the agent.
        optimizers: One for all groups, or one each.
        max_grad_norm: Global norm that the gradients of each optimizer are scaled down to; None: never.

    Attributes:
        num_losses: How many are returned for each step.
        refusal: What the agent does wrong, if tracing has found that out; TensorFlow wraps errors beyond recognition.
        reports: Makes the row `reported`.
        peers: Who takes the same steps, each along its share of the minibatches.
    """

    def __init__(
        self,
        agent: Any,
        groups: Sequence[Sequence[Any]],
        losses: Losses,
        optimizers: Sequence[Any],
        max_grad_norm: float | None,
    ) -> None:
        self._agent = agent
        self._all_groups = groups
        self._losses = losses
        self._optimizers = optimizers
        self._max_grad_norm = max_grad_norm
        self._counts = counts_for(optimizers, losses.at_sync)
        self.num_losses = losses.num_columns
        self.refusal: AgentContractError | None = None
        self.reports = ReportedRow(len(optimizers))
        self.peers: Peers = Alone()

    @property
    def _groups(self) -> list[list[Any]]:
        """The parameters that are not frozen."""
        return [not_frozen(group) for group in self._all_groups]

    def __call__(self, batch: Mapping[str, Any], sync: Any) -> dict[str, Any]:
        """Takes the step, and returns its rows: losses [G], `reported`, and td_error and ratio [B] if handed over.

        The loss of a group that waits is 0.

        Args:
            batch: Columns by name, [B, ...].
            sync: Whether targets are updated afterwards, []; a plain truth value where each way is traced for itself.
        """
        everybody = range(len(self._groups))
        at_once = [index for index in everybody if index not in self._losses.at_sync]
        if len(at_once) == len(self._groups):
            return self._step_of(everybody, batch)
        if isinstance(sync, bool):
            return self._step_of(everybody if sync else at_once, batch)
        rows: dict[str, Any] = tf.cond(  # each way for itself, so that no gradient is worked out in vain
            sync, lambda: self._step_of(everybody, batch), lambda: self._step_of(at_once, batch)
        )
        return rows

    def minimise(self, loss: Callable[[], Any], optimizer: Any) -> Any:
        """Refuses to; see `Learner.minimise`."""
        raise AgentContractError(NOT_IN_A_LOSS)

    def _step_of(self, learning: Sequence[int], batch: Mapping[str, Any]) -> dict[str, Any]:
        """Lets some parameter groups learn, or all if there is one loss for all."""
        with tf.GradientTape(persistent=len(self._groups) > 1) as tape:
            try:
                losses, (td_error, ratio, told) = self._losses.in_training(batch)
            except AgentContractError as error:
                self.refusal = error
                raise
        if len(losses) == 1:
            learning = range(len(self._groups))
        gradients = self._gradients(tape, losses, learning)
        if self.peers.size > 1:
            losses, told, gradients = averaged(self.peers, losses, told, gradients)
        told_of = [loss if index in learning else tf.zeros_like(loss) for index, loss in enumerate(losses)]
        norms = self._follow(gradients, learning)
        reported = self.reports({**told, **norms})
        rows = {
            "loss": tf.stack(self._losses.columns(told_of)),
            "td_error": td_error,
            "ratio": ratio,
            "reported": reported,
        }
        return {name: tf.cast(row, tf.float32) for name, row in rows.items() if row is not None}

    def _gradients(self, tape: Any, losses: list[Any], learning: Sequence[int]) -> dict[int, list[Any]]:
        """Returns the gradients of those parameter groups, by their numbers, along their own losses or the only one."""
        groups = self._groups
        if len(losses) == len(groups):
            gradients = {index: tape.gradient(losses[index], groups[index]) for index in learning}
            of_losses = list(gradients.values())
        else:
            gradients = dict(enumerate(tape.gradient(losses[0], groups)))
            of_losses = [[gradient for group in gradients.values() for gradient in group]]
        if any(group and all(gradient is None for gradient in group) for group in of_losses):
            self.refusal = without_gradient()
            raise self.refusal
        return {
            index: [
                tf.zeros_like(parameter) if gradient is None else gradient
                for gradient, parameter in zip(group, groups[index], strict=True)
            ]
            for index, group in gradients.items()
        }

    def _follow(self, gradients: Mapping[int, list[Any]], indices: Sequence[int]) -> dict[str, Any]:
        """Steps along the gradients of these groups, each with its own optimizer or all with the only one.

        Returns:
            The norms of gradients that are clipped, from before that.
        """
        single, norms, groups = len(self._optimizers) == 1, {}, self._groups
        for several in [list(indices)] if single else [[index] for index in indices]:
            optimizer = self._optimizers[0 if single else several[0]]
            dense = [gradient for index in several for gradient in gradients[index]]
            if self._max_grad_norm is not None and dense:
                dense, norm = tf.clip_by_global_norm(dense, self._max_grad_norm)
                norms[GRADIENT_NORM if single else numbered(GRADIENT_NORM, several[0])] = norm
            parameters = [parameter for index in several for parameter in groups[index]]
            if self._counts is None:
                optimizer.apply(dense, parameters)
            else:
                owners = [index for index in several for _ in groups[index]]
                self._counted_apart(self._counts, list(zip(owners, dense, parameters, strict=True)))
        return norms

    def _counted_apart(self, counts: StepCounts, steps: Sequence[tuple[int, Any, Any]]) -> None:
        """Steps with the only optimizer along gradients, given with their groups and parameters."""
        waiting = [(gradient, one) for group, gradient, one in steps if group in self._losses.at_sync]
        at_once = [(gradient, one) for group, gradient, one in steps if group not in self._losses.at_sync]
        if at_once:
            counts.optimizer.apply(*map(list, zip(*at_once, strict=True)))
        if waiting:
            with counts.of_waiting():
                counts.optimizer.apply(*map(list, zip(*waiting, strict=True)))
