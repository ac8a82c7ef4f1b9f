"""Common base of both base classes: settings, training, saving, evaluation. Delegation only."""

import os
from collections.abc import Callable, Mapping
from operator import is_not
from pathlib import Path
from typing import Any, get_args

import numpy as np

from note_rl.collect.agent_recipe import Rebuildable
from note_rl.collect.contract import check_calls, check_made, check_parts
from note_rl.collect.evaluation import ActingIn, Greedy, evaluate
from note_rl.collect.policy_runner import PolicyRunner
from note_rl.collect.predictor import Predictor
from note_rl.environments import EnvLike, as_factory, check_same_spaces, for_evaluation
from note_rl.environments.multi_agent import joint_environments
from note_rl.errors import SettingsError
from note_rl.learners.policy_function import ExportedPolicy, ExportFormat
from note_rl.learners.priorities import PrioritizedReplay
from note_rl.learners.reports import Reports
from note_rl.policy import Policy, exploration
from note_rl.settings.set_arguments import settings_from_set, with_defaults, with_former
from note_rl.support.value_kinds import OneOf, checked_arguments
from note_rl.training.adjust_methods import Adjustable
from note_rl.training.counts import Counted
from note_rl.training.pictures import Pictured
from note_rl.training.policy_files import export_policy
from note_rl.training.trainable import Trainable
from note_rl.types import Array, Evaluation


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
        self._predictor: tuple[Any, Predictor] | None = None  # with the environment and settings that it is for
        self._bookkeeping = frozenset({*vars(self), "stop_training"})  # attributes that no loss depends on

    def default_policy(self) -> Policy | None:
        """The policy for action()'s answers until set() is called; None: they are values of actions, or the actions."""
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
                their gradients scaled down to `max_grad_norm` if set() was given one.

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
                trial_count, criterion: stop when the mean return of `trial_count` episodes reaches the criterion.
                plateau: lower learning rates, and stop, when returns no longer rise: `note_rl.settings.Plateau`.
                PPO: on-policy: collect, train for some epochs, forget.
                rollout_steps, num_epochs: steps per environment (2,048) and passes (10) of each rollout (PPO).
                target_kl: passes end after the one with an approximate KL of more than 1.5 times this (PPO).
                sequences: each rollout is learned from once and joins a pool, whose sequences are read again; batch
                then counts sequences. sequence_length: steps of each, and of a rollout (20). replay_ratio: gradient
                steps on the pool per rollout, on average (4).
                HER: hindsight: True, "future", "final", "episode" or a `Hindsight`.
                PR: prioritized replay (or rollout, with PPO), with initial_TD, alpha, beta, initial_ratio, lambda_.
                TRL: triplets of one trajectory. MARL (or MA): several agents.
                IRL: learned reward; expert: demonstrations.
                dataset: recorded steps that the pool begins with: the id of a Minari data set, or `RecordedSteps`.
                offline: nothing is collected, what is learned from is the data set alone.
                frame_stack: frames shown together. num_envs: environments stepped together, or "auto".
                normalise_obs, normalise_reward: by running moments.
                gamma, gae_lambda: replace the agent's own. max_grad_norm: global norm of gradients.
                device: where parameters are moved. matmul: who multiplies large matrices (PyTorch).
                seed: root of the randomness of environments, exploration and sampling. Weights are drawn by the
                framework when the networks are made: call note_rl.seeding.seed_everything(seed) before that.
                schedules: values over training progress, by name.
                adaptive: which hyperparameters are changed while training goes on: `note_rl.settings.Adaptive`.

        Raises:
            SettingsError: Arguments that are unknown, out of range or contradict each other.
        """
        check_made(self)
        merged = with_former(self._set_arguments, arguments)
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

    def predict(
        self,
        observation: Any,
        state: Mapping[str, Array] | None = None,
        episode_start: Array | bool | None = None,
        deterministic: bool = True,
        action_masks: Array | None = None,
    ) -> tuple[Array, dict[str, Array] | None]:
        """Actions for one observation, or for several stacked along a first axis; the form is Stable-Baselines3's.

        Args:
            observation: As `env` shows it, or [E, ...] of E of them.
            state: Of a recurrent agent (`note_rl.learners.declarations.Declared.initial_state`): what the last call
                returned, arrays [E, ...] by name; None: episodes begin. Other agents have none.
            episode_start: Whether an observation is the first of its episode, one or [E], so that nothing is remembered
                from before it. Only a recurrent agent, or one that is shown several frames together, needs it; None:
                the first call (of a recurrent agent: one without a state) begins an episode, others go on with it.
            deterministic: Without exploration, as agents are evaluated; False: exploring as at the end of training.
            action_masks: Which of Discrete actions are allowed, [A] or [E, A]; None: all.

        Returns:
            An action, or [E, ...] actions, as `env.step` takes them; and the state, None of an agent without one.

        Raises:
            EnvironmentMismatchError: Observations of another shape, or masks that are none.
            SettingsError: Several agents act, or exploration is asked for before set() was given any.
        """
        if self._multi_agent:
            raise SettingsError("predict() is for one agent, and several act in this environment: use greedy_in()")
        purpose = (self.env, self.evaluation_env, self._settings)
        if self._predictor is None or any(map(is_not, self._predictor[0], purpose)):
            env = as_factory(self._env_to_evaluate_in())()
            self._predictor = (purpose, Predictor(self, env, np.random.default_rng()))
            env.close()
        return self._predictor[1](observation, state, episode_start, deterministic, action_masks)

    @checked_arguments(format=OneOf(get_args(ExportFormat)))
    def export(
        self, path: str | os.PathLike[str], format: ExportFormat = "onnx", about: Mapping[str, str] | None = None
    ) -> ExportedPolicy:
        """Writes the policy alone, for programs that act by it: no critics, no targets, nothing to train with.

        Its input `observation` [B, *obs] is what environments show (one array: dictionaries are flattened, and frames
        that are shown together are together), normalised inside where training did so. Its outputs are `action` [B] or
        [B, *action], without exploration and as `env.step` takes it, and `scores` [B, ...], what action() answers:
        values, probabilities, or numbers before they are brought into bounds. B may differ from call to call.

        Of a recurrent agent it has further inputs: `episode_start` [B], as predict() takes it, and what action() reads
        of the state, under the names of initial_state() and in rows of single precision [B, S]. The outputs `next_`
        and the name are the state for the next call. Where `episode_start` is true the state is not read.

        What was written is read again and compared with the agent in some observations before it takes its place.

        Args:
            path: A file, or for "saved_model" a folder; replaced in one move.
            format: "onnx"; "torch", a program for `torch.export.load`, of an agent in PyTorch; "saved_model", for
                `tf.saved_model.load`, of one in Keras.
            about: Anything else that is worth knowing, kept in ONNX models and programs of PyTorch.

        Returns:
            What was written, in shapes and words.

        Raises:
            SettingsError: Several agents act, the format is another framework's, a package is missing, or the policy
                chooses in a way of its own.
            AgentContractError: action() does what the format has no words for.
            NoteRLError: What was written does not act as the agent, or cannot be written.
        """
        check_parts(self)
        check_calls(self, ("action",), self._multi_agent)
        if self._multi_agent:
            raise SettingsError("export() writes the policy of one agent, and several act in this environment")
        return export_policy(self, self._env_to_evaluate_in(), Path(path), format, about or {})

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
