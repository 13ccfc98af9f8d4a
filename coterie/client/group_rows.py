"""The rows of groups: what `groups describe --json` and the console say of one.

A row is an object of JSON. Its keys are stable; a value that is not known is null.
"""

from collections.abc import Mapping
from typing import Any

from coterie.client.cluster import TopicPartition
from coterie.client.group_description import (
    SHARE_GROUP,
    DescribedTopology,
    GroupDescription,
    StreamsWork,
)
from coterie.client.progress import Sample, partitions_of_members, rates_between
from coterie.client.software import Software
from coterie.client.times import time_text

Row = dict[str, Any]


def offset_rows(
    group: GroupDescription,
    before: Sample | None,
    sample: Sample,
    commit_times: Mapping[TopicPartition, int],
) -> list[Row]:
    """Return a row for each partition that has an offset or an owner, in order."""
    members = {member.member_id: member for member in group.members}
    owners = partitions_of_members(group)
    rows: list[Row] = []
    for partition in sample.partitions(group):
        committed = sample.committed[group.group_id].get(partition)
        committed_ms = commit_times.get(partition)
        ids = owners.get(partition, [])
        # Several members of a share group may have a partition.
        is_owned = ids and (len(ids) == 1 or group.type != SHARE_GROUP)
        owner = members[ids[-1]] if is_owned else None
        rates = rates_between(before, sample, group.group_id, partition)
        rows.append(
            {
                "group": group.group_id,
                "topic": partition[0],
                "partition": partition[1],
                "leader_epoch": committed.leader_epoch
                if committed and committed.leader_epoch >= 0
                else None,
                "current_offset": None if committed is None else committed.offset,
                "log_end_offset": sample.ends.get(partition),
                "lag": sample.lag(group.group_id, partition),
                "metadata": None if committed is None else committed.metadata,
                "consumer_id": owner.member_id if owner else None,
                "group_instance_id": owner.group_instance_id if owner else None,
                "host": owner.host if owner else None,
                "client_id": owner.client_id if owner else None,
                "consumed_per_s": rates.consumed,
                "produced_per_s": rates.produced,
                "last_commit": None if committed_ms is None else time_text(committed_ms),
            }
        )
    return rows


def member_rows(group: GroupDescription, software: Mapping[str, Software]) -> list[Row]:
    """Return a row for each member, by member id."""
    return [
        {
            "group": group.group_id,
            "consumer_id": member.member_id,
            "group_instance_id": member.group_instance_id,
            "host": member.host,
            "client_id": member.client_id,
            "partition_count": member.partition_count,
            "member_epoch": member.member_epoch,
            "assignment": member.assignment,
            "target_epoch": group.assignment_epoch,
            "target_assignment": member.target_assignment,
            "worker": None if member.worker is None else member.worker._asdict(),
            "streams": None if member.streams is None else _work_row(member.streams),
            "subscription": member.topics,
            "regex": member.regex,
            **_software_row(software.get(member.member_id)),
        }
        for member in sorted(group.members, key=lambda member: member.member_id)
    ]


def _work_row(work: StreamsWork) -> Row:
    roles = {"tasks": work.tasks._asdict(), "target": work.target._asdict()}
    return work._asdict() | roles


def _software_row(software: Software | None) -> Row:
    keys = "client_software", "client_software_version", "principal"
    return dict(zip(keys, software or (None,) * len(keys), strict=True))


def state_row(group: GroupDescription) -> Row:
    """Return the row of a group itself."""
    return {
        "group": group.group_id,
        "coordinator": str(group.coordinator.address),
        "coordinator_id": group.coordinator.node_id,
        "type": group.type,
        "protocol_type": group.protocol_type,
        "assignment_strategy": group.protocol,
        "state": group.state,
        "group_epoch": group.group_epoch,
        "target_assignment_epoch": group.assignment_epoch,
        "member_count": len(group.members),
        "topology": None if group.topology is None else _topology_row(group.topology),
    }


def _topology_row(topology: DescribedTopology) -> Row:
    return {
        "epoch": topology.epoch,
        "subtopologies": [
            each._asdict() | {"task_count": each.task_count} for each in topology.subtopologies
        ],
    }
