"""Processes that train along with a run of this machine, as `tuner.runs.run_strategy` starts them."""

import json
import os
import signal
import sys
import threading
from contextlib import suppress

from note_rl.errors import PeerError
from tuner.config.composition import RunConfig
from tuner.runs.follower_rank import follow
from tuner.runs.quiet import quiet_import
from tuner.trial import orphans


def main() -> None:
    """Does what one line of JSON on stdin says, after it has said that it is there, and ends when stdin does."""
    for asked_to_end in (signal.SIGINT, signal.SIGTERM):  # the run decides when to end, and batch systems tell all
        signal.signal(asked_to_end, signal.SIG_IGN)
    orphans.end_with_parent()
    told = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_run, args=(told["do"] == "serve",), daemon=True).start()
    quiet_import("tensorflow", "keras")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # where whatever else is printed belongs
    if told["do"] == "serve":
        from note_rl.distributed.keras.server import serve_as

        serve_as(told["cluster"], told["kind"], told["index"])
        return
    with suppress(PeerError):  # the run says what has happened
        follow(RunConfig.from_json(told["config"]))


def _end_with_the_run(at_once: bool) -> None:
    """Ends this process when its starter has closed the line or died; who follows is given time to end by itself."""
    sys.stdin.read()
    if not at_once:
        threading.Event().wait(5.0)
    os._exit(0)
