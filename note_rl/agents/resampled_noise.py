"""Noisy layers in no framework: which agents draw the numbers that they need."""

from collections.abc import Iterator, Mapping
from typing import Any

from note_rl.agents.new_networks import MAKERS
from note_rl.errors import AgentContractError, SettingsError
from note_rl.errors.wording import SettingName, choice

NOISY_STD = "noisy_std"
_AGENTS = "DQN, DoubleDQN or DuelingDQN"


def refuse_without_noise(training: bool) -> None:
    """Refuses a noisy layer that learns without noise, as the loss has drawn none (AgentContractError)."""
    if training:
        raise AgentContractError(
            f"a network has noisy layers ({NOISY_STD}), and this loss calls them without noise: only {_AGENTS}, with "
            "their own losses, draw it"
        )


def check_makers(agent: str, makers: Any) -> None:
    """Refuses noisy layers for an agent that draws no noise for them.

    Args:
        agent: The name of its class.
        makers: Holds what makes its networks, under the names that agents have for these.

    Raises:
        SettingsError: Naming the agents that do.
    """
    for name in MAKERS:
        check_arguments(agent, getattr(getattr(makers, name, None), "keywords", {}))


def has_noise(arguments: Any) -> bool:
    """Whether the arguments of a network give some of its layers noise."""
    return next(_stds(arguments), None) is not None


def check_arguments(agent: str, arguments: Any) -> None:
    """Refuses noisy layers in the arguments of one network; see `check_makers`."""
    std = next(_stds(arguments), None)
    if std is not None:
        raise SettingsError(
            "{} gives layers noise, which {} does not draw: set it to 0, or use {}",
            *(SettingName(NOISY_STD).at(std), agent, choice(_AGENTS)),
        )


def _stds(written: Any) -> Iterator[float]:
    """Yields the deviations above 0 in the arguments of what makes a network, and in lists and groups of them."""
    if isinstance(written, Mapping):
        if written.get(NOISY_STD):
            yield written[NOISY_STD]
        for value in written.values():
            yield from _stds(value)
    elif isinstance(written, list | tuple):
        for value in written:
            yield from _stds(value)
    elif getattr(written, NOISY_STD, None):
        yield getattr(written, NOISY_STD)
