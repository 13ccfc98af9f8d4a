"""What the load generator sends and how it reads answers, against the declared messages."""

import struct

import pytest

from benchmarks import answers, frames
from benchmarks.frames import Api, Frames, NotServed, Spoken
from coterie.protocol.messages.create_topics import CreateTopicsRequest
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from coterie.protocol.messages.leave_group import LeaveGroupRequest
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from coterie.protocol.messages.sync_group import SyncGroupRequest
from coterie.protocol.wire import Message


def only(api: Api, version: int) -> Frames:
    """Return frames for a broker with this one version of one API."""
    return Frames({api.key: (version, version)})


def decoded(frame: bytes, request: type[Message], api: Api) -> Message:
    """Take a request frame apart and decode its body with the declared message."""
    size, key, version, correlation_id, client_size = struct.unpack_from(">ihhih", frame)
    assert size == len(frame) - 4
    assert (key, correlation_id) == (api.key, 0)
    start = 14 + client_size
    assert frame[14:start] == frames.CLIENT_ID
    if version >= api.flexible_from:
        assert frame[start] == 0
        start += 1
    return request.decode(frame[start:], version)


def versions(*apis: Api) -> list[object]:
    return [pytest.param(api, v, id=f"{api.name}-{v}") for api in apis for v in api.wanted]


@pytest.mark.parametrize(("api", "version"), versions(frames.JOIN_GROUP))
def test_join_group_frames(api: Api, version: int) -> None:
    request = decoded(only(api, version).join_group("g", "m", "t"), JoinGroupRequest, api)
    assert isinstance(request, JoinGroupRequest)
    assert (request.group_id, request.member_id, request.group_instance_id) == ("g", "m", None)
    assert request.session_timeout_ms == frames.SESSION_TIMEOUT_MS
    assert request.rebalance_timeout_ms == frames.REBALANCE_TIMEOUT_MS
    assert request.protocol_type == "consumer"
    assert [p.name for p in request.protocols] == ["range"]
    assert request.protocols[0].metadata == frames.subscription("t")


@pytest.mark.parametrize(("api", "version"), versions(frames.SYNC_GROUP))
def test_sync_group_frames(api: Api, version: int) -> None:
    spoken = only(api, version)
    frame = spoken.sync_group("g", 7, "m", spoken.assignments(["m", "n"], "t"))
    request = decoded(frame, SyncGroupRequest, api)
    assert isinstance(request, SyncGroupRequest)
    assert (request.group_id, request.generation_id, request.member_id) == ("g", 7, "m")
    assert request.protocol_name == ("range" if version >= 5 else None)
    assert {a.member_id: a.assignment for a in request.assignments} == {
        "m": frames.assignment("t", 0),
        "n": frames.assignment("t", 1),
    }


@pytest.mark.parametrize(
    ("api", "version"), versions(frames.HEARTBEAT, frames.LEAVE_GROUP, frames.FIND_COORDINATOR)
)
def test_other_group_frames(api: Api, version: int) -> None:
    spoken = only(api, version)
    if api is frames.HEARTBEAT:
        beat = decoded(spoken.heartbeat("g", 7, "m"), HeartbeatRequest, api)
        assert beat == HeartbeatRequest(group_id="g", generation_id=7, member_id="m")
    elif api is frames.LEAVE_GROUP:
        leave = decoded(spoken.leave_group("g", "m"), LeaveGroupRequest, api)
        assert isinstance(leave, LeaveGroupRequest)
        assert leave.group_id == "g"
        assert leave.member_id == "m" if version < 3 else leave.members[0].member_id == "m"
    else:
        find = decoded(spoken.find_coordinator("g"), FindCoordinatorRequest, api)
        assert isinstance(find, FindCoordinatorRequest)
        assert find.coordinator_keys == ["g"] if version >= 4 else find.key == "g"
        assert find.key_type == 0


@pytest.mark.parametrize(("api", "version"), versions(frames.OFFSET_COMMIT, frames.OFFSET_FETCH))
def test_offset_frames(api: Api, version: int) -> None:
    spoken = only(api, version)
    if api is frames.OFFSET_COMMIT:
        commit = decoded(spoken.offset_commit("g", 7, "m", "t", 42), OffsetCommitRequest, api)
        assert isinstance(commit, OffsetCommitRequest)
        assert (commit.group_id, commit.generation_id_or_member_epoch) == ("g", 7)
        (topic,) = commit.topics
        assert (topic.name, topic.partitions[0].committed_offset) == ("t", 42)
    else:
        fetch = decoded(spoken.offset_fetch("g", "t"), OffsetFetchRequest, api)
        assert isinstance(fetch, OffsetFetchRequest)
        assert fetch.group_id == "g"
        assert fetch.topics is not None
        assert (fetch.topics[0].name, fetch.topics[0].partition_indexes) == ("t", [0])


def test_frames_of_set_up_and_tear_down() -> None:
    served = {api.key: (0, 99) for api in (frames.CREATE_TOPICS, frames.METADATA)}
    spoken = Frames({**served, frames.DELETE_GROUPS.key: (0, 99)})
    create = decoded(spoken.create_topic("t", 3), CreateTopicsRequest, frames.CREATE_TOPICS)
    assert isinstance(create, CreateTopicsRequest)
    assert (create.topics[0].name, create.topics[0].num_partitions) == ("t", 3)
    metadata = decoded(spoken.metadata("t"), MetadataRequest, frames.METADATA)
    assert isinstance(metadata, MetadataRequest)
    assert metadata.topics is not None
    assert metadata.topics[0].name == "t"
    names = ["g" * 200, "h"]  # a compact length of two bytes
    delete = decoded(spoken.delete_groups(names), DeleteGroupsRequest, frames.DELETE_GROUPS)
    assert isinstance(delete, DeleteGroupsRequest)
    assert delete.groups_names == names


def test_the_best_common_version_is_spoken() -> None:
    assert only(frames.HEARTBEAT, 3).spoken(frames.HEARTBEAT).version == 3
    everything = {frames.JOIN_GROUP.key: (0, 9)}
    assert Frames(everything).spoken(frames.JOIN_GROUP).version == 9
    assert Frames(everything, inflexible=True).spoken(frames.JOIN_GROUP).version == 5
    with pytest.raises(NotServed, match=r"JoinGroup v9 or .* \(the broker has v0-2\)"):
        Frames({frames.JOIN_GROUP.key: (0, 2)}).spoken(frames.JOIN_GROUP)
    with pytest.raises(NotServed, match="Heartbeat is not served"):
        Frames({}).spoken(frames.HEARTBEAT)


@pytest.mark.parametrize(("api", "version"), versions(frames.JOIN_GROUP))
def test_reading_join_answers(api: Api, version: int) -> None:
    spoken = Spoken(api, version)
    members = [JoinGroupResponseMember(member_id=m, metadata=b"xy") for m in ("m", "n" * 130)]
    answer = JoinGroupResponse.framer(version)(
        JoinGroupResponse(
            error_code=0,
            generation_id=5,
            protocol_type="consumer",
            protocol_name="range",
            leader="m",
            member_id="m",
            members=members,
        ),
        9,
    )
    assert answers.read_join(answer, spoken) == (5, True, "m", 2)
    assert answers.read_member_ids(answer, spoken) == ["m", "n" * 130]
    assert answers.first_error(answer, (answers.error_at(spoken),)) == 0


@pytest.mark.parametrize(("api", "version"), versions(frames.OFFSET_COMMIT, frames.OFFSET_FETCH))
def test_reading_errors_of_offset_answers(api: Api, version: int) -> None:
    spoken = Spoken(api, version)
    if api is frames.OFFSET_COMMIT:
        partition = OffsetCommitResponsePartition(partition_index=0, error_code=22)
        topic = OffsetCommitResponseTopic(name="t", partitions=[partition])
        answer = OffsetCommitResponse.framer(version)(OffsetCommitResponse(topics=[topic]), 1)
        assert answers.first_error(answer, answers.commit_error_places(spoken)) == 22
        return
    for partition_error, group_error in ((0, 0), (3, 0), (0, 16)):
        fetched = OffsetFetchResponsePartition(
            partition_index=0, committed_offset=42, metadata="", error_code=partition_error
        )
        answer = OffsetFetchResponse.framer(version)(
            OffsetFetchResponse(
                topics=[OffsetFetchResponseTopic(name="t", partitions=[fetched])],
                error_code=group_error,
            ),
            1,
        )
        seen = answers.first_error(answer, answers.fetch_error_places(spoken))
        assert seen == (partition_error or group_error)
        assert answers.fetched_offset(answer, spoken) == 42


@pytest.mark.parametrize("version", frames.FIND_COORDINATOR.wanted)
def test_reading_the_coordinator(version: int) -> None:
    found = FindCoordinatorResponseCoordinator(
        key="g", node_id=1, host="127.0.0.1", port=9092, error_code=0, error_message=None
    )
    response = FindCoordinatorResponse(coordinators=[found])
    if version < 4:
        response = FindCoordinatorResponse(
            error_code=0, error_message=None, node_id=1, host="127.0.0.1", port=9092
        )
    answer = FindCoordinatorResponse.framer(version)(response, 1)
    spoken = Spoken(frames.FIND_COORDINATOR, version)
    assert answers.read_find_coordinator(answer, spoken) == (0, "127.0.0.1", 9092)
