"""Runs without a controller: what they report, and what they leave."""

import json
import math
from collections.abc import Mapping
from pathlib import Path

from tests.tuner.command_line import SMALL, SMALL_AGENTS
from tuner.commands.preflight import preflight
from tuner.config.composition import RunConfig, to_json
from tuner.trial.messages import JsonDict, Outcome, TrialInterrupted

CASES = [(agent, backend) for backend in ("torch", "keras") for agent in ("dqn", "ppo")]
POOL = ("collector=pool", "env.num_envs=2")


class Reporter:
    """Keeps what a run tells; ends it at a step if asked to."""

    def __init__(self, stop_at: float = math.inf, outcome: Outcome = Outcome.STOPPED) -> None:
        self.reported: list[tuple[float, float]] = []
        self.used: list[JsonDict] = []
        self.logged: list[tuple[int, dict[str, float]]] = []
        self.progress: list[float] = []
        self.stop_at = stop_at
        self.outcome = outcome

    def built(self, config: JsonDict) -> None:
        self.used.append(config)

    def report(self, step: float, value: float, seconds: float | None = None) -> None:
        if step not in dict(self.reported):
            self.reported.append((step, value))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.logged.append((step, dict(metrics)))

    def note(self, text: str) -> None:
        """Nothing to keep."""

    def ends(self, reason: str, used: float) -> None:
        """Nothing to keep."""

    def alive(self, progress: float) -> None:
        self.progress.append(progress)
        if progress >= self.stop_at:
            raise TrialInterrupted(self.outcome, "enough")

    def check(self) -> None:
        """Nobody asks for anything between two calls."""


def run_config(*overrides: str, agent: str = "dqn", backend: str = "torch") -> RunConfig:
    arguments = [*SMALL, *SMALL_AGENTS[agent], f"backend={backend}", *overrides]
    if backend == "keras":  # compiling takes longer than such a run
        arguments.append("training.jit_compile=false")
    return RunConfig.from_json(to_json(preflight("train", arguments)))


def overrides(agent: str, backend: str) -> tuple[str, ...]:
    plain = ["training.jit_compile=false"] if (agent, backend) == ("ppo", "keras") else []  # DQN as users have it
    return (*SMALL, *SMALL_AGENTS[agent], f"backend={backend}", *plain, "hydra.run.dir=mine")


def evaluations(folder: Path) -> list[tuple[float, float]]:
    result = json.loads((folder / "result.json").read_text())
    return [(point["fraction"], point["mean_return"]) for point in result["evaluations"]]
