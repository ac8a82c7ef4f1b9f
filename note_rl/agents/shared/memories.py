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
from note_rl.errors import AgentContractError, SettingsError
from note_rl.learners.numpy_memory import ActingCell
from note_rl.learners.recurrence import no_place
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

    def step(self, s: Any, state: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Features [B, units] and the states behind them, of those memories whose states are given."""
        stepped = {name: memory.step(s, state[name]) for name, memory in self._by_name().items() if name in state}
        features, after = ({name: pair[part] for name, pair in stepped.items()} for part in (0, 1))
        return features, after

    def read_by(self, method: str) -> str:
        """Returns the name of the memory by which action or value answers."""
        return "value" if method == "value" and not self.is_one else "policy"

    def _by_name(self) -> dict[str, Any]:
        return {"policy": self.policy} if self.is_one else {"policy": self.policy, "value": self.value}


class MemoryAndHead:
    """A network with a memory, as far as both frameworks have it alike.

    Attributes:
        answers_by_state: Says to `note_rl.collect.contract` that observations alone are not enough.
        plan: The layers.
        memory: May be another network's, which draws its weights then.
        head: Makes outputs of what the memory gives.
    """

    answers_by_state = True
    plan: MemoryPlan
    memory: Any
    head: Any
    _borrows: bool

    def features(self, x: Any) -> Any:
        """Refuses to, as they depend on a state (AgentContractError)."""
        raise observations_alone("A network with a memory")

    def last_hidden(self, features: Any) -> Any:
        """The input of the output layer, [B, F], given the outputs of the memory."""
        return self.head.last_hidden(self.head.features(features))

    @property
    def output_layer(self) -> Any:
        """The last layer of the head."""
        return self.head.output_layer

    def value_network(self) -> Any:
        """A network with one output for the value, with the memory of this one if that is shared."""
        make: Any = type(self)
        return make(self.plan.of_value(), self.memory if self.plan.settings.shared else None)

    def start_orthogonal(self, output_gain: float) -> None:
        """Draws weights anew; those of a memory that is another network's stay as they are.

        Args:
            output_gain: Of the last layer.
        """
        if not self._borrows:
            self.memory.start_orthogonal()
        self.head.start_orthogonal(output_gain)


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


def observations_alone(what: str) -> AgentContractError:
    """Makes the error about what was called without the state that it answers by, too."""
    return AgentContractError(
        f"{what} was called with observations alone, and with a memory the answer depends on the state, too: a loss "
        "calls log_prob_entropy_and_value(s, a), which reads state_before and episode_start; what acts calls "
        "action(s, state)"
    )
