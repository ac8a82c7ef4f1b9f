"""Installed packages and available hardware: `tuner doctor`, or `python -m tuner.doctor` where that cannot start.

Standard library only, and nothing is imported here: every package is tried in a process of its own, so that one that is
broken, crashes its process or hangs is a line of the report. No secrets, no names of hosts or users.
"""

import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from importlib.util import find_spec
from operator import eq, ge, gt, le, lt, ne
from pathlib import Path
from typing import Any, Final

from tuner.executors.gpus import choose_gpus
from tuner.support.revision import code_revision

DISTRIBUTION: Final = "note-rl"
_IMPORTS: Final = (
    *("numpy", "gymnasium", "hydra", "omegaconf", "optuna", "sqlalchemy", "pyarrow", "wandb", "note_rl"),
    *("torch", "tensorflow", "keras", "plotly", "optuna_dashboard"),
)
_TRY: Final = """
import importlib, json
module = importlib.import_module({name!r})
found = {{}}
{more}
print(json.dumps(found))
"""
_ASK: Final = {
    "torch": "found['threads'] = module.get_num_threads(); "
    "found['devices'] = [module.cuda.get_device_name(i) for i in range(module.cuda.device_count())]",
    "tensorflow": "found['threads'] = module.config.threading.get_intra_op_parallelism_threads(); "
    "found['devices'] = [one.name for one in module.config.list_physical_devices('GPU')]",
}
"""Further checks of a framework; it is started as a trial is."""

_STORAGE: Final = """
import json, os
from tuner.doctor import storage_state
from tuner.errors import UserError
try:
    found = {"state": storage_state(os.environ["TUNER_DOCTOR_STORAGE"])}
except UserError as error:
    found = {"broken": str(error).partition("\\n")[0]}
except ValueError:  # it may quote a part of the password
    found = {"broken": "storage.url is not a URL"}
print(json.dumps(found))
"""
_VARIABLES: Final = (
    *("CUDA_VISIBLE_DEVICES", "KERAS_BACKEND", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "TF_CPP_MIN_LOG_LEVEL"),
    *("TF_XLA_FLAGS", "XLA_FLAGS", "NOTE_RL_XLA_CACHE", "NOTE_RL_TORCH_CACHE"),
    *("WANDB_MODE", "PYTHONWARNINGS", "HYDRA_FULL_ERROR"),
)
"""Environment variables that change what happens; none of them holds a secret."""

_LONGEST_REASON: Final = 300


def examine(
    storage: str = "sqlite:///studies.db", parallel: int = 2, threads: int | None = None, timeout_s: float = 120.0
) -> dict[str, Any]:
    """Everything a bug report needs.

    Args:
        storage: URL of the storage that is tried; none is made.
        parallel: Trials at a time.
        threads: Of a trial.
        timeout_s: For each package and the storage; they are tried at the same time.
    """
    here = {name: _TRY.format(name=name, more=_ASK.get(name, "")) for name in _IMPORTS if find_spec(name) is not None}
    tried = _tried({**here, "storage": _STORAGE}, threads or 1, storage, timeout_s)
    distributions = metadata.packages_distributions()  # which reads the lists of files of all that is installed
    report = {
        "tuner": _tuner(),
        "python": f"{platform.python_version()} ({platform.python_implementation()}), {platform.platform()}",
        "packages": {name: _state(distributions.get(name, [name])[0], tried.get(name)) for name in _IMPORTS},
        "extras": dict(_extras()),
        "devices": _devices(tried),
        "trials": f"{parallel} at a time (executor.parallel), {threads or 1} thread(s) each (executor.threads)",
        "cores": _cores(),
        "memory": _memory(),
        "disk": {name: _disk(path) for name, path in (("here", "."), ("temporary", "/tmp"), ("shared", "/dev/shm"))},
        "storage": _said(tried["storage"]) or tried["storage"]["state"],
        "wandb": _wandb(),
        "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
    }
    told: dict[str, Any] = _without_home(report)
    return told


def is_sound(report: Mapping[str, Any]) -> bool:
    """Whether nothing that is installed is broken, and nothing that is always needed is missing."""
    base = report["extras"].get("base", "there")
    return base == "there" and not any(
        "broken" in str(state) for state in (*report["packages"].values(), report["storage"])
    )


def as_text(report: Mapping[str, Any]) -> str:
    """The report in lines to copy."""
    lines = []
    for name, value in report.items():
        if isinstance(value, dict):
            lines.append(f"{name}:" if value else f"{name}: none")
            width = max(map(len, value), default=0)
            lines += [f"  {key:<{width}}  {one}" for key, one in value.items()]
        else:
            lines.append(f"{name}: {value}")
    return "\n".join(lines) + "\n"


def storage_state(url: str) -> str:
    """Whether a storage opens. Makes nothing.

    Raises:
        UserError: It does not.
    """
    from tuner.study.storage.open_storage import IN_MEMORY, answers, file_of
    from tuner.study.storage.store import StudyStore
    from tuner.support.passwords import shown

    if url in IN_MEMORY:
        return "in memory"
    if not url.startswith(("sqlite:", "journal:")):
        answers(url)
        return f"{shown(url)} answers"
    if not file_of(url).is_file() or not file_of(url).stat().st_size:
        return f"{url}: nothing there yet"
    with StudyStore(url) as store:
        return f"{url}: opens, {len(store.names())} studies"


def _tried(programs: Mapping[str, str], threads: int, storage: str, timeout_s: float) -> dict[str, dict[str, Any]]:
    """Runs the programs, as many at once as there are cores; what each printed, or under "broken" why it did not."""
    from note_rl.support.threads import thread_variables

    environment = {
        **os.environ,
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "KERAS_BACKEND": "tensorflow",
        **thread_variables(threads),
    }
    environment["PYTHONPATH"] = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    environment["TUNER_DOCTOR_STORAGE"] = storage  # it may hold a password, which command lines show to everybody

    def outcome(program: str) -> dict[str, Any]:
        try:
            done = subprocess.run(
                [sys.executable, "-c", program],
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"slow": f"no answer within {timeout_s:g} s; this machine may be busy (timeout_s gives it longer)"}
        if done.returncode == 0:
            found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
            return found
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        reason = lines[-1] if lines else f"its process ended with status {done.returncode}"
        return {"broken": reason[:_LONGEST_REASON]}

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(programs, pool.map(outcome, programs.values()), strict=True))


def _said(found: Mapping[str, Any]) -> str:
    """The problem of a package; a slow one may well work."""
    return next((f"{word}: {found[word]}" for word in ("broken", "slow") if word in found), "")


def _state(distribution: str, found: Mapping[str, Any] | None) -> str:
    """`2.13.0`, `missing`, or `2.13.0, broken: ...`."""
    if found is None:
        return "missing"
    return ", ".join(filter(None, [_version(distribution) or "version unknown", _said(found)]))


def _version(distribution: str) -> str:
    """Empty if it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return ""


def _tuner() -> str:
    """Version, and the commit where it is a checkout."""
    version = _version(DISTRIBUTION) or "not installed"
    commit = code_revision(Path(__file__).parent)
    return version if commit is None else f"{version}, commit {commit}"


def _extras() -> Iterator[tuple[str, str]]:
    """Each extra (and the base): there, or what of it is missing and how to get it."""
    needed: dict[str, list[str]] = {"base": []}
    for line in metadata.requires(DISTRIBUTION) or () if _version(DISTRIBUTION) else ():
        marker = re.search(r"extra == ['\"]([\w-]+)", line)
        needed.setdefault(marker[1] if marker else "base", []).append(line)
    lacking = []
    for extra, lines in needed.items():
        names = {name for line in lines for name in _distributions(line)} - {DISTRIBUTION}
        missing = sorted(name for name in names if not _is_there(name))
        if extra not in ("all", "test"):
            yield extra, f"missing {', '.join(missing)}" if missing else "there"
            lacking += [extra] if missing else []
    if lacking:
        named = ",".join(extra for extra in lacking if extra != "base")
        yield "to add", f"pip install '{DISTRIBUTION}{f'[{named}]' if named else ''}'"


def _is_there(distribution: str) -> bool:
    """Whether it is installed, under this name or under another one that brings the same module."""
    if _version(distribution):
        return True
    spec = find_spec(_MODULES.get(distribution, distribution.replace("-", "_").replace(".", "_")))
    return spec is not None and spec.origin is not None  # not a folder that happens to have the name


_MODULES: Final = {"box2d": "Box2D", "box2d-py": "Box2D", "pygame-ce": "pygame"}
"""Import names of distributions that have another name."""

_PYTHON: Final = re.compile(r"python_version\s*(<=|>=|<|>|==|!=)\s*['\"](\d+)\.(\d+)['\"]")


def _is_for_this_python(requirement: str) -> bool:
    """Whether the versions of Python that a requirement is for are met."""
    compare = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne}
    found = _PYTHON.findall(requirement)
    return all(compare[sign](sys.version_info[:2], (int(major), int(minor))) for sign, major, minor in found)


def _distributions(requirement: str) -> Iterator[str]:
    """A requirement's distribution, and those of the extras that are asked of it."""
    parsed = re.match(r"([\w.-]+)(?:\[([\w,\s-]+)\])?", requirement)
    assert parsed is not None
    name, extras = parsed[1], re.split(r"[\s,]+", parsed[2] or "")
    yield name
    if name == DISTRIBUTION or not parsed[2] or not _version(name):
        return
    for line in metadata.requires(name) or ():
        is_asked = any(re.search(rf"extra == ['\"]{re.escape(extra)}['\"]", line) for extra in extras if extra)
        if is_asked and _is_for_this_python(line):
            yield from _distributions(line)


def _devices(tried: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The GPUs that trials are dealt, and what each framework sees."""
    found = {"dealt to trials": ", ".join(choose_gpus("auto") or ()) or "no GPU"}
    for name in _ASK:
        if "devices" in tried.get(name, {}):
            threads = tried[name]["threads"]  # 0: it does not say, as TensorFlow
            told = f"; {threads} thread(s) in a trial" if threads else ""
            found[name] = f"{', '.join(tried[name]['devices']) or 'CPU only'}{told}"
    return found


def _cores() -> str:
    """Those that this process may use, of how many, and what a container allows."""
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quota, _, period = _read("/sys/fs/cgroup/cpu.max").partition(" ")
    limit = f", a container's limit of {int(quota) / int(period):g}" if quota.isdigit() and period.isdigit() else ""
    return f"{mine} of {os.cpu_count()}{limit}"


def _memory() -> str:
    sizes = dict(re.findall(r"^(MemTotal|MemAvailable):\s+(\d+) kB", _read("/proc/meminfo"), re.MULTILINE))
    if len(sizes) < 2:
        return "unknown"
    limit = _read("/sys/fs/cgroup/memory.max")
    allowed = f", a container's limit of {_size(int(limit))}" if limit.isdigit() else ""
    return f"{_size(1024 * int(sizes['MemAvailable']))} free of {_size(1024 * int(sizes['MemTotal']))}{allowed}"


def _disk(path: str) -> str:
    try:
        usage = shutil.disk_usage(path)
    except OSError as error:
        return str(error.strerror)
    writable = "" if os.access(path, os.W_OK) else ", not writable"
    return f"{_size(usage.free)} free of {_size(usage.total)}{writable}"


def _wandb() -> str:
    """The effect of tracker.mode=auto, without a request to the network."""
    from tuner.trackers.wandb.run_mode import has_key

    return "logged in (a key was found; not tried)" if has_key() else "not logged in: runs are recorded offline"


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB"


def _without_home(item: Any) -> Any:
    """The same without the path of the home folder, which names the user."""
    if isinstance(item, dict):
        return {key: _without_home(value) for key, value in item.items()}
    home = str(Path.home())
    return item.replace(home, "~") if isinstance(item, str) and len(home) > 1 else item


if __name__ == "__main__":
    sys.stdout.write(as_text(examine()))
