"""Moving the numbers of policy, agent and optimizer along their schedules."""

from collections.abc import Iterable, Mapping
from typing import Any

from note_rl.errors import SettingsError
from note_rl.learners.adjustable import LEARNING_RATE
from note_rl.policy import Policy
from note_rl.settings.schedules import Schedule

ADAPTABLE = ("eps",)  # numbers of a policy that may also change without a schedule


class ScheduledValues:
    """Knows which schedule belongs to the policy (each of several, if it is a list) and which to the agent.

    Raises:
        SettingsError: A name that is neither the policy's, the agent's nor the learning rate, or a setting of the agent
            that no schedule can move.
    """

    def __init__(self, schedules: Mapping[str, Schedule], policy: Policy, agent: Any) -> None:
        self._schedules = schedules
        self._policy = policy
        self._agent = agent
        self._owners = {name: owners(policy, name) for name in schedules}
        self.for_learner = [name for name in schedules if not self._owners[name]]
        for name in self.for_learner:
            if name != LEARNING_RATE and not hasattr(agent, name):
                raise SettingsError(
                    f"there is a schedule for {name!r}, but neither {type(policy).__name__} nor "
                    f"{type(agent).__name__} has such a number; did you mean learning_rate?"
                )
            agent.refuse_to_move(name)

    def move_to(self, progress: float) -> dict[str, float]:
        """Sets everything to its value at this progress; returns the numbers that the learner takes."""
        for_learner = {}
        for name, schedule in self._schedules.items():
            value = float(schedule(progress))
            for owner in self._owners[name]:
                setattr(owner, name, value)
            if not self._owners[name]:
                for_learner[name] = value
                if name != LEARNING_RATE:
                    setattr(self._agent, name, value)
        return for_learner

    def of_the_policy(self) -> dict[str, float]:
        """The policy's scheduled numbers as they are now."""
        return numbers_of(self._policy, self._schedules)


def owners(policy: Policy, name: str) -> list[Policy]:
    """The policy and its parts, those that have such a number."""
    policies: list[Policy] = [policy, *getattr(policy, "policies", ())]
    return [part for part in policies if hasattr(part, name)]


def numbers_of(policy: Policy, names: Iterable[str]) -> dict[str, float]:
    """Those of the numbers that the policy has, as they are now."""
    holders = {name: owners(policy, name) for name in names}
    return {name: float(getattr(having[0], name)) for name, having in holders.items() if having}


def set_numbers(policy: Policy, numbers: Mapping[str, float]) -> None:
    """Gives them to a policy of the same kind."""
    for name, value in numbers.items():
        for owner in owners(policy, name):
            setattr(owner, name, value)
