"""Random numbers that a loss needs, drawn outside of the frameworks."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from note_rl.types import Sample


def with_normal_inputs(sample: Sample, agent: Any, rng: np.random.Generator) -> Sample:
    """The minibatches with the standard normal numbers that the agent asks for.

    An agent that has `normal_inputs = {"noise": (3,)}` finds self.noise [B, 3] while its loss is evaluated. One
    generator then accounts for all randomness of training, in both frameworks and in checkpoints. What stands in
    `shared_normal_inputs` is drawn once for each minibatch, and each sample gets a copy.
    """
    shapes: Mapping[str, tuple[int, ...]] = agent.normal_inputs
    if not shapes:
        return sample
    lead = sample.reward.shape[:2]
    noise = {}
    for name, shape in shapes.items():
        shared = name in agent.shared_normal_inputs
        drawn = rng.standard_normal((lead[0], 1 if shared else lead[1], *shape), np.float32)
        noise[name] = np.repeat(drawn, lead[1], axis=1) if shared else drawn
    return replace(sample, extras={**sample.extras, **noise})
