"""The metadata and assignments of Kafka Connect's workers in JoinGroup and SyncGroup.

Groups of protocol type "connect" carry these bytes [consumer-protocol/connect-workers]. To the
coordinator they are opaque; tools decode them to show who runs which tasks.

v0   the protocol "default": an assignment holds everything that a worker is to run
v1   "compatible" (KIP-415): what changes, and what a worker runs already
v2   "sessioned" (KIP-507): the bytes of v1
"""

from collections.abc import Iterable
from typing import NamedTuple

from coterie.protocol.embedded import decode_embedded, encode_embedded
from coterie.protocol.wire import (
    Bytes,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    message,
    since,
    struct,
)

PROTOCOL_TYPE = "connect"
LATEST_VERSION = 2
# Their names: "default" is v0, the only one in which workers stop everything to rejoin.
INCREMENTAL_PROTOCOLS = ("compatible", "sessioned")
PROTOCOLS = ("default", *INCREMENTAL_PROTOCOLS)
# The number that stands for the connector itself among the numbers of its tasks.
CONNECTOR_TASK = -1


@struct
class ConnectorTasks(Struct):
    """Tasks of one connector."""

    connector: String
    tasks: list[Int32]


@message(versions=(0, LATEST_VERSION), flexible=None, open_ended=True)
class ConnectWorkerMetadata(Message):
    """Where a worker is reached, how far it has read the configurations, and what it runs."""

    url: String
    config_offset: Int64
    # A ConnectAssignment with its version; null for a worker that runs nothing yet.
    allocation: Bytes | None = since(1, default=None)


@message(versions=(0, LATEST_VERSION), flexible=None, open_ended=True)
class ConnectAssignment(Message):
    """What a worker is to start, and from v1 on what it is to stop and when it is to rejoin."""

    error: Int16 = 0
    leader: String = ""
    leader_url: String = ""
    config_offset: Int64 = -1
    assigned: list[ConnectorTasks] | None = None
    revoked: list[ConnectorTasks] | None = since(1, default=None)
    delay_ms: Int32 = since(1, default=0)


class ConnectWorker(NamedTuple):
    """A worker after a rebalance [consumer-protocol/connect-workers].

    Attributes:
        url: where its REST interface is.
        config_offset: the offset up to which it has read the topic of configurations.
        running: the tasks that it runs, by connector; -1 is the connector itself.
        revoked: the tasks that it had to stop.
        delay_ms: the time until the next rebalance, in which lost tasks remain unassigned.
        error: 1 if the leader had read less of the configurations than another worker.
    """

    url: str
    config_offset: int
    running: dict[str, list[int]]
    revoked: dict[str, list[int]]
    delay_ms: int
    error: int


def decode_metadata(metadata: bytes) -> ConnectWorkerMetadata:
    """Decode the metadata of a worker.

    Raises:
        MalformedFrame: the bytes are no such metadata.
    """
    return decode_embedded(ConnectWorkerMetadata, metadata, LATEST_VERSION)


def encode_metadata(metadata: ConnectWorkerMetadata, version: int = LATEST_VERSION) -> bytes:
    """Encode the metadata of a worker in a version."""
    return encode_embedded(metadata, version)


def decode_assignment(assignment: bytes) -> ConnectAssignment:
    """Decode the assignment of a worker.

    Raises:
        MalformedFrame: the bytes are no such assignment.
    """
    return decode_embedded(ConnectAssignment, assignment, LATEST_VERSION)


def encode_assignment(assignment: ConnectAssignment, version: int = LATEST_VERSION) -> bytes:
    """Encode the assignment of a worker in a version."""
    return encode_embedded(assignment, version)


def decode_worker(metadata: bytes, assignment: bytes) -> ConnectWorker:
    """Return what a worker does after a rebalance.

    Args:
        metadata: its bytes in JoinGroup.
        assignment: its bytes in SyncGroup; empty before the leader has assigned.

    Raises:
        MalformedFrame: the bytes are not those of a worker.
    """
    joined = decode_metadata(metadata)
    synced = decode_assignment(assignment) if assignment else ConnectAssignment()
    running = _tasks(decode_assignment(joined.allocation).assigned if joined.allocation else None)
    revoked, added = _tasks(synced.revoked), _tasks(synced.assigned)
    return ConnectWorker(
        joined.url,
        joined.config_offset,
        _by_connector(running - revoked | added),
        _by_connector(revoked),
        synced.delay_ms,
        synced.error,
    )


def _tasks(listed: Iterable[ConnectorTasks] | None) -> set[tuple[str, int]]:
    return {(each.connector, task) for each in listed or () for task in each.tasks}


def _by_connector(tasks: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for connector, task in sorted(tasks):
        found.setdefault(connector, []).append(task)
    return found
