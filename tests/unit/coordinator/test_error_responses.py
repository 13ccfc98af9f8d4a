"""Error responses: every version can carry them, with the error where its clients expect it.

Rules: [offsets/commit-errors].
"""

from typing import Any

import pytest

from coterie.coordinator.groups.responses import DeletedGroup, DescribedGroup
from coterie.coordinator.groups.served_types import SERVED_TYPES
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsResponse
from coterie.protocol.messages.describe_groups import DescribeGroupsResponse
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from coterie.protocol.messages.list_groups import ListGroupsRequest
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.offset_delete import OffsetDeleteRequest
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from coterie.protocol.messages.sync_group import SyncGroupRequest
from coterie.protocol.wire import Message

TOPIC_ID = b"sixteen bytes id"

REQUESTS: dict[ApiKey, Any] = {
    ApiKey.JOIN_GROUP: JoinGroupRequest(
        group_id="g",
        session_timeout_ms=1,
        member_id="m",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    ),
    ApiKey.SYNC_GROUP: SyncGroupRequest(
        group_id="g", generation_id=1, member_id="m", assignments=[]
    ),
    ApiKey.HEARTBEAT: HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
    ApiKey.LEAVE_GROUP: LeaveGroupRequest(
        group_id="g", member_id="m", members=[LeaveGroupRequestMember(member_id="m")]
    ),
    ApiKey.OFFSET_COMMIT: OffsetCommitRequest(
        group_id="g",
        member_id="m",
        topics=[
            OffsetCommitRequestTopic(
                name="t",
                topic_id=TOPIC_ID,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=1, committed_metadata=None
                    )
                    for index in (3, 1)
                ],
            )
        ],
    ),
    ApiKey.OFFSET_FETCH: OffsetFetchRequest(
        group_id="g",
        topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[3, 1])],
        groups=[OffsetFetchRequestGroup(group_id="g", topics=None)],
    ),
    ApiKey.OFFSET_DELETE: OffsetDeleteRequest(group_id="g", topics=[]),
    ApiKey.LIST_GROUPS: ListGroupsRequest(),
}

CASES = [
    (api_key, version)
    for api_key in REQUESTS
    for version in range(SERVED_VERSIONS[api_key][0], SERVED_VERSIONS[api_key][1] + 1)
]


def errors_of(api_key: ApiKey, version: int, message: Any) -> list[int]:
    """Return the errors of a response, from where a client of this version reads them."""
    if api_key is ApiKey.OFFSET_COMMIT:
        return [each.error_code for topic in message.topics for each in topic.partitions]
    if api_key is ApiKey.OFFSET_FETCH and version >= 8:
        return [group.error_code for group in message.groups]
    if api_key is ApiKey.OFFSET_FETCH and version == 1:
        return [each.error_code for topic in message.topics for each in topic.partitions]
    return [message.error_code]


@pytest.mark.parametrize(
    ("api_key", "version"), CASES, ids=[f"{key.name.lower()}-v{version}" for key, version in CASES]
)
def test_every_version_carries_the_error(api_key: ApiKey, version: int) -> None:
    error = ErrorCode.NOT_COORDINATOR
    refused = SERVED_TYPES.error_response(REQUESTS[api_key], error, version)
    assert isinstance(refused, Message)
    over_the_wire = type(refused).decode(refused.encode(version), version)
    errors = errors_of(api_key, version, over_the_wire)
    assert errors
    assert set(errors) == {error}


@pytest.mark.parametrize("version", [9, 10])
def test_refused_commit_has_the_error_on_every_partition(version: int) -> None:
    (topic,) = SERVED_TYPES.error_response(
        REQUESTS[ApiKey.OFFSET_COMMIT], ErrorCode.NOT_COORDINATOR, version
    ).topics
    assert (topic.name, topic.topic_id) == ("t", TOPIC_ID)
    assert [each.partition_index for each in topic.partitions] == [3, 1]


@pytest.mark.parametrize("version", [1, 2, 7, 8, 10])
def test_fetch_never_reports_coordinator_not_available(version: int) -> None:
    """[offsets/fetch-errors]"""
    refused = SERVED_TYPES.error_response(
        REQUESTS[ApiKey.OFFSET_FETCH], ErrorCode.COORDINATOR_NOT_AVAILABLE, version
    )
    errors = errors_of(ApiKey.OFFSET_FETCH, version, refused)
    assert set(errors) == {ErrorCode.NOT_COORDINATOR}


def test_every_version_carries_the_error_of_one_of_several_groups() -> None:
    described = SERVED_TYPES.error_response(DescribedGroup("g"), ErrorCode.NOT_COORDINATOR, 0)
    deleted = SERVED_TYPES.error_response(DeletedGroup("g"), ErrorCode.NOT_COORDINATOR, 0)
    fetched = SERVED_TYPES.error_response(
        REQUESTS[ApiKey.OFFSET_FETCH].groups[0], ErrorCode.NOT_COORDINATOR, 0
    )
    for version in range(SERVED_VERSIONS[ApiKey.DESCRIBE_GROUPS][1] + 1):
        encoded = DescribeGroupsResponse(groups=[described]).encode(version)
        (group,) = DescribeGroupsResponse.decode(encoded, version).groups
        assert group.error_code == ErrorCode.NOT_COORDINATOR
    for version in range(SERVED_VERSIONS[ApiKey.DELETE_GROUPS][1] + 1):
        encoded = DeleteGroupsResponse(results=[deleted]).encode(version)
        (result,) = DeleteGroupsResponse.decode(encoded, version).results
        assert result.error_code == ErrorCode.NOT_COORDINATOR
    assert {each.error_code for each in (described, deleted, fetched)} == {
        ErrorCode.NOT_COORDINATOR
    }
    assert {each.group_id for each in (described, deleted, fetched)} == {"g"}
