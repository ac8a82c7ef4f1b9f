"""Interface of learners to the replicas that take every gradient step together with them.

Each of R replicas holds the same parameters and sees its share of every minibatch, B / R of its rows. Gradients are
averaged over replicas before they are clipped, so that every replica takes the step that one would have taken along the
whole minibatch.
"""

from collections.abc import Sequence
from typing import Any, Protocol


class Peers(Protocol):
    """The replicas, as one of them sees them.

    Attributes:
        size: How many there are, this one included.
        rank: The number of this one; 0 leads.
    """

    size: int
    rank: int

    def mean(self, tensors: Sequence[Any]) -> list[Any]:
        """Returns the means over all replicas of tensors that each of them has, in one exchange.

        Raises:
            PeerError: A replica has failed or died, or is silent; it is named.
        """


class Alone:
    """One replica: nothing is exchanged."""

    size = 1
    rank = 0

    def mean(self, tensors: Sequence[Any]) -> list[Any]:
        """Returns what it is given."""
        return list(tensors)
