"""One gradient step of an agent written in Keras, as it is traced into the update."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from note_rl.errors import AgentContractError
from note_rl.learners.losses import NOT_IN_A_LOSS, Losses, without_gradient


class TensorFlowArithmetic:
    """What losses are asked of TensorFlow's tensors; see `Arithmetic`."""

    def is_tensor(self, value: object) -> bool:
        """Whether this is a tensor, be it a symbolic one."""
        return bool(tf.is_tensor(value))

    def can_be_learned(self, loss: Any) -> bool:
        """Whether it may be; only asking for the gradient tells."""
        return True

    def ones(self, num: int) -> Any:
        """Returns a tensor [num]."""
        return tf.ones(num)

    def mean(self, values: Any) -> Any:
        """Returns the mean [] of values [B]."""
        return tf.reduce_mean(values)

    def total(self, losses: Sequence[Any]) -> Any:
        """Returns the sum [] of losses []."""
        return tf.add_n(list(losses))


class GradientStep:
    """Losses, gradients, clipping and the steps of the optimizers.

    Args:
        agent: Whose parameters learn.
        groups: Its parameters.
        losses: Of the agent.
        optimizers: One for all groups, or one each.
        max_grad_norm: Global norm that the gradients of each optimizer are scaled down to; None: never.

    Attributes:
        refusal: What the agent does wrong, if tracing has found that out; TensorFlow wraps errors beyond recognition.
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
        self._groups = groups
        self._losses = losses
        self._optimizers = optimizers
        self._max_grad_norm = max_grad_norm
        self._at_sync: Sequence[int] = getattr(agent, "groups_at_sync", ())
        self.refusal: AgentContractError | None = None

    def __call__(self, batch: Mapping[str, Any], sync: Any) -> dict[str, Any]:
        """Takes the step, and returns its rows: losses [G], and td_error and ratio [B] if the agent handed them over.

        Args:
            batch: Columns by name, [B, ...].
            sync: Whether targets are updated afterwards, [].
        """
        everybody = range(len(self._groups))
        at_once = [index for index in everybody if index not in self._at_sync]
        if len(at_once) == len(self._groups):
            return self._step_of(everybody, batch)
        rows: dict[str, Any] = tf.cond(  # each way for itself, so that no gradient is worked out in vain
            sync, lambda: self._step_of(everybody, batch), lambda: self._step_of(at_once, batch)
        )
        return rows

    def minimise(self, loss: Callable[[], Any], optimizer: Any) -> Any:
        """Refuses to; see `Learner.minimise`."""
        raise AgentContractError(NOT_IN_A_LOSS)

    def _step_of(self, learning: Sequence[int], batch: Mapping[str, Any]) -> dict[str, Any]:
        """Lets some parameter groups learn, or all if there is one loss for all."""
        handle = self._agent.prioritized_replay
        handle.begin(batch["reward"].shape[0])
        with tf.GradientTape(persistent=len(self._groups) > 1) as tape:
            try:
                losses = self._losses(batch)
            except AgentContractError as error:
                self.refusal = error
                raise
        td_error, ratio = handle.take()
        if len(losses) == 1:
            learning = range(len(self._groups))
        self._follow(self._gradients(tape, losses, learning), learning)
        rows = {"loss": tf.stack(self._losses.per_optimizer(losses)), "td_error": td_error, "ratio": ratio}
        return {name: tf.cast(row, tf.float32) for name, row in rows.items() if row is not None}

    def _gradients(self, tape: Any, losses: list[Any], learning: Sequence[int]) -> dict[int, list[Any]]:
        """Returns the gradients of those parameter groups, by their numbers, along their own losses or the only one."""
        if len(losses) == len(self._groups):
            gradients = {index: tape.gradient(losses[index], self._groups[index]) for index in learning}
            of_losses = list(gradients.values())
        else:
            gradients = dict(enumerate(tape.gradient(losses[0], self._groups)))
            of_losses = [[gradient for group in gradients.values() for gradient in group]]
        if any(all(gradient is None for gradient in group) for group in of_losses):
            self.refusal = without_gradient()
            raise self.refusal
        return {
            index: [
                tf.zeros_like(parameter) if gradient is None else gradient
                for gradient, parameter in zip(group, self._groups[index], strict=True)
            ]
            for index, group in gradients.items()
        }

    def _follow(self, gradients: Mapping[int, list[Any]], indices: Sequence[int]) -> None:
        """Steps along the gradients of these groups, each with its own optimizer or all with the only one."""
        single = len(self._optimizers) == 1
        for several in [list(indices)] if single else [[index] for index in indices]:
            optimizer = self._optimizers[0 if single else several[0]]
            dense = [gradient for index in several for gradient in gradients[index]]
            if self._max_grad_norm is not None:
                dense, _ = tf.clip_by_global_norm(dense, self._max_grad_norm)
            optimizer.apply(dense, [parameter for index in several for parameter in self._groups[index]])
