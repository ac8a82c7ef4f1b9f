"""Update blocks of random transitions."""

from typing import Any

import numpy as np

from note_rl.types import Sample


def block(num: int = 2, size: int = 16, seed: int = 0, slots: Any = None) -> Sample:
    rng = np.random.default_rng(seed)
    shape = (num, size)
    return Sample(
        obs=rng.normal(size=(*shape, 4)).astype(np.float32),
        action=rng.integers(2, size=shape),
        reward=rng.normal(size=shape).astype(np.float32),
        next_obs=rng.normal(size=(*shape, 4)).astype(np.float32),
        terminated=np.zeros(shape, np.float32),
        discount=np.full(shape, 0.9, np.float32),
        sync=np.zeros(num, np.bool_),
        slots=np.arange(num * size).reshape(shape) if slots is None else slots,
    )
