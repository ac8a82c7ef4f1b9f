"""The base class of agents written in PyTorch."""

from typing import Any

from note_rl.agent import Agent
from note_rl.learners.base import Learner
from note_rl.learners.pytorch import PyTorchLearner
from note_rl.settings import Budget
from note_rl.types import TrainResult


class RL_pytorch(Agent):  # noqa: N801 (the manuals' name)
    """Inherit from this and give the same as for `note_rl.RL`, with torch tensors instead of TensorFlow's."""

    def _make_learner(self) -> Learner:
        return PyTorchLearner(self)

    def train(
        self,
        optimizer: Any = None,
        episodes: int | None = None,
        *,
        total_steps: int | None = None,
        pool_network: bool = False,
        jit_compile: bool | str = "auto",
        callbacks: Any = (),
        p: int | None = None,
    ) -> TrainResult:
        """Trains until `episodes` have ended or the agent has taken `total_steps` environment steps in its life.

        Args:
            optimizer: A torch optimizer, or a list with one per parameter group; None: the one used before.
            episodes: Episodes in this call.
            total_steps: Environment steps over the agent's life.
            pool_network: Worker processes; not available yet, so environments are stepped in this process.
            jit_compile: Updates run eagerly for now, whatever is said here.
            callbacks: See `note_rl.callbacks`.
            p: Progress lines in all; 0 is silent.

        Raises:
            NoteRLError: Settings, environment and agent do not fit each other.
            DivergedError: The loss became infinite or not a number.
        """
        budget = Budget(total_steps=total_steps, episodes=episodes)
        return self._train(optimizer, budget, callbacks=callbacks or (), jit_compile=jit_compile, p=p)
