"""The errors of the client.

Every error has a cause (what happened, with the names involved) and, if there is one, a remedy
(what the user can do). No other exceptions leave this package: socket errors and malformed frames
are translated where they occur.
"""

from coterie.protocol.errors import ErrorCode

_ACL_REMEDY = "The broker's ACLs do not allow it. Ask its administrator for permission."

# Remedies for error codes that any request can get. Commands with a better one pass their own.
REMEDIES: dict[int, str] = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (
        "The coordinator is still loading its groups. Try again, or raise --timeout."
    ),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (
        "The topic __consumer_offsets has no leader yet. Try again in a moment."
    ),
    ErrorCode.NOT_COORDINATOR: "The group is moving to another broker. Try again in a moment.",
    ErrorCode.REBALANCE_IN_PROGRESS: "The group is rebalancing. Try again when it is stable.",
    ErrorCode.REQUEST_TIMED_OUT: (
        "The broker did not finish in time. Check whether it has done it, or raise --timeout."
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: _ACL_REMEDY,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: _ACL_REMEDY,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: _ACL_REMEDY,
    ErrorCode.NOT_CONTROLLER: "The cluster is electing a controller. Try again in a moment.",
}


class ClientError(Exception):
    """A request could not be made or was refused.

    Attributes:
        cause: what happened.
        remedy: what to do about it; "" if nothing is known.
    """

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(f"{cause} {remedy}".rstrip())
        self.cause = cause
        self.remedy = remedy


class BrokerUnreachable(ClientError):  # noqa: N818 - these names say what happened
    """There is no connection to a broker."""


class BrokerTimedOut(ClientError):  # noqa: N818
    """The broker did not respond in time."""


class ConnectionLost(ClientError):  # noqa: N818
    """The broker closed the connection, or its response is malformed."""


class LoginFailed(ClientError):  # noqa: N818
    """The broker refuses a login, or has not proved who it is."""


class VersionUnsupported(ClientError):  # noqa: N818
    """Broker and client have no common version of an API."""


class Refused(ClientError):  # noqa: N818
    """The broker responded with an error code.

    Args:
        code: the error code.
        what: what was refused, as the beginning of a sentence ("Group 'orders'").
        message: the broker's error message, if it sent one.
        remedy: what to do about it; by default the one in `REMEDIES`.
    """

    def __init__(self, code: int, what: str, message: str | None = None, remedy: str = "") -> None:
        self.code = code
        name = error_name(code)
        super().__init__(
            f"{what}: {name}" + (f" ({message.rstrip('.')})." if message else "."),
            remedy or REMEDIES.get(code, ""),
        )


def error_name(code: int) -> str:
    """Return Kafka's name of an error code, or its number if a newer Kafka defined it."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"
