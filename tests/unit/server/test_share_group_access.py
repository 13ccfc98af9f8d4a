"""What requests of share groups need [share-groups/order-of-checks]."""

from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.unit.server.test_authorizer import (
    DENIED,
    GROUP,
    acl,
    allow,
    client_of,
    create_topic,
    secured,
    settle,
)


def test_heartbeat_needs_the_group_then_an_id_then_each_topic() -> None:
    broker = secured()
    create_topic(broker, "t")
    alice = client_of(broker, "alice")

    def error(member_id: str) -> int:
        request = ShareGroupHeartbeatRequest(
            group_id="g", member_id=member_id, member_epoch=0, subscribed_topic_names=["t"]
        )
        found: int = settle(alice, request, 1).error_code
        return found

    assert error("") == ErrorCode.GROUP_AUTHORIZATION_FAILED
    allow(broker, acl(AclOperation.READ, GROUP, "g"))
    assert (error(""), error("m")) == (ErrorCode.INVALID_REQUEST, DENIED)
    allow(broker, acl(AclOperation.DESCRIBE))
    assert error("m") == 0


def test_description_needs_the_group() -> None:
    broker = secured()
    alice = client_of(broker, "alice")
    request = ShareGroupDescribeRequest(group_ids=["g"])
    (group,) = settle(alice, request, 1).groups
    assert group.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    allow(broker, acl(AclOperation.DESCRIBE, GROUP, "g"))
    (group,) = settle(alice, request, 1).groups
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
