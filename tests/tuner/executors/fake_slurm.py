"""Slurm's commands as far as submitit calls them, for jobs that are processes of this machine.

Run as a program under the name of a command: sbatch, srun, scancel, sacct. A job is a folder of FAKE_SLURM, named by
its number, with its script and the number of its process.
"""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

_COMMANDS = ("sbatch", "srun", "scancel", "sacct")


def install(place: Path) -> Path:
    """Returns a folder of programs for PATH; jobs are kept beside it."""
    programs = place / "bin"
    programs.mkdir(parents=True)
    (place / "jobs").mkdir()
    for name in _COMMANDS:
        program = programs / name
        program.write_text(f"#!{sys.executable} -S\n{Path(__file__).read_text()}")
        program.chmod(0o755)
    return programs


def run_job(jobs: Path, number: str) -> "subprocess.Popen[bytes]":
    """Starts a job, or starts it once more, as Slurm does after preemption. Returns its process."""
    alone = {"SLURM_NTASKS": "1", "SLURM_JOB_NUM_NODES": "1", "SLURM_NODEID": "0", "SLURM_PROCID": "0"}
    environment = {**os.environ, **alone, "SLURM_LOCALID": "0", "SLURM_JOB_ID": number}
    command = ["bash", str(jobs / number / "script")]
    nowhere = subprocess.DEVNULL
    job = subprocess.Popen(command, env=environment, start_new_session=True, stdout=nowhere, stderr=nowhere)
    (jobs / number / "pid").write_text(str(job.pid))
    return job


def end_job(jobs: Path, number: str) -> None:
    """Asks all processes of a job to end."""
    with suppress(ProcessLookupError):
        os.killpg(int((jobs / number / "pid").read_text()), signal.SIGTERM)


def _main(command: str, words: list[str]) -> None:
    jobs = Path(os.environ["FAKE_SLURM"])
    if command == "sbatch":
        number = str(len([one for one in jobs.iterdir() if one.is_dir()]) + 1)
        (jobs / number).mkdir()
        shutil.copy(words[-1], jobs / number / "script")
        run_job(jobs, number)
        sys.stdout.write(f"Submitted batch job {number}\n")
    elif command == "srun":
        for name, descriptor in (("--output", 1), ("--error", 2)):
            path = words[words.index(name) + 1].replace("%j", os.environ["SLURM_JOB_ID"]).replace("%t", "0")
            os.dup2(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND), descriptor)
        program = words[words.index("--error") + 2 :]
        os.execv(program[0], program)
    elif command == "scancel":
        end_job(jobs, words[-1])
    else:
        sys.stdout.write("JobID|State|NodeList\n")


if __name__ == "__main__":
    _main(Path(sys.argv[0]).name, sys.argv[1:])
