"""The base class of agents written in Keras on TensorFlow."""

from typing import Any

from note_rl.agent import Agent
from note_rl.learners.base import Learner
from note_rl.learners.keras import KerasLearner
from note_rl.settings import Budget
from note_rl.types import TrainResult


class RL(Agent):
    """An agent in Keras: inherit, call `super().__init__()` first, and give what training needs.

    - `self.env`: an environment, a list of them, an id or a factory;
    - `self.param`: the trainable variables, or a list of groups, one per optimizer;
    - `action(self, s)`: scores [B, A] of the actions in states s [B, *obs];
    - `__call__(self, s, a, next_s, r, d)`: the loss of a batch, one number or one per sample [B], or a list with one
      per parameter group. a [B] int, r [B], d [B] (1 where the task ended). A sixth argument receives importance
      weights [B]. `self.discount` [B] is gamma * (1 - d); on-policy, `self.log_prob_old`, and where the agent has
      `value(s)` also `self.advantage`, `self.return_` and `self.value_old`, are [B] as well;
    - optionally `update_param(self)`: updates target networks;
    - optionally `acting_layers(self)`: the dense layers that action() consists of, for acting in NumPy.
    """

    def _make_learner(self) -> Learner:
        return KerasLearner(self)

    def train(
        self,
        train_loss: Any = None,
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
            train_loss: A Keras metric that is updated with the loss of every phase.
            optimizer: A Keras optimizer, or a list with one per parameter group; None: the one used before.
            episodes: Episodes in this call.
            total_steps: Environment steps over the agent's life.
            pool_network: Worker processes; not available yet, so environments are stepped in this process.
            jit_compile: Whether updates are compiled with XLA; "auto" means yes.
            callbacks: See `note_rl.callbacks`.
            p: Progress lines in all; 0 is silent.

        Raises:
            NoteRLError: Settings, environment and agent do not fit each other.
            DivergedError: The loss became infinite or not a number.
        """
        metric = [] if train_loss is None else [_MetricUpdate(train_loss)]
        budget = Budget(total_steps=total_steps, episodes=episodes)
        return self._train(optimizer, budget, callbacks=[*metric, *(callbacks or ())], jit_compile=jit_compile, p=p)


class _MetricUpdate:
    """Feeds the loss of each gradient step to a Keras metric."""

    def __init__(self, metric: Any) -> None:
        self.metric = metric

    def on_batch_end(self, batch: int, logs: dict[str, float]) -> None:
        self.metric.update_state(logs["loss"])
