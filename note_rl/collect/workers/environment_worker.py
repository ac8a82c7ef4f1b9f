"""A worker: an ordinary `Collector` in a process of its own."""

import json
import os
import pickle
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from note_rl.adaptive.scheduled import set_numbers
from note_rl.collect.collector import Collector
from note_rl.collect.policy_runner import ActingLearner, PolicyRunner
from note_rl.collect.step_join import columns_of
from note_rl.collect.workers.shared_memory import Segment, anonymous_file, layout
from note_rl.collect.workers.worker_messages import Collect, Collected, WorkerConfig
from note_rl.environments import Environments, some_environments
from note_rl.environments.multi_agent import joint_environments
from note_rl.environments.normalise import ObservationNormaliser
from note_rl.errors import AgentContractError
from note_rl.learners.base import Learner
from note_rl.learners.numpy_policy import DenseLayer, NumpyPolicy
from note_rl.learners.recurrence import RecurrentState
from note_rl.policy import Policy, PolicyPerEnvironment
from note_rl.seeding import generator, integer, seed_everything
from note_rl.types import Array, BoolArray, FloatArray, nested, under

_PARAMETERS = "agent/"  # begins the names of parameters in a learner's state


class Worker:
    """Collects in some of all environments.

    Args:
        config: What to do.
        weights: The segment where the training process writes parameters.

    Attributes:
        exact: Whether the environments are where the config's state says.
    """

    def __init__(self, config: WorkerConfig, weights: Segment) -> None:
        seed_everything(integer(config.seed, "worker", config.number))
        self._others = config.num_envs - len(config.places)
        agent: Any = None if config.agent is None else pickle.loads(config.agent).make()
        self._weights = weights.views(config.weights)
        self._version = -1
        self._agent = agent
        self._learner: Learner | None = None if config.activations is not None else agent.learner
        self._mirrored = None if config.activations is None else _Mirrored(self._weights, config.activations)
        answers = self._learner or self._mirrored
        assert answers is not None
        self._act = PolicyRunner[ActingLearner](answers, ObservationNormaliser(), config.multi_agent)
        self._rng = generator(config.seed, "exploration", config.number)
        policy = pickle.loads(config.policy)
        self._collector = Collector(_environments(config, agent), policy, self._rng, config.frame_stack, config.reads)
        self._segment: Segment | None = None
        self.exact = self._set_state(config.state) if config.state else True

    def collect(self, wanted: Collect) -> tuple[Collected, int | None]:
        """Collects into shared memory; returns where the steps lie, and the memory's descriptor if it is new."""
        set_numbers(self._collector.policy, wanted.numbers)
        for name, value in wanted.attributes.items():
            setattr(self._agent, name, value)
        self._act.normaliser.set_state(wanted.normaliser)
        self._take_weights(wanted)
        steps, episodes = self._collector.collect(self._act, wanted.num_steps)
        count_steps(self._collector.policy, self._others * wanted.num_steps)
        arrays = columns_of(steps)
        columns, num_bytes = layout(arrays)
        descriptor = None
        if self._segment is None or self._segment.num_bytes < num_bytes:
            descriptor = anonymous_file(num_bytes)
            self._segment = Segment(os.dup(descriptor), num_bytes)
        self._segment.write(columns, arrays)
        ended = [(episode.return_, episode.length, episode.env_index) for episode in episodes]
        return Collected(columns, self._segment.num_bytes, ended), descriptor

    def _take_weights(self, wanted: Collect) -> None:
        if wanted.version == self._version:
            return
        assert int(self._weights["version"]) == wanted.version
        self._version = wanted.version
        if self._learner is not None:
            self._set_parameters(self._learner)
        if self._mirrored is not None and wanted.activations is not None:
            self._mirrored.use(wanted.activations)

    def _set_parameters(self, learner: Learner) -> None:
        parameters = {name: values for name, values in self._weights.items() if name != "version"}
        own = [name for name in learner.get_state() if name.startswith(_PARAMETERS)]
        missing = [name for name in own if name not in parameters]
        if missing:
            raise AgentContractError(
                f"made again by its class and arguments, the agent has {missing[0]!r}, which the one that trains "
                "does not have: define build(self) on it, which is called in worker processes after the constructor"
            )
        learner.set_state(parameters)

    def get_state(self) -> dict[str, Array]:
        """Returns where it is, random numbers included."""
        random = json.dumps(self._rng.bit_generator.state).encode()
        state = {**self._collector.get_state(), "random": np.frombuffer(random, np.uint8)}
        if self._learner is not None:
            own = {name: v for name, v in self._learner.get_state().items() if not name.startswith(_PARAMETERS)}
            state.update(nested("learner", own))
        return state

    def close(self) -> None:
        """Closes its environments."""
        self._collector.envs.close()

    def _set_state(self, state: Any) -> bool:
        self._rng.bit_generator.state = json.loads(bytes(state["random"]))
        exact = self._collector.set_state(state)
        if self._learner is not None:
            self._learner.set_state({**self._learner.get_state(), **under("learner", state)})
        return exact


class _Mirrored:
    """Answers worked out in NumPy from layers that lie in shared memory.

    Args:
        weights: Kernels and biases, see `layer_arrays`.
        activations: As in `WorkerConfig`.
    """

    def __init__(self, weights: dict[str, Array], activations: bytes) -> None:
        self._weights = weights
        self.use(activations)

    def use(self, activations: bytes) -> None:
        """Takes these activations from now on."""
        by_agent: dict[int | None, list[Any]] = pickle.loads(activations)
        self._mirrors = {index: NumpyPolicy(partial(self._layers, index, own)) for index, own in by_agent.items()}

    def _layers(self, index: int | None, activations: list[Any]) -> list[DenseLayer]:
        return [
            (self._weights[f"{index}/{number}/kernel"], self._weights[f"{index}/{number}/bias"], activation)
            for number, activation in enumerate(activations)
        ]

    def act(
        self, obs: Array, state: RecurrentState | None = None, episode_start: BoolArray | None = None
    ) -> FloatArray:
        del state, episode_start  # no layers alone are recurrent
        return self._answer(obs, None)

    def act_one(self, obs: Array, agent_index: int) -> FloatArray:
        return self._answer(obs, agent_index)

    def act_with(self, obs: Array, noise: FloatArray) -> FloatArray:
        raise NotImplementedError("no agent with noise in its networks is mirrored")

    def _answer(self, obs: Array, index: int | None) -> FloatArray:
        return self._mirrors[index](obs)


def layer_arrays(index: int | None, layers: Sequence[DenseLayer]) -> dict[str, Array]:
    """Returns the arrays of an agent's layers under the names that workers read them by."""
    kinds = {"kernel": 0, "bias": 1}
    return {
        f"{index}/{number}/{kind}": np.asarray(layer[place])
        for number, layer in enumerate(layers)
        for kind, place in kinds.items()
    }


def _environments(config: WorkerConfig, agent: Any) -> Environments:
    env = pickle.loads(config.environments)
    if config.multi_agent:
        own = getattr(agent, "reward_done_func_ma", None)
        env = joint_environments(env, own if config.reward_done is None else pickle.loads(config.reward_done))
    return some_environments(env, config.places, config.seed)


def count_steps(policy: Policy, num_steps: int) -> None:
    """Moves counts of environment steps, by which policies anneal, past those that were taken elsewhere.

    A policy per environment counts the steps of its own only, wherever it is.
    """
    if num_steps and not isinstance(policy, PolicyPerEnvironment):
        state = policy.get_state()
        counts = {name: values + num_steps for name, values in state.items() if name.rpartition("/")[2] == "num_steps"}
        if counts:
            policy.set_state({**state, **counts})
