"""Ranks of a group as threads of this process: what they exchange is real, how it travels is not."""

import copy
import socket
import threading
from contextlib import suppress

import torch

from note_rl.distributed.channel import Line
from note_rl.distributed.follower import follow
from note_rl.errors import PeerError


class Together:
    """The ranks of one group; see `note_rl.distributed.leader.Ranks`."""

    def __init__(self, rank, size, table, lines):
        self.rank, self.size = rank, size
        self.lines = lines
        self.num_exchanges = 0
        self.seeds = []
        self._table = table

    def mean(self, tensors):
        self.num_exchanges += 1
        barrier, given = self._table
        given[self.rank] = [tensor.clone() for tensor in tensors]
        try:
            barrier.wait(20)
            means = [torch.stack(list(several)).mean(0) for several in zip(*given, strict=True)]
        except threading.BrokenBarrierError:
            for line in self.lines:
                if line.is_lost(1.0):
                    line.check()
            raise PeerError("an exchange between ranks has failed") from None
        with suppress(threading.BrokenBarrierError):  # all have given; a quicker rank may be at its end
            barrier.wait(20)
        return means

    def reseed(self, seed):
        """Threads share their random numbers: the seeds that they are given are noted."""
        self.seeds.append(seed)


def trained_together(agents, optimizers, budget, errors, **options):
    """Trains agents that are alike, the first of which leads: (result, groups); what others raise goes to `errors`."""
    size = len(agents)
    table = threading.Barrier(size), [None] * size
    pairs = [socket.socketpair() for _ in agents[1:]]
    leading = Together(0, size, table, [Line(ours, f"rank {rank}") for rank, (ours, _) in enumerate(pairs, 1)])
    groups = [leading, *(Together(rank, size, table, [Line(pair[1], "rank 0")]) for rank, pair in enumerate(pairs, 1))]

    def along(agent, optimizer, group):
        try:
            follow(agent, optimizer, group)
        except Exception as error:  # noqa: BLE001 (whatever it is, the test looks at it)
            table[0].abort()
            errors.append(error)

    threads = [
        threading.Thread(target=along, args=one) for one in zip(agents[1:], optimizers[1:], groups[1:], strict=True)
    ]
    for thread in threads:
        thread.start()
    try:
        result = agents[0]._train_as_one_of(leading, optimizers[0], budget, {"p": 0, **options})
    finally:
        table[0].abort()
        for thread in threads:
            thread.join(20)
        for group in groups:
            for line in group.lines:
                line.close()
    return result, groups


def alike(agent, size):
    """The agent and copies of it, whose parameters are others: the group makes them the same."""
    others = [copy.deepcopy(agent) for _ in range(size - 1)]
    for other in others:
        with torch.no_grad():
            for tensor in (one for group in other.learner.groups for one in group):
                tensor.add_(0.5)
    return [agent, *others]
