"""The names of the metrics that a run will log, as far as they are known before it begins."""

import re
from collections.abc import Collection
from typing import Final

from note_rl.learners.declarations import Declared
from tuner.config.signatures import class_constants
from tuner.runs.functions import is_function
from tuner.trial.messages import JsonDict

_AGENTS: Final = "note_rl.agents."
_EVALUATIONS: Final = ("eval/mean_return", "eval/mean_length")
_ALWAYS: Final = ("loss", "learning_rate", "num_gradient_steps", "env_steps_per_s", "episode_return", "episode_length")
_OF_ROLLOUTS: Final = ("explained_variance", "num_epochs", "approx_kl")
_CLIPPED: Final = "gradient_norm"
_CLIPPING: Final = "training.max_grad_norm"
_NUMBER: Final = re.compile(r":\d+$")
_OF_SECTIONS: Final = ("agent._target_", "adaptive", "schedule")
"""Settings that decide on names. They are looked at in the default configuration only."""


def logged_names(config: JsonDict, searched: Collection[str]) -> frozenset[str] | None:
    """All names that runs may log, each without the number that a part of an optimizer has behind it.

    Some may stay out, such as `train/num_epochs` without a limit of the divergence.

    Args:
        config: Of a run, resolved.
        searched: Config paths that have other values in other runs.

    Returns:
        None: nobody knows, as where the agent is not one of ours: whatever its class inherits, it may report more.
    """
    if is_function(config) or config.get("adaptive") or any(path.startswith(_OF_SECTIONS) for path in searched):
        return None
    target = str(config["agent"]["_target_"])
    if not target.startswith(_AGENTS):
        return None
    constants = class_constants(target)
    reported = constants.get("reported_names", Declared.reported_names)
    assert isinstance(reported, tuple)
    names = {*_ALWAYS, *map(str, reported), *(config.get("schedule") or {})}
    if constants.get("on_policy") is not False:
        names.update(_OF_ROLLOUTS)
    if config["training"].get("max_grad_norm", "as the class says") is not None or _CLIPPING in searched:
        names.add(_CLIPPED)
    return frozenset({*_EVALUATIONS, *(f"train/{name}" for name in names)})


def without_number(name: str) -> str:
    """`train/learning_rate` of `train/learning_rate:0`."""
    return _NUMBER.sub("", name)
