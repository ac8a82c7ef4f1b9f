"""An agent's parameters in shared memory, from which workers act."""

import os

import cloudpickle  # type: ignore[import-untyped]
import numpy as np

from note_rl.collect.policy_runner import PolicyRunner
from note_rl.collect.workers.environment_worker import layer_arrays
from note_rl.collect.workers.shared_memory import Segment, anonymous_file, layout
from note_rl.environments.frames import FrameStack
from note_rl.learners.base import Learner
from note_rl.types import Array


class SharedParameters:
    """Publishes what workers need to act like the agent: mirrored layers if it has such, else all its parameters.

    Nobody may be reading while something is published.

    Args:
        act: How the agent answers.
        obs: What an environment shows, [1, *obs].
        frame_stack: Frames that the agent is shown together.

    Attributes:
        mirrored: Whether workers need the layers only.
        columns: Where arrays lie in the segment.
        num_bytes: Its size.
        descriptor: To be handed to workers.
        version: Of what was published last; counts up.
        activations: Of mirrored layers, pickled, as they were published last.
    """

    def __init__(self, act: PolicyRunner[Learner], obs: Array, frame_stack: int) -> None:
        self._learner = act.learner
        act(FrameStack(frame_stack).show(obs, np.ones(1, np.bool_)))  # decides whether layers are mirrored
        self._indices: list[int | None] = list(range(obs.shape[1])) if act.multi_agent else [None]
        mirrored = all(self._learner.actor.is_mirrored(index) for index in self._indices)
        self.mirrored = mirrored and not act.num_noise  # layers alone have no noise
        self.version = 0
        arrays = self._arrays()
        self.columns, self.num_bytes = layout(arrays)
        self.descriptor = anonymous_file(self.num_bytes)
        self._segment = Segment(os.dup(self.descriptor), self.num_bytes)
        self.activations = self._activations()

    def publish(self) -> bytes | None:
        """Writes the parameters as they are now; returns the activations if they have changed."""
        self.version += 1
        self._segment.write(self.columns, self._arrays())
        former, self.activations = self.activations, self._activations()
        return None if self.activations == former else self.activations

    def _arrays(self) -> dict[str, Array]:
        arrays: dict[str, Array] = {"version": np.array(self.version, np.int64)}
        if not self.mirrored:
            state = self._learner.get_state()
            return {**arrays, **{name: values for name, values in state.items() if name.startswith("agent/")}}
        for index in self._indices:
            arrays.update(layer_arrays(index, self._learner.actor.layers(index)))
        return arrays

    def _activations(self) -> bytes | None:
        if not self.mirrored:
            return None
        layers = {index: self._learner.actor.layers(index) for index in self._indices}
        activations = {index: [activation for _, _, activation in own] for index, own in layers.items()}
        content: bytes = cloudpickle.dumps(activations)
        return content

    def close(self) -> None:
        """Closes the descriptor, if it is not yet closed; the segment lives on where it is mapped."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
