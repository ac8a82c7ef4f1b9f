"""What is typed for another program reaches it as it was typed."""

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from tuner.config.overrides import quoted_texts


@pytest.mark.parametrize(
    "value",
    [
        "python x.py --lr {lr} --seed {seed}",
        "python x.py 'two words' \"{lr}\"",
        r"step=(?P<step>\d+),? return: (?P<value>\S+)\\",
        "bash -c 'a=$HOME; b | c'",
        "1e5",
        "true",
        "[a, b]",
    ],
)
@pytest.mark.parametrize("key", ["agent.command", "agent.pattern", "+agent.resume_flag"])
def test_any_characters_stay_what_they_are(key: str, value: str) -> None:
    (quoted,) = quoted_texts([f"{key}={value}"])
    (override,) = OverridesParser.create().parse_overrides([quoted])
    assert override.value() == value


@pytest.mark.parametrize(
    "typed",
    [
        "agent.command='python x.py'",
        'agent.pattern="a b"',
        "agent.resume_flag=null",
        "agent.lr=1",
        "~agent.command",
        "seed=1,2",
    ],
)
def test_what_is_quoted_or_something_else_is_left_alone(typed: str) -> None:
    assert quoted_texts([typed]) == [typed]
