"""Requests and responses of streams groups (KIP-1071) as text.

    StreamsGroupHeartbeat v0 group=orders member=m1 epoch=0 timeout=5m process=p1
        topology={0: {sources: [foo], changelogs: [store]}} active={} standby={} warmup={}
    StreamsGroupHeartbeat v0 member=m1 epoch=2 interval=5s active={0: [0-2]}

Tasks are partitions by subtopology, and `streams_topology` has the topology. What a request leaves
out is null, -1 for the timeout or 0. A response that names the active tasks has empty standby and
warm-up tasks unless it names them.
"""

from collections.abc import Callable, Iterable
from typing import Any

from coterie.conversation.arguments import (
    DURATION,
    FLAG,
    GROUP,
    INTEGER,
    MEMBER,
    NULLABLE,
    Argument,
    Kind,
    Place,
    Shown,
    list_kind,
    optional_kind,
)
from coterie.conversation.consumer_group_requests import indexes_text, read_indexes
from coterie.conversation.consumer_group_responses import error_parts
from coterie.conversation.names import Names
from coterie.conversation.streams_topology import TOPOLOGY, topology_text
from coterie.conversation.syntax import (
    TranscriptError,
    duration_text,
    format_list,
    format_map,
    parse_map,
    quote,
    unquote,
)
from coterie.protocol.authorized_operations import AUTHORIZED_OPERATIONS_OMITTED
from coterie.protocol.messages.streams_group_describe import (
    StreamsDescribeAssignment,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupDescribeResponseGroup,
    StreamsGroupDescribeResponseMember,
)
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsHeartbeatEndpoint,
    StreamsHeartbeatEndpointPartitions,
    StreamsHeartbeatKeyValue,
    StreamsHeartbeatStatus,
    StreamsHeartbeatTaskIds,
    StreamsHeartbeatTaskOffset,
)
from coterie.protocol.wire import Message

_STATUSES = {
    0: "STALE_TOPOLOGY",
    1: "MISSING_SOURCE_TOPICS",
    2: "INCORRECTLY_PARTITIONED_TOPICS",
    3: "MISSING_INTERNAL_TOPICS",
    4: "SHUTDOWN_APPLICATION",
    5: "ASSIGNMENT_DELAYED",
}
_TASK = "_"
_ROLES = ("active", "standby", "warmup")


# --- requests -------------------------------------------------------------------------------------


def _read_tasks(text: str, _place: Place) -> list[StreamsHeartbeatTaskIds]:
    return [
        StreamsHeartbeatTaskIds(subtopology_id=each, partitions=read_indexes(indexes))
        for each, indexes in parse_map(text).items()
    ]


def _write_tasks(tasks: Iterable[Any], _place: Place) -> str:
    return format_map(
        [(quote(each.subtopology_id), indexes_text(each.partitions)) for each in tasks]
    )


def _read_offsets(text: str, _place: Place) -> list[StreamsHeartbeatTaskOffset]:
    """Return the positions of `{0_1: 42}`."""
    offsets = []
    for task, offset in parse_map(text).items():
        subtopology_id, _, partition = task.rpartition(_TASK)
        offsets.append(
            StreamsHeartbeatTaskOffset(
                subtopology_id=subtopology_id, partition=int(partition), offset=int(offset)
            )
        )
    return offsets


def _write_offsets(offsets: list[StreamsHeartbeatTaskOffset], _place: Place) -> str:
    return format_map(
        [
            (quote(f"{each.subtopology_id}{_TASK}{each.partition}"), str(each.offset))
            for each in offsets
        ]
    )


def _read_endpoint(text: str, _place: Place) -> StreamsHeartbeatEndpoint:
    host, separator, port = unquote(text).rpartition(":")
    if not separator or not port.isdigit():
        raise TranscriptError(f"{text!r} is not an endpoint: host:7001")
    return StreamsHeartbeatEndpoint(host=host, port=int(port))


def endpoint_text(endpoint: Any) -> str:
    """Return an endpoint as `host:7001`."""
    return f"{endpoint.host}:{endpoint.port}"


def _read_tags(text: str, _place: Place) -> list[StreamsHeartbeatKeyValue]:
    return [
        StreamsHeartbeatKeyValue(key=key, value=unquote(value))
        for key, value in parse_map(text).items()
    ]


def tags_text(tags: Iterable[Any]) -> str:
    """Return the tags of a client as `{zone: z1}`."""
    return format_map([(quote(each.key), quote(each.value)) for each in tags])


_TASKS = optional_kind(Kind(_read_tasks, _write_tasks))
_OFFSETS = optional_kind(Kind(_read_offsets, _write_offsets))
_ENDPOINT = optional_kind(Kind(_read_endpoint, lambda value, _: quote(endpoint_text(value))))
_TAGS = optional_kind(Kind(_read_tags, lambda value, _: tags_text(value)))
_IF_SET = Shown.IF_SET

TABLES: dict[type[Message], tuple[Argument, ...]] = {
    StreamsGroupHeartbeatRequest: (
        Argument("group", "group_id", GROUP, "orders"),
        Argument("member", "member_id", MEMBER, '""'),
        Argument("instance", "instance_id", NULLABLE, "null", _IF_SET),
        Argument("epoch", "member_epoch", INTEGER, "0"),
        Argument("timeout", "rebalance_timeout_ms", DURATION, "-1", _IF_SET),
        Argument("rack", "rack_id", NULLABLE, "null", _IF_SET),
        Argument("process", "process_id", NULLABLE, "null", _IF_SET),
        Argument("topology", "topology", optional_kind(TOPOLOGY), "null", _IF_SET),
        *(Argument(role, f"{role}_tasks", _TASKS, "null", _IF_SET) for role in _ROLES),
        Argument("endpoint", "user_endpoint", _ENDPOINT, "null", _IF_SET),
        Argument("endpoint_epoch", "endpoint_information_epoch", INTEGER, "0", _IF_SET),
        Argument("tags", "client_tags", _TAGS, "null", _IF_SET),
        Argument("offsets", "task_offsets", _OFFSETS, "null", _IF_SET),
        Argument("end_offsets", "task_end_offsets", _OFFSETS, "null", _IF_SET),
        Argument("shutdown", "shutdown_application", FLAG, "false", _IF_SET),
    ),
    StreamsGroupDescribeRequest: (
        Argument("groups", "group_ids", list_kind(GROUP), "[orders]"),
        Argument("operations", "include_authorized_operations", FLAG, "false", _IF_SET),
    ),
}

# --- responses ------------------------------------------------------------------------------------


def _heartbeat(response: StreamsGroupHeartbeatResponse, _version: int, names: Names) -> list[str]:
    parts = error_parts(response, names)
    refused = bool(parts)
    if response.member_id or not refused:
        parts.append(f"member={quote(names.member_text(response.member_id))}")
    for name, value, text in (
        ("epoch", response.member_epoch, str(response.member_epoch)),
        ("interval", response.heartbeat_interval_ms, duration_text(response.heartbeat_interval_ms)),
    ):
        if value or not refused:
            parts.append(f"{name}={text}")
    for name, value in (
        ("lag", response.acceptable_recovery_lag),
        ("offset_interval", response.task_offset_interval_ms),
    ):
        if value:
            parts.append(f"{name}={value}")
    if response.status is None:
        parts.append("status=null")
    elif response.status:
        parts.append(f"status={format_list([_status(each, names) for each in response.status])}")
    parts += _role_parts(response)
    if response.endpoint_information_epoch:
        parts.append(f"endpoint_epoch={response.endpoint_information_epoch}")
    if response.partitions_by_user_endpoint is not None:
        endpoints = [_at_endpoint(each, names) for each in response.partitions_by_user_endpoint]
        parts.append(f"endpoints={format_map(sorted(endpoints))}")
    return [" ".join(parts)]


def _status(status: StreamsHeartbeatStatus, names: Names) -> str:
    name = _STATUSES.get(status.status_code, str(status.status_code))
    return f'{name} "{names.message_text(status.status_detail)}"'


def _role_parts(response: StreamsGroupHeartbeatResponse) -> list[str]:
    """Return the tasks; standby and warm-up tasks are there if and only if active ones are."""
    parts = []
    for role in _ROLES:
        tasks = getattr(response, f"{role}_tasks")
        is_usual = tasks == (None if response.active_tasks is None else [])
        if role == _ROLES[0] and tasks is not None:
            parts.append(f"{role}={tasks_map(tasks)}")
        elif role != _ROLES[0] and not is_usual:
            parts.append(f"{role}={'null' if tasks is None else tasks_map(tasks)}")
    return parts


def tasks_map(tasks: Iterable[Any]) -> str:
    """Return tasks as a set, which has no order of its own."""
    return format_map(
        sorted(
            (quote(each.subtopology_id), indexes_text(sorted(each.partitions))) for each in tasks
        )
    )


def _at_endpoint(each: StreamsHeartbeatEndpointPartitions, names: Names) -> tuple[str, str]:
    roles = []
    for name, topics in (
        ("active", each.active_partitions),
        ("standby", each.standby_partitions),
    ):
        entries = [
            (names.topic_text(topic.topic), indexes_text(sorted(topic.partitions)))
            for topic in topics
        ]
        roles.append((name, format_map(sorted(entries))))
    return quote(endpoint_text(each.user_endpoint)), format_map(roles)


def _describe(response: StreamsGroupDescribeResponse, _version: int, names: Names) -> list[str]:
    lines = [""]
    for group in response.groups:
        lines.append(_described_group(group, names))
        lines += [f"  {_described_member(each, names)}" for each in group.members]
    return lines


def _described_group(group: StreamsGroupDescribeResponseGroup, names: Names) -> str:
    parts = [quote(names.group_text(group.group_id))]
    if group.group_state:
        parts.append(group.group_state)
    errors = error_parts(group, names)
    parts += errors
    if not errors or (group.group_epoch, group.assignment_epoch) != (0, 0):
        parts.append(f"epoch={group.group_epoch} assignment_epoch={group.assignment_epoch}")
    if group.topology is not None:
        parts.append(f"topology={topology_text(group.topology, names)}")
    if group.authorized_operations != AUTHORIZED_OPERATIONS_OMITTED:
        parts.append(f"operations={group.authorized_operations:#x}")
    return " ".join(parts)


def _described_member(each: StreamsGroupDescribeResponseMember, names: Names) -> str:
    parts = [quote(names.member_text(each.member_id))]
    for name, value in (("instance", each.instance_id), ("rack", each.rack_id)):
        if value is not None:
            parts.append(f"{name}={quote(value)}")
    parts.append(f"epoch={each.member_epoch} client={each.client_id}")
    parts.append(f"host={names.host_text(each.client_host)}")
    parts.append(f"topology={each.topology_epoch} process={quote(each.process_id)}")
    if each.user_endpoint is not None:
        parts.append(f"endpoint={quote(endpoint_text(each.user_endpoint))}")
    if each.client_tags:
        parts.append(f"tags={tags_text(each.client_tags)}")
    for name, offsets in (("offsets", each.task_offsets), ("end_offsets", each.task_end_offsets)):
        if offsets:
            parts.append(f"{name}={format_list([str(offset) for offset in offsets])}")
    parts.append(f"assigned={roles_text(each.assignment)}")
    parts.append(f"target={roles_text(each.target_assignment)}")
    if each.is_classic:
        parts.append("classic=true")
    return " ".join(parts)


def roles_text(assignment: StreamsDescribeAssignment) -> str:
    """Return the active tasks of an assignment, and the others if there are any."""
    parts = [tasks_map(assignment.active_tasks)]
    for role in _ROLES[1:]:
        tasks = getattr(assignment, f"{role}_tasks")
        if tasks:
            parts.append(f"{role} {tasks_map(tasks)}")
    return " ".join(parts)


FORMATS: dict[type, Callable[[Any, int, Names], list[str]]] = {
    StreamsGroupHeartbeatResponse: _heartbeat,
    StreamsGroupDescribeResponse: _describe,
}
