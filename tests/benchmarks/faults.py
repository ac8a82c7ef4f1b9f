# ruff: noqa: T201
"""Puts faults into the code one after the other, and says which of them the tests do not notice.

    python tests/benchmarks/faults.py [PART ...]

Each fault of `faults.yaml` is one expression made wrong in returns, replay, learners, agents, the protocol of trials or
the dispatch of runs. A copy of the checkout gets it, and the quick tests of the folders named with it run there until
one fails; where none does, those of the whole package run. PART is a part of a fault's name or file: only such faults
are tried.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_suffix(".yaml")
NOT_COPIED = shutil.ignore_patterns(".git", ".venv", "__pycache__")


@dataclass(frozen=True)
class Fault:
    """One wrong expression.

    Attributes:
        name: What is wrong.
        file: Where, from the root of the project.
        right: What is written there, once in the file.
        wrong: What is written instead.
        tests: Folders and files of tests that are asked first.
    """

    name: str
    file: str
    right: str
    wrong: str
    tests: tuple[str, ...]

    def applied(self, text: str) -> str:
        """Returns the file with the fault in it.

        Raises:
            ValueError: The expression is not there, or more than once.
        """
        if text.count(self.right) != 1:
            raise ValueError(
                f"{self.file} holds {self.right!r} {text.count(self.right)} times; the fault needs it once"
            )
        return text.replace(self.right, self.wrong)


def read_faults() -> list[Fault]:
    """Those of `faults.yaml`."""
    listed = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    return [Fault(**{**fault, "tests": tuple(fault["tests"])}) for fault in listed]


def first_failure(project: Path, tests: tuple[str, ...]) -> str:
    """Returns the first quick test that fails there; empty if all pass.

    Raises:
        RuntimeError: Tests could not be run.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode not in (0, 1):
        raise RuntimeError(
            f"pytest came to no result ({ended.returncode}):\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}"
        )
    return next(
        (line.split(" - ")[0] for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))), ""
    )


def main(parts: list[str]) -> int:
    """Tries the faults; how many were not noticed."""
    chosen = [
        fault for fault in read_faults() if not parts or any(part in f"{fault.file} {fault.name}" for part in parts)
    ]
    survivors = []
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        project = Path(folder, "project")
        shutil.copytree(ROOT, project, ignore=NOT_COPIED)
        for number, fault in enumerate(chosen, 1):
            path = project / fault.file
            right = path.read_text(encoding="utf-8")
            path.write_text(fault.applied(right), encoding="utf-8")
            began = time.monotonic()
            package = "tests/note_rl" if fault.file.startswith("note_rl") else "tests/tuner"
            noticed = first_failure(project, fault.tests) or first_failure(project, (package,))
            path.write_text(right, encoding="utf-8")
            if not noticed:
                survivors.append(fault)
            seconds = time.monotonic() - began
            print(f"{number:3d}/{len(chosen)} {seconds:5.0f} s  {fault.name}: {noticed or 'NOT NOTICED'}", flush=True)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} faults were noticed")
    return len(survivors)


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1:]), 1))
