"""The base class of agents written in Keras on TensorFlow.

The manuals' `rl` is this module as well: `from note_rl import rl` gives rl.EpsGreedyQPolicy, rl.SoftmaxPolicy,
rl.GaussianWhiteNoiseProcess and whatever else is in `note_rl.policy` and `note_rl.noise`. TensorFlow is imported when
an agent first learns or acts, so that users of PyTorch can do the same.
"""

from typing import TYPE_CHECKING, Any, cast

from note_rl import policy
from note_rl.collect.contract import check_parts
from note_rl.distributed.distributed_arguments import distributed_budget, global_batch_first
from note_rl.distributed.limits import check_can_be_served, check_can_be_shared
from note_rl.distributed.minibatch_shares import say_if_slower
from note_rl.errors import SettingsError
from note_rl.learners.base import Learner, parameter_groups
from note_rl.policy import noise
from note_rl.settings import Budget
from note_rl.settings.switch_names import DEVICE
from note_rl.training.agent import Agent
from note_rl.training.agent_pickling import remade
from note_rl.types import TrainResult

if TYPE_CHECKING:
    from note_rl.learners.keras.learner import KerasLearner


class RL(Agent):
    """An agent in Keras: inherit, call `super().__init__()` first, and give what training needs.

    - `self.env`: an environment, a list of them, an id or a factory;
    - `self.param`: the trainable variables, or a list of groups, one per optimizer;
    - `action(self, s)`: scores [B, A] of the actions in states s [B, *obs];
    - `__call__(self, s, a, next_s, r, d)`: the loss of a batch, one number or one per sample [B], or a list with one
      per parameter group. a [B] int, r [B], d [B] (1 where the task ended). A sixth argument receives importance
      weights [B]. `self.discount` [B] is gamma * (1 - d); on-policy, `self.log_prob_old`, and where the agent has
      `value(s)` also `self.advantage`, `self.return_` and `self.value_old`, are [B] as well;
    - or, in place of `__call__`, `update(self, batch, optimizers)`: takes an update from a minibatch by itself, as
      natural gradients and line searches need. `batch.obs`, `batch.advantage` and so on are tensors, `optimizers` those
      that train() was given; it returns what it has reached, a loss [] in all or one per parameter group.
      `self.minimise(function, optimizer)` takes a step along the gradient of a loss, scaled to `max_grad_norm`. In
      Keras it is compiled as losses are, so it is written in TensorFlow's terms. What measures losses (gradient noise,
      the search for a learning rate by the loss) does not go with it;
    - where samples are sequences (sequences=True), s is [B, T, *obs], a, r and d are [B, T], and `self.ended` [B, T] is
      1 where an episode ended: the class declares `batch_attributes = ("ended",)`. With "behaviour" in it, it finds
      what action() answered when it acted as `self.behaviour` [B, T, A];
    - where the environment tells which actions it allows, `self.action_mask` and `self.next_action_mask` [B, A] are 1
      for those that it allowed in s and in next_s, else 0; elsewhere they are None. Acting heeds them by itself;
    - with "importance_ratio" in `batch_attributes`, a loss of probabilities may learn from `EpsGreedyQPolicy`:
      `self.importance_ratio` [B] is pi_old(a|s) / mu(a|s) of its own probabilities and of the policy that chose, and
      `self.log_prob_old` is that of pi_old. Under `SoftmaxPolicy` it is None;
    - optionally `self.prioritized_replay.update(TD)` or `.update(TD, ratio)` inside `__call__`: hands errors [B] (and
      probability ratios [B]) over, from which prioritized replay takes its priorities;
    - optionally `self.couples_samples = True`, where samples of a batch influence each other's loss on purpose: a loss
      for which they do is refused otherwise, as it is usually [B] against [B, 1]. Where that is r and d against
      values of shape [B, 1] and nothing else, they are given as [B, 1], which is logged once;
    - optionally `reward(self, s, a, next_s)`: the learned reward [B] (IRL=True), with demonstrations at hand in
      `__call__` as `self.expert_obs` and `self.expert_action`;
    - with several agents (MARL=True) `action(self, s, i)` of agent i;
    - optionally `update_param(self)`: updates target networks; where it copies, and set() does not say how often, it is
      called every 100 gradient steps;
    - layers are called with `training=True` within `__call__`, if their network learns, and with False otherwise: in
      `action`, `value` and `reward`, and target networks always. What you write yourself holds;
    - optionally `adjust_func(self)`: called after each training phase, for `adjust(...)` and its like; and
      `window_size_func(self, p)`, or `window_size_fn`: how many transitions to keep, or what
      `adjust_window_size(...)` gives;
    - optionally `acting_layers(self)` (or `acting_layers(self, i)`): the dense layers that action() consists of, for
      acting in NumPy;
    - optionally `self.normal_inputs = {"noise": (A,)}`: standard normal numbers that a loss draws on, offered to it as
      `self.noise` [B, A];
    - optionally `self.groups_at_sync = (0,)`: parameter groups that learn only in the steps that also move the targets.

    What the class declares is checked before training: `on_policy = True`, `action_kinds = ("discrete",)`,
    `batch_attributes = ("log_prob_old",)` and more; see `note_rl.learners.declarations.Declared`. Where it says
    nothing, set() decides.
    """

    framework = "keras"

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """For pickle, cloudpickle and deepcopy; see `note_rl.training.agent_pickling`."""
        return remade(self)

    def _make_learner(self) -> Learner:
        from note_rl.learners.keras.learner import KerasLearner

        return KerasLearner(self)

    def _move_to(self, device: str) -> None:
        raise SettingsError(
            "{}: Keras variables stay where they were made; give device to the agent, or make it under tf.device({!r})",
            *(DEVICE.at(device), device),
        )

    def train(
        self,
        train_loss: Any = None,
        optimizer: Any = None,
        episodes: int | None = None,
        *,
        total_steps: int | None = None,
        **options: Any,
    ) -> TrainResult:
        """Trains until `episodes` have ended or the agent has taken `total_steps` environment steps in its life.

        Args:
            train_loss: A Keras metric that is updated with the loss of every gradient step.
            optimizer: A Keras optimizer, or a list with one per parameter group; None: the one used before.
            episodes: Episodes in this call; schedules and beta go from their start to their end in each.
            total_steps: Environment steps over the agent's life; a rollout, or an episode where set() is given no
                train_freq, is brought to its end. A restored run that is to go on exactly as if it had
                never stopped is given the same number again; with episodes= it would count from this call on.
            **options: callbacks, p (progress lines, 0 is silent), jit_compile (XLA; "auto": where it pays), save_data,
                parallel_training_and_save, window_size and all others of `note_rl.training.train_options.TrainOptions`.

        Raises:
            NoteRLError: Settings, environment and agent do not fit each other, or a file cannot be written.
            DivergedError: The loss became infinite or not a number.
        """
        return self._train(optimizer, Budget(total_steps=total_steps, episodes=episodes), options, _fed(train_loss))

    @global_batch_first
    def distributed_training(  # noqa: PLR0913 (the manuals' arguments)
        self,
        optimizer: Any = None,
        strategy: Any = None,
        episodes: int | None = None,
        *,
        train_loss: Any = None,
        global_batch_size: int | None = None,
        num_episodes: int | None = None,
        total_steps: int | None = None,
        **options: Any,
    ) -> TrainResult:
        """Trains as train() does, with each gradient step on all replicas of a strategy of `tf.distribute`.

        Agent and optimizers are made within `strategy.scope()`. The batch that set() is given is that of all replicas
        together; each takes its share of the rows, gradients are averaged and then clipped, so that the numbers are
        those of train() up to rounding. XLA is left out, as it knows nothing of other devices. An agent that has
        trained under a `MirroredStrategy` goes on so in train().

        Under a `MultiWorkerMirroredStrategy` every process that TF_CONFIG names calls this with the same agent. The
        first one does everything but a part of the gradients: it collects, samples, evaluates, logs and saves; the
        others return when it has trained. Where it has one worker, this one trains as under a `MirroredStrategy`.

        Under a `ParameterServerStrategy` the chief calls this, and each worker takes steps along whole minibatches
        without waiting for the others: faster, and never the same run twice. Workers and servers call `serve()`.

        Args:
            optimizer: See `train`.
            strategy: A `tf.distribute.MirroredStrategy`, `MultiWorkerMirroredStrategy` or `ParameterServerStrategy`.
            episodes: See `train`.
            train_loss: See `train`.
            global_batch_size: The batch of all replicas together, in place of that of set(), until set() is called
                again. As in older manuals it may also stand first: distributed_training(128, optimizer, strategy, 100).
            num_episodes: The same as `episodes`.
            total_steps: See `train`.
            **options: See `train`.

        Raises:
            NoteRLError: As train(), another strategy, or what several replicas cannot do together.
            DivergedError: The loss became infinite or not a number.
            PeerError: A process has failed or died, or is silent for half a minute; it is named.
        """
        from note_rl.distributed.keras.replicated_update import replicate
        from note_rl.distributed.keras.served_update import be_served
        from note_rl.distributed.keras.strategies import kind_of
        from note_rl.distributed.keras.tf_config_processes import joined

        budget = distributed_budget(episodes, num_episodes, total_steps)
        check_parts(self)
        self._take_global_batch(global_batch_size)
        kind, learner = kind_of(strategy), cast("KerasLearner", self.learner)
        if kind == "parameter_server":
            check_can_be_served(self, self.settings)
            coordinator = be_served(learner, strategy)
            self._say_if_slower(coordinator.num_workers)
            with coordinator.naming_the_lost():
                return self._train(optimizer, budget, options, _fed(train_loss))
        check_can_be_shared(self, self.settings, strategy.num_replicas_in_sync)
        replicate(learner, strategy)
        if kind == "mirrored":
            self._say_if_slower(strategy.num_replicas_in_sync)
            return self._train(optimizer, budget, options, _fed(train_loss))
        with joined(strategy) as workers:
            return self._train_as_one_of(workers, optimizer, budget, options, _fed(train_loss))

    def _say_if_slower(self, size: int) -> None:
        batch_size = self.settings.experience.batch_size
        if size > 1 and isinstance(batch_size, int):
            say_if_slower(parameter_groups(self.param), batch_size, size)


def serve() -> bool:
    """Serves the chief of a ParameterServerStrategy, where TF_CONFIG says so; see `note_rl.distributed.keras.server`.

    The same program can then be started as every process: `if serve(): sys.exit()` stands before its strategy is made.

    Returns:
        Whether it has served until the chief had ended; False: this process is the chief, or stands alone.
    """
    from note_rl.distributed.keras import server

    return server.serve()


def __getattr__(name: str) -> Any:
    for module in (policy, noise):
        if not name.startswith("_") and hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module 'note_rl.rl' has no attribute {name!r}")


def _fed(train_loss: Any) -> list["_MetricUpdate"]:
    """The callbacks that feed the metric given to train(), if there is one (SettingsError: it is no metric)."""
    if train_loss is not None and not hasattr(train_loss, "update_state"):
        raise SettingsError(
            f"train_loss, the first argument, is a metric such as keras.metrics.Mean(), got {train_loss!r}; "
            "an optimizer is given as optimizer=..."
        )
    return [] if train_loss is None else [_MetricUpdate(train_loss)]


class _MetricUpdate:
    """Feeds the loss of each gradient step to a Keras metric."""

    changes_parameters = False

    def __init__(self, metric: Any) -> None:
        self.metric = metric

    def on_batch_end(self, batch: int, logs: dict[str, float]) -> None:
        self.metric.update_state(logs["loss"])
