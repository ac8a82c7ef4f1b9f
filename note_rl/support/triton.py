"""Triton beside TensorFlow, in one process."""

import importlib
import sys
from contextlib import suppress
from importlib.util import find_spec
from typing import Any


def settle_triton() -> None:
    """Keeps PyTorch's first optimizer from ending a process that uses TensorFlow as well.

    TensorFlow shows its LLVM to all libraries that are loaded after it. Triton, which PyTorch's wheels for GPUs bring
    and import late, is one of them and dies of it (tensorflow/tensorflow#124205). So Triton is imported now if
    TensorFlow may follow, and never if it was there first: PyTorch then does without.
    """
    modules: dict[str, Any] = sys.modules
    if "triton" in modules:
        return
    if "tensorflow" in modules:
        modules["triton"] = None
    elif find_spec("tensorflow") and find_spec("triton"):
        with suppress(ImportError):
            importlib.import_module("triton")
