"""The manuals' arguments of find(), which are those of train()."""

from collections.abc import Collection, Mapping
from dataclasses import asdict
from typing import Any

from note_rl.errors import SettingsError
from note_rl.settings import Distributed
from note_rl.support.checking import refuse_unknown
from tuner.trial.messages import JsonDict

_WITHOUT_EFFECT = ("processes_her", "processes_pr")  # in train(), too, which wants HER or PR for them all the same
_TRAIN = ("processes", "processes_her", "processes_pr", "jit_compile", "num_store", "parallel_store_and_training")


def check_call(finder: str, strategy: Any, train_loss: Any) -> None:
    """Refuses what a finder cannot do.

    Raises:
        SettingsError: Says what to do instead.
    """
    if strategy is not None and strategy != "ddp" and not isinstance(strategy, Distributed):
        raise SettingsError(
            f"{finder} runs each training in a process of its own, and strategy={type(strategy).__name__} cannot be "
            "sent there: leave strategy out, or give an agent in PyTorch strategy='ddp', which two processes are, or "
            "Distributed(replicas=4) of note_rl.settings"
        )
    if train_loss is not None and not hasattr(train_loss, "update_state"):
        raise SettingsError(f"train_loss is a metric such as keras.metrics.Mean(), got {train_loss!r}; leave it out")


def shared_by(strategy: Any) -> JsonDict:
    """The arguments of distributed_training() that a strategy stands for; none if there is none."""
    if strategy is None:
        return {}
    return asdict(strategy if isinstance(strategy, Distributed) else Distributed())


def trained(agent: Any, options: Mapping[str, Any], **arguments: Any) -> Any:
    """Trains an agent with these arguments, several processes together if the options of train() name a strategy."""
    train = agent.distributed_training if "strategy" in options else agent.train
    return train(**arguments, **options)


def train_options_of(options: dict[str, Any], pool_network: bool, further: Collection[str]) -> JsonDict:
    """The arguments of train() among these; they are taken out, and what is left is among the `further` ones.

    Raises:
        SettingsError: An argument that find() does not take.
    """
    refuse_unknown("find", options, [*_TRAIN, *further])
    found = {name: options.pop(name) for name in _TRAIN if name in options}
    used = {name: value for name, value in found.items() if value is not None and name not in _WITHOUT_EFFECT}
    return {"pool_network": pool_network, **used}
