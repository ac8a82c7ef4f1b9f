"""Entry of the process that a study starts first: does everything fit together, and what does a random policy score?"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from note_rl.collect.evaluation import random_policy_returns
from tuner.config.composition import RunConfig
from tuner.runs.build import build_distributed, build_run
from tuner.runs.checkpoints import take_weights
from tuner.runs.devices import check_devices
from tuner.trial.context import TrialContext

NUM_EPISODES = 20
_log = logging.getLogger("note_rl")


def run_probe(context: TrialContext) -> None:
    """Builds what the trial's config says, lets the agent act once, and reports the mean return of a random policy.

    The score is what a run is worth that diverged or broke off: nothing was learnt.
    """
    config = RunConfig.from_json({**context.spec.config, "seed": context.spec.seed})
    check_devices(build_distributed(config))
    run = build_run(config)
    if run.config.init is not None:
        take_weights(run.agent, run.config.init)
    with warnings_of_a_run() as said:
        run.try_out()
        context.built(run.used)
        returns = random_policy_returns(
            run.environment, NUM_EPISODES, context.spec.seed, check=partial(context.alive, 0.0)
        )
    context.report(1.0, float(returns.mean()))
    context.remark = "; ".join(said)


@contextmanager
def warnings_of_a_run() -> Iterator[list[str]]:
    """Yields a list that gets what is wrong with environment or agent in this block, but lets training go on."""
    warnings = _Warnings()
    _log.addHandler(warnings)
    try:
        yield warnings.texts
    finally:
        _log.removeHandler(warnings)


class _Warnings(logging.Handler):
    """Keeps the texts of warnings."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps it."""
        self.texts.append(record.getMessage())
