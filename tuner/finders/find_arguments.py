"""The manuals' arguments of find(), which are those of train()."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from note_rl.errors import SettingsError
from note_rl.settings import Distributed
from note_rl.support.value_kinds import refuse_unknown
from tuner.trial.messages import JsonDict

_STARTED_HERE = ("ddp", "mirrored")
_WITHOUT_EFFECT = ("processes_her", "processes_pr")  # in train(), too
_TRAIN = ("processes", "processes_her", "processes_pr", "jit_compile", "num_store", "parallel_store_and_training")


def check_call(finder: str, strategy: Any, train_loss: Any, agents: Sequence[Any] = ()) -> None:
    """Refuses what a finder cannot do.

    Raises:
        SettingsError: Says what to do instead.
    """
    shared = shared_by(strategy)
    if strategy is not None and not _is_known(strategy):
        shown = repr(strategy) if isinstance(strategy, str | Distributed) else type(strategy).__name__
        raise SettingsError(
            f"{finder} runs each training in a process of its own, and strategy={shown} cannot be made there: leave "
            "strategy out, or give an agent in PyTorch strategy='ddp', which two processes are, an agent in Keras "
            "'mirrored' or a MirroredStrategy, or either Distributed(replicas=4) of note_rl.settings"
        )
    for agent in agents:
        needed = "torch" if shared.get("strategy") == "ddp" else "keras"
        if shared and type(agent).framework != needed:
            raise SettingsError(
                f"{finder}: strategy={shared['strategy']!r} is not for agents written in {type(agent).framework}: "
                f"use {'mirrored' if needed == 'torch' else 'ddp'!r}"
            )
    if train_loss is not None and not hasattr(train_loss, "update_state"):
        raise SettingsError(f"train_loss is a metric such as keras.metrics.Mean(), got {train_loss!r}; leave it out")


def _is_known(strategy: Any) -> bool:
    if isinstance(strategy, Distributed):
        return strategy.strategy in _STARTED_HERE and strategy.hosts is None
    return strategy in _STARTED_HERE or _is_mirrored(strategy)


def _is_mirrored(strategy: Any) -> bool:
    """Whether it is TensorFlow's, which is not imported to find out."""
    kind = type(strategy)
    return kind.__name__ == "MirroredStrategy" and kind.__module__.startswith("tensorflow.")


def shared_by(strategy: Any) -> JsonDict:
    """The arguments of distributed_training() that a strategy stands for; none if there is none, or one device."""
    if _is_mirrored(strategy):
        size = strategy.num_replicas_in_sync
        return shared_by(Distributed(strategy="mirrored", replicas=size)) if size > 1 else {}
    if strategy in _STARTED_HERE:
        strategy = Distributed(strategy=strategy)
    if not isinstance(strategy, Distributed):
        return {}
    return {"strategy": strategy.strategy, "replicas": strategy.replicas}


def with_strategy(options: JsonDict) -> tuple[JsonDict, AbstractContextManager[Any]]:
    """Returns options of train() with the strategy that they name, and a context to make the agent in."""
    if options.get("strategy") != "mirrored":
        return options, nullcontext()
    from note_rl.distributed.keras.strategies import mirrored  # which imports TensorFlow

    strategy = mirrored(options["replicas"])
    others = {name: value for name, value in options.items() if name != "replicas"}
    return {**others, "strategy": strategy}, strategy.scope()


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
