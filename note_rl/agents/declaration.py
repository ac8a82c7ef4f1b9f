"""Arguments of an agent's constructor, declared once for both frameworks; the constructor is made of it.

    class DQNSettings(AgentSettings):
        tau: float = setting(default=1.0, kind=SHARE_ABOVE_0, text="Share of the online parameters ...")

    class DQN(DQNSettings, RL_pytorch):
        def make_networks(self, given):
            self.q_net = (given.network or mlp(given.hidden_size))(...)

Settings are checked by their kinds and become attributes of the agent; those that only its networks are made of
(`InitVar`) are left to `make_networks()`.
"""

import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import InitVar, dataclass, replace
from types import MappingProxyType, SimpleNamespace
from typing import Any, ClassVar, dataclass_transform

from gymnasium.envs.registration import EnvSpec

from note_rl.agents.new_networks import refuse_the_same_again
from note_rl.agents.resampled_noise import check_makers
from note_rl.errors import SettingsError
from note_rl.errors.wording import SettingName
from note_rl.learners.declarations import Declared
from note_rl.support.setting_fields import Field, field_of, setting, with_texts
from note_rl.support.value_kinds import refuse_unknown

_ENV = SettingName("env")
_SIZES = ("state_dim", "hidden_size")
_INIT_VAR = ("InitVar[", "dataclasses.InitVar[")


class Given(SimpleNamespace):
    """The settings that an agent is made with, by name, those included that it does not keep."""


@dataclass(frozen=True)
class AgentArgument:
    """A setting as an argument of the constructor.

    Attributes:
        field: What is known of it.
        annotation: Its type.
        is_positional: Whether it may be given by position.
        is_taken: Whether the constructor takes it; else it keeps its default.
        is_kept: Whether it becomes an attribute of the agent.
    """

    field: Field
    annotation: Any
    is_positional: bool
    is_taken: bool
    is_kept: bool

    def parameter(self) -> inspect.Parameter:
        """As a signature shows it."""
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD if self.is_positional else inspect.Parameter.KEYWORD_ONLY
        default = inspect.Parameter.empty if self.field.default is dataclasses.MISSING else self.field.default
        return inspect.Parameter(self.field.name, kind, default=default, annotation=self.annotation)

    def checked(self, value: Any) -> Any:
        """The value as its kind means it (SettingsError: another kind, or out of range); a default of None may stay."""
        if self.field.kind is None or (value is None and self.field.default is None):
            return value
        return self.field.kind(self.field.name, value)


@dataclass_transform(eq_default=False, kw_only_default=True, field_specifiers=(setting,))
class AgentSettings(Declared):
    """Base of the declarations of algorithms, and so of their agents in both frameworks.

    A subclass declares settings as annotated fields, `name: type = setting(default=..., kind=..., text=...)`. A plain
    value in place of `setting(...)` gives another default to an inherited one, and `setting(init=False)` takes it out
    of the constructor. `kw_only=False` lets it be given by position.
    """

    _declared_arguments: ClassVar[Mapping[str, AgentArgument]] = MappingProxyType({})

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Makes the constructor and the section `Args` of the docstring."""
        super().__init_subclass__(**keywords)
        cls._declared_arguments = _declared_by(cls, arguments_of(cls))
        declares = bool(cls._declared_arguments) or cls.framework == "none"
        if declares and _is_made_of_settings(cls.__init__):
            cls.__init__ = _constructor(cls)  # type: ignore[method-assign]
        if declares and cls.__doc__ is not None and "Args:" not in cls.__doc__:
            cls.__doc__ = with_texts(cls.__doc__, "Args", settings_of(cls))

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        refuse_unknown(type(self).__name__, keywords, [one.name for one in settings_of(type(self))])
        _refuse_an_environment(type(self), arguments)
        try:
            bound = signature_of(type(self)).bind(*arguments, **keywords)
        except TypeError as error:
            raise SettingsError(f"{type(self).__name__}(): {error}") from None
        super().__init__()
        given = Given()
        for name, one in arguments_of(type(self)).items():
            value = one.checked(bound.arguments.get(name, one.field.default))
            setattr(given, name, value)
            if one.is_kept:
                setattr(self, name, value)
        if not self.resamples_noise:
            check_makers(type(self).__name__, given)
        self.check_together(given)
        refuse_the_same_again(given)
        self.make_networks(given)

    @classmethod
    def check_together(cls, given: Given) -> None:
        """Refuses settings that contradict each other (SettingsError); nothing is made before.

        Args:
            given: All settings by name.
        """

    @classmethod
    def refuse_to_move(cls, name: str) -> None:
        """Refuses those that are no fractions, or are read only when the agent is made."""
        one = arguments_of(cls).get(name)
        if one is not None and one.field.why_fixed:
            raise SettingsError(
                f"{name} cannot change while {cls.__name__} is trained, as {one.field.why_fixed}: leave its schedule "
                "out"
            )

    def make_networks(self, given: Given) -> None:
        """Makes what learns, when the settings have become attributes; called once, by the constructor.

        Args:
            given: All settings by name.
        """


def _refuse_an_environment(kind: type, arguments: Sequence[Any]) -> None:
    """Refuses one by position (SettingsError), where other libraries have it: the first argument is a size here."""
    first = arguments[0] if arguments else None
    is_id = isinstance(first, str) and any(map(str.isalpha, first))
    known = arguments_of(kind)
    takes_size = next(iter(known), "") in _SIZES  # another class may take a text first
    if takes_size and "env" in known and (is_id or isinstance(first, EnvSpec) or hasattr(first, "step")):
        given = _ENV.at(repr(first) if is_id else "...")
        raise SettingsError("{}: the environment is given by name, {}({})", kind.__name__, kind.__name__, given)


def arguments_of(kind: type) -> dict[str, AgentArgument]:
    """The settings that a class and its base classes declare, by name, in the order of the constructor."""
    merged: dict[str, AgentArgument] = {}
    for one in reversed(kind.__mro__):
        merged.update(vars(one).get("_declared_arguments", {}))
    return dict(sorted(merged.items(), key=lambda item: not item[1].is_positional))


def settings_of(kind: type) -> tuple[Field, ...]:
    """The fields of all settings that the constructor of a class takes by declaration."""
    return tuple(one.field for one in arguments_of(kind).values() if one.is_taken)


def signature_of(kind: type) -> inspect.Signature:
    """Of the constructor that is made of the declaration of a class."""
    return inspect.Signature([one.parameter() for one in arguments_of(kind).values() if one.is_taken])


def _declared_by(kind: type, inherited: Mapping[str, AgentArgument]) -> dict[str, AgentArgument]:
    """The arguments that the body of a class declares; they are taken out of the body."""
    found = {}
    for name, annotation in inspect.get_annotations(kind).items():
        given = vars(kind).get(name, dataclasses.MISSING)
        if isinstance(given, dataclasses.Field):
            found[name] = _argument(kind, name, annotation, given, inherited.get(name))
        elif name in inherited and given is not dataclasses.MISSING:
            found[name] = replace(inherited[name], field=replace(inherited[name].field, default=given))
        else:
            continue
        delattr(kind, name)
    return found


def _argument(
    kind: type, name: str, annotation: Any, given: "dataclasses.Field[Any]", inherited: AgentArgument | None
) -> AgentArgument:
    if not given.init and inherited is not None:
        return replace(inherited, is_taken=False)
    field = field_of(given, name, kind.__name__)
    assert field is not None
    is_kept = not isinstance(annotation, InitVar) and not str(annotation).startswith(_INIT_VAR)
    return AgentArgument(
        field=field,
        annotation=annotation.type if isinstance(annotation, InitVar) else annotation,
        is_positional=given.kw_only is False,
        is_taken=given.init,
        is_kept=is_kept,
    )


def _is_made_of_settings(constructor: Any) -> bool:
    """Whether it is one of ours; that of a user's class stays, and hands on what its subclasses declare."""
    return constructor is AgentSettings.__init__ or hasattr(constructor, "is_made_of_settings")


def _constructor(kind: type) -> Callable[..., None]:
    """One that shows in its signature what it takes."""

    def __init__(self: Any, *arguments: Any, **keywords: Any) -> None:  # noqa: N807
        AgentSettings.__init__(self, *arguments, **keywords)

    own = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    parameters = signature_of(kind).parameters.values()
    __init__.is_made_of_settings = True  # type: ignore[attr-defined]
    __init__.__signature__ = inspect.Signature([*own, *parameters])  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{kind.__qualname__}.__init__"
    __init__.__module__ = kind.__module__
    return __init__
