"""What both base classes share: settings, training, saving, evaluation. Delegation only."""

from collections.abc import Callable
from typing import Any

from note_rl.collect.acting import PolicyRunner
from note_rl.collect.contract import check_calls, check_made, check_parts
from note_rl.collect.evaluation import ActingIn, Greedy, evaluate
from note_rl.collect.recipe import Rebuildable
from note_rl.environments import EnvLike, check_same_spaces, for_evaluation
from note_rl.environments.multi_agent import joint_environments
from note_rl.learners.priorities import PrioritizedReplay
from note_rl.learners.reports import Reports
from note_rl.policy import Policy, exploration
from note_rl.settings.set_arguments import settings_from_set, with_defaults
from note_rl.support.checking import checked_arguments
from note_rl.training.adjusting import Adjustable
from note_rl.training.counts import Counted
from note_rl.training.pictures import Pictured
from note_rl.training.trainable import Trainable
from note_rl.types import Evaluation


class Agent(Trainable, Rebuildable, Counted, Adjustable, Pictured):
    """Base of `RL` and `RL_pytorch`. A subclass gives `env`, `param`, `action` and `__call__`; see `note_rl.RL`.

    What its class may declare besides stands in `note_rl.learners.declarations.Declared`.

    Attributes:
        param: The weights that are trained.
        evaluation_env: What evaluate() plays in, where that is not `env` without its training wrappers: for example
            without wrappers that clip rewards. An environment, id, list or factory.
    """

    param: Any
    evaluation_env: EnvLike | None = None

    def __init__(self) -> None:
        super().__init__()
        self.prioritized_replay = PrioritizedReplay()
        self._reports = Reports()
        self._set_arguments: dict[str, Any] = {}
        self._bookkeeping = frozenset({*vars(self), "stop_training"})  # attributes that no loss depends on

    def default_policy(self) -> Policy | None:
        """What action()'s answers mean as long as set() was not called; None: values of actions, or the actions."""
        return None

    def report(self, **values: Any) -> None:
        """Inside `__call__`: says numbers for people to look at, such as `self.report(entropy=entropy, q_mean=q)`.

        They are averaged over the gradient steps of a training phase, without slowing it down, and read from
        `self.reported`; `tuner` logs them as `train/entropy`. The gradient does not pass through them.

        Args:
            **values: Tensors of any shape, of which the mean is taken, or numbers. Names that training logs itself
                (loss, learning_rate, ...) stay training's.

        Raises:
            AgentContractError: Something else than tensors and numbers, or too many of them.
        """
        self._reports.add(values)

    def update_param(self) -> None:
        """Updates the target networks; agents without any leave it as it is."""

    def minimise(self, loss: Callable[[], Any], optimizer: Any) -> Any:
        """Within update(): takes one step of an optimizer along the gradient of a loss.

        Args:
            loss: Called once, without arguments; returns a tensor of one number.
            optimizer: One of those that update() was given. Those of its parameters change on which the loss depends,
                their gradients scaled down to `max_grad_norm` if set() was told one.

        Returns:
            The loss from before the step, as a tensor.
        """
        return self.learner.minimise(loss, optimizer)

    def set(self, **arguments: Any) -> None:
        """Says how to explore and what to train from. A later call changes only what it names.

        Args:
            **arguments: policy, noise: exploration (one of them is required once); a list has one per environment, or
                one per agent with MARL.
                pool_size: capacity of the replay pool in transitions, all environments together (10,000).
                batch: minibatch size (64).
                num_updates or gradient_steps: gradient steps per training phase; None: one shuffled pass over the pool.
                train_freq: environment steps per training phase; None: an episode.
                learning_starts: environment steps before the first gradient step.
                num_steps: n of n-step returns; the agent must have `gamma`.
                update_batches, update_steps: gradient or environment steps between calls of update_param(); neither:
                every gradient step, or every 100 where it copies. With PPO, update_steps is the length of a rollout in
                steps of all environments together.
                trial_count, criterion: stop when the mean return of so many episodes reaches the criterion.
                plateau: lower learning rates, and stop, when returns no longer rise: `note_rl.settings.Plateau`.
                PPO: on-policy: collect, train for some epochs, forget.
                rollout_steps, num_epochs: steps per environment (2,048) and passes (10) of each rollout (PPO).
                target_kl: passes end after the one with an approximate KL of more than 1.5 times this (PPO).
                sequences: each rollout is learned from once and joins a pool, whose sequences are read again; batch
                then counts sequences. sequence_length: steps of each, and of a rollout (20). replay_ratio: gradient
                steps on the pool per rollout, on average (4).
                HER: hindsight: True, "future", "final", "episode" or a `Hindsight`.
                PR: prioritized replay (or rollout, with PPO), with initial_TD, alpha, beta, initial_ratio, lambda_.
                TRL: triplets of one trajectory. MARL: several agents. IRL: learned reward; expert: demonstrations.
                frame_stack: frames shown together. num_envs: environments stepped together, or "auto".
                normalise_obs, normalise_reward: by running moments.
                gamma, gae_lambda: replace the agent's own. max_grad_norm: global norm of gradients.
                device: where parameters are moved.
                seed: root of the randomness of environments, exploration and sampling. Weights are drawn by the
                framework when the networks are made: call note_rl.seeding.seed_everything(seed) before that.
                schedules: values over training progress, by name.
                adaptive: which hyperparameters are changed while training goes on: `note_rl.settings.Adaptive`.

        Raises:
            SettingsError: Arguments that are unknown, out of range or contradict each other.
        """
        check_made(self)
        merged = {**self._set_arguments, **arguments}
        self.settings = settings_from_set(**with_defaults(type(self).set_defaults, merged))
        self._set_arguments = merged

    @checked_arguments()
    def evaluate(self, num_episodes: int = 10, *, seed: int = 0, acting_in: ActingIn | None = None) -> Evaluation:
        """Plays episodes in fresh environments: in `evaluation_env` if there is one, else in `env`.

        Args:
            num_episodes: Episodes to play.
            seed: Of the environments; the same seed gives the same episodes for the same parameters.
            acting_in: How to act, given the action space; None: without exploration, by `greedy_in`.
        """
        check_parts(self)
        check_calls(self, ("action",), self._multi_agent)
        return self._evaluate(self._seen_as_one(self._env_to_evaluate_in()), num_episodes, seed, acting_in)

    def _env_to_evaluate_in(self) -> Any:
        if self.evaluation_env is None:
            return for_evaluation(self.env)
        check_same_spaces(*map(self._seen_as_one, (self.env, self.evaluation_env)))
        return for_evaluation(self.evaluation_env)

    def _seen_as_one(self, env: Any) -> Any:
        return joint_environments(env, getattr(self, "reward_done_func_ma", None)) if self._multi_agent else env

    def _evaluate(self, env: EnvLike, num_episodes: int, seed: int, acting_in: ActingIn | None = None) -> Evaluation:
        return evaluate(acting_in or self.greedy_in, env, num_episodes, seed)

    def greedy_in(self, action_space: Any) -> Greedy:
        """The agent acting without exploration in environments of this action space, from the start of an episode."""
        settings = self._settings
        if settings is None:
            policy = self.default_policy()
        else:
            policy = exploration(settings.policy, None, per_agent=self._multi_agent)
        self.learner.actor.parameters_changed()  # by anybody, since it acted last
        act = PolicyRunner(self.learner, self.obs_normaliser, self._multi_agent)
        return Greedy(act, policy, action_space, 1 if settings is None else settings.experience.frame_stack)
