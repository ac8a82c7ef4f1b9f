"""Makes what a tracker has of a run whole again, from what is in the run's folder."""

from pathlib import Path

from tuner.errors import UserError
from tuner.runs.folders import written_config
from tuner.support.files import parse_json
from tuner.trackers.base import RunInfo, Tracker
from tuner.trackers.jsonl import SUMMARY_FILE, read_metrics
from tuner.trial.folder import RESULT_FILE
from tuner.trial.messages import JsonDict


def refill(folder: Path, tracker: Tracker, id_file: str) -> int:
    """Tells a tracker of a run that has ended, from its beginning.

    Args:
        folder: Of a run of `tuner train` or a trial of a study. What it names is shown, and not built.
        tracker: That has not been told of it in this process.
        id_file: By which the tracker knows a run again. It is removed, as rows cannot be put between those that are
            there already: the run is a new one.

    Returns:
        The number of rows.

    Raises:
        UserError: There is no run, or nothing was measured in it.
    """
    config, rows = written_config(folder), list(read_metrics(folder))
    if not rows:
        raise UserError(f"{folder} has no metrics.jsonl with numbers: there is nothing to refill from")
    ended, result = _json_in(folder / SUMMARY_FILE), _json_in(folder / RESULT_FILE)
    info = RunInfo(
        str(ended.get("name", folder.name)),
        str(ended.get("group", folder.parent.name)),
        config,
        folder,
        job_type=str(ended.get("job_type", "train")),
    )
    (folder / id_file).unlink(missing_ok=True)
    run, newest = tracker.start_run(info), 0
    for step, metrics in rows:
        newest = max(newest, step)  # one that went back to a checkpoint repeats some
        run.log(newest, metrics)
    summary = ended.get("summary", {})
    failed = ended.get("exit_code", int(result.get("outcome", "complete") not in ("complete", "pruned")))
    run.finish(int(failed), summary if isinstance(summary, dict) else {})
    return len(rows)


def _json_in(path: Path) -> JsonDict:
    """What stands there; nothing where there is no such file, or a damaged one."""
    try:
        content = parse_json(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
