"""Opens a page in headless Chromium and notes what it did."""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-extensions"),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # the browser's own requests go nowhere
    "--enable-logging=stderr",
    "--virtual-time-budget=10000",
    "--dump-dom",
)


@dataclass(frozen=True)
class Visit:
    """Result of opening a page.

    Attributes:
        dom: the document after its scripts have run.
        console: lines that the page (or the browser about the page) wrote to the console.
        requests: addresses that the page asked for.
    """

    dom: str
    console: list[str]
    requests: list[str]


def visit(page: Path, scratch: Path, *flags: str) -> Visit:
    """Open a page.

    Args:
        page: an HTML file.
        scratch: an empty folder for the browser's profile.
        *flags: further switches.
    """
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
    assert browser, "no Chromium found: apt-get install chromium"
    log = scratch / "network.json"
    profile = (f"--user-data-dir={scratch / 'profile'}", f"--log-net-log={log}")
    done = subprocess.run(
        [browser, *FLAGS, *profile, *flags, page.as_uri()], capture_output=True, text=True, timeout=120, check=True
    )
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return Visit(done.stdout, console, _requests_of_pages(log))


def _requests_of_pages(log: Path) -> list[str]:
    """Requests that have an initiator are a page's; what the browser wants for itself has none."""
    found = []
    for line in log.read_text().splitlines():
        if '"initiator"' not in line:
            continue
        event = json.loads(line.rstrip().rstrip(",").removesuffix("]}"))
        url, initiator = event["params"].get("url", ""), event["params"]["initiator"]
        if initiator != "not an origin" and re.match(r"https?:|wss?:|ftp:", url):
            found.append(url)
    return found
