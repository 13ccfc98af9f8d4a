"""Changes of groups: delete them, and expel members."""

from collections.abc import Mapping
from typing import Any

from coterie.client.cluster import Cluster
from coterie.client.errors import error_name
from coterie.client.group_description import GroupDescription
from coterie.client.groups import delete_groups, describe_groups, remove_members
from coterie.client.names import counted
from coterie.client.offsets import committed_offsets_of_groups
from coterie.console.changes import fields as f
from coterie.console.changes.plan import Plan, Refusal, Row, arguments, command_line
from coterie.console.changes.verb import Verb
from coterie.protocol.errors import ErrorCode

_EMPTY = "Empty"
_REASON = "expelled in the console"


def member_guard(group: GroupDescription) -> list[Any]:
    """Return what a plan for a group stands on: its state, and who its members are."""
    return [group.exists, group.state, sorted(each.member_id for each in group.members)]


def members_refusal(group: GroupDescription, cause: str) -> list[Refusal]:
    """Return why nothing is done to a group with members; nothing if it has none."""
    if not group.exists or group.state == _EMPTY:
        return []
    who = ", ".join(sorted(each.client_id for each in group.members)) or "nobody yet"
    are = f"It is {group.state}; {counted(len(group.members), 'member')}: {who}."
    remedy = "Stop them first."
    if all(each.has_left for each in group.members):
        remedy = "Static members that have left are removed when their sessions end."
    return [Refusal(group.group_id, f"{cause} {are}", remedy)]


def _plan_delete(cluster: Cluster, fields: Mapping[str, Any]) -> Plan:
    group_ids = list(dict.fromkeys(fields["groups"]))
    groups = describe_groups(cluster, group_ids)
    existing = [each for each in group_ids if groups[each].exists]
    committed = committed_offsets_of_groups(cluster, existing) if existing else {}
    refused = [
        Refusal(each, f"Group '{each}' does not exist.")
        for each in group_ids
        if not groups[each].exists
    ]
    targets, rows = [], []
    for each in existing:
        left_out = members_refusal(groups[each], "A group with members is not deleted.")
        refused += left_out
        if left_out:
            continue
        targets.append(each)
        offsets = {f"{topic}-{index}": at.offset for (topic, index), at in committed[each].items()}
        rows.append(
            {
                "group": each,
                "type": groups[each].type,
                "state": groups[each].state,
                "offsets": offsets,
                "deleted": False,
            }
        )
    lost = sum(len(each["offsets"]) for each in rows)
    return Plan(
        f"Delete {counted(len(targets), 'group')}.",
        rows,
        command_line("groups", "delete", *arguments(targets or group_ids)),
        [rows, [member_guard(groups[each]) for each in group_ids]],
        targets,
        refused,
        [f"{counted(lost, 'committed offset')} will be lost."] if lost else [],
        confirm=targets[0] if len(targets) == 1 else counted(len(targets), "group"),
    )


def _delete(cluster: Cluster, shown: Plan) -> list[Row]:
    return [
        {
            "group": each.group_id,
            "deleted": not each.error,
            "error": error_name(each.error) if each.error else None,
        }
        for each in delete_groups(cluster, shown.targets)
    ]


def _plan_expel(cluster: Cluster, fields: Mapping[str, Any]) -> Plan:
    group_id = fields["group"]
    wanted = list(dict.fromkeys(fields["members"]))
    group = describe_groups(cluster, [group_id])[group_id]
    known = {each.member_id: each for each in group.members}
    members = [known[each] for each in wanted if each in known]
    rows = [
        {
            "group": group_id,
            "member_id": each.member_id,
            "group_instance_id": each.group_instance_id,
            "client_id": each.client_id,
            "host": each.host,
            "partition_count": each.partition_count,
        }
        for each in members
    ]
    return Plan(
        f"Expel {counted(len(members), 'member')} from group {group_id}.",
        rows,
        command_line(
            "groups",
            "remove-members",
            "--group",
            group_id,
            *arguments([each.member_id for each in members] or wanted),
        ),
        rows,
        [(group_id, members)] if members else [],
        [
            Refusal(each, f"It is no member of group '{group_id}'.")
            for each in wanted
            if each not in known
        ],
        [
            "The group rebalances.",
            "A client that still runs notices it at its next heartbeat, and joins again.",
        ],
    )


def _expel(cluster: Cluster, shown: Plan) -> list[Row]:
    ((group_id, members),) = shown.targets
    errors = remove_members(cluster, group_id, members, _REASON)
    rows = []
    for each in members:
        error = errors.get(each.member_id, ErrorCode.UNKNOWN_SERVER_ERROR)
        rows.append(
            {
                "group": group_id,
                "member_id": each.member_id,
                "client_id": each.client_id,
                "removed": not error,
                "error": error_name(error) if error else None,
            }
        )
    return rows


VERBS = (
    Verb(
        "delete-groups",
        "Delete groups without members, with all their offsets.",
        (f.names("groups", "The groups."),),
        _plan_delete,
        _delete,
    ),
    Verb(
        "expel-members",
        "Remove members from a group, as an administrator does.",
        (f.name("group", "The group."), f.names("members", "Their member ids.")),
        _plan_expel,
        _expel,
    ),
)
