"""Mode and ids of W&B runs, found without importing `wandb`: whether runs are sent, recorded or neither."""

import atexit
import netrc
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from tuner.errors import UserError
from tuner.support.text_files import atomic_write

Mode = Literal["online", "offline", "disabled"]

CACHE_VARIABLE: Final = "WANDB_CACHE_DIR"
RUN_ID_FILE: Final = "wandb_run_id"
MODES: Final = ("auto", "online", "offline", "disabled")
DEFAULT_SERVERS: Final = ("api.wandb.ai", "api.forge.coreweave.com")

_FORBIDDEN_IN_PROJECT: Final = set("/\\#?%:")
_NAMES: Final[dict[str, Mode]] = {
    "online": "online",
    "offline": "offline",
    "disabled": "disabled",
    "run": "online",  # older values of WANDB_MODE
    "dryrun": "offline",
}


def check_settings(project: str, server_timeout_s: float) -> None:
    """Refuses what W&B would refuse later.

    Raises:
        UserError: a project name that W&B does not accept, or a timeout that is not positive.
    """
    if not project or len(project) > 128 or _FORBIDDEN_IN_PROJECT & set(project):
        raise UserError(f"project={project!r} is no W&B project: 1-128 characters, none of / \\ # ? % :")
    if not server_timeout_s > 0:
        raise UserError(f"server_timeout_s={server_timeout_s} must be greater than 0")


def resolve_mode(mode: str) -> Mode:
    """The mode that a setting stands for here.

    Args:
        mode: one of `MODES`. "auto" is what the environment variable WANDB_MODE says; where that is not set, online if
            there is a key and offline if not.

    Raises:
        UserError: an unknown mode.
    """
    source = "mode"
    if mode == "auto" and os.environ.get("WANDB_MODE"):
        source, mode = "WANDB_MODE", os.environ["WANDB_MODE"]
    elif mode == "auto":
        mode = "online" if has_key() else "offline"
    resolved = _NAMES.get(mode)
    if resolved is None:
        raise UserError(f"{source}={mode} is unknown: it must be {', '.join(MODES[1:])} or auto")
    return resolved


def has_key() -> bool:
    """Whether wandb will find credentials: in the environment, or in the netrc file where `wandb login` puts them."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    server = os.environ.get("WANDB_BASE_URL")
    try:
        entries = netrc.netrc(os.environ.get("NETRC") or Path("~/.netrc").expanduser())
    except (OSError, netrc.NetrcParseError):
        return False
    hosts = (urlsplit(server).netloc,) if server else DEFAULT_SERVERS
    return any(host in entries.hosts for host in hosts)


def have_a_cache() -> None:
    """Gives W&B's service a temporary folder for its own log where that of the user cannot be made.

    Else the service writes the log to the terminal, a dozen lines for each run.
    """
    if os.environ.get(CACHE_VARIABLE):
        return
    usual = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    try:
        (usual / "wandb" / "logs").mkdir(parents=True, exist_ok=True)
    except OSError:
        os.environ[CACHE_VARIABLE] = tempfile.mkdtemp(prefix="wandb-")
        atexit.register(shutil.rmtree, os.environ[CACHE_VARIABLE], ignore_errors=True)


@dataclass(frozen=True)
class AgentsRun:
    """The run that `wandb agent` has planned for this process; W&B would give its id to every run here.

    Attributes:
        run_id, sweep_id: At W&B.
        project: That the sweep is in, if the agent says so.
        entity: The same.
    """

    run_id: str
    sweep_id: str
    project: str | None
    entity: str | None


def agents_run() -> AgentsRun | None:
    """The run that `wandb agent` has put into the environment; None: it has not started this process."""
    run_id, sweep_id = (os.environ.get(name) for name in _OF_AN_AGENT)
    if not run_id or not sweep_id:
        return None
    return AgentsRun(run_id, sweep_id, os.environ.get("WANDB_PROJECT"), os.environ.get("WANDB_ENTITY"))


@contextmanager
def without_agent() -> Iterator[None]:
    """W&B reads inside that no agent has started this process, and takes the ids that it is given."""
    kept = {name: os.environ.pop(name) for name in _OF_AN_AGENT if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


_OF_AN_AGENT: Final = ("WANDB_RUN_ID", "WANDB_SWEEP_ID")


def run_id_of(folder: Path) -> tuple[str, bool]:
    """The W&B id of the run in this folder and whether it was there before: a continued run stays one run."""
    path = folder / RUN_ID_FILE
    known = path.read_text().strip() if path.exists() else ""
    if known:
        return known, True
    run_id = secrets.token_hex(6)
    folder.mkdir(parents=True, exist_ok=True)
    atomic_write(path, run_id)
    return run_id, False
