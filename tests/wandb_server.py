"""As much of a W&B server as a run needs: it accepts runs, takes their history and notes what it was told."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class FakeServer:
    """What was received, by run id.

    Attributes:
        url: where it listens.
        runs: variables of the last request that created or changed the run.
        history: rows of the history.
        exit_codes: of runs that have ended.
        silent: while set, history is received and never acknowledged.
    """

    url: str = ""
    runs: dict[str, dict[str, Any]] = field(default_factory=dict)
    history: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    exit_codes: dict[str, int] = field(default_factory=dict)
    silent: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event = field(default_factory=threading.Event)

    def answer(self, path: str, body: bytes) -> dict[str, Any]:
        content = json.loads(body) if path == "/graphql" or path.endswith("/file_stream") else {}
        if path == "/graphql":
            operation = getattr(self, content["operationName"], None)
            return {"data": operation(content["variables"]) if operation else {}}
        if path.endswith("/file_stream"):
            self.file_stream(path.split("/")[-2], content)
        return {}

    def file_stream(self, run_id: str, content: dict[str, Any]) -> None:
        if self.silent.is_set():
            self.stopping.wait()
        for line in content.get("files", {}).get("wandb-history.jsonl", {}).get("content", []):
            self.history.setdefault(run_id, []).append(json.loads(line))
        if content.get("complete"):
            self.exit_codes[run_id] = content["exitcode"]

    def UpsertBucket(self, variables: dict[str, Any]) -> dict[str, Any]:
        known = variables["name"] in self.runs
        self.runs.setdefault(variables["name"], {}).update({k: v for k, v in variables.items() if v is not None})
        project = {"id": "p", "name": variables["project"], "entity": {"id": "e", "name": "me"}}
        bucket = {"id": "s", "name": variables["name"], "config": "{}", "historyLineCount": 0, "project": project}
        return {"upsertBucket": {"bucket": bucket, "inserted": not known}}

    def CreateRunFiles(self, variables: dict[str, Any]) -> dict[str, Any]:
        files = [{"name": name, "uploadUrl": f"{self.url}/upload"} for name in variables["files"]]
        return {"createRunFiles": {"runID": variables["run"], "uploadHeaders": [], "files": files}}


class QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that go away are no news."""


@contextmanager
def running_server() -> Iterator[FakeServer]:
    server = FakeServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            text = json.dumps(server.answer(self.path, body)).encode()
            if not server.stopping.is_set():
                self.send_response(200)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

        do_PUT = do_GET = do_POST

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with QuietServer(("127.0.0.1", 0), Handler) as http:
        server.url = f"http://127.0.0.1:{http.server_port}"
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.stopping.set()
            http.shutdown()
            thread.join()
