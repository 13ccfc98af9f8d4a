"""The errors of `coterie.testing`. Each text names the cause and what to do.

They are raised where the test calls, without the frames of the broker's thread: the text says all.
"""

from collections.abc import Callable
from typing import TypeVar

E = TypeVar("E", bound=BaseException)


class WrongUse(Exception):  # noqa: N818 - the name says what is wrong
    """A call that cannot work as it was made."""


class BrokerNotStarted(Exception):  # noqa: N818 - the name says what is wrong
    """The broker could not be started, or is closed."""


class WaitTimedOut(AssertionError):  # noqa: N818 - the name says what is wrong
    """A condition did not hold in time; the text shows what was there instead."""


class RequestNotSeen(AssertionError):  # noqa: N818 - the name says what is wrong
    """No client has sent a request that the test expects."""


class FaultNotHit(AssertionError):  # noqa: N818 - the name says what is wrong
    """No request has met a fault."""


class BrokerLeak(AssertionError):  # noqa: N818 - the name says what is wrong
    """Something of a broker was still there after it was closed."""


# The errors whose text is all that a test needs.
EXPLAINED = (WrongUse, BrokerNotStarted, WaitTimedOut, RequestNotSeen, FaultNotHit, BrokerLeak)
# Called when a test fails because of what the broker has or has not seen, before the test goes on
# and stops its clients.
observers: list[Callable[[BaseException], None]] = []


def failed(error: E) -> E:
    """Let the observers look at the broker; return the error, to be raised."""
    for observe in observers:
        observe(error)
    return error


def check_nothing_left(left: list[str]) -> None:
    """Check that a closed broker has left nothing.

    Raises:
        BrokerLeak: it has; the text lists it.
    """
    if left:
        raise BrokerLeak(f"left after the broker was closed: {'; '.join(left)}")
