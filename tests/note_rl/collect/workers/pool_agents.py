"""Agents whose environments stand in worker processes, and which of these are left."""

import psutil

from note_rl.settings import WorkerSettings
from tests.note_rl.collect.counting import CountingAgent, Watched, settings

TURNS = WorkerSettings(processes=2, overlapping=False)

AHEAD = WorkerSettings(processes=2, overlapping=True)


def agent(workers, env=Watched, mirrored=True, **options):
    made = CountingAgent(env, mirrored)
    made.settings = settings(workers, **options)
    return made


def workers_left():
    """Processes of pools that this one has started."""
    return [
        child for child in psutil.Process().children(recursive=True) if "note_rl.collect" in " ".join(_words(child))
    ]


def _words(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []
