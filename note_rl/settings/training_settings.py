"""The arguments of set() and train(), checked and in clear names. Every cross-check of what they become lives here."""

from collections.abc import Mapping
from dataclasses import dataclass

from note_rl.errors import SettingsError
from note_rl.errors.wording import Part, choice, out_of_range
from note_rl.policy import Policy
from note_rl.settings.adaptive import Adaptive
from note_rl.settings.experience import ExperienceSettings, ReplaySettings, RolloutSettings
from note_rl.settings.plateau import Plateau, plateau
from note_rl.settings.schedules import Schedule
from note_rl.settings.signals import check_signal
from note_rl.settings.switch_names import DATASET, FRAME_STACK, HER, IRL, MARL, OFFLINE, PPO, SEQUENCES, TRL
from note_rl.settings.workers import WorkerSettings
from note_rl.support.setting_fields import check_fields, documented, given, named, setting
from note_rl.support.value_kinds import MULTIPLIED_BY, SHARE, Count, Described, Number, count_or_auto, device, flag

_ADAPTIVE = "be Adaptive(signals=[...], parameters={...}) of note_rl.settings"


@documented
@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings of a run besides the agent, the optimizer and the budget.

    Attributes:
        experience: Replay, rollouts or sequences, with its numbers.
        policy: How actions are explored; `note_rl.policy.exploration` makes one of several.
    """

    experience: ExperienceSettings
    policy: Policy
    num_envs: int | str | None = setting(
        None,
        count_or_auto,
        text='Environments stepped together; None: as many as the agent\'s `env` holds, or one; "auto": chosen by '
        "measuring when training begins, so not the same on every machine.",
    )
    max_grad_norm: float | None = setting(
        None,
        Number(0.0, above=True, hint="; leave it out for no clipping"),
        text="Gradients of each parameter group are scaled down to this global norm; None: never.",
    )
    seed: int | None = setting(None, Count(0), text="Root of all randomness of the run; None: a fresh one.")
    schedules: Mapping[str, Schedule] = setting(
        dict,
        text="`learning_rate`, an attribute of the policy (eps, tau) or of the agent (clip, ...) over progress.",
    )
    trial_count: int | None = setting(None, Count(), text="Episodes averaged for `criterion`; None: no criterion.")
    criterion: float | None = setting(
        None,
        Number(),
        text="Training stops when the mean return of the last `trial_count` episodes reaches it; None: never.",
    )
    normalise_obs: bool = setting(
        False, flag, text="Observations are shifted and scaled by their running mean and deviation."
    )
    normalise_reward: bool = setting(
        False, flag, text="Rewards are scaled by the running deviation of the discounted return."
    )
    multi_agent: bool = setting(False, flag, manual="MARL", text="Several agents share each environment.")
    gamma: float | None = setting(
        None, SHARE, text="Discount of one step that the agent's own is replaced by; None: left."
    )
    gae_lambda: float | None = setting(
        None, SHARE, text="The same for the weight of long against short returns, with rollouts; None: left."
    )
    device: str | None = setting(
        None, device, text="Where the agent's parameters are moved before training; None: left where they are."
    )
    matmul: str = setting(
        "auto",
        MULTIPLIED_BY,
        text="PyTorch on a CPU: who takes large products of matrices in recorded gradient steps. MKL is how PyTorch "
        'multiplies; "auto": oneDNN on CPUs of AMD from Zen 5 on, whose AVX-512 MKL leaves unused, else MKL.',
    )
    workers: WorkerSettings | None = setting(None, manual=None, text="Who steps the environments; None: this process.")
    plateau: Plateau | None = setting(
        None,
        Described("a `Plateau` of note_rl.settings", plateau),
        text="Lower learning rates, and an end of training, where returns no longer rise: `Plateau(...)`; None: "
        "neither.",
    )
    adaptive: Adaptive | None = setting(
        None, text="Which hyperparameters are changed while training goes on, and by what; None: none."
    )

    def __post_init__(self) -> None:
        """Refuses values out of range and contradictions."""
        check_fields(self)
        self._check_schedules()
        if self.criterion is not None and self.trial_count is None:
            count = named(type(self), "trial_count")
            raise SettingsError("{} needs {}: the mean of how many episodes?", given(self, "criterion"), count)
        if not isinstance(self.experience, ReplaySettings) and isinstance(self.num_envs, int):
            self.experience.for_envs(self.num_envs)
        if self.normalise_obs and self.experience.frame_stack > 1:
            raise SettingsError(
                "{} would turn the stored frames into floats of their own scale; leave it out and divide by 255 in "
                "the network",
                named(type(self), "normalise_obs"),
            )
        if self.multi_agent:
            self._check_multi_agent()
        if self.experience.offline:
            self._check_offline()
        if self.adaptive is not None and not isinstance(self.adaptive, Adaptive):
            raise SettingsError(out_of_range(named(type(self), "adaptive"), _ADAPTIVE, self.adaptive))
        if self.adaptive is not None and self.adaptive.mode != "off":
            for signal in self.adaptive.all_signals():
                check_signal(signal, self.experience)

    def _check_schedules(self) -> None:
        if not isinstance(self.schedules, Mapping):
            raise SettingsError(
                out_of_range(
                    named(type(self), "schedules"), "be a dict such as {'eps': Linear(1.0, 0.05)}", self.schedules
                )
            )
        for name, schedule in self.schedules.items():
            if not callable(schedule) or isinstance(schedule, type):
                rule = "be a schedule such as Linear(1.0, 0.05) or a function of progress (0 to 1)"
                raise SettingsError(out_of_range(f"schedules[{name!r}]", rule, schedule))

    def _check_offline(self) -> None:
        excluded: dict[Part, bool] = {
            named(type(self), "workers"): self.workers is not None,
            named(type(self), "criterion"): self.criterion is not None,
            choice('Plateau(by="episodes")'): self.plateau is not None and self.plateau.by == "episodes",
        }
        _refuse_together(OFFLINE, excluded, "no episodes are played but for evaluation")

    def _check_multi_agent(self) -> None:
        experience = self.experience
        if not isinstance(experience, ReplaySettings):
            way = PPO if isinstance(experience, RolloutSettings) else SEQUENCES
            raise SettingsError(
                "{} and {} cannot be combined: several agents are trained from replay; {}", MARL, way, way.leave_out()
            )
        excluded: dict[Part, bool] = {
            HER: experience.hindsight is not None,
            TRL: experience.trajectories,
            IRL: experience.learned_reward,
            FRAME_STACK: experience.frame_stack > 1,
            DATASET: experience.dataset is not None,
        }
        _refuse_together(MARL, excluded, "the latter is for one agent")


def _refuse_together(chosen: Part, excluded: Mapping[Part, bool], reason: str) -> None:
    for other, is_chosen in excluded.items():
        if is_chosen:
            raise SettingsError("{} and {} cannot be combined: {}; leave one of them out", chosen, other, reason)


@documented
@dataclass(frozen=True, kw_only=True)
class Budget:
    """How long a call of train() goes on."""

    total_steps: int | None = setting(
        None,
        Count(),
        text="Until the agent has taken this many environment steps in its life, earlier calls included; a rollout, or "
        "an episode where there is no `train_freq`, is brought to its end; None: no end.",
    )
    episodes: int | None = setting(
        None, Count(), text="Until this many episodes have ended in this call; None: no end."
    )

    def __post_init__(self) -> None:
        """Refuses both at once and values below 1."""
        if self.total_steps is not None and self.episodes is not None:
            raise SettingsError(
                "{} and {} both say how long; give one of them", given(self, "episodes"), given(self, "total_steps")
            )
        check_fields(self)

    def progress(self, num_env_steps: int, num_episodes: int) -> float:
        """Share of the budget used, 0 to 1; 0 throughout if there is no end."""
        if self.total_steps is not None:
            return min(num_env_steps / self.total_steps, 1.0)
        if self.episodes is not None:
            return min(num_episodes / self.episodes, 1.0)
        return 0.0
