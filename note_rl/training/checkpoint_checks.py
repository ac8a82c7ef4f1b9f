"""Whether what a file holds of a trainer is whole, and whether it fits the one that is to go on from it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from note_rl.errors import CheckpointError, NoteRLError
from note_rl.errors.wording import choice
from note_rl.replay.experience import Clock
from note_rl.replay.frame_ring import FrameRing
from note_rl.seeding import generator, integer
from note_rl.settings import Settings
from note_rl.settings.experience import ReplaySettings, RolloutSettings, SequenceSettings
from note_rl.settings.switch_names import FRAME_STACK, HER, NUM_ENVS, TRL
from note_rl.support.setting_fields import named
from note_rl.training.plateau_watch import PlateauWatch
from note_rl.types import Array

_POOL = "experience/"
_WITHOUT_IT = "or take over the parameters only (restore_param)"
_RAW = (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError, RuntimeError)


@contextmanager
def refusing_damage(what: Path | str) -> Iterator[None]:
    """Whatever goes wrong inside because a file does not hold what save() writes becomes that error.

    Args:
        what: The file, for people.

    Raises:
        CheckpointError: In place of the errors by which arrays and numbers refuse.
    """
    try:
        yield
    except NoteRLError:
        raise
    except _RAW as error:
        raise CheckpointError(
            f"{what} is damaged or of another program: its counts are not complete, or do not belong together "
            f"({type(error).__name__}: {error})"
        ) from error


def check_whole(arrays: Mapping[str, Array], head: Any, path: Path) -> None:
    """Refuses what Trainer.get_state() cannot have given, whatever the settings.

    Args:
        arrays: The trainer's part of a file.
        head: The same.
        path: Of the file, for messages.

    Raises:
        CheckpointError: Something is missing, or does not belong together.
    """
    with refusing_damage(path):
        Clock(**head["clock"])
        scratch = np.random.default_rng(int(head["seed"])).bit_generator
        for name in ("exploration", "sampling"):
            scratch.state = head["random"][name]
        PlateauWatch(None).take(head["plateau"])
        numbers = [*head["clock"].values(), *head["recent"]]
        _require(all(np.isfinite(number) for number in numbers), "a count is no number")
        num_envs = len(arrays["collector/episode"])
        per_env = ("workers", "places") if "collector/workers" in arrays else ("return", "length", "starts")
        for name in per_env:
            _require(arrays[f"collector/{name}"].shape == (num_envs,), f"{name} is not of {num_envs} environments")
        if "collector/workers" not in arrays:
            _require(len(arrays["collector/obs"]) == num_envs, f"obs is not of {num_envs} environments")
        if any(name.startswith(_POOL) for name in arrays):
            _check_pool(arrays)


def _check_pool(arrays: Mapping[str, Array]) -> None:
    head, size, capacity, written, num_envs = (int(number) for number in arrays[f"{_POOL}position"])
    _require(0 <= size <= capacity and size <= written, f"{size} transitions in a pool of {capacity}")
    _require(head >= 0 and num_envs >= 0 and (num_envs > 0 or size == 0), "its pool begins nowhere")
    for name in FrameRing.stored:
        if num_envs:
            _require(len(arrays[_POOL + name]) == written, f"its pool has not {written} of {name}")
    for name, values in arrays.items():
        if name.startswith(f"{_POOL}extras/") or name == f"{_POOL}next_obs":
            _require(len(values) == written, f"its pool has not {written} of {name}")
    scores = arrays.get(f"{_POOL}sampler/scores")
    if scores is not None and num_envs:
        _require(scores.ndim == 1 and len(scores) >= capacity, "its priorities are not those of its pool")
        _require(arrays[f"{_POOL}sampler/counts"].shape == (4,), "its priorities are not complete")


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)


NEW_EPISODES = "new_episodes"
"""Of a state of training whose environments do not go on where they were."""


def reseeded(head: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """The same state of training, but with random numbers of its own from here on.

    Args:
        head: The trainer's part of a file.
        seed: Root of the new random numbers; the environment steps done so far are part of it.
    """
    root = integer(seed, "reseeded", int(head["clock"]["num_env_steps"]))
    random = {name: generator(root, name).bit_generator.state for name in ("exploration", "sampling")}
    return {**head, "seed": root, "random": random, NEW_EPISODES: True}


def check_fits(
    arrays: Mapping[str, Array],
    settings: Settings,
    num_envs: int | None = None,
    obs_shape: tuple[int, ...] | None = None,
) -> None:
    """Refuses the whole state of a trainer that had other settings than this one.

    Args:
        arrays: The trainer's part of a file, as check_whole() let it pass.
        settings: Of the trainer that is to go on.
        num_envs: How many environments it has; None: not known yet.
        obs_shape: Shape of one observation as environments show it; None: not known yet.

    Raises:
        CheckpointError: What differs, and what to do.
    """
    stored_envs = len(arrays["collector/episode"])
    if num_envs is not None and num_envs != stored_envs:
        raise CheckpointError(
            "the checkpoint holds {} environments, this run {}: set {}, {}",
            *(stored_envs, num_envs, NUM_ENVS, _WITHOUT_IT),
        )
    for name in ("collector/obs", f"{_POOL}obs"):
        if obs_shape is not None and name in arrays and arrays[name].shape[1:] != obs_shape:
            raise CheckpointError(
                f"the checkpoint holds observations of the shape {list(arrays[name].shape[1:])}, this environment "
                f"shows {list(obs_shape)}: use the environment that it was written with, {_WITHOUT_IT}"
            )
    experience = settings.experience
    pool = {name.removeprefix(_POOL): values for name, values in arrays.items() if name.startswith(_POOL)}
    kind = "since_clearing" if "since_clearing" in pool else "num_rollouts" if "num_rollouts" in pool else ""
    if pool and _MARKS[kind] is not type(experience):
        there, here = _CALLED[_MARKS[kind]], _CALLED[type(experience)]
        raise CheckpointError(
            "the checkpoint was trained from {}, this agent from {}: set {} as they were, {}",
            *(there, here, choice("PPO and sequences"), _WITHOUT_IT),
        )
    if pool and not isinstance(experience, RolloutSettings):
        _check_same_pool(pool, experience)


# By what only pools of this kind store.
_MARKS: Mapping[str, type] = {
    "since_clearing": ReplaySettings,
    "num_rollouts": SequenceSettings,
    "": RolloutSettings,
}
_CALLED: Mapping[type, str] = {
    ReplaySettings: "a replay pool",
    SequenceSettings: "sequences",
    RolloutSettings: "rollouts",
}


def _check_same_pool(pool: Mapping[str, Array], experience: ReplaySettings | SequenceSettings) -> None:
    _, size, capacity, _, num_envs = (int(number) for number in pool["position"])
    if capacity != experience.capacity:
        raise CheckpointError(
            "the checkpoint's replay pool has capacity {}, this agent's {}: set {}, {}",
            *(capacity, experience.capacity, named(type(experience), "capacity").at(capacity), _WITHOUT_IT),
        )
    if not size:
        return
    if (experience.hindsight or experience.trajectories) and "episodes/over" not in pool:
        raise CheckpointError(
            "the checkpoint's replay pool was gathered without {} or {}, and knows nothing of episodes: set them as "
            "they were, {}",
            *(HER, TRL, _WITHOUT_IT),
        )
    slots = capacity + (experience.frame_stack - 1) * num_envs
    stacked = len(pool["frames/since_start"]) if "frames/since_start" in pool else capacity
    if stacked != slots:
        raise CheckpointError(
            "the checkpoint's replay pool is of {} frames shown together, this agent's of {}: set {} as it was, {}",
            *(1 + (stacked - capacity) // num_envs, experience.frame_stack, FRAME_STACK, _WITHOUT_IT),
        )
