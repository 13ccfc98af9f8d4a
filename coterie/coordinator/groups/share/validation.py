"""The checks of a ShareGroupHeartbeat that need nothing but the request.

[share-groups/order-of-checks]
"""

from coterie.coordinator.groups.epochs import JOIN_EPOCH, LEAVE_EPOCH
from coterie.coordinator.groups.refusal import Refusal, invalid
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

# The length of a UUID in Java's text form: the longest member id.
LONGEST_MEMBER_ID = 36


def check_member_id(request: ShareGroupHeartbeatRequest) -> None:
    """Check the member id, as Kafka does before it asks for rights on topics.

    Raises:
        Refusal: there is none, or it is too long.
    """
    if not 0 < len(request.member_id) <= LONGEST_MEMBER_ID:
        raise Refusal(ErrorCode.INVALID_REQUEST)


def check_shape(request: ShareGroupHeartbeatRequest) -> None:
    """Check the fields of a request, in Kafka's order.

    Raises:
        Refusal: the request is not valid.
    """
    check_member_id(request)
    if not request.member_id.strip():
        raise invalid("MemberId can't be empty.")
    if not request.group_id.strip():
        raise invalid("GroupId can't be empty.")
    if request.rack_id is not None and not request.rack_id.strip():
        raise invalid("RackId can't be empty.")
    if request.member_epoch == JOIN_EPOCH and not request.subscribed_topic_names:
        raise invalid("SubscribedTopicNames must be set in first request.")
    if request.member_epoch < LEAVE_EPOCH:
        raise invalid("MemberEpoch is invalid.")
