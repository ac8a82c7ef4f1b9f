"""From the arguments of set(), in the manuals' names, to settings."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from note_rl.errors import SettingsError, say_once
from note_rl.policy import exploration
from note_rl.settings.experience import ExperienceSettings, ReplaySettings, RolloutSettings, SequenceSettings
from note_rl.settings.replay_choices import Hindsight, Priority, RolloutPriority
from note_rl.settings.settings_table import REPLAY, ROLLOUT, SEQUENCES, SYNONYMS, arguments_of_set, manual_names
from note_rl.settings.training_settings import Settings
from note_rl.support.setting_fields import fields_of
from note_rl.support.value_kinds import refuse_given, refuse_unknown

_log = logging.getLogger(__name__)
_P = TypeVar("_P", Priority, RolloutPriority)
Given = Mapping[str, Any]

_REPLAY_ONLY = [name for name in manual_names(REPLAY) if name not in manual_names(ROLLOUT)]
_ON_POLICY_ONLY = [*(name for name in manual_names(ROLLOUT) if name not in manual_names(REPLAY)), "gae_lambda"]
_SEQUENCES_ONLY = [name for name in manual_names(SEQUENCES) if name not in manual_names((*REPLAY, *ROLLOUT))]
_NOT_OF_SEQUENCES = [
    *(name for name in manual_names((*REPLAY, *ROLLOUT)) if name not in manual_names(SEQUENCES)),
    "gae_lambda",
]
# What else is said of arguments that belong to replay.
_INSTEAD = {
    "num_steps": "is n of n-step replay; with PPO=True use gae_lambda",
    **dict.fromkeys(("HER", "TRL"), "reads old transitions, PPO=True forgets them; drop it"),
    "beta": "anneals the importance weights of replay; leave it out with PPO=True",
}


def settings_from_set(**arguments: Any) -> Settings:
    """Settings from the arguments of set(); see there for what each means.

    Raises:
        SettingsError: Arguments that are unknown, of another kind, out of range or contradict each other.
    """
    given = _without_synonyms(_with_passes(_checked(arguments)))
    experience = _experience(given)
    policy = exploration(given.get("policy"), given.get("noise"), per_agent=given.get("MARL", False))
    return Settings(experience=experience, policy=policy, **_of(Settings, given))


def with_former(former: Given, arguments: Given) -> dict[str, Any]:
    """The arguments of set() with those of earlier calls, of which it says nothing under either of two names."""
    others = {**SYNONYMS, **{name: synonym for synonym, name in SYNONYMS.items()}}
    said = {*arguments, *(others[name] for name in arguments if name in others)}
    return {**{name: value for name, value in former.items() if name not in said}, **arguments}


def _with_passes(given: Given) -> Given:
    """Those of PPO, where the manuals' num_updates is how often each rollout is gone through."""
    if not given.get("PPO") or given.get("sequences") or "num_updates" not in given:
        return given
    told = given["num_updates"]
    if given.get("num_epochs") not in (None, told):
        raise SettingsError(
            f"num_updates={told} and num_epochs={given['num_epochs']} both say how often a rollout is gone through; "
            "give one of them"
        )
    say_once(_log, f"num_updates={told} with PPO=True: {told} passes over each rollout, which is num_epochs={told}")
    return {**{name: value for name, value in given.items() if name != "num_updates"}, "num_epochs": told}


def _experience(given: Given) -> ExperienceSettings:
    """Settings of the kind of experience that is asked for, from arguments that are each of their kind."""
    if given.get("sequences"):
        return _sequences(given)
    refuse_given(given, _SEQUENCES_ONLY, "belongs to sequences of a pool; add sequences=True or leave it out")
    return _rollouts(given) if given.get("PPO") else _replay(given)


def with_defaults(defaults: Given, arguments: Given) -> dict[str, Any]:
    """The arguments of set() with those of an agent's defaults that say nothing else about the same thing."""
    said = {name for name, value in arguments.items() if value is not None}
    if "update_steps" in said:
        said.add("rollout_steps")
    return {**arguments, **{name: value for name, value in defaults.items() if name not in said}}


def _checked(arguments: Given) -> dict[str, Any]:
    """Those that say something, each as its kind gives it."""
    known = arguments_of_set(SEQUENCES if arguments.get("sequences") else ROLLOUT if arguments.get("PPO") else REPLAY)
    refuse_unknown("set", arguments, known)
    kinds = {name: known[name].kind for name in arguments}
    return {
        name: value if (kind := kinds[name]) is None else kind(name, value)
        for name, value in arguments.items()
        if value is not None
    }


def _without_synonyms(given: Given) -> dict[str, Any]:
    for synonym, name in SYNONYMS.items():
        if synonym in given and name in given:
            raise SettingsError(
                f"{name}={given[name]} and {synonym}={given[synonym]} are two names of one thing; give one"
            )
    return {SYNONYMS.get(name, name): value for name, value in given.items()}


def _replay(given: Given) -> ReplaySettings:
    """Settings of replay, from arguments that are each of their kind."""
    given = _without_documented_defaults(given, Priority)
    refuse_given(given, _ON_POLICY_ONLY, "belongs to on-policy training; add PPO=True or leave it out")
    settings = _of(ReplaySettings, given)
    capacity = settings.get("capacity", ReplaySettings.capacity)
    settings.setdefault("batch_size", min(ReplaySettings.batch_size, capacity))
    priority, hindsight = _priority(Priority, given), _hindsight(given)
    return ReplaySettings(**{**settings, "priority": priority, "hindsight": hindsight})


def _rollouts(given: Given) -> RolloutSettings:
    """Settings of rollouts, from arguments that are each of their kind."""
    given = _without_documented_defaults(given, RolloutPriority)
    _refuse_replay(given)
    if "rollout_steps" in given and "update_steps" in given:
        raise SettingsError(
            f"rollout_steps={given['rollout_steps']} and update_steps={given['update_steps']} both say how long a "
            "rollout is, of each environment or of all together; give one of them"
        )
    return RolloutSettings(**{**_of(RolloutSettings, given), "priority": _priority(RolloutPriority, given)})


def _sequences(given: Given) -> SequenceSettings:
    """Settings of sequences, from arguments that are each of their kind."""
    if given.get("PPO"):
        raise SettingsError("PPO=True and sequences=True are two ways of training; give one of them")
    told = {name: value for name, value in given.items() if value is not False}  # HER=False says nothing
    refuse_given(told, _NOT_OF_SEQUENCES, "does not go with sequences=True, which reads whole sequences as they were")
    return SequenceSettings(**_of(SequenceSettings, given))


def _refuse_replay(given: Given) -> None:
    for name in _REPLAY_ONLY:
        if name != "pool_size":
            reason = _INSTEAD.get(name, "belongs to replay; with PPO=True use rollout_steps and num_epochs")
            refuse_given(given, [name], reason)
    if "pool_size" in given:  # which the manuals' examples of PPO have
        say_once(
            _log,
            f"pool_size={given['pool_size']} has no effect with PPO=True: rollouts are forgotten once learned from, "
            "and update_steps says how long they are",
        )


def _without_documented_defaults(given: Given, used: type[Priority | RolloutPriority]) -> dict[str, Any]:
    """Leaves out what has no meaning here but only says the default, as the manuals do in full lists of arguments.

    Args:
        given: All arguments.
        used: What PR=True makes here.
    """
    meant = manual_names(fields_of(used)) if given.get("PR") else []
    empty = {one.manual_name: one.default for one in fields_of(RolloutPriority) if one.manual_name not in meant}
    return {name: value for name, value in given.items() if name not in empty or value != empty[name]}


def _of(settings: type, given: Given) -> dict[str, Any]:
    """The arguments of a settings class, in its own names."""
    names = {one.name: str(one.manual_name) for one in fields_of(settings)}
    return {name: given[manual] for name, manual in names.items() if manual in given}


def _priority(kind: type[_P], given: Given) -> _P | None:
    """The priorities that PR chooses, with the numbers that are given beside it."""
    chosen = given.get("PR")
    if not chosen:
        refuse_given(given, manual_names(one for one in fields_of(kind) if one.manual_name), "needs PR=True; add it")
        return None
    if chosen is True:
        chosen = kind()
    if not isinstance(chosen, kind):
        raise SettingsError(_OTHER_PRIORITY[kind])
    return replace(chosen, **_of(kind, given))


_OTHER_PRIORITY: dict[type, str] = {
    Priority: "PR=RolloutPriority(...) is for PPO=True; without it give PR=True or PR=Priority(...)",
    RolloutPriority: "PR=Priority(...) is for replay; with PPO=True give PR=True or PR=RolloutPriority(...)",
}


def _hindsight(given: Given) -> Hindsight | None:
    chosen = given.get("HER")
    if isinstance(chosen, str):
        return Hindsight(strategy=chosen)  # type: ignore[arg-type]  # checked there
    return Hindsight() if chosen is True else chosen or None
