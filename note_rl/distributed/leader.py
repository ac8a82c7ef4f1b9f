"""Training over several processes: rank 0 trains as it does alone, and the others take its gradient steps with it.

Rank 0 collects, samples, evaluates, logs and saves. Of each minibatch it deals every rank its share; ranks average what
they find, and so all take the same step. What rank 0 decides, it decides alone.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from note_rl.collect.agent_recipe import plain_attributes
from note_rl.distributed.manual_changes import ByHand
from note_rl.distributed.minibatch_shares import say_if_slower, share_of
from note_rl.distributed.rank_messages import (
    Ranks,
    arrays_of,
    checksum,
    hands_over,
    last_words,
    naming_the_lost,
    together,
)
from note_rl.errors import PeerError
from note_rl.learners.adjustable import numbered
from note_rl.learners.base import Learner, Staged, parameter_groups
from note_rl.seeding import integer
from note_rl.types import Array, Sample, TrainResult, Update

_COMPARED_OFTEN = 100  # update blocks; later at every thousandth


class Leader:
    """Takes the gradient steps of rank 0 together with all others; see `TakesSteps`.

    Args:
        agent: Of rank 0.
        group: Of the ranks.
    """

    def __init__(self, agent: Any, group: Ranks) -> None:
        self._agent = agent
        self._group = group
        self._told_state = False
        self._expected = 0.0
        self._num_blocks = 0
        self._numbers: dict[str, Any] = {}  # of the agent, as the others know them
        self._of_optimizers: dict[str, float] = {}  # the same of its optimizers
        self._by_hand: ByHand | None = None

    @property
    def _learner(self) -> Learner:
        learner: Learner = self._agent.learner
        return learner

    def prepare(self, optimizer: Any, max_grad_norm: float | None, hyperparameters: Sequence[str], jit: Any) -> None:
        """Has all learners made ready; see `Learner.prepare`."""
        self._learner.join(self._group)
        told = {"max_grad_norm": max_grad_norm, "hyperparameters": list(hyperparameters), "jit": jit}
        self._tell({"do": "prepare", **told})  # first: what is made in all of them is made together
        self._learner.prepare(optimizer, max_grad_norm, hyperparameters, jit)
        self._by_hand = self._by_hand or ByHand(self._agent)
        self._of_optimizers = self._of_optimizers or _numbers_of(self._learner)

    def expect(self, num_gradient_steps: float) -> None:
        """See `Learner.expect`."""
        self._expected = num_gradient_steps
        self._learner.expect(num_gradient_steps)

    def update(self, sample: Sample, hyperparameters: Mapping[str, float]) -> Update:
        """Takes one gradient step per minibatch, each rank along its share.

        Returns:
            What one process would have found: losses are means, and TD errors those of all rows.

        Raises:
            SettingsError: Minibatches cannot be dealt out evenly.
            PeerError: A rank is lost, or holds other parameters.
        """
        compared = self._compares()
        mine, *theirs = (share_of(sample, rank, self._group.size) for rank in range(self._group.size))
        self._tell_state()
        self._tell_changes()
        if self._num_blocks == 0:
            size = self._group.size
            say_if_slower(parameter_groups(self._agent.param), mine.reward.shape[1] * size, size)
        head = {
            "do": "update",
            "hyperparameters": {**self._changed_numbers(hyperparameters), **hyperparameters},
            "numbers": self._news(),
            "expected": self._expected,
            "compared": compared,
            "seed": integer(self._agent._trainer.state.seed, "ranks", self._agent.num_gradient_steps),
        }
        for line, share in zip(self._group.lines, theirs, strict=True):
            line.send(head, arrays_of(share))
        self._num_blocks += 1
        with naming_the_lost(self._group):
            update = self._learner.update(mine, hyperparameters)
        assert self._by_hand is not None
        self._by_hand.note()
        if update.diverged or not (compared or hands_over(update)):
            return update
        answers = [line.receive() for line in self._group.lines]
        if compared:
            self._compare([answer.head["sum"] for answer in answers])
        return together(update, [answer.arrays for answer in answers]) if hands_over(update) else update

    def changed_by_hand(self) -> None:
        """Has the others learn of what was set before the next gradient step; see `TakesSteps`."""
        self._learner.changed_by_hand()
        assert self._by_hand is not None
        self._by_hand.suspect()

    def _tell_changes(self) -> None:
        """Has all ranks go on with what callbacks have set here, if they have."""
        assert self._by_hand is not None
        state, numbers = self._by_hand.found()
        if state is not None:
            self._tell({"do": "state", "stages": None}, state)
        if numbers:
            self._tell({"do": "layers", "numbers": numbers})

    def _news(self) -> dict[str, Any]:
        """The numbers of the agent that the others do not know yet."""
        numbers, known = plain_attributes(self._agent), self._numbers
        self._numbers = numbers
        return {name: value for name, value in numbers.items() if name not in known or known[name] != value}

    def end(self, result: TrainResult) -> None:
        """Tells all that training is over."""
        self._tell({"do": "end", "result": asdict(result)}, self._agent.obs_normaliser.get_state())

    def give_up(self, error: BaseException) -> None:
        """Tells all who are still there why it ends."""
        for line in self._group.lines:
            with suppress(PeerError):
                line.send(last_words(error))

    def _changed_numbers(self, told: Mapping[str, float]) -> dict[str, float]:
        """Returns what callbacks have made of the numbers of optimizers, but for those that are set for this update."""
        numbers = _numbers_of(self._learner).items()
        changed = {name: value for name, value in numbers if self._of_optimizers.get(name) != value}
        return {name: value for name, value in changed.items() if not {name, name.partition(":")[0]} & set(told)}

    def _compares(self) -> bool:
        """Whether parameters of ranks are compared after the coming update block."""
        count = self._num_blocks
        return count in (0, _COMPARED_OFTEN) or count % (10 * _COMPARED_OFTEN) == 0

    def _compare(self, sums: Sequence[int]) -> None:
        """Refuses to go on with ranks that hold other parameters."""
        mine = checksum(self._learner)
        for line, others in zip(self._group.lines, sums, strict=True):
            if others != mine:
                raise PeerError(
                    f"{line.name} holds other parameters than rank 0: something changes them beside gradient steps, "
                    "or the ranks do not run the same versions"
                )

    def _tell_state(self) -> None:
        """Has all ranks begin with the parameters and slots of this one; once is enough."""
        if self._told_state:
            return
        self._told_state = True
        stages = list(self._learner.stages) if isinstance(self._learner, Staged) else None
        self._tell({"do": "state", "stages": stages}, self._learner.get_state())

    def _tell(self, head: Mapping[str, Any], arrays: Mapping[str, Array] | None = None) -> None:
        for line in self._group.lines:
            line.send(head, arrays)


def _numbers_of(learner: Learner) -> dict[str, float]:
    """Returns the numbers of optimizers as they are named among the hyperparameters of an update."""
    several = enumerate(learner.optimizer_numbers())
    return {numbered(name, index): value for index, one in several for name, value in one.values.items()}
