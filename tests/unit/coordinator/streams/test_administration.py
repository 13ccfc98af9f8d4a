"""What administrators and committing members see of streams groups, and other types' requests."""

from typing import Any

from coterie.coordinator.groups.classic.group import Group
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from coterie.protocol.messages.list_groups import ListGroupsRequest
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from coterie.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsHeartbeatEndpoint,
    StreamsHeartbeatKeyValue,
)
from tests.unit.coordinator.consumer.harness import topic_id
from tests.unit.coordinator.streams.harness import (
    STATEFUL,
    StreamsHarness,
    subtopology,
    tasks,
    topology,
)

_NOT_STREAMS = "Group g is not a streams group."


def _describe(harness: StreamsHarness, *group_ids: str, operations: bool = False) -> list[Any]:
    request = StreamsGroupDescribeRequest(
        group_ids=list(group_ids), include_authorized_operations=operations
    )
    groups: list[Any] = harness.send(request, 0, "describe").groups
    return groups


def _listed(harness: StreamsHarness, *states: str, kind: str = "") -> list[tuple[str, str, str]]:
    request = ListGroupsRequest(states_filter=list(states), types_filter=[kind] if kind else [])
    found = harness.send(request, 5, "list").groups
    return [(each.group_state, each.group_type, each.protocol_type) for each in found]


def _commit(
    harness: StreamsHarness,
    member_id: str,
    epoch: int,
    *partitions: int,
    topic: str = "in",
    version: int = 9,
) -> ErrorCode:
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=topic_id(topic),
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=5, committed_metadata=None
                    )
                    for index in partitions or (0,)
                ],
            )
        ],
    )
    answer = harness.send(request, version, "commit")
    codes = {each.error_code for each in answer.topics[0].partitions}
    (code,) = codes
    return ErrorCode(code)


# -- describe and list -----------------------------------------------------------------------------


def test_description_has_epochs_topology_and_members() -> None:
    """[streams-groups/describe]"""
    harness = StreamsHarness({"in": 2}, delay_ms=3_000)
    harness.stream(
        "m1",
        0,
        topology=STATEFUL,
        user_endpoint=StreamsHeartbeatEndpoint(host="h", port=1),
        client_tags=[StreamsHeartbeatKeyValue(key="zone", value="z1")],
    )
    (group,) = _describe(harness, "g")
    assert (group.group_state, group.group_epoch, group.assignment_epoch) == ("NotReady", 2, 1)
    (part,) = group.topology.subtopologies
    assert (part.subtopology_id, part.source_topics) == ("0", ["in"])
    # As declared: the partitions are not known yet.
    assert [(each.name, each.partitions) for each in part.state_changelog_topics] == [("store", 0)]
    harness.create_topic("store", 2)
    harness.wait(3_000)
    harness.stream("m1", 1)
    harness.wait(1_000)
    harness.stream("m1", harness.streams_group.members["m1"].epoch)
    (group,) = _describe(harness, "g", operations=True)
    assert (group.group_state, group.authorized_operations) == ("Stable", 3400)
    (part,) = group.topology.subtopologies
    assert [(each.name, each.partitions) for each in part.state_changelog_topics] == [("store", 2)]
    (member,) = group.members
    assert (member.member_id, member.process_id, member.topology_epoch) == ("m1", "p1", 0)
    assert (member.user_endpoint.host, member.client_tags[0].value) == ("h", "z1")
    assert (member.task_offsets, member.task_end_offsets, member.is_classic) == ([], [], False)
    for assignment in (member.assignment, member.target_assignment):
        found = [(each.subtopology_id, each.partitions) for each in assignment.active_tasks]
        assert found == [("0", [0, 1])]
        assert assignment.standby_tasks == assignment.warmup_tasks == []


def test_groups_that_cannot_be_described() -> None:
    harness = StreamsHarness()
    harness.commit("c", 5, group_id="classic")
    found = _describe(harness, "none", "", "classic")
    assert [(each.group_id, each.error_code, each.error_message) for each in found] == [
        ("", ErrorCode.INVALID_GROUP_ID, None),
        ("none", ErrorCode.GROUP_ID_NOT_FOUND, "Group none not found."),
        ("classic", ErrorCode.GROUP_ID_NOT_FOUND, "Group classic is not a streams group."),
    ]
    assert all(each.topology is None and each.members == [] for each in found)


def test_groups_are_listed_by_type_and_state() -> None:
    """[streams-groups/group-states]"""
    harness = StreamsHarness({})
    harness.stream("m1", 0)
    here = [("NotReady", "streams", "streams")]
    assert _listed(harness, kind="Streams") == here
    assert _listed(harness, "not_ready") == _listed(harness, "Not_Ready") == here
    assert _listed(harness, "NotReady") == _listed(harness, kind="share") == []
    harness.create_topic("in", 1)
    harness.stream("m1", 2)
    assert _listed(harness, "stable") == [("Stable", "streams", "streams")]
    harness.stream("m2", 0)
    assert _listed(harness, "reconciling") == [("Reconciling", "streams", "streams")]
    harness.stream("m1", -1)
    assert _listed(harness, "assigning") == [("Assigning", "streams", "streams")]
    harness.stream("m2", -1)
    assert _listed(harness, "empty") == [("Empty", "streams", "streams")]


# -- other protocols -------------------------------------------------------------------------------


def test_requests_of_other_types_are_refused() -> None:
    """[streams-groups/other-types]"""
    harness = StreamsHarness()
    harness.stream("m1", 0)
    assert harness.join("c1").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.heartbeat("m1", 2) == ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.sync("s", "m1", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    left = LeaveGroupRequest(group_id="g", members=[LeaveGroupRequestMember(member_id="m1")])
    assert harness.send(left, 4, "leave").members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    described = harness.send(DescribeGroupsRequest(groups=["g"]), 6, "describe").groups[0]
    assert (described.group_state, described.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert described.error_message == "Group g is not a classic group."
    consumer = harness.beat("m9", 0, subscribed_topic_names=["in"])
    share = harness.send(
        ShareGroupHeartbeatRequest(
            group_id="g", member_id="m9", member_epoch=0, subscribed_topic_names=["in"]
        ),
        1,
        "share",
    )
    for answer, kind in ((consumer, "consumer"), (share, "share")):
        assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert answer.error_message == f"Group g is not a {kind} group."
    assert list(harness.streams_group.members) == ["m1"]


def test_group_of_another_type_is_refused() -> None:
    harness = StreamsHarness()
    harness.send(
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m1",
            member_epoch=0,
            rebalance_timeout_ms=1,
            subscribed_topic_names=["in"],
            topic_partitions=[],
        ),
        1,
        "consumer",
    )
    for epoch in (0, 3, -1):
        answer = harness.stream("m1", epoch)
        assert (answer.error_code, answer.error_message) == (
            ErrorCode.GROUP_ID_NOT_FOUND,
            _NOT_STREAMS,
        )


def test_empty_classic_group_is_converted_and_keeps_its_offsets() -> None:
    harness = StreamsHarness()
    harness.stable("c1")
    assert harness.stream("m1", 0).error_message == _NOT_STREAMS
    harness.leave("c2", harness.id_of("c1"))
    harness.commit("c3", 7, topic="in")
    assert isinstance(harness.coordinator.group("g"), Group)
    for epoch in (3, -1):
        assert harness.stream("m1", epoch).error_message == _NOT_STREAMS
    harness.record_types()
    assert harness.stream("m1", 0).member_epoch == 2
    assert harness.record_types() == [["2-", "19", "23", "17", "21", "20", "22"]]
    assert harness.fetch("f") == {("in", 0): 7}
    harness.restart()
    assert list(harness.streams_group.members) == ["m1"]


# -- offsets ---------------------------------------------------------------------------------------


def test_commit_needs_the_epoch_of_the_member() -> None:
    """[streams-groups/offsets]"""
    harness = StreamsHarness()
    harness.stream("m1", 0)
    assert _commit(harness, "m1", 2) is ErrorCode.NONE
    assert _commit(harness, "m1", 2, version=8) is ErrorCode.UNSUPPORTED_VERSION
    assert _commit(harness, "m1", 3) is ErrorCode.STALE_MEMBER_EPOCH
    assert _commit(harness, "m9", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert _commit(harness, "", -1) is ErrorCode.UNKNOWN_MEMBER_ID
    harness.stream("m1", -1)
    assert _commit(harness, "", -1) is ErrorCode.NONE


def test_late_commit_is_accepted_for_tasks_that_the_member_had_then() -> None:
    harness = StreamsHarness({"in": 3, "other": 2})
    both = topology(subtopology("0", "in"), subtopology("1", "other"))
    harness.stream("m1", 0, topology=both)
    harness.create_topic("in", 4)
    harness.stream("m1", 2)
    assert harness.streams_group.members["m1"].assigned.active["0"] == {0: 2, 1: 2, 2: 2, 3: 3}
    assert _commit(harness, "m1", 2, 0, 2) is ErrorCode.NONE
    assert _commit(harness, "m1", 2, 1, topic="other") is ErrorCode.NONE
    # One partition that it did not have then refuses all.
    assert _commit(harness, "m1", 2, 0, 3) is ErrorCode.STALE_MEMBER_EPOCH
    assert _commit(harness, "m1", 1, 0) is ErrorCode.STALE_MEMBER_EPOCH
    assert _commit(harness, "m1", 2, 0, topic="elsewhere") is ErrorCode.STALE_MEMBER_EPOCH


def test_late_commit_is_accepted_for_tasks_that_are_to_be_given_up() -> None:
    harness = StreamsHarness()
    harness.stream("m1", 0)
    harness.stream("m2", 0)
    harness.stream("m1", 2)
    assert _commit(harness, "m1", 2, 1) is ErrorCode.NONE


def test_offsets_are_fetched_by_members_and_by_others() -> None:
    harness = StreamsHarness()
    harness.stream("m1", 0)
    _commit(harness, "m1", 2)

    def fetch(member_id: str | None, epoch: int) -> ErrorCode:
        group = OffsetFetchRequestGroup(
            group_id="g", member_id=member_id, member_epoch=epoch, topics=None
        )
        answer = harness.send(OffsetFetchRequest(groups=[group]), 9, "fetch")
        return ErrorCode(answer.groups[0].error_code)

    assert fetch(None, -1) is ErrorCode.NONE
    assert fetch("m1", 2) is ErrorCode.NONE
    assert fetch("m1", 1) is ErrorCode.STALE_MEMBER_EPOCH
    assert fetch("m9", 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_offsets_of_topics_that_are_read_cannot_be_deleted() -> None:
    harness = StreamsHarness()
    harness.stream("m1", 0)
    _commit(harness, "m1", 2)
    _commit(harness, "m1", 2, topic="unread")
    request = OffsetDeleteRequest(
        group_id="g",
        topics=[
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
            )
            for name in ("in", "unread")
        ],
    )

    def delete() -> list[int]:
        answer = harness.send(request, 0, "delete offsets")
        return [each.partitions[0].error_code for each in answer.topics]

    assert delete() == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    harness.stream("m1", -1)
    assert delete() == [ErrorCode.NONE, ErrorCode.NONE]


# -- the end ---------------------------------------------------------------------------------------


def test_group_with_members_is_not_deleted() -> None:
    """[streams-groups/delete]"""
    harness = StreamsHarness()
    harness.stream("m1", 0)
    _commit(harness, "m1", 2)
    assert harness.send_deletion("g") is ErrorCode.NON_EMPTY_GROUP
    harness.stream("m1", -1)
    harness.record_types()
    assert harness.send_deletion("g") is ErrorCode.NONE
    assert harness.record_types() == [["1-", "20-", "17-", "23-"]]
    assert harness.coordinator.group("g") is None
    assert harness.in_memory() == harness.in_the_log() == {}


def test_empty_group_without_offsets_is_removed_by_the_sweep() -> None:
    harness = StreamsHarness()
    harness.stream("m1", 0)
    harness.stream("m1", -1)
    harness.record_types()
    harness.wait(600_000)
    assert harness.record_types() == [["20-", "17-", "23-"]]
    assert harness.coordinator.group("g") is None


def test_offsets_of_a_group_with_members_do_not_expire() -> None:
    harness = StreamsHarness()
    harness.stream("m1", 0)
    _commit(harness, "m1", 2)
    group = harness.streams_group
    logged = harness.coordinator.shards[0].logged.offsets["g"]["in"][0]
    assert group.expiry_base_ms("in", logged) is None
    assert group.expiry_base_ms("unread", logged) == logged.commit_timestamp
    harness.stream("m1", -1)
    assert group.expiry_base_ms("in", logged) == logged.commit_timestamp


def test_partition_that_is_given_up_leaves_no_timer() -> None:
    harness = StreamsHarness(delay_ms=3_000)
    harness.stream("m1", 0)
    group = harness.streams_group
    harness.take(harness.coordinator.unload(0, 5, harness.now_ms))
    assert (group.exists, group.state_name, group.delay_ends_ms) == (False, "Dead", 0)
    assert harness.coordinator.next_deadline_ms() is None
    assert harness.stream("m1", 1).error_code == ErrorCode.NOT_COORDINATOR
    assert harness.stream("m1", 1).status == []
    assert _describe(harness, "g")[0].error_code == ErrorCode.NOT_COORDINATOR


def test_people_see_the_partitions_that_tasks_read() -> None:
    harness = StreamsHarness({"in": 2, "other": 1})
    harness.stream("m1", 0, topology=topology(subtopology("0", "in", "other")))
    (seen,) = harness.streams_group.seen_members()
    assert (seen.member_id, seen.session_timeout_ms) == ("m1", 45_000)
    assert b"in" in seen.assignment
    assert b"other" in seen.assignment
    assert seen.metadata is not None
    assert harness.stream("m1", 2, tasks(0, 1)).error_code == ErrorCode.NONE
