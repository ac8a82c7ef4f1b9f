"""`tuner check`: which part of an agent does not learn?"""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from omegaconf import DictConfig
from rich.markup import escape

from tuner.checking.hydra_messages import parse_overrides
from tuner.commands.check_runs import check_agent
from tuner.errors import UserError
from tuner.results.number_format import counted, format_number
from tuner.runs.agent_check import LONGER, TASKS, Answer, Task, reduced
from tuner.runs.config_checks import resolve
from tuner.runs.functions import is_function
from tuner.support import waiting_line
from tuner.support.console import PlainConsole

_FAILED: Final = 1
_IMITATION: Final = ("dataset", "learned_reward")


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Trains on each task, says how it went, and where to look; the exit status is 1 where a task was not learned."""
    del folder
    if typed := next((word for word in overrides if re.match(r"[+~]*env(\.id|\.kwargs[.\w]*)?(=|$)", word)), None):
        raise UserError(f"{typed}: tuner check has environments of its own: leave it out")
    resolved = resolve(config)
    if is_function(resolved):
        raise UserError("there is no agent in a function that could be checked: name an agent, as in tuner check dqn")
    if (source := next((key for key in _IMITATION if resolved["buffer"].get(key)), None)) is not None:
        raise UserError(
            f"an agent that learns from buffer.{source} does not learn from rewards, and the tasks of tuner check have "
            "nothing else: name another one, as in tuner check dqn"
        )
    resolved, lowered = reduced(resolved, [override.key_or_group for override in parse_overrides(overrides)])
    console = PlainConsole()
    width = max(len(task.asks) for task in TASKS)

    def before(task: Task) -> None:
        waiting_line.show(f"training: {task.asks}")

    answers: list[Answer] = []
    for answer in check_agent(resolved, before):
        waiting_line.erase()
        console.print(f"{escape(answer.task.asks):<{width}}  {_outcome(answer)}", highlight=False, soft_wrap=True)
        answers.append(answer)
    steps = int(resolved["training"]["total_steps"])
    failed = [answer for answer in answers if not answer.passed]
    sizes = _sizes(lowered)
    if not failed:
        console.print(escape(f"all {len(answers)} tasks are learned{sizes}"), highlight=False, soft_wrap=True)
        return 0
    console.print(
        f"{len(failed)} of {len(answers)} tasks are not learned. A task needs the parts of the tasks above it and one "
        f"more: begin with the first one that is not learned. Look at {failed[0].task.suspects}. "
        f"{more_steps(failed[0], steps)}{escape(sizes)}.",
        highlight=False,
        soft_wrap=True,
    )
    return _FAILED


def more_steps(answer: Answer, steps: int) -> str:
    """Advice to an agent that may only be slow; another text where more steps have been tried already."""
    tried = max(attempt.num_env_steps for attempt in answer.attempts)
    if tried >= LONGER * steps:
        return f"That it only learns slowly is unlikely: {tried:,} steps were tried, too"
    return f"An agent that learns slowly may only need more steps: training.total_steps={LONGER * steps} (now {steps})"


def _sizes(lowered: Mapping[str, Any]) -> str:
    """That sizes are others than those of the configuration, if they are."""
    shown = " ".join(f"{path}={json.dumps(value, separators=(',', ':'))}" for path, value in lowered.items())
    return f"; with {shown}, as these tasks need no more (type other sizes to check those)" if lowered else ""


def _outcome(answer: Answer) -> str:
    task, attempts = answer.task, answer.attempts
    if answer.passed and len(attempts) == 1:
        return f"learned in {attempts[0].num_env_steps:,} steps"
    returns = [attempt.mean_return for attempt in attempts]
    shown = ", ".join("no finite loss" if math.isnan(one) else format_number(one) for one in returns)
    seeds = f"{answer.num_learned} of {counted(len(attempts), 'seed')}"
    wanted = f"{format_number(task.low)} to {format_number(task.high)}"
    return f"{'learned' if answer.passed else 'not learned'} with {seeds} (mean returns {shown}; {wanted} is right)"
