"""Interface between the trainer and the parts that gather experience."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from note_rl.collect.policy_runner import PolicyRunner
from note_rl.environments.goals import GoalLayout
from note_rl.learners.base import Learner
from note_rl.policy import Policy
from note_rl.settings import Settings
from note_rl.types import Array, Episode, Steps


class Collecting(ABC):
    """Lets an agent act in E environments, here or elsewhere, and goes on where it stopped.

    Attributes:
        num_envs: E.
        action_space, observation_space: Of one environment.
        goal_layout: Where the goal stands in an observation, where tasks have one.
    """

    num_envs: int
    action_space: Any
    observation_space: Any
    goal_layout: GoalLayout | None

    @abstractmethod
    def collect(self, act: PolicyRunner[Learner], num_steps: int | None) -> tuple[Steps, list[Episode]]:
        """The next steps.

        Args:
            act: Answers observations.
            num_steps: Steps per environment; None: until an episode ends.

        Returns:
            The steps [T, E] and the episodes that ended in them, in order.
        """

    @abstractmethod
    def explore_with(self, policy: Policy, settings: Settings) -> None:
        """Goes on with another policy, or the same one, under settings that ask for the same environments."""

    @abstractmethod
    def get_state(self) -> dict[str, Array]:
        """Where the environments are, what their running episodes have gathered, and how far exploration has come."""

    @abstractmethod
    def set_state(self, state: Mapping[str, Array]) -> bool:
        """Takes over a stored state; False if the environments could not be brought back exactly.

        Raises:
            CheckpointError: It is of other environments, or was collected in another way.
        """

    def begin(self, act: PolicyRunner[Learner]) -> bool:
        """Called before a training run; False: the running episodes of the last one have been lost, new ones begin."""
        return True

    def check(self) -> None:  # noqa: B027 (nothing can fail elsewhere in this process)
        """Called now and then while the agent learns, so that a failure elsewhere is known soon."""

    def end(self, keep: bool) -> None:  # noqa: B027
        """Called after a training run.

        Args:
            keep: Whether it may be gone on with exactly; False: everything is to end at once.
        """

    @abstractmethod
    def close(self) -> None:
        """Closes environments that were made for this."""
