"""In what executors on other machines differ: how seats are started there, asked, and found lost."""

from collections.abc import Sequence
from typing import Any, Protocol

__all__ = ["Cluster", "SeatLostError", "SeatUnreachableError"]


class SeatLostError(Exception):
    """The seat or its machine is dead."""


class SeatUnreachableError(Exception):
    """The seat does not answer at the moment; what was asked of it may have been done or not."""


class Cluster(Protocol):
    """Starts seats and carries what is said. Used from one thread, which it may keep waiting in `ready` only.

    A handle of a seat, and a question, are whatever the class makes of them; questions can be keys of a dictionary.
    """

    def new_seat(self) -> Any:
        """Asks for a process that holds a `Seat`, and returns the handle; the process comes when there is room.

        When the controller's process ends, in whichever way, its seats have to end as well.
        """
        ...

    def ask(self, seat: Any, method: str, *arguments: Any) -> Any:
        """Has a method of the seat called: hello, exchange or close. Returns the question, and does not wait.

        Questions to a seat that has not come yet are kept for it. A second one is asked before the first one is
        answered only when the seat is closed.
        """
        ...

    def ready(self, questions: Sequence[Any], timeout_s: float) -> list[Any]:
        """Those questions that are answered, or will never be; waits up to `timeout_s` seconds for the first one."""
        ...

    def answer(self, question: Any) -> Any:
        """The seat's return value, for a question that is ready.

        Raises:
            SeatLostError: There will be no answer.
            SeatUnreachableError: It did not come; the same question may be asked again.
            UserError: No seat can be made so, the seat could not do what was asked, or the cluster is gone.
        """
        ...

    def kill(self, seat: Any) -> None:
        """Ends the process of a seat, if it is within reach, or gives up waiting for it."""
        ...

    def shortage(self, num_seats: int, of_free: bool) -> str:
        """The resource that is short for a number of seats; empty if there is enough, or if it is not known.

        Args:
            num_seats: How many there should be.
            of_free: Whether what others use counts as missing. A seat that has room and only takes its time to start
                uses it already, so this is to be asked late.
        """
        ...

    def close(self) -> None:
        """Leaves the cluster; seats that are left end."""
        ...
