"""Which GPUs there are, and which of them a trial sees. Asks neither a framework nor the driver."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from tuner.errors import UserError

GpuChoice: TypeAlias = Literal["auto"] | int | Sequence[int | str] | None
"""All there are, a number, or these; None: nothing is dealt out, every trial sees what the controller sees."""

VISIBLE = "CUDA_VISIBLE_DEVICES"
_GROWTH = "TF_FORCE_GPU_ALLOW_GROWTH"  # without it the first TensorFlow process takes the whole memory of its GPU
_DRIVER = Path("/proc/driver/nvidia/gpus")
_DEVICES = Path("/dev")


def choose_gpus(choice: GpuChoice) -> tuple[str, ...] | None:
    """The GPUs to deal out, by their names in CUDA_VISIBLE_DEVICES; None: that variable is left alone.

    Raises:
        UserError: The choice is none, or names what this process may not see.
    """
    seen = _visible_gpus()
    if choice is None or choice == "auto":
        return seen if choice and seen else None
    there_are = f"this process may see {', '.join(seen)} (set {VISIBLE} for others)"
    if isinstance(choice, int) and not isinstance(choice, bool):
        if choice and not seen:
            raise _no_gpu(f"executor.gpus={choice}")
        if not 0 <= choice <= len(seen):
            raise UserError(f"executor.gpus={choice} must be a number of GPUs from 0 to {len(seen)}: {there_are}")
        return seen[:choice]
    if isinstance(choice, str | bool) or not isinstance(choice, Sequence):
        raise UserError(f"executor.gpus={choice} must be auto, a number of GPUs, a list of them such as [0,1], or null")
    gpus = tuple(map(str, choice))
    listed = f"executor.gpus=[{','.join(gpus)}]"
    if gpus and not seen:
        raise _no_gpu(listed)
    for gpu, count in Counter(gpus).items():
        if gpu not in seen:
            raise UserError(f"{listed} must not name GPU {gpu}: {there_are}")
        if count > 1:
            raise UserError(f"{listed} must name GPU {gpu} once: it is shared where executor.parallel asks for that")
    return gpus


def _no_gpu(asked: str) -> UserError:
    hidden = VISIBLE in os.environ
    why = f"{VISIBLE}={os.environ[VISIBLE]} shows none to this process" if hidden else "this machine has none"
    return UserError(f"{asked} asks for GPUs, and {why}: use executor.gpus=auto, which takes those there are")


def gpu_variables(
    gpus: Sequence[str] | None, running: Iterable[Mapping[str, str]], per_trial: int = 1
) -> dict[str, str]:
    """The environment variables that give the next trial the GPUs that the fewest others have, the first of equals.

    Args:
        gpus: As `choose_gpus` has chosen them.
        running: The environments of the trials that are running.
        per_trial: How many it sees.
    """
    if gpus is None:
        return {}
    if not gpus:
        return {VISIBLE: ""}
    num_trials = Counter(gpu for environment in running for gpu in environment.get(VISIBLE, "").split(","))
    least_used = sorted(gpus, key=lambda gpu: num_trials[gpu])[:per_trial]
    return {VISIBLE: ",".join(least_used), _GROWTH: os.environ.get(_GROWTH, "true")}


def check_per_trial(per_trial: int, gpus: Sequence[str] | None) -> None:
    """Refuses more GPUs for each trial than there are (UserError)."""
    most = len(gpus or ())
    if per_trial < 1 or (per_trial > 1 and per_trial > most):
        raise UserError(
            f"executor.gpus_per_trial={per_trial} must be at least 1, and no more than are dealt out: executor.gpus "
            f"leaves {most}"
        )


def _visible_gpus() -> tuple[str, ...]:
    """The GPUs that CUDA shows to this process."""
    named = os.environ.get(VISIBLE)
    if named is None:
        # a container may show the driver's list of all, and have but some of the devices
        num_listed, num_devices = len(list(_DRIVER.glob("*"))), len(list(_DEVICES.glob("nvidia[0-9]*")))
        return tuple(map(str, range(min(num_listed, num_devices or num_listed))))
    gpus: dict[str, None] = {}
    for name in map(str.strip, named.split(",")):
        if not name or name.startswith("-"):  # CUDA, too, heeds only what comes before the first that is none
            break
        gpus[name] = None
    return tuple(gpus)
