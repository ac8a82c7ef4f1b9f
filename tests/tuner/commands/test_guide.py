"""`tuner guide`: the list of pages, a page in a terminal and in a pipe, its file, and what there is not."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tuner.command_line import CommandLine, tuner
from tuner.commands import guide

__all__ = ["tuner"]

TOPICS = sorted(path.stem for path in guide.FOLDER.glob("*.md"))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_every_page_is_in_the_list_once(tuner: CommandLine) -> None:
    lines = tuner("guide").output.splitlines()
    assert sorted(line.split()[0] for line in lines if line.startswith("  ")) == TOPICS
    for topic in TOPICS:
        title = (guide.FOLDER / f"{topic}.md").read_text().splitlines()[0].removeprefix("# ")
        (line,) = [line for line in lines if line.split()[:1] == [topic]]
        assert line.endswith(f"  {title}")
        assert len(line) <= 80


def test_pages_of_a_subject_are_linked_on_the_front_page() -> None:
    text = (guide.FOLDER.parents[1] / "README.md").read_text()
    for subject, topics in guide.subjects().items():
        (line,) = re.findall(rf"^\| {subject} \| (.*) \|$|^## {subject}\n\n((?:.+\n)+)", text, re.MULTILINE)
        assert re.findall(r"tuner/guide/([\w-]+)\.md", "".join(line)) == topics


def test_a_pipe_gets_the_file_as_it_is_and_path_names_it(tuner: CommandLine) -> None:
    shown = tuner("guide", "tune").output
    assert shown == Path(tuner("guide", "tune", "path=true").output.strip()).read_text()


def test_a_terminal_gets_formatted_text_of_its_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    assert guide.show_at_once(["tune"]) == 0
    lines = re.sub(r"\x1b\[[\d;]*m", "", screen.getvalue()).splitlines()
    assert len(lines) > 20
    assert max(map(len, lines)) <= 80
    assert not any(line.startswith(("#", "```", "| --")) for line in lines)


def test_no_word_of_a_table_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    for topic in (topic for topics in guide.subjects().values() for topic in topics):
        screen = Terminal()
        monkeypatch.setattr(sys, "stdout", screen)
        guide.show_at_once([topic])
        cut = [line for line in screen.getvalue().splitlines() if "\N{HORIZONTAL ELLIPSIS}" in line]
        assert not cut, topic


def test_an_unknown_page_is_refused_with_those_near_it(tuner: CommandLine) -> None:
    answer = "tuner guide: there is no page 'populatoins'; did you mean populations?\ntuner guide lists all pages\n"
    assert tuner.refused("guide", "populatoins") == answer


def test_what_is_not_one_page_is_refused_as_elsewhere(tuner: CommandLine) -> None:
    assert "takes one topic, got train and tune" in tuner.refused("guide", "train", "tune")
    assert "tpoic" in tuner.refused("guide", "tpoic=tune")


@pytest.mark.parametrize("words", [["tune"], ["path=true"], ["tnue"], []])
def test_both_ways_answer_alike(tuner: CommandLine, capsys: pytest.CaptureFixture[str], words: list[str]) -> None:
    answer = tuner("guide", *words)
    assert guide.show_at_once(words) == answer.status
    assert capsys.readouterr() == (answer.output, answer.errors)


def test_what_only_the_command_line_knows_is_left_to_it() -> None:
    assert [guide.show_at_once(words) for words in (["--help"], ["help"], ["topic=tune"], ["a", "b"])] == [None] * 4


def test_a_page_is_shown_without_importing_anything_heavy(tmp_path: Path) -> None:
    program = (
        "import sys; from tuner.__main__ import main; sys.argv = ['tuner', 'guide', 'tune']; status = main();"
        "heavy = ('torch', 'tensorflow', 'keras', 'optuna', 'hydra', 'omegaconf', 'numpy', 'rich');"
        "print('\\n', [name for name in heavy if name in sys.modules])"
    )
    environment = {**os.environ, "PYTHONPATH": str(guide.FOLDER.parents[1]), "PYTHONWARNINGS": "error"}
    finished = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert (finished.stdout.splitlines()[-1].strip(), finished.stderr) == ("[]", "")
