"""Functions for runs of a finder, importable in their processes without a framework."""

import os
import time

from tuner.finders.finder_process import Measured
from tuner.trial.context import TrialContext
from tuner.trial.messages import JsonDict


def fare(context: TrialContext, point: JsonDict) -> Measured:
    """Does what the candidate's name says."""
    match point["candidate"]:
        case "crashes":
            raise RuntimeError("this candidate is broken")
        case "dies":
            os._exit(3)
        case "hangs":
            time.sleep(600.0)
    context.report(0.5, 1.0)
    return Measured((2.0 + point["seed"],), {"rewards": [1.0, 2.0]})
