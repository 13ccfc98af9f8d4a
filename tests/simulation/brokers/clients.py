"""A client that learns who leads and coordinates what, and may have learnt it long ago.

What a client does is a generator. It yields an `Ask`, or a request and its version, and is sent the
response, or None if it was lost. It yields a number to wait for so many milliseconds, or None to
wait for a moment. The client sends each request to the broker that it knows to be in charge, over
the connection that it has; it asks anew after a refusal, but not after every one.
"""

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.protocol.errors import ErrorCode
from coterie.protocol.fields import Declaration
from coterie.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from coterie.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from coterie.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest
from coterie.protocol.messages.describe_transactions import DescribeTransactionsRequest
from coterie.protocol.messages.end_txn import EndTxnRequest
from coterie.protocol.messages.fetch import FetchRequest
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest
from coterie.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.protocol.messages.offset_delete import OffsetDeleteRequest
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest
from coterie.protocol.messages.produce import ProduceRequest
from coterie.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from coterie.protocol.schema import fields_of
from coterie.server.cluster.image import CoordinatorType
from tests.simulation.checks.violation import require

if TYPE_CHECKING:
    from tests.simulation.brokers.lines import Line
    from tests.simulation.brokers.world import World

# Each request has a response by then, or its connection has ended (K8): rebalances and pauses are
# shorter.
PATIENCE_MS = 9_000
# How often a client stays with the broker that has refused it, and loses its connection.
_STAYS = 0.2
_LOSES = 0.01

# After these a client tries again, at the broker that is in charge then.
MOVED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)

# Who is in charge of a request: the coordinator of a key, or the leader of a partition of a topic.
Place = tuple[CoordinatorType | str, str | int]

_OF_TRANSACTIONS = (
    InitProducerIdRequest,
    AddPartitionsToTxnRequest,
    AddOffsetsToTxnRequest,
    EndTxnRequest,
)


def _strikes(request: Any) -> float:
    """Return how often an event strikes the broker that is asked, because it is soon over."""
    if isinstance(request, ConsumerGroupHeartbeatRequest):
        # It joins or leaves.
        return _STRIKES if request.member_epoch < 1 else 0.0
    return next((share for each, share in _STRIKES_AT.items() if isinstance(request, each)), 0.0)


# How often an event strikes a broker that is asked for what is soon over; more often what is rare.
_STRIKES = 0.1
_STRIKES_AT = {
    EndTxnRequest: 0.3,
    TxnOffsetCommitRequest: _STRIKES,
    DeleteGroupsRequest: 0.4,
    OffsetDeleteRequest: 0.6,
    DeleteTopicsRequest: 0.4,
}


class Ask(NamedTuple):
    """A request.

    Attributes:
        request, version: the request and its version.
        anywhere: whether it is sent to any broker, whatever the client knows.
        node_id: the broker to which it is sent; None to send it to who is in charge.
    """

    request: Any
    version: int
    anywhere: bool = False
    node_id: int | None = None


# What a client does; see the module.
Steps = Generator[Any, Any, Any]


def place_of(request: Any) -> Place | None:
    """Return who is in charge of a request; None if any broker is."""
    if isinstance(request, ProduceRequest):
        data = request.topic_data[0]
        return data.name, data.partition_data[0].index
    if isinstance(request, FetchRequest):
        topic = request.topics[0]
        return topic.topic, topic.partitions[0].partition
    if isinstance(request, _OF_TRANSACTIONS):
        key = request.transactional_id
        return (CoordinatorType.TRANSACTION, key) if key else None
    if isinstance(request, DescribeTransactionsRequest):
        return CoordinatorType.TRANSACTION, request.transactional_ids[0]
    if isinstance(request, OffsetFetchRequest):
        return CoordinatorType.GROUP, request.groups[0].group_id
    if isinstance(request, ConsumerGroupDescribeRequest):
        return CoordinatorType.GROUP, request.group_ids[0]
    if isinstance(request, DeleteGroupsRequest):
        return CoordinatorType.GROUP, request.groups_names[0]
    if isinstance(request, DescribeGroupsRequest):
        return CoordinatorType.GROUP, request.groups[0]
    key = getattr(request, "group_id", None)
    return None if key is None else (CoordinatorType.GROUP, key)


def errors_of(message: Declaration) -> Iterator[int]:
    """Yield all error codes of a response, wherever they are."""
    for each in fields_of(type(message)):
        value = getattr(message, each.name)
        if each.name.endswith("error_code"):
            yield value
        elif isinstance(value, list):
            for part in value:
                if isinstance(part, Declaration):
                    yield from errors_of(part)


class Client:
    """A client.

    Attributes:
        name: its name.
        waits: what it waits for a response to; None if it does not.
        asked: the broker that it has asked latest.
        patience_ms: how long it waits for a response at most.
    """

    patience_ms = PATIENCE_MS

    def __init__(self, world: "World", name: str, steps: Iterator[Any]) -> None:
        """Begin to do what `steps` says."""
        self.name = name
        self.waits: Any = None
        self.asked = 0
        self._world = world
        self._steps: Any = steps
        self._lines: dict[int, Line] = {}
        self._known: dict[Place, int] = {}
        self._serial = 0
        self._ended = False
        world.after(world.chance.randint(0, 500), self._go_on, None)

    def end(self) -> None:
        """End the client, and all its connections."""
        self._ended = True
        for line in self._lines.values():
            line.lose()

    def line_to(self, node_id: int) -> "Line | None":
        """Return its connection with a broker; None if it knows that there is none."""
        line = self._lines.get(node_id)
        return line if line is not None and line.is_usable else None

    @property
    def lines(self) -> "list[Line]":
        """Its connections."""
        return [each for each in self._lines.values() if each.is_usable]

    def _go_on(self, answer: Any) -> None:
        if self._ended:
            return
        chance = self._world.chance
        wanted = self._steps.send(answer)
        if wanted is None or isinstance(wanted, int):
            pause_ms = chance.choice((1, 5, 30, 100)) if wanted is None else wanted
            self._world.after(pause_ms, self._go_on, None)
            return
        ask = Ask(*wanted)
        place = None if ask.anywhere else place_of(ask.request)
        if ask.node_id is not None:
            self._send(ask, None, ask.node_id)
        elif place is None:
            self._send(ask, place, chance.choice(self._world.node_ids))
        elif place in self._known:
            self._send(ask, place, self._known[place])
        else:
            self._look_up(ask, place)

    def _send(self, ask: Ask, place: Place | None, node_id: int) -> None:
        """Send a request over the connection with a broker; its response is sent to the steps."""
        self._serial += 1
        serial, world = self._serial, self._world
        self.waits, self.asked = ask.request, node_id

        def answered(message: Any) -> None:
            if serial != self._serial:
                return
            self._serial += 1
            self.waits = None
            if message is not None:
                world.answered(self.name, node_id, ask.request, ask.version, message)
            self._learn(place, message)
            # The steps go on in a turn of their own, as another connection would let them.
            world.after(0, self._go_on, message)

        line = self._line(node_id)
        if line is None:
            answered(None)
            return
        line.send(ask.request, ask.version, answered)
        world.faults.strike(node_id, place, _strikes(ask.request))
        if not world.is_calm and world.chance.random() < _LOSES:
            world.after(world.chance.choice((0, 1, 2, 5, 40)), line.lose)
        self._wait(serial, ask.request, line)

    def _wait(self, serial: int, request: Any, line: "Line") -> None:
        """Let a response come in time, or the connection end."""

        def is_late() -> None:
            waits = serial == self._serial and line.is_usable and not self._ended
            require(not waits, "K8", f"{self.name} has no answer of {line.node_id} to {request}")

        self._world.after(self.patience_ms, is_late)

    def _line(self, node_id: int) -> "Line | None":
        line = self._lines.get(node_id)
        if line is None or not line.is_usable:
            line = self._world.connect(self.name, node_id)
            if line is None:
                self._lines.pop(node_id, None)
            else:
                self._lines[node_id] = line
        return line

    def _learn(self, place: Place | None, message: Any) -> None:
        if place is None:
            return
        moves = message is None
        if message is not None and not MOVED.isdisjoint(errors_of(message)):
            moves = self._world.chance.random() >= _STAYS
        if moves:
            self._known.pop(place, None)

    def _look_up(self, ask: Ask, place: Place) -> None:
        """Ask any broker who is in charge, and send the request there."""
        kind, key = place
        if isinstance(kind, CoordinatorType):
            request: Any = FindCoordinatorRequest(key_type=kind, coordinator_keys=[str(key)])
            version = 4
        else:
            request = MetadataRequest(
                topics=[MetadataRequestTopic(name=str(kind))], allow_auto_topic_creation=False
            )
            version = 12
        self._serial += 1
        serial, world = self._serial, self._world
        node_id = world.chance.choice(world.node_ids)

        def answered(message: Any) -> None:
            if serial != self._serial:
                return
            self._serial += 1
            found = -1
            if message is not None:
                world.answered(self.name, node_id, request, version, message)
                found = _found(message, place)
            if found < 0:
                world.after(world.chance.choice((5, 20, 100)), self._go_on, None)
            else:
                self._known[place] = found
                self._send(ask, place, found)

        line = self._line(node_id)
        if line is None:
            answered(None)
        else:
            line.send(request, version, answered)
            self._wait(serial, request, line)


def _found(message: Any, place: Place) -> int:
    """Return the broker that an answer names for a place; -1 for none."""
    if isinstance(place[0], CoordinatorType):
        return int(message.coordinators[0].node_id)
    partitions = message.topics[0].partitions
    return next((each.leader_id for each in partitions if each.partition_index == place[1]), -1)
