"""Where randomness comes from: one seed, independent named streams."""

import random
import sys
import zlib
from collections.abc import Callable

import numpy as np


def stream(seed: int, name: str, *index: int) -> np.random.SeedSequence:
    """The seed sequence of one named use of randomness ("environment", "exploration", ...).

    Streams of different names or indices are independent; the same arguments always give the same stream.
    """
    return np.random.SeedSequence(entropy=seed, spawn_key=(zlib.crc32(name.encode()), *index))


def generator(seed: int, name: str, *index: int) -> np.random.Generator:
    """A NumPy generator on the stream of that name."""
    return np.random.default_rng(stream(seed, name, *index))


def integer(seed: int, name: str, *index: int) -> int:
    """A 32-bit integer seed for things that take nothing else (environments, frameworks)."""
    return int(stream(seed, name, *index).generate_state(1)[0])


def seed_everything(seed: int) -> None:
    """Seeds Python, NumPy's global generator and whichever framework is already imported.

    Call it before networks are built, so that initial weights are reproducible: import the framework first.
    """
    value = integer(seed, "global")
    random.seed(value)
    np.random.seed(value)  # noqa: NPY002 (for users whose environments draw from it)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(value)
    if "keras" in sys.modules:
        sys.modules["keras"].utils.set_random_seed(value)


def shared_random_state() -> Callable[[], None]:
    """A function that gives Python, NumPy and PyTorch the random state back that they share in this process now."""
    of_python, of_numpy = random.getstate(), np.random.get_state()  # noqa: NPY002
    torch = sys.modules.get("torch")
    of_torch = torch.get_rng_state() if torch is not None else None

    def put_back() -> None:
        random.setstate(of_python)
        np.random.set_state(of_numpy)  # noqa: NPY002
        if torch is not None:
            torch.set_rng_state(of_torch)

    return put_back
