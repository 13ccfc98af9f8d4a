"""The records of streams groups (KIP-1071).

They are those of KIP-848 groups with tasks in place of partitions: a subtopology, the number of a
partition, and a role. One more has the topology, which says what the tasks read.
"""

from collections.abc import Callable, Iterable
from typing import Any

from coterie.pipeline.records import target_columns
from coterie.protocol.messages import streams_group_records as records

ACTIVE, STANDBY, WARMUP = "active", "standby", "warm-up"
ROLES = (ACTIVE, STANDBY, WARMUP)

_MEMBER_STATES = {1: "Stable", 2: "UnrevokedTasks", 3: "UnreleasedTasks"}
_STANDBY_REPLICAS = "num.standby.replicas"

_Fields = Callable[[Any], dict[str, Any]]


def _group(value: records.StreamsGroupMetadataValue) -> dict[str, Any]:
    configs = {each.key: each.value for each in value.last_assignment_configs or ()}
    replicas = configs.get(_STANDBY_REPLICAS, "")
    validated = value.validated_topology_epoch
    return {
        "group_epoch": value.epoch,
        "metadata_hash": value.metadata_hash or None,
        "topology_epoch": None if validated < 0 else validated,
        "standby_replicas": int(replicas) if replicas.isdecimal() else None,
    }


def _member(value: records.StreamsGroupMemberMetadataValue) -> dict[str, Any]:
    timeout_ms = value.rebalance_timeout_ms
    endpoint = value.user_endpoint
    return {
        "instance_id": value.instance_id,
        "rack_id": value.rack_id,
        "client_id": value.client_id,
        "client_host": value.client_host,
        "rebalance_timeout_ms": None if timeout_ms < 0 else timeout_ms,
        "is_classic_member": False,
        "topology_epoch": value.topology_epoch,
        "process_id": value.process_id,
        "endpoint": None if endpoint is None else f"{endpoint.host}:{endpoint.port}",
        "client_tags": [f"{each.key}={each.value}" for each in value.client_tags],
    }


def _target_member(value: records.StreamsGroupTargetAssignmentMemberValue) -> dict[str, Any]:
    tasks = _tasks(value.active_tasks, value.standby_tasks, value.warmup_tasks)
    return {"assigned_tasks": tasks}


def _current_member(value: records.StreamsGroupCurrentMemberAssignmentValue) -> dict[str, Any]:
    return {
        "member_epoch": value.member_epoch,
        "previous_epoch": value.previous_member_epoch,
        "state": _MEMBER_STATES.get(value.state, str(value.state)),
        "assigned_tasks": _tasks(value.active_tasks, value.standby_tasks, value.warmup_tasks),
        "pending_tasks": _tasks(
            value.active_tasks_pending_revocation,
            value.standby_tasks_pending_revocation,
            value.warmup_tasks_pending_revocation,
        ),
    }


def _topology(value: records.StreamsGroupTopologyValue) -> dict[str, Any]:
    return {
        "topology_epoch": value.epoch,
        "subtopologies": [
            {
                "subtopology": each.subtopology_id,
                "topics": sorted(
                    {*each.source_topics, *(topic.name for topic in each.repartition_source_topics)}
                ),
            }
            for each in value.subtopologies
        ],
    }


# By record type the kind, and the function for the columns of the value [group-log/record-types].
KINDS: dict[int, tuple[str, _Fields]] = {
    17: ("group", _group),
    19: ("member", _member),
    20: ("target", target_columns),
    21: ("target_member", _target_member),
    22: ("current_member", _current_member),
    23: ("topology", _topology),
}


def _tasks(*by_role: Iterable[Any]) -> list[dict[str, Any]]:
    return [
        {"subtopology": each.subtopology_id, "partition": partition, "role": role}
        for role, tasks in zip(ROLES, by_role, strict=True)
        for each in tasks
        for partition in each.partitions
    ]
