"""Recorded steps as compiled code, by torch's inductor, which later processes find again.

Inductor turns everything but products of matrices into a few loops in C++, and the whole into one program that is
called once per gradient step. It takes some ten seconds for each combination of an agent, its networks and the shape of
a minibatch, the first time on a machine. To run what was compiled before takes neither a compiler nor inductor.
"""

import contextlib
import copy
import functools
import hashlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from torch import Tensor

from note_rl.errors.wording import Sentence
from note_rl.learners.pytorch.step_graph.products import MKL, ONEDNN, compiled_by_onednn
from note_rl.learners.pytorch.step_graph.record import Recording
from note_rl.learners.pytorch.torch_internals import (
    INDUCTOR_LOGGER,
    LOADS_A_PROGRAM,
    called_by_inductor,
    compile_into,
    inductor_calling_onednn,
    inductor_working_in,
    loaded_program,
)
from note_rl.settings.switch_names import JIT_COMPILE
from note_rl.support.atomic_files import atomic_target
from note_rl.support.programs import is_usable, programs_folder, remove_oldest

_log = logging.getLogger(__name__)

VARIABLE = "NOTE_RL_TORCH_CACHE"
"""Names the folder for compiled steps, in place of the user's own for caches; "off" for none."""

aten = torch.ops.aten
# Fixed numbers, not measured ones: the same run has to give the same results, and compiled code rounds otherwise.
_SAVED_PER_CALL_S, _SAVED_PER_ELEMENT_S = 8e-7, 9e-10
_COMPILING_S, _COMPILING_PER_CALL_S = 7.0, 0.04
_LONGEST_S = 100.0  # 2,325 calls: as many as long sequences of a memory have; a step of SAC has 284
_NUM_RUNS = 4  # that a program is thought to serve: what is tuned or compared is trained several times
_UNPACKED, _UNPACKING_S = "unpacked-", 3600.0
_LARGEST = 2**30  # bytes; one program takes about two megabytes
_OPTIONS = {
    "compile_threads": 1,  # no worker processes
    "fallback_random": True,  # the same random numbers
    "cpp_cache_precompile_headers": False,  # which takes longer than it saves for a few programs
    "aot_inductor.precompile_headers": False,
    "aot_inductor.package": True,
}
_UNUSABLE = "unusable"  # a file in the folder of programs, which says why none can be loaded there
_SIGNALS = ("SIGSEGV", "SIGILL", "SIGBUS", "SIGABRT", "SIGFPE", "SIGTRAP", "SIGSYS")
_FAULTS = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
_OF_A_SHELL = 128  # a shell or a wrapper around Python adds this to the number of the signal
_LOADING_S = 300.0  # at most; a busy machine may take some seconds
_DAMAGED = (RuntimeError, OSError, LookupError, zipfile.BadZipFile)
_QUICKER_IN_TORCH = (aten.tanh.default,)  # 5 us for 16,384 numbers, by MKL; 25 us in inductor's loops


_TOO_FEW = "compiling takes longer than it saves in the gradient steps to come; {} asks for it"
_TOO_LONG = "compiling would take some {} s, as for long sequences of an agent with a memory; {} asks for it"
_ENDED = "a compiled step ends the process that loads it (exit status {}): this build of PyTorch cannot use it here{}"
_NOTED = "; no other is tried before {} is deleted"
NO_COMPILER = "no C++ compiler is installed (g++, clang++ or the one named by CXX)"


def why_not_compiled(recording: Recording, num_gradient_steps: float, device: torch.device) -> str:
    """Why compiling is not tried unless it is asked for; empty: it saves time over the runs that find the program."""
    saved_s = num_gradient_steps * (
        recording.num_calls * _SAVED_PER_CALL_S + recording.num_elements * _SAVED_PER_ELEMENT_S
    )
    needed_s = _seconds_to_compile(recording)
    if device.type != "cpu":
        return f"parameters are on {device.type}, and compiling pays on a CPU only"
    if _NUM_RUNS * saved_s < needed_s or (saved_s < needed_s and not _keeps_programs(os.environ.get(VARIABLE, ""))):
        return str(Sentence(_TOO_FEW, JIT_COMPILE.at(True)))
    if needed_s > _LONGEST_S:
        return str(Sentence(_TOO_LONG, f"{needed_s:.0f}", JIT_COMPILE.at(True)))
    return _why_unusable(os.environ.get(VARIABLE, "")) if has_compiler() else NO_COMPILER


@functools.cache
def _why_unusable(_: str) -> str:
    """Why programs cannot be loaded, as an earlier process noted; asked at each update, and so looked up once."""
    folder = _folder()
    return "" if folder is None else _noted(folder)


def _noted(folder: Path) -> str:
    with contextlib.suppress(OSError):
        return (folder / _UNUSABLE).read_text()
    return ""


def _seconds_to_compile(recording: Recording) -> float:
    return _COMPILING_S + recording.num_calls * _COMPILING_PER_CALL_S


@functools.cache
def _keeps_programs(_: str) -> bool:
    """Whether later runs find what this one compiles; asked at each update, and so looked up once for each setting."""
    return _folder() is not None


@functools.cache
def has_compiler() -> bool:
    """Whether a C++ compiler is found."""
    return any(shutil.which(name) for name in (os.environ.get("CXX", "g++"), "g++", "clang++", "cl"))


def compiled(recording: Recording, inputs: Sequence[Tensor], matmul: str = MKL) -> Callable[..., list[Tensor]]:
    """Returns a function of the inputs that does what was recorded, in compiled code.

    Args:
        recording: Stays as it is.
        inputs: Their shapes, strides and types are compiled for.
        matmul: Who takes large products of matrices; see `products`.

    Raises:
        RuntimeError: There is no compiler.
        Exception: Of any other kind, of torch, the compiler or the disk: it cannot be compiled.
    """
    captured = list(recording.captured)
    if matmul == ONEDNN and recording.large_products:
        recording = replace(recording, module=copy.deepcopy(recording.module))
        compiled_by_onednn(recording.module.graph, recording.large_products)
        recording.module.recompile()
    program = _program(recording, [*captured, *inputs])
    return lambda *values: program.run([*captured, *values])


def _program(recording: Recording, tensors: Sequence[Tensor]) -> Any:
    """Returns the program, compiled now or, by whichever process, before."""
    folder = _folder()
    if folder is None:
        with tempfile.TemporaryDirectory(prefix="note-rl-") as passing:
            path = Path(passing, "step.pt2")
            _compile(recording, tensors, path)
            _try_out(path)
            return _loaded(path)
    if reason := _noted(folder):
        raise RuntimeError(reason)
    path = folder / f"{_digest(recording, tensors)}.pt2"
    with FileLock(path.with_suffix(".lock")):  # others wait for it rather than compile the same at the same time
        if path.exists():
            with contextlib.suppress(*_DAMAGED):
                program = _loaded(path)
                path.touch()  # the oldest are given up
                return program
        remove_oldest(folder, "*.pt2*", _LARGEST)
        _remove_left_behind(folder)
        with atomic_target(path) as aside:
            _compile(recording, tensors, aside)
            _try_out(aside, folder)
        return _loaded(path)


def _folder() -> Path | None:
    """Where programs of this version of torch lie, for this kind of CPU and for this compiler, if anywhere."""
    made_for = [torch.__version__, torch.backends.cpu.get_cpu_capability(), os.environ.get("CXX", "")]
    with contextlib.suppress(OSError):
        folder = programs_folder(os.environ, VARIABLE, "torch", made_for)
        return folder if is_usable(folder) else None
    return None


def _digest(recording: Recording, tensors: Sequence[Tensor]) -> str:
    """Returns a name for what is compiled: the calls, and all that is known of tensors but their contents."""
    kinds = [(tensor.shape, tensor.stride(), tensor.dtype, tensor.device.type) for tensor in tensors]
    options = [*_OPTIONS.items(), *_QUICKER_IN_TORCH, torch.get_num_threads(), "loaded by a process of its own first"]
    return hashlib.sha256(f"{recording.module.code}{kinds}{options}".encode()).hexdigest()[:32]


def _compile(recording: Recording, tensors: Sequence[Tensor], path: Path) -> None:
    """Compiles into a file."""
    if not has_compiler():
        raise RuntimeError(NO_COMPILER)
    seconds = _seconds_to_compile(recording)
    _log.info("compiling the update: some %.0f s, this once for these networks and minibatches", seconds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch about itself
        with (
            _quietly(),
            called_by_inductor(_QUICKER_IN_TORCH),
            inductor_calling_onednn(recording.module.graph),
            _privately(),
            torch.no_grad(),
            path.open("wb") as file,
        ):
            compile_into(file, copy.deepcopy(recording.module), tensors, _OPTIONS)


def _try_out(path: Path, folder: Path | None = None) -> None:
    """Loads a program in a process of its own first: seen on a machine with CUDA's tools, a fault there ended training.

    Args:
        path: It.
        folder: Where it is noted, so that no later process compiles in vain; None: nowhere.

    Raises:
        RuntimeError: That process ended by a fault.
    """
    with _unpacked(path) as library:
        words = [sys.executable, "-P", "-c", LOADS_A_PROGRAM, library]  # -P: a file here may have a module's name
        try:
            status = subprocess.run(words, capture_output=True, timeout=_LOADING_S).returncode
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"a compiled step was not loaded within {_LOADING_S:.0f} s") from error
    is_fault = -status in _FAULTS or status - _OF_A_SHELL in _FAULTS
    if not is_fault:  # what is raised is raised here, too, and who stops or kills it does so by intention
        return
    reason = _ENDED.format(status, "" if folder is None else _NOTED.format(folder / _UNUSABLE))
    if folder is not None:
        (folder / _UNUSABLE).write_text(reason)
    raise RuntimeError(reason)


def _loaded(path: Path) -> Any:
    """Loads a program."""
    with _unpacked(path) as library:
        return loaded_program(library)


@contextlib.contextmanager
def _unpacked(path: Path) -> Iterator[str]:
    """The library of a program; torch's own way unpacks it into a folder that stays where a process is killed."""
    with zipfile.ZipFile(path) as archive, tempfile.TemporaryDirectory(prefix=_UNPACKED, dir=path.parent) as passing:
        parts = {
            Path(name).suffix: name for name in archive.namelist() if name.endswith((".wrapper.so", ".wrapper.json"))
        }
        unpacked = {suffix: archive.extract(name, passing) for suffix, name in parts.items()}  # calls of torch: .json
        yield unpacked[".so"]


def _remove_left_behind(folder: Path) -> None:
    """Removes what processes were killed over while they unpacked a program."""
    for path in folder.glob(f"{_UNPACKED}*"):
        with contextlib.suppress(OSError):  # another process has removed it
            if time.time() - path.stat().st_mtime > _UNPACKING_S:
                shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def _privately() -> Iterator[None]:
    """Has inductor work in a folder of this process, which goes with this block.

    Its own is called by the name of the user, and one of that name may be there already, in which others write.
    """
    with tempfile.TemporaryDirectory(prefix="note-rl-") as passing, inductor_working_in(passing):
        yield


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Keeps torch from telling which kernels it calls in the general way."""
    logger = logging.getLogger(INDUCTOR_LOGGER)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
