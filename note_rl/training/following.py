"""A rank that does not lead, and has environments of its own: it collects and draws when rank 0 says so."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from note_rl.adaptive.hyperparameters import Override
from note_rl.adaptive.scheduled import ScheduledValues
from note_rl.collect.acting import PolicyRunner
from note_rl.learners.lines import Message
from note_rl.learners.peers import not_finite
from note_rl.policy import exploration
from note_rl.replay.experience import Clock
from note_rl.seeding import integer
from note_rl.training.feeding import Feed
from note_rl.training.shard import Shard
from note_rl.training.state import StateMaker
from note_rl.types import Sample, Update, nested, under, without

_DRAWN = "framework_random"
"""Under this name a rank's part of a checkpoint holds where the random numbers of its framework are."""


class Following:
    """What `note_rl.training.sharded.LedFeed` asks for is done here.

    Args:
        agent: Of this rank, with the settings and the environment that rank 0 has.
        group: Of the ranks.
        begin: The message by which rank 0 begins: where this rank has got to, if it has collected before.
    """

    def __init__(self, agent: Any, group: Any, begin: Message) -> None:
        self._agent = agent
        self._line = group.lines[0]
        shard = Shard(group.rank, group.size, group.lines)
        settings = shard.of_settings(agent.settings, agent.env)
        policy = exploration(settings.policy, None, per_agent=settings.multi_agent)
        self._schedules = ScheduledValues(settings.schedules, policy, agent)
        state = StateMaker(agent, agent.learner, settings, policy, Override(1), shard).first(begin.head["seed"])
        agent.obs_normaliser.set_state(under("obs_moments", begin.arrays))
        self._group = group
        if begin.head["shard"] is None:
            group.reseed(integer(begin.head["seed"], "rank", group.rank))
            if state.reward_normaliser is not None:
                state.reward_normaliser.moments.set_state(under("reward_moments", begin.arrays))
        else:
            shard_arrays = under("shard", begin.arrays)
            state.take(without(_DRAWN, shard_arrays), begin.head["shard"])
            group.set_random_state(under(_DRAWN, shard_arrays))
        act = PolicyRunner(agent.learner, agent.obs_normaliser, settings.multi_agent)
        self._feed = Feed(agent, state, act, shard)
        self._feed.begin()
        self._blocks: Iterator[Sample] = iter(())
        self._sample: Sample | None = None
        self._learned: Sample | None = None  # the last that was drawn

    def heed(self, message: Message) -> None:
        """Does what a message says.

        Raises:
            RuntimeError: This rank would do something else than rank 0 does.
        """
        head, feed = message.head, self._feed
        if head["do"] == "collect":
            vars(self._agent).update(head["numbers"])
            self._schedules.move_to(head["progress"])
            collected = feed.collect(head["remaining"])
            ends = [[share, asdict(episode)] for share, episode in collected.ends]
            self._line.send({"do": "collected", "num_env_steps": collected.num_env_steps, "ends": ends})
        elif head["do"] == "store":
            feed.store()
        elif head["do"] == "learn":
            self._blocks = feed.update_blocks(Clock(**head["clock"]))
        elif head["do"] == "draw":
            self._sample = next(self._blocks, None)
        elif head["do"] == "end_iteration":
            if self._sample is not None:
                raise RuntimeError("rank 0 draws fewer minibatches than this rank: do all ranks run the same versions?")
            feed.end_iteration()
        elif head["do"] == "examine":
            assert self._learned is not None
            self._line.send({"do": "examined", "not_finite": not_finite(self._learned)})
        else:
            assert head["do"] == "tell"
            arrays = {
                **feed.state.to_arrays(head["with_experience"]),
                **nested(_DRAWN, self._group.random_state()),
            }
            self._line.send({"do": "told", "head": feed.state.to_json()}, arrays)

    def drawn(self) -> Sample:
        """The minibatches of this rank.

        Raises:
            RuntimeError: It has none.
        """
        sample, self._sample, self._learned = self._sample, None, self._sample
        if sample is None:
            raise RuntimeError("rank 0 draws more minibatches than this rank: do all ranks run the same versions?")
        return sample

    def feedback(self, sample: Sample, update: Update) -> None:
        """What became of them."""
        self._feed.feedback(sample, update)

    def close(self) -> None:
        """Closes the environments that were made here, whatever has happened."""
        self._feed.state.close()
