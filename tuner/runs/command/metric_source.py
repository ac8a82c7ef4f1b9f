"""Where the metric of a program is: settings that are checked, their reader, and what is said where there is none."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tuner.errors import UserError
from tuner.runs.command.event_files import TensorBoardEvents, check_tensorboard
from tuner.runs.command.metric_files import CsvTable, JsonLines, MetricReader, OutputPattern, compiled
from tuner.runs.command.script_process import OUTPUT
from tuner.runs.command.wandb_files import WandbHistory
from tuner.support.names import did_you_mean

_READERS: Mapping[str, type[MetricReader]] = {
    "tensorboard": TensorBoardEvents,
    "jsonl": JsonLines,
    "csv": CsvTable,
    "wandb": WandbHistory,
}
_OUTPUT = "output"
_MOST_NAMES = 8


@dataclass(frozen=True)
class MetricSource:
    """The settings `agent.read`, `agent.metric`, `agent.files`, `agent.step` and `agent.pattern`.

    Raises:
        UserError: They do not fit together, or a package is not installed.
    """

    read: str
    metric: str
    files: str
    step: str | None
    pattern: str

    def __post_init__(self) -> None:
        for complaint in self._complaints():
            raise UserError(complaint)
        if self.read == _OUTPUT:
            compiled(self.pattern)
        elif self.read == "tensorboard":
            check_tensorboard()
        check_within("files", self.files)

    def _complaints(self) -> Iterator[str]:
        kinds, beside = (*_READERS, _OUTPUT), f"with agent.read={self.read}"
        if self.read not in kinds:
            yield f"agent.read={self.read} must be one of {', '.join(kinds)}"
        elif self.read == _OUTPUT:
            if not self.pattern:
                example = r"'step=(?P<step>\d+) return=(?P<value>\S+)'"
                yield f"agent.read=output needs agent.pattern, for example {example}"
            return
        if self.pattern:
            yield f"agent.pattern has no meaning {beside}: use agent.read=output"
        if not self.metric:
            yield "agent.metric is missing: the name of the score in what the program writes"
        if _READERS[self.read].needs_step and not self.step:
            yield f"agent.step is missing: the name of the step axis beside {self.metric} (agent.read={self.read})"
        if self.read == "tensorboard" and self.step:
            yield f"agent.step has no meaning {beside}: its files have a step axis"

    def reader(self, work: Path, logs: Path) -> MetricReader:
        """Reads what the program writes.

        Args:
            work: Its working directory.
            logs: The folder with its output.
        """
        if self.read == _OUTPUT:
            return OutputPattern(logs / OUTPUT, self.pattern)
        return _READERS[self.read](work, self.files, self.metric, self.step)

    def __str__(self) -> str:
        return f"agent.pattern={self.pattern!r}" if self.read == _OUTPUT else f"agent.metric={self.metric}"

    def found_instead(self, reader: MetricReader) -> str:
        """The files, names or output found in place of the metric, in words."""
        if reader.metric in reader.names:
            return self._without_a_number(reader)
        if self.read == _OUTPUT:
            return f"no line of {OUTPUT} matches (lines on stderr are not read: 2>&1 within bash -c '...' adds them)"
        files = self.files or reader.default_files
        if not reader.num_files:
            return f"the command has written no file {files} in its working directory (agent.read, agent.files)"
        names = sorted(reader.names)
        listed = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
        found = f"{reader.num_files} files" if reader.num_files > 1 else "1 file"
        return f"{found} {files} with {listed or 'nothing in it'}{did_you_mean(self.metric, names)}"

    def _without_a_number(self, reader: MetricReader) -> str:
        """The reason why a metric that is there cannot be used."""
        if not reader.has_values:
            place = f"lines of {OUTPUT} match, but the group value" if self.read == _OUTPUT else "it is there, but"
            return f"{place} holds no number: {reader.odd.get(reader.metric, '')}"
        if reader.step is not None and reader.step in reader.odd:
            return f"the {reader.step} beside it is no number: {reader.odd[reader.step]}"
        return f"its rows have no {reader.step} beside it (agent.step)"


def check_within(name: str, files: str) -> None:
    """Refuses a pattern of files that leads out of the program's working directory (UserError)."""
    if PurePosixPath(files).is_absolute() or ".." in PurePosixPath(files).parts:
        raise UserError(
            f"agent.{name}={files} must be within the run's own folder, as runs side by side would mix there: "
            "the program is started in it, and {folder} in agent.command is its path"
        )
