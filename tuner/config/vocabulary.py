"""The words of the command line for what the training core refuses.

Its classes keep the names of the manuals (`PPO=True`, `pool_size=`), which mean nothing to somebody who types settings.
Code of the user's own that calls `set()` is answered in those names.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from note_rl.errors import NoteRLError, SettingsError
from note_rl.errors.wording import Sentence, SettingName, Vocabulary, speaking
from tuner.config.annotations import written

_BUFFER: Final = "buffer"
SECTIONS: Final = {
    **dict.fromkeys(("ReplaySettings", "RolloutSettings", "SequenceSettings"), _BUFFER),
    **dict.fromkeys(("Priority", "RolloutPriority"), f"{_BUFFER}.priority"),
    "Hindsight": f"{_BUFFER}.hindsight",
    "Window": f"{_BUFFER}.window",
    **dict.fromkeys(("Settings", "Budget", "TrainOptions"), "training"),
    "WorkerSettings": "collector",
    "Plateau": "plateau",
    "Adaptive": "adaptive",
    "Distributed": "strategy",
    "GSDE": "agent.gsde",
}
"""By class of the training core, the section that holds its settings."""
ELSEWHERE: Final = {
    **{f"{part}.frame_stack": "training.frame_stack" for part, section in SECTIONS.items() if section == _BUFFER},
    "Settings.num_envs": "env.num_envs",
    "Settings.seed": "seed",
    "Settings.device": "backend.device",
    "Settings.gamma": "agent.gamma",
    "Settings.gae_lambda": "agent.gae_lambda",
    "Settings.criterion": "training.target_reward",
    "Settings.trial_count": "training.reward_window",
    "Settings.workers": "collector=pool",
}
CHOICES: Final = {
    "PPO": "buffer=rollout",
    "sequences": "buffer=sequences",
    "PR": "buffer=prioritized",
    "HER": "buffer=hindsight",
    "TRL": "buffer.trajectories=true",
    "IRL": "buffer.learned_reward=true",
    "MARL": "training.multi_agent=true",
    "offline": "buffer.offline=true",
    "pool_network": "collector=pool",
    "add sequences=True to set()": "use buffer=recurrent",
    "SoftmaxPolicy": "policy=softmax",
    "GaussianPolicy": "policy=gaussian",
    "GSDEPolicy, or SquashedGSDEPolicy for SAC and TQC": "policy=gsde or squashed_gsde, which is for agent=sac and tqc",
    "make a PPO, A2C, TRPO, SAC or TQC with gsde=GSDE()": (
        "use policy=gsde or squashed_gsde (agent=ppo_continuous, a2c_continuous, trpo_continuous, sac or tqc)"
    ),
    "SoftmaxPolicy or EpsGreedyQPolicy": "agent=dqn, ppo, a2c, trpo, acer, sac_discrete",
    "GaussianPolicy where it returns means and log deviations, NoisyPolicy where it returns actions": (
        "agent=ppo_continuous, a2c_continuous, trpo_continuous, ddpg, td3, sac, crossq, tqc"
    ),
    "PPO with GaussianPolicy": "agent=ppo_continuous, a2c_continuous or trpo_continuous",
    "PPO, A2C or TRPO": "agent=ppo, a2c or trpo",
    "DQN, DoubleDQN or DuelingDQN": "agent=dqn, double_dqn, dueling_dqn, prioritized_dqn or rainbow",
    "MADDPG": "agent=maddpg",
    "an environment with discrete actions": "an environment with discrete actions (env=cartpole)",
    "an environment with continuous actions": "an environment with continuous actions (env=pendulum)",
    "DQN or PPO, or an environment with continuous actions": (
        "agent=dqn, ppo or sac_discrete, or an environment with continuous actions (env=pendulum)"
    ),
    "a simulator of your own (simulator=...)": "a simulator of your own (tuner guide alphazero)",
    "hidden_sizes": "network=mlp",
    "hidden_sizes, or layered_network with small filters": "network=mlp or minatar, which is for small images",
    "recurrent_network": "network=lstm or gru",
    "an agent that learns from sequences, such as PPO, A2C or R2D2": "agent=ppo, a2c or r2d2",
    "give the agent network=CNN (note_rl.agents.*.networks.CNN)": "use network=cnn",
    "hidden_sizes or layers": "network=mlp or layers",
    'Plateau(by="episodes")': "plateau=episodes",
    "PPO and sequences": "buffer and its settings",
    "train()": "strategy=none",
    ": distributed_training(strategy='ddp', replicas=2) starts the others, or torchrun does": "",
    "a MirroredStrategy": "strategy=mirrored",
    "has update() in its place": "learns without one",
    "train in one of its own": "use executor=local, which gives each run one of its own",
    "gymnasium.wrappers.TimeLimit": "env.max_episode_steps",
    "EnvPool's own arguments": "wrapper=none, and EnvPool's own arguments in env.kwargs",
}
"""Overrides that stand for a switch of set(), a class or a method of Python."""


class CommandLine(Vocabulary):
    """Paths of settings, and choices of groups.

    Args:
        path: Of the part of the configuration that is being made: what belongs to no part is looked for there.
        node: Its settings.
    """

    def __init__(self, path: str = "", node: Mapping[str, Any] | None = None) -> None:
        self._path, self._node = path, node or {}

    def name(self, setting: SettingName) -> str:
        """Its path; without one, its name."""
        return self._path_of(setting) or setting.name

    def at(self, setting: SettingName, value: Any) -> str:
        """The override that sets this value."""
        name = self.name(setting)
        return name if setting.argument in CHOICES else f"{name}={written(value)}"

    def add(self, setting: SettingName) -> str:
        """The advice to add a setting."""
        return f"use {self.name(setting)}"

    def leave_out(self, setting: SettingName) -> str:
        """The advice to leave a setting out, or to use `replay` in place of another buffer."""
        name = self.name(setting)
        group, is_choice, _ = name.partition("=")
        return f"use {group}=replay" if is_choice and group == _BUFFER else f"leave {name} out"

    def choice(self, name: str) -> str:
        """The override for a choice."""
        return CHOICES.get(name, name)

    def out_of_range(self, setting: SettingName, rule: str, value: Any, hint: str) -> str:
        """The setting and its value as they are typed."""
        path = self._path_of(setting)
        if path is None:
            return super().out_of_range(setting, rule, value, hint)
        typed = self._node.get(setting.name, value)  # of a list, all of it
        return f"{path}={written(typed)} is not possible: it must {rule}{hint}"

    def within(self, group: str, name: str, message: Sentence) -> str:
        """The message with the paths of that entry."""
        entries = self._node.get(group)
        if not isinstance(entries, Mapping) or not isinstance(entries.get(name), Mapping):
            return super().within(group, name, message)
        path = f"{self._path}.{group}.{name}".removeprefix(".")
        return about_part(path, entries[name], SettingsError(message))

    def _path_of(self, setting: SettingName) -> str | None:
        if setting.argument in CHOICES:
            return CHOICES[setting.argument]
        if setting.part in SECTIONS:
            return ELSEWHERE.get(f"{setting.part}.{setting.name}", f"{SECTIONS[setting.part]}.{setting.name}")
        known = setting.name.partition(".")[0] in self._node
        return f"{self._path}.{setting.name}".removeprefix(".") if known else None


def about_part(path: str, node: Mapping[str, Any], error: Exception) -> str:
    """The error of a part of the configuration, with its settings and their values as overrides.

    Args:
        path: Of the part.
        node: Its settings.
        error: As its class raised it.
    """
    said = error.said(CommandLine(path, node)) if isinstance(error, NoteRLError) else str(error)
    first = re.match(r"\w*", said)
    if first is not None and first[0] in node and f"{path}." not in said:
        return f"{path}.{said}"
    return said if f"{path}." in said or f"{path}=" in said else f"{path}: {said}"


@contextmanager
def speaking_of_settings() -> Iterator[None]:
    """Rewords the messages and errors of the training core inside, so that they name settings."""
    words = CommandLine()
    try:
        with speaking(words):
            yield
    except NoteRLError as error:
        said = error.said(words)
        if said == str(error):
            raise
        raise type(error)(said) from error
