"""Makes what a tracker has of a run whole again, from what is in the run's folder."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tuner.errors import UserError
from tuner.runs.recorder import report_row
from tuner.runs.run_folders import written_config
from tuner.support.text_files import parse_json
from tuner.trackers.base import RunInfo, Tracker
from tuner.trackers.jsonl import SUMMARY_FILE, read_metrics
from tuner.trial.folder import read_trial
from tuner.trial.messages import JsonDict, Outcome


@dataclass(frozen=True)
class EndedRun:
    """A run that has ended, as trackers know it.

    Attributes:
        info: Its description for trackers.
        exit_code: 0 for one that did what it should.
        summary: Its final values.
    """

    info: RunInfo
    exit_code: int
    summary: Mapping[str, object]


def ended_run(folder: Path) -> EndedRun:
    """A run as its folder alone describes it; the score of a trial is only in the storage of its study.

    Args:
        folder: Of a run of `tuner train` or a trial of a study. What it names is shown, and not built.

    Raises:
        UserError: There is no run.
    """
    config, trial = written_config(folder), read_trial(folder)
    if trial.spec is not None:
        spec, result = trial.spec, trial.result
        outcome = Outcome.CRASHED if result is None else result.outcome
        summary: JsonDict = {"outcome": outcome.value, "reason": "" if result is None else result.reason}
        if trial.reports:
            summary["best_return"] = max(value for _, value in trial.reports)
        info = RunInfo(spec.key, spec.study, config, folder, (spec.stage,), spec.stage)
        return EndedRun(info, 0 if outcome.effects.succeeded else 1, summary)
    ended = _json_in(folder / SUMMARY_FILE)
    name, group = str(ended.get("name", folder.name)), str(ended.get("group", folder.parent.name))
    info = RunInfo(name, group, config, folder, job_type=str(ended.get("job_type", "train")))
    found, exit_code = ended.get("summary"), ended.get("exit_code")
    return EndedRun(info, exit_code if isinstance(exit_code, int) else 0, found if isinstance(found, dict) else {})


def refill(run: EndedRun, tracker: Tracker, id_file: str) -> int:
    """Tells a tracker of a run from its beginning.

    Args:
        run: That has ended.
        tracker: That does not know of it in this process.
        id_file: By which the tracker knows a run again. It is removed, as rows cannot be put between those that are
            there already: the run is a new one.

    Returns:
        The number of rows.

    Raises:
        UserError: Nothing was measured in it.
    """
    folder, config = run.info.folder, run.info.config
    rows = list(read_metrics(folder))
    trial = read_trial(folder)
    if trial.spec is not None:  # the controller has sent its reports to trackers besides
        training = config.get("training")
        total_steps = int(training.get("total_steps", 0)) if isinstance(training, dict) else 0
        rows += [report_row(step, value, total_steps) for step, value in trial.reports]
    if not rows:
        raise UserError(f"{folder} has no metrics.jsonl with numbers: there is nothing to refill from")
    rows.sort(key=lambda row: row[0])  # one that went back to a checkpoint repeats some
    (folder / id_file).unlink(missing_ok=True)
    tracked = tracker.start_run(run.info)
    for step, metrics in rows:
        tracked.log(step, metrics)
    tracked.finish(run.exit_code, run.summary)
    return len(rows)


def _json_in(path: Path) -> JsonDict:
    """The object in a JSON file; empty where there is no such file, or a damaged one."""
    try:
        content = parse_json(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
