"""Hooks into training."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Logs = Mapping[str, float]


class Callback:
    """Base class of hooks; override what is needed. Set `self.agent.stop_training = True` to stop.

    Any object with some of these methods will do as well.
    """

    agent: Any = None

    def set_agent(self, agent: Any) -> None:
        """Called once, before training begins."""
        self.agent = agent

    def on_train_begin(self) -> None:
        """Before the first step."""

    def on_train_end(self) -> None:
        """After the last step, also when training was stopped."""

    def on_episode_begin(self, episode: int) -> None:
        """When the count of finished episodes moves on to `episode`."""

    def on_episode_end(self, episode: int, logs: Logs) -> None:
        """After an episode; logs: reward (its return), length, num_env_steps."""

    def on_batch_begin(self, batch: int) -> None:
        """Before a burst of gradient steps that begins with number `batch`."""

    def on_batch_end(self, batch: int, logs: Logs) -> None:
        """After gradient step number `batch`; logs: loss. Steps of a burst are reported together after it."""

    def on_phase_end(self, phase: int, logs: Logs) -> None:
        """After collecting and training once; logs: num_env_steps, num_gradient_steps, loss and scheduled values."""


class LambdaCallback(Callback):
    """A callback made of functions: `LambdaCallback(on_episode_end=lambda episode, logs: ...)`."""

    def __init__(self, **hooks: Callable[..., None]) -> None:
        unknown = sorted(name for name in hooks if not name.startswith("on_") or not hasattr(Callback, name))
        if unknown:
            known = ", ".join(name for name in vars(Callback) if name.startswith("on_"))
            raise TypeError(f"unknown hook {unknown[0]!r}; known are {known}")
        for name, hook in hooks.items():
            setattr(self, name, hook)


class Hooks:
    """Calls the hooks of several callbacks, in order; those that nobody defined cost nothing."""

    def __init__(self, callbacks: Sequence[Any], agent: Any) -> None:
        for callback in callbacks:
            if hasattr(callback, "set_agent"):
                callback.set_agent(agent)
        names = [name for name in vars(Callback) if name.startswith("on_")]
        self._hooks = {name: [getattr(c, name) for c in callbacks if _defines(c, name)] for name in names}

    def __call__(self, name: str, *arguments: Any) -> None:
        """Runs one hook of all callbacks."""
        for hook in self._hooks[name]:
            hook(*arguments)

    def wants(self, name: str) -> bool:
        """Whether any callback defines this hook."""
        return bool(self._hooks[name])


def _defines(callback: Any, name: str) -> bool:
    hook = getattr(callback, name, None)
    return hook is not None and getattr(hook, "__func__", None) is not getattr(Callback, name)
