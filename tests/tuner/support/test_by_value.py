"""Functions that are sent to other processes."""

import pickle
import traceback
from types import FunctionType

from tuner.support.by_value import pickled_by_value

WRITTEN = """\
def main(number):
    def inner():
        raise RuntimeError("boom")  # the guilty line

    return inner() if number else (lambda: 0)()
"""


def test_a_traceback_names_the_file_and_the_line_of_the_user(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(WRITTEN)
    namespace = {"__name__": "__main__"}
    exec(compile(WRITTEN, "app.py", "exec"), namespace)  # a relative path, which the other process could not find
    sent = pickle.loads(pickled_by_value(namespace["main"]))
    assert isinstance(sent, FunctionType)
    assert sent(0) == 0
    monkeypatch.chdir("/")
    try:
        sent(1)
    except RuntimeError as error:
        told = "".join(traceback.format_exception(error))
    assert f'File "{tmp_path}/app.py", line 5, in main' in told
    assert f'File "{tmp_path}/app.py", line 3, in inner' in told
    assert "# the guilty line" in told
    assert "<dynamic-code>" not in told


def test_what_has_no_file_has_none_there_either():
    namespace = {"__name__": "__main__"}
    exec(compile(WRITTEN, "<stdin>", "exec"), namespace)
    assert pickle.loads(pickled_by_value(namespace["main"])).__code__.co_filename == "<stdin>"
