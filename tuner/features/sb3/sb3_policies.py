"""Arguments of a policy of these libraries (`agent.policy_kwargs`), by the signature in the source of its class."""

from collections.abc import Mapping
from typing import Any, Final

from tuner.config.signatures import class_named_in, signature_of
from tuner.errors import UserError
from tuner.features.sb3.sb3_algorithms import ACTIVATIONS, Algorithm
from tuner.features.sb3.sb3_values import check_sizes, check_value
from tuner.support.names import did_you_mean

SIZES: Final = "net_arch"
ACTIVATION: Final = "activation_fn"
SHORT: Final = (SIZES, ACTIVATION)
"""Arguments of policies that are settings of the agent, too."""
ARGUMENTS: Final = "agent.policy_kwargs"

_GIVEN: Final = ("observation_space", "action_space", "lr_schedule", "use_sde")
"""Arguments that the algorithm gives itself."""


def policy_arguments(given: Mapping[str, Any], short: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """The arguments of a policy by name: where each is typed, and its value.

    Args:
        given: Those of `agent.policy_kwargs`.
        short: Those that are settings of the agent; None: not given.

    Raises:
        UserError: One is given in both.
    """
    arguments = {name: (f"{ARGUMENTS}.{name}", value) for name, value in given.items()}
    for name, value in short.items():
        if value is not None and name in given:
            raise UserError(f"agent.{name} and {ARGUMENTS}.{name} are the same: leave one of them out")
        if value is not None:
            arguments[name] = (f"agent.{name}", value)
    return arguments


def check_arguments(kind: Algorithm, policy: str, arguments: Mapping[str, tuple[str, Any]]) -> dict[str, Any]:
    """The arguments of a policy as its class takes them; the activation function stays a name.

    Args:
        kind: The algorithm.
        policy: Name of the policy.
        arguments: See `policy_arguments`.

    Raises:
        UserError: The policy does not take one of them; names the nearest ones, or the kind.
    """
    found = class_named_in(f"{kind.package}.{kind.name}", "policy_aliases", policy)
    signature = None if found is None else signature_of(found)
    known = {} if signature is None else {k: v for k, v in signature.parameters.items() if k not in _GIVEN}
    checked = {}
    for name, (path, value) in arguments.items():
        if name in _GIVEN and name in kind.parameters:
            raise UserError(f"{path}: here it is agent.{name}")
        if name not in known and signature is not None and not signature.is_open:
            raise UserError(f"{path}: {policy} of {kind.name} has no such argument{did_you_mean(name, known)}")
        annotation = known[name].annotation if name in known else None
        if name == SIZES and value is not None:
            of_each = "dict" in (annotation or "dict")
            parts = () if not of_each else ("pi", "vf") if kind.is_on_policy else ("pi", "qf")
            checked[name] = check_sizes(path, value, parts, needs_all=not kind.is_on_policy)
        elif name == ACTIVATION and isinstance(value, str):
            if value not in ACTIVATIONS:
                near = did_you_mean(value, ACTIVATIONS)
                raise UserError(f"{path}={value}: there is no such activation function{near}")
            checked[name] = value
        else:
            checked[name] = check_value(path, value, annotation)
    return checked
