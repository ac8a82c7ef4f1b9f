"""The configuration of each worker process, pickled."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from note_rl.collect.workers.shared_parameters import SharedParameters
from note_rl.collect.workers.worker_messages import WorkerConfig
from note_rl.collect.workers.worker_pickling import pickled, pickled_environments, pickled_policy, pickled_recipe
from note_rl.policy import Policy
from note_rl.settings import Settings
from note_rl.types import Array, under


@dataclass(frozen=True)
class WorkerPlan:
    """The settings that all workers have in common.

    Attributes:
        agent: Whose environments these are.
        settings: Of the run.
        seed: Root of all randomness.
        places: Which environments each worker has.
    """

    agent: Any
    settings: Settings
    seed: int
    places: Sequence[Sequence[int]]

    def configs(self, policy: Policy, parameters: SharedParameters, states: Mapping[str, Array]) -> list[WorkerConfig]:
        """Returns what each worker is to do.

        Args:
            policy: How to explore.
            parameters: That workers act by.
            states: Where they go on from, under their numbers; empty: the start.

        Raises:
            SettingsError: A part that cannot be pickled; what could be done instead is named.
        """
        multi_agent = self.settings.multi_agent
        reward_done = getattr(self.agent, "reward_done_func_ma", None)
        is_method = reward_done is not None and getattr(reward_done, "__self__", None) is self.agent
        needs_agent = not parameters.mirrored or (multi_agent and is_method)
        recipe = pickled_recipe(self.agent) if needs_agent else None
        function = None  # a worker has a method by its agent
        if reward_done is not None and not is_method:
            function = pickled("reward_done_func_ma", reward_done, "define it as a method of the agent")
        return [
            WorkerConfig(
                number=number,
                places=places,
                num_envs=sum(map(len, self.places)),
                seed=self.seed,
                environments=pickled_environments(self.agent.env, places),
                policy=pickled_policy(policy, places),
                frame_stack=self.settings.experience.frame_stack,
                reads=self.agent.batch_attributes,
                multi_agent=multi_agent,
                agent=recipe,
                reward_done=function,
                activations=parameters.activations,
                weights=parameters.columns,
                num_bytes=parameters.num_bytes,
                state=under(str(number), states),
            )
            for number, places in enumerate(self.places)
        ]
