"""Changes of committed offsets: reset them by each rule of the command, and delete them."""

from collections.abc import Mapping
from typing import Any

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.errors import ClientError, error_name
from coterie.client.group_description import SHARE_GROUP, GroupDescription
from coterie.client.groups import describe_groups
from coterie.client.names import counted
from coterie.client.offsets import commit_offsets, committed_offsets, delete_offsets
from coterie.client.resetting import (
    PlannedOffset,
    Rule,
    current_offsets,
    duration_ms_of,
    offsets_to_clone,
    plan,
    plan_by_time,
    planned_row,
    resolve_partitions,
    shift_by,
    timestamp_of,
    to_current,
    to_earliest,
    to_given,
    to_latest,
    to_offset,
)
from coterie.client.share_groups import alter_start_offsets
from coterie.client.times import now_ms
from coterie.console.changes import fields as f
from coterie.console.changes.groups import member_guard, members_refusal
from coterie.console.changes.plan import (
    Plan,
    Refusal,
    Row,
    command_line,
    refusal_of,
)
from coterie.console.changes.verb import Verb
from coterie.protocol.errors import ErrorCode
from coterie.server.network.http_errors import Refused

# Ways without a value.
_PLAIN: Mapping[str, Rule] = {
    "earliest": to_earliest,
    "latest": to_latest,
    "current": to_current,
}
_OPTIONS = {
    "earliest": "--to-earliest",
    "latest": "--to-latest",
    "current": "--to-current",
    "offset": "--to-offset",
    "shift": "--shift-by",
    "datetime": "--to-datetime",
    "duration": "--by-duration",
    "group": "--from-group",
}
_SCOPES = "Topics, as TOPIC or TOPIC:0,1."


def _plan_reset(cluster: Cluster, fields: Mapping[str, Any]) -> Plan:
    group_id, way, value = fields["group"], fields["to"], fields.get("value", "")
    if (way in _PLAIN) != (value == ""):
        raise Refused("BadRequest", f"value: {'none' if way in _PLAIN else 'one'} is wanted")
    if way == "group" and value == group_id:
        raise Refused("BadRequest", "value: it names the same group")
    group = describe_groups(cluster, [group_id])[group_id]
    current = current_offsets(cluster, group)
    scopes = fields.get("topics", [])
    without: dict[TopicPartition, ClientError] = {}
    given: dict[TopicPartition, int] = {}
    left_out: list[TopicPartition] = []
    if way == "group":
        wanted = set(resolve_partitions(cluster, scopes)) if scopes else None
        given, left_out = offsets_to_clone(cluster, value, wanted)
        partitions = sorted(given)
    elif scopes:
        partitions = resolve_partitions(cluster, scopes)
    else:
        partitions = sorted(current)
    planned = _planned(cluster, current, partitions, (way, value), given, without)
    refused = [refusal_of(_partition_name(each), error) for each, error in without.items()]
    refused += [
        Refusal(_partition_name(each), "The partition does not exist any more.")
        for each in left_out
    ]
    if not partitions:
        of = value if way == "group" else group_id
        refused.append(Refusal(of, f"Group '{of}' has no committed offsets.", "Name topics."))
    members = members_refusal(group, "Offsets can only be reset while a group has no members.")
    moved = [each for each in planned if each.new != each.current]
    option = [_OPTIONS[way], *([value] if way not in _PLAIN else [])]
    scope = [word for each in scopes for word in ("--topic", each)]
    if not scopes and way != "group":
        scope = ["--all-topics"]
    return Plan(
        f"Reset {counted(len(moved), 'offset')} of group {group_id}.",
        [planned_row(group_id, each, committed=False) for each in planned],
        command_line("groups", "reset-offsets", "--group", group_id, *scope, *option, "--execute"),
        {
            "group": member_guard(group),
            "current": [[*each.partition, each.current] for each in planned],
        },
        [] if members else [(group, planned)] if planned else [],
        [*members, *refused],
    )


def _planned(
    cluster: Cluster,
    current: dict[TopicPartition, int],
    partitions: list[TopicPartition],
    target: tuple[str, str],
    given: dict[TopicPartition, int],
    refused: dict[TopicPartition, ClientError],
) -> list[PlannedOffset]:
    way, value = target
    try:
        match way:
            case "datetime":
                return plan_by_time(cluster, current, partitions, timestamp_of(value))
            case "duration":
                at_ms = now_ms() - duration_ms_of(value)
                return plan_by_time(cluster, current, partitions, at_ms)
            case "group":
                rule = to_given(given)
            case "offset":
                rule = to_offset(_whole(value, may_be_negative=False))
            case "shift":
                rule = shift_by(_whole(value, may_be_negative=True))
            case _:
                rule = _PLAIN[way]
    except ValueError as error:
        raise Refused("BadRequest", f"value: {error}") from None
    return plan(cluster, current, partitions, rule, refused)


def _whole(text: str, *, may_be_negative: bool) -> int:
    digits = text.removeprefix("-") if may_be_negative else text
    if not (digits.isascii() and digits.isdigit() and int(digits[:20]) <= f.INT64):
        raise ValueError(f"{text!r} is not a number of records")
    return int(text)


def _reset(cluster: Cluster, shown: Plan) -> list[Row]:
    ((group, planned),) = shown.targets
    group_id = group.group_id
    commit = alter_start_offsets if group.type == SHARE_GROUP else commit_offsets
    errors = commit(cluster, group_id, {each.partition: each.new for each in planned})
    return [
        {**planned_row(group_id, each, committed=error == 0), "error": error_text(error)}
        for each in planned
        for error in [errors.get(each.partition, ErrorCode.UNKNOWN_SERVER_ERROR)]
    ]


def _plan_delete(cluster: Cluster, fields: Mapping[str, Any]) -> Plan:
    group_id, scopes = fields["group"], fields["topics"]
    group = describe_groups(cluster, [group_id])[group_id]
    partitions = resolve_partitions(cluster, scopes)
    committed = committed_offsets(cluster, group_id)
    found = [each for each in partitions if each in committed]
    refused = _subscribed(group, {topic for topic, _ in partitions})
    blocked = {each.subject for each in refused}
    targets = [each for each in found if each[0] not in blocked]
    refused += [
        Refusal(_partition_name(each), "Nothing is committed for it.")
        for each in partitions
        if each not in committed
    ]
    rows = [
        {
            "group": group_id,
            "topic": topic,
            "partition": index,
            "current_offset": committed[topic, index].offset,
            "deleted": False,
        }
        for topic, index in targets
    ]
    words = [word for each in scopes for word in ("--topic", each)]
    return Plan(
        f"Delete {counted(len(targets), 'committed offset')} of group {group_id}.",
        rows,
        command_line("groups", "delete-offsets", "--group", group_id, *words),
        {"rows": rows, "group": member_guard(group)},
        [(group_id, targets)] if targets else [],
        refused,
        ["A member that reads these partitions again begins where auto.offset.reset says."],
        confirm=group_id,
    )


def _subscribed(group: GroupDescription, topics: set[str]) -> list[Refusal]:
    read = {each for member in group.members for each in member.topics or ()}
    cause = f"Group '{group.group_id}' is still subscribed to it."
    return [
        Refusal(topic, cause, "Stop the members that read it.") for topic in sorted(topics & read)
    ]


def _delete(cluster: Cluster, shown: Plan) -> list[Row]:
    ((group_id, targets),) = shown.targets
    group_error, errors = delete_offsets(cluster, group_id, targets)
    # A partition that the response leaves out counts as failed.
    missing = ErrorCode.UNKNOWN_SERVER_ERROR
    outcome = {each: group_error or errors.get(each, missing) for each in targets}
    return [
        {
            "group": group_id,
            "topic": topic,
            "partition": index,
            "deleted": not error,
            "error": error_text(error),
        }
        for (topic, index), error in outcome.items()
    ]


def error_text(error: int) -> str | None:
    """Return the name of an error, or None without one."""
    return error_name(error) if error else None


def _partition_name(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"


VERBS = (
    Verb(
        "reset-offsets",
        "Commit other offsets for a group without members.",
        (
            f.name("group", "The group."),
            f.names("topics", f"{_SCOPES} None: all that are committed.", is_required=False),
            f.choice("to", "By which rule.", *_OPTIONS, is_required=True),
            f.text("value", "Of offset, shift, datetime (ISO 8601), duration (PT1H) and group."),
        ),
        _plan_reset,
        _reset,
    ),
    Verb(
        "delete-offsets",
        "Delete the offsets of topics that a group no longer reads.",
        (f.name("group", "The group."), f.names("topics", _SCOPES)),
        _plan_delete,
        _delete,
    ),
)
