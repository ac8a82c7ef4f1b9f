"""A rank that does not lead: it takes the gradient steps that rank 0 deals out."""

from contextlib import suppress
from typing import Any

from note_rl.distributed.channel import Message
from note_rl.distributed.rank_messages import Ranks, checksum, hands_over, last_words, naming_the_lost, rows, sample_of
from note_rl.errors import PeerError
from note_rl.learners.peers import Alone
from note_rl.seeding import integer
from note_rl.types import TrainResult


def follow(agent: Any, optimizer: Any, group: Ranks) -> TrainResult:
    """Takes the gradient steps that rank 0 deals out, until it says that training is over.

    Args:
        agent: Like that of rank 0, whose parameters it is given.
        optimizer: Of its parameters, like that of rank 0.
        group: Of the ranks.

    Returns:
        What rank 0 has done.

    Raises:
        PeerError: Rank 0 has failed or died, or is silent.
    """
    line, learner = group.lines[0], agent.learner
    try:
        learner.join(group)
        return _Follower(agent, optimizer, group).follow()
    except PeerError:
        raise
    except BaseException as error:
        with suppress(PeerError):
            line.send(last_words(error))
        raise
    finally:
        learner.join(Alone())


class _Follower:
    """Does what rank 0 says, message by message."""

    def __init__(self, agent: Any, optimizer: Any, group: Ranks) -> None:
        self._agent = agent
        self._optimizer = optimizer
        self._group = group
        self._line = group.lines[0]
        self._does = {
            "prepare": self._prepare,
            "state": self._take_state,
            "layers": self._take_layers,
            "update": self._update,
        }

    def follow(self) -> TrainResult:
        """Returns what rank 0 has done when it says so."""
        while (message := self._line.receive()).head["do"] != "end":
            self._does[message.head["do"]](message)
        self._agent.obs_normaliser.set_state(message.arrays)
        return TrainResult(**message.head["result"])

    def _prepare(self, message: Message) -> None:
        told = {name: message.head[name] for name in ("max_grad_norm", "hyperparameters", "jit")}
        self._agent.learner.prepare(self._optimizer, **told)

    def _take_state(self, message: Message) -> None:
        self._agent.learner.set_state(message.arrays)
        if message.head["stages"] is not None:
            self._agent.learner.resume(tuple(message.head["stages"]))

    def _take_layers(self, message: Message) -> None:
        self._agent.learner.set_layer_numbers(message.head["numbers"])

    def _update(self, message: Message) -> None:
        head, learner = message.head, self._agent.learner
        vars(self._agent).update(head["numbers"])
        learner.expect(head["expected"])
        self._group.reseed(integer(head["seed"], "rank", self._group.rank))
        with naming_the_lost(self._group):
            update = learner.update(sample_of(message.arrays), head["hyperparameters"])
        if update.diverged:
            return
        if head["compared"] or hands_over(update):
            self._line.send({"sum": checksum(learner) if head["compared"] else None}, rows(update))
