"""Values that a traced function of a Keras agent has taken for constant, and whether they still hold.

TensorFlow traces a function once: a number that the agent looks up in `self` is written into the graph, and what
changes in Python while it is traced changes that one time only. So what tracing can have read is noted and compared
before each update, and a function that changes what it reads is not traced.
"""

import random
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from types import CodeType, FunctionType
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf

from note_rl.learners.attribute_reads import reads_of
from note_rl.learners.captured_values import ABSENT, PLAIN
from note_rl.learners.external_calls import reads_from_outside
from note_rl.learners.keras.contents import Contents
from note_rl.learners.keras.environment_reads import ReadEnvironment, apart, generators_of, with_wrapped
from note_rl.learners.keras.holders import Holder, SharedGenerator, is_of_a_library
from note_rl.learners.keras.keras_internals import rate_of
from note_rl.learners.python_objects import iterator_named_by
from note_rl.support.garbage import no_garbage_collection

Traced = TypeVar("Traced")

_CALLED = ("__call__", "update")  # which are looked up on the class
_TRACED = (*_CALLED, "update_param", "action", "noisy_action", "value", "reward")
_OF_PYTHON = (AttributeError, NotImplementedError, TypeError)  # where a tensor is taken for a number
_SETTINGS = {
    f"keras.config.{one.__name__}()": one
    for one in (keras.config.floatx, keras.config.epsilon, keras.config.image_data_format)
}
_GENERATORS = {
    "random numbers of Python": SharedGenerator(random),
    "random numbers of NumPy": SharedGenerator(np.random),
}


class NotTraceableError(Exception):
    """A traced function would not do what the function does; says why."""


class Everything:
    """All that a function of an agent may change in Python, to be put back.

    Args:
        agent: Its attributes but for those of its base class, and the globals that its own methods name.

    Attributes:
        contents: What there is now.
        environments: Those that it may read.
    """

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        self._attributes = dict(vars(agent))
        self._of_classes = [(kind, dict(vars(kind))) for kind in _own_classes(agent)]
        self.environments: list[ReadEnvironment] = []
        self._spaces: list[tuple[str, Any]] = []
        self.contents = Contents(self._roots, [agent])
        if found := self.contents.environments:
            titles = [f"self.{name}" if name in self._attributes else name for name, _ in found]
            pairs = zip(titles, found, strict=True)
            self.environments = [one for title, (_, env) in pairs for one in with_wrapped(env, title)]
            self.contents = Contents(self._roots, [agent])
        if spaces := self.contents.spaces:
            self._spaces = spaces
            self.contents = Contents(self._roots, [agent])

    @property
    def has_own_code(self) -> bool:
        """Whether something that the agent holds is code of no library; which environment it is for does not count.

        Functions of an agent of a library do not run it, and one of the user's own is own code by itself.
        """
        inside = Contents(lambda: {name: one for name, one in self._roots().items() if name != "env"}, [self._agent])
        return inside.has_own_code

    def put_back(self) -> None:
        """Has all be as it was."""
        vars(self._agent).clear()
        vars(self._agent).update(self._attributes)
        for one in self.environments:
            one.put_back()
        self.contents.put_back()
        for kind, attributes in self._of_classes:
            for name in [name for name in {**attributes, **vars(kind)} if not name.startswith("__")]:
                if name not in attributes:
                    delattr(kind, name)
                elif vars(kind).get(name) is not attributes[name]:
                    setattr(kind, name, attributes[name])

    def _roots(self) -> dict[str, Any]:
        left_out = _bookkeeping(self._agent)
        attributes = {name: value for name, value in vars(self._agent).items() if name not in left_out}
        names = {name for kind in _own_classes(self._agent) for name in vars(kind)}
        of_environments = apart(item for one in self.environments for item in one.changing().items())
        drawn = apart((f"random numbers of {name}", generators_of(space)) for name, space in self._spaces)
        return {
            **attributes,
            **_of_classes(_own_classes(self._agent), names),
            **of_environments,
            **drawn,
            **_GENERATORS,
        }


def _bookkeeping(agent: Any) -> set[str]:
    return {*vars(agent).get("_bookkeeping", ()), "_bookkeeping"}


def _own_classes(agent: Any) -> list[type]:
    return [kind for kind in type(agent).__mro__ if not is_of_a_library(kind)]


def _named_in_methods(agent: Any) -> set[str]:
    """The names in the code of the methods of own classes, functions within them included."""
    methods = (method for kind in _own_classes(agent) for method in vars(kind).values())
    waiting = [method.__code__ for method in methods if isinstance(method, FunctionType)]
    named: set[str] = set()
    while waiting:
        code = waiting.pop()
        named.update(code.co_names)
        waiting += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
    return named


def _of_classes(own: Sequence[type], names: Collection[str]) -> dict[str, Any]:
    """Attributes of an agent's own classes under these names."""
    return {
        f"{kind.__name__}.{name}": value
        for kind in own
        for name, value in vars(kind).items()
        if name in names and (name in _CALLED or not name.startswith("__"))
    }


def _of_environment(one: ReadEnvironment) -> dict[str, Any]:
    return one.read() | _of_classes(_own_classes(one.env), one.names)


class Constants:
    """Everything that tracing can have read, as it was then.

    Attributes of the agent count if they were read; so do the globals that its own methods name, and all that is held
    by either, as `Contents` has it.

    Args:
        agent: Whose functions are traced.
        optimizers: All numbers and words of each count.
        inputs: Names of the agent's attributes that come as inputs.
        parameters: Variables that may be frozen and thawed.
    """

    def __init__(
        self,
        agent: Any,
        optimizers: Sequence[Any] = (),
        inputs: Collection[str] = (),
        parameters: Sequence[Any] = (),
    ) -> None:
        self._agent = agent
        self._optimizers = optimizers
        self._parameters = [(f"trainable {i}", f"constraint {i}", one) for i, one in enumerate(parameters)]
        self._left_out = {*inputs, *_bookkeeping(agent)}
        self._own = _own_classes(agent)
        self._packages = {kind.__module__.partition(".")[0] for kind in self._own}
        self._outside: list[str] = []  # what the last trace has read there
        self._read: set[str] = set()
        self._named: set[str] = set()  # in methods, some of which read attributes of classes past the agent
        self._of_kinds: set[str] = set()  # looked up in own classes
        self._counts: list[str] = []
        self._environments: list[ReadEnvironment] = []
        self._contents: Contents | None = None
        self._numbers: dict[str, Any] = {}  # of optimizers
        self._of_optimizers: list[Holder] = []

    def traced(self, trace: Callable[[], Traced]) -> Traced:
        """Returns what `trace` gives, which traces a function.

        What only the first call of all does, such as making a table, is done in a first trace. Where code of the user's
        is run, a second one listens to what is read from outside: while AutoGraph converts functions, which it does
        once, a profiler would make it take four times as long.

        Raises:
            NotTraceableError: The function changes what it reads, reads what can change unseen, or takes tensors for
                numbers. All is as it was.
        """
        iterator = iterator_named_by(self._agent, _TRACED)
        if iterator is not None:
            raise NotTraceableError(f"reads {iterator}, an iterator, which gives another answer each time")
        before = Everything(self._agent)
        known = {id(one.env) for one in self._environments}
        self._environments += [one for one in before.environments if id(one.env) not in known]
        try:
            runs_own_code = self._runs_own_code() or before.has_own_code
            for is_second in (False, True):
                earlier = before.contents.now()
                with self.guarded(listening=is_second and runs_own_code):
                    traced = trace()
                if unseen := self._unseen():
                    before.put_back()
                    raise NotTraceableError(f"reads {unseen}")
                moved = self._moved(earlier, earlier.now())
                if not moved and (is_second or not runs_own_code):
                    return traced
                if any(map(_is_symbolic, moved.values())):
                    break
        except _OF_PYTHON as error:
            if not _takes_tensors_for_numbers(error):
                raise
            before.put_back()
            raise NotTraceableError(f"takes a tensor for a number ({str(error).strip().splitlines()[-1]})") from error
        before.put_back()
        raise NotTraceableError(f"changes {' and '.join(moved)}")

    def _unseen(self) -> str:
        """Returns what was read that can change unseen."""
        assert self._contents is not None
        of_outside = [f"{what}, another each time" for what in self._outside]
        return ", ".join(list(dict.fromkeys([*of_outside, *self._contents.unwatched]))[:2])

    def _moved(self, before: Contents, now: Contents) -> dict[str, Any]:
        """Returns what has changed of what was read, by name; something that was written first is a result."""
        attributes = {*vars(self._agent), *self._read}
        read = {name for one in self._environments for name in one.read()}
        left_out = {name for one in self._environments for name in one.changing()} - read  # other threads step them
        return {
            f"self.{name}" if name in attributes else name: value
            for name, value in before.differences(now).items()
            if name in self._read or name not in {*attributes, *left_out}
        }

    @contextmanager
    def guarded(self, listening: bool = True) -> Iterator[None]:
        """Notes what is read within the block, in which a function is traced.

        Args:
            listening: Whether to what is read from outside, too, which takes a profiler.
        """
        outside: AbstractContextManager[list[str]] = nullcontext([])
        if listening:
            outside = reads_from_outside(self._packages)
        targets = [self._agent, *(one.env for one in self._environments)]
        with no_garbage_collection(), reads_of(targets) as [names, *of_environments], outside as self._outside:
            yield
        self._read |= {name for name in names.keys() - self._left_out if not name.startswith("__")}
        self._named = _named_in_methods(self._agent)
        if "__dict__" in self._named:
            self._read |= vars(self._agent).keys() - self._left_out
        self._of_kinds = {*self._read, *self._named, *_CALLED}
        self._counts = self._counts_read()
        for one, noted in zip(self._environments, of_environments, strict=True):
            one.note(noted)
        self._contents = Contents(self._constants, [self._agent])
        self._hold_optimizers()

    def _runs_own_code(self) -> bool:
        """Whether agent or optimizers are of classes that no library has."""
        of_optimizers = [*self._optimizers, *map(_schedule_of, self._optimizers)]
        return bool(self._packages) or not all(is_of_a_library(type(one)) for one in of_optimizers)

    def changed(self) -> list[str]:
        """Returns the names of what is no longer as it was when it was noted."""
        if self._contents is None:
            return []
        if self._contents.is_held() and all(holder.is_held() for holder in self._of_optimizers):
            return []
        now, numbers = self._contents.now(), self._numbers_now()
        names = list(self._contents.differences(now))
        names += [name for name, value in numbers.items() if self._numbers.get(name) != value]
        if not names:
            self._contents = now
            self._hold_optimizers()
        return names

    def _hold_optimizers(self) -> None:
        self._numbers = self._numbers_now()
        self._of_optimizers = [Holder([], partial(_values_of, one)) for one in self._optimizers]

    def _numbers_now(self) -> dict[str, Any]:
        return {
            f"{type(one).__name__} {index}: {name}": (type(value), value)
            for index, one in enumerate(self._optimizers)
            for name, value in vars(one).items()
            if isinstance(value, PLAIN)
        }

    def _constants(self) -> dict[str, Any]:
        """The values that the traced function has read, and the settings of Keras that hold for all that it makes."""
        attributes = vars(self._agent)
        values = {name: attributes.get(name, ABSENT) for name in self._read}
        values |= _of_classes(self._own, self._of_kinds)
        if read := [one for one in self._environments if one.names]:
            values |= apart(item for one in read for item in _of_environment(one).items())
        values |= {name: setting() for name, setting in _SETTINGS.items()}
        values["keras.config.dtype_policy()"] = keras.config.dtype_policy().name
        values |= {name: getattr(self._agent, name, ABSENT) for name in self._counts}
        if self._parameters:
            for trainable, constraint, one in self._parameters:  # by name: a new tuple would count as a change
                values[trainable] = getattr(one, "trainable", True)
                values[constraint] = getattr(one, "constraint", None)
        values |= {f"{type(one).__name__}: learning rate": one for one in map(_schedule_of, self._optimizers) if one}
        return values

    def _counts_read(self) -> list[str]:
        """Which of what was read are properties of this package, as the counts by which an agent tells of its life."""
        first = {
            name: kind for kind in reversed(type(self._agent).__mro__) for name in vars(kind) if name in self._read
        }
        return [name for name, kind in first.items() if is_of_a_library(kind) and _is_worked_out(vars(kind)[name])]


def _schedule_of(optimizer: Any) -> Any:
    rate = rate_of(optimizer)
    return rate if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule) else None


def _values_of(one: Any) -> list[Any]:
    return list(vars(one).values())


def _is_worked_out(value: Any) -> bool:
    return hasattr(value, "__get__") and not isinstance(value, FunctionType | staticmethod | classmethod)


def _is_symbolic(value: Any) -> bool:
    """Whether this is a tensor of a function that was traced, which is of no use outside of it."""
    return isinstance(value, tf.Tensor) and not hasattr(value, "numpy")


def _takes_tensors_for_numbers(error: Exception) -> bool:
    """Whether this is what TensorFlow says where a number is asked for while a function is traced."""
    of_graphs = (NotImplementedError, tf.errors.OperatorNotAllowedInGraphError)
    return isinstance(error, of_graphs) or "symbolic" in str(error).lower()
