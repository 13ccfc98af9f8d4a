"""The requests of the load generator: versions, content, and the errors found in responses."""

from typing import Any

import pytest

from benchmarks import requests
from benchmarks.requests import (
    VERSIONS,
    AgreedApi,
    NotServed,
    Requests,
    assignments,
    first_error,
)
from benchmarks.session import coordinator_port
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import request_class, response_class
from coterie.protocol.errors import ErrorCode
from coterie.protocol.frames import decode_request_header
from coterie.protocol.messages.consumer_protocol import decode_assignment, decode_subscription
from coterie.protocol.messages.create_topics import CreateTopicsResponse, CreateTopicsResponseTopic
from coterie.protocol.messages.find_coordinator import (
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from coterie.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from coterie.protocol.wire import Message


def only(api: ApiKey, version: int) -> Requests:
    """Return the requests for a broker with this one version of one API."""
    return Requests({api: (version, version)})


def decoded(frame: bytes, api: ApiKey) -> Any:
    """Check the header of a request frame and decode its body."""
    cls = request_class(api)
    version = int.from_bytes(frame[6:8], "big")
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    flexible = cls.has_flexible_header(version)
    header, body = decode_request_header(frame, 4, len(frame), flexible=flexible)
    assert (header.api_key, header.correlation_id) == (api, 0)
    assert header.client_id == requests.CLIENT_ID
    return cls.decode(frame, version, body)


def answered(response: Message, version: int) -> bytes:
    """Return the frame of a response."""
    return type(response).framer(version)(response, 9)


def versions(*apis: ApiKey) -> list[object]:
    return [
        pytest.param(api, version, id=f"{api.kafka_name}-{version}")
        for api in apis
        for version in VERSIONS[api]
    ]


@pytest.mark.parametrize(("api", "version"), versions(ApiKey.JOIN_GROUP))
def test_join_group_carries_one_protocol_and_the_topic(api: ApiKey, version: int) -> None:
    request = decoded(only(api, version).join_group("g", "m", "t"), api)
    assert (request.group_id, request.member_id, request.group_instance_id) == ("g", "m", None)
    assert request.session_timeout_ms == requests.SESSION_TIMEOUT_MS
    assert request.rebalance_timeout_ms == requests.REBALANCE_TIMEOUT_MS
    assert request.protocol_type == "consumer"
    assert [protocol.name for protocol in request.protocols] == ["range"]
    metadata = request.protocols[0].metadata
    assert metadata[:2] == b"\x00\x00"
    assert decode_subscription(metadata).topics == ["t"]


@pytest.mark.parametrize(("api", "version"), versions(ApiKey.SYNC_GROUP))
def test_sync_group_carries_one_partition_for_each_member(api: ApiKey, version: int) -> None:
    frame = only(api, version).sync_group("g", 7, "m", assignments(["m", "n"], "t"))
    request = decoded(frame, api)
    assert (request.group_id, request.generation_id, request.member_id) == ("g", 7, "m")
    assert request.protocol_name == ("range" if version >= 5 else None)
    assigned = {
        each.member_id: decode_assignment(each.assignment).assigned_partitions
        for each in request.assignments
    }
    assert {
        member_id: [(each.topic, each.partitions) for each in partitions]
        for member_id, partitions in assigned.items()
    } == {"m": [("t", [0])], "n": [("t", [1])]}


@pytest.mark.parametrize(
    ("api", "version"), versions(ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP, ApiKey.FIND_COORDINATOR)
)
def test_other_group_requests_carry_group_and_member(api: ApiKey, version: int) -> None:
    agreed = only(api, version)
    if api is ApiKey.HEARTBEAT:
        beat = decoded(agreed.heartbeat("g", 7, "m"), api)
        assert beat == HeartbeatRequest(group_id="g", generation_id=7, member_id="m")
    elif api is ApiKey.LEAVE_GROUP:
        leave = decoded(agreed.leave_group("g", "m"), api)
        assert leave.group_id == "g"
        assert leave.member_id == "m" if version < 3 else leave.members[0].member_id == "m"
    else:
        find = decoded(agreed.find_coordinator("g"), api)
        assert find.coordinator_keys == ["g"] if version >= 4 else find.key == "g"
        assert find.key_type == 0


@pytest.mark.parametrize(("api", "version"), versions(ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH))
def test_offset_requests_carry_one_partition(api: ApiKey, version: int) -> None:
    agreed = only(api, version)
    if api is ApiKey.OFFSET_COMMIT:
        commit = decoded(agreed.offset_commit("g", 7, "m", "t", 42), api)
        assert (commit.group_id, commit.generation_id_or_member_epoch) == ("g", 7)
        (topic,) = commit.topics
        assert (topic.name, topic.partitions[0].committed_offset) == ("t", 42)
    else:
        fetch = decoded(agreed.offset_fetch("g", "t"), api)
        assert fetch.group_id == "g"
        assert fetch.topics is not None
        assert (fetch.topics[0].name, fetch.topics[0].partition_indexes) == ("t", [0])


def test_requests_of_set_up_and_clean_up() -> None:
    agreed = Requests(
        dict.fromkeys((ApiKey.CREATE_TOPICS, ApiKey.METADATA, ApiKey.DELETE_GROUPS), (0, 99))
    )
    create = decoded(agreed.create_topic("t", 3), ApiKey.CREATE_TOPICS)
    assert (create.topics[0].name, create.topics[0].num_partitions) == ("t", 3)
    metadata = decoded(agreed.metadata("t"), ApiKey.METADATA)
    assert metadata.topics is not None
    assert metadata.topics[0].name == "t"
    names = ["g" * 200, "h"]
    assert decoded(agreed.delete_groups(names), ApiKey.DELETE_GROUPS).groups_names == names


def test_the_best_common_version_is_used() -> None:
    assert only(ApiKey.HEARTBEAT, 3).agreed(ApiKey.HEARTBEAT).version == 3
    served: dict[int, tuple[int, int]] = {ApiKey.JOIN_GROUP: (0, 9)}
    assert Requests(served).agreed(ApiKey.JOIN_GROUP).version == 9
    assert Requests(served, inflexible=True).agreed(ApiKey.JOIN_GROUP).version == 5
    with pytest.raises(NotServed, match=r"JoinGroup v9 or .* \(the broker has v0-2\)"):
        Requests({ApiKey.JOIN_GROUP: (0, 2)}).agreed(ApiKey.JOIN_GROUP)
    with pytest.raises(NotServed, match="Heartbeat is not served"):
        Requests({}).agreed(ApiKey.HEARTBEAT)


# The APIs of KIP-848, KIP-932 and KIP-1071 were flexible from the start.
FLEXIBLE = {
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
}


@pytest.mark.parametrize("api", sorted(VERSIONS.keys() - FLEXIBLE))
def test_every_api_has_an_inflexible_version(api: ApiKey) -> None:
    agreed = Requests({api: (0, 99)}, inflexible=True).agreed(api)
    assert not request_class(api).is_flexible(agreed.version)


@pytest.mark.parametrize(("api", "version"), versions(*VERSIONS))
def test_every_version_is_declared(api: ApiKey, version: int) -> None:
    first, last = response_class(api).versions
    assert first <= version <= last


@pytest.mark.parametrize("version", VERSIONS[ApiKey.JOIN_GROUP])
def test_a_join_response_is_decoded(version: int) -> None:
    members = [JoinGroupResponseMember(member_id=m, metadata=b"xy") for m in ("m", "n" * 130)]
    sent = JoinGroupResponse(
        error_code=0,
        generation_id=5,
        protocol_type="consumer" if version >= 7 else None,
        protocol_name="range",
        leader="m",
        member_id="m",
        members=members,
    )
    response = AgreedApi(ApiKey.JOIN_GROUP, version).response(answered(sent, version))
    assert response == sent
    assert first_error(response) == ErrorCode.NONE


@pytest.mark.parametrize("version", VERSIONS[ApiKey.OFFSET_COMMIT])
def test_the_error_of_a_commit_is_found(version: int) -> None:
    partition = OffsetCommitResponsePartition(partition_index=0, error_code=22)
    topic = OffsetCommitResponseTopic(name="t", partitions=[partition])
    frame = answered(OffsetCommitResponse(topics=[topic]), version)
    assert first_error(AgreedApi(ApiKey.OFFSET_COMMIT, version).response(frame)) == 22


@pytest.mark.parametrize("version", VERSIONS[ApiKey.OFFSET_FETCH])
@pytest.mark.parametrize(("partition_error", "group_error"), [(0, 0), (3, 0), (0, 16)])
def test_the_errors_of_a_fetch_are_found(
    version: int, partition_error: int, group_error: int
) -> None:
    fetched = OffsetFetchResponsePartition(
        partition_index=0, committed_offset=42, metadata="", error_code=partition_error
    )
    sent = OffsetFetchResponse(
        topics=[OffsetFetchResponseTopic(name="t", partitions=[fetched])], error_code=group_error
    )
    response = AgreedApi(ApiKey.OFFSET_FETCH, version).response(answered(sent, version))
    assert first_error(response) == (partition_error or group_error)
    assert response.topics[0].partitions[0].committed_offset == 42


@pytest.mark.parametrize("version", VERSIONS[ApiKey.FIND_COORDINATOR])
def test_the_port_of_the_coordinator_is_found(version: int) -> None:
    found = FindCoordinatorResponseCoordinator(
        key="g", node_id=1, host="127.0.0.1", port=9092, error_code=0, error_message=None
    )
    sent = FindCoordinatorResponse(coordinators=[found])
    if version < 4:
        sent = FindCoordinatorResponse(
            error_code=0, error_message=None, node_id=1, host="127.0.0.1", port=9092
        )
    response = AgreedApi(ApiKey.FIND_COORDINATOR, version).response(answered(sent, version))
    assert first_error(response) == ErrorCode.NONE
    assert coordinator_port(response) == 9092


def test_the_error_of_a_created_topic_is_found() -> None:
    topic = CreateTopicsResponseTopic(name="t", error_code=36, error_message=None)
    assert first_error(CreateTopicsResponse(topics=[topic])) == ErrorCode.TOPIC_ALREADY_EXISTS
