"""Runs of a plain function in the place of an agent: any training code that calls `tuner.report`.

Such a run has no `backend` in its config (agent=function); `agent._target_` names the function, the arguments stand
beside it.
"""

import inspect
import math
import numbers
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from note_rl.collect.evaluation import random_policy_returns
from note_rl.environments import EnvFactory
from tuner.config.composition import CheckpointConfig, EvaluationConfig, TrainingConfig
from tuner.errors import UserError
from tuner.results.metric import STEP_TOLERANCE
from tuner.runs.build import build_function, build_wrappers
from tuner.runs.probe import NUM_EPISODES
from tuner.runs.training import EvaluationPoint, TrainOutcome
from tuner.support.plain_text import MAX_NAME, one_line
from tuner.trial.context import TrialContext, current_trial, set_current_trial
from tuner.trial.messages import JsonDict
from tuner.trial.reporter import Reporter

ENTRY = "tuner.runs.functions:run_trial"
"""Entry point of a trial process."""
PROBE = "tuner.runs.functions:run_probe"
"""Entry point of the process that a study starts first, where a random policy can be measured."""

RETURNED = "returned"
"""The reason for which runs of a function stop."""

_CHECKED_HERE = ("tuner.simulator.", "tuner.runs.drift_simulator.", "tuner.runs.command.", "tuner.features.sb3.")


def is_function(config: Mapping[str, Any]) -> bool:
    """Whether a resolved config is of a plain function."""
    return config.get("backend") is None


def function_name(config: Mapping[str, Any]) -> str:
    """The function, for people, with the algorithm if it runs one of several."""
    name = str(config["agent"]["_target_"]).rpartition(".")[2]
    algorithm = config["agent"].get("algorithm")
    return f"{name}-{algorithm}" if isinstance(algorithm, str) else name


def check_function(config: Mapping[str, Any]) -> None:
    """Refuses what is known to be wrong without importing the user's own code.

    Raises:
        UserError: Says what and what to write instead.
    """
    if "_target_" not in config["agent"]:
        raise UserError("agent has no _target_: it names the function, as my_package.my_module.train")
    parts = ("env", "network", "optimizer", "buffer", "policy", "noise", "wrapper", "wrapper_training")
    for part in (*parts, "schedule", "adaptive", "plateau", "strategy", "init"):
        if config.get(part) and not _is_given(part, config):
            raise UserError(f"{part} has no meaning here: {function_name(config)} is a function and gets agent only")
    for name, kind in (("training", TrainingConfig), ("evaluation", EvaluationConfig)):
        kind(**config[name])
    if config["training"].get("target_reward") is not None:
        raise UserError("training.target_reward has no meaning here: a function decides itself when it ends")
    if config.get("checkpoint"):
        CheckpointConfig(**config["checkpoint"])
    if config["seed"] < 0:
        raise UserError(f"seed={config['seed']} is not possible: it must be 0 or more")
    if str(config["agent"]["_target_"]).startswith(_CHECKED_HERE):
        build_function(config["agent"])


def _is_given(part: str, config: Mapping[str, Any]) -> bool:
    """Whether the function is called with what the group `env`, or one of wrappers, holds."""
    given = config["agent"].get(part)
    if part != "env":
        return isinstance(given, Mapping) and given == config[part]
    return isinstance(given, Mapping) and all(config["env"].get(name) == value for name, value in given.items())


def has_random_policy(config: Mapping[str, Any]) -> bool:
    """Whether it is known what a random policy is: the function is one of this project and plays in `env`."""
    is_known = str(config["agent"].get("_target_")).startswith(_CHECKED_HERE)
    return is_known and bool(config.get("env")) and _is_given("env", config)


def random_return(config: Mapping[str, Any], check: Callable[[], object] = lambda: None) -> float | None:
    """Mean return of a random policy in the environment of a function; None: that is not known.

    Args:
        config: Of a run.
        check: Called before each step: episodes may take long.
    """
    if not has_random_policy(config):
        return None
    env = config["env"]
    wrappers = build_wrappers({"wrapper": config.get("wrapper") or {}})
    make = EnvFactory(env["id"], env.get("kwargs") or {}, wrappers, env.get("max_episode_steps"))
    return float(random_policy_returns(make, NUM_EPISODES, config["seed"], check=check).mean())


def run_probe(context: TrialContext) -> None:
    """Checks the function's arguments, and reports the mean return of a random policy.

    An object in the place of the function that has `try_out` makes what it trains.
    """
    config = {**context.spec.config, "seed": context.spec.seed}
    try_out = getattr(build_function(config["agent"]), "try_out", None)
    if try_out is not None:
        try_out(config["seed"])
    context.built(config)
    score = random_return(config, partial(context.alive, 0.0))
    assert score is not None, "asked for only where there is a random policy"
    context.report(1.0, score)


def run_trial(context: TrialContext) -> None:
    """The entry of a trial process."""
    run_function({**context.spec.config, "seed": context.spec.seed}, context.folder, context)


def run_function(config: JsonDict, folder: Path, reporter: Reporter) -> TrainOutcome:
    """Calls the function with its arguments, and with `seed` if it takes one.

    A number that it returns is its score at the end of the budget, unless it has reported one there itself; what it
    returns beside that is reported.

    Args:
        config: The run.
        folder: Of the run.
        reporter: Where `tuner.report` leads.

    Raises:
        TrialInterrupted: The reporter ended the run.
        UserError: The function neither reports at the end of its budget nor returns a number, or a report is refused.
    """
    began = time.perf_counter()
    function = build_function(config["agent"])
    reporter.built(config)
    before = current_trial()
    reports = _Fractions(reporter, folder, int(config["training"]["total_steps"]))
    set_current_trial(reports)
    try:
        returned = function(seed=config["seed"]) if _takes_seed(function) else function()
    finally:
        set_current_trial(before)
    if reports.refusal is not None:  # which the function has caught
        raise reports.refusal
    score = _number(returned)
    if score is not None and 1.0 not in dict(reporter.reported):
        reporter.report(1.0, score)
    else:
        _tell_of_unused(returned, score, reporter)
    _require_score_at_the_end(function_name(config), returned, [step for step, _ in reporter.reported])
    total_steps = int(config["training"]["total_steps"])
    points = [EvaluationPoint(step, round(step * total_steps), value) for step, value in sorted(reporter.reported)]
    return TrainOutcome(
        folder=folder,
        evaluations=tuple(points),
        returns=(),
        num_env_steps=total_steps,
        num_gradient_steps=0,
        seconds=time.perf_counter() - began,
        stop_reason=RETURNED,
    )


def _tell_of_unused(returned: Any, score: float | None, reporter: Reporter) -> None:
    """Says that what was returned is not the score, of what looks like one."""
    known = dict(reporter.reported).get(1.0)
    looks_like_one = score is not None or isinstance(returned, str | numbers.Number)
    if known is not None and looks_like_one and score != known:
        given = one_line(repr(returned), MAX_NAME)
        reporter.ends(f"it returned {given}, but its score is the {known:g} that it had reported at its end", 1.0)


def _require_score_at_the_end(name: str, returned: Any, reported: Sequence[float]) -> None:
    """A run that ends early without a word would be compared, at a fifth of the budget, with others at their ends."""
    if reported and max(reported) >= 1.0 - STEP_TOLERANCE:
        return
    given = "" if returned is None else f" (it returned {one_line(repr(returned), MAX_NAME)})"
    if not reported:
        raise UserError(f"{name} has no score: let it call tuner.report(fraction, value) or return one{given}")
    raise UserError(
        f"{name} ended at {max(reported):.0%} of its budget without a score{given}: let it return one, "
        "or call tuner.report(1.0, value) at its end"
    )


def _number(returned: Any) -> float | None:
    """A number, NumPy's and a framework's with one element among them; None: it is nothing of the kind."""
    if isinstance(returned, bool):
        return None
    if isinstance(returned, numbers.Real):
        try:
            return float(returned)
        except OverflowError:  # whole numbers and fractions know no largest one
            return math.inf if returned == abs(returned) else -math.inf
    if callable(getattr(returned, "item", None)) and getattr(returned, "shape", None) in ((), (1,)):
        item = returned.item()
        return None if hasattr(item, "item") else _number(item)
    return None


class _Fractions:
    """Passes on what a function tells, but refuses reports that cannot be points of a curve.

    What an earlier attempt has reported may come again, as it began somewhere before.

    Args:
        reporter: Gets what is passed on.
        folder: Of the run.
        total_steps: Environment steps that its budget stands for.

    Attributes:
        refusal: The last that was refused.
    """

    def __init__(self, reporter: Reporter, folder: Path, total_steps: int) -> None:
        self.folder, self.total_steps = folder, total_steps
        self.refusal: UserError | None = None
        self._reporter = reporter
        self._told: dict[float, float] = {}  # in this attempt

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reporter, name)

    def report(self, step: float, value: float, seconds: float | None = None) -> None:
        """See `Reporter.report`."""
        at, number = _number(step), _number(value)
        wrong = self.wrong(at, number)
        if wrong or at is None or number is None:
            given = ", ".join(one_line(repr(one), MAX_NAME) for one in (step, value))
            self.refusal = UserError(f"tuner.report({given}): {wrong}")
            raise self.refusal
        self._told[at] = number
        self._reporter.report(at, number, seconds)

    def wrong(self, at: float | None, value: float | None) -> str:
        """The error in a report; empty where there is none."""
        if at is None or not 0.0 < at <= 1.0:
            return (
                "the first number is the done part of the run, above 0 and at most 1; after epoch 3 of 10 write "
                "tuner.report(3 / 10, ...)"
            )
        if value is None:
            return "the second must be one number, the score there"
        if not self._told or at > (last := max(self._told)) + STEP_TOLERANCE:
            return ""
        if at < last - STEP_TOLERANCE:
            return f"it comes after the report at {last:g}, and the first number may not go back; report in order"
        if value != self._told[last]:
            return f"{self._told[last]:g} was reported there before; report one score for each part of the run"
        return ""


def _takes_seed(function: Any) -> bool:
    parameters = inspect.signature(function).parameters
    return "seed" in parameters or any(kind.kind is kind.VAR_KEYWORD for kind in parameters.values())
