"""Recorded steps as compiled code, by torch's inductor."""

import copy
import functools
import logging
import multiprocessing
import os
import shutil
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from note_rl.learners.pytorch.recording.graph import Recording

_log = logging.getLogger(__name__)

# Fixed numbers, not measured ones: the same run has to give the same results, and compiled code rounds otherwise.
_SAVED_PER_CALL_S = 2e-6  # measured with CPUs of about 85 GFLOP/s a core
_SAVED_PER_ELEMENT_S = 5e-10
_IMPORTING_S, _COMPILING_PER_CALL_S = 3.0, 0.06
_forked: list[bool] = []
os.register_at_fork(after_in_child=lambda: _forked.append(True))


def pays(recording: Recording, num_gradient_steps: float, device: torch.device) -> bool:
    """Whether compiling should be tried without being asked for.

    It clearly saves time, there is a compiler, and nobody forked this process.
    """
    saved_s = recording.num_calls * _SAVED_PER_CALL_S + recording.num_elements * _SAVED_PER_ELEMENT_S
    expected_s = _IMPORTING_S + recording.num_calls * _COMPILING_PER_CALL_S
    if num_gradient_steps * saved_s < 2.0 * expected_s or device.type != "cpu":
        return False
    return not _forked and multiprocessing.parent_process() is None and has_compiler()


@functools.cache
def has_compiler() -> bool:
    """Whether a C++ compiler is found."""
    return any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "g++", "clang++", "cl"))


def compiled(recording: Recording, inputs: Sequence[Tensor]) -> Callable[..., list[Tensor]]:
    """Returns a function of the inputs that does what was recorded, in compiled code.

    Args:
        recording: Stays as it is.
        inputs: Their shapes and types are compiled for.

    Raises:
        RuntimeError: It cannot be compiled, or there is no compiler.
    """
    if inputs[0].device.type == "cpu" and not has_compiler():
        raise RuntimeError("no C++ compiler is installed (g++, clang++ or the one named by CXX)")
    began = time.perf_counter()
    captured: list[Any] = recording.captured
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch about itself
        import torch._inductor.config as inductor  # takes seconds
        from torch._inductor.compile_fx import compile_fx

        options = {"compile_threads": 1, "fallback_random": True}  # no worker processes; the same random numbers
        with inductor.patch(options), torch.no_grad():
            run: Any = compile_fx(copy.deepcopy(recording.module), [*captured, *inputs])
            run(*captured, *inputs)  # now, so that what fails fails here
    _log.info("compiled the update of %d calls in %.1f s", recording.num_calls, time.perf_counter() - began)

    def step(*values: Tensor) -> list[Tensor]:
        with torch.no_grad():
            answer: list[Tensor] = run(*captured, *values)
        return answer

    return step
