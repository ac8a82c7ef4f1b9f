"""A trial is a folder and a process: what an entry function sees of it, and how its folder is read.

The parent's side is in `tuner.trial.process`; it is not imported here, as a child has no use for it.
"""

from tuner.trial.context import TrialContext, current_trial
from tuner.trial.folder import FolderState, end_leftover, read_trial, wait_until_free
from tuner.trial.messages import JsonDict, Limits, Outcome, TrialInterrupted, TrialResult, TrialSpec, Verdict

__all__ = [
    "FolderState",
    "JsonDict",
    "Limits",
    "Outcome",
    "TrialContext",
    "TrialInterrupted",
    "TrialResult",
    "TrialSpec",
    "Verdict",
    "current_trial",
    "end_leftover",
    "read_trial",
    "wait_until_free",
]
