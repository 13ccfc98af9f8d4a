"""Keys and values of the records in `coterie.journal`: what happened to the groups, and why.

Kafka's classic group log says neither when a rebalance began nor who caused it, and compaction
destroys what it does say. The journal keeps facts, one a record, in the order in which they
happened; retention by time is all that removes them.

A key is an int16 record type and the group's id; a value is an int16 version and the fact's body.
The record types are `FACTS`. All bodies are flexible: a field that a later release adds is a tagged
one, which this code skips; a type or version it does not know is kept as it came (`UnknownFact`).

Units: `_ms` with `at` or `began` or `last` in front is epoch milliseconds of the coordinator's
clock, which never jumps while a broker runs; every other `_ms` is a duration. Nobody is null, never
an empty string. Texts that peers choose freely are cut to `MAX_REASON_LENGTH`.

Who is meant by `member_id, group_instance_id, client_id, client_host`: the member a fact is about;
of a rebalance the one whose doing began it. The host is as Java prints it, "/127.0.0.1".
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple, cast

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.wire import (
    RESPONSE_ELEMENT_BUDGET,
    Boolean,
    Bytes,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    message,
    struct,
)

# What a client may say about why it joins or leaves, in characters (KIP-800 cuts it there too).
MAX_REASON_LENGTH = 255

UNKNOWN_MS = -1

# Keys that are kept: a group that rebalances makes five kinds of facts. About 150 bytes each.
_REMEMBERED_KEYS = 4_096

_PREFIX_BYTES = 2  # of a record type, value version or length of the group's id


@message(versions=(0, 0), flexible=0)
class RebalanceBegan(Message):
    """A group called its members to join again.

    cause: one of `coterie.coordinator.rebalance.Cause`.
    previous_state: Empty, Stable or CompletingRebalance.
    generation_id: the one it leaves; the next has the next number.
    member_count: members now, after the instigator joined or was removed.
    timeout_ms: after so long those who have not rejoined are removed.
    initial_delay_ms: out of Empty, what is waited for more members; else -1.
    reason: what the instigator's client gave as its reason (KIP-800).
    subscription_change: with cause "rejoin with changed subscription", what changed: "topics",
        "protocols", "owned partitions", "user data", or "opaque" where it can't be told.
    requester_client_id, requester_host: who asked, where it was not the instigator itself.
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


@message(versions=(0, 0), flexible=0)
class MemberJoined(Message):
    """A member was taken in; it does not count in a generation before the join phase is complete.

    state, generation_id: of the group when it came.
    member_count: with it.
    protocols: the names it offers, in its order of preference.
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


@message(versions=(0, 0), flexible=0)
class MemberRemoved(Message):
    """A member is none any more.

    cause: "leave", "admin removal", "session expiry", "rebalance timeout", "sync timeout" or
        "group full".
    state, generation_id: of the group when it went.
    member_count: without it.
    was_leader, leader: whether it led, and who leads now; null without members.
    last_heard_ms: when it last gave a sign of life; -1 where it was never told its generation.
    reason: what its client, or the administrator, gave as reason (KIP-800).
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


@message(versions=(0, 0), flexible=0)
class MemberFenced(Message):
    """A process was told that another one took over its instance id (KIP-345).

    member_id: its own; the member that goes by `group_instance_id` now is `holder`.
    request: what it had asked: "JoinGroup", "SyncGroup" or "LeaveGroup".
    """

    at_ms: Int64
    member_id: String
    group_instance_id: String
    holder: String
    generation_id: Int32
    request: String


@message(versions=(0, 0), flexible=0)
class StaticMemberReplaced(Message):
    """A static member came back and goes by a new id, in its old place and with its assignment.

    client_id, client_host: of the process that came; the group goes on showing the old ones.
    rebalances: whether that costs a rebalance; then a `RebalanceBegan` follows, or one runs.
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


@message(versions=(0, 0), flexible=0)
class StaticMemberRestored(Message):
    """The new id could not be logged: the instance goes by its old one again."""

    at_ms: Int64
    group_instance_id: String
    member_id: String
    old_member_id: String
    generation_id: Int32


@message(versions=(0, 0), flexible=0)
class PendingMemberExpired(Message):
    """A member id that was handed out (KIP-394) was never used; a join phase waited for it."""

    at_ms: Int64
    member_id: String
    state: String
    generation_id: Int32


@message(versions=(0, 0), flexible=0)
class JoinPhaseExtended(Message):
    """The time was up and only static members are left, none of whom came back: it waits on."""

    at_ms: Int64
    generation_id: Int32
    member_count: Int32
    wait_ms: Int32


@message(versions=(0, 0), flexible=0)
class JoinCompleted(Message):
    """Everybody who came back was told the new generation; the leader's assignment is waited for.

    generation_id: the new one.
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


@struct
class GenerationMember(Struct):
    """A member of a completed generation.

    joined_after_ms: from the beginning of the rebalance to its JoinGroup, for which an eager
        consumer has given up its partitions; -1 for a static member that stayed away.
    subscription: its metadata for the chosen protocol; assignment: what the leader gave it. Both
        opaque, of protocol type "consumer" as consumer_protocol.py reads them.
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
    """A rebalance is over: the assignment is durable, and told to whoever waits for it.

    began_ms, join_ms, sync_ms: when it began, how long its members took to come back, and how long
        the leader's assignment took from there, its append included.
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


@message(versions=(0, 0), flexible=0)
class GroupEmptied(Message):
    """A rebalance ended without members. generation_id: the new one."""

    at_ms: Int64
    generation_id: Int32
    began_ms: Int64
    join_ms: Int64


@message(versions=(0, 0), flexible=0)
class GroupDeleted(Message):
    """An administrator deleted the group, with so many committed offsets."""

    at_ms: Int64
    generation_id: Int32
    offset_count: Int32 = 0
    requester_client_id: String | None = None
    requester_host: String | None = None


@message(versions=(0, 0), flexible=0)
class GroupExpired(Message):
    """Nothing was left of an empty group: no offsets, no members; it is gone."""

    at_ms: Int64
    generation_id: Int32


@struct
class ExpiredOffset(Struct):
    """A committed offset as it was when it expired."""

    partition: Int32
    committed_offset: Int64


@struct
class ExpiredTopic(Struct):
    """Expired offsets of one topic."""

    topic: String
    partitions: list[ExpiredOffset]


@message(versions=(0, 0), flexible=0, element_budget=RESPONSE_ELEMENT_BUDGET)
class OffsetsExpired(Message):
    """Committed offsets passed their retention."""

    at_ms: Int64
    offset_count: Int32
    topics: list[ExpiredTopic]


@message(versions=(0, 0), flexible=0)
class PartitionLoaded(Message):
    """A partition of `__consumer_offsets` was read back; the key's group is "".

    Stands in the journal partition of the groups it is about. Written only where there are groups.
    """

    at_ms: Int64
    partition: Int32
    leader_epoch: Int32 = -1
    group_count: Int32
    member_count: Int32 = 0


@message(versions=(0, 0), flexible=0)
class PartitionUnloaded(Message):
    """A partition of `__consumer_offsets` is not coordinated here any more; as `PartitionLoaded`.

    cause: "closed" (the broker stopped, or the partition moved) or "failed" (its log can't be
        used). A load without one before it: the broker was killed.
    """

    at_ms: Int64
    partition: Int32
    leader_epoch: Int32 = -1
    group_count: Int32
    cause: String = "closed"


Fact = (
    RebalanceBegan
    | MemberJoined
    | MemberRemoved
    | MemberFenced
    | StaticMemberReplaced
    | StaticMemberRestored
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
)

# The facts there are: record type, name, class. Types are never given out twice.
FACTS: tuple[tuple[int, str, type[Fact]], ...] = (
    (1, "rebalance_began", RebalanceBegan),
    (2, "member_joined", MemberJoined),
    (3, "member_removed", MemberRemoved),
    (4, "member_fenced", MemberFenced),
    (5, "static_member_replaced", StaticMemberReplaced),
    (6, "static_member_restored", StaticMemberRestored),
    (7, "pending_member_expired", PendingMemberExpired),
    (8, "join_phase_extended", JoinPhaseExtended),
    (9, "join_completed", JoinCompleted),
    (10, "generation_completed", GenerationCompleted),
    (11, "group_emptied", GroupEmptied),
    (12, "group_deleted", GroupDeleted),
    (13, "group_expired", GroupExpired),
    (14, "offsets_expired", OffsetsExpired),
    (15, "partition_loaded", PartitionLoaded),
    (16, "partition_unloaded", PartitionUnloaded),
)
FACT_NAMES: dict[type[Fact], str] = {cls: name for _, name, cls in FACTS}

_VERSION = 0  # that is written, of every fact
_VERSION_PREFIX = _VERSION.to_bytes(_PREFIX_BYTES, "big")
_TYPES: dict[type[Fact], bytes] = {cls: kind.to_bytes(2, "big") for kind, _, cls in FACTS}
# Compiled at their first use: a broker of a few tests never needs most of them.
_encoders: dict[type[Fact], Callable[[Any], bytes]] = {}
_CLASSES: dict[int, type[Fact]] = {kind: cls for kind, _, cls in FACTS}


class UnknownFact(NamedTuple):
    """A fact of a type or version that this code does not know; readers skip and count it."""

    record_type: int
    version: int
    body: bytes


class JournalRecord(NamedTuple):
    """A fact and whom it is about; `group_id` is "" for a fact about a partition."""

    group_id: str
    fact: Fact | UnknownFact


def encode_fact(group_id: str, fact: Fact) -> tuple[bytes, bytes]:
    """Key and value of a journal record.

    Args:
        group_id: at most 32,767 bytes of UTF-8, as every group id that a request can carry.
        fact: what happened.
    """
    cls = type(fact)
    encode = _encoders.get(cls)
    if encode is None:
        encode = _encoders[cls] = cast("Callable[[Any], bytes]", cls.encoder(_VERSION))
    return _key(_TYPES[cls], group_id), _VERSION_PREFIX + encode(fact)


@lru_cache(maxsize=_REMEMBERED_KEYS)
def _key(record_type: bytes, group_id: str) -> bytes:
    group = group_id.encode()
    return record_type + len(group).to_bytes(_PREFIX_BYTES, "big") + group


def decode_fact(key: bytes | None, value: bytes | None) -> JournalRecord:
    """The fact in a journal record.

    Raises:
        MalformedFrame: the bytes are not what their type says, or no record of a journal.
    """
    if key is None or value is None:
        raise MalformedFrame("a record of the journal has a key and a value")
    record_type = _prefix(key, 0, "a journal key's type")
    length = _prefix(key, _PREFIX_BYTES, "a journal key's group")
    group = key[2 * _PREFIX_BYTES :]
    if len(group) != length:
        raise MalformedFrame(f"a journal key's group of {len(group)} bytes says it has {length}")
    try:
        group_id = group.decode()
    except UnicodeDecodeError as error:
        raise MalformedFrame(f"a journal key's group: {error}") from error
    version = _prefix(value, 0, "a journal value's version")
    cls = _CLASSES.get(record_type)
    if cls is None or not cls.versions[0] <= version <= cls.versions[1]:
        return JournalRecord(group_id, UnknownFact(record_type, version, value[_PREFIX_BYTES:]))
    return JournalRecord(group_id, cls.decode(value, version, _PREFIX_BYTES))


def _prefix(data: bytes, position: int, what: str) -> int:
    """The int16 at a position."""
    if len(data) < position + _PREFIX_BYTES:
        raise MalformedFrame(f"{what} is missing in {len(data)} bytes")
    return int.from_bytes(data[position : position + _PREFIX_BYTES], "big", signed=True)
