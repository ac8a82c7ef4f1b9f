"""Several replicas that take gradient steps together, as a configuration asks for them."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from note_rl.errors import SettingsError
from note_rl.errors.wording import Name, choice, out_of_range
from note_rl.support.memory import LEAST_OF_A_PROCESS, check_processes
from note_rl.support.setting_fields import check_fields, documented, given, named, setting
from note_rl.support.value_kinds import Count, Described, OneOf

StrategyName = Literal["ddp", "mirrored", "multi_worker", "parameter_server"]
_NAMES: tuple[StrategyName, ...] = ("ddp", "mirrored", "multi_worker", "parameter_server")


def at_least_two(name: Name, value: Any) -> int:
    """Returns a number of replicas (SettingsError: it is none)."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 2:
        raise SettingsError(
            "{}{}; one process trains with {}",
            out_of_range(name, "be a whole number of at least 2", value),
            choice(": distributed_training(strategy='ddp', replicas=2) starts the others, or torchrun does"),
            choice("train()"),
        )
    check_processes(name, value, LEAST_OF_A_PROCESS)
    return value


def _addresses(name: Name, value: Any) -> tuple[str, ...] | None:
    """Returns addresses of processes; None: there are none (SettingsError: they are no such list)."""
    if value is None:
        return None
    listed = value if isinstance(value, Sequence) and not isinstance(value, str) else ()
    good = {one for one in listed if isinstance(one, str) and re.fullmatch(r".+:\d+", one) and _is_port(one)}
    if len(good) < max(len(listed), 2):
        rule = (
            "list HOST:PORT of each process, two or more and no two alike, with ports from 1 to 65535, such as "
            "[10.0.0.1:29500,10.0.0.2:29500]"
        )
        raise SettingsError(out_of_range(name, rule, value))
    return tuple(listed)


def _is_port(address: str) -> bool:
    return 1 <= int(address.rpartition(":")[2]) <= 65_535


def _rank(name: Name, value: Any) -> int | None:
    return None if value is None else Count(0)(name, value)


@documented
@dataclass(frozen=True, kw_only=True)
class Distributed:
    """Replicas to which each minibatch is dealt out; see distributed_training() of `RL_pytorch` and `RL`."""

    strategy: StrategyName = setting(
        "ddp",
        OneOf(_NAMES),
        manual=None,
        text="ddp: processes of agents in PyTorch, over torch.distributed. Of agents in Keras, by tf.distribute: "
        "mirrored: devices of one process; multi_worker: processes; parameter_server: workers that take steps without "
        "waiting for each other, and servers that hold the parameters.",
    )
    replicas: int = setting(
        2,
        Described("2 or more", at_least_two),
        manual=None,
        text="Processes, devices or workers in all, where they are started here; the batch is a multiple of it.",
    )
    hosts: Sequence[str] | None = setting(
        None,
        Described("[HOST:PORT,...], or null", _addresses),
        manual=None,
        text="Addresses of all processes, where each is started by hand on its machine; the first one leads. Of "
        "parameter_server, these are the one that leads, then the servers, then the workers. None: they are started on "
        "this machine. What TF_CONFIG or torchrun say is heeded instead.",
    )
    rank: int | None = setting(
        None,
        Described("a number of `hosts`, counted from 0", _rank),
        manual=None,
        text="Which of `hosts` this process is; 0 leads.",
    )
    parameter_servers: int = setting(
        1, Count(), manual=None, text="Processes that hold the parameters, of parameter_server."
    )

    def __post_init__(self) -> None:
        """Refuses values out of range.

        Raises:
            SettingsError: Also hosts without a rank, or the other way round.
        """
        check_fields(self)
        hosts = named(type(self), "hosts")
        if self.hosts is None:
            if self.rank is not None:
                raise SettingsError("{} says which of hosts this process is: give {}, too", given(self, "rank"), hosts)
            return
        if self.strategy == "mirrored":
            raise SettingsError("{} are not for devices of one process: use strategy multi_worker", hosts)
        if self.rank is None or self.rank >= len(self.hosts):
            rule = f"say which of hosts this process is, 0 to {len(self.hosts) - 1}"
            raise SettingsError(out_of_range(named(type(self), "rank"), rule, self.rank, "; 0 leads"))
        if self.strategy == "parameter_server" and len(self.hosts) < self.parameter_servers + 2:
            raise SettingsError(
                "{}: {} are too few for one that leads, {} and at least one worker",
                *(hosts, len(self.hosts), given(self, "parameter_servers")),
            )

    @property
    def size(self) -> int:
        """How many share each minibatch."""
        if self.strategy == "parameter_server":  # each worker takes whole ones
            return 1
        return self.replicas if self.hosts is None else len(self.hosts)

    def cluster(self, addresses: Sequence[str]) -> dict[str, list[str]]:
        """Returns addresses by the kind of process, as tf.distribute has it."""
        if self.strategy == "multi_worker":
            return {"worker": list(addresses)}
        servers = 1 + self.parameter_servers
        return {"chief": [addresses[0]], "ps": list(addresses[1:servers]), "worker": list(addresses[servers:])}


@dataclass(frozen=True)
class ClusterTask:
    """One process of a cluster of TensorFlow.

    Attributes:
        cluster: HOST:PORT of all processes, by kind.
        kind: Of this one.
        index: Of this one among those of its kind.
    """

    cluster: Mapping[str, Sequence[str]]
    kind: str
    index: int

    @classmethod
    def of_environment(cls) -> "ClusterTask | None":
        """The one that TF_CONFIG says this process is; None: there is no TF_CONFIG.

        Raises:
            SettingsError: It is not what TensorFlow reads.
        """
        written = os.environ.get("TF_CONFIG")
        if not written:
            return None
        try:
            told = json.loads(written)
            cluster, kind, index = told["cluster"], told["task"]["type"], int(told["task"]["index"])
            known = 0 <= index < len(cluster[kind])
        except (ValueError, TypeError, LookupError):
            known = False
        if not known:
            raise SettingsError(
                f"TF_CONFIG={written} must say which process of a cluster this is, such as "
                '{"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}'
            )
        return cls(cluster, kind, index)
