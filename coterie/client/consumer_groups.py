"""ConsumerGroupDescribe (api key 69): groups of type "consumer", the newer protocol (KIP-848).

The messages are declared here and not in protocol/messages because our server does not serve them.
Only this client sends them, to a real Kafka.

v0   first version
v1   member_type (KIP-1099)
"""

from collections.abc import Iterable

from coterie.client.cluster import Cluster
from coterie.client.errors import Refused
from coterie.client.group_description import DescribedMember, GroupDescription
from coterie.protocol.authorized_operations import AUTHORIZED_OPERATIONS_OMITTED
from coterie.protocol.errors import ErrorCode
from coterie.protocol.wire import (
    Boolean,
    Int8,
    Int16,
    Int32,
    Message,
    String,
    Struct,
    Uuid,
    message,
    since,
    struct,
)

# `ApiKey` lists only the APIs that our server serves, so this number is not a member of it.
CONSUMER_GROUP_DESCRIBE = 69
_VERSIONS = (0, 1)


@message(api_key=CONSUMER_GROUP_DESCRIBE, versions=_VERSIONS, flexible=0)
class ConsumerGroupDescribeRequest(Message):
    """The groups to describe, by id."""

    group_ids: list[String]
    include_authorized_operations: Boolean = False


@struct
class ConsumerGroupDescribeResponseTopic(Struct):
    """The partitions of a topic."""

    topic_id: Uuid
    topic_name: String
    partitions: list[Int32]


@struct
class ConsumerGroupDescribeResponseAssignment(Struct):
    """The partitions of a member."""

    topic_partitions: list[ConsumerGroupDescribeResponseTopic]


@struct
class ConsumerGroupDescribeResponseMember(Struct):
    """A member, with the assignment that it has acknowledged and its target assignment."""

    member_id: String
    instance_id: String | None = None
    rack_id: String | None = None
    member_epoch: Int32
    client_id: String
    client_host: String
    subscribed_topic_names: list[String]
    subscribed_topic_regex: String | None = None
    assignment: ConsumerGroupDescribeResponseAssignment
    target_assignment: ConsumerGroupDescribeResponseAssignment
    member_type: Int8 = since(1, default=-1)


@struct
class ConsumerGroupDescribeResponseGroup(Struct):
    """A group."""

    error_code: Int16
    error_message: String | None = None
    group_id: String
    group_state: String
    group_epoch: Int32
    assignment_epoch: Int32
    assignor_name: String
    members: list[ConsumerGroupDescribeResponseMember]
    authorized_operations: Int32 = AUTHORIZED_OPERATIONS_OMITTED


@message(api_key=CONSUMER_GROUP_DESCRIBE, versions=_VERSIONS, flexible=0)
class ConsumerGroupDescribeResponse(Message):
    """The groups, in the order of the request."""

    throttle_time_ms: Int32 = 0
    groups: list[ConsumerGroupDescribeResponseGroup]


def describe_consumer_groups(
    cluster: Cluster, group_ids: Iterable[str]
) -> dict[str, GroupDescription]:
    """Return the descriptions of those groups that are of type "consumer".

    Raises:
        VersionUnsupported: the broker has no groups of this type.
        Refused: a coordinator responds with another error than GROUP_ID_NOT_FOUND.
    """
    wanted = list(group_ids)
    found = cluster.call_coordinators(
        wanted,
        lambda keys: ConsumerGroupDescribeRequest(group_ids=keys),
        ConsumerGroupDescribeResponse,
        lambda response: {group.group_id: (group.error_code, group) for group in response.groups},
    )
    nodes = cluster.coordinators(wanted)
    described: dict[str, GroupDescription] = {}
    for name, group in found.items():
        if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
            continue
        if group.error_code:
            raise Refused(group.error_code, f"Group '{name}'", group.error_message)
        described[name] = GroupDescription(
            group_id=name,
            exists=True,
            type="consumer",
            state=group.group_state,
            protocol_type="consumer",
            protocol=group.assignor_name,
            coordinator=nodes[name],
            members=[_member(member) for member in group.members],
            group_epoch=group.group_epoch,
            assignment_epoch=group.assignment_epoch,
        )
    return described


def _member(member: ConsumerGroupDescribeResponseMember) -> DescribedMember:
    return DescribedMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_partitions(member.assignment),
        member_epoch=member.member_epoch,
        target_assignment=_partitions(member.target_assignment),
        topics=list(member.subscribed_topic_names),
    )


def _partitions(assignment: ConsumerGroupDescribeResponseAssignment) -> dict[str, list[int]]:
    return {part.topic_name: sorted(part.partitions) for part in assignment.topic_partitions}
