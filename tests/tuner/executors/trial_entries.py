# ruff: noqa: T201 - what is printed goes to output.log
"""Entry functions of these tests' trials. Framework-free; imported in the child by the path that the specs name."""

import contextlib
import ctypes
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

from omegaconf import OmegaConf

from tuner.testing.trial_programs import complete as complete
from tuner.trial import Outcome, TrialContext, TrialInterrupted, TrialResult, current_trial
from tuner.trial.folder import write_result


class DivergedError(ArithmeticError):
    """Stands for note_rl's, which is known by its name."""


class OutOfMemoryError(RuntimeError):
    """Stands for PyTorch's, which is known by its name."""


def note(context: TrialContext, **values: object) -> None:
    """Leave something for the test to read."""
    aside = context.folder / "note.aside"  # a test that waits for the note reads it as soon as it is there
    aside.write_text(json.dumps(values))
    aside.rename(context.folder / "note.json")


def report_elsewhere(context: TrialContext) -> None:
    """As a user's function does that is not handed the context."""
    trial = current_trial()
    assert trial is context
    trial.report(1.0, 2.0)


def raise_error(context: TrialContext) -> None:
    print("before the error")
    raise KeyError("no such key")


def raise_diverged(context: TrialContext) -> None:
    raise DivergedError("the loss is nan")


def raise_out_of_memory(context: TrialContext) -> None:
    raise OutOfMemoryError("tried to allocate 1 TB")


def leave(context: TrialContext) -> None:
    sys.exit(0)


def exit_at_once(context: TrialContext) -> None:
    print("last words")
    os._exit(7)


def kill_itself(context: TrialContext) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def segfault(context: TrialContext) -> None:
    ctypes.string_at(0)


def report_nan(context: TrialContext) -> None:
    context.report(0.5, 1.0)
    context.report(1.0, float("nan"))


def hang(context: TrialContext) -> None:
    while True:
        time.sleep(1)


def sleep_too_long(context: TrialContext) -> None:
    """Silent for a while, then as if nothing had been."""
    context.report(0.5, 1.0)
    time.sleep(context.spec.config["seconds"])


def stay_silent_at_the_end(context: TrialContext) -> None:
    """Done, with its result written, but slow to leave; as on a machine that is busy."""
    write_result(context.folder, TrialResult(Outcome.COMPLETE))
    time.sleep(context.spec.config["seconds"])


def stay_alive(context: TrialContext) -> None:
    """Go on until it is to stop; then checkpoint, like training does."""
    try:
        context.report(0.1, 1.0)
        while True:
            context.alive(0.2)
            time.sleep(0.01)
    except TrialInterrupted as interruption:
        (context.folder / "checkpoint").write_text(interruption.outcome)
        raise


def wait_for_verdict(context: TrialContext) -> None:
    note(context, pid=os.getpid())
    try:
        context.report(0.1, 1.0)
    except TrialInterrupted as interruption:
        (context.folder / "checkpoint").write_text(interruption.outcome)
        raise


def fill_memory(context: TrialContext) -> None:
    import numpy as np  # here, as most of these trials do without

    held = [np.ones(300_000_000 // 8)]
    while held:
        context.alive(0.1)
        time.sleep(0.01)


def breed(context: TrialContext) -> None:
    """Start a program and fork a process, neither of which wants to end; then end as the config says."""
    program = subprocess.Popen(["sleep", "1000"])
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(1000,))
    process.start()
    note(context, pids=[program.pid, process.pid])
    if context.spec.config["end"] == "exit":
        os._exit(1)
    if context.spec.config["end"] == "wait":
        hang(context)


def daemon(command: list[str], environment: dict[str, str] | None = None) -> int:
    """Start a program that has left this process's session and group and has no parent; return its number."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(writing, str(os.getpid()).encode())
            os.execvpe(command[0], command, os.environ if environment is None else environment)
        os._exit(0)
    os.wait()
    os.close(writing)
    pid = int(os.read(reading, 32))
    os.close(reading)
    return pid


def scatter(context: TrialContext) -> None:
    """Start processes in sessions of their own, without parents, without an environment; end as the config says."""
    apart = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    deep = subprocess.Popen(["sh", "-c", "setsid sh -c 'sleep 1000 & sleep 1001' & sleep 1002"], start_new_session=True)
    pids = [apart.pid, deep.pid, daemon(["sleep", "1000"])]
    if os.fork() == 0:  # and one that is no other program
        os.setsid()
        pid = os.fork()
        (context.folder / "forked").write_text(str(pid)) if pid else time.sleep(1000)
        os._exit(0)
    os.wait()
    pids.append(int((context.folder / "forked").read_text()))
    if context.spec.config.get("bare", True):
        pids.append(daemon(["sleep", "1000"], environment={}))
    note(context, pids=pids)
    if context.spec.config["end"] == "exit":
        os._exit(1)
    while context.spec.config["end"] == "wait":
        context.alive(0.5)
        time.sleep(0.01)


def look_around(context: TrialContext) -> None:
    """Note what kind of process this is."""
    import numpy as np

    print("to stdout")
    print("to stderr", file=sys.stderr)
    os.system("echo from a program")
    note(
        context,
        stdin=sys.stdin.read(),
        group=os.getpgrp(),
        session=os.getsid(0),
        pid=os.getpid(),
        sigint=signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
        threads=os.environ["OMP_NUM_THREADS"],
        variable=os.environ.get("SET_BY_TEST"),
        cwd=os.getcwd(),
        path=sys.path,
        descriptors=sorted(int(name) for name in os.listdir("/proc/self/fd")),
        argument=context.spec.config.get("argument"),
        seed=context.spec.seed,
        random=np.random.random(),  # noqa: NPY002 - the global generator is the point
    )


def draw(context: TrialContext) -> None:
    """Draw from the generators that a process has one of, after each report."""
    import random

    import numpy as np
    import torch

    seed = context.spec.config["draws"]
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)
    for step in (0.5, 1.0):
        context.report(step, random.random() + np.random.random() + torch.rand(()).item())  # noqa: NPY002


def count_loaded(context: TrialContext) -> None:
    """Note what was there before the trial did anything; then use the backend."""
    names = ("torch", "tensorflow", "keras", "optuna", "wandb")
    loaded = [name for name in names if name in sys.modules]
    num_threads, before = len(os.listdir("/proc/self/task")), set(sys.modules)
    OmegaConf.select(OmegaConf.create({}), "key")
    if "torch" in loaded:
        import torch

        torch.optim.SGD([torch.zeros(1)])
        total = float(torch.ones(100, 100).matmul(torch.ones(100, 100)).sum())
    else:
        import tensorflow as tf

        total = float(tf.reduce_sum(tf.matmul(tf.ones((100, 100)), tf.ones((100, 100)))))
    late = sorted({name.partition(".")[0] for name in sys.modules.keys() - before} & {"omegaconf", "torch"})
    note(context, loaded=loaded, late=late, num_threads=num_threads, total=total)


def show_gpu(context: TrialContext) -> None:
    """Note which GPU it sees, then wait for a verdict."""
    variables = ("CUDA_VISIBLE_DEVICES", "TF_FORCE_GPU_ALLOW_GROWTH")
    note(context, pid=os.getpid(), gpu=[os.environ.get(name) for name in variables])
    context.report(1.0, 1.0)


def go_on(context: TrialContext) -> None:
    """Counts in memory, without a checkpoint: one report for each part, in whichever folder it is by then."""
    os.environ["SET_BY_TRIAL"] = "kept"
    sys.path.append("/added/by/trial")
    if context.spec.config.get("child"):
        subprocess.Popen(["sleep", "1000"])
    for count in range(1, 4):
        own = [os.environ["SET_BY_TRIAL"], sys.path[-1], os.environ.get("SET_BY_CONTROLLER")]
        note(context, pid=os.getpid(), count=count, cwd=os.getcwd(), own=own)
        print(f"part {count}")
        try:
            context.report(count / 3, float(count))
        except TrialInterrupted as pause:
            if pause.wait is None:
                raise
            with contextlib.suppress(TrialInterrupted):  # which each call raises again
                context.log(count, {"before": count})
            pause.wait()
            context.built({"number": context.spec.number})
            context.report(count / 3, 0.0)  # known: it keeps its value
        context.log(count, {"behind": count})
