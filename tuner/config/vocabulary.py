"""What the training core refuses, said in the words of the command line.

Its classes keep the argument names of the manuals (`PPO=True`, `pool_size=`), which mean nothing to somebody who types
settings. Code of the user's own that calls `set()` is answered in those names.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from note_rl.errors import NoteRLError
from tuner.config.kinds import written

_FLAGS: Final = {
    "PPO": "buffer=rollout",
    "PR": "buffer=prioritized",
    "HER": "buffer=hindsight",
    "MARL": "training.multi_agent=true",
    "IRL": "buffer.learned_reward=true",
    "TRL": "buffer.trajectories=true",
}
_SENTENCES: Final = (
    (r"add PPO=True to set\(\), or use (buffer=\w+)", r"use \1"),
    (r"leave PPO=True out of set\(\), or use (buffer=\w+)", r"use \1"),
    (r"\w+=True \((buffer=\w+)\)", r"\1"),
    (r"expert=\.\.\. in set\(\) \((buffer\.expert)\)", r"\1"),
    (r"add (\w+=True) to set\(\)", r"use \1"),
    (r" (?:to|in|of) set\(\)", ""),
    (r"\bdrop PPO\b", "use buffer=replay"),
    (r"\bMARL and PPO\b", "MARL and PPO=True"),
    (r"(?<![\w.])num_steps above 1\b", "buffer.num_steps above 1"),
    (r"(?<![\w.])frame_stack above 1\b", "training.frame_stack above 1"),
    (r"(?<![\w.])(train_freq|learning_starts)(?==\d)", r"buffer.\1"),
    (r"(?<![\w.])num_envs(?==\d)", "env.num_envs"),
    (r"such as batch=(\d+)", r"such as buffer.batch_size=\1"),
    (r"rollout_steps, update_steps, num_envs", "buffer.num_steps, env.num_envs"),
)
_NAMES: Final = {
    "batch/batch_size": "buffer.batch_size",
    "pool_size/capacity": "buffer.capacity",
    "pool_size": "buffer.capacity",
    "update_steps/num_env_steps": "buffer.num_env_steps",
    "update_steps/target_update_env_steps": "buffer.target_update_env_steps",
    "update_batches": "buffer.target_update_interval",
    "update_steps": "buffer.target_update_env_steps",
    "rollout_steps": "buffer.num_steps",
    "num_updates": "buffer.gradient_steps",
    "normalise_obs": "training.normalise_obs",
}
_FLAG: Final = re.compile(rf"\b(?:({'|'.join(_FLAGS)})=True|(PR|HER|MARL|IRL|TRL))\b(?![=(])")
_NAME: Final = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, _NAMES))})\b")
_OUT_OF_RANGE: Final = re.compile(r"(\w+) (must|is) (.+?), got (.+?)(; .*)?", re.DOTALL)


def as_settings(message: str) -> str:
    """A message of the training core with settings in the place of arguments of set()."""
    for pattern, words in _SENTENCES:
        message = re.sub(pattern, words, message)
    message = _FLAG.sub(lambda found: _FLAGS[found[1] or found[2]], message)
    return _NAME.sub(lambda found: _NAMES[found[1]], message)


def about_part(path: str, node: Mapping[str, Any], message: str) -> str:
    """What a part of the configuration refuses, with the setting and its value as they are typed.

    Args:
        path: Of the part.
        node: Its settings.
        message: As its class says it: `batch_size must be at least 1, got 0`.
    """
    found = _OUT_OF_RANGE.fullmatch(message)
    if found is not None and found[1] in node:
        name, verb, rule, _, hint = found.groups()
        return f"{path}.{name}={written(node[name])} is not possible: it {verb} {rule}{hint or ''}"
    named = re.match(r"(\w+)=", message)
    if named is not None and named[1] in node:
        return f"{path}.{message}"
    said = as_settings(message)
    return said if re.search(rf"\b{re.escape(path)}[.=]", said) else f"{path}: {said}"


@contextmanager
def speaking_of_settings() -> Iterator[None]:
    """What the training core refuses inside is said of settings."""
    try:
        yield
    except NoteRLError as error:
        said = as_settings(str(error))
        if said == str(error):
            raise
        raise type(error)(said) from error
