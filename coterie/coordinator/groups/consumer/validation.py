"""The checks of a ConsumerGroupHeartbeat that need nothing but the request.

[consumer-groups/order-of-checks]
"""

from collections.abc import Collection

from coterie.coordinator.groups.consumer.states import STATIC_LEAVE_EPOCH
from coterie.coordinator.groups.epochs import JOIN_EPOCH, LEAVE_EPOCH
from coterie.coordinator.groups.refusal import Refusal, invalid
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

# From this version on the client makes the member id.
CLIENT_IDS_SINCE = 1


def check_shape(
    request: ConsumerGroupHeartbeatRequest, version: int, assignors: Collection[str]
) -> None:
    """Check the fields of a request, in Kafka's order.

    Args:
        request: the request.
        version: its version.
        assignors: the names of the assignors that are configured.

    Raises:
        Refusal: the request is not valid, or asks for an unknown assignor.
    """
    epoch = request.member_epoch
    if not request.member_id.strip() and (
        version >= CLIENT_IDS_SINCE or epoch > 0 or epoch == LEAVE_EPOCH
    ):
        raise invalid("MemberId can't be empty.")
    if not request.group_id.strip():
        raise invalid("GroupId can't be empty.")
    if request.instance_id is not None and not request.instance_id.strip():
        raise invalid("InstanceId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        raise invalid("RackId can't be empty.")
    if epoch == JOIN_EPOCH:
        _check_join(request)
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise invalid("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise invalid("MemberEpoch is invalid.")
    assignor = request.server_assignor
    if assignor is not None and assignor not in assignors:
        raise Refusal(
            ErrorCode.UNSUPPORTED_ASSIGNOR,
            f"ServerAssignor {assignor} is not supported. "
            f"Supported assignors: {', '.join(assignors)}.",
        )


def _check_join(request: ConsumerGroupHeartbeatRequest) -> None:
    if request.rebalance_timeout_ms == -1:
        raise invalid("RebalanceTimeoutMs must be provided in first request.")
    if request.topic_partitions is None or request.topic_partitions:
        raise invalid("TopicPartitions must be empty when (re-)joining.")
    if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
        raise invalid(
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when "
            "(re-)joining."
        )
