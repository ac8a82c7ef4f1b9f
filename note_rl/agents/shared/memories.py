"""Networks with a memory, in no framework: what they are made of, and the state that they keep.

An encoder makes numbers of each observation, a cell joins them with what it remembers, and a head makes outputs of what
the cell says. The last layer of the encoder gives what the gates of the cell take from an observation.

    LSTM (Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000), for x, the outputs of the encoder:
        i, f, o = sigmoid(x_i + h U_i), sigmoid(x_f + h U_f), sigmoid(x_o + h U_o)
        c' = f c + i tanh(x_n + h U_n),  h' = o tanh(c')
    GRU (Cho et al. 2014, with the reset gate behind the product, as cuDNN has it):
        r, z = sigmoid(x_r + h U_r), sigmoid(x_z + h U_z)
        h' = z h + (1 - z) tanh(x_n + r (h U_n))

Biases of f and z begin at 1, so that at the start much is kept (Jozefowicz et al. 2015). Episodes begin with zeros.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from note_rl.agents.shared.architecture import Architecture, NetworkPlan
from note_rl.agents.shared.layer_kinds import ACTIVATION, Shape
from note_rl.errors import SettingsError
from note_rl.errors.wording import choice
from note_rl.learners.numpy_memory import ActingCell
from note_rl.support.setting_fields import check_fields, documented, setting
from note_rl.support.value_kinds import Count, OneOf, flag, widths
from note_rl.types import STATE_BEFORE, Array


@dataclass(frozen=True)
class CellKind:
    """A kind of cell.

    Attributes:
        num_gates: How many times its width the encoder gives.
        keeps: Which of these, counted from 0, is the gate that keeps what was remembered.
        num_parts: Arrays of its width that its state consists of; the first one is what the head sees.
    """

    num_gates: int
    keeps: int
    num_parts: int


CELLS: Mapping[str, CellKind] = {"lstm": CellKind(4, 1, 2), "gru": CellKind(3, 1, 1)}


@documented
@dataclass(frozen=True)
class MemorySettings:
    """Of a network with a memory."""

    cell: str = setting("lstm", OneOf(tuple(CELLS)), text="lstm or gru.")
    units: int = setting(
        64,
        Count(),
        text="Width of the cell.",
        effect="higher: more is remembered, slower steps",
        typical="32 to 256",
    )
    hidden_sizes: Sequence[int] = setting((64,), widths, text="Widths of the dense layers of the encoder.")
    layers: Sequence[Any] = setting((), text="Layers of the encoder before these, as for `layered_network`.")
    head_sizes: Sequence[int] = setting((), widths, text="Widths of the dense layers between cell and outputs.")
    activation: str = setting("tanh", ACTIVATION, text="Of dense layers, and of those of `layers` that name none.")
    shared: bool = setting(False, flag, text="Whether policy and value have one encoder and one cell.")

    def __post_init__(self) -> None:
        """Refuses values of another kind or out of range (SettingsError)."""
        check_fields(self)

    def plan(self, obs_shape: Shape, num_outputs: int) -> "MemoryPlan":
        """All layers in their places (SettingsError: they do not fit)."""
        kind = CELLS[self.cell]
        behind = Architecture(layers=("flatten",), hidden_sizes=self.head_sizes, activation=self.activation)
        before = Architecture(
            layers=tuple(self.layers) or ("flatten",), hidden_sizes=self.hidden_sizes, activation=self.activation
        )
        return MemoryPlan(
            settings=self,
            kind=kind,
            encoder=before.plan(obs_shape, kind.num_gates * self.units),
            head=behind.plan((self.units,), num_outputs),
        )


@dataclass(frozen=True)
class MemoryPlan:
    """All layers for observations of one shape.

    Attributes:
        settings: What was chosen.
        kind: Of the cell.
        encoder, head: The layers before and behind the cell.
    """

    settings: MemorySettings
    kind: CellKind
    encoder: NetworkPlan
    head: NetworkPlan

    @property
    def state_size(self) -> int:
        """Numbers that are kept from one step to the next."""
        return self.kind.num_parts * self.settings.units

    def of_value(self) -> "MemoryPlan":
        """The plan of the value beside the policy that this one is of."""
        return self.settings.plan(self.encoder.obs_shape, 1)


def zeros_of(sizes: Mapping[str, int], num_envs: int) -> dict[str, Array]:
    """Returns states of these sizes in which episodes begin, [num_envs, size] by name."""
    return {name: np.zeros((num_envs, size), np.float32) for name, size in sizes.items()}


@dataclass(frozen=True)
class PolicyAndValue:
    """The memories of a policy and its value, which may be one, in either framework.

    Attributes:
        policy, value: Each sees all observations.
    """

    policy: Any
    value: Any

    @property
    def is_one(self) -> bool:
        """Whether policy and value remember together."""
        return self.policy is self.value

    def initial_state(self, num_envs: int) -> dict[str, Array]:
        """The state in which episodes begin, [num_envs, S] by name."""
        return zeros_of({name: memory.state_size for name, memory in self._by_name().items()}, num_envs)

    def acting_cells(self) -> dict[str, ActingCell] | None:
        """The memories for acting in NumPy, by the name of their state, if all layers before the cells are dense."""
        cells = {name: memory.acting_cell() for name, memory in self._by_name().items()}
        known = {name: cell for name, cell in cells.items() if cell is not None}
        return known if len(known) == len(cells) else None

    def step(self, s: Any, state: Mapping[str, Any]) -> tuple[Any, Any, dict[str, Any]]:
        """Features for policy and value, [B, units] each, and the state behind them."""
        of_policy, policy_after = self.policy.step(s, state["policy"])
        if self.is_one:
            return of_policy, of_policy, {"policy": policy_after}
        of_value, value_after = self.value.step(s, state["value"])
        return of_policy, of_value, {"policy": policy_after, "value": value_after}

    def _by_name(self) -> dict[str, Any]:
        return {"policy": self.policy} if self.is_one else {"policy": self.policy, "value": self.value}


def check_has_place(agent: Any, critic_network: Any) -> None:
    """Refuses a network with a memory where its states have no place.

    Args:
        agent: Whose network it is.
        critic_network: That of the value, if it is another one.

    Raises:
        SettingsError: The loss of the agent reads no states, or the value is to have another network.
    """
    if STATE_BEFORE not in type(agent).batch_attributes:
        raise no_place(type(agent).__name__)
    if critic_network is not None:
        raise SettingsError(
            "critic_network: a network with a memory gives the value a memory, too; leave critic_network out"
        )


def no_place(agent: str) -> SettingsError:
    """Makes the error about an agent that cannot have a memory."""
    return SettingsError(
        "{} has no place for the state of a network with a memory: choose another network, or {}",
        *(agent, choice("an agent that learns from sequences of its rollouts, such as PPO or A2C")),
    )
