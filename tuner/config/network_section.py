"""The section `network`: what the agent's network is made of, and in `network.critic`, if it is there, its critic's."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tuner.config.annotations import written
from tuner.config.signatures import signature_of
from tuner.errors import UserError
from tuner.trial.messages import JsonDict

CRITIC = "critic"


@dataclass(frozen=True)
class Networks:
    """The networks of one agent, each as a node with a `_target_`.

    Attributes:
        network: Of the agent, or of its policy where the critic has another one.
        critic: Of the critic; None: as `network`.
    """

    network: JsonDict
    critic: JsonDict | None

    @classmethod
    def from_section(cls, section: Mapping[str, Any]) -> "Networks":
        """Takes the section apart.

        Raises:
            UserError: The critic's is no network.
        """
        if not has_critic(section):
            return cls(dict(section), None)
        critic = section[CRITIC]
        if not isinstance(critic, Mapping) or "_target_" not in critic:
            raise UserError(
                f"network.critic={written(critic)} is not possible: choose a network for it, such as "
                "+network@network.critic=mlp"
            )
        return cls({key: value for key, value in section.items() if key != CRITIC}, dict(critic))


def has_critic(section: Mapping[str, Any]) -> bool:
    """Whether there is a critic in it, and that is no argument of a network of the user's own."""
    if CRITIC not in section or "_target_" not in section:
        return False
    signature = signature_of(str(section["_target_"]))
    return signature is not None and not signature.is_open and CRITIC not in signature.parameters
