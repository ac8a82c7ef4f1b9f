"""Displays of a study: in the terminal while it runs and when it is done, and as a page to keep."""

from tuner.reporting.page import write_page
from tuner.reporting.study_progress import RunningRun, Schedule, StudyProgress, StudyTally
from tuner.reporting.terminal import FinalTable, LiveTable

__all__ = [
    "FinalTable",
    "LiveTable",
    "RunningRun",
    "Schedule",
    "StudyProgress",
    "StudyTally",
    "write_page",
]
