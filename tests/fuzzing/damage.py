"""Damage to the files of runs and studies, and what the commands that read them make of it."""

import copy
import json
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from unittest import mock

import yaml

from tests.fuzzing.world import LINES
from tuner.cli import main

Damage = Callable[[Path, random.Random], None]

_RESUME = ("train", "resume=trained", "training.total_steps=480")
_PLAY = ("play", "trained", "num_episodes=1", "gif=null")
_IN_SQLITE = (LINES["tune"], (*LINES["tune"], "study.num_trials=4"), ("report", "small"), ("report",), ("dashboard",))
_IN_JOURNAL = (
    LINES["tune in a journal"],
    ("report", "small", "storage=journal", "study.folder=journal"),
    ("dashboard", "storage=journal"),
)
_AGAIN = (LINES["tune"], (*LINES["tune"], "study.num_trials=4"), ("report", "small"))

READERS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "trained/config.yaml": (_RESUME, _PLAY),
    "trained/checkpoint.safetensors": (_RESUME, _PLAY),
    "trained/reports.jsonl": (_RESUME, _PLAY),
    "trained/metrics.jsonl": (_RESUME,),
    "trained/history.parquet": (_RESUME,),
    "trained/result.json": (_RESUME, _PLAY),
    "trained/evaluated.json": (_RESUME, _PLAY),
    "studies.db": _IN_SQLITE,
    "studies.journal": _IN_JOURNAL,
    "studies/small/screen/1/trial.json": (*_AGAIN, ("play", "studies/small/screen/1", "gif=null")),
    "studies/small/screen/1/result.json": _AGAIN,
    "studies/small/screen/1/reports.jsonl": _AGAIN,
    "studies/small/screen/1/metrics.jsonl": _AGAIN,
    "studies/small/controller.lock": _AGAIN,
    "compared/config.yaml": (LINES["compare"],),
    "compared/compare.jsonl": (LINES["compare"],),
    "found.db": (LINES["find"],),
    "found/rate/0/finding.json": (LINES["find"],),
    "found/rate/0/result.json": (LINES["find"],),
}
"""For each file, the commands that read it."""

_MAY_CHANGE = ("lock", "controller.lock", ".db-wal", ".db-shm", "pid")


@dataclass(frozen=True)
class Case:
    """One damaged file and one command.

    Attributes:
        path: Of the file in the world.
        damage: Its name in `DAMAGES`.
        arguments: Of the command.
        seed: Of the damage.
    """

    path: str
    damage: str
    arguments: tuple[str, ...]
    seed: int

    def __str__(self) -> str:
        return f"{self.path} {self.damage} (seed {self.seed}): tuner {' '.join(self.arguments)}"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case: the exit status, all that was said, and complaints about it (none: it went well)."""

    status: int
    said: str
    complaints: tuple[str, ...]


def some_cases(seed: int, count: int, paths: tuple[str, ...] = tuple(READERS)) -> list[Case]:
    """Returns `count` cases: each file in turn, then each of its damages in turn, in random order."""
    rng = random.Random(seed)
    by_path = {path: list(_cases_of(path, rng)) for path in paths}
    for cases in by_path.values():
        rng.shuffle(cases)
    drawn: list[Case] = []
    while len(drawn) < count:
        for path, cases in by_path.items():
            drawn.append(cases.pop() if cases else next(_cases_of(path, rng)))
    return drawn[:count]


def _cases_of(path: str, rng: random.Random) -> Iterator[Case]:
    names = [name for name, (suffixes, _) in DAMAGES.items() if not suffixes or path.endswith(suffixes)]
    rng.shuffle(names)
    for name in names:
        yield Case(path, name, rng.choice(READERS[path]), rng.randrange(2**31))


def try_case(case: Case, world: Path, workplace: Path) -> Outcome:
    """Damages a copy of the world, runs the command in it and looks at what it said and left.

    Args:
        case: What is tried.
        world: Copied.
        workplace: The working directory; emptied before.
    """
    assert workplace.resolve() == Path.cwd()
    for old in workplace.iterdir():
        shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
    shutil.copytree(world, workplace, dirs_exist_ok=True)
    DAMAGES[case.damage][1](workplace / case.path, random.Random(case.seed))
    before = _contents(workplace)
    out = StringIO()
    with redirect_stdout(out), redirect_stderr(out), mock.patch("optuna_dashboard.run_server"):
        status = main(case.arguments)
    said = out.getvalue()
    return Outcome(status, said, tuple(_complaints(status, said, before, _contents(workplace), case)))


def _complaints(
    status: int, said: str, before: Mapping[str, bytes], after: Mapping[str, bytes], case: Case
) -> Iterator[str]:
    if status not in (0, 2):
        yield f"exit status {status}"
    if "Traceback" in said or "Nobody foresaw" in said:
        yield "a traceback"
    if status == 2:
        lines = said.strip().splitlines()
        if not 1 <= len(lines) <= 8:
            yield f"{len(lines)} lines"
        if any(len(line) > 700 for line in lines):
            yield "a very long line"
        changed = [name for name, content in before.items() if after.get(name) != content]
        changed = [name for name in changed if not name.endswith(_MAY_CHANGE)]
        if changed:
            yield f"refused, but changed {', '.join(changed)}"
    lost = [name for name in before if name not in after and not name.endswith(_MAY_CHANGE)]
    if lost:
        yield f"{', '.join(lost)} gone"


def _contents(folder: Path) -> dict[str, bytes]:
    """Contents of every file; of a folder or a link, its name."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        found[name] = path.read_bytes() if path.is_file() and not path.is_symlink() else b""
    return found


# What is done to files.


def _rewrite(change: Callable[[bytes, random.Random], bytes]) -> Damage:
    def damage(path: Path, rng: random.Random) -> None:
        path.write_bytes(change(path.read_bytes(), rng))

    return damage


def _flip(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(min(len(changed), rng.choice((1, 5, 50)))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _insert(what: bytes) -> Damage:
    def change(content: bytes, rng: random.Random) -> bytes:
        at = rng.randrange(len(content) + 1)
        return content[:at] + what + content[at:]

    return _rewrite(change)


def _replace_block(content: bytes, rng: random.Random) -> bytes:
    at, length = rng.randrange(len(content) + 1), rng.choice((16, 512, 4096))
    return content[:at] + b"\0" * min(length, len(content) - at) + content[at + length :]


def _as_folder(path: Path, rng: random.Random) -> None:
    del rng
    path.unlink()
    path.mkdir()


def _as_circle(path: Path, rng: random.Random) -> None:
    del rng
    path.unlink()
    path.symlink_to(path.name)


def _as_dangling(path: Path, rng: random.Random) -> None:
    del rng
    path.unlink()
    path.symlink_to("nowhere")


STRANGE: tuple[Any, ...] = (
    *(None, [], {}, "x", "", -1, 0, 2**70, 1e400, float("nan"), True, 0.5, [[[]]], {"a": {"b": [{}]}}, [None]),
    *("1e3", "2024", {"_target_": "x"}, {"_target_": 1}, "\0", "é" * 300),
)


def _paths(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from _paths(value, (*path, key))


def _mutate(node: Any, rng: random.Random) -> Any:
    """Takes something away, or puts something strange in its place."""
    node = copy.deepcopy(node)
    paths = list(_paths(node))
    if not paths or rng.random() < 0.05:
        return rng.choice(STRANGE)
    *parents, last = rng.choice(paths)
    owner = node
    for key in parents:
        owner = owner[key]
    if rng.random() < 0.4:
        del owner[last]
    else:
        owner[last] = copy.deepcopy(rng.choice(STRANGE))
    return node


def _mutate_yaml(content: bytes, rng: random.Random) -> bytes:
    return yaml.safe_dump(_mutate(yaml.safe_load(content), rng), sort_keys=False).encode()


def _mutate_json(content: bytes, rng: random.Random) -> bytes:
    return json.dumps(_mutate(json.loads(content), rng), indent=2).encode()


def _mutate_line(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines(keepends=True) or [b"{}"]
    index = rng.randrange(len(lines))
    lines[index] = json.dumps(_mutate(json.loads(lines[index]), rng)).encode() + b"\n"
    return b"".join(lines)


def _spoil_line(content: bytes, rng: random.Random) -> bytes:
    lines = content.splitlines(keepends=True) or [b""]
    lines[rng.randrange(len(lines))] = rng.choice((b"\n", b"{\n", b"null\n", b"[]\n", b"7\n", b"\xff\xfe\n", b'"x"\n'))
    return b"".join(lines)


def _mutate_checkpoint(path: Path, rng: random.Random) -> None:
    """The head or the arrays are changed by somebody who knows the format."""
    from note_rl.training.checkpoint import read_checkpoint, write_checkpoint

    arrays, head = read_checkpoint(path)
    if rng.random() < 0.5:
        head = _mutate(head, rng)
        head = head if isinstance(head, dict) else {}
    else:
        name = rng.choice(sorted(arrays))
        array = arrays.pop(name)
        change = rng.choice(("gone", "shape", "type", "name"))
        if change == "shape":
            arrays[name] = array.reshape(-1)[: max(array.size - 1, 0)]
        elif change == "type":
            arrays[name] = array.astype("uint8")
        elif change == "name":
            arrays[f"{name}x"] = array
    write_checkpoint(path, arrays, head)


def _mutate_parquet(path: Path, rng: random.Random) -> None:
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    column = rng.choice(table.column_names)
    index = table.column_names.index(column)
    change = rng.choice(("gone", "words", "nulls", "empty"))
    if change == "gone":
        table = table.drop_columns([column])
    elif change == "empty":
        table = table.slice(0, 0)
    else:
        values = ["x"] * len(table) if change == "words" else pyarrow.nulls(len(table))
        table = table.set_column(index, column, pyarrow.array(values) if change == "words" else values)
    pyarrow.parquet.write_table(table, path)


def _sql(*choices: str) -> Damage:
    """One of these statements; {table} and {column} are drawn."""

    def damage(path: Path, rng: random.Random) -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA foreign_keys=OFF")
            tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            table = rng.choice(sorted(tables))
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            statement = rng.choice(choices).format(table=table, column=rng.choice(columns))
            try:
                connection.execute(statement)
                connection.commit()
            except sqlite3.Error:  # a column that must stay: then the whole table goes
                connection.execute(f"DROP TABLE {table}")
                connection.commit()

    return damage


def _mutate_attribute(path: Path, rng: random.Random) -> None:
    """An attribute that we keep with a study or a trial is changed by somebody who knows SQL."""
    table = rng.choice(("study_user_attributes", "trial_user_attributes"))
    with closing(sqlite3.connect(path)) as connection:
        number, key, text = rng.choice(connection.execute(f"SELECT rowid, key, value_json FROM {table}").fetchall())
        del key
        changed = rng.choice((json.dumps(_mutate(json.loads(text), rng)), "{", "", "null"))
        connection.execute(f"UPDATE {table} SET value_json = ? WHERE rowid = ?", (changed, number))
        connection.commit()


_TEXT = (".yaml", ".json", ".jsonl", ".journal")
DAMAGES: dict[str, tuple[tuple[str, ...], Damage]] = {
    "truncated": ((), _rewrite(lambda content, rng: content[: rng.randrange(len(content) or 1)])),
    "empty": ((), _rewrite(lambda content, rng: b"")),
    "random": ((), _rewrite(lambda content, rng: rng.randbytes(len(content)))),
    "flipped bytes": ((), _rewrite(_flip)),
    "a block of NUL": ((), _rewrite(_replace_block)),
    "garbage behind": ((), _rewrite(lambda content, rng: content + rng.randbytes(rng.choice((1, 100, 5000))))),
    "no text": ((), _rewrite(lambda content, rng: b"\xff\xfe\x00" + content)),
    "a folder": ((), _as_folder),
    "a link to itself": ((), _as_circle),
    "a link to nothing": ((), _as_dangling),
    "something else": ((), _rewrite(lambda content, rng: b"once upon a time\n" * 50)),
    "huge": ((), _rewrite(lambda content, rng: content + b"x: y\n" * 3_000_000)),
    "NUL inside": (_TEXT, _insert(b"\0")),
    "half a letter inside": (_TEXT, _insert(b"\xc3")),
    "nested deeply": (_TEXT, _insert(b"[" * 20_000)),
    "settings changed": ((".yaml",), _rewrite(_mutate_yaml)),
    "two settings changed": ((".yaml",), _rewrite(lambda content, rng: _mutate_yaml(_mutate_yaml(content, rng), rng))),
    "code in YAML": ((".yaml",), _rewrite(lambda content, rng: content + b"\nx: !!python/object/apply:os.abort []\n")),
    "a bomb": (
        (".yaml",),
        _rewrite(
            lambda content, rng: (
                content
                + b"a0: &a0 [x,x]\n"
                + b"".join(b"a%d: &a%d [%s]\n" % (i, i, b",".join([b"*a%d" % (i - 1)] * 9)) for i in range(1, 30))
            )
        ),
    ),
    "values changed": ((".json",), _rewrite(_mutate_json)),
    "a value changed": ((".jsonl", ".journal"), _rewrite(_mutate_line)),
    "a line spoilt": ((".jsonl", ".journal"), _rewrite(_spoil_line)),
    "a line gone": (
        (".jsonl", ".journal"),
        _rewrite(lambda content, rng: b"".join(rng.sample(lines := content.splitlines(True), max(len(lines) - 1, 0)))),
    ),
    "arrays changed": ((".safetensors",), _mutate_checkpoint),
    "columns changed": ((".parquet",), _mutate_parquet),
    "a table dropped": ((".db",), _sql("DROP TABLE {table}")),
    "a table emptied": ((".db",), _sql("DELETE FROM {table}")),
    "a column altered": (
        (".db",),
        _sql("ALTER TABLE {table} RENAME COLUMN {column} TO other", "ALTER TABLE {table} DROP COLUMN {column}"),
    ),
    "nonsense in a column": ((".db",), _sql("UPDATE {table} SET {column} = 'x'", "UPDATE {table} SET {column} = NULL")),
    "an attribute changed": ((".db",), _mutate_attribute),
}
"""Name -> the endings of the files that it fits (none: all), and what it does."""
