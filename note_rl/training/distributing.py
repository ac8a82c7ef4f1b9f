"""Training over several processes: rank 0 trains as ever, and the others take its gradient steps along with it.

Rank 0 collects, samples, evaluates, logs and saves. Of each minibatch it deals every rank its share; ranks average what
they find, and so all take the same step. What rank 0 decides, it decides alone.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, fields
from typing import Any, Protocol

import numpy as np

from note_rl.collect.recipe import plain_attributes
from note_rl.errors import AgentContractError, PeerError, SettingsError
from note_rl.learners.adjustable import numbered
from note_rl.learners.base import Learner, Staged, parameter_groups
from note_rl.learners.declarations import Declared, updates_itself
from note_rl.learners.lines import FAILED, Line
from note_rl.learners.peers import Alone, Peers, check_divides, say_if_slower, share_of
from note_rl.seeding import integer
from note_rl.settings import Settings
from note_rl.types import EXTRAS, Array, FloatArray, Sample, TrainResult, Update, nested, under

_LAST_WORDS_S = 1.0  # until a lost rank should be known as such
_COMPARED_OFTEN = 100  # update blocks; later at every thousandth


class Ranks(Peers, Protocol):
    """Peers in processes of their own, each with its lines; see `note_rl.learners.pytorch.group.Group`."""

    lines: list[Line]

    def reseed(self, seed: int) -> None:
        """Seeds the random numbers that losses draw."""


class Leader:
    """Takes the gradient steps of rank 0 together with all others; see `TakesSteps`.

    Args:
        agent: Of rank 0.
        group: Of the ranks.
    """

    def __init__(self, agent: Any, group: Ranks) -> None:
        self._agent = agent
        self._group = group
        self._expected = 0.0
        self._num_blocks = 0
        self._numbers: dict[str, Any] = {}  # of the agent, as the others know them
        self._of_optimizers: dict[str, float] = {}  # the same of its optimizers

    @property
    def _learner(self) -> Learner:
        learner: Learner = self._agent.learner
        return learner

    def prepare(self, optimizer: Any, max_grad_norm: float | None, hyperparameters: Sequence[str], jit: Any) -> None:
        """Has all learners made ready; see `Learner.prepare`."""
        self._learner.join(self._group)
        told = {"max_grad_norm": max_grad_norm, "hyperparameters": list(hyperparameters), "jit": jit}
        self._tell({"do": "prepare", **told})  # first: what is made in all of them is made together
        self._learner.prepare(optimizer, max_grad_norm, hyperparameters, jit)
        self._of_optimizers = self._of_optimizers or _numbers_of(self._learner)

    def expect(self, num_gradient_steps: float) -> None:
        """See `Learner.expect`."""
        self._expected = num_gradient_steps
        self._learner.expect(num_gradient_steps)

    def update(self, sample: Sample, hyperparameters: Mapping[str, float]) -> Update:
        """Takes one gradient step per minibatch, each rank along its share.

        Returns:
            What one process would have found: losses are means, and TD errors those of all rows.

        Raises:
            SettingsError: Minibatches cannot be dealt out evenly.
            PeerError: A rank is lost, or holds other parameters.
        """
        size, compared = self._group.size, self._compares()
        shares = [share_of(sample, rank, size) for rank in range(size)]
        if self._num_blocks == 0:
            self._tell_state()
            say_if_slower(parameter_groups(self._agent.param), sample.reward.shape[1], size)
        numbers = plain_attributes(self._agent)
        head = {
            "do": "update",
            "hyperparameters": {**self._changed_numbers(hyperparameters), **hyperparameters},
            "numbers": {name: value for name, value in numbers.items() if self._numbers.get(name) != value},
            "expected": self._expected,
            "compared": compared,
            "seed": integer(self._agent._trainer.state.seed, "ranks", self._agent.num_gradient_steps),
        }
        for line, share in zip(self._group.lines, shares[1:], strict=True):
            line.send(head, _arrays_of(share))
        self._numbers = numbers
        self._num_blocks += 1
        with _naming_the_lost(self._group):
            update = self._learner.update(shares[0], hyperparameters)
        if update.diverged or not (compared or _hands_over(update)):
            return update
        answers = [line.receive() for line in self._group.lines]
        if compared:
            self._compare([answer.head["sum"] for answer in answers])
        return _together(update, [answer.arrays for answer in answers])

    def end(self, result: TrainResult) -> None:
        """Tells all that training is over."""
        self._tell({"do": "end", "result": asdict(result)}, self._agent.obs_normaliser.get_state())

    def give_up(self, error: BaseException) -> None:
        """Tells all who are still there why it ends."""
        for line in self._group.lines:
            with suppress(PeerError):
                line.send({FAILED: in_short(error)})

    def _changed_numbers(self, told: Mapping[str, float]) -> dict[str, float]:
        """Returns what callbacks have made of the numbers of optimizers, but for those that are set for this update."""
        numbers = _numbers_of(self._learner).items()
        changed = {name: value for name, value in numbers if self._of_optimizers.get(name) != value}
        return {name: value for name, value in changed.items() if not {name, name.partition(":")[0]} & set(told)}

    def _compares(self) -> bool:
        """Whether parameters of ranks are compared after the coming update block."""
        count = self._num_blocks
        return count in (0, _COMPARED_OFTEN) or count % (10 * _COMPARED_OFTEN) == 0

    def _compare(self, sums: Sequence[int]) -> None:
        """Refuses to go on with ranks that hold other parameters."""
        mine = checksum(self._learner)
        for line, others in zip(self._group.lines, sums, strict=True):
            if others != mine:
                raise PeerError(
                    f"{line.name} holds other parameters than rank 0: something changes them beside gradient steps, "
                    "such as restore_param() in a callback, or the ranks do not run the same versions"
                )

    def _tell_state(self) -> None:
        stages = list(self._learner.stages) if isinstance(self._learner, Staged) else None
        self._tell({"do": "state", "stages": stages}, self._learner.get_state())

    def _tell(self, head: Mapping[str, Any], arrays: Mapping[str, Array] | None = None) -> None:
        for line in self._group.lines:
            line.send(head, arrays)


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
        return _followed(agent, optimizer, group)
    except PeerError:
        raise
    except BaseException as error:
        with suppress(PeerError):
            line.send({FAILED: in_short(error)})
        raise
    finally:
        learner.join(Alone())


def _followed(agent: Any, optimizer: Any, group: Ranks) -> TrainResult:
    line, learner = group.lines[0], agent.learner
    while True:
        message = line.receive()
        head, arrays = message.head, message.arrays
        if head["do"] == "prepare":
            learner.prepare(optimizer, head["max_grad_norm"], head["hyperparameters"], head["jit"])
        elif head["do"] == "state":
            learner.set_state(arrays)
            if head["stages"] is not None:
                learner.resume(tuple(head["stages"]))
        elif head["do"] == "update":
            vars(agent).update(head["numbers"])
            learner.expect(head["expected"])
            group.reseed(integer(head["seed"], "rank", group.rank))
            with _naming_the_lost(group):
                update = learner.update(_sample_of(arrays), head["hyperparameters"])
            if not update.diverged and (head["compared"] or _hands_over(update)):
                line.send({"sum": checksum(learner) if head["compared"] else None}, _rows(update))
        else:
            agent.obs_normaliser.set_state(arrays)
            return TrainResult(**head["result"])


def check_can_be_shared(agent: Declared | type[Declared], settings: Settings, size: int) -> None:
    """Refuses what several replicas cannot do together, before anything runs.

    Args:
        agent: One, or its class.
        settings: What set() was told.
        size: How many replicas.

    Raises:
        AgentContractError: The agent takes its updates by itself, or its samples influence each other.
        SettingsError: Minibatches cannot be dealt out evenly.
    """
    kind = agent if isinstance(agent, type) else type(agent)
    name = kind.__name__
    if updates_itself(kind):
        raise AgentContractError(
            f"{name} takes its steps by itself, in update(), so that there are no gradients to average over replicas: "
            "use train()"
        )
    if agent.couples_samples:
        raise AgentContractError(
            f"{name} says couples_samples = True, and each replica would see a part of the samples only: use train()"
        )
    batch_size = settings.experience.batch_size
    if isinstance(batch_size, int):
        check_divides(size, batch_size)
    adapters = {} if settings.adaptive is None else settings.adaptive.adapters()
    if "batch_size" in adapters and adapters["batch_size"].align % size:
        align = adapters["batch_size"].align
        raise SettingsError(
            f"adaptive: batch sizes that are multiples of {align} cannot be dealt out to {size} replicas evenly; say "
            f"parameters={{'batch_size': {{'align': {align * size}}}}}"
        )


def check_can_be_served(agent: Declared | type[Declared], settings: Settings) -> None:
    """Refuses what workers that do not wait for each other cannot do, before anything runs.

    Raises:
        AgentContractError: The agent takes its updates by itself.
        SettingsError: Something is asked for that goes by the steps of one process.
    """
    kind = agent if isinstance(agent, type) else type(agent)
    if updates_itself(kind):
        raise AgentContractError(
            f"{kind.__name__} takes its steps by itself, in update(), and while it searches for one, other workers "
            "would move the parameters: use train()"
        )
    if settings.adaptive is not None:
        raise SettingsError(
            "adaptive: decisions go by what consecutive steps have measured, and here steps are taken side by side, "
            "from parameters that other workers move meanwhile: leave adaptive out, or use a MirroredStrategy"
        )


def checksum(learner: Learner) -> int:
    """Returns a number that is the same for the same parameters, to the bit."""
    total = 0
    for name, values in sorted(learner.get_state().items()):
        if name.startswith("agent/"):
            total = zlib.crc32(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data, total)
    return total


def in_short(error: BaseException) -> str:
    """Returns an error in one line."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


@contextmanager
def _naming_the_lost(group: Ranks) -> Iterator[None]:
    """Around gradient steps: what fails because another rank is lost is a PeerError that names it."""
    try:
        yield
    except PeerError:
        raise
    except Exception:
        for line in group.lines:
            if line.is_lost(_LAST_WORDS_S):
                line.check()
        raise


def _numbers_of(learner: Learner) -> dict[str, float]:
    """Returns the numbers of optimizers as they are named among the hyperparameters of an update."""
    several = enumerate(learner.optimizer_numbers())
    return {numbered(name, index): value for index, one in several for name, value in one.values.items()}


def _arrays_of(sample: Sample) -> dict[str, Array]:
    columns = {one.name: getattr(sample, one.name) for one in fields(sample) if one.name != EXTRAS}
    present = {name: values for name, values in columns.items() if values is not None}
    return {**present, **nested(EXTRAS, sample.extras)}


def _sample_of(arrays: Mapping[str, Array]) -> Sample:
    columns = {name: values for name, values in arrays.items() if not name.startswith(f"{EXTRAS}/")}
    return Sample(**columns, extras=under(EXTRAS, arrays))


def _hands_over(update: Update) -> bool:
    return update.td_error is not None or update.ratio is not None


def _rows(update: Update) -> dict[str, Array]:
    rows = {"td_error": update.td_error, "ratio": update.ratio}
    return {name: values for name, values in rows.items() if values is not None}


def _together(update: Update, others: Sequence[Mapping[str, Array]]) -> Update:
    """Returns the update with what the rows of all ranks gave, [K, B]."""

    def whole(name: str, mine: FloatArray | None) -> FloatArray | None:
        return None if mine is None else np.concatenate([mine, *(one[name] for one in others)], axis=1)

    td_error, ratio = whole("td_error", update.td_error), whole("ratio", update.ratio)
    return Update(update.loss, td_error, ratio, update.reported)
