"""Hooks for all tests."""

import gc
import os
import signal
import tempfile

# One thread per process: several make small networks and matrices slower, and very much so while other processes are
# busy. Read when NumPy, torch and TensorFlow are imported, and by the programs that tests start.
for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
    os.environ.setdefault(_threads, "1")

import hypothesis  # noqa: E402
import pytest  # noqa: E402

# A shell's background jobs ignore Ctrl-C, and so would the processes in which tests press it.
signal.signal(signal.SIGINT, signal.default_int_handler)

# What runs of the tests use of code outside of `tuner` is not remembered with what the developer's own runs do.
_STATE = tempfile.TemporaryDirectory(prefix="tuner-tests-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name

# Nor are programs that XLA and torch's inductor compile; the trials of these tests share theirs.
os.environ["NOTE_RL_XLA_CACHE"] = os.path.join(_STATE.name, "xla")
os.environ["NOTE_RL_TORCH_CACHE"] = os.path.join(_STATE.name, "torch")

# What XLA compiles in tests runs for a second: making it as fast as can be takes a quarter longer than making it.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")

# So does what calls the loops that torch's inductor compiles: a quarter of the compiler's time.
os.environ.setdefault("AOT_INDUCTOR_COMPILE_WRAPPER_OPT_LEVEL", "O0")

# Which instructions the processor has is known; trying them out compiles as much as a step does.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")

hypothesis.settings.register_profile("patient", hypothesis.settings.default, deadline=None)  # a busy machine is no bug
hypothesis.settings.load_profile("patient")

os.fsync = lambda descriptor: None  # no test cuts the power, and waiting for a disk takes as long as many a test

# Programs that tests start keep what they have compiled of these packages, which takes each of them half a second.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the twins in Keras as slow that are said to be: tracing takes them several times as long."""
    for item in items:
        mark = item.get_closest_marker("slow_in_keras")
        if mark is None or not isinstance(item, pytest.Function):
            continue
        params = item.callspec.params
        names = [getattr(value, "__name__", value) for value in params.values()]
        framework = getattr(params["framework"], "package", params["framework"])
        if framework == "keras" and (not mark.args or any(name in mark.args for name in names)):
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish() -> None:
    """All modules imported so far stay: looking through them for garbage takes a twentieth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)  # looking less often saves a tenth of what tracing and composing take
