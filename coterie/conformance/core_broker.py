"""The least broker around the coordinator core: bytes in, bytes out, a log that is a list, a clock
that is a number.

Every request is encoded in the version stated, decoded, handled, and its answer encoded and decoded
again; every record is kept as the bytes that would be on disk and replayed from them at a restart.
So a transcript exercises the codecs and the log format along with the rule it is about.

Invariants, checked after every step: a request is answered at most once; the state of a group is
the one that its last event says. At the end (`check_log`): replaying the log gives the durable
state.
"""

from collections.abc import Callable
from typing import NamedTuple

from coterie.conformance.answers import answer_lines
from coterie.conformance.core_lines import event_text, record_text
from coterie.conformance.names import Names
from coterie.coordinator.config import GroupConfig
from coterie.coordinator.effects import Append, Effects, RequestContext
from coterie.coordinator.replay import LoggedState, replay
from coterie.coordinator.service import GroupCoordinator
from coterie.coordinator.shard import ShardState
from coterie.protocol.errors import ErrorCode
from coterie.protocol.frames import (
    decode_request_header,
    decode_response,
    encode_request,
)
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from coterie.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from coterie.protocol.messages.log_records import UnknownKey, decode_key, decode_value, encode_key
from coterie.protocol.messages.log_records import encode_value as encode_record_value
from coterie.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from coterie.protocol.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from coterie.protocol.wire import Message

# Where the virtual clock starts: a moment of 2023, so that nothing passes by mistaking 0 for unset.
START_MS = 1_700_000_000_000

_HOST = "/127.0.0.1"
_TOPIC_IDS_SINCE = 10
# More timers than that at one moment mean that one arms itself again and again.
_MOST_TIMERS_AT_ONCE = 10_000

RESPONSES: dict[type[Message], type[Message]] = {
    JoinGroupRequest: JoinGroupResponse,
    SyncGroupRequest: SyncGroupResponse,
    HeartbeatRequest: HeartbeatResponse,
    LeaveGroupRequest: LeaveGroupResponse,
    OffsetCommitRequest: OffsetCommitResponse,
    OffsetFetchRequest: OffsetFetchResponse,
    OffsetDeleteRequest: OffsetDeleteResponse,
    ListGroupsRequest: ListGroupsResponse,
    DescribeGroupsRequest: DescribeGroupsResponse,
    DeleteGroupsRequest: DeleteGroupsResponse,
}

_STATE_AFTER = {
    "rebalance_began": "PreparingRebalance",
    "join_completed": "CompletingRebalance",
    "generation_completed": "Stable",
    "group_emptied": "Empty",
}


class Seen(NamedTuple):
    """Something that happened: its lines and, where it is an answer, whose and which."""

    lines: list[str]
    client: str = ""
    message: Message | None = None


class Pending:
    """A request on its way: the reply address the core is given."""

    __slots__ = ("answered", "client", "correlation_id", "gone", "request_type", "version")

    def __init__(self, client: str, request_type: type[Message], version: int, number: int) -> None:
        self.client = client
        self.request_type = request_type
        self.version = version
        self.correlation_id = number
        self.answered = False
        self.gone = False  # the client hung up: the core is not told, as in Kafka


class CoreBroker:
    """A coordinator, its log and its clock.

    Attributes:
        log: per partition the records as bytes, in order.
        held: appends that wait to be durable, if `holding`.
        failing: what the next append fails with.
    """

    def __init__(self, names: Names, config: GroupConfig) -> None:
        """A broker with all partitions loaded from an empty log, at virtual time 0."""
        self.names = names
        self.config = config
        self.now_ms = START_MS
        self.log: dict[int, list[tuple[bytes, bytes | None]]] = {}
        self.holding = False
        self.held: list[Append] = []
        self.failing: ErrorCode | None = None
        self.waiting: list[Pending] = []
        self._requests = 0
        self._ids: dict[str, int] = {}
        self._id_prefix = ""
        self.coordinator = self._new_coordinator()

    # -- requests ----------------------------------------------------------------------------------

    def request(self, client: str, message: Message, version: int) -> list[Seen]:
        """Send a request from a client; what follows at once, timers that are due included.

        A client is named `c1`, or `c1.2` for a second connection of the process c1.
        """
        self._requests += 1
        client_id = client.partition(".")[0]
        pending = Pending(client, type(message), version, self._requests)
        frame = encode_request(message, version, self._requests, client_id)
        flexible = message.has_flexible_header(version)
        header, body = decode_request_header(frame, 4, len(frame), flexible=flexible)
        decoded = type(message).decode(frame, version, body)
        if decoded != message:
            raise ValueError(f"v{version} cannot carry all of {message}")
        assert header.client_id == client_id
        self._id_prefix = getattr(message, "group_instance_id", None) or client_id
        context = RequestContext(client_id, _HOST, version, pending)
        self.waiting.append(pending)
        seen = self.carry_out(self._handle(decoded, context), pending)
        if not pending.answered:
            seen.append(Seen([f"{client}  (delayed)"]))
        return seen + self.due()

    def _handle(self, request: Message, context: RequestContext) -> Effects:
        coordinator, now_ms = self.coordinator, self.now_ms
        if isinstance(request, HeartbeatRequest):
            return coordinator.heartbeat(now_ms, request)
        if isinstance(request, OffsetCommitRequest):
            self._name_topics(request, context.version)
        if isinstance(request, OffsetFetchRequest) and context.version >= _TOPIC_IDS_SINCE:
            for group in request.groups:
                for topic in group.topics or []:
                    topic.name = self.names.topic_name(topic.topic_id)
        verbs: dict[type[Message], Callable[..., Effects]] = {
            JoinGroupRequest: coordinator.join_group,
            SyncGroupRequest: coordinator.sync_group,
            LeaveGroupRequest: coordinator.leave_group,
            OffsetCommitRequest: coordinator.offset_commit,
            OffsetFetchRequest: coordinator.offset_fetch,
            OffsetDeleteRequest: coordinator.offset_delete,
            ListGroupsRequest: coordinator.list_groups,
            DescribeGroupsRequest: coordinator.describe_groups,
            DeleteGroupsRequest: coordinator.delete_groups,
        }
        return verbs[type(request)](now_ms, request, context)

    def _name_topics(self, request: OffsetCommitRequest, version: int) -> None:
        """What the server's handler does first: every topic gets its name and its id."""
        for topic in request.topics:
            if version >= _TOPIC_IDS_SINCE:
                topic.name = self.names.topic_name(topic.topic_id)
            else:
                topic.topic_id = self.names.topic_id(topic.name)

    def _new_uuid(self) -> str:
        """Counts per prefix, so that ids read `c1-1`, `c1-2`, `i1-1`."""
        self._ids[self._id_prefix] = self._ids.get(self._id_prefix, 0) + 1
        return str(self._ids[self._id_prefix])

    # -- effects -----------------------------------------------------------------------------------

    def carry_out(self, effects: Effects, pending: Pending | None = None) -> list[Seen]:
        """Do what the core wants done: tell, append, answer, acknowledge."""
        seen = [
            Seen([text])
            for event in effects.events
            if (text := event_text(event, START_MS)) is not None
        ]
        self._check_states(effects)
        failed = self.failing if effects.appends else None
        seen += self._told_appends(effects.appends, failed)
        if effects.answer is not None:
            assert pending is not None
            seen += self._deliver(pending, effects.answer)
        for reply in effects.replies:
            assert isinstance(reply.to, Pending)
            seen += self._deliver(reply.to, reply.message)
        return seen + self._append(effects.appends, failed)

    def _deliver(self, pending: Pending, message: Message) -> list[Seen]:
        assert not pending.answered, f"{pending.client} is answered twice"
        pending.answered = True
        self.waiting.remove(pending)
        frame = type(message).framer(pending.version)(message, pending.correlation_id)
        response_type = RESPONSES[pending.request_type]
        correlation_id, decoded = decode_response(response_type, frame[4:], pending.version)
        assert correlation_id == pending.correlation_id
        if pending.gone:
            return []
        lines = answer_lines(pending.client, pending.version, decoded, self.names)
        return [Seen(lines, pending.client, decoded)]

    def _told_appends(self, appends: list[Append], failed: ErrorCode | None) -> list[Seen]:
        prefix = "log+ failed: " if failed else "log+ held: " if self.holding else "log+ "
        return [
            Seen([prefix + record_text(key, value, START_MS)])
            for append in appends
            for key, value in encoded_records(append)
        ]

    def _append(self, appends: list[Append], failed: ErrorCode | None) -> list[Seen]:
        if failed:
            self.failing = None
            seen: list[Seen] = []
            for partition in dict.fromkeys(append.partition for append in appends):
                effects = self.coordinator.append_failed(partition, failed, self.now_ms)
                seen += self.carry_out(effects)
            return seen
        if self.holding:
            self.held += appends
            return []
        return self.acknowledge(appends)

    def acknowledge(self, appends: list[Append]) -> list[Seen]:
        """These appends, the oldest of their partitions, are durable."""
        counts: dict[int, int] = {}
        for append in appends:
            self.log.setdefault(append.partition, []).extend(encoded_records(append))
            counts[append.partition] = counts.get(append.partition, 0) + 1
        seen = []
        for partition, count in counts.items():
            seen += self.carry_out(self.coordinator.appended(partition, count, self.now_ms))
        return seen

    # -- time --------------------------------------------------------------------------------------

    def tick(self, duration_ms: int) -> list[Seen]:
        """Let time pass, from deadline to deadline, so that every timer acts at its exact time."""
        target_ms = self.now_ms + duration_ms
        seen: list[Seen] = []
        while (next_ms := self.coordinator.next_deadline_ms()) is not None:
            if next_ms > target_ms:
                break
            self.now_ms = max(self.now_ms, next_ms)
            seen += self.due()
        self.now_ms = target_ms
        return seen + self.due()

    def due(self) -> list[Seen]:
        """Let every timer act whose time has come."""
        seen: list[Seen] = []
        for _ in range(_MOST_TIMERS_AT_ONCE):
            next_ms = self.coordinator.next_deadline_ms()
            if next_ms is None or next_ms > self.now_ms:
                return seen
            seen += self.carry_out(self.coordinator.advance(self.now_ms))
        raise AssertionError("a timer arms itself for the present moment without end")

    # -- life --------------------------------------------------------------------------------------

    def _new_coordinator(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(self.config, self._new_uuid, self.now_ms)
        for partition in range(self.config.offsets_topic_num_partitions):
            coordinator.begin_load(partition, 0)
            for key, value in self.log.get(partition, []):
                coordinator.replay(partition, key, value)
        return coordinator

    def start(self) -> list[Seen]:
        """Finish loading: serve every partition from now on."""
        seen: list[Seen] = []
        for partition in range(self.config.offsets_topic_num_partitions):
            seen += self.carry_out(self.coordinator.finish_load(partition, self.now_ms))
        return seen

    def restart(self) -> list[Seen]:
        """Stop without a word and start anew from the log; what was not durable is lost."""
        seen = [Seen([f"{each.client}  (connection lost)"]) for each in self.waiting]
        self.waiting.clear()
        self.held.clear()
        self.holding, self.failing = False, None
        self.coordinator = self._new_coordinator()
        return seen + self.start()

    # -- checks ------------------------------------------------------------------------------------

    def _check_states(self, effects: Effects) -> None:
        last: dict[str, str] = {}
        for event in effects.events:
            if event.name in _STATE_AFTER:
                last[event.group_id] = _STATE_AFTER[event.name]
        for group_id, state in last.items():
            group = self.coordinator.group(group_id)
            assert group is None or group.state.value == state, f"{group} says it is {state}"

    def check_log(self) -> None:
        """Replaying the log gives the durable state of every partition that is served."""
        for shard in self.coordinator.shards:
            if shard.state is not ShardState.ACTIVE or shard.unacknowledged:
                continue
            replayed = LoggedState()
            for key_bytes, value_bytes in self.log.get(shard.partition, []):
                key = decode_key(key_bytes)
                if not isinstance(key, UnknownKey):
                    replay(replayed, (key, decode_value(key, value_bytes)))
            assert _as_bytes(replayed) == _as_bytes(shard.logged), "the log tells another story"


def encoded_records(append: Append) -> list[tuple[bytes, bytes | None]]:
    """The records of an append as the bytes of their keys and values."""
    return [
        (encode_key(key), None if value is None else encode_record_value(value))
        for key, value in append.records
    ]


def _as_bytes(state: LoggedState) -> tuple[object, object]:
    """Durable state in a form that compares what the log can hold."""
    groups = {group: encode_record_value(value) for group, value in state.groups.items()}
    offsets = {
        (group, topic, index): encode_record_value(value)
        for group, topics in state.offsets.items()
        for topic, partitions in topics.items()
        for index, value in partitions.items()
    }
    return groups, offsets
