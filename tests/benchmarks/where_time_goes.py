# ruff: noqa: T201
"""Where a second of training goes, part by part: microseconds of the processor per environment step, and shares.

    python tests/benchmarks/where_time_goes.py [CASE ...] [--backends torch keras] [--rounds N] [--before FOLDER]

The cases are those of `against_others.py`. Every measurement is a process of its own, on one core and with one thread;
medians over the rounds. Time that the processor spends on others is left out. `--before` is the root of another working
tree: both trees take turns, and the table shows the two beside each other. Watching costs about 1 us per part and call,
which counts for the part around it.
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_HERE = Path(__file__).resolve().parents[2]
PARTS = {
    "acting": "the agent's answers, and the policy's choice",
    "environment": "step() and reset()",
    "storing": "rows of steps joined and written into the pool, or made into a rollout",
    "sampling": "choosing transitions and gathering them",
    "going in": "arrays made into tensors, and all that surrounds the call on the way in",
    "arithmetic": "the call into compiled code, or the kernels and the Python that calls them",
    "coming back": "tensors made into arrays",
    "bookkeeping": "the rest: counts, schedules, adaptation, callbacks",
}


class Stopwatch:
    """Gives every moment to the innermost part that is running."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self._running = ["bookkeeping"]
        self._since = time.process_time()

    def begin(self, part: str) -> None:
        """A part begins within the one that was running."""
        self._pass_to(part)
        self._running.append(part)

    def end(self) -> None:
        """The running part is over; the one around it goes on."""
        self._pass_to("")
        self._running.pop()

    def turn_into(self, part: str) -> None:
        """The running part is over, and another one goes on in its place."""
        self._pass_to("")
        self._running[-1] = part

    def _pass_to(self, part: str) -> None:
        now = time.process_time()
        self.seconds[self._running[-1]] += now - self._since
        self._since = now

    def watch(self, owner: Any, name: str, part: str, afterwards: str | None = None) -> None:
        """Gives a method, from now on, to a part, and what follows within the part around it to another one."""
        method: Callable[..., Any] = getattr(owner, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            self.begin(part)
            try:
                return method(*arguments, **named)
            finally:
                self.end()
                if afterwards is not None:
                    self.turn_into(afterwards)

        setattr(owner, name, timed)

    def watch_items(self, owner: Any, name: str, part: str, afterwards: str | None = None) -> None:
        """The same for a generator: what it does until it has given each item."""
        method: Callable[..., Iterator[Any]] = getattr(owner, name)

        def timed(*arguments: Any, **named: Any) -> Iterator[Any]:
            items = method(*arguments, **named)
            while True:
                self.begin(part)
                try:
                    item = next(items)
                except StopIteration:
                    return
                finally:
                    self.end()
                    if afterwards is not None:
                        self.turn_into(afterwards)
                yield item

        setattr(owner, name, timed)


def watch_training(stopwatch: Stopwatch) -> None:
    """Watches the classes that take part in training, before any object is made of them."""
    of = importlib.import_module
    stopwatch.watch(of("note_rl.collect.policy_runner").PolicyRunner, "__call__", "acting")
    policies = of("note_rl.policy")
    for name in ("EpsGreedyQPolicy", "SoftmaxPolicy", "NoisyPolicy", "SquashedGaussianPolicy"):
        stopwatch.watch(getattr(policies, name), "select", "acting")
    stopwatch.watch(policies.SoftmaxPolicy, "log_prob", "acting")
    stopwatch.watch(of("note_rl.environments.in_process").VectorEnvironment, "step", "environment")
    rows = of("note_rl.collect.step_rows").Rows
    for name in ("add", "take"):
        stopwatch.watch(rows, name, "storing")
    experience = of("note_rl.replay.experience")
    for kind in (experience.ReplayExperience, experience.RolloutExperience):
        stopwatch.watch(kind, "store", "storing")
        stopwatch.watch_items(kind, "update_blocks", "sampling")


def watch_learner(stopwatch: Stopwatch, backend: str) -> None:
    """Watches the learner of a framework."""
    of = importlib.import_module
    if backend != "keras":
        learner = of("note_rl.learners.pytorch.learner").PyTorchLearner
        steps = of("note_rl.learners.pytorch.steps").GradientSteps
        stopwatch.watch_items(steps, "take", "arithmetic", afterwards="coming back")
    else:
        learner = of("note_rl.learners.keras.learner").KerasLearner
        update = of("note_rl.learners.keras.update").CompiledUpdate
        stopwatch.watch(update, "__call__", "arithmetic", afterwards="coming back")
    stopwatch.watch(learner, "update", "going in")


def measure(backend: str, name: str) -> None:
    """Trains as `contenders.py` does, and prints a line of JSON: microseconds per environment step, by part."""
    import contenders

    case = contenders.CASES[name]
    stopwatch = Stopwatch()
    watch_training(stopwatch)
    watch_learner(stopwatch, backend)
    learn, _ = contenders._ours(case, backend)
    learn(case.warm_steps)
    stopwatch.begin("bookkeeping")
    before = dict(stopwatch.seconds)
    learn(case.timed_steps)
    stopwatch.end()
    spent = {part: 1e6 * (seconds - before[part]) / case.timed_steps for part, seconds in stopwatch.seconds.items()}
    print(json.dumps(spent))


def main() -> None:
    """Measures and prints, case after case."""
    from against_others import OURS
    from contenders import CASES

    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], default=[], metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--backends", nargs="+", choices=OURS, default=list(OURS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--before", type=Path, help="root of another working tree to compare with")
    options = parser.parse_args()
    trees = [_HERE] if options.before is None else [options.before, _HERE]
    for name in options.cases or CASES:
        print(f"\n{name}: {CASES[name].text}\nmicroseconds of the processor per environment step")
        for backend in options.backends:
            compare(name, backend, trees, options.rounds)


def compare(name: str, backend: str, trees: list[Path], rounds: int) -> None:
    """Lets the trees run a case in turns, and prints their parts beside each other."""
    found: list[list[dict[str, float]]] = [[] for _ in trees]
    for _ in range(rounds):
        for tree, runs in zip(trees, found, strict=True):
            runs.append(run_once(tree, backend, name))
    medians = [{part: statistics.median(run[part] for run in runs) for part in PARTS} for runs in found]
    totals = [statistics.median(sum(run.values()) for run in runs) for runs in found]
    print(f"  {backend}" + ("" if len(trees) == 1 else ": before, now"))
    for part, meaning in PARTS.items():
        pairs = zip(medians, totals, strict=True)
        columns = "".join(f"{median[part]:9.1f} {median[part] / total:4.0%}" for median, total in pairs)
        print(f"    {part:<12}{columns}   {meaning}")
    print(f"    {'in all':<12}{''.join(f'{total:9.1f}     ' for total in totals)}", flush=True)
    if len(trees) == 2:
        ratios = sorted(sum(old.values()) / sum(new.values()) for old, new in zip(*found, strict=True))
        print(f"    {statistics.median(ratios):.2f} times as fast [{ratios[0]:.2f}, {ratios[-1]:.2f}]", flush=True)


def run_once(tree: Path, backend: str, name: str) -> dict[str, float]:
    """One measurement of a working tree."""
    from against_others import ONE_THREAD, on_one_core

    done = subprocess.run(
        [sys.executable, __file__, "--measure", backend, name],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **ONE_THREAD, "PYTHONPATH": str(tree)},
        preexec_fn=on_one_core,
    )
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    spent: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return spent


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(*sys.argv[2:4])
    else:
        main()
