"""The base class of agents written in PyTorch."""

from typing import Any

from note_rl.errors import SettingsError
from note_rl.learners.base import Learner
from note_rl.learners.pytorch.learner import PyTorchLearner
from note_rl.learners.pytorch.tensors import named_tensors
from note_rl.settings import Budget
from note_rl.training.agent import Agent
from note_rl.training.pickling import state_of, take_state
from note_rl.types import TrainResult


class RL_pytorch(Agent):  # noqa: N801 (the manuals' name)
    """Inherit from this and give the same as for `note_rl.RL`, with torch tensors instead of TensorFlow's.

    Further:

    - networks are in train mode within `__call__`, if they learn, and in eval mode otherwise: in `action`, `value` and
      `reward`, and target networks always. Layers that you put into eval mode within a network stay so, and all are as
      you left them afterwards;
    - optionally the class attribute `traceable = True`: `__call__` does the same with every minibatch and reads nothing
      but tensors, scheduled values and plain numbers of the agent, so that jit_compile="auto" may record its steps.
      Each class says it for itself, as a subclass may override what is recorded.
    """

    framework = "torch"

    def __getstate__(self) -> dict[str, Any]:
        """For pickle, cloudpickle and deepcopy; see `note_rl.training.pickling`."""
        return state_of(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        take_state(self, state)

    def _make_learner(self) -> Learner:
        return PyTorchLearner(self)

    def _move_to(self, device: str) -> None:
        try:
            for _, tensor in named_tensors(self):
                tensor.data = tensor.data.to(device)  # the same tensors, so that optimizers go on knowing them
        except (RuntimeError, AssertionError) as error:
            raise SettingsError(f"device={device!r} cannot be used: {str(error).splitlines()[0]}") from error

    def train(
        self, optimizer: Any = None, episodes: int | None = None, *, total_steps: int | None = None, **options: Any
    ) -> TrainResult:
        """Trains until `episodes` have ended or the agent has taken `total_steps` environment steps in its life.

        Args:
            optimizer: A torch optimizer, or a list with one per parameter group; None: the one used before.
            episodes: Episodes in this call; schedules and beta go from their start to their end in each.
            total_steps: Environment steps over the agent's life; a rollout, or an episode where set() is told no
                train_freq, is brought to its end. A restored run that is to go on exactly as if it had
                never stopped is given the same number again; with episodes= it would count from this call on.
            **options: callbacks, p (progress lines, 0 is silent), save_data, parallel_training_and_save, window_size,
                jit_compile and all others of `note_rl.training.train_options.TrainOptions`.

        Raises:
            NoteRLError: Settings, environment and agent do not fit each other, or a file cannot be written.
            DivergedError: The loss became infinite or not a number.
        """
        return self._train(optimizer, Budget(total_steps=total_steps, episodes=episodes), options)
