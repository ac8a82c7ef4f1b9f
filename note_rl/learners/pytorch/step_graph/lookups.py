"""Values that a loss reads besides its arguments, noted while it is called once eagerly.

Attributes of the agent and of layers of its own are seen when they are looked up; globals, and variables of functions
around a function, are read from the code of whatever is called that is neither of torch nor of this project.
"""

import dis
import enum
import gc
import random
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import CellType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from note_rl.learners.attribute_reads import reads_of
from note_rl.learners.captured_values import ABSENT, PLAIN
from note_rl.learners.external_calls import is_installed, profiled_by, read_from_outside
from note_rl.learners.python_objects import names_in
from note_rl.learners.pytorch.step_graph.layer_guards import COMPARED
from note_rl.learners.pytorch.step_graph.process_settings import SETTINGS
from note_rl.support.garbage import no_garbage_collection

_KNOWN = {"torch", "numpy", "note_rl", *sys.stdlib_module_names}  # nothing that changes is read by what is in these
_OUT_OF_TENSORS: dict[Any, str] = {
    Tensor.numpy: "numpy()",
    Tensor.__array__: "numpy()",
    Tensor.tolist: "tolist()",
    Tensor.__dlpack__: "__dlpack__()",
}
_NEVER_THE_SAME = ("numpy.random", "random", "secrets", "time", "os")  # what modules give
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
CALLED = "()"


@dataclass(frozen=True)
class Lookup:
    """Where a value was looked up.

    Attributes:
        owner: The object, class or module, the globals, or the cell of a variable; a function that gives the value.
        name: The value's; `CALLED` where a function gives it.
        title: What the reader's own code calls it.
    """

    owner: Any
    name: str
    title: str

    @property
    def value(self) -> Any:
        """The current value there."""
        if isinstance(self.owner, CellType):
            try:
                return self.owner.cell_contents
            except ValueError:  # it is empty
                return ABSENT
        if self.name == CALLED:
            return self.owner()
        if isinstance(self.owner, ModuleType):
            return getattr(self.owner, self.name, ABSENT)
        return (self.owner if isinstance(self.owner, dict) else vars(self.owner)).get(self.name, ABSENT)


@contextmanager
def noted(agent: Any, layers: Sequence[nn.Module]) -> Iterator[list[Lookup]]:
    """Notes what is read within the block, in which the agent's own functions are called.

    Yields:
        The places, all of them after the block.

    Raises:
        ValueError: Something is read or changed that is another each time.
    """
    own = [agent, *(layer for layer in layers if not _is_of_torch(layer))]
    owners = [*own, *filter(_is_of_torch, layers)]
    places: list[Lookup] = []
    functions = _Functions({kind.__module__.partition(".")[0] for owner in own for kind in type(owner).__mro__})
    before = _drawn()
    with no_garbage_collection(), reads_of(owners) as names, functions.noted(), _NothingRead():
        yield places
    if _drawn() != before:
        raise ValueError("it draws random numbers from elsewhere than torch")
    places += [place for owner, read in zip(owners, names, strict=True) for place in _attributes(owner, read)]
    places += functions.places
    places += functions.of_classes({kind for owner in own for kind in type(owner).__mro__}, places)


def is_known(module: str, *names: str) -> bool:
    """Whether a module is one of these packages; of all that are known by default."""
    return module.partition(".")[0] in (names or _KNOWN)


def _is_of_torch(owner: Any) -> bool:
    return is_known(type(owner).__module__, "torch")


def _drawn() -> Any:
    """Returns the state of NumPy's and Python's random numbers."""
    return _comparable(np.random.get_state(legacy=False)), random.getstate()  # noqa: NPY002 (a loss may draw from it)


def _comparable(state: Any) -> Any:
    if isinstance(state, dict):
        return {name: _comparable(value) for name, value in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state


class _NothingRead(TorchFunctionMode):
    """Refuses to read numbers out of tensors into NumPy or Python, past what records kernels."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _OUT_OF_TENSORS:
            raise ValueError(f"it reads numbers out of a tensor, by .{_OUT_OF_TENSORS[func]}")
        return func(*args, **(kwargs or {}))


def _attributes(owner: Any, names: Mapping[str, None]) -> Iterator[Lookup]:
    """Yields where an object, or else its class, has these attributes."""
    is_layer, own = isinstance(owner, nn.Module), vars(owner)
    called = type(owner).__name__ if is_layer else "self"
    passing = () if is_layer else owner._bookkeeping
    for name in names:
        kind = next((kind for kind in type(owner).__mro__ if name in vars(kind)), None)
        if name.startswith("__") or name in (_OF_EVERY_LAYER if is_layer else _HANDED_OVER):
            continue
        if is_layer and any(name in own[held] for held in ("_modules", "_parameters", "_buffers")):
            continue  # `Layers` look at these
        if _is_of_torch(owner) and not _is_added(owner, name, kind):
            continue
        if name in passing or (kind is not None and _is_counted(kind, name)):
            raise ValueError(f"it reads {called}.{name}, which changes while the agent trains")
        if name in own or kind is None:
            yield Lookup(owner, name, f"{called}.{name}")
        elif not is_known(kind.__module__, "torch") and not _is_own_method(kind, name):
            yield Lookup(kind, name, f"{called}.{name}")


def _is_added(layer: nn.Module, name: str, kind: type | None) -> bool:
    """Whether an attribute of a layer of torch is one that `Layers` do not look at and torch does not count on."""
    if name not in vars(layer):
        return kind is None  # which may come
    own: type = type(layer)
    return not isinstance(vars(layer)[name], COMPARED) and not (name.startswith("_") and name in _named_by(own))


@cache
def _named_by(kind: type) -> frozenset[str]:
    """The names in the methods of a class and of its bases."""
    methods = (one for base in kind.__mro__ for one in vars(base).values() if isinstance(one, FunctionType))
    return frozenset(name for method in methods for name in names_in(method.__code__))


def _is_own_method(kind: type, name: str) -> bool:
    """Whether this is a function of one of this project's classes."""
    return isinstance(vars(kind)[name], FunctionType) and is_known(kind.__module__)


def _is_counted(kind: type, name: str) -> bool:
    """Whether an attribute is one of those by which every agent tells of its training."""
    return kind.__module__.startswith("note_rl.training.") and not isinstance(vars(kind)[name], FunctionType)


class _Functions:
    """Notes what is called that is not known, and from its code what that reads outside itself.

    Args:
        own: Packages that the agent and its layers are from; what else is installed counts as known.

    Attributes:
        places: Globals, and variables of functions around.
    """

    def __init__(self, own: Collection[str]) -> None:
        self.places: list[Lookup] = []
        self._own = own
        self._codes: dict[int, CodeType] = {}  # of all that was called
        self._unknown: list[CodeType] = []
        self._set: list[tuple[dict[str, Any], str, Any]] = []  # globals that are set, with what they were
        self._set_around: list[tuple[CellType, Any]] = []  # variables of functions around, likewise
        self._refused: str | None = None

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Takes note within the block; afterwards globals are as they were.

        Raises:
            ValueError: Something is set, or is another each time.
        """
        try:
            with profiled_by(self._profile):
                yield
        finally:
            for scope, name, value in self._set:
                scope.pop(name, None)
                if value is not ABSENT:
                    scope[name] = value
            for cell, value in self._set_around:
                cell.cell_contents = value
        if self._refused is not None:
            raise ValueError(self._refused)

    def _profile(self, frame: FrameType, event: str, called: Any) -> None:
        outside = read_from_outside(frame, event, called, self._own)
        if outside is not None:
            self._refused = f"it reads {outside}, another each time"
        code = frame.f_code
        if event != "call" or id(code) in self._codes:
            return
        self._codes[id(code)] = code
        if not self._is_known(frame):
            self._unknown.append(code)
            if "__dict__" in code.co_names:
                self._refused = "it reads __dict__, past which nothing is seen"
            self._globals_of(code, frame.f_globals)
            self._variables_of(code)

    def of_classes(self, kinds: Collection[type], places: Sequence[Lookup]) -> Iterator[Lookup]:
        """Yields what own code may read of classes past instances, as `type(self).NAME` does, and of enumerations.

        Args:
            kinds: Of agent and layers.
            places: Where values were looked up, among them classes and members of enumerations.
        """
        named = {name for code in self._unknown for name in code.co_names if not name.startswith("__")}
        members = [place.value for place in places if isinstance(place.value, enum.Enum)]
        held = [place.value for place in places if isinstance(place.value, type)]
        classes = {kind for one in (*kinds, *held, *map(type, members)) for kind in one.__mro__}
        own = [kind for kind in classes if not is_known(kind.__module__)]
        read = sorted({name for owner in (*own, *members) for name in named & vars(owner).keys()})
        for owner in (*own, *members):
            title = (owner if isinstance(owner, type) else type(owner)).__name__
            for name in read:  # also where it is not there: a subclass may get one that hides that of its base
                if not hasattr(type(vars(owner).get(name)), "__get__"):  # neither a method nor a property
                    yield Lookup(owner, name, f"{title}.{name}")

    def _is_known(self, frame: FrameType) -> bool:
        module = frame.f_globals.get("__name__", "")
        installed = is_installed(frame.f_code.co_filename) and not is_known(module, *self._own)
        return installed or is_known(module) or module.startswith("namedtuple_")

    def _globals_of(self, code: CodeType, scope: dict[str, Any]) -> None:
        calls = list(dis.get_instructions(code))
        for at, call in enumerate(calls):
            if call.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                self._set.append((scope, call.argval, scope.get(call.argval, ABSENT)))
                self._refused = f"it sets the global {call.argval}"
            elif call.opname in ("LOAD_GLOBAL", "LOAD_NAME") and call.argval in scope:
                names = [call.argval]
                for further in calls[at + 1 :]:
                    if further.opname not in _ATTRIBUTES:
                        break
                    names.append(further.argval)
                self._note(scope, names)

    def _note(self, scope: dict[str, Any], names: Sequence[str]) -> None:
        """Notes a global, or an attribute of a module or class that is not known, or a setting of torch."""
        place = Lookup(scope, names[0], f"the global {names[0]}")
        self.places.append(place)
        self._note_setting(place.value, place.title)
        for name in names[1:]:
            value = place.value
            if isinstance(value, ModuleType) and is_known(value.__name__):
                found = getattr(value, name, None)
                if (found.__name__ if isinstance(found, ModuleType) else value.__name__) in _NEVER_THE_SAME:
                    self._refused = f"it reads {place.title.removeprefix('the global ')}.{name}, another each time"
                    return
                place = Lookup(value, name, f"{place.title}.{name}")
                self._note_setting(found, place.title)
                if isinstance(found, PLAIN) and is_known(value.__name__, "torch"):  # such as flags of backends
                    self.places.append(place)
                continue
            owners = [value] if isinstance(value, ModuleType) else getattr(value, "__mro__", ())
            owner = next((one for one in owners if name in vars(one)), None)
            if not isinstance(value, (ModuleType, type)) or owner is None:
                return
            place = Lookup(owner, name, f"{place.title}.{name}")
            self.places.append(place)

    def _note_setting(self, found: Any, title: str) -> None:
        if any(found is setting for setting in SETTINGS):
            self.places.append(Lookup(found, CALLED, f"{title}()"))

    def _variables_of(self, code: CodeType) -> None:
        """Notes variables of functions around, but for those that are called here, whose variables are made anew."""
        if not code.co_freevars or self._is_within(code):
            return
        stored = {call.argval for call in dis.get_instructions(code) if call.opname == "STORE_DEREF"}
        for function in gc.get_referrers(code):  # a frame does not tell which function it runs
            if not isinstance(function, FunctionType) or function.__code__ is not code:
                continue
            for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
                place = Lookup(cell, name, f"{name}, a variable of the function around it")
                self.places.append(place)
                if name in stored:
                    self._set_around.append((cell, place.value))
                    self._refused = f"it sets {place.title}"

    def _is_within(self, code: CodeType) -> bool:
        return any(code is constant for outer in self._unknown for constant in outer.co_consts)


_OF_EVERY_LAYER = frozenset(vars(nn.Module()))
_HANDED_OVER = ("prioritized_replay", "_reports")
