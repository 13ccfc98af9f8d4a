"""The checks of a StreamsGroupHeartbeat that need nothing but the request.

[streams-groups/order-of-checks]
"""

from coterie.coordinator.groups.epochs import JOIN_EPOCH
from coterie.coordinator.groups.refusal import Refusal, invalid
from coterie.coordinator.groups.streams.topology import logged_topology
from coterie.coordinator.streams_topology.model import InvalidTopology
from coterie.coordinator.streams_topology.names import check_changelogs
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest

# The epoch of a static member that leaves for a while; Kafka 4.3 lets no member be static.
_STATIC_LEAVE_EPOCH = -2
_ALL_OR_NONE = "If one task-type is non-null, all must be non-null."
# What Java's String.trim removes at the ends of a text: all characters up to the space.
_BLANKS = "".join(map(chr, range(33)))


def check_request(request: StreamsGroupHeartbeatRequest) -> None:
    """Check the fields of a request, in Kafka's order.

    Raises:
        Refusal: the request is not valid, or asks for what Kafka 4.3 does not support.
    """
    _check_supported(request)
    for value, text in (
        (request.member_id, "MemberId can't be empty."),
        (request.group_id, "GroupId can't be empty."),
        (request.instance_id, "InstanceId can't be empty."),
        (request.rack_id, "RackId can't be empty."),
    ):
        if value is not None and not value.strip(_BLANKS):
            raise invalid(text)
    if request.member_epoch == JOIN_EPOCH:
        _check_join(request)
    elif request.member_epoch == _STATIC_LEAVE_EPOCH:
        if request.instance_id is None:
            raise invalid("InstanceId can't be null.")
    elif request.member_epoch < _STATIC_LEAVE_EPOCH:
        raise invalid(
            f"MemberEpoch is {request.member_epoch}, but must be greater than or equal to -2."
        )
    roles = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if None in roles and roles != (None, None, None):
        raise invalid(_ALL_OR_NONE)
    if request.member_epoch != JOIN_EPOCH and request.topology is not None:
        raise invalid("Topology can only be provided when (re-)joining.")


def _check_supported(request: StreamsGroupHeartbeatRequest) -> None:
    if request.instance_id is not None:
        raise invalid("Static membership is not yet supported.")
    if request.task_offsets is not None:
        raise invalid("TaskOffsets are not supported yet.")
    if request.task_end_offsets is not None:
        raise invalid("TaskEndOffsets are not supported yet.")
    if request.warmup_tasks:
        raise invalid("WarmupTasks are not supported yet.")
    if request.topology is not None:
        for each in request.topology.subtopologies:
            if each.source_topic_regex:
                raise invalid("Regular expressions for source topics are not supported yet.")


def _check_join(request: StreamsGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise invalid("RebalanceTimeoutMs must be provided in first request.")
    for name, tasks in (
        ("ActiveTasks", request.active_tasks),
        ("StandbyTasks", request.standby_tasks),
        ("WarmupTasks", request.warmup_tasks),
    ):
        # Null is not empty.
        if tasks is None or tasks:
            raise invalid(f"{name} must be empty when (re-)joining.")
    if request.topology is None:
        raise invalid("Topology must be non-null when (re-)joining.")
    try:
        check_changelogs(logged_topology(request.topology))
    except InvalidTopology as error:
        raise Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, error.message) from None
