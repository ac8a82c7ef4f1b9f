"""On the command line nobody reads the manuals' names of arguments."""

import ast
import re
from pathlib import Path

import pytest

import note_rl
from note_rl.errors import SettingsError
from tuner.config.vocabulary import about_part, as_settings, speaking_of_settings

PYTHON_WORDS = re.compile(
    r"\b(PPO|PR|HER|MARL|IRL|TRL)=True|\bset\(\)|pool_size|update_batches|num_updates|rollout_steps"
)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("add PPO=True to set(), or use buffer=rollout", "use buffer=rollout"),
        ("compares PPO's policies: set PPO=True (buffer=rollout)", "compares PPO's policies: set buffer=rollout"),
        ("it is for several agents: add MARL=True to set()", "it is for several agents: use training.multi_agent=true"),
        (
            "MARL and HER cannot be combined: HER is for one agent",
            "training.multi_agent=true and buffer=hindsight cannot be combined: buffer=hindsight is for one agent",
        ),
        ("set num_updates to train less often", "set buffer.gradient_steps to train less often"),
        ("PPO learns from rollouts", "PPO learns from rollouts"),
        ("buffer.rollout_steps=3", "buffer.rollout_steps=3"),
    ],
)
def test_arguments_of_set_become_settings(message: str, said: str) -> None:
    assert as_settings(message) == said


def test_no_refusal_of_the_training_core_keeps_a_python_flag() -> None:
    folder = Path(note_rl.__file__ or "").parent
    files = [
        path for room in ("learners", "settings", "environments", "replay") for path in (folder / room).rglob("*.py")
    ]
    texts = [
        " ".join(str(part.value) for part in ast.walk(node.exc) if isinstance(part, ast.Constant))
        for path in files
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Raise) and node.exc is not None
    ]
    told = [text for text in texts if PYTHON_WORDS.search(text)]
    assert len(told) > 10
    left = {text for text in map(as_settings, told) if PYTHON_WORDS.search(text)}
    assert not left


def test_a_value_out_of_range_is_named_as_it_is_typed() -> None:
    node = {"batch_size": 0, "eps": 2}
    assert (
        about_part("buffer", node, "batch_size must be at least 1, got 0")
        == "buffer.batch_size=0 is not possible: it must be at least 1"
    )
    assert (
        about_part("policy", node, "eps must be a number, got 2; leave it out")
        == "policy.eps=2 is not possible: it must be a number; leave it out"
    )
    assert about_part("buffer", node, "other must be 1, got 0") == "buffer: other must be 1, got 0"


def test_the_kind_of_error_stays_what_it_is() -> None:
    with pytest.raises(SettingsError, match=r"^use buffer=prioritized$"), speaking_of_settings():
        raise SettingsError("add PR=True to set()")
