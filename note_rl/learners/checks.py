"""What is asked of an agent's loss before it may train: samples must not influence each other by accident.

A scalar loss hides the most frequent mistake of all: values of shape [B, 1] minus targets of shape [B] are [B, B], the
mean of that is a number like any other, and the agent learns that every state is worth the average.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from note_rl.errors import AgentContractError
from note_rl.types import Array, FloatArray

_NUM_SAMPLES = 8
_TOLERANCE = 1e-3  # relative and absolute
_ROUNDING = (
    1e-4  # the same for equal batches: where they lie in memory may change the order of sums, hence the rounding
)

_ON_POLICY = "comes with PPO=True (buffer=rollout)"
_COMES_WITH = {
    "log_prob_old": f"{_ON_POLICY} and a policy that knows how likely its actions were: SoftmaxPolicy, GaussianPolicy",
    "advantage": f"{_ON_POLICY} and an agent that has value(s)",
    "return_": f"{_ON_POLICY} and an agent that has value(s)",
    "value_old": f"{_ON_POLICY} and an agent that has value(s)",
    "expert_obs": "comes with expert=... in set()",
    "expert_action": "comes with expert=... in set()",
    "weights": "comes with PR=True; as sixth argument of __call__ they are always there",
}  # what a minibatch may offer to __call__ as attributes of the agent

# Columns of a minibatch [b, ...] -> losses [G]
LossFunction = Callable[[Mapping[str, Array]], FloatArray]


def check_samples_apart(losses_of: LossFunction, columns: Mapping[str, Array]) -> None:
    """Compares the loss of up to 8 samples with the mean of the losses of their pairs.

    A loss that is a mean over samples, plus anything that does not depend on them, gives the same number; so does a
    sum. Rewards, ends and further numbers are spread out for this, because a [B, B] mistake does not show among
    samples that are alike (in CartPole every reward is 1). Pairs rather than single samples, as code that squeezes
    axes or normalises over the batch cannot be asked about one sample alone.

    Args:
        losses_of: Evaluates losses [G] and changes nothing.
        columns: The arrays of one minibatch, by name; [B, ...] each.

    Raises:
        AgentContractError: The numbers differ; the usual cause and the way out are named.
    """
    batch_size = len(columns["reward"])
    part_size = 2 if batch_size >= 4 else 1
    num_samples = min(_NUM_SAMPLES, batch_size) // part_size * part_size
    first = {name: values[:num_samples] for name, values in columns.items()}
    with np.errstate(all="ignore"):  # a loss that is not finite is the trainer's to report
        scale = max(1.0, float(np.nan_to_num(np.abs(losses_of(first)).max(), posinf=1.0)))
        spread = _spread(first, scale, part_size)
        together = losses_of(spread)
        if not np.allclose(together, losses_of(spread), rtol=_ROUNDING, atol=_ROUNDING, equal_nan=True):
            return  # the loss draws random numbers, which no two batches share
        parts = [
            losses_of({name: values[start : start + part_size] for name, values in spread.items()})
            for start in range(0, num_samples, part_size)
        ]
        _compare(together, np.mean(parts, axis=0), np.sum(parts, axis=0), num_samples, part_size)


def _spread(columns: Mapping[str, Array], reward_scale: float, part_size: int) -> dict[str, Array]:
    """The same columns with rewards, ends and further numbers that differ from part to part."""
    num_samples = len(columns["reward"])
    offsets = np.linspace(-0.5, 0.5, num_samples, dtype=np.float32)
    ends = (np.arange(num_samples) // part_size % 2).astype(np.float32)
    spread: dict[str, Array] = {}
    for name, values in columns.items():
        along = (num_samples, *[1] * (values.ndim - 1))
        if name == "terminated":
            spread[name] = np.broadcast_to(ends.reshape(along), values.shape).astype(values.dtype)
        elif name == "discount":
            spread[name] = (values.max() * (1 - ends.reshape(along)) * np.ones_like(values)).astype(values.dtype)
        elif name == "weights":
            spread[name] = values * (1 + offsets)
        elif name in ("obs", "action", "next_obs") or not np.issubdtype(values.dtype, np.floating):
            spread[name] = values
        else:
            spread[name] = values + offsets.reshape(along) * (reward_scale if name == "reward" else 1)
    return spread


def _compare(together: FloatArray, mean: FloatArray, total: FloatArray, num_samples: int, part_size: int) -> None:
    for index, loss in enumerate(together):
        expected = mean[index], total[index]
        if not np.isfinite([loss, *expected]).all():
            continue
        if min(abs(loss - value) for value in expected) <= _TOLERANCE * (1 + max(abs(loss), abs(expected[0]))):
            continue
        which = f" {index}" if len(together) > 1 else ""
        raise AgentContractError(
            f"samples influence each other in the loss{which} that __call__ returns: for {num_samples} samples it is "
            f"{loss:.6g}, while evaluated {part_size} at a time it is {expected[0]:.6g} on average. Usual cause: r and "
            "d have the shape [B], and Q-values of shape [B, 1] broadcast against them to [B, B]; drop the last axis "
            "first (q[:, 0]). If samples are meant to influence each other (batch normalisation, contrastive losses), "
            "set couples_samples = True on the agent"
        )


@contextmanager
def explaining_what_is_not_offered(agent: Any) -> Iterator[None]:
    """Around a call of the agent: names the setting that brings what its loss reads and the minibatch does not have.

    Raises:
        AgentContractError: In place of an AttributeError about one of these.
    """
    try:
        yield
    except AttributeError as error:
        if error.obj is not agent or error.name not in _COMES_WITH:
            raise
        raise AgentContractError(f"__call__ reads self.{error.name}, which {_COMES_WITH[error.name]}") from error
