"""Saving and restoring an agent: whole, or its parameters only."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from note_rl.checkpoint import nested, read_checkpoint, under, write_checkpoint
from note_rl.errors import CheckpointError
from note_rl.experience import Clock
from note_rl.learners.base import Learner, check_state
from note_rl.normalise import ObservationNormaliser
from note_rl.plotting import History
from note_rl.saving import SavingOptions, SavingRecord, Snapshot
from note_rl.trainer import Trainer
from note_rl.types import Array

_log = logging.getLogger(__name__)
_PARAMETERS = "learner/agent/"  # under this prefix of a file's arrays lie parameters, targets and the like


class Persistent:
    """The part of an agent that files are concerned with.

    Attributes:
        path: File written while training; None: none. See `SavingOptions` for this and the following.
        save_freq: Episodes between two files.
        max_save_files: Files kept, numbered by episode; None or 1: one file, `path` itself, replaced.
        save_best_only: Only when the mean return of the last `trial_count` episodes is the best so far.
        save_param_only: Parameters only.
    """

    path: str | os.PathLike[str] | None = None
    save_freq: int = 1
    max_save_files: int | None = None
    save_best_only: bool = False
    save_param_only: bool = False

    def __init__(self) -> None:
        self._learner: Learner | None = None
        self._trainer: Trainer | None = None
        self._restored: Snapshot | None = None
        self._history = History()
        self._saving_record = SavingRecord([])
        self.obs_normaliser = ObservationNormaliser()  # leaves observations as they are unless set() asks for more

    def _make_learner(self) -> Learner:
        raise TypeError("inherit from RL (Keras) or RL_pytorch, not from Agent")

    @property
    def learner(self) -> Learner:
        """Evaluates and improves the parameters; made when first needed, after the subclass has set `param`."""
        if self._learner is None:
            self._learner = self._make_learner()
        return self._learner

    def save(self, path: str | os.PathLike[str], save_data: bool = True) -> None:
        """Writes everything that training needs to go on exactly, to one file.

        Args:
            path: Replaced in one move.
            save_data: Whether the replay pool goes along.

        Raises:
            CheckpointError: The file cannot be written.
        """
        snapshot = self._snapshot(SavingOptions(path=Path(path), with_experience=save_data))
        write_checkpoint(path, snapshot.arrays, snapshot.head)

    def save_param(self, path: str | os.PathLike[str]) -> None:
        """Writes the parameters (target networks included) to one file, for restore_param().

        Raises:
            CheckpointError: The file cannot be written.
        """
        snapshot = self._snapshot(SavingOptions(path=Path(path), param_only=True))
        write_checkpoint(path, snapshot.arrays, snapshot.head)

    def restore(self, path: str | os.PathLike[str]) -> None:
        """Takes over what save() wrote. Parameters at once, the rest when train() is called next.

        Raises:
            CheckpointError: The file is damaged, foreign, from a newer version or of another agent. The agent is as
                it was.
        """
        arrays, head = read_checkpoint(path)
        if "trainer" in head:
            check_trainer_state(under("trainer", arrays), head["trainer"], Path(path))
        else:
            _log.warning("%s holds parameters only: counts, optimizer and replay pool start anew", path)
        self._take_parameters(arrays)
        if self._trainer is not None:
            self._trainer.close()
            self._trainer = None
        self._history = History.from_state(under("history", arrays))
        self._saving_record = SavingRecord.from_json(head.get("saving"))
        self._restored = Snapshot(arrays, head) if "trainer" in head else None

    def restore_param(self, path: str | os.PathLike[str]) -> None:
        """Takes over the parameters in a file of save_param() or save(); everything else stays as it is.

        Raises:
            CheckpointError: As for restore().
        """
        arrays, _ = read_checkpoint(path)
        self._take_parameters(arrays)

    def _take_parameters(self, arrays: Mapping[str, Array]) -> None:
        parameters = {name: values for name, values in arrays.items() if name.startswith(_PARAMETERS)}
        if not parameters:
            raise CheckpointError("the file is of another kind: it holds no parameters of an agent")
        current = self.learner.get_state()
        read = under("learner", parameters)
        check_state(read, {name: values for name, values in current.items() if name.startswith("agent/")})
        self.learner.set_state({**current, **read})
        self.obs_normaliser.set_state(under("normaliser", arrays))

    def _snapshot(self, options: SavingOptions) -> Snapshot:
        """What a file is to hold at this moment."""
        arrays = nested("learner", self.learner.get_state())
        head: dict[str, Any] = {"agent": type(self).__name__}
        if options.param_only:
            arrays = {name: values for name, values in arrays.items() if name.startswith(_PARAMETERS)}
        arrays.update(nested("normaliser", self.obs_normaliser.get_state()))
        if options.param_only:
            return Snapshot(arrays, head)
        head["saving"] = self._saving_record.to_json()
        arrays.update(nested("history", self._history.get_state()))
        if self._trainer is not None:
            trainer_arrays, head["trainer"] = self._trainer.get_state(options.with_experience)
            arrays.update(nested("trainer", trainer_arrays))
        elif self._restored is not None:  # restored, not trained since: what was restored goes on
            arrays = {**self._restored.arrays, **arrays}
            head["trainer"] = self._restored.head["trainer"]
        return Snapshot(arrays, head)

    def _take_over_restored(self, trainer: Trainer) -> None:
        """Hands what restore() read to a trainer that was just made, once its optimizer is known."""
        if self._restored is None:
            return
        arrays, head = self._restored.arrays, self._restored.head
        restored = under("learner", arrays)
        slots = {name: values for name, values in restored.items() if not name.startswith("agent/")}
        self.learner.set_state({**self.learner.get_state(), **slots})
        trainer.set_state(under("trainer", arrays), head["trainer"])
        self._restored = None


def restore_param(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The parameters in a file of save_param() or save(), by name; `agent.restore_param(path)` gives them to an agent.

    Raises:
        CheckpointError: The file is damaged, foreign or from a newer version.
    """
    arrays, _ = read_checkpoint(path)
    return {name.removeprefix(_PARAMETERS): values for name, values in arrays.items() if name.startswith(_PARAMETERS)}


def check_trainer_state(arrays: Mapping[str, Array], head: Any, path: Path) -> None:
    """Refuses what get_state() cannot have given, before anything is taken over (CheckpointError)."""
    try:
        Clock(**head["clock"])
        scratch = np.random.default_rng(int(head["seed"])).bit_generator
        for name in ("exploration", "sampling"):
            scratch.state = head["random"][name]
        complete = all(np.isfinite(number) for number in head["recent"]) and "collector/episode" in arrays
    except (TypeError, KeyError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged or of another program: its counts are not complete") from error
    if not complete:
        raise CheckpointError(f"{path} is damaged or of another program: its counts are not complete")
