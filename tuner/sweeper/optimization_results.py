"""optimization_results.yaml, as users of hydra-optuna-sweeper know it."""

from collections.abc import Sequence
from pathlib import Path

import yaml

from tuner.study.sweep.sweep_study import JobResult
from tuner.support.text_files import atomic_write
from tuner.trial.messages import JsonDict

RESULTS_FILE = "optimization_results.yaml"


def results_of(best: Sequence[JobResult], num_objectives: int) -> JsonDict:
    """The content of the file: of one objective the best job, of several all that no other beats."""
    if not best:
        return {}
    if num_objectives > 1:
        solutions = [{"params": job.params, "values": list(job.values), "job": job.subdir} for job in best]
        return {"name": "optuna", "solutions": solutions}
    (job,) = best
    return {"name": "optuna", "best_params": job.params, "best_value": job.values[0], "best_job": job.subdir}


def write_results(folder: Path, results: JsonDict) -> None:
    """Writes the file."""
    atomic_write(folder / RESULTS_FILE, yaml.safe_dump(results, sort_keys=False, allow_unicode=True))
