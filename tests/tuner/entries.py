"""Entry functions of synthetic trials. Imports nothing heavy, as every child imports it anew."""

import json
import math
import os
import random
import signal
import time

from tuner.trial.context import TrialContext
from tuner.trial.messages import JsonDict

NUM_POINTS = 9


def quality(config: JsonDict) -> float:
    """Score a configuration reaches in the end: 100 at a learning rate of 1e-3, less on either side."""
    distance = abs(math.log10(config["optimizer"]["learning_rate"]) + 3.0)
    return 100.0 / (1.0 + distance**2)


def synthetic_curve(config: JsonDict, seed: int, noise: float = 2.0) -> list[tuple[float, float]]:
    """A saturating curve with noise that depends on the seed and the configuration, and on nothing else."""
    rng = random.Random(f"{seed} {config['optimizer']['learning_rate']!r}")
    points = [point / NUM_POINTS for point in range(1, NUM_POINTS + 1)]
    return [(x, quality(config) * (1.0 - math.exp(-4.0 * x)) + noise * rng.gauss(0.0, 1.0)) for x in points]


def train(context: TrialContext) -> None:
    """Learns its synthetic curve from where it was; writes down what it used and, once, that it came to its end."""
    config = {**context.spec.config, "seed": context.spec.seed}
    context.built(config)
    (context.folder / "used.json").write_text(json.dumps(config))
    done = dict(context.reported)
    for step, value in synthetic_curve(config, context.spec.seed):
        if step not in done:
            time.sleep(config.get("sleep_s", 0.0))
            context.alive(step)
            context.report(step, value)
            with (context.folder / "steps.log").open("a") as file:
                file.write(f"{step!r}\n")
    with (context.folder / "finished.log").open("a") as file:
        file.write("finished\n")


def train_with_accidents(context: TrialContext) -> None:
    """Screening trial 1 always crashes, 2 hangs, 3 is killed once half-way, 4 diverges; all others learn."""
    number = context.spec.number if context.spec.stage == "screen" else -1
    if number == 1:
        raise RuntimeError("the replay buffer is upside down")
    if number == 2:
        time.sleep(3600.0)
    if number == 3 and not context.reported:
        for step, value in synthetic_curve(context.spec.config, context.spec.seed)[:4]:
            context.report(step, value)
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 4:
        context.report(1 / NUM_POINTS, 3.0)
        context.report(2 / NUM_POINTS, math.nan)
    train(context)


def train_deaf(context: TrialContext) -> None:
    """Uses another learning rate than it was given."""
    config = {**context.spec.config, "optimizer": {"learning_rate": 0.5}}
    context.built(config)
    for step, value in synthetic_curve(config, context.spec.seed):
        context.report(step, value)


def crash(context: TrialContext) -> None:
    """Never works."""
    raise ModuleNotFoundError("No module named 'my_wrappers'")


def probe(context: TrialContext) -> None:
    """A random policy scores -7."""
    context.report(1.0, -7.0)


def probe_misfit(context: TrialContext) -> None:
    """An agent that cannot use the environment."""

    class EnvironmentMismatchError(ValueError):
        pass

    raise EnvironmentMismatchError("DQN chooses among actions, but Pendulum-v1 has continuous ones: use agent=sac")


def distance(x: float, best: float, height: float) -> float:
    """A function to be tuned, with its best value where an environment says."""
    return height * (1.0 - abs(x - best))
