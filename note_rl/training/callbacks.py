"""Hooks into training."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from note_rl.errors import SettingsError

Logs = Mapping[str, float]


class Callback:
    """Base class of hooks; override what is needed. Set `self.agent.stop_training = True` to stop.

    Training stops at the end of the running phase (an episode, a rollout, `train_freq` steps), so that nothing is left
    half done. Any object with some of these methods will do as well; hooks may leave out trailing arguments.

    A class that counts, or remembers anything else from one hook to the next, defines `get_state` and `set_state`. Its
    state then stands in checkpoints, and a resumed run is the undisturbed one for it, too:

        class Count(Callback):
            num_phases = 0

            def on_phase_end(self, phase, logs):
                self.num_phases += 1

            def get_state(self):
                return {"num_phases": self.num_phases}

            def set_state(self, state):
                self.num_phases = state["num_phases"]

    Attributes:
        changes_parameters: Whether hooks may set parameters of the agent by hand. They are then read again before the
            next action; a class that never does so saves that by False.
        writes_checkpoints: Whether hooks save the agent. They are then called after those of all other callbacks, whose
            states are so of the same moment as the agent's.
    """

    agent: Any = None
    changes_parameters: bool = True
    writes_checkpoints: bool = False

    def get_state(self) -> Mapping[str, Any]:
        """Returns what `set_state` needs to go on from here; asked for once when training begins, and at each save().

        Returns:
            By name, arrays of numbers (any shape), or None, numbers, texts, and lists and dicts of these. It is stored
            under the name of the class, with a number behind it if several of one class are passed.
        """
        return {}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from a stored state.

        Called when train() begins for the first time after restore(), after `set_agent` and before `on_train_begin`. So
        it is where training itself goes on: a run that is resumed, a trial that goes on, and one
        that continues from a copy of another run, which has the state of the run that was copied.

        Args:
            state: What `get_state` returned; a number of NumPy comes back as an array [].
        """

    def set_agent(self, agent: Any) -> None:
        """Called once, before training begins."""
        self.agent = agent

    def on_train_begin(self, logs: Logs) -> None:
        """Before the first step; logs: num_env_steps."""

    def on_train_end(self, logs: Logs) -> None:
        """After the last step, also when training was stopped; logs: num_env_steps."""

    def on_episode_begin(self, episode: int, logs: Logs) -> None:
        """When the count of finished episodes moves on to `episode`, and training goes on; logs: num_env_steps."""

    def on_episode_end(self, episode: int, logs: Logs) -> None:
        """After the phase in which an episode ended.

        Logs: reward (its return), length, loss (of the last training phase); num_env_steps and time (seconds, as
        time.perf_counter() counts them) at its own end. Within a phase, time is taken to pass evenly over its steps.
        """

    def on_batch_begin(self, batch: int, logs: Logs) -> None:
        """Before gradient step `batch`; logs: num_env_steps. Those of an update block are announced together."""

    def on_batch_end(self, batch: int, logs: Logs) -> None:
        """After gradient step `batch`; logs: loss. Those of an update block are reported together."""

    def on_phase_end(self, phase: int, logs: Logs) -> None:
        """After collecting and training once; logs: num_env_steps, num_gradient_steps, loss and scheduled values.

        What the loss has reported, gradient norms and the like are in `self.agent.reported`, for who looks at them.
        """

    def on_plateau(self, text: str, logs: Logs) -> None:
        """After a `Plateau` has lowered learning rates, of which `text` speaks; logs: num_env_steps, learning_rate."""


_NAMES = [name for name in vars(Callback) if name.startswith("on_")]


def as_callbacks(given: Any) -> list[Any]:
    """The callbacks in the argument of train(callbacks=...): None, one of them, or several.

    Raises:
        SettingsError: Something that has none of the hooks.
    """
    callbacks = list(given) if isinstance(given, list | tuple) else [] if given is None else [given]
    for one in callbacks:
        if isinstance(one, type):
            raise SettingsError(f"callbacks must hold objects, got the class {one.__name__}: write {one.__name__}()")
        if not any(callable(getattr(one, name, None)) for name in _NAMES):
            raise SettingsError(f"callbacks must hold objects with a method such as on_episode_end, got {one!r}")
    return callbacks


class LambdaCallback(Callback):
    """A callback made of functions: `LambdaCallback(on_episode_end=lambda episode, logs: ...)`."""

    def __init__(self, **hooks: Callable[..., None]) -> None:
        unknown = sorted(set(hooks) - set(_NAMES))
        if unknown:
            raise TypeError(f"unknown hook {unknown[0]!r}; known are {', '.join(_NAMES)}")
        for name, hook in hooks.items():
            setattr(self, name, hook)


class Hooks:
    """Calls the hooks of several callbacks, in order, those that save last; those that nobody defined cost nothing.

    Attributes:
        parameters_may_have_changed: Whether a hook was called that may have set parameters; lowered by the reader.
    """

    def __init__(self, callbacks: Sequence[Any], agent: Any) -> None:
        callbacks = sorted(callbacks, key=lambda one: bool(getattr(one, "writes_checkpoints", False)))
        for callback in callbacks:
            if hasattr(callback, "set_agent"):
                callback.set_agent(agent)
        self._hooks = {name: [_lenient(getattr(c, name)) for c in callbacks if _defines(c, name)] for name in _NAMES}
        changing = [c for c in callbacks if getattr(c, "changes_parameters", True)]
        self._changing = {name for name in _NAMES if any(_defines(c, name) for c in changing)}
        self.parameters_may_have_changed = False

    def __call__(self, name: str, *arguments: Any) -> None:
        """Runs one hook of all callbacks."""
        for hook, most in self._hooks[name]:
            hook(*arguments[:most])
        if name in self._changing:
            self.parameters_may_have_changed = True

    def wants(self, name: str) -> bool:
        """Whether any callback defines this hook."""
        return bool(self._hooks[name])


def _lenient(hook: Callable[..., None]) -> tuple[Callable[..., None], int | None]:
    """The hook and how many positional arguments it takes; None: any number."""
    try:
        parameters = inspect.signature(hook).parameters.values()
    except ValueError:  # some builtins do not tell
        return hook, None
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return hook, None
    return hook, sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


def _defines(callback: Any, name: str) -> bool:
    hook = getattr(callback, name, None)
    return hook is not None and getattr(hook, "__func__", None) is not getattr(Callback, name)
