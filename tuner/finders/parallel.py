"""ParallelFinder: which of several agents, each with its own optimizer, does best."""

from collections.abc import Mapping, Sequence
from typing import Any

from note_rl.errors import SettingsError
from tuner.errors import UserError
from tuner.finders.comparison.candidates import CandidateBudget
from tuner.finders.comparison.comparison_study import (
    ComparisonPlots,
    ComparisonResult,
    ComparisonSettings,
    best_log,
    distinct,
    run_comparison,
)
from tuner.finders.comparison.verdicts import Comparison
from tuner.finders.find_arguments import check_call, shared_by, train_options_of
from tuner.finders.finder_study import FinderPlace
from tuner.finders.subjects import live_subject
from tuner.results.number_format import join_words
from tuner.support.names import did_you_mean

_OF_THE_LOSS = ("gamma", "clip", "clip_value", "entropy_coef", "value_coef", "reward_scale", "alpha", "temperature")
"""Plain attributes that scale a loss wherever an agent has them."""


class ParallelFinder(ComparisonPlots):
    """Trains agents side by side, in processes of their own; the agents are as they were afterwards.

        finder = ParallelFinder([agent1, agent2], [optimizer1, optimizer2])
        finder.find(episodes=10, metrics="reward")
        finder.logs["best_reward"], finder.logs["best_opt"]

    Args:
        agents: Settings were given by set(): a list, or by name.
        optimizers: One for each agent, in the same order: an optimizer, a list with one per group of its parameters, or
            a function that makes one from `agent.param`.
        workplace: Where the runs take place; None: studies.db and studies/ in the working directory.

    Attributes:
        agents: By name.
        rewards: Return of each episode with the first seed, by name.
        losses: Loss known at the end of each episode, the same.
        logs: best_reward or best_loss, and best_opt, as the manuals have them; further best_agent, its name, and
            best_time, its seconds of training.
    """

    def __init__(
        self,
        agents: Sequence[Any] | Mapping[str, Any],
        optimizers: Sequence[Any],
        workplace: FinderPlace | None = None,
    ) -> None:
        listed = list(agents.values()) if isinstance(agents, Mapping) else list(agents)
        if len(listed) != len(optimizers):
            raise SettingsError(f"{len(listed)} agents and {len(optimizers)} optimizers: give one optimizer per agent")
        names = list(agents) if isinstance(agents, Mapping) else distinct([type(one).__name__ for one in listed])
        self.agents: dict[str, Any] = dict(zip(names, listed, strict=True))
        self.optimizers = dict(zip(names, optimizers, strict=True))
        self.workplace = workplace or FinderPlace()
        self.rewards: dict[str, list[float]] = {}
        self.losses: dict[str, list[float]] = {}
        self.logs: dict[str, Any] = {"best_reward": -1e9, "best_loss": 1e9}

    def find(
        self,
        train_loss: Any = None,
        pool_network: bool = True,
        processes: int | None = None,
        processes_her: int | None = None,
        processes_pr: int | None = None,
        strategy: Any = None,
        episodes: int | None = None,
        metrics: str = "reward",
        jit_compile: bool | str = "auto",
        *,
        total_steps: int | None = None,
        num_seeds: int = 3,
        seed: int = 0,
    ) -> ComparisonResult:
        """Trains each agent with each seed. The same call goes on where a former one was stopped.

        Args:
            train_loss: As in train(); losses are recorded in any case.
            pool_network: As in train().
            processes: As in train().
            processes_her: As in train().
            processes_pr: As in train().
            strategy: Of each training: "ddp" for agents in PyTorch, "mirrored" or a `tf.distribute.MirroredStrategy`
                for those in Keras, or a `Distributed` of note_rl.settings.
            episodes: How long each trains; one episode, if nothing is said.
            metrics: reward: mean return; loss: mean loss over training, for agents of the same loss only.
            jit_compile: As in train().
            total_steps: How long each trains in environment steps, which is the fairer measure.
            num_seeds: Each agent trains with this many seeds.
            seed: The first of them.

        Raises:
            SettingsError: An agent or optimizer cannot be made again in another process.
            UserError: A value out of range, losses that cannot be compared, or no run came to a good end.
        """
        check_call("ParallelFinder", strategy, train_loss, list(self.agents.values()))
        given = {"processes": processes, "processes_her": processes_her, "processes_pr": processes_pr}
        train = train_options_of({**given, "jit_compile": jit_compile}, pool_network, ()) | shared_by(strategy)
        if metrics not in ("reward", "loss"):
            raise UserError(f"metrics={metrics!r} must be reward or loss{did_you_mean(metrics, ('reward', 'loss'))}")
        if metrics == "loss":
            check_same_loss(self.agents)
        length = CandidateBudget(1 if episodes is None and total_steps is None else episodes, total_steps)
        settings = ComparisonSettings(length, "loss" if metrics == "loss" else "reward", num_seeds, seed, train)
        subjects = {
            name: live_subject(agent, self.optimizers[name], "ParallelFinder") for name, agent in self.agents.items()
        }
        title = "-".join(dict.fromkeys(type(agent).__name__ for agent in self.agents.values()))
        self.result = run_comparison("agent", title, subjects, settings, self.workplace)
        self._keep(self.result)
        return self.result

    @property
    def comparison(self) -> Comparison:
        """Standings, ties, failures and the verdict in words."""
        return self._found.comparison

    def _keep(self, result: ComparisonResult) -> None:
        self.rewards = {name: curves[0] for name, curves in result.curves("rewards").items()}
        self.losses = {name: curves[0] for name, curves in result.curves("losses").items()}
        self.logs = best_log(result.comparison, self.optimizers)
        best = result.comparison.best
        if best is not None:
            own = [one for one in result.findings if one.point["candidate"] == best.name]
            self.logs |= {"best_agent": best.name, "best_time": sum(one.data["seconds"] for one in own) / len(own)}


def check_same_loss(agents: Mapping[str, Any]) -> None:
    """Refuses to compare losses that are not of the same kind: their numbers mean different things.

    Raises:
        UserError: Names the agents, and what differs.
    """
    groups: dict[object, list[str]] = {}
    for name, agent in agents.items():
        groups.setdefault(type(agent).__call__, []).append(name)
    if len(groups) > 1:
        listed = " against ".join(join_words(names) for names in groups.values())
        raise UserError(
            f"metrics='loss' compares losses of the same definition only, and these are different ones: {listed}; use "
            "metrics='reward'"
        )
    for attribute in _OF_THE_LOSS:
        values = {name: getattr(agent, attribute, None) for name, agent in agents.items()}
        if len(set(values.values())) > 1:
            listed = ", ".join(f"{name} has {value}" for name, value in values.items())
            raise UserError(
                f"metrics='loss' compares losses of the same definition only, and {attribute} differs: {listed}; use "
                "metrics='reward'"
            )
