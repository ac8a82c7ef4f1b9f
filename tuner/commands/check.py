"""`tuner check`: which part of an agent does not learn?"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from omegaconf import DictConfig
from rich.markup import escape

from tuner.config.composition import run_config_of
from tuner.errors import UserError
from tuner.results.number_format import counted, format_number
from tuner.runs.agent_check import TASKS, Answer, Task, check_agent
from tuner.runs.config_checks import resolve
from tuner.runs.functions import is_function
from tuner.support import waiting_line
from tuner.support.console import PlainConsole

_FAILED: Final = 1


def run(config: DictConfig, folder: Path, overrides: Sequence[str]) -> int:
    """Trains on each task, says how it went, and where to look; the exit status is 1 where a task was not learned."""
    del folder, overrides
    resolved = run_config_of(resolve(config))
    if is_function(resolved):
        raise UserError("a function learns by itself: tuner check is for agents")
    console = PlainConsole()
    width = max(len(task.asks) for task in TASKS)

    def before(task: Task) -> None:
        waiting_line.show(f"training: {task.asks}")

    failed: list[Task] = []
    for answer in check_agent(resolved, before):
        waiting_line.erase()
        console.print(f"{escape(answer.task.asks):<{width}}  {_outcome(answer)}", highlight=False, soft_wrap=True)
        failed += [] if answer.passed else [answer.task]
    if not failed:
        console.print(f"all {len(TASKS)} are learned", highlight=False)
        return 0
    console.print(
        f"{len(failed)} of {len(TASKS)} tasks are not learned. Each needs what those above it need, so begin with the "
        f"first of them. Look at {failed[0].suspects}.",
        highlight=False,
        soft_wrap=True,
    )
    return _FAILED


def _outcome(answer: Answer) -> str:
    task, attempts = answer.task, answer.attempts
    if answer.passed and len(attempts) == 1:
        return f"learned in {attempts[0].num_env_steps:,} steps"
    shown = ", ".join(format_number(attempt.mean_return) for attempt in attempts)
    seeds = f"{answer.num_learned} of {counted(len(attempts), 'seed')}"
    wanted = f"{format_number(task.low)} to {format_number(task.high)}"
    return f"{'learned' if answer.passed else 'not learned'} with {seeds} (mean returns {shown}; {wanted} is right)"
