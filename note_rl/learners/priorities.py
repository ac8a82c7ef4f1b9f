"""The handle by which a loss gives new priorities to the replay that its batch came from."""

from typing import Any

from note_rl.errors import AgentContractError


class MixedSamplesError(AgentContractError):
    """Errors or ratios [B, B], where values of shape [B, 1] met values of shape [B]."""


class PrioritizedReplay:
    """`agent.prioritized_replay`: inside `__call__`, `self.prioritized_replay.update(TD)` hands the errors over.

    What is handed over is kept with the loss and given to the experience after the update block, in whatever
    framework; where replay is not prioritized it is simply not used, so an agent may always call update().
    """

    def __init__(self) -> None:
        self._batch_size: int | None = None  # None: no loss is being evaluated
        self._td_error: Any = None
        self._ratio: Any = None

    def update(self, TD: Any, ratio: Any = None) -> None:  # noqa: N803 (the manuals' name)
        """Says how wrong each sample of the batch was.

        Args:
            TD: Temporal-difference errors of either sign, without importance weights. Tensor [B] or [B, 1].
            ratio: Probability ratios of new to old policy, for prioritized PPO. Tensor [B] or [B, 1].

        Raises:
            AgentContractError: Called outside `__call__`, twice in one loss, or with another shape; as a
                `MixedSamplesError` with the shape [B, B].
        """
        if self._batch_size is None:
            raise AgentContractError(
                "prioritized_replay.update() was called while no loss was being evaluated; call it inside __call__, "
                "where it belongs to the batch at hand"
            )
        if self._td_error is not None:
            raise AgentContractError(
                "prioritized_replay.update() was called twice in one __call__; a batch has one priority per sample, so "
                "combine the errors first (their mean or maximum)"
            )
        self._td_error = _per_sample("TD", TD, self._batch_size)
        self._ratio = None if ratio is None else _per_sample("ratio", ratio, self._batch_size)

    def begin(self, batch_size: int) -> None:
        """Begins the loss of a minibatch, within which update() may be called."""
        self._batch_size = batch_size
        self._td_error = self._ratio = None

    def take(self) -> tuple[Any, Any]:
        """Ends the loss; returns what was handed over, TD and ratio as tensors [B], each None if it was not."""
        handed_over = self._td_error, self._ratio
        self._batch_size = self._td_error = self._ratio = None
        return handed_over


def _per_sample(name: str, values: Any, batch_size: int) -> Any:
    shape = tuple(values.shape)
    if shape == (batch_size,):
        return values
    if shape == (batch_size, 1):
        return values[:, 0]
    said = f"prioritized_replay.update() needs one {name} per sample, [{batch_size}]; it got the shape {list(shape)}"
    if shape == (batch_size, batch_size):
        raise MixedSamplesError(
            f"{said}: r and d have the shape [B], and Q-values of shape [B, 1] broadcast against them to [B, B]; drop "
            "the last axis first (q[:, 0])"
        )
    raise AgentContractError(said)
