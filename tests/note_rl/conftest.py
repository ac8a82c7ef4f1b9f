"""One thread per process: several make tiny networks slower, and very much so while other processes are busy."""

import importlib
import os

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # read when torch is imported
os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")


@pytest.fixture(scope="session", autouse=True)
def _imported() -> None:
    """A seed does not reach a framework that is imported later: what is tested first would begin with other weights."""
    for name in ("torch", "keras"):
        importlib.import_module(name)
