"""The parts of a conversation with share groups: requests, and what is no request."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from tests.compared.transactions.side import CONNECTIONS, Side
from tests.compared.transactions.step import Step

# The connection of an administrator; those behind it belong to members.
ADMIN = CONNECTIONS
# Each member has two of its own: Kafka ends only the last session that a connection has opened
# [share-partitions/sessions].
MEMBERS = ("m0", "m1", "m2")
SUFFIXES = ("-g", "-h", "-x")
MEMBER_CONNECTIONS = range(ADMIN + 1, ADMIN + 1 + 2 * len(MEMBERS) * len(SUFFIXES))


def connections(group: str, member: str) -> tuple[int, int]:
    """Return the connections of a member of a group."""
    number = SUFFIXES.index(group[-2:]) * len(MEMBERS) + MEMBERS.index(member)
    first = MEMBER_CONNECTIONS[2 * number]
    return first, first + 1


@dataclass(frozen=True)
class Plain(Step):
    """A request that is the same for both brokers.

    Attributes:
        wire: the request.
    """

    wire: Any

    def request(self, side: Side) -> Any:
        return self.wire

    def __repr__(self) -> str:
        return f"v{self.version} {self.wire}"


class Asked(NamedTuple):
    """A request on a connection.

    Attributes:
        step: the request.
        connection: on which it is sent.
        rest_s: how long brokers then get for what follows in the background.
        settles: the group about which something follows in the background.
    """

    step: Step
    connection: int = ADMIN
    rest_s: float = 0.0
    settles: str | None = None


class Closing(NamedTuple):
    """A connection is closed and opened again."""

    connection: int


class Pause(NamedTuple):
    """Nobody says anything for some time."""

    seconds: float


class Parked(NamedTuple):
    """A fetch that waits, and what may end its wait."""

    fetch: Asked
    meanwhile: "Asked | Closing"


Part = Asked | Closing | Pause | Parked
