"""MLflow: a run for each run, in a folder beside the study, or at a server whose address was typed.

The controller never waits for MLflow, which takes seconds to import: calls are queued and made in a background thread.
What goes wrong there is one warning, after which nothing more is tracked. Of a server that is away MLflow says so after
minutes, in which it tries again; where a command ends before, its end says what is missing.
"""

import logging
import math
import os
import posixpath
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

from tuner.config.paths import flatten
from tuner.errors import UserError
from tuner.support.plain_text import printable_copy
from tuner.trackers.background import BackgroundCalls
from tuner.trackers.base import RunInfo, Table

if TYPE_CHECKING:
    from mlflow import MlflowClient

RUN_ID_FILE: Final = "mlflow_run.txt"
"""In the folder of a run: what it is at MLflow, so that a later session continues it."""
STORE: Final = "mlruns"

_MOST_PARAMS: Final = 100  # at once, as MLflow takes them
_LONGEST_PARAM: Final = 6000
_LONGEST_NAME: Final = 250
_NOT_IN_NAMES: Final = re.compile(r"[^/\w.\- :]")
_QUEUE: Final = 10_000
_LOCAL_PATIENCE_S: Final = 60.0

logger = logging.getLogger(__name__)


class MlflowTracker:
    """Tracks runs with MLflow: metrics by environment step, the configuration as parameters, tables as files.

    Args:
        uri: Where MLflow keeps them, such as "http://localhost:5000" or "sqlite:///runs.db"; None: in a folder `mlruns`
            of the study, or of the run where there is no study.
        experiment: At MLflow; None: the name of the study, or of the agent and its environment.

    Raises:
        UserError: MLflow is not installed.
    """

    def __init__(self, uri: str | None = None, experiment: str | None = None) -> None:
        if find_spec("mlflow") is None:
            raise UserError("tracker=mlflow needs mlflow, which is not installed: pip install 'note-rl[mlflow]'")
        self._uri = uri
        self._is_local = uri is None or uri.startswith(("file:", "sqlite:"))
        self._experiment = experiment
        self._calls = BackgroundCalls("tracker-mlflow", _QUEUE)
        self._clients: dict[str, MlflowClient] = {}
        self._is_off = False

    def start_run(self, info: RunInfo) -> "MlflowRun":
        """Begins a run, or continues the one that the folder names."""
        return MlflowRun(info, self._experiment or info.group, self._in_turn)

    def close(self, timeout_s: float = 10.0) -> None:
        """Delivers what waits; where nothing is sent, MLflow may take longer, as it does to be imported.

        What is missing then is one warning.
        """
        if self._calls.closed:
            return
        patient_until = time.monotonic() + (_LOCAL_PATIENCE_S if self._is_local else 0.0)
        done = False
        try:
            done = self._calls.close(timeout_s, lambda: time.monotonic() < patient_until)
        finally:  # Ctrl-C while it is waited for
            if not done:
                self._give_up("it has not taken everything in time; metrics.jsonl of each run has all of it")

    def _in_turn(self, info: RunInfo, call: "Callable[[MlflowClient], None]", droppable: bool = False) -> None:
        """Has a call made in the thread, with the client of the run's store."""
        self._calls.submit(lambda: self._made(info, call), droppable)

    def _made(self, info: RunInfo, call: "Callable[[MlflowClient], None]") -> None:
        if self._is_off:
            return
        try:
            call(self._client(self._uri or (info.group_folder or info.folder).absolute().joinpath(STORE).as_uri()))
        except _errors() as error:
            why = str(error).partition("\n")[0]
            self._give_up(f"training goes on: {type(error).__name__}: {why}")

    def _give_up(self, why: str) -> None:
        """Tracks nothing more, and says so once."""
        if not self._is_off:
            self._is_off = True
            logger.warning("MLflow is off, %s", why)

    def _client(self, uri: str) -> "MlflowClient":
        if uri not in self._clients:
            os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # it would send what it is used for
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
            from mlflow import MlflowClient

            self._clients[uri] = MlflowClient(tracking_uri=uri)
        return self._clients[uri]


class MlflowRun:
    """One run at MLflow.

    Args:
        info: Its description.
        experiment: Where it belongs.
        in_turn: Makes a call with the client, later.
    """

    def __init__(self, info: RunInfo, experiment: str, in_turn: Callable[..., None]) -> None:
        self._info = info
        self._experiment = experiment
        self._in_turn = in_turn
        self._run_id = ""  # once it is begun, in the thread
        self._step = 0
        in_turn(info, self._begin)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Records measurements; dropped if MLflow is far behind."""
        self._step = step
        at, values = _now(), dict(metrics)
        self._in_turn(self._info, lambda client: self._log(client, values, step, at), droppable=True)

    def finish(self, exit_code: int = 0, summary: Mapping[str, object] | None = None) -> None:
        """Records what the run came to: numbers as metrics, words as tags, tables as files."""
        step, at, final = self._step, _now(), dict(summary or {})
        self._in_turn(self._info, lambda client: self._end(client, final, exit_code, step, at))

    def _begin(self, client: "MlflowClient") -> None:
        file = self._info.folder / RUN_ID_FILE
        with suppress(OSError):
            self._run_id = file.read_text().strip()
        if self._run_id and self._is_known(client):
            client.update_run(self._run_id, status="RUNNING")
            return
        found = client.get_experiment_by_name(self._experiment)
        experiment = found.experiment_id if found is not None else client.create_experiment(self._experiment)
        labels = {"group": self._info.group, "job_type": self._info.job_type, "host": self._info.host}
        tags = {name: text for name, text in labels.items() if text}
        tags |= dict.fromkeys(map(_fit_name, self._info.tags), "true")
        self._run_id = client.create_run(experiment, tags=tags, run_name=self._info.name).info.run_id
        self._info.folder.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{self._run_id}\n")
        self._log_config(client)

    def _is_known(self, client: "MlflowClient") -> bool:
        """Whether the store has the run that the folder names; the folder may have come from another machine."""
        from mlflow.exceptions import MlflowException

        try:
            client.get_run(self._run_id)
        except MlflowException:
            return False
        return True

    def _log_config(self, client: "MlflowClient") -> None:
        from mlflow.entities import Param

        values = flatten(printable_copy(self._info.config)).items()
        told = {_fit_name(name): str(value)[:_LONGEST_PARAM] for name, value in values if value not in (None, {}, [])}
        params = [Param(name, text) for name, text in told.items()]
        for first in range(0, len(params), _MOST_PARAMS):
            client.log_batch(self._run_id, params=params[first : first + _MOST_PARAMS])

    def _log(self, client: "MlflowClient", values: Mapping[str, float], step: int, at: int) -> None:
        from mlflow.entities import Metric

        client.log_batch(
            self._run_id, [Metric(_fit_name(name), float(value), at, step) for name, value in values.items()]
        )

    def _end(self, client: "MlflowClient", final: Mapping[str, Any], exit_code: int, step: int, at: int) -> None:
        numbers = {}
        for name, value in final.items():
            if isinstance(value, Table):
                rows = {"columns": list(value.columns), "data": [list(row) for row in value.rows]}
                client.log_dict(self._run_id, printable_copy(rows), f"{name}.json")
            elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
                numbers[f"final/{name}"] = value
            elif value is not None:
                client.set_tag(self._run_id, f"final/{name}", printable_copy(str(value))[:_LONGEST_PARAM])
        self._log(client, numbers, step, at)
        client.set_terminated(self._run_id, "FAILED" if exit_code else "FINISHED")


def _fit_name(name: str) -> str:
    """A name as MLflow takes it: it refuses signs such as brackets, and what would be another path."""
    fitted = _NOT_IN_NAMES.sub("_", name)[:_LONGEST_NAME]
    is_path = posixpath.normpath(fitted) == fitted and not fitted.startswith(("/", ".."))
    return fitted if is_path and fitted != "." else re.sub(r"[/.]", "_", fitted)


def _errors() -> tuple[type[Exception], ...]:
    """Errors of MLflow, of its store or its server (an OSError), and of an incomplete installation."""
    usual = (ImportError, OSError, ValueError)
    try:
        from mlflow.exceptions import MlflowException
    except ImportError:
        return usual
    return (*usual, MlflowException)


def _now() -> int:
    return int(time.time() * 1000)
