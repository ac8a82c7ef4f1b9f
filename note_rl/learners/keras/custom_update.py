"""An update that an agent takes by itself, as it is traced in place of a gradient step along a loss."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from note_rl.errors import AgentContractError
from note_rl.learners.keras.step import ReportedRow
from note_rl.learners.keras.variables import not_frozen
from note_rl.learners.losses import Losses
from note_rl.learners.peers import Alone, Peers
from note_rl.learners.update_contract import OwnUpdate


class OwnUpdateStep:
    """One call of the agent's update(); see `GradientStep`, in whose place it stands.

    Args:
        update: Of the agent.
        losses: Says how losses belong to optimizers.
        optimizers: With the parameters that each changes.
        max_grad_norm: Global norm that gradients are scaled down to by `minimise`; None: never.

    Attributes:
        refusal: What the agent does wrong, if tracing has found that out.
        reports: Makes the row `reported`.
    """

    def __init__(
        self,
        update: OwnUpdate,
        losses: Losses,
        optimizers: Sequence[tuple[Any, Sequence[Any]]],
        max_grad_norm: float | None,
    ) -> None:
        self._update = update
        self._losses = losses
        self._optimizers = optimizers
        self._max_grad_norm = max_grad_norm
        self.num_losses = losses.num_columns
        self.refusal: AgentContractError | None = None
        self.reports = ReportedRow(0)
        self.peers: Peers = Alone()  # agents that take their updates by themselves have no others

    def __call__(self, batch: Mapping[str, Any], sync: Any) -> dict[str, Any]:
        """Has the update taken, and returns its rows; see `GradientStep`."""
        try:
            losses, (td_error, ratio, told) = self._update(batch, [one for one, _ in self._optimizers])
        except AgentContractError as error:
            self.refusal = error
            raise
        rows = {
            "loss": tf.stack(self._losses.columns(losses)),
            "td_error": td_error,
            "ratio": ratio,
            "reported": self.reports(told),
        }
        return {name: tf.cast(row, tf.float32) for name, row in rows.items() if row is not None}

    def minimise(self, loss: Callable[[], Any], optimizer: Any) -> Any:
        """Takes one step of an optimizer along the gradient of a loss; see `Learner.minimise`."""
        parameters = next((held for one, held in self._optimizers if one is optimizer), None)
        if parameters is None:
            raise AgentContractError("minimise() takes steps of the optimizers that update() is given, within update()")
        with tf.GradientTape() as tape:
            value = loss()
        parameters = not_frozen(parameters)
        pairs = zip(tape.gradient(value, parameters), parameters, strict=True)
        known = [(gradient, one) for gradient, one in pairs if gradient is not None]
        gradients, learning = [gradient for gradient, _ in known], [one for _, one in known]
        if self._max_grad_norm is not None and gradients:
            gradients, _ = tf.clip_by_global_norm(gradients, self._max_grad_norm)
        optimizer.apply(gradients, learning)
        return value
