"""Everything that a recording depends on besides the contents of tensors, and which agents may be recorded."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import is_
from typing import Any

from torch import Tensor, nn

from note_rl.errors.wording import Sentence
from note_rl.learners.captured_values import ABSENT, PLAIN, is_same
from note_rl.learners.python_objects import iterator_named_by
from note_rl.learners.pytorch.modes import networks_in, networks_of
from note_rl.learners.pytorch.step_graph.forms import can_change_within, form_of, identities_of
from note_rl.learners.pytorch.step_graph.layer_guards import Layers
from note_rl.learners.pytorch.step_graph.lookups import Lookup, noted
from note_rl.learners.pytorch.step_graph.process_settings import types_of_numbers
from note_rl.learners.pytorch.tensors import named_tensors
from note_rl.learners.pytorch.torch_internals import hooks_of
from note_rl.settings.switch_names import JIT_COMPILE

_LOOKED_AT = (*PLAIN, Tensor, nn.Module)
_ASKED = Sentence("with {}", JIT_COMPILE.at(True))
_DECLARED = Sentence("with `traceable = True` in the class, or {},", JIT_COMPILE.at(True))


class _Read:
    """A value that a loss has read.

    Args:
        place: Where.

    Raises:
        TypeError: What is there could change unseen.
    """

    def __init__(self, place: Lookup) -> None:
        self.place, self.value = place, place.value
        self._form = form_of(self.value)
        self._is_fixed = not can_change_within(self.value)
        self._items = identities_of(self.value)

    def is_unchanged(self) -> bool:
        now = self.place.value
        if now is self.value and (self._is_fixed or self._holds_the_same()):
            return True
        try:
            return bool(form_of(now) == self._form)
        except TypeError:  # something of another kind
            return False

    def _holds_the_same(self) -> bool:
        """Whether a flat list or a function consists of the same objects: a fifth of the time that forms take."""
        now = None if self._items is None else identities_of(self.value)
        return (
            self._items is not None
            and now is not None
            and len(now) == len(self._items)
            and all(map(is_, now, self._items))
        )


class Guards:
    """The numbers, words, tensors and networks that an agent consists of now, and what else its losses have read.

    Types of numbers that hold for the whole process count in any case.

    Args:
        agent: Whose.
        inputs: Names of attributes that may change.
    """

    def __init__(self, agent: Any, inputs: Collection[str]) -> None:
        self._agent = agent
        self._attributes = vars(agent)
        self._class = type(agent)
        ignored = {*inputs, *agent._bookkeeping}
        self._known = {*self._attributes, *ignored}
        before = {
            name: value
            for name, value in self._attributes.items()
            if name not in ignored and isinstance(value, _LOOKED_AT)
        }
        self._names, self._values = list(before), list(before.values())
        self._inputs = frozenset(inputs)
        self._reads: dict[tuple[int, str], _Read] = {}
        self._networks = networks_of(agent)
        self._tensors = [tensor for _, tensor in named_tensors(agent)]
        self._layers = Layers(self._networks, self._tensors)
        self._types = types_of_numbers()

    def is_unchanged(self) -> bool:
        """Whether all is as it was, or equal; of tensors and networks, whether they are the same objects."""
        now = self._attributes
        if not all(map(is_, map(now.get, self._names), self._values)) and not all(
            is_same(now.get(name, ABSENT), value) for name, value in zip(self._names, self._values, strict=True)
        ):
            return False
        new = now.keys() - self._known
        if any(hasattr(self._class, name) for name in new):  # a new attribute hides one of the class
            return False
        if types_of_numbers() != self._types:
            return False
        return self._layers.are_unchanged() and all(map(_Read.is_unchanged, self._reads.values()))

    @contextmanager
    def noting(self) -> Iterator[None]:
        """Notes what the agent reads within the block, and looks at it from now on.

        Raises:
            ValueError: Something may not be recorded, as it changes in a way that cannot be seen.
        """
        iterator = iterator_named_by(self._agent, ("__call__", "update", "update_param"))
        if iterator is not None:
            raise ValueError(f"it reads {iterator}, an iterator, which gives another answer each time")
        with noted(self._agent, [layer for network in self._networks for layer in network.modules()]) as places:
            yield
        networks = len(self._networks)
        for place in places:
            self._look_at(place)
        if len(self._networks) > networks:
            self._layers = Layers(self._networks, self._tensors)

    def _look_at(self, place: Lookup) -> None:
        key = (id(place.owner), place.name)
        if key in self._reads or (place.owner is self._agent and self._is_looked_at(place.name)):
            return
        try:
            read = self._reads[key] = _Read(place)
        except TypeError as error:
            raise ValueError(f"it reads {place.title}: {error}") from None
        known = set(map(id, self._networks))
        self._networks += [network for network in networks_in([read.value]) if id(network) not in known]

    def _is_looked_at(self, name: str) -> bool:
        """Whether an attribute of the agent is compared anyway, is an input, or was made by the loss itself."""
        made = name in self._attributes and name not in self._known
        return made or name in self._inputs or name in self._names

    def changed_by_itself(self) -> str | None:
        """Returns what the loss, called once more since it was noted, has changed besides the agent's attributes."""
        for read in self._reads.values():
            if not read.is_unchanged():
                return read.place.title
        return None if self._layers.are_unchanged() else "a layer"


@dataclass(frozen=True)
class NotRecorded:
    """Why steps are not recorded unless that is asked for.

    Attributes:
        reason: A clause.
        remedy: With what they would be.
    """

    reason: str
    remedy: Sentence


def why_not_recorded(agent: Any) -> NotRecorded | None:
    """Why steps are not recorded unless that is asked for; None: the class of the agent declares that they may be.

    A subclass says so itself: what it adds may do what a recording would freeze. Nor is a layer known that is neither
    torch's nor this project's, or has hooks.
    """
    name = type(agent).__name__
    for network in networks_of(agent):
        for layer in network.modules():
            if not layer_is_known(layer):
                hooks = "which has hooks" if _is_ours_or_torchs(layer) else "which is not one of torch.nn"
                return NotRecorded(f"{name} has a layer {type(layer).__name__}, {hooks}", _ASKED)
    declared = vars(type(agent)).get("traceable", False)
    return None if declared else NotRecorded(f"{name} does not declare `traceable = True`", _DECLARED)


def layer_is_known(layer: nn.Module) -> bool:
    """Whether a layer is one of torch.nn or of this project, and does nothing besides."""
    return _is_ours_or_torchs(layer) and "forward" not in vars(layer) and not any(hooks_of(layer))


def _is_ours_or_torchs(layer: nn.Module) -> bool:
    return type(layer).__module__.startswith(("torch.nn.modules.", "note_rl."))
