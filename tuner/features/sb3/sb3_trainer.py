"""A run of an algorithm of Stable-Baselines3."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np

from note_rl.environments import EnvFactory, for_evaluation
from note_rl.errors import DivergedError, EnvironmentMismatchError
from tuner.errors import UserError
from tuner.features.sb3.sb3_algorithms import find
from tuner.features.sb3.sb3_grid import BudgetSpentError, StudyGrid
from tuner.features.sb3.sb3_internals import count_progress_to, import_quickly
from tuner.features.sb3.sb3_policies import ACTIVATION, SIZES, check_arguments, policy_arguments
from tuner.features.sb3.sb3_state import has_diverged, put_back, put_rollout_back, set_random_numbers
from tuner.runs.environment_probe import in_short
from tuner.runs.function_state import resume
from tuner.support.names import did_you_mean
from tuner.trial.context import current_trial
from tuner.trial.messages import JsonDict

NOISES: Final = ("normal", "ornstein_uhlenbeck")
GOALS: Final = ("future", "final", "episode")
_OF_GOALS: Final = {"observation", "achieved_goal", "desired_goal"}


class Sb3:
    """An algorithm in the place of an agent. Called with a seed it learns, within a trial or a run of `tuner train`.

    Args:
        algorithm: The class: PPO, SAC, TQC ...
        env: As the group `env` has it.
        wrapper: Around each environment, by name, from inside to outside.
        wrapper_training: The same, outside of those, where evaluations have none.
        total_steps: Environment steps, all environments together.
        num_points: Evaluations, on an even grid.
        num_episodes: Of each.
        policy: Of the library; None: the one that fits the observations.
        net_arch: Sizes of the hidden layers, or {pi: [...], vf: [...]}; None: the library's own.
        activation_fn: Of torch.nn, by name; None: the library's own.
        policy_kwargs: Further arguments of the policy.
        linear: Settings that fall to 0 in a straight line.
        normalize_obs: Whether VecNormalize scales observations.
        normalize_reward: Whether VecNormalize scales rewards.
        action_noise: normal or ornstein_uhlenbeck; None: none.
        action_noise_std: Its standard deviation.
        device: cpu, cuda or auto.
        imports: The framework, for executors: their processes have it imported before a run begins.
        hindsight: future, final or episode: goals of HerReplayBuffer, for observations that hold goals; None: none.
        num_hindsight_goals: Of them, for each transition.
        save_replay: Whether checkpoints hold the replay pool.
        settings: Of the class itself.

    Attributes:
        environment: Makes the environments of training.
        library: Where the algorithm is from, as it is typed (`agent.library=...`).

    Raises:
        UserError: One of them is wrong.
    """

    library: ClassVar[str] = "sb3"

    def __init__(  # noqa: PLR0913 - the keys of conf/agent/sb3.yaml
        self,
        algorithm: str,
        env: Mapping[str, Any],
        wrapper: Mapping[str, Any] | None = None,
        wrapper_training: Mapping[str, Any] | None = None,
        total_steps: int = 50_000,
        num_points: int = 9,
        num_episodes: int = 10,
        policy: str | None = None,
        net_arch: Any = None,
        activation_fn: str | None = None,
        policy_kwargs: Mapping[str, Any] | None = None,
        linear: list[str] | None = None,
        normalize_obs: bool = False,
        normalize_reward: bool = False,
        action_noise: str | None = None,
        action_noise_std: float = 0.1,
        device: str = "cpu",
        imports: str = "torch",
        hindsight: str | None = None,
        num_hindsight_goals: int = 4,
        save_replay: bool = True,
        **settings: Any,
    ) -> None:
        self._kind = find(algorithm, self.library)
        self._env, self._settings = dict(env), self._kind.checked(settings)
        kwargs, most = env.get("kwargs") or {}, env.get("max_episode_steps")
        inner, outer = (tuple((named or {}).values()) for named in (wrapper, wrapper_training))
        self.environment = EnvFactory(str(env["id"]), kwargs, inner, most, outer)
        self._total_steps, self._num_points, self._num_episodes = total_steps, num_points, num_episodes
        self._policy, self._linear, self._device = policy, list(linear or []), device
        self._arguments = policy_arguments(policy_kwargs or {}, {SIZES: net_arch, ACTIVATION: activation_fn})
        self._normalize = {"norm_obs": normalize_obs, "norm_reward": normalize_reward}
        self._noise, self._noise_std = action_noise, action_noise_std
        if imports != "torch":
            raise UserError(f"agent.imports={imports}: Stable-Baselines3 needs PyTorch; leave imports out")
        self._hindsight, self._num_goals, self._saves_replay = hindsight, num_hindsight_goals, save_replay
        self._check()

    @property
    def _num_envs(self) -> int:
        return int(self._env.get("num_envs", 1))

    @property
    def _interval(self) -> tuple[int, str]:
        """Steps or episodes between updates."""
        interval = self._settings.get("train_freq", 1)
        return interval if isinstance(interval, tuple) else (interval, "step")

    def _check(self) -> None:
        kind = self._kind
        if re.fullmatch(r"cpu|auto|mps|cuda(:\d+)?", self._device) is None:
            raise UserError(f"agent.device={self._device} must be cpu, cuda, cuda:1 or auto")
        if self._num_goals < 1:
            raise UserError(f"agent.num_hindsight_goals={self._num_goals} must be 1 or more")
        if self._env.get("num_envs") == "auto":
            raise UserError(
                "agent=sb3 takes a number of environments; auto, which measures what is fastest, is for agents of this "
                "project only: type env.num_envs=4 or so"
            )
        self._check_schedules()
        if self._noise is not None and self._noise not in NOISES:
            raise UserError(f"agent.action_noise={self._noise} must be {' or '.join(NOISES)}, or null")
        if self._noise is not None and not kind.takes_noise:
            raise UserError(f"agent.action_noise={self._noise}: {kind.name} explores in its own way and takes none")
        if self._num_envs > 1 and "episode" in self._interval:
            raise UserError(
                f"agent.train_freq=[{self._interval[0]},episode] is for one environment: type env.num_envs=1, or "
                "agent.train_freq in steps"
            )
        self._check_budget()
        self._check_world()

    def _check_schedules(self) -> None:
        kind = self._kind
        for name in self._linear:
            if name not in kind.schedules:
                near = did_you_mean(name, kind.schedules)
                raise UserError(
                    f"agent.linear=[{name}]: {kind.name} of {kind.package} cannot change it during a run{near}"
                )
            if not isinstance(self._settings.get(name), int | float):
                raise UserError(f"agent.linear=[{name}] needs agent.{name}, the value that it begins with")

    def _check_world(self) -> None:
        """Refuses an environment that the algorithm cannot act in."""
        kind, world = self._kind, _world_of(self.environment)
        kind.check_actions(world.actions, str(self._env["id"]))
        typed = f"agent.policy={self._policy}" if self._policy else f"agent.algorithm={kind.name} in {self._env['id']}"
        policy = self._policy_in(world)
        kind.check_policy(policy, typed)
        self._policy_kwargs = check_arguments(kind, policy, self._arguments)
        if self._hindsight is not None:
            self._check_hindsight(world)

    def _policy_in(self, world: "_World") -> str:
        """The policy as typed, or the one that fits the observations; scaled images are images no more."""
        seen = "Mlp" if world.observations == "Cnn" and self._normalize["norm_obs"] else world.observations
        return self._policy or f"{seen}{'Lstm' if self._kind.name == 'RecurrentPPO' else ''}Policy"

    def _check_hindsight(self, world: "_World") -> None:
        typed = f"agent.hindsight={self._hindsight}"
        if self._hindsight not in GOALS:
            raise UserError(f"{typed} must be {', '.join(GOALS[:-1])} or {GOALS[-1]}, or null")
        if not self._kind.takes_hindsight:
            raise UserError(f"{typed}: {self._kind.name} has no replay pool; take SAC or TD3, or leave it out")
        if not world.has_goals:
            raise UserError(f"{typed} needs observations with goals, and {self._env['id']} shows none: leave it out")
        starts = int(self._settings.get("learning_starts", 0))
        if world.time_limit is not None and starts < world.time_limit * self._num_envs:
            raise UserError(
                f"{typed} learns from whole episodes, and one may take {world.time_limit} steps: take "
                f"agent.learning_starts={world.time_limit * self._num_envs} or more, not {starts} (in a study with "
                "~space.agent.learning_starts, which keeps it fixed)"
            )

    def _check_budget(self) -> None:
        """Refuses what would never learn within the budget."""
        settings, total = self._settings, self._total_steps
        if self._kind.is_on_policy and int(settings.get("n_steps", 0)) * self._num_envs >= total:
            raise UserError(
                f"agent.n_steps={settings['n_steps']} with env.num_envs={self._num_envs}: nothing is learned before "
                f"the first {settings['n_steps'] * self._num_envs} steps, and training.total_steps={total} ends by "
                f"then: take training.total_steps={2 * settings['n_steps'] * self._num_envs} or so, or fewer n_steps "
                "(in a study with ~space.agent.n_steps, which keeps them fixed)"
            )
        if int(settings.get("learning_starts", 0)) >= total:
            raise UserError(
                f"agent.learning_starts={settings['learning_starts']} is not within training.total_steps={total}: "
                "take fewer, or more total_steps"
            )

    def __call__(self, seed: int) -> None:
        """Learns to the end of the budget.

        Raises:
            UserError: It is called outside of a run.
            TrialInterrupted: The run is to end early.
            note_rl.errors.DivergedError: Weights, or what the networks give, are no longer finite.
        """
        trial = current_trial()
        if trial is None:
            raise UserError("agent=sb3 runs by tuner train or tuner tune only")
        library = self._imported()
        state = resume(trial)
        evaluated = for_evaluation(self.environment)
        sizes = (self._total_steps, self._num_points, self._num_episodes)
        points = StudyGrid(trial, evaluated, *sizes, seed, self._saves_replay)
        done = 0 if state is None else int(state["counters"]["num_timesteps"])
        model = self._model(library, seed if not done else _later(seed, done))
        if state is not None:
            put_back(model, state)
            if "replay" not in state and getattr(model, "replay_buffer", None) is not None:
                model.learning_starts += done
                trial.note("the replay pool was not saved: the run goes on with an empty one")
        try:
            if state is not None:
                points.go_on(model, state)
                set_random_numbers(state["random"])
            if done < self._total_steps:
                self._learn(model, points, self._total_steps - done, (state or {}).get("rollout"))
        except BudgetSpentError:
            pass
        except Exception as error:  # of PyTorch, or of an environment that was given such an action
            if isinstance(error, UserError | DivergedError) or not has_diverged(model, error):
                raise
            steps = int(model.num_timesteps)
            raise DivergedError(f"training diverged by step {steps}: {in_short(error)}") from error
        finally:
            model.get_env().close()

    def try_out(self, seed: int) -> None:
        """Makes the model as a run does, and nothing else.

        Raises:
            UserError: The class refuses its settings.
        """
        self._model(self._imported(), seed).get_env().close()

    def restored(self, seed: int, state: JsonDict) -> Any:
        """The model of a run with what was saved of it; its environment begins anew.

        Args:
            seed: Of the run.
            state: See `sb3_state.state_of`.
        """
        model = self._model(self._imported(), seed)
        put_back(model, state)
        return model

    def _imported(self) -> Any:
        return import_quickly(self._kind.package)

    def _activation_function(self, name: str) -> Any:
        return getattr(import_quickly("torch").nn, name)

    def _learn(self, model: Any, points: StudyGrid, steps: int, rollout: JsonDict | None) -> None:
        callbacks = import_quickly("stable_baselines3.common.callbacks")
        kept = [] if rollout is None else [rollout]

        class Grid(callbacks.BaseCallback):  # type: ignore[name-defined, misc]
            def _on_step(self) -> bool:
                points.at(self.model, self.locals.get("values"))
                return True

            def _on_rollout_start(self) -> None:
                for one in kept:
                    put_rollout_back(self.model.rollout_buffer, one)

            def _on_rollout_end(self) -> None:
                while kept:
                    self.model.n_steps += kept.pop()["pos"]

        for one in kept:
            model.n_steps -= one["pos"]  # which are left of the rollout
        extra = {}
        if self._kind.name == "MaskablePPO":
            extra["use_masking"] = model.get_env().has_attr("action_masks")
        count_progress_to(model, self._total_steps)
        model.learn(steps, callback=Grid(), log_interval=None, reset_num_timesteps=False, **extra)

    def _model(self, library: Any, seed: int) -> Any:
        vec = import_quickly("stable_baselines3.common.vec_env")
        monitor = import_quickly("stable_baselines3.common.monitor")
        env = vec.DummyVecEnv([lambda: monitor.Monitor(self.environment())] * self._num_envs)
        if any(self._normalize.values()):
            env = vec.VecNormalize(env, gamma=self._settings.get("gamma", 0.99), **self._normalize)
        settings = {**self._settings, **{name: _falling(self._settings[name]) for name in self._linear}}
        if self._noise is not None:
            settings["action_noise"] = self._action_noise(env)
        kwargs = dict(self._policy_kwargs)
        if isinstance(kwargs.get(ACTIVATION), str):
            kwargs[ACTIVATION] = self._activation_function(kwargs[ACTIVATION])
        if self._hindsight is not None:
            settings["replay_buffer_class"] = import_quickly("stable_baselines3").HerReplayBuffer
            goals = {"goal_selection_strategy": self._hindsight, "n_sampled_goal": self._num_goals}
            settings["replay_buffer_kwargs"] = goals
        policy = self._policy_in(_world_of(self.environment))
        settings.update(seed=seed % 2**31, policy_kwargs=kwargs or None, device=self._device, verbose=0)
        try:
            return getattr(library, self._kind.name)(policy, env, **settings)
        except (AssertionError, TypeError, ValueError) as error:
            raise UserError(
                f"{self._kind.name} of {self._kind.package} refuses its settings: {in_short(error)}"
            ) from error

    def _action_noise(self, env: Any) -> Any:
        noises = import_quickly("stable_baselines3.common.noise")
        kinds = {"normal": noises.NormalActionNoise, "ornstein_uhlenbeck": noises.OrnsteinUhlenbeckActionNoise}
        size = env.action_space.shape
        noise = kinds[str(self._noise)](np.zeros(size), np.full(size, self._noise_std))
        return noises.VectorizedActionNoise(noise, self._num_envs) if self._num_envs > 1 else noise


def _later(seed: int, done: int) -> int:
    """The seed of environments that go on: with the first one they would show the first episodes again."""
    return int(np.random.SeedSequence([seed, done]).generate_state(1)[0])


def _falling(value: float) -> Callable[[float], float]:
    return lambda remaining: value * max(0.0, remaining)


@dataclass(frozen=True)
class _World:
    """Properties of an environment, known once it was made.

    Attributes:
        actions: The class of its action space.
        observations: MultiInput, Cnn or Mlp: the beginning of the name of the policies for them.
        has_goals: Whether observations hold goals.
        time_limit: Steps of the longest episode; None: that is not known.
    """

    actions: str
    observations: str
    has_goals: bool
    time_limit: int | None


_WORLDS: Final[dict[str, _World]] = {}


def _world_of(make: EnvFactory) -> _World:
    """The properties of an environment; each is made for that only once."""
    key = repr(make)
    if key not in _WORLDS:
        try:
            env = make()
        except EnvironmentMismatchError:
            raise
        except Exception as error:  # of the environment's own code
            said = f"the environment of env.id={make.id} cannot be made: {in_short(error)}"
            raise EnvironmentMismatchError(said) from error
        try:
            space = env.observation_space
            parts = getattr(space, "spaces", None)
            is_image = getattr(space, "dtype", None) == np.uint8 and len(getattr(space, "shape", ()) or ()) == 3
            seen = "MultiInput" if type(space).__name__ == "Dict" else "Cnn" if is_image else "Mlp"
            has_goals = isinstance(parts, Mapping) and parts.keys() >= _OF_GOALS
            limit = getattr(env.spec, "max_episode_steps", None)
            _WORLDS[key] = _World(type(env.action_space).__name__, seen, has_goals, limit)
        finally:
            env.close()
    return _WORLDS[key]
