"""The greedy path from the default configuration to the winner, apart from how it is measured."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from tuner.features.ablation.blocks import Between, Changed
from tuner.features.ablation.effects import difference
from tuner.features.ablation.facts import Ablation, AblationStep, LeftOut
from tuner.features.ablation.seeds import ablation_seeds
from tuner.features.ablation.settings import AblationSettings
from tuner.results.selection import MIN_RACE_SEEDS, is_clearly_worse

Scores = Mapping[int, float]
"""By seed."""

Measure = Callable[[Sequence[Changed], Sequence[int], int], Mapping[Changed, Scores]]
"""Runs configurations on seeds and gives their scores there. Also gets how many runs there are to come, at most."""

NONE_CHANGED: Changed = frozenset()


@dataclass(frozen=True)
class AblationPath:
    """Finds the path by races, and measures it on other seeds (Fawcett & Hoos 2016, section 3).

    Attributes:
        between: The possible changes.
        settings: On how many seeds.
        study_seed: Of the study.
        measure: Has runs done.
        is_possible: Whether there can be runs with these changes; such that cannot are passed over.
        on_step: Called with each step that is found: what has been changed before it, and with it.
    """

    between: Between
    settings: AblationSettings
    study_seed: int
    measure: Measure
    is_possible: Callable[[Changed], bool] = lambda changed: True
    on_step: Callable[[Changed, Changed], None] = lambda before, after: None

    def walk(self) -> Ablation:
        """Measures both ends; if there is a gain between them, finds the path that it came by, and what is idle."""
        goal = self.between.all
        ends = self._measured([NONE_CHANGED, goal], self._to_come(len(goal)) + self._ends)
        gained = difference(ends[goal], ends[NONE_CHANGED]).is_above_zero
        path = self._path() if gained else [NONE_CHANGED, goal]
        scores = self._measured(path)
        return Ablation(
            winner=self.between.label,
            seeds=self._seeds,
            default=scores[NONE_CHANGED],
            steps=tuple(
                AblationStep(
                    tuple(change for index in sorted(after - before) for change in self.between.blocks[index].changes),
                    scores[after],
                )
                for before, after in pairwise(path)
            ),
            left_out=self._left_out(path, scores) if gained else (),
            skipped=self.between.skipped,
        )

    def _path(self) -> list[Changed]:
        """The set of changes after each step: empty at first, complete in the end."""
        here, goal = NONE_CHANGED, self.between.all
        path = [here]
        while here != goal:
            after = goal if self._is_reached(here) else self._next(here)
            self.on_step(here, after)
            here = after
            path.append(here)
        return path

    def _is_reached(self, here: Changed) -> bool:
        """Whether the race's seeds see next to all of the gain already."""
        until, goal = self.settings.until, self.between.all
        if until is None or here == NONE_CHANGED or len(goal - here) < 2:
            return False
        found = self.measure([NONE_CHANGED, here, goal], self._race_seeds, self._to_come(len(goal - here)))
        start, now, end = (fmean(found[one].values()) for one in (NONE_CHANGED, here, goal))
        return end > start and now >= start + until * (end - start)

    def _next(self, here: Changed) -> Changed:
        """The best configuration with one change more; all at once where none of these can be run."""
        rivals = [here | {index} for index in sorted(self.between.all - here)]
        rivals = [rival for rival in rivals if rival == self.between.all or self.is_possible(rival)]
        if not rivals:
            return self.between.all
        for num_seeds in range(MIN_RACE_SEEDS, len(self._race_seeds) + 1):
            if len(rivals) == 1:
                break
            further = len(rivals) * (len(self._race_seeds) - num_seeds) + (0 if here else self._ends)
            to_come = further + self._to_come(len(self.between.all - here) - 1)
            found = self.measure(rivals, self._race_seeds[:num_seeds], to_come)
            rivals.sort(key=lambda rival: -fmean(found[rival].values()))  # keeps the order of equals
            leader = found[rivals[0]]
            rivals = [rival for rival in rivals if not is_clearly_worse(found[rival], leader)]
        return rivals[0]

    def _left_out(self, path: Sequence[Changed], scores: Mapping[Changed, Sequence[float]]) -> tuple[LeftOut, ...]:
        """The winner without the steps that brought nothing.

        Where it is worse so, without each of them, and then without those that it is no worse without.
        """
        goal = self.between.all
        steps = [after - before for before, after in pairwise(path)]
        idle = [
            index
            for index in range(len(steps))
            if not difference(scores[path[index + 1]], scores[path[index]]).is_above_zero
        ]
        if not idle:
            return ()
        together = self._without(idle, steps)
        if len(idle) == 1 or not together or not difference(together[0].scores, scores[goal]).is_below_zero:
            return together
        single = [left for index in idle for left in self._without([index], steps)]
        needed = {left.steps[0] for left in single if difference(left.scores, scores[goal]).is_below_zero}
        rest = [index for index in idle if index not in needed]
        return (*together, *single, *(self._without(rest, steps) if needed and len(rest) > 1 else ()))

    def _without(self, left: Sequence[int], steps: Sequence[Changed]) -> tuple[LeftOut, ...]:
        """The winner without these steps; nothing where that cannot be run."""
        rest = self.between.all.difference(*(steps[index] for index in left))
        if rest and not self.is_possible(rest):
            return ()
        return (LeftOut(tuple(left), self._measured([rest])[rest]),)

    def _measured(self, configurations: Sequence[Changed], to_come: int = 0) -> dict[Changed, tuple[float, ...]]:
        """Scores in the order of the seeds."""
        found = self.measure(configurations, self._seeds, to_come)
        return {one: tuple(found[one][seed] for seed in self._seeds) for one in configurations}

    def _to_come(self, num_left: int) -> int:
        """Runs of races with a number of rivals and ever fewer, and of the path itself, at most."""
        raced = max(0, num_left * (num_left + 1) // 2 - 1)
        return raced * len(self._race_seeds) + (len(self.between.blocks) - 1) * len(self._seeds)

    @property
    def _ends(self) -> int:
        """Runs of both ends on the race's seeds, to see how much of the gain is reached."""
        return 2 * len(self._race_seeds) if self.settings.looks_ahead(len(self.between.blocks)) else 0

    @property
    def _seeds(self) -> tuple[int, ...]:
        return ablation_seeds(self.study_seed, self.settings.num_seeds)

    @property
    def _race_seeds(self) -> tuple[int, ...]:
        return ablation_seeds(self.study_seed, self.settings.num_race_seeds, race=True)
