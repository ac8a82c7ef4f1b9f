"""How a child is ended."""

import subprocess
import sys

import psutil

from tuner.trial import system
from tuner.trial.child_end import EXIT_FAILED, Ending, Step, describe_exit
from tuner.trial.messages import Outcome

_HELPED = "import subprocess, sys; print(subprocess.Popen(['sleep', '60']).pid, flush=True); sys.stdin.read()"


def test_what_a_child_has_started_in_its_group_is_killed_with_it():
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", _HELPED]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True) as child:
        helper = psutil.Process(int(child.stdout.readline()))
        Ending(Outcome.STOPPED, "killed", Step.KILL).signal_child(child.pid, system.open_pidfd(child.pid))
        assert child.wait(10) == -9
    # nobody waits for it here: where no init does either, it stays a zombie
    psutil.wait_procs([helper], timeout=5)
    assert not helper.is_running() or helper.status() == psutil.STATUS_ZOMBIE


def test_what_an_exit_code_says():
    assert describe_exit(3) == "its process ended with exit code 3 and left no result"
    assert describe_exit(EXIT_FAILED).startswith(
        "its process could not write its result down (exit code 70): see if its"
    )
