"""Saving and restoring an agent: whole, or its parameters only."""

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from note_rl.environments.normalise import ObservationNormaliser, RewardNormaliser
from note_rl.errors import CheckpointError, SettingsError
from note_rl.learners.base import WAITING_STEPS, Learner, check_state
from note_rl.settings import Settings
from note_rl.support.value_kinds import checked_arguments
from note_rl.training.callback_states import CALLBACKS, CallbackStates, check_callbacks
from note_rl.training.checkpoint import read_checkpoint, write_checkpoint
from note_rl.training.checkpoint_checks import check_fits, check_whole, refusing_damage, reseeded
from note_rl.training.checkpoint_saver import SavingOptions, SavingRecord, Snapshot
from note_rl.training.curve_plots import History
from note_rl.training.trainer import Trainer
from note_rl.types import Array, nested, under

_log = logging.getLogger(__name__)
_PARAMETERS = "learner/agent/"  # under this prefix of a file's arrays lie parameters, targets and the like
_REWARDS = "reward_normaliser"
_MEANING = "meaning"  # which files of 0.1.0 lack


class Persistent:
    """The part of an agent that files are concerned with.

    Attributes:
        path: File written while training; None: none. See `SavingOptions` for this and the following.
        save_freq: Episodes between two files.
        max_save_files: Files kept, numbered by episode; None or 1: one file, `path` itself, replaced.
        save_best_only: Only when the mean return of the last `trial_count` episodes is the best so far.
        save_param_only: Parameters only.
        reward_moments: Running moments of rewards that restore_param() has read, with which training begins.
    """

    path: str | os.PathLike[str] | None = None
    save_freq: int = 1
    max_save_files: int | None = None
    save_best_only: bool = False
    save_param_only: bool = False

    def __init__(self) -> None:
        self._learner: Learner | None = None
        self._settings: Settings | None = None
        self._trainer: Trainer | None = None
        self._restored: Snapshot | None = None
        self._callback_states: CallbackStates | None = None  # of the last train()
        self.reward_moments: dict[str, Array] = {}
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

    @checked_arguments()
    def save(self, path: str | os.PathLike[str], save_data: bool = True) -> None:
        """Writes everything that training needs to go on exactly, to one file.

        Training N steps, saving, restoring and training N more is training 2N, bit for bit, if both calls are given
        total_steps=2N: the file is one of those written while training, or the first call was ended by
        `stop_training`. For schedules and the beta of prioritized replay go by the share of a call's budget: calls with
        episodes=, which counts from the call, or with other numbers begin them anew, restored or not.

        Where a callback calls this while episodes are played (`on_episode_end`), the steps of the running round are not
        in the file, and a restored run begins a new round there.

        Args:
            path: Replaced in one move.
            save_data: Whether the replay pool goes along.

        Raises:
            CheckpointError: The file cannot be written.
        """
        snapshot = self._snapshot(SavingOptions(path=Path(path), with_experience=save_data))
        write_checkpoint(path, snapshot.arrays, snapshot.head)

    @checked_arguments()
    def save_param(self, path: str | os.PathLike[str], about: Mapping[str, Any] | None = None) -> None:
        """Writes the parameters (target networks included) to one file, for restore_param().

        Args:
            path: Replaced in one move.
            about: Anything else that is worth knowing of them, JSON-able; `read_checkpoint` finds it in the head.

        Raises:
            CheckpointError: The file cannot be written.
        """
        snapshot = self._snapshot(SavingOptions(path=Path(path), param_only=True))
        write_checkpoint(path, snapshot.arrays, {**snapshot.head, "about": dict(about or {})})

    @checked_arguments()
    def restore(self, path: str | os.PathLike[str], reseed: int | None = None) -> None:
        """Takes over what save() wrote. Parameters at once, the rest when train() is called next.

        What was given to set() before must fit; what only train() or a later set() says is compared by train(), which
        also gives callbacks their states (`note_rl.training.callbacks.Callback.get_state`).

        Args:
            path: The file.
            reseed: Training goes on with other random numbers: those of this seed and of the environment steps done by
                then, in episodes that begin anew. Several agents that go on from one file differ so. None: bit for bit
                as it would have gone on.

        Raises:
            CheckpointError: The file is damaged, foreign, from a newer version, of another agent, or was written under
                settings that cannot be gone on with. The agent is as it was.
            SettingsError: It is called by a callback of train().
        """
        self._refuse_inside_of_train("restore()", "restore_param() takes over weights alone; for all else stop first")
        arrays, head = read_checkpoint(path)
        if "trainer" in head:
            check_whole(under("trainer", arrays), head["trainer"], Path(path))
            if self._settings is not None:
                check_fits(under("trainer", arrays), self._settings, self._known_num_envs())
        with refusing_damage(Path(path)):
            history = History.from_state(under("history", arrays), float(head.get("seconds", 0.0)))
            saving_record = SavingRecord.from_json(head.get("saving"))
            check_callbacks(head.get(CALLBACKS, {}))
        self._take_parameters(arrays, head)
        if "trainer" not in head:
            _log.warning("%s holds parameters only: counts, optimizer and replay pool start anew", path)
        if self._trainer is not None:
            self._trainer.close()
            self._trainer = None
        self._history, self._saving_record, self._callback_states = history, saving_record, None
        if reseed is not None and "trainer" in head:
            head = {**head, "trainer": reseeded(head["trainer"], reseed)}
        self._restored = Snapshot(arrays, head) if "trainer" in head else None

    def _refuse_inside_of_train(self, call: str, instead: str) -> None:
        """Refuses what would take counts and pool away from a train() that runs (SettingsError)."""
        if self._trainer is not None and self._trainer.is_running:
            raise SettingsError(f"{call} was called while train() runs: {instead} (agent.stop_training = True)")

    @checked_arguments()
    def restore_param(self, path: str | os.PathLike[str]) -> None:
        """Takes over the parameters in a file of save_param() or save(), with the scales that they were learned in.

        These are the running moments of observations, and those of rewards where set(normalise_reward=True) was given
        and training has not begun yet. Everything else stays as it is.

        Raises:
            CheckpointError: As for restore().
        """
        arrays, head = read_checkpoint(path)
        rewards = under(_REWARDS, arrays) or under(f"trainer/{_REWARDS}", arrays)
        with refusing_damage(Path(path)):
            RewardNormaliser().set_state(rewards or RewardNormaliser().get_state())
        self._take_parameters(arrays, head)
        self.reward_moments = {name: values for name, values in rewards.items() if name != "return"}

    def _meaning(self) -> dict[str, Any]:
        """Returns what parameters mean, and the sizes of what is kept from step to step."""
        agent: Any = self
        states = {name: list(np.shape(values)[1:]) for name, values in agent.initial_state(1).items()}
        return {**agent.meaning(), **({"its state": states} if states else {})}

    def _take_parameters(self, arrays: Mapping[str, Array], head: Mapping[str, Any]) -> None:
        parameters = {name: values for name, values in arrays.items() if name.startswith(_PARAMETERS)}
        if not parameters:
            raise CheckpointError("the file is of another kind: it holds no parameters of an agent")
        current = self.learner.get_state()
        read = under("learner", parameters)
        check_state(read, {name: values for name, values in current.items() if name.startswith("agent/")})
        _check_meaning(head.get(_MEANING), self._meaning())
        normaliser = ObservationNormaliser()
        with refusing_damage("the file"):
            normaliser.set_state(under("normaliser", arrays))
        self.learner.set_state({**current, **read})
        self.obs_normaliser.set_state(normaliser.get_state())

    def _snapshot(self, options: SavingOptions) -> Snapshot:
        """The contents of a file at this moment."""
        arrays = nested("learner", self.learner.get_state())
        head: dict[str, Any] = {"agent": type(self).__name__, _MEANING: self._meaning()}
        if options.param_only:
            arrays = {name: values for name, values in arrays.items() if name.startswith(_PARAMETERS)}
        arrays.update(nested("normaliser", self.obs_normaliser.get_state()))
        if options.param_only:
            normaliser = None if self._trainer is None else self._trainer.state.reward_normaliser
            if normaliser is not None:
                arrays.update(nested(_REWARDS, normaliser.moments.get_state()))
            return Snapshot(arrays, head)
        head |= {"saving": self._saving_record.to_json(), CALLBACKS: {}}
        head["seconds"] = self._history.seconds
        arrays.update(nested("history", self._history.get_state()))
        if self._trainer is not None:
            trainer_arrays, head["trainer"] = self._trainer.get_state(options.with_experience)
            arrays.update(nested("trainer", trainer_arrays))
            if self._callback_states is not None:
                of_callbacks, head[CALLBACKS] = self._callback_states.get_state()
                arrays.update(of_callbacks)
        elif self._restored is not None:  # restored, not trained since: what was restored goes on
            waiting = {name: values for name, values in self._restored.arrays.items() if _waits(name)}
            arrays.update(waiting if options.with_experience else _without_experience(waiting))
            head |= {name: self._restored.head[name] for name in ("trainer", CALLBACKS) if name in self._restored.head}
        return Snapshot(arrays, head)

    def _take_over_restored(self, trainer: Trainer) -> None:
        """Hands what restore() read to a trainer that was just made, once its optimizer is known."""
        if self._restored is None:
            return
        arrays, head = self._restored.arrays, self._restored.head
        restored = under("learner", arrays)
        slots = {name: values for name, values in restored.items() if not name.startswith("agent/")}
        ours = {name: values for name, values in self.learner.get_state().items() if not _counts_waiting(name)}
        state, collector = under("trainer", arrays), trainer.collector
        settings, obs_shape = self._settings or trainer.settings, collector.observation_space.shape
        check_fits(state, settings, collector.num_envs, obs_shape)
        with refusing_damage("what was restored"):
            self.learner.set_state({**ours, **slots})
            trainer.set_state(state, head["trainer"])
        self._restored = None

    def _known_num_envs(self) -> int | None:
        """As far as it is known before train() is called."""
        env = getattr(self, "env", None)
        if isinstance(env, list | tuple):
            return len(env)
        chosen = None if self._settings is None else self._settings.num_envs
        return chosen if isinstance(chosen, int) else None


def _check_meaning(theirs: Mapping[str, Any] | None, ours: Mapping[str, Any]) -> None:
    """Refuses parameters that stand for something else (CheckpointError).

    Args:
        theirs: What the file says; None: it does not.
        ours: Of the agent at hand.
    """
    ours = json.loads(json.dumps(ours))
    for name, value in (theirs or {}).items():
        if value != ours.get(name):
            raise CheckpointError(
                f"the checkpoint is of another agent: {name} is {value} there and {ours.get(name)} here; make the "
                "agent as it was"
            )


def _waits(name: str) -> bool:
    """Whether an array of a restored file is not taken over before train() is called."""
    return name.startswith(("learner/", "trainer/", f"{CALLBACKS}/")) and not name.startswith(_PARAMETERS)


def _counts_waiting(name: str) -> bool:
    """Whether an array is the count that files of 0.1.0 lack; the learner makes it of another one then."""
    return name.startswith("optimizer/") and name.endswith(WAITING_STEPS)


def _without_experience(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays of a trainer but for those of its replay pool."""
    return {name: values for name, values in arrays.items() if not name.startswith("trainer/experience/")}


def restore_param(path: str | os.PathLike[str]) -> dict[str, Array]:
    """The parameters in a file of save_param() or save(), by name; `agent.restore_param(path)` gives them to an agent.

    Raises:
        CheckpointError: The file is damaged, foreign or from a newer version.
    """
    arrays, _ = read_checkpoint(path)
    return {name.removeprefix(_PARAMETERS): values for name, values in arrays.items() if name.startswith(_PARAMETERS)}
