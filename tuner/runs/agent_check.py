"""Does an agent learn what it must? It is trained on tasks whose solution is known, each in a second or so."""

import copy
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from note_rl.environments.small_tasks import ID, STAY_REWARD
from note_rl.errors import DivergedError, EnvironmentMismatchError
from note_rl.learners.declarations import is_recurrent
from note_rl.training.callbacks import Callback, Logs
from tuner.config.composition import RunConfig
from tuner.config.paths import get_path, has_path, set_path
from tuner.config.vocabulary import speaking_of_settings
from tuner.runs.build import build_run
from tuner.runs.probe import warnings_of_a_run
from tuner.runs.run_threads import few_threads
from tuner.trial.context import TrialContext
from tuner.trial.messages import JsonDict

ENTRY: Final = "tuner.runs.agent_check:run_attempt"
NUM_EPISODES: Final = 100
NUM_LOOKS: Final = 20
"""Evaluations over a budget, at least."""
LOOK_UPDATES: Final = 100
"""Gradient steps between two evaluations, at most: many agents take one for each environment step."""
IN_A_ROW: Final = 3
"""Evaluations that must find a task learned, one after the other: one of many may be right by chance."""
STEADY_UPDATES: Final = 400
"""Gradient steps that these evaluations span, unless they span two of the intervals of a budget."""
MORE_SEEDS: Final = 2
"""Where the first seed fails, to tell what is wrong from what is unstable."""

LARGEST: Final = {"network.hidden_sizes": 64, "network.critic.hidden_sizes": 64, "buffer.batch_size": 64}
"""Sizes that these tasks need no more than, by config path: larger ones cost most of the time of a gradient step."""

FEW_UPDATES: Final = 0.05
"""Gradient steps per environment step: rollouts of a2c and trpo give fewer, and a2c_continuous needs 130,000 steps."""
LONGER: Final = 10
"""Times as many environment steps for such an agent, with the seeds behind the first one."""

_MEAN_RETURN, _LEARNED, _IS_SLOW = "mean_return", "learned", "is_slow"


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
        is_slow: Whether the agent takes so few gradient steps that it needs more environment steps, which cost little.
    """

    mean_return: float
    num_env_steps: int
    learned: bool
    is_slow: bool = False


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
        STAY_REWARD - 0.05,
        STAY_REWARD + 0.05,
        "episodes that are cut off: done must be 1 only where the task itself has ended; a discount below 0.3",
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


def tasks_for(remembers: bool) -> tuple[Task, ...]:
    """Those that an agent can learn, in order: each needs the parts of those before it and one more."""
    return tuple(task for task in TASKS if remembers or not task.needs_memory)


def seeds_of(config: JsonDict) -> list[int]:
    """The seeds with which a task is tried: the first one, and those behind it where that fails."""
    first = int(config["seed"])
    return [first + more for more in range(1 + MORE_SEEDS)]


def tried_out(config: JsonDict) -> tuple[bool, bool]:
    """Whether the agent takes actions that are numbers, and whether it is recurrent.

    One that takes a choice of actions, too, is given that.

    Args:
        config: Of a run, resolved; its environment is replaced.

    Raises:
        UserError, note_rl.errors.NoteRLError: The agent cannot be built, or acts in neither kind of environment.
    """
    refusals: list[Exception] = []
    for continuous in (False, True):
        run = RunConfig.from_json(config_on(config, TASKS[0], continuous))
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


def longer(config: JsonDict) -> JsonDict:
    """The configuration with the steps that slow agents get with further seeds."""
    training = config["training"]
    return {**config, "training": {**training, "total_steps": LONGER * int(training["total_steps"])}}


def reduced(config: JsonDict, typed: Collection[str]) -> tuple[JsonDict, dict[str, Any]]:
    """The configuration with the sizes of `LARGEST`, and those that are others for it, by config path.

    Args:
        config: Of a run, resolved.
        typed: Config paths that somebody has chosen, or groups: they stay.
    """
    found, changed = copy.deepcopy(config), {}
    for path, most in LARGEST.items():
        is_chosen = any(f"{path}.".startswith(f"{one}.") for one in typed)
        is_of_rollout = path.startswith("buffer.") and not has_path(config, "buffer.capacity")
        if is_chosen or is_of_rollout or not has_path(config, path):
            continue
        before: Any = get_path(config, path)
        sizes = before if isinstance(before, list) else [before]
        if all(isinstance(size, int) for size in sizes) and max(sizes, default=0) > most:
            lower = [min(size, most) for size in sizes]
            changed[path] = lower if isinstance(before, list) else lower[0]
            set_path(found, path, changed[path])
    return found, changed


def config_on(config: JsonDict, task: Task, continuous: bool) -> JsonDict:
    """The configuration with a task in the place of its environment."""
    kwargs = {"kind": task.kind, "continuous": continuous}
    return {**config, "env": {"id": ID, "num_envs": config["env"]["num_envs"], "kwargs": kwargs}}


def run_attempt(context: TrialContext) -> None:
    """Entry of the process that tries a task with one seed."""
    with warnings_of_a_run() as said:
        made = attempt({**context.spec.config, "seed": context.spec.seed}, context.alive)
    found = {_MEAN_RETURN: made.mean_return, _LEARNED: float(made.learned), _IS_SLOW: float(made.is_slow)}
    context.log(made.num_env_steps, found)
    context.remark = "; ".join(said)


def attempt_logged(num_env_steps: int, metrics: Mapping[str, float]) -> Attempt:
    """The attempt that `run_attempt` logs."""
    return Attempt(metrics[_MEAN_RETURN], num_env_steps, bool(metrics[_LEARNED]), bool(metrics[_IS_SLOW]))


def attempt(config: JsonDict, alive: Callable[[float], object] = lambda progress: None) -> Attempt:
    """Trains an agent on a task until it is learned, or its steps are over.

    Args:
        config: Of `config_on`, with the seed.
        alive: Called from time to time with the done share of the steps.
    """
    run_config = RunConfig.from_json(config)
    task = next(one for one in TASKS if one.kind == run_config.env.kwargs["kind"])
    training = run_config.training
    with few_threads(run_config.backend), speaking_of_settings():
        run = build_run(run_config)
        looks = _Looks(task, training.total_steps, run_config.seed, alive)
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
    agent = run.agent
    is_slow = bool(agent.on_policy) and agent.num_gradient_steps < FEW_UPDATES * agent.num_env_steps
    return Attempt(looks.last, agent.num_env_steps, looks.is_steady, is_slow)


class _Looks(Callback):
    """Evaluates from time to time, and stops training once the task is learned.

    Attributes:
        last: The mean return of the last evaluation.
        is_steady: Whether the last evaluations, over enough steps, have found the task learned.
    """

    changes_parameters = False

    def __init__(self, task: Task, total_steps: int, seed: int, alive: Callable[[float], object]) -> None:
        self._task = task
        self._total_steps, self._every = total_steps, max(1, total_steps // NUM_LOOKS)
        self._seed = seed + NUM_EPISODES  # other episodes than those of training
        self._alive = alive
        self._looked_at = (0, 0)  # environment steps and gradient steps
        self._learned_at: list[tuple[int, int]] = []  # the last evaluations, as far as all of them found it learned
        self.last, self.is_steady = float("nan"), False

    def on_phase_end(self, phase: int, logs: Logs) -> None:
        """Looks where the next point is passed."""
        now = (self.agent.num_env_steps, self.agent.num_gradient_steps)
        self._alive(now[0] / self._total_steps)
        if not _apart(self._looked_at, now, self._every, LOOK_UPDATES):
            return
        self._looked_at = now
        self.last = float(self.agent.evaluate(NUM_EPISODES, seed=self._seed).mean)
        self._learned_at = [*self._learned_at, now] if self._task.is_learned(self.last) else []
        self.is_steady = len(self._learned_at) >= IN_A_ROW and _apart(
            self._learned_at[0], now, (IN_A_ROW - 1) * self._every, STEADY_UPDATES
        )
        self.agent.stop_training = self.is_steady


def _apart(one: tuple[int, int], other: tuple[int, int], num_env_steps: int, num_updates: int) -> bool:
    """Whether at least this number of environment steps, or of gradient steps, lies between."""
    return other[0] - one[0] >= num_env_steps or other[1] - one[1] >= num_updates
