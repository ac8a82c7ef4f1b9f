"""As much of a W&B server as this project needs: it takes runs with their tables, and reports, and keeps what it got.

What it does not know, it answers with an error and notes in `refused`; `logged_in` fails a test that has any.
"""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
import wandb

from tests.wandb_offline import without_account

Json = dict[str, Any]

ENTITY: Final = "me"

_USAGE: Final = "/sdk/otel/"  # how wandb itself is used, which a server need not take

_OPERATION: Final = re.compile(r"\s*(?:query|mutation)\s+(\w+)\s*(\([^)]*\))?")
_REQUIRED: Final = re.compile(r"\$(\w+)\s*:\s*[\w\[\]!]+!\s*(?!=)(?=[,$)\s])")


class RefusedError(Exception):
    """The server understands, and does not want to."""


class UnknownRequestError(RefusedError):
    """The server has no answer."""


@dataclass
class Artifact:
    """A version of a file or folder at W&B, such as the table of a run.

    Attributes:
        about: what it was created with: its type, name, run and digest.
        manifest: which file stands where, once that is uploaded.
        files: what was uploaded, by path.
        committed: whether its upload has ended.
    """

    about: Json
    manifest: Json = field(default_factory=dict)
    files: dict[str, bytes] = field(default_factory=dict)
    committed: bool = False

    @property
    def collection(self) -> str:
        """The name of what it is a version of."""
        return str(self.about["artifactCollectionName"])

    @property
    def type(self) -> str:
        return str(self.about["artifactTypeName"])


@dataclass
class FakeServer:
    """A server that keeps what it received, by run id.

    Attributes:
        url: where it listens.
        runs: variables of the last request that created or changed the run.
        history: rows of the history.
        summaries: final values.
        exit_codes: of runs that have ended.
        files: of runs, by name.
        artifacts: by id.
        reports: variables of each request that has saved one.
        projects: names; a project is made by its first run.
        refused: what it had no answer to, in words.
        full: while set, reports are refused.
        silent: while set, history is received and never acknowledged.
    """

    url: str = ""
    runs: dict[str, Json] = field(default_factory=dict)
    history: dict[str, list[Json]] = field(default_factory=dict)
    summaries: dict[str, Json] = field(default_factory=dict)
    exit_codes: dict[str, int] = field(default_factory=dict)
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    artifacts: dict[str, Artifact] = field(default_factory=dict)
    reports: list[Json] = field(default_factory=list)
    projects: set[str] = field(default_factory=set)
    refused: list[str] = field(default_factory=list)
    full: bool = False
    silent: threading.Event = field(default_factory=threading.Event)
    stopping: threading.Event = field(default_factory=threading.Event)

    def answer(self, method: str, path: str, body: bytes) -> tuple[int, Json]:
        """The HTTP status and content."""
        try:
            return 200, self._content(method, path, body)
        except RefusedError as error:
            if isinstance(error, UnknownRequestError) and not path.startswith(_USAGE):
                self.refused.append(str(error))
            return (200 if path == "/graphql" else 404), {"data": None, "errors": [{"message": str(error)}]}

    def _content(self, method: str, path: str, body: bytes) -> Json:
        place, _, rest = path.strip("/").partition("/")
        if (method, path) == ("POST", "/graphql"):
            return {"data": self.graphql(json.loads(body))}
        if method == "POST" and place == "files" and path.endswith("/file_stream"):
            self.file_stream(path.split("/")[-2], json.loads(body))
            return {}
        if method == "PUT" and place == "upload":
            kind, owner, name = rest.split("/", 2)
            self.uploaded(kind, owner, name, body)
            return {}
        raise UnknownRequestError(f"{method} {path}")

    def graphql(self, request: Json) -> Json:
        """One query or mutation, by its name; W&B refuses one without its required variables."""
        declared = _OPERATION.match(request["query"])
        name, variables = request.get("operationName") or (declared and declared[1]), request.get("variables") or {}
        operation = _OPERATIONS.get(str(name))
        if operation is None or declared is None:
            raise UnknownRequestError(f"{name}: {request['query']} with {variables}")
        lacking = [one for one in _REQUIRED.findall(declared[2] or "") if variables.get(one) is None]
        if lacking:
            raise UnknownRequestError(f"{name} without {', '.join(lacking)}")
        answer: Json = operation(self, variables)
        return answer

    def file_stream(self, run_id: str, content: Json) -> None:
        if self.silent.is_set():
            self.stopping.wait()
        files = content.get("files", {})
        if "wandb-history.jsonl" in files:
            sent = files["wandb-history.jsonl"]
            rows = [json.loads(line) for line in sent["content"]]
            self.history.setdefault(run_id, [])[sent["offset"] : sent["offset"] + len(rows)] = rows
        for line in files.get("wandb-summary.json", {}).get("content", []):
            self.summaries[run_id] = json.loads(line)
        if content.get("complete"):
            self.exit_codes[run_id] = content["exitcode"]

    def uploaded(self, kind: str, owner: str, name: str, content: bytes) -> None:
        if kind == "run":
            self.files.setdefault(owner, {})[name] = content
        elif kind == "manifest":
            self.artifacts[owner].manifest = json.loads(content)
        elif kind == "artifact":
            self.artifacts[owner].files[name] = content

    def place_of(self, kind: str, owner: str, name: str) -> Json:
        """Where something is to be put."""
        return {"uploadUrl": f"{self.url}/upload/{kind}/{owner}/{name}", "uploadHeaders": []}

    # Who asks, and what the server can do

    def viewer(self, variables: Json) -> Json:
        del variables
        return {"viewer": {"id": "v", "entity": ENTITY, "username": ENTITY, "flags": "{}", "teams": {"edges": []}}}

    def features(self, variables: Json) -> Json:
        del variables
        return {"serverInfo": {"features": []}}

    def organization(self, variables: Json) -> Json:
        del variables
        return {"entity": {"organization": None}}

    # Runs

    def run(self, variables: Json) -> Json:
        run_id = variables["name"]
        known = run_id in self.runs
        self.projects.add(variables["project"])
        self.runs.setdefault(run_id, {}).update({k: v for k, v in variables.items() if v is not None})
        project = {"id": "p", "name": variables["project"], "entity": {"id": "e", "name": ENTITY}}
        lines = len(self.history.get(run_id, []))
        bucket = {"id": "s", "name": run_id, "config": "{}", "historyLineCount": lines, "project": project}
        return {"upsertBucket": {"bucket": bucket, "inserted": not known}}

    def state_of_run(self, variables: Json) -> Json:
        entity, run_id = {"id": "e", "name": ENTITY}, variables["name"]
        if run_id not in self.runs:
            return {"model": {"id": "p", "name": variables["project"], "entity": entity, "bucket": None}}
        rows = self.history.get(run_id, [])
        bucket = {
            "id": "s",
            "name": run_id,
            "summaryMetrics": json.dumps(self.summaries.get(run_id, {})),
            "logLineCount": 0,
            "historyLineCount": len(rows),
            "eventsLineCount": 0,
            "historyTail": json.dumps([json.dumps(row) for row in rows[-1:]]),
            "eventsTail": "[]",
            "config": self.runs[run_id].get("config", "{}"),
            "notes": None,
            "wandbConfig": "{}",
        }
        return {"model": {"id": "p", "name": variables["project"], "entity": entity, "bucket": bucket}}

    def files_of_run(self, variables: Json) -> Json:
        run_id = variables["run"]
        files = [{"name": name, **self.place_of("run", run_id, name)} for name in variables["files"]]
        return {"createRunFiles": {"runID": run_id, "uploadHeaders": [], "files": files}}

    # Artifacts

    def artifact_type(self, variables: Json) -> Json:
        """Of a version by its name; there is none before the first one is committed."""
        collection = variables["name"].partition(":")[0]
        found = [one for one in self.artifacts.values() if one.committed and one.collection == collection]
        return {"project": {"artifact": {"artifactType": {"name": found[-1].type}} if found else None}}

    def new_artifact(self, variables: Json) -> Json:
        artifact_id = f"a{len(self.artifacts)}"
        self.artifacts[artifact_id] = Artifact(variables["input"])
        made = {"id": artifact_id, "state": "PENDING", "artifactSequence": {"latestArtifact": None}}
        return {"createArtifact": {"artifact": made}}

    def manifest_of_artifact(self, variables: Json) -> Json:
        artifact_id = variables["artifactID"]
        place = self.place_of("manifest", artifact_id, variables["name"]) if variables["includeUpload"] else {}
        return {"createArtifactManifest": {"artifactManifest": {"id": artifact_id, "file": {"id": "f", **place}}}}

    def files_of_artifact(self, variables: Json) -> Json:
        nodes = [
            {
                "storagePath": f"{file['artifactID']}/{file['name']}",
                "uploadMultipartUrls": None,
                "artifact": {"id": file["artifactID"]},
                **self.place_of("artifact", file["artifactID"], file["name"]),
            }
            for file in variables["input"]["artifactFiles"]
        ]
        return {"createArtifactFiles": {"files": {"edges": [{"node": node} for node in nodes]}}}

    def end_of_artifact(self, variables: Json) -> Json:
        """It is a version from now on; one whose files have not arrived is refused."""
        artifact = self.artifacts[variables["artifactID"]]
        lacking = set(artifact.manifest.get("contents", {"a manifest": None})) - set(artifact.files)
        if lacking:
            raise UnknownRequestError(f"{artifact.collection} is committed without {', '.join(lacking)}")
        artifact.committed = True
        return {"commitArtifact": {"artifact": {"id": variables["artifactID"], "digest": artifact.about["digest"]}}}

    # Reports

    def project(self, variables: Json) -> Json:
        known = variables["entityName"] == ENTITY and variables["projectName"] in self.projects
        return {"project": {"id": "p", "internalId": "p1"} if known else None}

    def all_projects(self, variables: Json) -> Json:
        entity = variables["entity"]
        about = {"id": "p", "entityName": entity, "createdAt": "2026-01-01", "isBenchmark": False, "user": None}
        nodes = [{"__typename": "Project", **about, "name": name} for name in sorted(self.projects)]
        page = {"__typename": "PageInfo", "endCursor": None, "hasNextPage": False}
        return {"models": {"pageInfo": page, "edges": [{"node": node} for node in nodes]}}

    def report(self, variables: Json) -> Json:
        if self.full:
            raise RefusedError("no more reports")
        self.reports.append(variables)
        project = {"id": "p", "name": variables["projectName"], "entityName": variables["entityName"]}
        names = ("name", "displayName", "description", "type", "spec")
        view = {"id": f"VmlldzoxMjM0{len(self.reports)}", **{name: variables[name] for name in names}}
        return {"upsertView": {"view": {**view, "project": project, "updatedAt": None}, "inserted": True}}


_OPERATIONS: Final = {
    "ProjectInternalId": FakeServer.project,
    "GetProjects": FakeServer.all_projects,
    "upsertView": FakeServer.report,
    "ArtifactType": FakeServer.artifact_type,
    "CreateArtifact": FakeServer.new_artifact,
    "CreateArtifactManifest": FakeServer.manifest_of_artifact,
    "CreateArtifactFiles": FakeServer.files_of_artifact,
    "CommitArtifact": FakeServer.end_of_artifact,
    "Viewer": FakeServer.viewer,
    "ServerFeaturesQuery": FakeServer.features,
    "OrganizationCoreWeaveOrganizationID": FakeServer.organization,
    "UpsertBucket": FakeServer.run,
    "RunResumeStatus": FakeServer.state_of_run,
    "CreateRunFiles": FakeServer.files_of_run,
}


def table_of(server: FakeServer, run_id: str, name: str) -> Json:
    """A table of a run, by the path that its summary gives, which is one of its files and of its artifact."""
    about = server.summaries[run_id][name]
    assert about["_type"] == "table-file"
    (artifact,) = [one for one in server.artifacts.values() if one.collection == f"run-{run_id}-{name}"]
    assert (artifact.committed, artifact.type, artifact.about["runName"]) == (True, "run_table", run_id)
    assert about["artifact_path"] == f"wandb-client-artifact://{artifact.about['clientID']}/{name}.table.json"
    (content,) = artifact.files.values()
    seen, kept = json.loads(server.files[run_id][about["path"]]), json.loads(content)
    assert (seen["columns"], seen["data"]) == (kept["columns"], kept["data"])
    return dict(seen)


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
            status, content = server.answer(self.command, self.path, body)
            text = json.dumps(content).encode()
            if not server.stopping.is_set():
                self.send_response(status)
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


@contextmanager
def logged_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeServer]:
    """A server of our own that W&B is logged in to; ends with an error if it was asked for what it does not know."""
    without_account(monkeypatch, tmp_path)
    with running_server() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        monkeypatch.setenv("WANDB_API_KEY", "0123456789" * 4)
        try:
            yield server
        finally:
            server.stopping.set()
            wandb.teardown()
    assert not server.refused, "W&B asked for what the server does not know:\n" + "\n".join(server.refused)
