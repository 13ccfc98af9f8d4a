"""Keys and values of the records in `coterie.journal`: facts about groups and their causes.

Kafka's group log does not say when a rebalance began or who caused it, and compaction removes most
of what it does say. The journal keeps facts, one in each record, in the order in which they
happened; only retention removes them.

A key is an int16 record type and the group id; a value is an int16 version and the body of the fact
[journal/format]. `FACTS` lists the record types. A fact of another type or version is kept
undecoded as `UnknownFact`.

Conventions of all facts:

* `at_ms`, `began_ms` and `last_heard_ms` are epoch milliseconds of the coordinator's clock, which
  does not jump while the broker runs; every other `_ms` is a duration.
* An absent id is null, never an empty string.
* `member_id`, `group_instance_id`, `client_id` and `client_host` are those of the member that the
  fact is about; for a rebalance, of the member that caused it.
* `node_id` is the broker that coordinated the group; -1 for the only one [journal/node].
* A host is written as Java prints it, "/127.0.0.1". Texts are cut to `MAX_REASON_LENGTH`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, cast

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.consumer_group_facts import (
    GroupConverged,
    GroupEpochRaised,
    GroupTypeChanged,
    MemberReconciled,
    RegexResolved,
    StaticMemberLeft,
    TargetComputed,
)
from coterie.protocol.messages.offset_facts import OffsetsExpired
from coterie.protocol.messages.partition_facts import PartitionLoaded, PartitionUnloaded
from coterie.protocol.messages.share_facts import DeliveriesFailed
from coterie.protocol.primitives import PREFIX_BYTES, read_prefix
from coterie.protocol.wire import (
    RESPONSE_ELEMENT_BUDGET,
    Boolean,
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

# The longest reason that a client may give for joining or leaving, in characters, as in KIP-800.
MAX_REASON_LENGTH = 255

UNKNOWN_MS = -1


@message(versions=(0, 0), flexible=0)
class RebalanceBegan(Message):
    """A group started a rebalance [journal/rebalance-began].

    Attributes:
        cause: a value of `coterie.coordinator.groups.classic.rebalance.Cause`.
        previous_state: Empty, Stable or CompletingRebalance.
        generation_id: the generation that ends; the next one is larger by one.
        member_count: the members after the one that caused the rebalance joined or was removed.
        timeout_ms: after this time, members that have not rejoined are removed.
        initial_delay_ms: the delay for further members, if the group was Empty; else -1.
        reason: the reason that the client of the member gave (KIP-800).
        subscription_change: for a changed subscription, the part that changed: "topics",
            "protocols", "owned partitions", "user data", or "opaque" if that is unknown
            [journal/rebalance-began].
        requester_client_id, requester_host, requester_principal: the client that sent the request,
            if it is not the member itself [journal/members].
    """

    at_ms: Int64
    cause: String
    previous_state: String
    generation_id: Int32
    member_count: Int32
    timeout_ms: Int32
    initial_delay_ms: Int32 = -1
    member_id: String | None = None
    group_instance_id: String | None = None
    client_id: String | None = None
    client_host: String | None = None
    reason: String | None = None
    subscription_change: String | None = None
    requester_client_id: String | None = None
    requester_host: String | None = None
    requester_principal: String | None = since(0, tag=0, default=None)
    node_id: Int32 = since(0, tag=9, default=-1)


@message(versions=(0, 0), flexible=0)
class MemberJoined(Message):
    """A member joined; it is part of a generation when the join phase is complete.

    Attributes:
        state, generation_id: of the group before it joined.
        member_count: the members including this one.
        protocols: the names of its protocols, in order of preference.
        client_software_name, client_software_version: from ApiVersions [journal/members].
        principal: null for a client without a login [journal/members].
    """

    at_ms: Int64
    member_id: String
    group_instance_id: String | None = None
    client_id: String
    client_host: String
    state: String
    generation_id: Int32
    member_count: Int32
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32
    protocols: list[String]
    reason: String | None = None
    client_software_name: String | None = since(0, tag=0, default=None)
    client_software_version: String | None = since(0, tag=1, default=None)
    principal: String | None = since(0, tag=2, default=None)
    node_id: Int32 = since(0, tag=9, default=-1)


@message(versions=(0, 0), flexible=0)
class MemberRemoved(Message):
    """A member was removed.

    Attributes:
        cause: "leave", "admin removal", "session expiry", "rebalance timeout", "sync timeout" or
            "group full".
        state, generation_id: of the group when the member was removed.
        member_count: the members without this one.
        was_leader: whether it was the leader.
        leader: the leader after the removal; null without members.
        last_heard_ms: the time of its last request that keeps a session alive; -1 if it never
            received a generation.
        reason: the reason that its client, or the administrator, gave (KIP-800).
        requester_client_id, requester_host, requester_principal: the client that sent the request,
            if it is not the member itself [journal/members].
    """

    at_ms: Int64
    cause: String
    member_id: String
    group_instance_id: String | None = None
    client_id: String
    client_host: String
    state: String
    generation_id: Int32
    member_count: Int32
    was_leader: Boolean
    leader: String | None = None
    last_heard_ms: Int64 = UNKNOWN_MS
    session_timeout_ms: Int32
    reason: String | None = None
    requester_client_id: String | None = None
    requester_host: String | None = None
    requester_principal: String | None = since(0, tag=0, default=None)
    node_id: Int32 = since(0, tag=9, default=-1)


@message(versions=(0, 0), flexible=0)
class MemberFenced(Message):
    """A request was refused because another process has the instance id, or for its epoch.

    Attributes:
        member_id: the refused member id.
        group_instance_id: null if a dynamic member was refused for its epoch.
        holder: the member id that has `group_instance_id`; the refused one if it is the epoch.
        request: "JoinGroup", "SyncGroup", "LeaveGroup" or "ConsumerGroupHeartbeat".
        error_code: FENCED_INSTANCE_ID (82), FENCED_MEMBER_EPOCH (110) or UNRELEASED_INSTANCE_ID
            (111).
        said_epoch, known_epoch: the epoch of a heartbeat, and that of the member; -1 otherwise.
    """

    at_ms: Int64
    member_id: String
    group_instance_id: String | None = None
    holder: String
    generation_id: Int32
    request: String
    error_code: Int16 = since(0, tag=0, default=82)
    said_epoch: Int32 = since(0, tag=1, default=-1)
    known_epoch: Int32 = since(0, tag=2, default=-1)
    node_id: Int32 = since(0, tag=9, default=-1)


@message(versions=(0, 0), flexible=0)
class StaticMemberReplaced(Message):
    """A static member returned under a new id and keeps its place and its assignment.

    Attributes:
        client_id, client_host, client_software_name, client_software_version, principal: of the
            new process; descriptions of the group still show the old.
        rebalances: whether the group rebalances because of it; then a `RebalanceBegan` follows, or
            a rebalance is running already.
    """

    at_ms: Int64
    group_instance_id: String
    member_id: String
    old_member_id: String
    client_id: String
    client_host: String
    generation_id: Int32
    state: String
    rebalances: Boolean
    reason: String | None = None
    client_software_name: String | None = since(0, tag=0, default=None)
    client_software_version: String | None = since(0, tag=1, default=None)
    principal: String | None = since(0, tag=2, default=None)
    node_id: Int32 = since(0, tag=9, default=-1)


@message(versions=(0, 0), flexible=0)
class PendingMemberExpired(Message):
    """A member id that was assigned (KIP-394) and never used expired during a join phase."""

    at_ms: Int64
    member_id: String
    state: String
    generation_id: Int32
    node_id: Int32 = since(0, tag=9, default=-1)


@message(versions=(0, 0), flexible=0)
class JoinPhaseExtended(Message):
    """A join phase was extended, because only static members are left and none has rejoined."""

    at_ms: Int64
    generation_id: Int32
    member_count: Int32
    wait_ms: Int32
    node_id: Int32 = since(0, tag=9, default=-1)


@message(versions=(0, 0), flexible=0)
class JoinCompleted(Message):
    """A join phase is complete; the group waits for the leader's assignment.

    Attributes:
        generation_id: the new generation.
        ended_by: "all joined", "initial delay" or "rebalance timeout".
    """

    at_ms: Int64
    generation_id: Int32
    protocol_type: String
    protocol_name: String
    leader: String
    member_count: Int32
    began_ms: Int64
    join_ms: Int64
    ended_by: String
    node_id: Int32 = since(0, tag=9, default=-1)


@struct
class GenerationMember(Struct):
    """A member of a completed generation.

    Attributes:
        joined_after_ms: the time from the beginning of the rebalance to its JoinGroup, before which
            an eager consumer has revoked its partitions; -1 for a static member that did not
            rejoin.
        subscription: its metadata for the chosen protocol.
        assignment: its assignment. For protocol type "consumer", `consumer_protocol` decodes both.
    """

    member_id: String
    group_instance_id: String | None = None
    client_id: String
    client_host: String
    session_timeout_ms: Int32
    rebalance_timeout_ms: Int32
    joined_after_ms: Int64
    subscription: Bytes
    assignment: Bytes


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class GenerationCompleted(Message):
    """A rebalance is over: the assignment is durable, and delayed syncs are answered.

    Attributes:
        began_ms: the beginning of the rebalance.
        join_ms: the length of the join phase.
        sync_ms: the time from there until the assignment was durable.
    """

    at_ms: Int64
    generation_id: Int32
    protocol_type: String
    protocol_name: String
    leader: String
    began_ms: Int64
    join_ms: Int64
    sync_ms: Int64
    members: list[GenerationMember]
    node_id: Int32 = since(0, tag=9, default=-1)


@message(versions=(0, 0), flexible=0)
class GroupEmptied(Message):
    """A rebalance ended without members; `generation_id` is the new generation."""

    at_ms: Int64
    generation_id: Int32
    began_ms: Int64
    join_ms: Int64
    node_id: Int32 = since(0, tag=9, default=-1)


@message(versions=(0, 0), flexible=0)
class GroupDeleted(Message):
    """An administrator deleted the group and its committed offsets, `offset_count` of them.

    Attributes:
        requester_client_id, requester_host, requester_principal: the administrator
            [journal/members].
    """

    at_ms: Int64
    generation_id: Int32
    offset_count: Int32 = 0
    requester_client_id: String | None = None
    requester_host: String | None = None
    requester_principal: String | None = since(0, tag=0, default=None)
    node_id: Int32 = since(0, tag=9, default=-1)


@message(versions=(0, 0), flexible=0)
class GroupExpired(Message):
    """An empty group without offsets was removed."""

    at_ms: Int64
    generation_id: Int32
    node_id: Int32 = since(0, tag=9, default=-1)


Fact = (
    RebalanceBegan
    | MemberJoined
    | MemberRemoved
    | MemberFenced
    | StaticMemberReplaced
    | PendingMemberExpired
    | JoinPhaseExtended
    | JoinCompleted
    | GenerationCompleted
    | GroupEmptied
    | GroupDeleted
    | GroupExpired
    | OffsetsExpired
    | PartitionLoaded
    | PartitionUnloaded
    | GroupEpochRaised
    | TargetComputed
    | MemberReconciled
    | GroupConverged
    | GroupTypeChanged
    | RegexResolved
    | StaticMemberLeft
    | DeliveriesFailed
)


class FactType(NamedTuple):
    """A record type of the journal; a number is never used again for another type."""

    record_type: int
    name: str
    fact_class: type[Fact]


FACTS: tuple[FactType, ...] = (
    FactType(1, "rebalance_began", RebalanceBegan),
    FactType(2, "member_joined", MemberJoined),
    FactType(3, "member_removed", MemberRemoved),
    FactType(4, "member_fenced", MemberFenced),
    FactType(5, "static_member_replaced", StaticMemberReplaced),
    FactType(7, "pending_member_expired", PendingMemberExpired),
    FactType(8, "join_phase_extended", JoinPhaseExtended),
    FactType(9, "join_completed", JoinCompleted),
    FactType(10, "generation_completed", GenerationCompleted),
    FactType(11, "group_emptied", GroupEmptied),
    FactType(12, "group_deleted", GroupDeleted),
    FactType(13, "group_expired", GroupExpired),
    FactType(14, "offsets_expired", OffsetsExpired),
    FactType(15, "partition_loaded", PartitionLoaded),
    FactType(16, "partition_unloaded", PartitionUnloaded),
    FactType(17, "group_epoch_raised", GroupEpochRaised),
    FactType(18, "target_computed", TargetComputed),
    FactType(19, "member_reconciled", MemberReconciled),
    FactType(20, "group_converged", GroupConverged),
    FactType(21, "group_type_changed", GroupTypeChanged),
    FactType(22, "regex_resolved", RegexResolved),
    FactType(23, "static_member_left", StaticMemberLeft),
    FactType(24, "deliveries_failed", DeliveriesFailed),
)
FACT_NAMES: dict[type[Fact], str] = {each.fact_class: each.name for each in FACTS}

_VERSION = 0  # the version of every fact that is written
_VERSION_PREFIX = _VERSION.to_bytes(PREFIX_BYTES, "big")
_PREFIXES: dict[type[Fact], bytes] = {
    each.fact_class: each.record_type.to_bytes(PREFIX_BYTES, "big") for each in FACTS
}
_CLASSES: dict[int, type[Fact]] = {each.record_type: each.fact_class for each in FACTS}
# Filled at the first use of each: a broker in a test writes few of the types.
_encoders: dict[type[Fact], Callable[[Any], bytes]] = {}


class UnknownFact(NamedTuple):
    """A fact of an unknown type or version; readers skip and count it."""

    record_type: int
    version: int
    body: bytes


class JournalRecord(NamedTuple):
    """A fact and the group that it is about; `group_id` is "" for a fact about a partition."""

    group_id: str
    fact: Fact | UnknownFact


def encode_fact(group_id: str, fact: Fact) -> tuple[bytes, bytes]:
    """Encode the key and the value of a journal record.

    Args:
        group_id: at most 32,767 bytes of UTF-8, as in every request.
        fact: the fact.
    """
    cls = type(fact)
    encode = _encoders.get(cls)
    if encode is None:
        encode = _encoders[cls] = cast("Callable[[Any], bytes]", cls.encoder(_VERSION))
    group = group_id.encode()
    key = _PREFIXES[cls] + len(group).to_bytes(PREFIX_BYTES, "big") + group
    return key, _VERSION_PREFIX + encode(fact)


def decode_fact(key: bytes | None, value: bytes | None) -> JournalRecord:
    """Decode a journal record.

    Raises:
        MalformedFrame: the bytes are not a fact of their type, or not a journal record.
    """
    if key is None or value is None:
        raise MalformedFrame("a record of the journal has a key and a value")
    record_type = read_prefix(key, "the type of a journal key")
    length = read_prefix(key, "the group id of a journal key", PREFIX_BYTES)
    group = key[2 * PREFIX_BYTES :]
    if len(group) != length:
        raise MalformedFrame(
            f"the group id of a journal key claims {length} bytes where {len(group)} are left"
        )
    try:
        group_id = group.decode()
    except UnicodeDecodeError as error:
        raise MalformedFrame(f"the group id of a journal key: {error}") from error
    version = read_prefix(value, "the version of a journal value")
    cls = _CLASSES.get(record_type)
    if cls is None or not cls.versions.includes(version):
        return JournalRecord(group_id, UnknownFact(record_type, version, value[PREFIX_BYTES:]))
    return JournalRecord(group_id, cls.decode(value, version, PREFIX_BYTES))
