"""One of the two brokers: its connections, and what it has made up, under names for both brokers.

Steps name producers, epochs and topics in words; a side puts in the ids of its broker. What a
broker answers is turned into plain values, in which those ids are names again.
"""

import contextlib
import socket
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from coterie.address import Address
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from coterie.protocol.messages.describe_transactions import DescribeTransactionsRequest
from coterie.protocol.messages.end_txn import EndTxnResponse
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.unit.server.running import SocketClient

# An id that no broker gives in a run.
STRANGER_ID = 777_777
CONNECTIONS = 3
_TIMEOUT_S = 20
_PAUSE_S = 0.004
_TRIES = 2_000
# Requests before their answers are read.
_AT_ONCE = 200
_ENDING = ("PrepareCommit", "PrepareAbort", "PrepareEpochFence")


class Identity(NamedTuple):
    """A producer as requests name it."""

    id: int
    epoch: int


class Who(NamedTuple):
    """A producer in words.

    Attributes:
        name: the transactional id; for a producer without one, any other name.
        which: "current", "older", "newer", "previous" or "stranger".
    """

    name: str
    which: str = "current"


class Side:
    """The connections to one broker, and what it has made up."""

    def __init__(self, address: Address, more: int = 0) -> None:
        """Connect to a broker.

        Args:
            address: of the broker.
            more: how many connections there are behind the usual ones.
        """
        self._clients = [
            SocketClient(socket.create_connection(address, timeout=_TIMEOUT_S))
            for _ in range(CONNECTIONS + 1 + more)
        ]
        self._address = address
        self.producer_names: dict[int, str] = {}
        self.topic_names: dict[bytes, str] = {bytes(16): ""}
        self.member_names: dict[str, str] = {}
        self.identities: dict[str, list[Identity]] = {}
        self.sequences: dict[tuple[Identity, str, int], int] = {}
        self.starts: dict[tuple[str, int], list[int]] = {}
        self.bases: dict[tuple[Identity, str, int], int] = {}

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients:
            client.socket.close()

    # -- requests ----------------------------------------------------------------------------------

    def call(self, request: Any, version: int, connection: int = CONNECTIONS) -> Any:
        """Send a request and return the answer; None if the broker closes the connection.

        By default the connection is the one that steps do not use.
        """
        try:
            return self._clients[connection].call(request, version)
        except (EOFError, ConnectionResetError):
            self.reconnect(connection)
            return None

    def reconnect(self, connection: int) -> None:
        """Close a connection, and open it again."""
        self._clients[connection].socket.close()
        again = socket.create_connection(self._address, timeout=_TIMEOUT_S)
        self._clients[connection] = SocketClient(again)

    def send(self, request: Any, version: int, connection: int) -> None:
        """Send a request whose answer is received later."""
        self._clients[connection].send(request, version)

    def receive(self, request: Any, version: int, connection: int) -> Any:
        """Return the answer to a request that was sent."""
        return self._clients[connection].receive(request, version)

    def until(self, request: Any, version: int, *unfinished: int) -> Any:
        """Repeat a request while its error is one of these."""
        for _ in range(_TRIES):
            answer = self.call(request, version)
            if answer is not None and answer.error_code not in unfinished:
                return answer
            time.sleep(_PAUSE_S)
        raise TimeoutError(f"{type(request).__name__}: {answer}")

    # -- identities --------------------------------------------------------------------------------

    def identity(self, who: Who) -> Identity:
        """Return what a request of this producer names."""
        known = self.identities.get(who.name)
        if who.which == "stranger" or not known:
            return Identity(STRANGER_ID, 0)
        current = known[-1]
        if who.which == "older":
            return Identity(current.id, current.epoch - 1)
        if who.which == "newer":
            return Identity(current.id, current.epoch + 1)
        if who.which == "previous":
            return known[-2] if len(known) > 1 else current
        return current

    def learn_identity(
        self, name: str, answer: InitProducerIdResponse | EndTxnResponse | None
    ) -> None:
        """Keep the identity that a broker has given to a producer."""
        if answer is None or answer.error_code or answer.producer_id < 0:
            return
        identity = Identity(answer.producer_id, answer.producer_epoch)
        known = self.identities.setdefault(name, [])
        if not known or known[-1] != identity:
            known.append(identity)
        self.producer_name(answer.producer_id)

    def producer_name(self, producer_id: int) -> str:
        """Return the name of a producer id, which is its number in the order of appearance."""
        if producer_id < 0 or producer_id == STRANGER_ID:
            return str(producer_id)
        return self.producer_names.setdefault(producer_id, f"producer-{len(self.producer_names)}")

    def topic_id(self, name: str) -> bytes:
        """Return the id of a topic; a made-up one if it does not exist."""
        for topic_id, each in self.topic_names.items():
            if each == name and name:
                return topic_id
        return b"\1" * 16

    # -- waiting -----------------------------------------------------------------------------------

    def settle(self, transactional_ids: tuple[str, ...]) -> None:
        """Wait until no transaction of these ids is being ended."""
        request = DescribeTransactionsRequest(transactional_ids=list(transactional_ids))
        for _ in range(_TRIES):
            states = self.call(request, 0).transaction_states
            if not any(each.transaction_state in _ENDING for each in states):
                return
            time.sleep(_PAUSE_S)
        raise TimeoutError(f"{states}")

    def wait_for_abort(self, transactional_id: str) -> None:
        """Wait until a transaction is not open any more, because its time has passed."""
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        for _ in range(_TRIES):
            (state,) = self.call(request, 0).transaction_states
            if state.transaction_state not in ("Ongoing", *_ENDING):
                return
            time.sleep(_PAUSE_S)
        raise TimeoutError(f"{state}")

    # -- what conversations need -------------------------------------------------------------------

    def find_coordinators(self) -> None:
        """Have both internal topics created, and their coordinators ready."""
        for key_type in (0, 1):
            request = FindCoordinatorRequest(key="any", key_type=key_type)
            self.until(request, 3, ErrorCode.COORDINATOR_NOT_AVAILABLE)
        init = InitProducerIdRequest(transactional_id="first", transaction_timeout_ms=1000)
        self.until(init, 4, *_NOT_YET)

    def create_topics(self, partitions: dict[str, int]) -> None:
        """Create topics, and learn their ids."""
        topics = [
            CreateTopicsRequestTopic(name=name, num_partitions=count, replication_factor=1)
            for name, count in partitions.items()
        ]
        answer = self.call(CreateTopicsRequest(topics=topics, timeout_ms=10_000), 7)
        for each in answer.topics:
            assert not each.error_code, each
            self.topic_names[each.topic_id] = each.name
        numbers = {name: list(range(count)) for name, count in partitions.items()}
        for _ in range(_TRIES):
            if not any(each.error_code for each in self.list_offsets(numbers, -1)):
                return
            time.sleep(_PAUSE_S)
        raise TimeoutError(f"{partitions}")

    def list_offsets(self, partitions: dict[str, list[int]], timestamp: int) -> list[Any]:
        """Return what ListOffsets answers for some partitions."""
        asked = [
            ListOffsetsRequestTopic(
                name=name,
                partitions=[
                    ListOffsetsRequestPartition(partition_index=index, timestamp=timestamp)
                    for index in numbers
                ],
            )
            for name, numbers in partitions.items()
        ]
        found = self.call(ListOffsetsRequest(replica_id=-1, topics=asked), 7)
        return [each for topic in found.topics for each in topic.partitions]

    def join(self, group: str) -> None:
        """Let one member join a group, under the name of the group."""
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"")
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=300_000,
            rebalance_timeout_ms=300_000,
            member_id="",
            protocol_type="consumer",
            protocols=[protocol],
        )
        first = self.until(request, 3, *_NOT_YET)
        member_id = first.member_id
        assert not first.error_code, first
        self.member_names[member_id] = f"member-of-{group}"
        assignment = SyncGroupRequestAssignment(member_id=member_id, assignment=b"")
        sync = SyncGroupRequest(
            group_id=group,
            generation_id=first.generation_id,
            member_id=member_id,
            assignments=[assignment],
        )
        synced = self.call(sync, 3)
        assert not synced.error_code, synced

    def wear_out(self, transactional_id: str, epoch: int) -> None:
        """Raise the epoch of a new transactional id by InitProducerId after InitProducerId."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id, transaction_timeout_ms=60_000
        )
        client, reached = self._clients[CONNECTIONS], -1
        while reached < epoch:
            count = min(_AT_ONCE, epoch - reached)
            for _ in range(count):
                client.send(request, 4)
            for _ in range(count):
                answer = client.receive(request, 4)
                assert not answer.error_code, answer
            reached = answer.producer_epoch
        self.learn_identity(transactional_id, answer)

    def member_id(self, group: str) -> str:
        """Return the id of the member that has joined a group; a made-up one if none has."""
        wanted = f"member-of-{group}"
        return next((key for key, name in self.member_names.items() if name == wanted), "nobody")


_NOT_YET = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


@contextlib.contextmanager
def connected(*addresses: Address, more: int = 0) -> Iterator[list[Side]]:
    """Connect to brokers, with both internal topics made; for `more` see `Side`."""
    sides = [Side(address, more) for address in addresses]
    try:
        for side in sides:
            side.find_coordinators()
        yield sides
    finally:
        for side in sides:
            side.close()
