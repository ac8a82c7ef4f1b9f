"""`tuner doctor`: what is installed and what there is to run on, to copy into a bug report."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig

from note_rl.support.programs import caches_folder, clear_caches
from tuner.doctor import as_text, examine, is_sound


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Prints it; the status is 1 if something is broken."""
    del folder, overrides
    if config.caches == "clear":
        freed = clear_caches(os.environ)
        sys.stderr.write(f"{freed / 1e6:.1f} MB of compiled training steps deleted: {caches_folder(os.environ)}\n")
    sys.stderr.write("each package is imported in a process of its own; that takes up to a minute\n")
    executor = config.executor
    report = examine(
        str(config.storage.url), int(executor.get("parallel", 1)), executor.get("threads"), float(config.timeout_s)
    )
    sys.stdout.write(json.dumps(report, indent=2) + "\n" if config.json else as_text(report))
    return 0 if is_sound(report) else 1
