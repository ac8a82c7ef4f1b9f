"""Several choices of a group, typed as a list: `agent=[dqn,ppo]` for a command that runs each of them."""

from collections.abc import Sequence

from tuner.checking.hydra_messages import parse_overrides
from tuner.errors import UserError


def with_lists(overrides: Sequence[str], groups: Sequence[str]) -> list[str]:
    """The overrides, with `agent=[dqn,ppo]` as `agents=[dqn,ppo] agent=dqn`, which is how the rest is composed.

    Args:
        overrides: As typed.
        groups: Those of which there may be several.

    Raises:
        UserError: A group is typed twice, or is no list of names.
    """
    found: list[str] = []
    seen: dict[str, str] = {}
    for word in overrides:
        key = word.partition("=")[0]
        if key not in groups:
            found.append(word)
            continue
        if key in seen:
            raise UserError(f"{seen[key]} and {word} both name {key}s: leave one of them out")
        seen[key] = word
        value = parse_overrides([word])[0].value()
        listed = value if isinstance(value, list) else [value]
        names = [name for name in listed if isinstance(name, str) and name]
        if not names or names != listed:
            raise UserError(f"{word} must be names, such as '{key}=[NAME,NAME]'")
        found += [f"{key}s=[{','.join(names)}]", f"{key}={names[0]}"]
    return found
