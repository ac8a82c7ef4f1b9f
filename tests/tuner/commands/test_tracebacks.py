"""Whose error a crash is said to be."""

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import wrappers

from note_rl.agents.pytorch import DQN
from note_rl.environments import EnvFactory, VectorEnvironment
from note_rl.errors import WorkerError
from note_rl.optimizers.pytorch import adam
from note_rl.policy import EpsGreedyQPolicy
from tests.tuner.command_line import SMALL, CommandLine
from tuner.commands.tracebacks import describe_crash


def crash(*made: Any, env_id: str = "CartPole-v1", training: bool = False) -> str:
    """Text on an error while such an environment is made or stepped."""
    factory = EnvFactory(env_id, **{"training_wrappers" if training else "wrappers": made})
    try:
        VectorEnvironment([factory()], 0).step(np.zeros(1, np.int64))
    except Exception as error:  # noqa: BLE001 - any, as at the border of the program
        return describe_crash(error)
    raise AssertionError("nothing failed")


class Passing(gymnasium.Wrapper[Any, Any, Any, Any]):
    """One of the user's own."""

    def step(self, action: Any) -> Any:
        return self.env.step(action)


class Failing(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Another."""

    def step(self, action: Any) -> Any:
        raise KeyError("own")


def too_bright(reward: Any) -> Any:
    raise ZeroDivisionError("reward")


WHEN_CALLED = "the wrapper gymnasium.wrappers.transform_reward.TransformReward:"
CRASHES: dict[str, tuple[Callable[[], str], str, str]] = {
    "called wrongly": (
        lambda: crash(partial(wrappers.ResizeObservation)),
        "the wrapper gymnasium.wrappers.transform_observation.ResizeObservation:",
        "TypeError: ResizeObservation.__init__() missing",
    ),
    "stepped": (lambda: crash(partial(wrappers.TransformReward, func=3)), WHEN_CALLED, "TypeError: 'int' object"),
    "stepped below one of the user's": (
        lambda: crash(partial(wrappers.TransformReward, func=3), Passing),
        WHEN_CALLED,
        "TypeError: 'int' object",
    ),
    "the user's": (lambda: crash(Failing), "your own code, test_tracebacks.py line ", "KeyError: 'own'"),
    "the user's below an installed one": (
        lambda: crash(Failing, wrappers.RecordEpisodeStatistics),
        "your own code, test_tracebacks.py line ",
        "KeyError: 'own'",
    ),
    "the user's function in an installed one": (
        lambda: crash(partial(wrappers.TransformReward, func=too_bright)),
        "your own code, test_tracebacks.py line ",
        "ZeroDivisionError: reward",
    ),
}


@pytest.mark.parametrize("name", CRASHES)
def test_the_part_that_failed_is_named(name: str) -> None:
    happen, whose, what = CRASHES[name]
    lines = happen().splitlines()
    assert lines[0].startswith(f"The error comes from {whose}")
    assert lines[-1].startswith(what)
    assert "Nobody foresaw" not in " ".join(lines)


def test_an_installed_environment_is_named() -> None:
    try:
        EnvFactory("CartPole-v1", {"render_mode": "rgb_array"})().unwrapped.step(7)
    except AssertionError as error:
        said = describe_crash(error)
    assert said.startswith("The error comes from the environment gymnasium.envs.classic_control.cartpole.CartPoleEnv:")


def test_what_nobody_foresaw_is_shown_whole() -> None:
    assert "Nobody foresaw this" in describe_crash(RuntimeError("anything"))


class Breaking(Passing):
    """Fails after some steps."""

    def step(self, action: Any) -> Any:
        return super().step(action) if self.unwrapped.steps < 3 else {}["speed"]  # type: ignore[attr-defined]


class Causing(Passing):
    def step(self, action: Any) -> Any:
        try:
            return {}["inner"]
        except KeyError as error:
            raise RuntimeError("outer") from error


class Counting(gymnasium.Env[Any, Any]):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return np.zeros(2, np.float32), {}

    def step(self, action: Any) -> Any:
        self.steps += 1
        return np.zeros(2, np.float32), 1.0, False, False, {}


gymnasium.register("Counting-v0", entry_point=Counting)


def test_the_code_that_failed_in_a_worker_is_shown_alone(tuner: CommandLine) -> None:
    envs = [
        "env.id=tests.tuner.commands.test_tracebacks:Counting-v0",
        "env.num_envs=2",
        "collector=pool",
        "collector.processes=1",
    ]
    wrapper = "+wrapper.b={_target_: tests.tuner.commands.test_tracebacks.Breaking, _partial_: true}"
    answer = tuner("train", *SMALL, *envs, wrapper)
    assert answer.status == 1
    lines = answer.errors.splitlines()
    first = next(index for index, line in enumerate(lines) if line.startswith("The error comes from"))
    assert lines[first].startswith("The error comes from your own code, test_tracebacks.py line ")
    assert lines[-1] == "worker process 0 failed: KeyError: 'speed'"
    assert "processes.py" not in "".join(lines)


def test_a_worker_tells_what_caused_an_error() -> None:
    env = EnvFactory("tests.tuner.commands.test_tracebacks:Counting-v0", {}, (Causing,))
    agent = DQN(env=env)
    agent.set(policy=EpsGreedyQPolicy(0.1), pool_size=100, batch=8)
    with pytest.raises(
        WorkerError, match=r"(?s)failed: RuntimeError: outer.*KeyError: 'inner'.*RuntimeError: outer"
    ) as caught:
        agent.train(optimizer=adam(agent.param, 1e-3), total_steps=200, p=0, pool_network=True, processes=1)
    assert caught.value.frames[-1].name == "step"


@pytest.mark.parametrize("group", ["wrapper", "wrapper_training"])
def test_a_wrapper_that_does_not_fit_is_a_line_and_nothing_is_left(tuner: CommandLine, group: str) -> None:
    gray = f"+{group}.gray={{_target_: gymnasium.wrappers.GrayscaleObservation, _partial_: true}}"
    said = tuner.refused("train", *SMALL, gray, "hydra.run.dir=mine")
    assert (
        "the wrapper GrayscaleObservation cannot be put around the environment: GrayscaleObservation requires" in said
    )


def test_the_files_of_compiled_modules_are_nobodys() -> None:
    source = compile("def fail(): raise ValueError('x')", "lib/sqlalchemy/engine/_result_cy.py", "exec")
    names: dict[str, Any] = {}
    exec(source, names)
    with pytest.raises(ValueError, match="x") as caught:
        names["fail"]()
    # This test's own frame is the user's; the compiled one below it is not named.
    assert "your own code, test_tracebacks.py" in describe_crash(caught.value)


def test_a_module_that_cannot_be_read_is_its_authors(tuner: CommandLine) -> None:
    (tuner.folder / "my_env.py").write_text("import gymnasium\n\nclass Mine(gymnasium.Env)\n    pass\n")
    answer = tuner("train", *SMALL, "env.id=my_env:Mine-v0", "hydra.run.dir=mine")
    lines = answer.errors.strip().splitlines()
    assert lines[0] == "The error comes from your own code, my_env.py line 3:"
    assert lines[-1] == "SyntaxError: expected ':'"
    assert len(lines) <= 6


@pytest.mark.parametrize("command", [("train", "agent=function", "agent"), ("train", "agent"), ("tune", "sampler")])
def test_a_part_in_a_module_with_a_syntax_error(command: tuple[str, ...], tuner: CommandLine) -> None:
    (tuner.folder / "mistyped.py").write_text("def f(:\n")
    *before, part = command
    said = tuner.refused(*before, "tracker=jsonl", f"{part}._target_=mistyped.f")
    assert f"{tuner.folder / 'mistyped.py'}, line 1: invalid syntax: def f(:" in said


def test_a_module_that_fails_while_it_is_imported_is_shown(tuner: CommandLine) -> None:
    (tuner.folder / "failing.py").write_text("def f():\n    pass\n\n\nlimit = missing\n")
    answer = tuner("train", "agent=function", "tracker=jsonl", "agent._target_=failing.f", "hydra.run.dir=mine")
    lines = answer.errors.strip().splitlines()
    assert lines[0] == "The error comes from your own code, failing.py line 5:"
    assert lines[-1] == "NameError: name 'missing' is not defined"
    assert len(lines) <= 6
    assert not (tuner.folder / "mine").exists()


def test_what_a_module_imports_is_named_if_it_is_not_there(tuner: CommandLine) -> None:
    (tuner.folder / "importing.py").write_text("import not_there_at_all\n\n\ndef f():\n    pass\n")
    answer = tuner("train", "agent=function", "tracker=jsonl", "agent._target_=importing.f", "hydra.run.dir=mine")
    said = "agent._target_=importing.f cannot be imported: No module named 'not_there_at_all'"
    assert answer.errors.strip() == f"tuner train: {said}"
    assert not (tuner.folder / "mine").exists()


class Lacking(gymnasium.Env[Any, Any]):
    """Has no spaces."""


def test_a_wrapper_that_looks_for_what_is_not_there_is_not_at_fault() -> None:
    with pytest.raises(AttributeError) as caught:
        str(wrappers.OrderEnforcing(wrappers.TimeLimit(Lacking(), 5)).action_space)
    assert describe_crash(caught.value).startswith("The error comes from your own code, the environment Lacking:\n")


class OldGym(gymnasium.Env[Any, Any]):
    """step() as in Gym before 0.26."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> Any:
        return np.zeros(1, np.float32), 1.0, True, {}


class Spaceless(OldGym):
    """Without actions."""

    action_space = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (OldGym, "step() of OldGym-v0 (OldGym) gave a tuple of 4, as Gym did before 0.26; Gymnasium wants five:"),
        (Spaceless, "action_space of Spaceless-v0 (Spaceless) is missing: __init__ must set it"),
    ],
)
def test_what_breaks_the_rules_is_refused_before_anything_is_written(
    tuner: CommandLine, kind: type[Any], words: str
) -> None:
    gymnasium.register(f"{kind.__name__}-v0", entry_point=kind)
    try:
        said = tuner.refused(
            "train", *SMALL, f"env.id={kind.__name__}-v0", "env.max_episode_steps=9", "hydra.run.dir=x"
        )
    finally:
        gymnasium.registry.pop(f"{kind.__name__}-v0", None)
    assert words in said
