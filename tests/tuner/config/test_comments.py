"""The comments of configuration files, from which --help tells what each setting is."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tuner.config.comments import comments_of
from tuner.config.composition import conf_folder

FILE = """\
# @package _global_
# Q-learning (Watkins et al. 1992). More of it.
defaults:
  - base                    # not a setting

agent:                      # who learns
  _target_: my.Agent
  gamma: 0.9                # discount
  word: "a # b"             # a word with
                            # two lines
  plain: 3
  # a remark that is not about plain
  sizes: [1,
          2]                # widths
  inner: {a: 1}             # in one
"""


def test_what_stands_behind_a_setting_is_said_of_it(tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "mine.yaml").write_text(FILE)
    (tmp_path / "agent" / "base.yaml").write_text("# Base.\ngamma: 1  # hidden\ntau: 1  # share\n")
    found = comments_of([tmp_path / "nowhere", tmp_path], "agent", "mine")
    assert found.title == "Q-learning (Watkins et al. 1992)"
    assert found.texts == {
        "agent": "who learns",
        "agent.gamma": "discount",
        "agent.tau": "share",
        "agent.word": "a word with two lines",
        "agent.sizes": "widths",
        "agent.inner": "in one",
    }
    assert comments_of([tmp_path], "agent", "other").texts == {}


def settings_in(node: dict[str, Any], prefix: str) -> Iterator[str]:
    for key, value in node.items():
        if key not in ("defaults", "hydra") and not key.startswith("_"):
            yield from (
                settings_in(value, f"{prefix}{key}.") if isinstance(value, dict) and value else [f"{prefix}{key}"]
            )


def test_every_setting_of_conf_has_a_comment_in_its_own_group() -> None:
    conf, silent = conf_folder(), []
    for path in sorted(conf.rglob("*.yaml")):
        group = path.parent.relative_to(conf).as_posix().removeprefix(".")
        if group.startswith(("hydra", "experiment", "space")):
            continue
        text = path.read_text()
        prefix = "" if not group or "@package _global_" in text else f"{group}."
        said = comments_of([conf], group, path.stem).texts
        for setting in settings_in(yaml.safe_load(text) or {}, prefix):
            is_own = not group or setting.startswith(f"{group}.")
            if is_own and not any(setting == name or setting.startswith(f"{name}.") for name in said):
                silent.append(f"{path.name}: {setting}")
    assert not silent
