"""The study engine: ask Optuna, have a trial run elsewhere, tell Optuna what came of it.

With `tuner.study.space.space` the only home of optuna.
"""

from tuner.study.definition import StudyDefinition
from tuner.study.runner import StudyRunner
from tuner.study.storage.store import StudyStore, quiet_optuna
from tuner.study.study_errors import STOPPED, StudyError, StudyStopped, how_it_stopped
from tuner.study.summary import Winner, find_winner, home_of, home_to_read, own_home, summarise
from tuner.study.watching.notes import fill_dashboard, fill_in_missing
from tuner.study.watching.study_listener import Listeners, StudyListener

__all__ = [
    "STOPPED",
    "Listeners",
    "StudyDefinition",
    "StudyError",
    "StudyListener",
    "StudyRunner",
    "StudyStopped",
    "StudyStore",
    "Winner",
    "fill_dashboard",
    "fill_in_missing",
    "find_winner",
    "home_of",
    "home_to_read",
    "how_it_stopped",
    "own_home",
    "quiet_optuna",
    "summarise",
]
