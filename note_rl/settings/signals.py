"""The signals that adaptation goes by: what options ask of one, and the registry in which they are found by name."""

import difflib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from note_rl.errors import SettingsError
from note_rl.errors.wording import Part, Sentence
from note_rl.settings.experience import ExperienceSettings, ReplaySettings, RolloutSettings
from note_rl.settings.switch_names import PPO, PR

# What measures builds on settings, so settings cannot import it: the package is loaded by name when a signal is
# first looked up, as Python loads its codecs.
_BUILT_IN = "note_rl.adaptive.signals"


@dataclass(frozen=True)
class Need:
    """Something without which a signal cannot be measured.

    Attributes:
        is_met: By these settings.
        refusal: What is said otherwise, after the name of the signal; it names the remedy.
    """

    is_met: Callable[[ExperienceSettings], bool]
    refusal: Part


PRIORITIES = Need(lambda experience: experience.priority is not None, Sentence("needs priorities: set {}", PR.at(True)))
IMPORTANCE_WEIGHTS = Need(
    lambda experience: isinstance(experience, ReplaySettings), "needs importance weights, which rollouts have none of"
)
POLICY_RATIOS = Need(
    lambda experience: isinstance(experience, RolloutSettings),
    Sentence("compares PPO's policies: set {}", PPO.at(True)),
)


@runtime_checkable
class RegisteredSignal(Protocol):
    """Interface of a signal for options; `note_rl.adaptive.signals.base.Signal` documents each of these."""

    @property
    def name(self) -> str:
        """In settings and files."""

    @property
    def text(self) -> str:
        """One line for people."""

    @property
    def target(self) -> float | str:
        """The target value by default."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """Conditions without which it cannot be measured."""

    @property
    def scales_with_batch(self) -> bool:
        """Whether its value is another one as soon as the batch size is."""

    @property
    def stands_for_kl(self) -> bool:
        """Whether it can be read as a KL divergence."""


SignalClass = TypeVar("SignalClass", bound=type)
_registry: dict[str, RegisteredSignal] = {}


def register(kind: SignalClass) -> SignalClass:
    """Makes a signal known by its name; a decorator for its class.

    Raises:
        SettingsError: Another signal has that name.
    """
    signal: RegisteredSignal = kind()
    known = _registry.get(signal.name)
    # the same class may come again, as when the cell of a notebook is run twice
    if known is not None and _home(type(known)) != _home(kind):
        raise SettingsError(f"there is a signal {signal.name!r} already, {_home(type(known))}; choose another name")
    _registry[signal.name] = signal
    return kind


def _home(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def registered() -> dict[str, RegisteredSignal]:
    """Returns all signals by name: those that come along, and those that users have registered."""
    importlib.import_module(_BUILT_IN)
    return dict(sorted(_registry.items()))


def find(name: str) -> RegisteredSignal:
    """Returns the signal of that name.

    Raises:
        SettingsError: There is none; the nearest one is named.
    """
    known = registered()
    if name not in known:
        near = difflib.get_close_matches(str(name), known, 1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
        raise SettingsError(f"signals: there is no {name!r}; {hint}")
    return known[name]


def described() -> str:
    """Returns the names of all signals, each with its line of text."""
    return "; ".join(f"{name}: {signal.text}" for name, signal in registered().items())


def check_signal(signal: RegisteredSignal, experience: ExperienceSettings) -> None:
    """Refuses a signal of adaptation that this kind of experience does not give.

    Raises:
        SettingsError: What it would need is named.
    """
    for need in signal.needs:
        if not need.is_met(experience):
            raise SettingsError("adaptive: the signal {} {}", signal.name, need.refusal)
