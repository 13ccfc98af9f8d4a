"""What goes wrong when something meets a fault, as values.

Most actions are about requests. `DiskFull` and `SlowDisk` are about the broker's files; `Disk` and
`DiskWorkers` do them.
"""

from typing import Any, NamedTuple

from coterie.near_names import did_you_mean
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.resources import ResourceType, resources
from coterie.testing.bounds import check
from coterie.testing.errors import WrongUse

# More than any answer that a client waits for.
_GARBAGE_BYTES = 64


class AnswerError(NamedTuple):
    """Answer with an error, and do not handle the request.

    Attributes:
        error: an `ErrorCode` or its name, such as "COORDINATOR_LOAD_IN_PROGRESS".
    """

    error: ErrorCode | str

    @property
    def code(self) -> ErrorCode:
        """The error.

        Raises:
            WrongUse: there is no error of that name.
        """
        if isinstance(self.error, ErrorCode):
            return self.error
        try:
            return ErrorCode[self.error]
        except KeyError:
            hint = did_you_mean(self.error, ErrorCode.__members__, "errors")
            raise WrongUse(f"'{self.error}' is no error of Kafka's protocol{hint}") from None


class Delay(NamedTuple):
    """Handle the request later; the connection's next requests wait behind it."""

    seconds: float


class NeverAnswer(NamedTuple):
    """Do not handle the request and do not answer it; later responses queue behind it.

    Attributes:
        handle: whether the request takes effect all the same.
    """

    handle: bool = False


class CloseBefore(NamedTuple):
    """Close the connection instead of handling the request."""


class CloseAfter(NamedTuple):
    """Handle the request, and close the connection instead of sending the response."""


class CutAnswer(NamedTuple):
    """Handle the request, send the first bytes of the response and close the connection.

    Attributes:
        sent_bytes: how many, with the four of the length.
    """

    sent_bytes: int = 6


class AnswerGarbage(NamedTuple):
    """Answer with bytes that are no response; the request is not handled.

    Attributes:
        body: the bytes after length and correlation id.
    """

    body: bytes = b"\xff" * _GARBAGE_BYTES


class Throttle(NamedTuple):
    """Handle the request and put a `throttle_time_ms` into its response."""

    milliseconds: int


class CoordinatorLoads(NamedTuple):
    """The coordinator is found, and answers COORDINATOR_LOAD_IN_PROGRESS."""


class CoordinatorMoves(NamedTuple):
    """Another broker coordinates: FindCoordinator names another node at another port.

    Until then the requests of groups get NOT_COORDINATOR, and are handled at that other port only.
    At the end of the fault the coordinator moves back in the same way.
    """


class NoLeader(NamedTuple):
    """The partitions have no leader.

    Metadata says LEADER_NOT_AVAILABLE for them; what is produced, fetched or listed gets
    NOT_LEADER_OR_FOLLOWER.
    """


class DiskFull(NamedTuple):
    """Nothing more can be written: ENOSPC. What is there can be read.

    As in Kafka, a partition that could not be written is offline until the broker is started again.
    """


class SlowDisk(NamedTuple):
    """Each sync takes longer. It needs a broker that syncs: `Broker(flush="commit")`."""

    seconds: float


DiskAction = DiskFull | SlowDisk
Action = (
    AnswerError
    | Delay
    | NeverAnswer
    | CloseBefore
    | CloseAfter
    | CutAnswer
    | AnswerGarbage
    | Throttle
    | CoordinatorLoads
    | CoordinatorMoves
    | NoLeader
    | DiskAction
)

# The requests of members of share groups to the leader of a partition.
SHARE_LEADER_APIS = frozenset({ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE})
# The requests to the coordinator of a group.
COORDINATOR_APIS = (
    frozenset(api for api, touched in resources().items() if touched[0].type is ResourceType.GROUP)
    - {ApiKey.FIND_COORDINATOR}
    - SHARE_LEADER_APIS
)
# The requests to the leader of a partition.
LEADER_APIS = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.LIST_OFFSETS}) | SHARE_LEADER_APIS
# The APIs that an action concerns; all of them if it is not listed.
APIS: dict[type[Action], frozenset[ApiKey]] = {
    CoordinatorLoads: COORDINATOR_APIS,
    CoordinatorMoves: COORDINATOR_APIS | {ApiKey.FIND_COORDINATOR},
    NoLeader: LEADER_APIS | {ApiKey.METADATA},
    DiskFull: frozenset(),
    SlowDisk: frozenset(),
}


# What becomes of a request that meets an action, where no answer says it.
OUTCOMES: dict[type[Any], str] = {
    NeverAnswer: "never answered",
    CloseBefore: "connection closed, not handled",
    CloseAfter: "handled, connection closed",
    CutAnswer: "handled, answer cut",
    AnswerGarbage: "garbage",
}


def check_action(action: Action) -> None:
    """Check the value of an action.

    Raises:
        WrongUse: it is no action, or one of its numbers makes no sense.
    """
    if not isinstance(action, Action):
        shown = f"{action.__name__}()" if isinstance(action, type) else "AnswerError(...)"
        raise WrongUse(f"a fault is an action such as {shown}, not {action!r}")
    match action:
        case AnswerError():
            _ = action.code
        case Delay(seconds) | SlowDisk(seconds):
            check(seconds=seconds)
        case CutAnswer(sent_bytes):
            check(sent_bytes=sent_bytes)
        case Throttle(milliseconds):
            check(milliseconds=milliseconds)
        case _:
            pass
