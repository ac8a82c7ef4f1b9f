"""A program of any kind in the place of an agent: started by a command line, its metric read from what it writes.

`external.py` is what a run does. `script_arguments.py` makes the command line, `script_process.py` starts and ends the
program with all that it has started. `metric_source.py` has the settings of its metric, `metric_files.py`,
`event_files.py` and `wandb_files.py` read it, and `score_grid.py` makes points of the study's grid of it.
"""

from tuner.runs.command.external import Script

__all__ = ["Script"]
