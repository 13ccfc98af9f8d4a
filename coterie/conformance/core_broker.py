"""A broker for transcripts around the coordinator core: bytes in, bytes out, on virtual time.

Each request is encoded in the version that the transcript states and decoded again, and so is its
response. Records are kept as the bytes that a disk would hold and are replayed from them after a
restart. A transcript therefore exercises the codecs and the log format as well as its own rule.

Invariants, checked after every step: a request gets at most one response; the state of a group is
the one that its last event reports. `check_log` checks at the end that replaying the log gives the
durable state.
"""

from collections import Counter
from collections.abc import Hashable
from typing import Any, NamedTuple

from coterie.conformance.core_lines import event_text, pair_text
from coterie.conformance.harness import (
    GROUP_APIS,
    START_MS,
    Batch,
    CoordinatorHarness,
    Pair,
    ProducerPair,
)
from coterie.conversation.names import Names
from coterie.conversation.responses import response_lines
from coterie.conversation.structures import error_text
from coterie.conversation.versions import TOPIC_IDS_SINCE
from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.replay import (
    LoggedState,
    replay_encoded,
    replay_marker,
    replay_pending,
)
from coterie.coordinator.groups.service import GroupCoordinator
from coterie.coordinator.kernel.append import Append
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import ClientContext, RequestContext
from coterie.coordinator.kernel.shard_state import ShardState
from coterie.protocol.errors import ErrorCode
from coterie.protocol.frames import (
    decode_request_header,
    decode_response,
    encode_request,
)
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest
from coterie.protocol.messages.log_records import decode_key, decode_value
from coterie.protocol.messages.log_records import encode_value as encode_record_value
from coterie.protocol.messages.offset_commit import OffsetCommitRequest
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest
from coterie.protocol.messages.record_types import UnknownKey
from coterie.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from coterie.protocol.wire import Message
from coterie.server.handlers.streams_groups import refused_names

_HOST = "/127.0.0.1"

_STATE_AFTER = {
    "rebalance_began": "PreparingRebalance",
    "join_completed": "CompletingRebalance",
    "generation_completed": "Stable",
    "group_emptied": "Empty",
}


class Output(NamedTuple):
    """Lines of a transcript. For a response also the client and the decoded message."""

    lines: list[str]
    client: str = ""
    message: Message | None = None


class PendingRequest:
    """A request without a response; the coordinator gets it as the reply address."""

    __slots__ = ("answered", "client", "correlation_id", "disconnected", "request_type", "version")

    def __init__(self, client: str, request_type: type[Message], version: int, number: int) -> None:
        self.client = client
        self.request_type = request_type
        self.version = version
        self.correlation_id = number
        self.answered = False
        # As in Kafka, the coordinator does not notice that a client has disconnected.
        self.disconnected = False


class PendingMarker:
    """A marker that was not answered; the coordinator gets it as the reply address."""

    __slots__ = ()


class CoreBroker(CoordinatorHarness):
    """A coordinator that serves the clients of one transcript.

    Attributes:
        names: the names of the transcript.
        holding: whether appends stay pending until `release_appends` or `fail_pending`.
        holding_state: whether requests to the share coordinator stay without an answer until
            `answer-state`.
        failing: the error of the next append; None if it succeeds.
        waiting: the requests without a response, oldest first.
    """

    def __init__(self, names: Names, config: GroupConfig) -> None:
        """Create a broker that serves every partition from an empty log."""
        self.names = names
        self.holding = False
        self.holding_state = False
        self.failing: ErrorCode | None = None
        self.waiting: list[PendingRequest] = []
        self._outputs: list[Output] = []
        self._requests = 0
        self._ids: Counter[str] = Counter()
        self._id_prefix = ""
        # Whether the member ids of the request have no prefix.
        self._ids_are_bare = False
        super().__init__(config)

    def take_outputs(self) -> list[Output]:
        """Return what happened since the last call; the share coordinator answers before that."""
        self._ask_share_coordinator()
        outputs, self._outputs = self._outputs, []
        return outputs

    def _ask_share_coordinator(self) -> None:
        """Let the share coordinator answer, unless it is held."""
        while self.state_requests and not self.holding_state:
            self.answer_state()

    def show(self, *lines: str) -> None:
        """Add lines to the output."""
        self._outputs += [Output([line]) for line in lines]

    # -- requests ----------------------------------------------------------------------------------

    def request(self, client: str, message: Message, version: int) -> None:
        """Send a request and fire the timers that are due.

        Args:
            client: `c1`, or `c1.2` for a second connection of the process c1.
            message: the request.
            version: the version to encode it in.
        """
        self._requests += 1
        client_id = client.partition(".")[0]
        pending = PendingRequest(client, type(message), version, self._requests)
        frame = encode_request(message, version, self._requests, client_id)
        flexible = message.has_flexible_header(version)
        header, body = decode_request_header(frame, 4, len(frame), flexible=flexible)
        decoded = type(message).decode(frame, version, body)
        if decoded != message:
            raise ValueError(f"version {version} cannot carry every field of {message}")
        assert header.client_id == client_id
        self._resolve_topics(decoded, version)
        self._id_prefix = getattr(message, "group_instance_id", None) or client_id
        self._ids_are_bare = _gives_bare_ids(message, self.coordinator)
        self.waiting.append(pending)
        context = RequestContext(
            ClientContext(client_host=_HOST, client_id=client_id), version, pending
        )
        refused = None
        if isinstance(decoded, StreamsGroupHeartbeatRequest):
            refused = refused_names(decoded)
        effects = Effects(refused) if refused is not None else self.handle(decoded, context)
        self.carry_out(effects, pending)
        self._ask_share_coordinator()
        if isinstance(decoded, StreamsGroupHeartbeatRequest) and refused is None:
            self._create_internal_topics(decoded.group_id)
        if not pending.answered:
            self.show(f"{client}  (delayed)")
        self.fire_due_timers()

    def _create_internal_topics(self, group_id: str) -> None:
        """Create those that a streams group misses, as the server does after its answer."""
        for topic in self.coordinator.missing_topics(group_id):
            self.put_topic(topic.name, self.names.topic_id(topic.name), topic.partitions)

    def _resolve_topics(self, request: Message, version: int) -> None:
        """Give every topic its name and its id, as the server's handlers do."""
        if isinstance(request, OffsetCommitRequest):
            for topic in request.topics:
                if version >= TOPIC_IDS_SINCE:
                    topic.name = self.names.topic_name(topic.topic_id)
                else:
                    topic.topic_id = self.names.topic_id(topic.name)
        elif isinstance(request, OffsetFetchRequest) and version >= TOPIC_IDS_SINCE:
            for group in request.groups:
                for fetched in group.topics or []:
                    fetched.name = self.names.topic_name(fetched.topic_id)

    def new_id(self) -> str:
        """Count per client or instance, so that member ids are `c1-1`, `c1-2`, `i1-1`."""
        self._ids[self._id_prefix] += 1
        number = str(self._ids[self._id_prefix])
        return f"{self._id_prefix}-{number}" if self._ids_are_bare else number

    # -- effects -----------------------------------------------------------------------------------

    def carry_out(self, effects: Effects[Any], to: Hashable = None) -> None:
        """Show the events, append, respond; then acknowledge or fail the appends."""
        for event in effects.events:
            text = event_text(event, START_MS)
            if text is not None:
                self.show(text)
        self._check_states(effects)
        super().carry_out(effects, to)
        partitions = dict.fromkeys(append.partition for append in effects.appends)
        if partitions and self.failing is not None:
            error, self.failing = self.failing, None
            for partition in partitions:
                self.fail_appends(partition, error)
        elif not self.holding:
            for partition in partitions:
                self.acknowledge(partition, len(self.logs[partition].pending))

    def append(self, append: Append) -> Batch:
        """Show the records that are appended."""
        batch = super().append(append)
        prefix = "log+ failed: " if self.failing else "log+ held: " if self.holding else "log+ "
        self.show(*(prefix + pair_text(pair, START_MS, self.names) for pair in batch.pairs))
        return batch

    def deliver(self, to: PendingRequest | PendingMarker, message: Any) -> None:
        """Encode a response, decode it as the client does, and show it."""
        if isinstance(to, PendingMarker):
            self.show(f"marker {error_text(message)}")
            return
        assert not to.answered, f"{to.client} gets a second response"
        to.answered = True
        self.waiting.remove(to)
        frame = type(message).framer(to.version)(message, to.correlation_id)
        response_type = GROUP_APIS[to.request_type].response
        correlation_id, decoded = decode_response(response_type, frame[4:], to.version)
        assert correlation_id == to.correlation_id
        if not to.disconnected:
            lines = response_lines(to.client, to.version, decoded, self.names)
            self._outputs.append(Output(lines, to.client, decoded))

    # -- the log -----------------------------------------------------------------------------------

    def release_appends(self, count: int | None) -> None:
        """Acknowledge the oldest `count` pending appends; with None all, and hold no more."""
        if count is None:
            self.holding = False
        for partition, batches in self._oldest_pending(count).items():
            self.acknowledge(partition, batches)
        self.fire_due_timers()

    def fail_pending(self, error: ErrorCode) -> None:
        """Fail all pending appends and hold no more."""
        self.holding = False
        for partition in self._oldest_pending(None):
            self.fail_appends(partition, error)
        self.fire_due_timers()

    def _oldest_pending(self, count: int | None) -> Counter[int]:
        """Return how many of the oldest pending batches each partition has."""
        pending = sorted(
            (batch.number, partition)
            for partition, log in enumerate(self.logs)
            for batch in log.pending
        )
        return Counter(partition for _, partition in pending[:count])

    def restart(self) -> None:
        """Stop abruptly and start again from the durable records; all connections are lost."""
        self.show(*(f"{each.client}  (connection lost)" for each in self.waiting))
        self.waiting.clear()
        self.state_requests.clear()
        self.holding, self.failing = False, None
        super().restart()

    # -- checks ------------------------------------------------------------------------------------

    def _check_states(self, effects: Effects[Any]) -> None:
        last: dict[str, str] = {}
        for event in effects.events:
            if event.name in _STATE_AFTER:
                last[event.group_id] = _STATE_AFTER[event.name]
        for group_id, state in last.items():
            group = self.coordinator.group(group_id)
            assert group is None or group.state_name == state, (
                f"the last event of {group} says {state}"
            )

    def check_log(self) -> None:
        """Check that replaying the log gives the durable state of every partition in service."""
        for shard in self.coordinator.shards:
            if shard.state is not ShardState.ACTIVE or shard.unacknowledged:
                continue
            replayed = self.coordinator.types.logged_state()
            for pair in self.logs[shard.partition].durable:
                _replay_pair(replayed, pair)
            assert _as_bytes(replayed) == _as_bytes(shard.logged), "log and memory differ"


def _gives_bare_ids(request: Message, coordinator: GroupCoordinator) -> bool:
    """Return whether a member id that the request gets is nothing but a random text."""
    if isinstance(request, JoinGroupRequest):
        group = coordinator.group(request.group_id)
        return isinstance(group, ConsumerGroup) and not group.is_empty
    return isinstance(request, ConsumerGroupHeartbeatRequest)


def _replay_pair(state: LoggedState, pair: Pair) -> None:
    """Apply one record, or one marker, in the order of the log."""
    if type(pair) is not ProducerPair:
        replay_encoded(state, *pair)
        return
    form, marker = pair.form, pair.marker
    if marker is not None:
        replay_marker(state, form.producer_id, commit=marker.commit)
        return
    key = decode_key(pair[0])
    assert not isinstance(key, UnknownKey), f"{key} in a transaction"
    record = key, decode_value(key, pair[1])
    assert replay_pending(state, form.producer_id, form.producer_epoch, record), record


def _as_bytes(state: LoggedState) -> tuple[object, ...]:
    """Return durable state in a form that compares only what the log can hold."""
    groups = {
        (group_type, name): encode_record_value(value)
        for group_type, records in state.of_types.items()
        for name, value in records.values().items()
    }
    offsets = {
        (group, topic, index): encode_record_value(value)
        for group, topics in state.offsets.items()
        for topic, partitions in topics.items()
        for index, value in partitions.items()
    }
    pending = {
        producer_id: {
            place: (encode_record_value(each.value), each.overtaken)
            for place, each in transaction.offsets.items()
        }
        for producer_id, transaction in state.pending.transactions.items()
        if transaction.offsets
    }
    return groups, offsets, pending, state.groups_by_topic.keys(), state.pending.by_topic
