"""Several environments, as they are typed: `env=[cartpole,acrobot]`.

That stands for `study.environments=[cartpole,acrobot]`. To Hydra it would mean to merge the files of both over one
another, which makes no environment.
"""

from collections.abc import Sequence
from typing import Final

from hydra.core.override_parser.types import ChoiceSweep, Override

from tuner.checking.env_names import GROUP
from tuner.checking.hydra_messages import parse_overrides
from tuner.config.overrides import to_hydra
from tuner.errors import UserError
from tuner.results.protocol import StudySettings

SETTING: Final = "study.environments"


def spelled_out(overrides: Sequence[str]) -> list[str]:
    """The overrides, with `env=[a,b]` written in full; the rest of the config is that of the first environment.

    Raises:
        UserError: Environments are typed twice, and not the same.
    """
    parsed = {word: parse_overrides([word])[0] for word in overrides if word.lstrip("+").startswith((GROUP, SETTING))}
    if not parsed:
        return list(overrides)
    listed = [word for word, one in parsed.items() if one.key_or_group == GROUP and _names(one) is not None]
    setting = [word for word, one in parsed.items() if one.key_or_group == SETTING]
    single = [word for word, one in parsed.items() if one.key_or_group == GROUP and word not in listed]
    told = next((_names(parsed[word]) for word in (*listed, *setting)), None)
    if told is None:
        return list(overrides)
    for word in (*listed, *setting):
        if _names(parsed[word]) != told:
            raise UserError(f"{word} and {(*listed, *setting)[0]} name different environments: leave one of them out")
    if told and single and single[-1] != f"{GROUP}={told[0]}":
        raise UserError(f"{single[-1]} names one environment, and {(*listed, *setting)[0]} several: leave one out")
    rest = [word for word in overrides if word not in (*listed, *setting, *single)]
    return [*([f"{GROUP}={told[0]}"] if told else []), f"{SETTING}=[{','.join(told)}]", *rest]


def as_typed(overrides: Sequence[str]) -> list[str]:
    """The opposite of `spelled_out`: what to type again."""
    setting = next((word for word in overrides if word.startswith(f"{SETTING}=[")), None)
    if setting is None:
        return list(overrides)
    listed = setting.partition("=")[2]
    first = f"{GROUP}={listed[1:-1].partition(',')[0]}"
    return [f"{GROUP}={listed}" if word == setting else word for word in overrides if word != first]


def in_environment(overrides: Sequence[str], name: str) -> list[str]:
    """The overrides for one of the environments alone."""
    rest = [word for word in spelled_out(overrides) if word.partition("=")[0] not in (GROUP, SETTING)]
    return [*rest, f"{GROUP}={name}", f"{SETTING}=null"]


def refuse_several(overrides: Sequence[str], command: str) -> None:
    """Refuses a list of environments where there can be one only.

    Raises:
        UserError: Says who takes it.
    """
    for word in overrides:
        if word.lstrip("+").startswith(f"{GROUP}=[") and (names := _names(parse_overrides([word])[0])):
            if len(names) == 1:
                raise UserError(f"{word} is a list: type {GROUP}={names[0]}")
            raise UserError(
                f"{word} names several environments, and tuner {command} takes one: tuner tune finds a configuration "
                f"for all of them, and tuner train -m {GROUP}={','.join(names)} trains in each"
            )


def check_typed(settings: StudySettings, overrides: Sequence[str]) -> None:
    """Refuses pruners where there are several environments and one was asked for: the default one is off.

    Raises:
        UserError: Names what was typed.
    """
    del settings
    if not any(word.startswith(f"{SETTING}=[") for word in overrides):
        return
    for key, off in (("pruner", "none"), ("study.pruning", None)):
        typed = [one for one in overrides if one.partition("=")[0].startswith(key) and one.partition("=")[2] != off]
        if typed:
            raise UserError(f"{typed[0]} compares curves of one environment, and this study has several: leave it out")


def _names(override: Override) -> list[str] | None:
    """Those of a list; None: it is none."""
    value = override.value()
    if isinstance(value, ChoiceSweep) and any(isinstance(one, list) for one in value.list):
        named = dict.fromkeys(name for one in value.list for name in (one if isinstance(one, list) else [one]))
        raise UserError(
            f"{override.input_line} is a study for each list: type a command for each, or one list for a study of all, "
            f"{GROUP}={to_hydra(list(named))}"
        )
    if not isinstance(value, list):
        return None
    for one in value:
        if not isinstance(one, str) or not one:
            raise UserError(
                f"{override.input_line}: {to_hydra(one)} is no name of an environment; leave it out, or name one, such "
                "as acrobot, in its place"
            )
    return [str(one) for one in value]
