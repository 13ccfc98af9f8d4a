"""Requests about groups as text, read and written by one table for each API.

    JoinGroup v9 group=orders member="" session=10s rebalance=1m protocols=[range]

A line states the fields that matter. The others have the same defaults everywhere: group `orders`,
protocol type `consumer`, protocol `range` with a subscription to `sales`, session timeout 10 s,
rebalance timeout 60 s. Which fields a version has is said by the declaration of the message;
requests without a table here have the form of `structures.py`.

Invariant: `build_request` makes the same message of what `request_arguments` writes, apart from
quotes and ends of lines within reasons and metadata, which the syntax does not have.
"""

from collections.abc import Iterable
from typing import Any

from coterie.conversation.arguments import (
    DURATION,
    FLAG,
    GROUP,
    INTEGER,
    MEMBER,
    NULLABLE,
    OWN,
    REASON,
    TEXT,
    Argument,
    Kind,
    Place,
    Shown,
    list_kind,
    optional_kind,
    quoted,
)
from coterie.conversation.consumer_group_requests import TABLES as CONSUMER_GROUP_TABLES
from coterie.conversation.names import Names
from coterie.conversation.payloads import (
    DEFAULT_SUBSCRIPTION,
    assignment_bytes,
    assignment_text,
    subscription_bytes,
    subscription_text,
)
from coterie.conversation.share_groups import TABLES as SHARE_GROUP_TABLES
from coterie.conversation.streams_groups import TABLES as STREAMS_GROUP_TABLES
from coterie.conversation.structures import build_structure
from coterie.conversation.syntax import (
    RequestLine,
    TranscriptError,
    fields_of_line,
    format_list,
    format_map,
    parse_arguments,
    parse_list,
    parse_map,
    parse_partition,
    quote,
    unquote,
)
from coterie.conversation.versions import FETCH_GROUPS_SINCE
from coterie.protocol.fields import Declaration
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from coterie.protocol.messages.list_groups import ListGroupsRequest
from coterie.protocol.messages.offset_commit import OffsetCommitRequest
from coterie.protocol.messages.offset_delete import OffsetDeleteRequest
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from coterie.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from coterie.protocol.schema import WireField, fields_of
from coterie.protocol.wire import Message


def build_request(line: RequestLine, names: Names) -> Message:
    """Return the request message of a line.

    Args:
        line: the API, the version to send it in, and the text of its fields.
        names: the names of the transcript.

    Raises:
        TranscriptError: unknown API or field, or a malformed value.
    """
    cls = _CLASSES.get(line.api)
    if cls is None:
        return build_structure(line, names)
    arguments = fields_of_line(line)
    named = arguments.named
    if cls is OffsetFetchRequest:
        _regroup(named, line.version)
    values, declared = {}, _declared(cls)
    for argument in _TABLES[cls]:
        field = declared[argument.field]
        is_carried = field.present(line.version)
        text = argument.default if is_carried else None
        if is_carried or argument.shown is not Shown.IN_ITS_FORM:
            text = named.pop(argument.name, text)
        if text is not None:
            place = Place(field.type, line.version, names, named)
            values[argument.field] = argument.kind.read(text, place)
    arguments.reject_unknown()
    return cls(**values)


def request_arguments(request: Message, version: int, names: Names) -> str | None:
    """Return the text behind the version; None if there is no table for the API."""
    cls = type(request)
    if cls not in _TABLES:
        return None
    parts, declared = [], _declared(cls)
    for argument in _TABLES[cls]:
        field = declared[argument.field]
        place = Place(field.type, version, names, {})
        value = getattr(request, argument.field)
        if argument.shown is Shown.IF_SET:
            is_carried = field.present(version)
            default = argument.kind.read(argument.default, place) if is_carried else field.default
            is_shown = value != default
        else:
            is_shown = argument.shown is Shown.ALWAYS or field.present(version)
        if is_shown:
            parts.append(f"{argument.name}={argument.kind.write(value, place)}")
    return " ".join(parts)


def _declared(cls: type[Declaration]) -> dict[str, WireField]:
    return {field.name: field for field in fields_of(cls)}


# --- kinds ----------------------------------------------------------------------------------------


def _read_protocols(text: str, place: Place) -> list[JoinGroupRequestProtocol]:
    protocols = []
    for item in parse_list(text):
        name, _, subscription = item.partition(":")
        metadata = subscription_bytes(subscription.strip() or DEFAULT_SUBSCRIPTION, place.names)
        protocols.append(JoinGroupRequestProtocol(name=name.strip(), metadata=metadata))
    return protocols


def _write_protocols(protocols: list[JoinGroupRequestProtocol], place: Place) -> str:
    texts = [(each.name, subscription_text(each.metadata, place.names)) for each in protocols]
    return format_list(
        [name if text == DEFAULT_SUBSCRIPTION else f"{name}: {text}" for name, text in texts]
    )


def _read_assignments(text: str, place: Place) -> list[SyncGroupRequestAssignment]:
    return [
        SyncGroupRequestAssignment(
            member_id=place.names.member(member), assignment=assignment_bytes(each, place.names)
        )
        for member, each in parse_map(text).items()
    ]


def _write_assignments(assignments: list[SyncGroupRequestAssignment], place: Place) -> str:
    return format_map(
        [
            (MEMBER.write(each.member_id, place), assignment_text(each.assignment, place.names))
            for each in assignments
        ]
    )


def _read_members(text: str, place: Place) -> list[LeaveGroupRequestMember]:
    """Return those that leave, `c1-1`, `/i1` or `c1-1/i1`, each with the reason of the line."""
    reason = REASON.read(place.named.pop("reason", "null"), place)
    members = []
    for item in parse_list(text):
        member, slash, instance = item.partition("/")
        members.append(
            LeaveGroupRequestMember(
                member_id=MEMBER.read(member, place),
                group_instance_id=instance if slash else None,
                reason=reason,
            )
        )
    return members


def _write_members(members: list[LeaveGroupRequestMember], place: Place) -> str:
    texts = [member_text(each, place.names) for each in members]
    reason = members[0].reason if members else None
    shown = format_list(texts)
    return shown if reason is None else f"{shown} reason={REASON.write(reason, place)}"


def member_text(member: Any, names: Names) -> str:
    """Return a member that leaves: its id, its instance id behind a slash, or both."""
    shown = quote(names.member_text(member.member_id)) if member.member_id else ""
    instance = "" if member.group_instance_id is None else f"/{member.group_instance_id}"
    return shown + instance or '""'


# --- topics with partitions -----------------------------------------------------------------------


def _topics(entries: Iterable[tuple[str, dict[str, Any]]], place: Place) -> list[Any]:
    """Return the topics of partitions, which may have further fields."""
    assert place.type.element is not None, place
    cls = place.type.element.struct
    assert cls is not None, place
    by_id, partitions = _shape(cls, place.version)
    assert partitions.type.element is not None, partitions
    struct = partitions.type.element.struct
    found: dict[str, list[Any]] = {}
    for text, fields in entries:
        topic, index = parse_partition(text)
        each = index if struct is None else struct(partition_index=index, **fields)
        found.setdefault(topic, []).append(each)
    names = place.names
    return [
        cls(topic_id=names.topic_id(topic), **{partitions.name: listed})
        if by_id
        else cls(name=names.topic(topic), **{partitions.name: listed})
        for topic, listed in found.items()
    ]


def partitions_of(topics: Iterable[Any], version: int, names: Names) -> list[tuple[str, Any]]:
    """Return the partitions of topics as text, each with its structure, or with its index."""
    found: list[tuple[str, Any]] = []
    for topic in topics:
        by_id, partitions = _shape(type(topic), version)
        name = names.topic_name(topic.topic_id) if by_id else names.topic_text(topic.name)
        listed = getattr(topic, partitions.name)
        found += [(f"{name}-{getattr(each, 'partition_index', each)}", each) for each in listed]
    return found


def _shape(cls: type[Declaration], version: int) -> tuple[bool, WireField]:
    """Return whether a topic is named by its id, and the field that has its partitions."""
    fields = _declared(cls)
    by_id = "topic_id" in fields and fields["topic_id"].present(version)
    return by_id, next(each for each in fields.values() if each.type.element is not None)


def _read_offsets(text: str, place: Place) -> list[Any]:
    entries = []
    for partition, value in parse_map(text).items():
        offset, *rest = parse_arguments(value).positional
        fields: dict[str, Any] = {"committed_offset": int(offset)}
        if rest[:1] == ["epoch"]:
            fields["committed_leader_epoch"], rest = int(rest[1]), rest[2:]
        entries.append((partition, {**fields, "committed_metadata": _metadata(rest)}))
    return _topics(entries, place)


def _write_offsets(topics: list[Any], place: Place) -> str:
    entries = []
    for partition, each in partitions_of(topics, place.version, place.names):
        text = str(each.committed_offset)
        if each.committed_leader_epoch != -1:
            text += f" epoch {each.committed_leader_epoch}"
        if each.committed_metadata is not None:
            text += f" {quoted(each.committed_metadata)}"
        entries.append((partition, text))
    return format_map(entries)


def _metadata(words: list[str]) -> str | None:
    """Return the metadata of a commit: null if absent, `"text"`, or `4097 of x` for 4097 x's."""
    if not words:
        return None
    if len(words) == 3 and words[1] == "of":
        return int(words[0]) * words[2]
    if len(words) == 1:
        return unquote(words[0])
    raise TranscriptError(f"{' '.join(words)!r} is not metadata")


def _read_partitions(text: str, place: Place) -> list[Any] | None:
    """Return the topics of `all`, of `[sales-0, sales-1]` or of `sales-0 sales-1`."""
    if text == "all":
        return None
    words = [word for item in parse_list(text) for word in item.split()]
    return _topics([(word, {}) for word in words], place)


def _write_partitions(topics: list[Any], place: Place) -> str:
    return format_list([text for text, _ in partitions_of(topics, place.version, place.names)])


def _regroup(named: dict[str, str], version: int) -> None:
    """Put the groups of an OffsetFetch into the form of the version: one of them, or a map."""
    if version >= FETCH_GROUPS_SINCE:
        if "groups" not in named:
            group = quote(unquote(named.pop("group", "orders")))
            text = named.pop("partitions", "all")
            if "member" in named:
                text += f" {_OF_MEMBER} {named.pop('member')} epoch {named.pop('epoch', '-1')}"
            named["groups"] = format_map([(group, text)])
        elif "partitions" in named:
            raise TranscriptError("unknown here: partitions")
    elif "groups" in named:
        groups = parse_map(named.pop("groups"))
        if len(groups) != 1:
            raise TranscriptError(f"before v{FETCH_GROUPS_SINCE} a request has one group")
        ((group, named["partitions"]),) = groups.items()
        named["group"] = quote(group)


def _read_groups(text: str, place: Place) -> list[OffsetFetchRequestGroup]:
    """Return the groups of `{g1: all, g2: sales-0 member m1 epoch 3}`."""
    inner = place._replace(type=_declared(OffsetFetchRequestGroup)["topics"].type)
    groups = []
    for group, asked in parse_map(text).items():
        partitions, has_member, identity = asked.partition(f" {_OF_MEMBER} ")
        asking = OffsetFetchRequestGroup(
            group_id=place.names.group(group), topics=_read_partitions(partitions, inner)
        )
        if has_member:
            member, _, epoch = identity.partition(" epoch ")
            asking.member_id = _NULLABLE_MEMBER.read(member, place)
            asking.member_epoch = int(epoch)
        groups.append(asking)
    return groups


def _write_groups(groups: list[OffsetFetchRequestGroup], place: Place) -> str:
    entries = []
    for group in groups:
        texts = ["all"]
        if group.topics is not None:
            texts = [text for text, _ in partitions_of(group.topics, place.version, place.names)]
        text = " ".join(texts) or "[]"
        if (group.member_id, group.member_epoch) != (None, -1):
            member = _NULLABLE_MEMBER.write(group.member_id, place)
            text += f" {_OF_MEMBER} {member} epoch {group.member_epoch}"
        entries.append((GROUP.write(group.group_id, place), text))
    return format_map(entries)


_OF_MEMBER = "member"
_NULLABLE_MEMBER = optional_kind(MEMBER)
_OFFSETS = Kind(_read_offsets, _write_offsets)
_PARTITIONS = Kind(_read_partitions, _write_partitions)

# --- the tables -----------------------------------------------------------------------------------

_IF_SET, _IF_CARRIED, _IN_ITS_FORM = Shown.IF_SET, Shown.IF_CARRIED, Shown.IN_ITS_FORM
_GROUP_ID = Argument("group", "group_id", GROUP, "orders")
_MEMBER_ID = Argument("member", "member_id", MEMBER, '""')
_INSTANCE_ID = Argument("instance", "group_instance_id", NULLABLE, "null", _IF_SET)
_GENERATION_ID = Argument("generation", "generation_id", INTEGER, "-1")
_IDENTITY = (_GROUP_ID, _MEMBER_ID, _INSTANCE_ID)
_OFFSETS_OF_TOPICS = Argument("offsets", "topics", _OFFSETS, "{}")

_TABLES: dict[type[Message], tuple[Argument, ...]] = {
    JoinGroupRequest: (
        *_IDENTITY,
        Argument("session", "session_timeout_ms", DURATION, "10s"),
        Argument("rebalance", "rebalance_timeout_ms", DURATION, "60s", _IF_CARRIED),
        Argument("type", "protocol_type", TEXT, "consumer", _IF_SET),
        Argument("protocols", "protocols", Kind(_read_protocols, _write_protocols), "[range]"),
        Argument("reason", "reason", REASON, "null", _IF_SET),
    ),
    SyncGroupRequest: (
        *_IDENTITY,
        _GENERATION_ID,
        Argument("type", "protocol_type", NULLABLE, "consumer", _IF_SET),
        Argument("protocol", "protocol_name", NULLABLE, "range", _IF_CARRIED),
        Argument(
            "assignment", "assignments", Kind(_read_assignments, _write_assignments), "{}", _IF_SET
        ),
    ),
    HeartbeatRequest: (*_IDENTITY, _GENERATION_ID),
    LeaveGroupRequest: (
        _GROUP_ID,
        _MEMBER_ID._replace(shown=_IN_ITS_FORM),
        Argument("members", "members", Kind(_read_members, _write_members), "[]", _IN_ITS_FORM),
    ),
    OffsetCommitRequest: (
        *_IDENTITY,
        Argument("generation", "generation_id_or_member_epoch", INTEGER, "-1"),
        Argument("retention", "retention_time_ms", DURATION, "-1", _IF_SET),
        _OFFSETS_OF_TOPICS,
    ),
    TxnOffsetCommitRequest: (
        Argument("transaction", "transactional_id", OWN, "transaction"),
        _GROUP_ID,
        Argument("producer", "producer_id", INTEGER, "1"),
        Argument("epoch", "producer_epoch", INTEGER, "0"),
        _GENERATION_ID,
        _MEMBER_ID,
        _INSTANCE_ID,
        _OFFSETS_OF_TOPICS,
    ),
    OffsetFetchRequest: (
        _GROUP_ID._replace(shown=_IN_ITS_FORM),
        Argument("partitions", "topics", _PARTITIONS, "all", _IF_SET),
        Argument("groups", "groups", Kind(_read_groups, _write_groups), "{}", _IN_ITS_FORM),
        Argument("stable", "require_stable", FLAG, "false", _IF_SET),
    ),
    OffsetDeleteRequest: (_GROUP_ID, Argument("partitions", "topics", _PARTITIONS, "[]")),
    ListGroupsRequest: (
        Argument("states", "states_filter", list_kind(TEXT), "[]", _IF_SET),
        Argument("types", "types_filter", list_kind(TEXT), "[]", _IF_SET),
    ),
    DescribeGroupsRequest: (
        Argument("groups", "groups", list_kind(GROUP), "[orders]"),
        Argument("operations", "include_authorized_operations", FLAG, "false", _IF_SET),
    ),
    DeleteGroupsRequest: (Argument("groups", "groups_names", list_kind(GROUP), "[orders]"),),
    **CONSUMER_GROUP_TABLES,
    **SHARE_GROUP_TABLES,
    **STREAMS_GROUP_TABLES,
}
_CLASSES = {cls.__name__.removesuffix("Request"): cls for cls in _TABLES}

# The names of the APIs that have a table.
REQUEST_APIS = frozenset(_CLASSES)


def declared_arguments() -> dict[str, list[tuple[str, str]]]:
    """Return the arguments of each API that has a table, with the texts of their defaults."""
    return {
        name: [(each.name, each.default) for each in _TABLES[cls]] for name, cls in _CLASSES.items()
    }
