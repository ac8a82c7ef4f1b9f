"""Processes that train together over torch.distributed: gloo between CPUs, NCCL where each has a GPU of its own."""

import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from note_rl.distributed.channel import Line
from note_rl.distributed.rendezvous import MOST_ANNOUNCED, lines_of
from note_rl.errors import PeerError, SettingsError

_FORMING = timedelta(seconds=60)
_LONGEST = timedelta(hours=1)  # of an exchange: whether the others live is found out otherwise, and sooner
_LOOK = timedelta(seconds=1)
_STARTING_S = 300.0  # in which a new process must have imported all that it needs
_LAST_WORDS_S = 5.0  # until a lost rank should be known as such


class Group:
    """The processes that train together; see `note_rl.learners.peers.Peers`.

    Args:
        group: Of torch.distributed.
        lines: From rank 0 to each of the others in their order; elsewhere the one to rank 0.
    """

    def __init__(self, group: Any, lines: Sequence[Line]) -> None:
        self.size: int = dist.get_world_size(group)
        self.rank: int = dist.get_rank(group)
        self.lines = list(lines)
        self._group = group

    def mean(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Returns the means over all ranks, in one exchange; the same bits on each of them.

        Raises:
            PeerError: A rank has failed or died, or is silent.
        """
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        self._wait(dist.all_reduce(flat, group=self._group, async_op=True), flat.is_cuda)
        parts = torch.split(flat.div_(self.size), [tensor.numel() for tensor in tensors])
        return [part.view(tensor.shape).to(tensor.dtype) for part, tensor in zip(parts, tensors, strict=True)]

    def reseed(self, seed: int) -> None:
        """Seeds the random numbers that losses draw."""
        torch.manual_seed(seed)

    def _wait(self, work: Any, is_cuda: bool) -> None:
        """Waits for an exchange, and looks every second whether the others live."""
        while True:
            try:
                if _is_done(work, is_cuda):
                    return
            except RuntimeError as error:
                for line in self.lines:
                    if line.is_lost(_LAST_WORDS_S):
                        line.check()
                raise PeerError(f"an exchange between ranks has failed: {str(error).splitlines()[0]}") from error
            for line in self.lines:
                line.check()

    def close(self) -> None:
        """Ends the lines."""
        for line in self.lines:
            line.close()


def _is_done(work: Any, is_cuda: bool) -> bool:
    """Whether an exchange has ended within a second (RuntimeError: it has failed)."""
    if is_cuda:  # waiting would only queue up behind it on the device
        deadline = time.monotonic() + _LOOK.total_seconds()
        while not work.is_completed() and time.monotonic() < deadline:
            pass
        return bool(work.is_completed())
    try:
        work.wait(_LOOK)
    except RuntimeError:
        if work.is_completed():
            raise
        return False
    return True


def check_strategy(strategy: Any) -> None:
    """Refuses what is no strategy of PyTorch's agents (SettingsError)."""
    if strategy != "ddp" and not isinstance(strategy, dist.ProcessGroup):
        raise SettingsError(
            "strategy must be 'ddp', or a process group of torch.distributed, for agents in PyTorch; got "
            f"{strategy!r} (strategies of tf.distribute are for agents in Keras)"
        )


def size_joined(given: Any = None) -> int | None:
    """Returns how many processes there are that were started together with this one; None: it was started alone."""
    if dist.is_initialized():
        return dist.get_world_size(given)
    if {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"} <= set(os.environ):
        return int(os.environ["WORLD_SIZE"])
    return None


@contextmanager
def joined(given: Any = None) -> Iterator[Group]:
    """The group that this process was started in: by torchrun, or one that the user has initialised.

    Args:
        given: A process group; None: that of all processes.
    """
    ours = not dist.is_initialized()
    if ours:
        backend = _backend(int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
        try:
            dist.init_process_group(backend, timeout=_FORMING)
        except dist.DistError as error:
            size, first = os.environ["WORLD_SIZE"], f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
            raise PeerError(
                f"the {size} ranks did not find each other at {first} within {_FORMING.total_seconds():g} s: start all "
                f"of them, where rank 0 can be reached ({str(error).splitlines()[0]})"
            ) from error
    try:
        with _connected(given) as group:
            yield group
    finally:
        if ours:
            dist.destroy_process_group()


@contextmanager
def formed(store: Any, rank: int, size: int) -> Iterator[Group]:
    """A group of processes of this machine that know the same store."""
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group(_backend(size), store=store, rank=rank, world_size=size, timeout=_FORMING)
    try:
        with _connected(None) as group:
            yield group
    finally:
        dist.destroy_process_group()


def new_store() -> Any:
    """Makes a store for `formed` in this process; its `port` is free."""
    return dist.TCPStore("127.0.0.1", 0, is_master=True, timeout=_FORMING, wait_for_workers=False)  # type: ignore[attr-defined]


def store_at(port: int, rank: int) -> Any:
    """Returns the store that another process of this machine has made, and announces this rank in it."""
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=_FORMING)  # type: ignore[attr-defined]
    store.set(f"ready/{rank}", "")
    return store


def wait_until_ready(store: Any, processes: Sequence["subprocess.Popen[bytes]"]) -> None:
    """Waits until the processes of ranks 1, 2, ... are there.

    Raises:
        PeerError: One has ended before, or takes minutes.
    """
    deadline = time.monotonic() + _STARTING_S
    for rank, process in enumerate(processes, 1):
        while not store.check([f"ready/{rank}"]):
            if process.poll() is not None:
                raise PeerError(f"rank {rank} has ended with exit code {process.returncode} before training began")
            if time.monotonic() > deadline:
                raise PeerError(f"rank {rank} was not ready to train within {_STARTING_S:.0f} s")
            time.sleep(0.02)


def _backend(processes_here: int) -> str:
    several = torch.cuda.is_available() and torch.cuda.device_count() >= processes_here
    return "cpu:gloo,cuda:nccl" if several else "gloo"


@contextmanager
def _connected(given: Any) -> Iterator[Group]:
    ranks = None if given is None else dist.get_process_group_ranks(given)
    backend: str = dist.get_backend(given)
    if "gloo" not in backend:
        backend = f"cpu:gloo,cuda:{backend}"
    own = dist.new_group(ranks, timeout=_LONGEST, backend=backend)
    if dist.get_rank(own) < 0:
        raise SettingsError("strategy: this process is not in the process group that it was given")
    host = os.environ.get("MASTER_ADDR", "127.0.0.1")
    group = Group(own, lines_of(dist.get_rank(own), dist.get_world_size(own), host, partial(_announced, own)))
    try:
        yield group
    finally:
        group.close()


def _announced(group: Any, text: str | None) -> str:
    """Returns what rank 0 says to all."""
    content = torch.zeros(MOST_ANNOUNCED, dtype=torch.uint8)
    if text is not None:
        content[: len(text)] = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
    first = dist.get_global_rank(group, 0)
    dist.broadcast(content, first, group=group)
    return bytes(content.tolist()).rstrip(b"\0").decode()
