# ruff: noqa: T201
"""How long a trial takes from fork to work, for each backend that is installed.

Run it as `python tests/benchmarks/trial_start.py [torch|keras ...]`. It prints the median and the worst of 20 trials,
one after the other, with a fork server that is warm (how long it took to become so is printed apart):

* entry called: an entry function that does nothing;
* objects built: the built-in training, up to the point where agent, environment and optimizer exist.
"""

import importlib.util
import statistics
import sys
import tempfile
import time
from pathlib import Path

from tuner.errors import UserError
from tuner.executors.base import TrialBuilt, TrialEnded, TrialReported
from tuner.executors.local import LocalExecutor
from tuner.executors.preload import Backend
from tuner.trial import JsonDict, TrialContext, TrialResult, TrialSpec

NUM_TRIALS = 20
BACKENDS: tuple[Backend, ...] = ("torch", "keras")


def say_built(trial: TrialContext) -> None:
    """Send the time since the fork, first thing."""
    trial.built({})


def time_trial(executor: LocalExecutor, folder: Path, config: JsonDict, function: bytes) -> float | TrialResult:
    """Run one trial until it is built, in seconds since its fork; its result if it never was."""
    number = sum(1 for _ in folder.iterdir())
    spec = TrialSpec("benchmark", "start", number, seed=number, config=config)
    executor.start(spec, folder / str(number), function or None)
    seconds: float | None = None
    while True:
        for event in executor.wait():
            match event:
                case TrialBuilt():
                    seconds = event.seconds
                    executor.stop_all()
                case TrialReported():
                    executor.answer(event.key, "stop")
                case TrialEnded():
                    return event.result if seconds is None else seconds


def print_times(what: str, executor: LocalExecutor, folder: Path, config: JsonDict, function: bytes = b"") -> None:
    """Measure and print one line."""
    times = []
    for _ in range(NUM_TRIALS):
        time_or_result = time_trial(executor, folder, config, function)
        if isinstance(time_or_result, TrialResult):
            print(f"  {what:15s} failed: {time_or_result.reason}\n{time_or_result.traceback}")
            return
        times.append(time_or_result)
    print(f"  {what:15s} {statistics.median(times):6.3f} s median, {max(times):6.3f} s worst of {len(times)}")


def compose(backend: Backend) -> JsonDict | None:
    """Return the default config of a training run with a backend; None if that part of the platform is not there."""
    if importlib.util.find_spec("tuner.runs.training") is None:
        return None
    from tuner.commands.preflight import preflight
    from tuner.config.composition import to_json

    return to_json(preflight("train", [f"backend={backend}"]))


def measure(backend: Backend) -> None:
    """Measure one backend."""
    import cloudpickle  # type: ignore[import-untyped]

    with LocalExecutor(backend=backend) as executor, tempfile.TemporaryDirectory() as directory:
        folder, began = Path(directory), time.monotonic()
        pickled = cloudpickle.dumps(say_built)
        time_trial(executor, folder, {}, pickled)
        print(f"{backend}: fork server warm after {time.monotonic() - began:.1f} s")
        print_times("entry called", executor, folder, {}, pickled)
        config = compose(backend)
        if config is None:
            print("  objects built   not measured: tuner.runs.training is not there yet")
        else:
            print_times("objects built", executor, folder, config)


def main() -> None:
    """Measure the backends named on the command line, or all."""
    for backend in BACKENDS:
        if backend in (sys.argv[1:] or BACKENDS):
            try:
                measure(backend)
            except UserError as error:
                print(f"{backend}: {error}")


if __name__ == "__main__":
    main()
