"""What can go wrong between a command and a broker, told so that a person knows what to do next.

Every error carries a cause (what happened, with the names involved) and, where there is one, a
remedy. Nothing else leaves this package: socket errors and malformed frames are translated where
they occur.
"""

from coterie.protocol.errors import ErrorCode

# What to do about an answer that any request may get. Commands that know better pass their own
# remedy.
REMEDIES: dict[int, str] = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: (
        "The coordinator is still reading its log: try again, or raise --timeout."
    ),
    ErrorCode.COORDINATOR_NOT_AVAILABLE: (
        "The topic __consumer_offsets has no leader yet: try again in a moment."
    ),
    ErrorCode.NOT_COORDINATOR: "The group is moving to another broker: try again in a moment.",
    ErrorCode.REBALANCE_IN_PROGRESS: "The group is rebalancing: try again when it is stable.",
    ErrorCode.REQUEST_TIMED_OUT: (
        "The broker did not finish in time: look whether it happened, or raise --timeout."
    ),
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "The broker's ACLs forbid it: ask for the right.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "The broker's ACLs forbid it: ask for the right.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "The broker's ACLs forbid it: ask for the right.",
    ErrorCode.NOT_CONTROLLER: "The cluster is electing a controller: try again in a moment.",
}


class ClientError(Exception):
    """A request that could not be made or was refused: `cause`, and `remedy` (may be empty)."""

    def __init__(self, cause: str, remedy: str = "") -> None:
        super().__init__(f"{cause} {remedy}".rstrip())
        self.cause = cause
        self.remedy = remedy


class BrokerUnreachable(ClientError):  # noqa: N818 - these names say what happened
    """No connection to a broker."""


class BrokerTimedOut(ClientError):  # noqa: N818
    """No answer within the time allowed."""


class ConnectionLost(ClientError):  # noqa: N818
    """The broker hung up instead of answering, or answered with bytes that are no answer."""


class VersionUnsupported(ClientError):  # noqa: N818
    """The broker has no version of a request that this client has too."""


class Refused(ClientError):  # noqa: N818
    """The broker's answer is an error code.

    Args:
        code: the code on the wire.
        what: what was refused, as the start of a sentence ("Group 'orders'").
        message: the broker's own words, when it sent some.
        remedy: what to do about it; by default what `REMEDIES` says.
    """

    def __init__(self, code: int, what: str, message: str | None = None, remedy: str = "") -> None:
        self.code = code
        name = error_name(code)
        super().__init__(
            f"{what}: {name}" + (f" ({message.rstrip('.')})." if message else "."),
            remedy or REMEDIES.get(code, ""),
        )


def error_name(code: int) -> str:
    """Kafka's name of an error code; brokers newer than ours may send numbers we do not know."""
    try:
        return ErrorCode(code).name
    except ValueError:
        return f"error {code}"
