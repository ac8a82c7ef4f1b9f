"""Which tests cover a file, the quickest first: what to run while that file is worked on.

    python tests/where.py --record                  # once in a while: runs the tests, and keeps what covers what
    python tests/where.py tuner/study/guard.py

A test with parameters counts as one. What processes of their own do that a test starts is not seen.
"""

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from coverage import Coverage, CoverageData

ROOT = Path(__file__).parents[1]
RECORD, SECONDS = ROOT / ".coverage", ROOT / ".coverage-seconds.json"


class Recorder:
    """A plugin of pytest that says whose lines are covered, and notes how long each test takes."""

    def __init__(self) -> None:
        self.coverage = Coverage(data_file=str(RECORD), source_pkgs=["note_rl", "tuner"])
        self.seconds: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        name = item.nodeid.partition("[")[0]
        self.coverage.switch_context(name)
        began = time.perf_counter()
        try:
            return (yield)
        finally:
            self.seconds[name] += time.perf_counter() - began
            self.coverage.switch_context("")


def record(arguments: list[str]) -> int:
    """Runs tests, and replaces what was kept by what they cover."""
    recorder = Recorder()
    recorder.coverage.erase()
    recorder.coverage.start()
    status = pytest.main(["-q", "-p", "no:cacheprovider", *arguments], plugins=[recorder])
    recorder.coverage.stop()
    recorder.coverage.save()
    SECONDS.write_text(json.dumps(recorder.seconds))
    return status


def covering(path: Path) -> Iterator[tuple[str, int, int, float]]:
    """Tests that together cover what any covers: each adds the most lines per second to those before it.

    Yields:
        Its name, how many lines it adds, how many it covers, and its seconds.
    """
    data, seconds = CoverageData(basename=str(RECORD)), json.loads(SECONDS.read_text())
    data.read()
    lines: dict[str, set[int]] = defaultdict(set)
    for line, names in data.contexts_by_lineno(str(path.resolve())).items():
        for name in filter(None, names):
            lines[name].add(line)
    left = set().union(*lines.values())
    while left:
        best = max(lines, key=lambda name: len(lines[name] & left) / (seconds[name] + 0.01))
        yield best, len(lines[best] & left), len(lines[best]), seconds[best]
        left -= lines[best]


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--record"]:
        return record(arguments[1:])
    found = [Path(one) for one in arguments if Path(one).is_file()]
    if len(found) != 1 or not RECORD.exists():
        sys.stderr.write(__doc__ or "")
        return 2
    rows = (f"{added:4d}  {covered:6d}  {seconds:7.2f}  {name}" for name, added, covered, seconds in covering(*found))
    sys.stdout.write("\n".join(("adds  covers  seconds  test", *rows, "")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
