# ruff: noqa: T201
"""How long a trial takes from fork to work, for each backend that is installed.

Run it as `python tests/benchmarks/trial_start.py [torch|keras ...]`. It prints the median and the worst of 20 trials,
one after the other, with a fork server that is warm (how long it took to become so is printed apart):

* entry called: an entry function that does nothing;
* objects built: the built-in training, up to the point where agent, environment and optimizer exist;
* beyond steps: processor time of a whole trial that does not depend on its length, with compiled code that is on the
  disk: twice that of a short run less that of one of twice the steps, medians of five. It is what a further
  environment, or a copy in a population, costs beside its training.
"""

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
CASES = {"dqn": ("env=cartpole", "buffer.learning_starts=300"), "ppo": ("env=cartpole",)}
STEPS: dict[Backend, int] = {"torch": 1_000, "keras": 10_000}
"""In PyTorch few, so that both runs take their gradient steps in the same way."""
NUM_WHOLE = 5
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


def print_fixed(executor: LocalExecutor, folder: Path, backend: Backend) -> None:
    """Measure and print what whole runs cost beside their steps, a line for each agent."""
    shorter = ("evaluation.num_points=1", "evaluation.num_episodes=1", "checkpoint=small")
    for agent, more in CASES.items():
        times: dict[int, list[float]] = {STEPS[backend]: [], 2 * STEPS[backend]: []}
        for _ in range(1 + NUM_WHOLE):  # the first one may compile
            for steps, measured in times.items():
                words = (f"agent={agent}", f"training.total_steps={steps}", *more, *shorter)
                measured.append(processor_time(executor, folder, compose(backend, *words)))
        short, long = (statistics.median(measured[1:]) for measured in times.values())
        print(f"  beyond steps    {2 * short - long:6.2f} CPU s of {short:.2f} s, {agent}", flush=True)


def processor_time(executor: LocalExecutor, folder: Path, config: JsonDict) -> float:
    """Of one trial, run to its end: what the server that has forked it has waited for since."""
    import psutil

    def waited_for() -> float:
        times = psutil.Process(executor.server_pid).cpu_times()
        return float(times.children_user + times.children_system)

    before, number = waited_for(), sum(1 for _ in folder.iterdir())
    executor.start(TrialSpec("benchmark", "start", number, seed=number, config=config), folder / str(number))
    while executor.free_slots < executor.parallel:
        for event in executor.wait():
            if isinstance(event, TrialReported):
                executor.answer(event.key, "continue")
    return waited_for() - before


def compose(backend: Backend, *words: str) -> JsonDict:
    """The default config of a training run with a backend, with these changes."""
    from tuner.commands.preflight import preflight
    from tuner.config.composition import to_json

    return to_json(preflight("train", [f"backend={backend}", *words]))


def measure(backend: Backend) -> None:
    """Measure one backend."""
    import cloudpickle  # type: ignore[import-untyped]

    with LocalExecutor(backend=backend) as executor, tempfile.TemporaryDirectory() as directory:
        folder, began = Path(directory), time.monotonic()
        pickled = cloudpickle.dumps(say_built)
        time_trial(executor, folder, {}, pickled)
        print(f"{backend}: fork server warm after {time.monotonic() - began:.1f} s")
        print_times("entry called", executor, folder, {}, pickled)
        print_times("objects built", executor, folder, compose(backend))
        print_fixed(executor, folder, backend)


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
