"""A coordinator on virtual time with its log in memory, for every test of the pure core.

`CoordinatorHarness` does around the coordinator what the server does: it passes requests on,
carries out their effects, keeps the records as the bytes that a disk would hold, and fires timers
at their exact time. A subclass decides when appends are acknowledged or fail and receives the
responses. The transcripts (`CoreBroker`), the simulation and the unit tests each have a subclass.

Invariant: the batches of a partition are acknowledged in the order of their appends; a failure
loses all that are pending.
"""

from collections import deque
from collections.abc import Hashable
from typing import Any, NamedTuple, Self

from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.groups.pending_offsets import TransactionEnd
from coterie.coordinator.groups.service import GroupCoordinator
from coterie.coordinator.groups.share.state_request import StateRequest, same_answer
from coterie.coordinator.kernel.append import Append, BatchForm
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.event import Event
from coterie.coordinator.kernel.request import RequestContext
from coterie.coordinator.topic_image import TopicChange, deletion
from coterie.protocol.control_records import Marker, read_marker
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from coterie.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from coterie.protocol.messages.log_records import encode_key, encode_value
from coterie.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from coterie.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from coterie.protocol.messages.share_group_describe import (
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)
from coterie.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from coterie.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from coterie.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from coterie.protocol.record_batch_layout import CONTROL
from coterie.protocol.records import Record as LogRecord
from coterie.protocol.records import encode_batch
from coterie.protocol.wire import Message
from coterie.server.metadata.topics_image import PublishedTopics

# The start of virtual time: a moment in 2023, so that a time of 0 is never mistaken for a real one.
START_MS = 1_700_000_000_000

# More timers than this at one moment mean that a timer arms itself again without end.
_MAX_TIMERS_AT_ONCE = 10_000

Pair = tuple[bytes, bytes | None]
"""Key and value of a record as they are in the log; the value of a tombstone is None."""


class ProducerPair(tuple[bytes, bytes | None]):  # noqa: SLOT001 - a tuple cannot have slots
    """Key and value of a record of a transaction, or of its marker.

    Attributes:
        form: the header of its batch.
    """

    form: BatchForm

    @classmethod
    def of(cls, pair: Pair, form: BatchForm) -> Self:
        """Return a pair with the header of its batch."""
        made = cls(pair)
        made.form = form
        return made

    @property
    def marker(self) -> Marker | None:
        """What a marker says; None for a record."""
        if not self.form.attributes & CONTROL:
            return None
        return read_marker(LogRecord(0, 0, *self, ()))


class GroupApi(NamedTuple):
    """One API of the coordinator: Kafka's name, the coordinator's method, the response's class."""

    name: str
    method: str
    response: type[Message]


GROUP_APIS: dict[type[Message], GroupApi] = {
    JoinGroupRequest: GroupApi("JoinGroup", "join_group", JoinGroupResponse),
    SyncGroupRequest: GroupApi("SyncGroup", "sync_group", SyncGroupResponse),
    HeartbeatRequest: GroupApi("Heartbeat", "heartbeat", HeartbeatResponse),
    LeaveGroupRequest: GroupApi("LeaveGroup", "leave_group", LeaveGroupResponse),
    OffsetCommitRequest: GroupApi("OffsetCommit", "offset_commit", OffsetCommitResponse),
    TxnOffsetCommitRequest: GroupApi(
        "TxnOffsetCommit", "txn_offset_commit", TxnOffsetCommitResponse
    ),
    OffsetFetchRequest: GroupApi("OffsetFetch", "offset_fetch", OffsetFetchResponse),
    OffsetDeleteRequest: GroupApi("OffsetDelete", "offset_delete", OffsetDeleteResponse),
    ListGroupsRequest: GroupApi("ListGroups", "list_groups", ListGroupsResponse),
    DescribeGroupsRequest: GroupApi("DescribeGroups", "describe_groups", DescribeGroupsResponse),
    DeleteGroupsRequest: GroupApi("DeleteGroups", "delete_groups", DeleteGroupsResponse),
    ConsumerGroupHeartbeatRequest: GroupApi(
        "ConsumerGroupHeartbeat", "consumer_group_heartbeat", ConsumerGroupHeartbeatResponse
    ),
    ConsumerGroupDescribeRequest: GroupApi(
        "ConsumerGroupDescribe", "consumer_group_describe", ConsumerGroupDescribeResponse
    ),
    ShareGroupHeartbeatRequest: GroupApi(
        "ShareGroupHeartbeat", "share_group_heartbeat", ShareGroupHeartbeatResponse
    ),
    ShareGroupDescribeRequest: GroupApi(
        "ShareGroupDescribe", "share_group_describe", ShareGroupDescribeResponse
    ),
    StreamsGroupHeartbeatRequest: GroupApi(
        "StreamsGroupHeartbeat", "streams_group_heartbeat", StreamsGroupHeartbeatResponse
    ),
    StreamsGroupDescribeRequest: GroupApi(
        "StreamsGroupDescribe", "streams_group_describe", StreamsGroupDescribeResponse
    ),
}


class Batch(NamedTuple):
    """The records of one append.

    Attributes:
        number: counts the appends of a harness over all partitions and restarts.
        append: the append, as the coordinator made it.
        pairs: its records as bytes.
    """

    number: int
    append: Append
    pairs: list[Pair]

    def __repr__(self) -> str:
        return f"Batch(number={self.number}, pairs={self.pairs})"


class PartitionLog:
    """The log of one `__consumer_offsets` partition.

    Attributes:
        durable: the acknowledged records, oldest first.
        pending: appended batches that are neither acknowledged nor lost, oldest first.
    """

    def __init__(self) -> None:
        self.durable: list[Pair] = []
        self.pending: deque[Batch] = deque()

    def acknowledge(self, count: int) -> None:
        """Make the oldest `count` pending batches durable."""
        for _ in range(count):
            self.durable += self.pending.popleft().pairs

    def take_pending(self) -> list[Batch]:
        """Remove all pending batches and return them."""
        batches = list(self.pending)
        self.pending.clear()
        return batches


class CoordinatorHarness:
    """A coordinator, its clock and its log.

    Attributes:
        config: the settings; a restart applies changed ones.
        now_ms: the virtual time.
        logs: one log per partition.
        topics: the topics of the cluster; a restart keeps them.
        events: every event since the start; a test may clear the list.
        state_requests: what share groups have asked of a share coordinator and is not answered.
        coordinator: the object under test; a restart replaces it.
    """

    def __init__(self, config: GroupConfig, start_ms: int = START_MS) -> None:
        """Create a coordinator that serves every partition from an empty log."""
        self.config = config
        self.now_ms = start_ms
        self.logs = [PartitionLog() for _ in range(config.offsets_topic_num_partitions)]
        self.topics = PublishedTopics()
        self.events: list[Event] = []
        self.state_requests: list[StateRequest] = []
        self._batch_number = 0
        self._id_number = 0
        self.coordinator = self.new_coordinator()
        self.load_all()

    def new_coordinator(self) -> GroupCoordinator:
        """Return a coordinator that serves no partition yet."""
        return GroupCoordinator(self.config, self.new_id, self.now_ms, topics=self.topics.image)

    def new_id(self) -> str:
        """Return the next text that takes the place of a random uuid in member ids."""
        self._id_number += 1
        return f"{self._id_number:x}"

    # -- requests and effects ----------------------------------------------------------------------

    def handle(self, request: Message, context: RequestContext) -> Effects[Any]:
        """Pass a request to the coordinator; the caller carries the effects out."""
        method = getattr(self.coordinator, GROUP_APIS[type(request)].method)
        if type(request) is HeartbeatRequest:
            effects: Effects[Any] = method(self.now_ms, request)
        else:
            effects = method(self.now_ms, request, context)
        return effects

    def carry_out(self, effects: Effects[Any], to: Hashable = None) -> None:
        """Record the events, append the records and deliver the responses.

        Args:
            effects: of one call of the coordinator.
            to: the reply address of the request that was passed on, if it was one.
        """
        self.events += effects.events
        self.state_requests += effects.requests
        for append in effects.appends:
            self.append(append)
        self.deliver_responses(effects, to)

    def deliver_responses(self, effects: Effects[Any], to: Hashable) -> None:
        """Deliver the response to the request itself, then those to delayed requests."""
        if effects.response is not None:
            self.deliver(to, effects.response)
        for reply in effects.replies:
            self.deliver(reply.to, reply.message)

    def deliver(self, to: Any, message: Any) -> None:
        """Deliver a response to a reply address."""
        raise NotImplementedError

    def answer_state(self, error: ErrorCode = ErrorCode.NONE) -> None:
        """Answer what share groups have asked, in the place of a share coordinator."""
        asked, self.state_requests = self.state_requests, []
        for request in asked:
            answer = same_answer(request.message, error)
            self.carry_out(self.coordinator.state_answered(request, answer, self.now_ms))

    # -- topics ------------------------------------------------------------------------------------

    def put_topic(self, name: str, topic_id: bytes, partitions: int) -> None:
        """Create a topic, or let one grow."""
        before = self.topics.image.by_name.get(name)
        self.topics.put(name, topic_id, partitions)
        self._topic_changed(TopicChange(before, self.topics.image.by_name[name]))

    def remove_topic(self, name: str, topic_id: bytes) -> None:
        """Delete a topic; one that was never created may have offsets, too."""
        if name in self.topics.image.by_name:
            self.topics.remove(name)
        self._topic_changed(deletion(name, topic_id))

    def _topic_changed(self, change: TopicChange) -> None:
        self.carry_out(self.coordinator.topics_changed([change], self.now_ms))

    # -- the log -----------------------------------------------------------------------------------

    def append(self, append: Append) -> Batch:
        """Add a pending batch to the log of a partition."""
        self._batch_number += 1
        pairs: list[Pair] = [
            (encode_key(key), None if value is None else encode_value(value))
            for key, value in append.records
        ]
        assert append.pairs in (None, pairs), f"{append} is encoded as something else"
        if append.marker is not None:
            pairs.append(append.marker)
        if append.form is not None:
            pairs = [ProducerPair.of(pair, append.form) for pair in pairs]
        batch = Batch(self._batch_number, append, pairs)
        self.logs[append.partition].pending.append(batch)
        return batch

    def end_transaction(self, partition: int, end: TransactionEnd, to: Hashable) -> None:
        """Write a marker; an error code is delivered to `to` when it is durable or lost."""
        self.carry_out(self.coordinator.end_transaction(partition, end, to, self.now_ms), to)

    def acknowledge(self, partition: int, count: int) -> None:
        """Make the oldest `count` batches of a partition durable and let the coordinator know."""
        self.logs[partition].acknowledge(count)
        effects = self.coordinator.appended([(partition, count)], self.now_ms)
        for mistake in effects.mistakes:
            raise mistake
        self.carry_out(effects)

    def fail_appends(self, partition: int, error: ErrorCode) -> None:
        """Lose all pending batches of a partition, which is loaded again from what is durable."""
        self.logs[partition].take_pending()
        self.carry_out(self.coordinator.append_failed(partition, error, self.now_ms))
        self.replay_log(partition)
        self.finish_load(partition)

    # -- time --------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Fire the timers that are due now."""
        self.carry_out(self.coordinator.advance(self.now_ms))

    def wait(self, duration_ms: int) -> None:
        """Let time pass, from deadline to deadline, so that every timer fires at its exact time."""
        end_ms = self.now_ms + duration_ms
        while (next_ms := self.coordinator.next_deadline_ms()) is not None and next_ms <= end_ms:
            self.now_ms = max(self.now_ms, next_ms)
            self.fire_due_timers()
        self.now_ms = end_ms

    def fire_due_timers(self) -> None:
        """Fire timers until none is due, those included that a timer armed for this moment."""
        for _ in range(_MAX_TIMERS_AT_ONCE):
            next_ms = self.coordinator.next_deadline_ms()
            if next_ms is None or next_ms > self.now_ms:
                return
            self.advance()
        raise AssertionError("a timer arms itself again for the same moment without end")

    # -- partitions --------------------------------------------------------------------------------

    def begin_load(self, partition: int, epoch: int) -> bool:
        """Begin to load a partition and replay its log; return False for an old epoch."""
        if not self.coordinator.begin_load(partition, epoch):
            return False
        self.replay_log(partition)
        return True

    def replay_log(self, partition: int) -> None:
        """Apply the durable records of a partition that is being loaded."""
        durable = self.logs[partition].durable
        if any(type(pair) is ProducerPair for pair in durable):
            self._replay_transactions(partition, durable)
            return
        for key, value in durable:
            self.coordinator.replay(partition, key, value)

    def _replay_transactions(self, partition: int, durable: list[Pair]) -> None:
        """Apply a log with transactions: only its reader knows which records count."""
        coordinator = self.coordinator
        reader = coordinator.reader()
        for offset, pair in enumerate(durable):
            form = pair.form if type(pair) is ProducerPair else BatchForm(0)
            reader.add_batches(encode_batch([pair], offset, self.now_ms, **form._asdict()))
        still_open = list(reader.open_records())
        for key, value in reader.survivors():
            coordinator.replay(partition, key, value)
        for record in still_open:
            coordinator.replay_open(partition, record)

    def finish_load(self, partition: int) -> None:
        """Serve a partition whose log was replayed."""
        self.carry_out(self.coordinator.finish_load(partition, self.now_ms))

    def load_all(self) -> None:
        """Load every partition, in the first epoch."""
        for partition in range(len(self.logs)):
            assert self.begin_load(partition, 0)
            self.finish_load(partition)

    def restart(self) -> None:
        """Replace the coordinator by a new one that loads the durable records only."""
        for log in self.logs:
            log.take_pending()
        self.coordinator = self.new_coordinator()
        self.load_all()
