"""Where each hyperparameter lies that can be adapted, and how it is changed: always between two training phases."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, Protocol

from note_rl.adaptive.scheduled import owners
from note_rl.errors import SettingsError
from note_rl.learners.adjustable import LEARNING_RATE, OptimizerNumbers, numbered
from note_rl.policy import Policy
from note_rl.replay.experience import Experience
from note_rl.replay.samplers import PrioritizedSampler
from note_rl.settings.adaptive_rules import RULES
from note_rl.settings.experience import ReplaySettings, SequenceSettings
from note_rl.settings.switch_names import PR, SEQUENCES
from note_rl.support.setting_fields import named

_OF_OPTIMIZERS = (LEARNING_RATE, "beta1", "beta2", "weight_decay")
_OF_AGENTS: dict[str, tuple[str, ...]] = {
    "clip": ("clip",),
    "tau": ("tau",),
    "gamma": ("gamma",),
    "kl_coefficient": ("kl_coefficient", "kl_coef", "beta"),
}


class Hyperparameter(Protocol):
    """One number that can be changed.

    Attributes:
        name: Of what is changed, for people and files: `clip`, `learning_rate:0`.
        loss: Which loss it belongs to; None: all.
        default_gain: What the rule's gain is replaced by; None: nothing.
    """

    name: str
    loss: int | None
    default_gain: float | None

    def base(self, scheduled: Mapping[str, float]) -> float:
        """The value that settings and schedules give, right after the schedules have moved."""

    def set(self, value: float, for_learner: dict[str, float]) -> None:
        """From now on; the numbers that the learner takes with each update get those of this part, too."""

    def put_back(self) -> None:
        """Training is over for now: what belongs to the user is as it was."""


@dataclass
class OptimizerHyperparameter:
    """A number of one optimizer, or of one of its groups. The optimizer itself is not changed."""

    number: str
    index: int
    numbers: Callable[[], list[OptimizerNumbers]]
    default_gain: float | None = None

    def __post_init__(self) -> None:
        """Names it."""
        self.name = numbered(self.number, self.index)
        optimizer = self.numbers()[self.index]
        self.loss = optimizer.loss
        if self.number == LEARNING_RATE and optimizer.kind == "SGD":  # whose steps are as long as its gradients
            self.default_gain = 1.0

    def base(self, scheduled: Mapping[str, float]) -> float:
        """Of the schedule, or of the optimizer."""
        if self.number == LEARNING_RATE and LEARNING_RATE in scheduled:
            return scheduled[LEARNING_RATE]
        return self.numbers()[self.index].values[self.number]

    def set(self, value: float, for_learner: dict[str, float]) -> None:
        """Goes with each update."""
        for_learner[self.name] = value

    def put_back(self) -> None:
        """Nothing was changed."""


@dataclass
class AttributeHyperparameter:
    """A number of the agent, which also goes into compiled code, or of its policies."""

    name: str
    holders: list[Any]
    attribute: str
    of_agent: bool
    loss: int | None = None
    default_gain: float | None = None
    _base: float | None = None  # as the user left it
    _set: float | None = None

    def base(self, scheduled: Mapping[str, float]) -> float:
        """The current value of the attribute; if `set` has put that there, the value before."""
        now = float(getattr(self.holders[0], self.attribute))
        if self._base is None or now != self._set:
            self._base = now
        return self._base

    def set(self, value: float, for_learner: dict[str, float]) -> None:
        """In all that have it."""
        self._set = value
        for holder in self.holders:
            setattr(holder, self.attribute, value)
        if self.of_agent:
            for_learner[self.attribute] = value

    def put_back(self) -> None:
        """The number that the user knows."""
        if self._base is not None:
            for holder in self.holders:
                setattr(holder, self.attribute, self._base)
            self._set = None


@dataclass
class ExperienceHyperparameter:
    """A whole number of the settings of replay or rollouts."""

    name: str
    experience: Any
    field: str
    original: int
    loss: int | None = None
    default_gain: float | None = None

    def base(self, scheduled: Mapping[str, float]) -> float:
        """The value in the settings before adaptation."""
        return self.original

    def set(self, value: float, for_learner: dict[str, float]) -> None:
        """From the next phase on."""
        if getattr(self.experience.settings, self.field) != int(value):
            self.experience.settings = replace(self.experience.settings, **{self.field: int(value)})

    def put_back(self) -> None:
        """It belongs to nobody else."""


@dataclass
class FunctionHyperparameter:
    """A number behind two functions."""

    name: str
    read: Callable[[], float]
    write: Callable[[float], None]
    loss: int | None = None
    default_gain: float | None = None

    def base(self, scheduled: Mapping[str, float]) -> float:
        """The current value, as the function reads it."""
        return self.read()

    def set(self, value: float, for_learner: dict[str, float]) -> None:
        """From the next phase on."""
        self.write(value)

    def put_back(self) -> None:
        """It belongs to nobody else."""


@dataclass
class Override:
    """A whole number: as it was set, and as it is now."""

    told: int

    def __post_init__(self) -> None:
        """Nothing has changed it yet."""
        self.now = self.told

    def read(self) -> float:
        """As it was set."""
        return float(self.told)

    def write(self, value: float) -> None:
        """From now on."""
        self.now = int(value)


@dataclass
class Places:
    """The parts of a training run in which hyperparameters are found.

    Attributes:
        agent: Whose attributes may be changed.
        policy: How it explores.
        experience: What it is trained from.
        numbers: Of its optimizers, as soon as these are known.
        num_store: How often is collected before a phase.
    """

    agent: Any
    policy: Policy
    experience: Experience
    numbers: Callable[[], list[OptimizerNumbers]]
    num_store: Override


def hyperparameters_of(name: str, place: Places) -> list[Hyperparameter]:
    """All that a parameter's name stands for: one, or one per optimizer.

    Raises:
        SettingsError: There is nothing of that name here; the message names what would have it.
    """
    if name in _OF_OPTIMIZERS:
        return list(_of_optimizers(name, place.numbers))
    if name == "eps":
        return [_of_policy(name, place.policy)]
    if name in _OF_AGENTS or name not in RULES:
        return [_of_agent(name, place.agent)]
    if name == "num_store":
        return [FunctionHyperparameter(name, place.num_store.read, place.num_store.write)]
    return [_of_experience(name, place.experience)]


def _of_policy(name: str, policy: Policy) -> Hyperparameter:
    holders = owners(policy, name)
    if not holders:
        raise SettingsError(f"{name} is to be adapted, but {type(policy).__name__} has none")
    return AttributeHyperparameter(name, list(holders), name, of_agent=False)


def _of_agent(name: str, agent: Any) -> Hyperparameter:
    attributes = _OF_AGENTS.get(name, (name,))
    agent.refuse_to_move(name)
    for attribute in attributes:
        if isinstance(getattr(agent, attribute, None), Real):
            return AttributeHyperparameter(name, [agent], attribute, of_agent=True)
    asked = " or ".join(attributes)
    raise SettingsError(f"{name} is to be adapted, but {type(agent).__name__} has no attribute {asked}")


def _of_optimizers(name: str, numbers: Callable[[], list[OptimizerNumbers]]) -> Iterator[Hyperparameter]:
    for index, optimizer in enumerate(numbers()):
        if name in optimizer.values:
            yield OptimizerHyperparameter(name, index, numbers)
        elif name != "weight_decay":  # none was asked for: 0 stays 0
            others = ", ".join(optimizer.values) or "nothing"
            raise SettingsError(
                f"{name} of {optimizer.kind} cannot be changed while training goes on; of this optimizer: {others}"
            )


def _of_experience(name: str, experience: Any) -> Hyperparameter:
    settings = experience.settings
    is_replay = isinstance(settings, ReplaySettings)
    if name in ("alpha", "per_beta"):
        if settings.priority is None or (name == "per_beta" and not is_replay):
            where = "" if name == "alpha" else " and a replay pool"
            raise SettingsError("{} is to be adapted, which needs {}{}", name, PR.at(True), where)
        return _of_priorities(name, experience)
    if name == "num_updates" and isinstance(settings, SequenceSettings):
        ratio = named(SequenceSettings, "replay_ratio")
        raise SettingsError("{} is to be adapted, but with {} it is drawn by {}", name, SEQUENCES.at(True), ratio)
    field = {
        "batch_size": "batch_size",
        "num_updates": "gradient_steps" if is_replay else "num_epochs",
        "update_interval": "target_update_interval",
    }[name]
    if name == "update_interval" and is_replay and settings.target_update_env_steps is not None:
        field = "target_update_env_steps"
    original = getattr(settings, field)
    if original is None:
        start = named(type(settings), field)
        raise SettingsError("{} is to be adapted, but there is no number to start from: give {}", name, start)
    return ExperienceHyperparameter(name, experience, field, original)


def _of_priorities(name: str, experience: Any) -> Hyperparameter:
    priority = experience.settings.priority
    if name == "per_beta":
        sampler: PrioritizedSampler = experience.buffer.sampler

        def set_beta(value: float) -> None:
            sampler.beta_factor = value / sampler.scheduled_beta

        return FunctionHyperparameter(name, lambda: sampler.scheduled_beta, set_beta)

    def set_alpha(value: float) -> None:
        if isinstance(experience.settings, ReplaySettings):
            experience.buffer.sampler.set_alpha(value)
        else:
            now = replace(experience.settings.priority, alpha=value)
            experience.settings = replace(experience.settings, priority=now)

    return FunctionHyperparameter(name, lambda: float(priority.alpha), set_alpha)
