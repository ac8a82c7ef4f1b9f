"""Train and eval mode of an agent's networks: who drops units and moves running statistics, and when.

Acting, evaluating and judging happen in eval mode, losses in train mode. Networks that do not learn, which is what
target networks are, stay in eval mode in losses, too: they say what to aim at. Afterwards all is as the user left it.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from operator import is_
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_pre_hook

from note_rl.learners.pytorch.torch_internals import BatchNorm


class Modes:
    """Puts the networks among the attributes of one agent into modes.

    Args:
        agent: Its attributes are looked at, and what is in lists, tuples and dicts of them.
        groups: The parameters that learn.
    """

    def __init__(self, agent: Any, groups: Sequence[Sequence[Tensor]]) -> None:
        self._agent = agent
        self._learning = {id(parameter) for group in groups for parameter in group}
        self._networks: list[nn.Module] = []
        self._states: list[dict[str, Any]] = []  # of all layers
        self._targets: list[dict[str, Any]] = []  # of those in networks that do not learn

    def look_again(self) -> None:
        """Looks for layers anew, which may have been exchanged within networks."""
        self._networks = []

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Puts all networks into eval mode."""
        self._look()
        states = self._states
        before = [state["training"] for state in states]
        for state in states:
            state["training"] = False
        try:
            yield
        finally:
            for state, training in zip(states, before, strict=True):
                state["training"] = training

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Puts networks that learn into train mode, the others into eval mode.

        Layers that the user has put into eval mode within a network that is in train mode stay so: they are frozen.
        """
        self._look()
        before = [(state, state["training"]) for state in self._states]
        for network in self._networks:
            if not network.training:
                network.train()
        for state in self._targets:
            state["training"] = False
        try:
            yield
        finally:
            for state, training in before:
                state["training"] = training

    @contextmanager
    def judging(self) -> Iterator[None]:
        """Has eval mode for gradients that nobody follows, also where the agent calls train() on its networks.

        But for recurrent layers, as cuDNN gives gradients in train mode only; that concerns no more than their dropout.
        """
        with self.evaluating(), ExitStack() as stack:
            ours = {id(state) for state in self._states}

            def evaluate(layer: nn.Module, inputs: Any) -> None:
                if id(vars(layer)) in ours:
                    layer.training = isinstance(layer, nn.RNNBase)

            stack.callback(register_module_forward_pre_hook(evaluate).remove)
            yield

    def couple_samples(self) -> bool:
        """Whether there are layers that normalise over the batch in eval mode, too."""
        self._look()
        return any(
            isinstance(layer, BatchNorm) and layer.running_mean is None
            for network in self._networks
            for layer in network.modules()
        )

    def normalise_over_batches(self) -> bool:
        """Whether there are layers that normalise over the batch in train mode."""
        self._look()
        return any(isinstance(layer, BatchNorm) for network in self._networks for layer in network.modules())

    def _look(self) -> None:
        """Finds the networks; their layers, if these are others than before."""
        networks = networks_of(self._agent)
        if len(networks) == len(self._networks) and all(map(is_, networks, self._networks)):
            return
        self._networks = networks
        layers = {id(layer): layer for network in networks for layer in network.modules()}
        self._states = [vars(layer) for layer in layers.values()]
        targets = {id(layer): layer for network in networks for layer in self._layers_of_targets(network)}
        self._targets = [vars(layer) for layer in targets.values()]

    def _layers_of_targets(self, network: nn.Module) -> Iterator[nn.Module]:
        """Yields the layers of the largest parts in which nothing learns: a network may hold another and its target."""
        learns = [id(parameter) in self._learning for parameter in network.parameters()]
        if learns and not any(learns):
            yield from network.modules()
        elif not all(learns):
            for part in network.children():
                yield from self._layers_of_targets(part)


def networks_of(agent: Any) -> list[nn.Module]:
    """Returns the networks among an agent's attributes, and in lists, tuples and dicts of them."""
    return list(networks_in(filter(_may_hold_networks, vars(agent).values())))


_HOLDERS: dict[type, bool] = {}  # there are few types, and all attributes are looked at in every update


def _may_hold_networks(value: Any) -> bool:
    kind = type(value)
    known = _HOLDERS.get(kind)
    if known is None:
        known = _HOLDERS[kind] = issubclass(kind, (nn.Module, dict, list, tuple))
    return known


def networks_in(values: Iterable[Any]) -> Iterator[nn.Module]:
    """Yields networks among values, and in lists, tuples and dicts of them."""
    for value in values:
        if isinstance(value, nn.Module):
            yield value
        elif isinstance(value, dict):
            yield from networks_in(value.values())
        elif isinstance(value, (list, tuple)) and value and not isinstance(value[0], Tensor):
            yield from networks_in(value)
