"""Who goes on from whom, and with which values. Pure functions of scores and a seed.

Every draw is seeded by study, generation and member, so that a controller that takes over from one that was killed
decides the same again.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from note_rl.seeding import generator
from tuner.features.population.drawing import moved, sample
from tuner.features.population.evolution import Evolution
from tuner.features.population.gains import GainSeeker, TrainedPart
from tuner.results.records import Scalar
from tuner.study.space.space import Parameter, Space


@dataclass(frozen=True)
class Standing:
    """Where a member stands at the end of a generation.

    Attributes:
        drawn: Its point of the space, by Optuna's names.
        score: None: it failed, and can neither go on nor be copied.
    """

    drawn: Mapping[str, Scalar]
    score: float | None


@dataclass(frozen=True)
class Succession:
    """How a member begins its next generation.

    Attributes:
        member: Which.
        parent: The member whose state it goes on from; itself, if it was not replaced.
        drawn: Its point of the space from then on.
    """

    member: int
    parent: int
    drawn: Mapping[str, Scalar]


@dataclass(frozen=True)
class Breeding:
    """Decides how a population goes on.

    Args:
        space: What members are drawn from.
        evolving: The parameters that change from generation to generation.
        evolution: How.
        seed: Of the study.
    """

    space: Space
    evolving: Sequence[Parameter]
    evolution: Evolution
    seed: int

    def founder(self, member: int) -> dict[str, Scalar]:
        """What a member begins with."""
        rng = generator(self.seed, "population", 0, member)
        return self.space.draw(lambda name, distribution: sample(distribution, rng))

    def next(
        self, generation: int, standings: Sequence[Standing], past: Sequence[TrainedPart] = ()
    ) -> list[Succession]:
        """How all members begin a generation.

        Args:
            generation: That begins, from 1.
            standings: At the end of the one before, by member.
            past: What was trained so far, for values by what they gained.

        Raises:
            ValueError: Nobody has a score.
        """
        replaced = self._replaced(generation, standings)
        seeker = GainSeeker(self.evolving, past, generation, self.seed) if self.evolution.explore == "gp" else None
        found = []
        for member, standing in enumerate(standings):
            parent = replaced.get(member, member)
            drawn = standing.drawn if parent == member else standings[parent].drawn
            if member in replaced:
                drawn = self._changed(generation, member, drawn) if seeker is None else _with(drawn, seeker, member)
            found.append(Succession(member, parent, drawn))
        return found

    def _replaced(self, generation: int, standings: Sequence[Standing]) -> dict[int, int]:
        """Member -> whom it is replaced by a copy of."""
        scored = {member: one.score for member, one in enumerate(standings) if one.score is not None}
        if not scored:
            raise ValueError("nobody has a score")
        ranked = sorted(scored, key=lambda member: (scored[member], -member))
        replaced = {}
        for frequency in self.evolution.compared(generation):
            own = [member for member in ranked if self.evolution.frequency_of(member) == frequency]
            for member in own[: math.floor(len(own) * self.evolution.share)]:
                parent = self._parent(generation, member, ranked)
                if scored[parent] > scored[member]:
                    replaced[member] = parent
        for member in set(range(len(standings))) - scored.keys():  # which have nothing to go on from
            replaced[member] = self._parent(generation, member, ranked)
        return replaced

    def _parent(self, generation: int, member: int, ranked: Sequence[int]) -> int:
        """One of the best among those as patient as the member, or more so; of all, if these have failed."""
        frequency = self.evolution.frequency_of(member)
        patient = [other for other in ranked if self.evolution.frequency_of(other) >= frequency] or list(ranked)
        best = patient[-max(1, math.floor(len(patient) * self.evolution.share)) :]
        return best[int(generator(self.seed, "parent", generation, member).integers(len(best)))]

    def _changed(self, generation: int, member: int, drawn: Mapping[str, Scalar]) -> dict[str, Scalar]:
        rng = generator(self.seed, "population", generation, member)
        changed = dict(drawn)
        for parameter in self.evolving:
            if parameter.name in changed:
                anew = rng.random() < self.evolution.resampled
                value = sample(parameter.distribution, rng) if anew else moved(parameter, changed[parameter.name], rng)
                changed[parameter.name] = value
        return changed


def _with(drawn: Mapping[str, Scalar], seeker: GainSeeker, member: int) -> dict[str, Scalar]:
    return {**drawn, **{name: value for name, value in seeker.propose(member).items() if name in drawn}}
