"""Points that readers of metrics have found, without the files that they were in."""

from tuner.runs.command.metric_files import MetricReader, Point


def polled(reader: MetricReader) -> list[Point]:
    """The values that have come since the last call."""
    return [point for batch in reader.poll() for point in batch.points]
