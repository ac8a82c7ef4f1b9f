"""Does an agent learn what it must? It is trained on tasks whose solution is known, each in a second or so."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from note_rl.environments.small_tasks import ID, STAY_REWARD, TIME_LIMIT
from note_rl.errors import DivergedError, EnvironmentMismatchError
from note_rl.learners.declarations import is_recurrent
from note_rl.training.callbacks import Callback, Logs
from tuner.config.composition import RunConfig
from tuner.config.vocabulary import speaking_of_settings
from tuner.runs.build import build_run
from tuner.runs.run_threads import few_threads
from tuner.trial.messages import JsonDict

NUM_EPISODES: Final = 100
NUM_LOOKS: Final = 20
"""Evaluations over a budget."""
IN_A_ROW: Final = 3
"""Evaluations that must find a task learned, one after the other: one of many may be right by chance."""
MORE_SEEDS: Final = 2
"""Where the first seed fails, to tell what is wrong from what is unstable."""


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes:
        kind: See `note_rl.environments.small_tasks`.
        asks: The skill to be learned, for people.
        low: Mean return from which on it is.
        high: The highest that there should be.
        suspects: Where to look if it is not.
        needs_memory: Whether only an agent with a state can learn it.
    """

    kind: str
    asks: str
    low: float
    high: float
    suspects: str
    needs_memory: bool = False

    def is_learned(self, mean_return: float) -> bool:
        """Whether a return is that of an agent that has learned it."""
        return self.low <= mean_return <= self.high


@dataclass(frozen=True)
class Attempt:
    """Result of one seed.

    Attributes:
        mean_return: Of the last evaluation; nan: the loss became infinite or not a number.
        num_env_steps: Done by then.
        learned: Whether the last evaluations are those of somebody who has learned the task.
    """

    mean_return: float
    num_env_steps: int
    learned: bool


_STAYS = TIME_LIMIT * STAY_REWARD
TASKS: Final = (
    Task(
        "reward",
        "one step: the action that is rewarded",
        0.9,
        1.0,
        "the sign of the loss, the parameters that the optimizer has (param), exploration, the learning rate",
    ),
    Task(
        "observation",
        "one step: the action that the observation names",
        0.9,
        1.0,
        "shapes in the loss (a difference of [B] and [B, 1] is [B, B]), the order of rows in a batch, and what the "
        "networks are given",
    ),
    Task(
        "noise",
        "the same, with noise in rewards and observations",
        0.85,
        1.5,
        "the learning rate, the batch size, and losses of one sample in place of a mean",
    ),
    Task(
        "next_step",
        "two steps: the first action decides the last reward",
        0.9,
        1.0,
        "the next observation, the discount (gamma), and whether target networks follow (update_param)",
    ),
    Task(
        "delay",
        "six steps: the first action decides the last reward",
        0.9,
        1.0,
        "how far back a reward is passed on: the discount, returns of several steps, updates of target networks",
    ),
    Task(
        "time_limit",
        "a time limit: to stay is worth more, as the limit is no end",
        _STAYS - 0.05,
        _STAYS + 0.05,
        "episodes that are cut off: done must be 1 only where the task itself has ended; a discount below 0.9",
    ),
    Task(
        "memory",
        "three steps: the first observation names the last action",
        0.9,
        1.0,
        "the state that action() returns, the states in the loss (state_before, then the one behind each step, and "
        "that of initial_state() where episode_start is 1), and sequences of one step (sequence_length)",
        needs_memory=True,
    ),
)


@dataclass(frozen=True)
class Answer:
    """How an agent did on a task.

    Attributes:
        task: Which one.
        attempts: One of each seed.
    """

    task: Task
    attempts: tuple[Attempt, ...]

    @property
    def num_learned(self) -> int:
        """Seeds with which it was learned."""
        return sum(attempt.learned for attempt in self.attempts)

    @property
    def passed(self) -> bool:
        """Whether it was learned, with the first seed or with both others."""
        return 2 * self.num_learned > len(self.attempts)


def check_agent(config: JsonDict, before: Callable[[Task], None] = lambda task: None) -> Iterator[Answer]:
    """Trains an agent on each task that agents of its kind can learn, and on those that it fails with more seeds.

    Args:
        config: Of a run, resolved; its environment is replaced.
        before: Called with each task before it is begun.

    Raises:
        UserError, note_rl.errors.NoteRLError: The agent cannot be built, or acts in neither kind of environment.
    """
    continuous, remembers = _tried_out(config)
    for task in TASKS:
        if task.needs_memory and not remembers:
            continue
        before(task)
        first = int(config["seed"])
        attempts = [_attempt(config, task, continuous, first)]
        if not attempts[0].learned:
            attempts += [_attempt(config, task, continuous, first + more) for more in range(1, MORE_SEEDS + 1)]
        yield Answer(task, tuple(attempts))


def _tried_out(config: JsonDict) -> tuple[bool, bool]:
    """Whether the agent takes actions that are numbers, and whether it is recurrent.

    One that takes a choice of actions, too, is given that.
    """
    refusals: list[Exception] = []
    for continuous in (False, True):
        run = _run_config(config, TASKS[0], continuous, int(config["seed"]))
        try:
            with few_threads(run.backend), speaking_of_settings():
                built = build_run(run)
                built.try_out()
                remembers = is_recurrent(built.agent)
        except Exception as refusal:  # noqa: BLE001 - an agent of the user's own may fail in any way on the other kind
            refusals.append(refusal)
        else:
            return continuous, remembers
    raise next((one for one in refusals if not isinstance(one, EnvironmentMismatchError)), refusals[0])


def _run_config(config: JsonDict, task: Task, continuous: bool, seed: int) -> RunConfig:
    env = {"id": ID, "num_envs": config["env"]["num_envs"], "kwargs": {"kind": task.kind, "continuous": continuous}}
    return RunConfig.from_json({**config, "env": env, "seed": seed})


def _attempt(config: JsonDict, task: Task, continuous: bool, seed: int) -> Attempt:
    run_config = _run_config(config, task, continuous, seed)
    training = run_config.training
    with few_threads(run_config.backend), speaking_of_settings():
        run = build_run(run_config)
        looks = _Looks(task, training.total_steps, seed)
        try:
            run.agent.train(
                optimizer=run.optimizer,
                total_steps=training.total_steps,
                callbacks=[looks],
                jit_compile=training.jit_compile,
                p=0,
            )
        except DivergedError:
            return Attempt(float("nan"), run.agent.num_env_steps, False)
    return Attempt(looks.last, run.agent.num_env_steps, looks.in_a_row >= IN_A_ROW)


class _Looks(Callback):
    """Evaluates from time to time, and stops training once the task is learned.

    Attributes:
        last: The mean return of the last evaluation.
        in_a_row: How many of the last evaluations found the task learned.
    """

    changes_parameters = False

    def __init__(self, task: Task, total_steps: int, seed: int) -> None:
        self._task = task
        self._every = max(1, total_steps // NUM_LOOKS)
        self._next = self._every
        self._seed = seed + NUM_EPISODES  # other episodes than those of training
        self.last, self.in_a_row = float("nan"), 0

    def on_phase_end(self, phase: int, logs: Logs) -> None:
        """Looks where the next point is passed."""
        if self.agent.num_env_steps >= self._next:
            self._next = self.agent.num_env_steps + self._every
            self.last = float(self.agent.evaluate(NUM_EPISODES, seed=self._seed).mean)
            self.in_a_row = self.in_a_row + 1 if self._task.is_learned(self.last) else 0
            self.agent.stop_training = self.in_a_row >= IN_A_ROW
