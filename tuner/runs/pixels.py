"""Whether a network is one for what is seen: images need convolutions, and convolutions need images."""

import math
from typing import Any

from note_rl.agents.spaces import image_shape, looks_like_an_image
from note_rl.environments.frames import stacked_shape
from tuner.config.composing import RunConfig
from tuner.errors import UserError

_NETWORKS = "note_rl.agents."


def check_network(run: RunConfig, space: Any) -> None:
    """Refuses an MLP for images, and convolutions for anything else; networks of the user's own know what they take.

    Args:
        run: Of one agent.
        space: What it observes, one frame.

    Raises:
        UserError: It is an MLP, which would train on single pixels without a notion of what is near what.
        note_rl.errors.EnvironmentMismatchError: It is for images, and they are none, or too small.
    """
    target = str(run.network["_target_"])
    shape = stacked_shape(tuple(space.shape), int(run.agent.get("frame_stack", 1)))
    if not target.startswith(_NETWORKS):
        return
    if target.endswith(".CNN"):
        image_shape(shape)
    elif target.endswith(".MLP") and looks_like_an_image(tuple(space.shape), space.dtype):
        raise UserError(
            f"{run.env.id} shows images {list(shape)}, of which network=mlp would take every pixel for an input of its "
            f"own, {math.prod(shape):,} in all, knowing nothing of neighbours: use network=cnn; for an MLP all the "
            "same, flatten them: '+wrapper.flat={_target_: gymnasium.wrappers.FlattenObservation, _partial_: true}'"
        )
