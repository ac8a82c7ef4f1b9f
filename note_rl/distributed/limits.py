"""Refusals of settings that several replicas, or workers that do not wait for each other, cannot run."""

from note_rl.distributed.minibatch_shares import check_divides
from note_rl.errors import AgentContractError, SettingsError
from note_rl.errors.wording import Sentence, SettingName, choice
from note_rl.learners.declarations import Declared, learns_from_sequences, updates_itself
from note_rl.settings import Settings

ALONE = Sentence("use {}", choice("train()"))


def check_can_be_shared(agent: Declared | type[Declared], settings: Settings, size: int) -> None:
    """Refuses what several replicas cannot do together, before anything runs.

    Args:
        agent: One, or its class.
        settings: The settings of set().
        size: How many replicas.

    Raises:
        AgentContractError: The agent takes its updates by itself, learns from whole sequences, or its samples influence
            each other.
        SettingsError: Minibatches cannot be dealt out evenly.
    """
    kind = agent if isinstance(agent, type) else type(agent)
    name = kind.__name__
    if updates_itself(kind):
        raise AgentContractError(
            "{} takes its steps by itself, in update(), so that there are no gradients to average over replicas: {}",
            *(name, ALONE),
        )
    if not isinstance(agent, type) and learns_from_sequences(agent):
        raise AgentContractError(
            "{} has a memory (initial_state) and learns from whole sequences, and replicas would get single steps of "
            "them: {}",
            *(name, ALONE),
        )
    if agent.couples_samples:
        raise AgentContractError(
            "{} says couples_samples = True, and each replica would see a part of the samples only: {}", name, ALONE
        )
    batch_size = settings.experience.batch_size
    if isinstance(batch_size, int):
        check_divides(size, batch_size)
    adapters = {} if settings.adaptive is None else settings.adaptive.adapters()
    if "batch_size" in adapters and adapters["batch_size"].align % size:
        align = adapters["batch_size"].align
        raise SettingsError(
            "adaptive: batch sizes that are multiples of {} cannot be dealt out to {} replicas evenly; give {}",
            *(align, size, SettingName("parameters.batch_size.align", part="Adaptive").at(align * size)),
        )


def check_can_be_served(agent: Declared | type[Declared], settings: Settings) -> None:
    """Refuses what workers that do not wait for each other cannot do, before anything runs.

    Raises:
        AgentContractError: The agent takes its updates by itself, or learns from whole sequences.
        SettingsError: Something is asked for that goes by the steps of one process.
    """
    kind = agent if isinstance(agent, type) else type(agent)
    if updates_itself(kind):
        raise AgentContractError(
            "{} takes its steps by itself, in update(), and while it searches for one, other workers would move the "
            "parameters: {}",
            *(kind.__name__, ALONE),
        )
    if not isinstance(agent, type) and learns_from_sequences(agent):
        raise AgentContractError(
            "{} has a memory (initial_state) and learns from whole sequences, for which parameter servers have no "
            "place: {}",
            *(kind.__name__, ALONE),
        )
    if settings.adaptive is not None:
        raise SettingsError(
            "adaptive: decisions go by what consecutive steps have measured, and here steps are taken side by side, "
            "from parameters that other workers move meanwhile: leave adaptive out, or use {}",
            choice("a MirroredStrategy"),
        )
