"""OptFinder: which optimizer an agent at hand should be trained with."""

from collections.abc import Mapping, Sequence
from typing import Any

from note_rl.optimizers.optimizer_recipe import recipe_of
from note_rl.optimizers.rates import Rates
from tuner.errors import UserError
from tuner.finders.comparison.candidates import CandidateBudget, Metric
from tuner.finders.comparison.comparison_study import (
    ComparisonPlots,
    ComparisonResult,
    ComparisonSettings,
    best_log,
    distinct,
    run_comparison,
)
from tuner.finders.comparison.rate_trials import RateCandidate, run_at_best_rates
from tuner.finders.comparison.verdicts import Comparison
from tuner.finders.find_arguments import check_call, shared_by, train_options_of
from tuner.finders.finder_study import FinderPlace
from tuner.finders.subjects import LiveSubject, live_subject
from tuner.support.names import did_you_mean

_METRICS: Mapping[str, Metric] = {"reward": "reward", "loss": "frozen_loss"}


class OptFinder(ComparisonPlots):
    """Compares optimizers on an agent, in processes of their own; the agent is as it was afterwards.

        finder = OptFinder(agent, [Adam(...), AdamW(...), Adamax(...)])
        finder.find(episodes=7)
        finder.comparison.sentences

    Each begins with the same parameters, the same seeds and as much experience, and with nothing learned about the
    gradients.

    Args:
        agent: Settings were given by set().
        optimizers: Of the agent's framework: a list, or by name; each an optimizer, a list with one per group of
            parameters, or a function that makes one from `agent.param`.
        workplace: Where the runs take place; None: studies.db and studies/ in the working directory.

    Attributes:
        optimizers: The candidates by name.
        logs: best_reward or best_loss, and best_opt, as the manuals have them.
    """

    def __init__(
        self, agent: Any, optimizers: Sequence[Any] | Mapping[str, Any], workplace: FinderPlace | None = None
    ) -> None:
        self.agent = agent
        self.optimizers = named_optimizers(optimizers, agent.param)
        self.workplace = workplace or FinderPlace()
        self.logs: dict[str, Any] = {}

    def find(
        self,
        train_loss: Any = None,
        pool_network: bool = True,
        *,
        episodes: int | None = None,
        total_steps: int | None = None,
        strategy: Any = None,
        metrics: str = "reward",
        **options: Any,
    ) -> ComparisonResult:
        """Trains with each optimizer and each seed. The same call goes on where a former one was stopped.

        Args:
            train_loss: As in train(); losses are recorded in any case.
            pool_network: As in train().
            episodes: How long each trains, for metrics="reward".
            total_steps: The same in environment steps; one of the two.
            strategy: Of each training with metrics="reward": "ddp" for agents in PyTorch, "mirrored" or a
                `tf.distribute.MirroredStrategy` for those in Keras, or a `Distributed` of note_rl.settings.
            metrics: reward: mean return of the episodes, over environment steps where total_steps is given; loss: mean
                loss on fixed minibatches while each takes `num_gradient_steps` on frozen data.
            **options: num_seeds (3), seed (0), num_gradient_steps (200); num_rates (0): number of learning rates from a
                tenth of its own to ten times it are tried for each before, with a further seed, and the best is taken
                (0: its own); and processes, processes_her, processes_pr, jit_compile of train().

        Raises:
            SettingsError: The agent or an optimizer cannot be made again in another process.
            UserError: A value out of range, or no run came to a good end.
        """
        check_call("OptFinder", strategy, train_loss, [self.agent])
        train = train_options_of(
            options, pool_network, ("num_seeds", "seed", "num_gradient_steps", "num_rates")
        ) | shared_by(strategy)
        if metrics not in _METRICS:
            raise UserError(f"metrics={metrics!r} must be reward or loss{did_you_mean(metrics, _METRICS)}")
        if metrics == "reward" and episodes is None and total_steps is None:
            raise UserError("metrics='reward' trains with each: say for how long, with episodes=... or total_steps=")
        budget = CandidateBudget(episodes, total_steps, options.pop("num_gradient_steps", 200))
        num_rates = options.pop("num_rates", 0)
        settings = ComparisonSettings(budget, _METRICS[metrics], options=train, **options)
        subjects = {name: live_subject(self.agent, one, "OptFinder") for name, one in self.optimizers.items()}
        name = type(self.agent).__name__
        if num_rates == 0:
            self.result = run_comparison("optimizer", name, subjects, settings, self.workplace)
        else:
            candidates = {title: RateCandidate(self._own_rate(one), one.at_rate) for title, one in subjects.items()}
            self.result = run_at_best_rates("optimizer", name, candidates, num_rates, settings, self.workplace)
        self.logs = best_log(self.result.comparison, self.optimizers)
        return self.result

    def _own_rate(self, subject: LiveSubject) -> float:
        return Rates([recipe.make(self.agent.param) for recipe in subject.optimizers]).now

    @property
    def comparison(self) -> Comparison:
        """Standings, ties, failures and the verdict in words."""
        return self._found.comparison


def named_optimizers(optimizers: Sequence[Any] | Mapping[str, Any], param: Any) -> dict[str, Any]:
    """The optimizers by name: their own, numbered where several share it."""
    if isinstance(optimizers, Mapping):
        return dict(optimizers)
    names = [_name(one, param) for one in optimizers]
    return dict(zip(distinct(names), optimizers, strict=True))


def _name(optimizer: Any, param: Any) -> str:
    several = optimizer if isinstance(optimizer, list | tuple) else [optimizer]
    return "+".join(dict.fromkeys(recipe_of(one, param).name for one in several))
