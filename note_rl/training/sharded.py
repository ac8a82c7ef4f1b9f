"""Rank 0 where each rank has environments of its own: what it does itself, it has all others do with theirs.

Others are told of each step of an iteration, and answer what rank 0 has to know: which episodes have ended, and where a
rank stands when a checkpoint is written. All decisions are those of rank 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from note_rl.collect.acting import PolicyRunner
from note_rl.learners.base import Learner
from note_rl.learners.lines import Message
from note_rl.learners.peers import not_finite
from note_rl.replay.experience import Clock
from note_rl.training.distributing import Leader, Ranks
from note_rl.training.feeding import Feed, Round
from note_rl.training.saving import Snapshot
from note_rl.training.shard import Shard
from note_rl.training.state import TrainingState
from note_rl.training.trainer import Trainer
from note_rl.types import Array, Episode, Sample, Update, nested


class ShardLeader(Leader):
    """Takes gradient steps along what each rank has drawn for itself; see `Leader`.

    Attributes:
        in_step: Whether all ranks wait for what rank 0 says next: nothing has failed on the way.
    """

    def __init__(self, agent: Any, group: Ranks) -> None:
        super().__init__(agent, group)
        self.in_step = True

    def feed(self, trainer: Trainer) -> Feed:
        """What the trainer of rank 0 is fed by: the environments of all ranks."""
        return trainer.fed_by(partial(LedFeed, leader=self))

    @contextmanager
    def together(self, do: str | None = None, **head: Any) -> Iterator[None]:
        """Has the others do something that is done here within."""
        self.in_step = False
        if do is not None:
            self._tell({"do": do, **head})
        yield
        self.in_step = True

    def deal(self, head: Mapping[str, Any], each: Sequence[tuple[Mapping[str, Any], Mapping[str, Array]]]) -> None:
        """Tells each of the others something else."""
        for line, (own, arrays) in zip(self._group.lines, each, strict=True):
            line.send({**head, **own}, arrays)

    def answers(self) -> list[Message]:
        """What the others answer, in their order."""
        return [line.receive() for line in self._group.lines]

    def update(self, sample: Sample, hyperparameters: Mapping[str, float]) -> Update:
        """Takes one gradient step per minibatch; losses are means over all ranks, TD errors those of rank 0."""
        with self.together():
            update = super().update(sample, hyperparameters)
        return replace(update, cause=self._cause(sample)) if update.diverged else update

    def _cause(self, sample: Sample) -> str:
        """Which ranks have drawn what is not finite; nothing, where none has."""
        with self.together("examine"):
            drawn = [not_finite(sample), *(answer.head["not_finite"] for answer in self.answers())]
        return "; ".join(
            f"rank {rank} has drawn {' and '.join(names)} that hold nan or infinity"
            for rank, names in enumerate(drawn)
            if names
        )

    def _dealt(self, sample: Sample) -> tuple[Sample, list[dict[str, Array]]]:
        return sample, [{} for _ in self._group.lines]

    def _wants_rows(self, update: Update) -> bool:
        return False  # each rank has the priorities of its own pool


class LedFeed(Feed):
    """Collects in the environments of all ranks, and draws from what they gave; see `Feed`.

    Args:
        agent: Of rank 0.
        state: Of rank 0.
        act: Answers observations.
        shard: That of rank 0.
        leader: Tells the others.
    """

    def __init__(
        self, agent: Any, state: TrainingState, act: PolicyRunner[Learner], shard: Shard, leader: ShardLeader
    ) -> None:
        super().__init__(agent, state, act, shard)
        self._leader = leader
        self._begun = False

    def begin(self) -> None:
        """All ranks go on where they were, or begin anew where they were nowhere; see `Feed.begin`."""
        state, leader = self.state, self._leader
        arrays = nested("obs_moments", self._agent.obs_normaliser.get_state())
        if state.reward_normaliser is not None:
            arrays.update(nested("reward_moments", state.reward_normaliser.moments.get_state()))
        each: list[tuple[dict[str, Any], dict[str, Array]]] = [
            ({"shard": one.head}, {**arrays, **nested("shard", one.arrays)}) for one in state.shards or ()
        ]
        each = each or [({"shard": None}, arrays)] * (self._shard.size - 1)
        with leader.together():
            leader.tell_state()
            leader.deal({"do": "begin", "seed": state.seed}, each)
            super().begin()
        self._begun = True

    def end(self, goes_on: bool) -> None:
        """Keeps what all ranks have, for the next run; what cannot be told any more is lost. See `Feed.end`."""
        super().end(goes_on)
        try:
            if goes_on and self._leader.in_step:
                self.note_shards(True)
            else:
                self.state.shards = None
        finally:
            self._begun = False

    def note_shards(self, with_experience: bool) -> None:
        """Has the state know where all other ranks are by now."""
        if self._begun:
            self.state.shards = None
            with self._leader.together("tell", with_experience=with_experience):
                told = self._leader.answers()
            self.state.shards = [Snapshot(one.arrays, one.head["head"]) for one in told]

    def collect(self, remaining: int | None) -> Round:
        """Collects a round on all ranks at once; see `Feed.collect`."""
        with self._leader.together():
            self._leader.tell_changes()
        head = {"progress": self.state.clock.progress, "numbers": self._leader.news(), "remaining": remaining}
        with self._leader.together("collect", **head):
            mine = super().collect(remaining)
            answers = self._leader.answers()
        total, ends = mine.num_env_steps, list(mine.ends)
        for rank, answer in enumerate(answers, 1):
            total += answer.head["num_env_steps"]
            before = rank * self.state.collector.num_envs
            for share, told in answer.head["ends"]:
                episode = Episode(**told)
                ends.append((share, replace(episode, env_index=before + episode.env_index)))
        return Round(total, sorted(ends, key=lambda end: end[0]))

    def store(self) -> None:
        """Adds to what is drawn from, on all ranks; see `Feed.store`."""
        with self._leader.together("store"):
            super().store()

    def update_blocks(self, clock: Clock) -> Iterator[Sample]:
        """The minibatches of rank 0; the others draw theirs at the same time. See `Feed.update_blocks`."""
        with self._leader.together("learn", clock=asdict(clock)):
            blocks = super().update_blocks(clock)
        while True:
            with self._leader.together("draw"):
                sample = next(blocks, None)
            if sample is None:
                return
            yield sample

    def end_iteration(self) -> None:
        """Ends it on all ranks; see `Feed.end_iteration`."""
        with self._leader.together("end_iteration"):
            super().end_iteration()
