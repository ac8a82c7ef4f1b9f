"""Networks with a memory, in PyTorch; `note_rl.agents.shared.memories` says what they compute."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from note_rl.agents.shared.layer_kinds import Shape
from note_rl.agents.shared.memories import (
    MemoryAndHead,
    MemoryPlan,
    MemorySettings,
    PolicyAndValue,
    check_has_place,
    observations_alone,
)
from note_rl.agents.shared.torch.layered import LayeredNetwork
from note_rl.learners.numpy_memory import ActingCell
from note_rl.learners.recurrence import no_place
from note_rl.settings.field_arguments import taking

State = Mapping[str, Tensor]
"""By name, [B, S] each."""


class Memory(nn.Module):
    """An encoder and a cell.

    Args:
        plan: Of the network that it is a part of.
    """

    def __init__(self, plan: MemoryPlan) -> None:
        super().__init__()
        self.kind, self.units, self.state_size = plan.kind, plan.settings.units, plan.state_size
        self.cell = plan.settings.cell
        self.encoder = LayeredNetwork(plan.encoder)
        self.recurrent = nn.Parameter(torch.empty(self.units, self.kind.num_gates * self.units))
        self.follow = _lstm if self.kind.num_parts == 2 else _gru
        bound = self.units**-0.5
        nn.init.uniform_(self.recurrent, -bound, bound)
        self._begin_keeping()

    def start_orthogonal(self) -> None:
        """Draws weights anew: orthogonal, biases 0, but 1 of the gate that keeps."""
        self.encoder.start_orthogonal(1.0)
        nn.init.orthogonal_(self.recurrent)
        self._begin_keeping()

    def _begin_keeping(self) -> None:
        first = self.kind.keeps * self.units
        with torch.no_grad():
            self.encoder.output_layer.bias[first : first + self.units] = 1.0

    def step(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Features [B, units] of observations [B, *obs] in states [B, S], and the states behind them."""
        parts = self.follow(self.encoder(x)[None], self.parts(state[None]), self.recurrent[None])
        return parts[0][0], torch.cat(list(parts), dim=2)[0]

    def parts(self, states: Tensor) -> Sequence[Tensor]:
        """The parts of states [..., S], [..., units] each; the first is the input of the head."""
        return states.chunk(self.kind.num_parts, dim=-1)

    def acting_cell(self) -> ActingCell | None:
        """For acting in NumPy, if the layers of the encoder are dense."""
        layers = self.encoder.dense_layers()
        return None if layers is None else ActingCell(layers, self.recurrent.detach().numpy(), self.cell)


def through_sequences(memories: Sequence[Memory], x: Tensor, first: Sequence[Tensor], starts: Tensor) -> list[Tensor]:
    """Features [n * L, units] that memories of one kind have of n sequences of L steps, one after the other.

    They go side by side through the steps: a step costs as much for two as for one.

    Args:
        memories: One or several.
        x: Observations. [n * L, *obs]
        first: The states before the first steps, [n, S] of each memory.
        starts: 1 where an episode begins, and nothing is remembered from before it, else 0. [n * L]
    """
    seen = [parts[0] for parts in _steps(memories, x, first, starts)]
    return [features.flatten(0, 1) for features in torch.stack(seen, dim=2)]


def states_behind_steps(
    memories: Sequence[Memory], x: Tensor, first: Sequence[Tensor], starts: Tensor
) -> tuple[Tensor, ...]:
    """The states behind all steps, [n * L, S] of each memory; its features come first. See `through_sequences`."""
    parts = [torch.stack(seen, dim=2) for seen in zip(*_steps(memories, x, first, starts), strict=True)]
    return torch.cat(parts, dim=3).flatten(1, 2).unbind()


def last_states(memories: Sequence[Memory], x: Tensor, first: Sequence[Tensor], starts: Tensor) -> tuple[Tensor, ...]:
    """The states behind the last steps, [n, S] of each memory; see `through_sequences`."""
    *_, parts = _steps(memories, x, first, starts)
    return torch.cat(list(parts), dim=2).unbind()


def _steps(
    memories: Sequence[Memory], x: Tensor, first: Sequence[Tensor], starts: Tensor
) -> Iterator[Sequence[Tensor]]:
    """Goes through sequences, and gives the parts [M, n, units] of the states behind each step."""
    one, num = memories[0], len(first[0])
    gates = torch.stack([memory.encoder(x).view(num, len(x) // num, -1) for memory in memories]).unbind(2)  # [M, n, G]
    keeps = (1.0 - starts).view(num, -1, 1).unbind(1)  # [n, 1]
    recurrent = torch.stack([memory.recurrent for memory in memories])
    parts = one.parts(torch.stack(list(first)))
    for gate, keep in zip(gates, keeps, strict=True):
        parts = one.follow(gate, [part * keep for part in parts], recurrent)
        yield parts


def _lstm(x: Tensor, parts: Sequence[Tensor], recurrent: Tensor) -> Sequence[Tensor]:
    """The parts [M, n, units] of the states behind gates [M, n, 4 * units]; `memories` has the equations."""
    hidden, cell = parts
    gates, units = torch.baddbmm(x, hidden, recurrent), hidden.shape[2]
    take, keep, show = gates[..., : 3 * units].sigmoid().chunk(3, dim=2)
    cell = keep * cell + take * gates[..., 3 * units :].tanh()
    return show * cell.tanh(), cell


def _gru(x: Tensor, parts: Sequence[Tensor], recurrent: Tensor) -> Sequence[Tensor]:
    (hidden,) = parts
    remembered, units = hidden @ recurrent, hidden.shape[2]
    reset, keep = (x[..., : 2 * units] + remembered[..., : 2 * units]).sigmoid().chunk(2, dim=2)
    new = (x[..., 2 * units :] + reset * remembered[..., 2 * units :]).tanh()
    return (new + keep * (hidden - new),)


class RecurrentNetwork(MemoryAndHead, nn.Module):
    """A memory and a head.

    Args:
        plan: The layers.
        memory: Of another network, which this one shares; None: it has its own.
    """

    def __init__(self, plan: MemoryPlan, memory: Memory | None = None) -> None:
        super().__init__()
        self.plan = plan
        self.memory = Memory(plan) if memory is None else memory
        self.head = LayeredNetwork(plan.head)
        self._borrows = memory is not None

    def forward(self, x: Tensor) -> Tensor:
        """Refuses to answer to observations alone (AgentContractError)."""
        raise observations_alone("A network with a memory")


def outputs_behind(network: nn.Module, features: Tensor) -> Tensor:
    """Outputs of the head of a network, or of a network around it, for the outputs of its memory."""
    head: Any = network.head
    outputs: Tensor = head(features)
    return outputs


@taking(MemorySettings)
def recurrent_network(input_shape: Shape, num_outputs: int, settings: MemorySettings) -> RecurrentNetwork:
    """Makes a network with a memory: an encoder, an LSTM or a GRU, and a head.

    Raises:
        SettingsError: A layer that is unknown or incomplete, a value out of range, sizes that do not fit.
    """
    return RecurrentNetwork(settings.plan(input_shape, num_outputs))


class Memories(PolicyAndValue):
    """Those of a policy and its value, which may be one."""

    def sequences(self, s: Tensor, before: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        """Features for policy and value of whole sequences; see `through_sequences`.

        Args:
            s: Observations. [n * L, *obs]
            before: `state_before` of a minibatch. [n, S]
            starts: `episode_start` of a minibatch. [n * L]
        """
        if self.is_one:
            (seen,) = through_sequences([self.policy], s, [before], starts)
            return seen, seen
        of_policy, of_value = through_sequences([self.policy, self.value], s, before.chunk(2, dim=1), starts)
        return of_policy, of_value


def memories_of(agent: Any, policy: nn.Module, value: nn.Module, critic_network: Any) -> Memories | None:
    """Returns the memories of networks that have such; None: they have none.

    Raises:
        SettingsError: The agent has no place for their states.
    """
    if not isinstance(policy, RecurrentNetwork):
        if isinstance(value, RecurrentNetwork):
            raise no_place("a value beside a policy without a memory")
        return None
    check_has_place(agent, critic_network)
    return Memories(policy.memory, cast(RecurrentNetwork, value).memory)
