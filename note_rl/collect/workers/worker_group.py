"""Workers at work, as one."""

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from note_rl.collect.agent_recipe import plain_attributes
from note_rl.collect.policy_runner import PolicyRunner
from note_rl.collect.step_join import side_by_side
from note_rl.collect.workers.processes import WorkerPool
from note_rl.collect.workers.shared_memory import Segment
from note_rl.collect.workers.shared_parameters import SharedParameters
from note_rl.collect.workers.worker_messages import Collect, Collected, TellState, WorkerConfig
from note_rl.learners.base import Learner
from note_rl.settings.workers import StartMethod
from note_rl.types import Array, BoolArray, Episode, Steps


class RunningWorkers:
    """The processes of a pool while it is running: asked together, answering as one.

    Args:
        configs: One per worker.
        agent: By whose attributes workers act, where they have one like it.
        parameters: That they act by.
        start_method: See `WorkerSettings`.
        preload: Modules that are imported before workers are forked.

    Attributes:
        exact: Whether all environments are where the configs' states say.
        asked: Whether steps have been asked for that were not received yet.

    Raises:
        WorkerError: One of them failed.
    """

    def __init__(
        self,
        configs: Sequence[WorkerConfig],
        agent: Any,
        parameters: SharedParameters,
        start_method: StartMethod,
        preload: Sequence[str],
    ) -> None:
        self._places = [config.places for config in configs]
        self._attributes: Callable[[], dict[str, Any]] = (
            partial(plain_attributes, agent) if any(config.agent is not None for config in configs) else dict
        )
        self._parameters = parameters
        self._segments: dict[int, Segment] = {}
        self.asked = False
        forked = start_method == "forkserver" or (start_method == "auto" and sys.platform == "linux")
        self._workers = WorkerPool(len(configs), forked, preload)
        try:
            for number, config in enumerate(configs):
                self._workers.send(number, config, parameters.descriptor)
            self.exact = all(ready.exact for ready, _ in self._workers.receive())
        except BaseException:
            self.end()
            raise

    def ask(self, num_steps: int, numbers: Mapping[str, float], act: PolicyRunner[Learner]) -> None:
        """Has every worker collect, with the parameters as they are now."""
        assert not self.asked, "parameters must not change under workers that are collecting"
        activations = self._parameters.publish()
        version = self._parameters.version
        wanted = Collect(num_steps, version, numbers, self._attributes(), act.normaliser.get_state(), activations)
        self.asked = True
        for number in range(len(self._places)):
            self._workers.send(number, wanted)

    def receive(self) -> tuple[Steps, list[Episode]]:
        """Returns the steps that were asked for, and the episodes that ended in them, in order."""
        parts, episodes = [], []
        for number, (collected, descriptor) in enumerate(self._workers.receive()):
            assert isinstance(collected, Collected)
            if descriptor is not None:
                self._segments[number] = Segment(descriptor, collected.num_bytes)
            parts.append(self._segments[number].views(collected.columns))
            places = self._places[number]
            episodes += [Episode(return_, length, places[index]) for return_, length, index in collected.episodes]
        self.asked = False
        steps = side_by_side(parts, self._places)
        return steps, _in_order(episodes, steps.ended)

    @property
    def broken(self) -> bool:
        """Whether one of them has failed or died, so that nothing of them can be kept."""
        return self._workers.broken

    def state(self) -> dict[str, Array]:
        """Returns where the workers are, under their numbers; nothing may be asked for."""
        assert not self.asked
        for number in range(len(self._places)):
            self._workers.send(number, TellState())
        return {
            f"{number}/{name}": values
            for number, (state, _) in enumerate(self._workers.receive())
            for name, values in state.arrays.items()
        }

    def check(self) -> None:
        """Raises WorkerError if one of them has failed."""
        self._workers.check()

    def end(self) -> None:
        """Ends all processes at once."""
        self._workers.end()
        self._parameters.close()


def _in_order(episodes: Sequence[Episode], ended: BoolArray) -> list[Episode]:
    """Returns episodes, which are in order for each environment, in the order in which they ended.

    Args:
        episodes: Of all environments.
        ended: At which steps they ended, [T, E].
    """
    of_env: dict[int, list[Episode]] = {}
    for episode in episodes:
        of_env.setdefault(episode.env_index, []).append(episode)
    remaining = {env_index: iter(its_episodes) for env_index, its_episodes in of_env.items()}
    return [next(remaining[int(env_index)]) for env_index in np.nonzero(ended)[1]]
