"""Checks of a run by its folder and its objects."""

from tuner.config.paths import get_path
from tuner.study.run_registry import Run
from tuner.support.plain_text import MAX_NAME, one_line
from tuner.trial.messages import JsonDict, TrialResult, TrialSpec


def is_of(spec: TrialSpec | None, run: Run) -> bool:
    """Whether a folder's trial is this run and not one that the storage has forgotten."""
    if spec is None or spec.seed != run.seed:
        return False
    return all(_found(spec.config, path) == value for path, value in run.values.items())


def config_mismatch(values: JsonDict, used: JsonDict) -> str:
    """The error if the run does not use the values that were sampled for it; empty if it does."""
    for path, value in values.items():
        found = _found(used, path)
        if found != value:
            what = (
                "is not in what the run says it used"
                if found is _MISSING
                else f"is {_shown(found)} in the objects that were built"
            )
            return f"{path} was sampled as {_shown(value)} but {what}: the config does not reach the object"
    return ""


_MISSING = object()


def _shown(value: object) -> str:
    return one_line(str(value), MAX_NAME)


def _found(config: JsonDict, path: str) -> object:
    try:
        return get_path(config, path)
    except KeyError:
        return _MISSING


def likely_cause(result: TrialResult) -> str:
    """One line: what the run said of its end, or the last line of its traceback."""
    lines = [line for line in result.traceback.splitlines() if line.strip()]
    return result.reason or (lines[-1] if lines else str(result.outcome))
