"""What a StreamsGroupHeartbeat is refused for, in Kafka's order and with its texts.

[streams-groups/order-of-checks]
"""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.streams_group_heartbeat import StreamsHeartbeatTaskOffset
from tests.unit.coordinator.streams.harness import (
    StreamsHarness,
    internal_topic,
    subtopology,
    tasks,
    told,
    topology,
)

_INVALID = ErrorCode.INVALID_REQUEST
_OFFSETS = [StreamsHeartbeatTaskOffset(subtopology_id="0", partition=0, offset=1)]


def _with_regex() -> Any:
    found = subtopology("0", "in")
    found.source_topic_regex = ["in.*"]
    return topology(found)


def _with_counted_changelog() -> Any:
    found = subtopology("0", "in")
    found.state_changelog_topics = [internal_topic("x", 3)]
    return topology(found)


# Each fails the check of its row and the one of the next row of those that can fail together.
FIELDS: tuple[tuple[int, dict[str, Any], ErrorCode, str | None], ...] = (
    (0, {"instance_id": "i", "task_offsets": []}, _INVALID,
     "Static membership is not yet supported."),
    (0, {"task_offsets": _OFFSETS, "task_end_offsets": []}, _INVALID,
     "TaskOffsets are not supported yet."),
    (3, {"task_end_offsets": []}, _INVALID, "TaskEndOffsets are not supported yet."),
    (3, {"warmup_tasks": tasks(0)}, _INVALID, "WarmupTasks are not supported yet."),
    (0, {"topology": _with_regex(), "member_id": ""}, _INVALID,
     "Regular expressions for source topics are not supported yet."),
    (0, {"member_id": " ", "group_id": ""}, _INVALID, "MemberId can't be empty."),
    (0, {"group_id": "\t", "rack_id": ""}, _INVALID, "GroupId can't be empty."),
    (0, {"rack_id": " ", "rebalance_timeout_ms": -1}, _INVALID, "RackId can't be empty."),
    (0, {"rebalance_timeout_ms": -1, "active_tasks": None}, _INVALID,
     "RebalanceTimeoutMs must be provided in first request."),
    (0, {"active_tasks": tasks(0), "standby_tasks": None}, _INVALID,
     "ActiveTasks must be empty when (re-)joining."),
    (0, {"active_tasks": None}, _INVALID, "ActiveTasks must be empty when (re-)joining."),
    (0, {"standby_tasks": tasks(0)}, _INVALID, "StandbyTasks must be empty when (re-)joining."),
    (0, {"warmup_tasks": None, "topology": None}, _INVALID,
     "WarmupTasks must be empty when (re-)joining."),
    (0, {"topology": None}, _INVALID, "Topology must be non-null when (re-)joining."),
    (0, {"topology": _with_counted_changelog()}, ErrorCode.STREAMS_INVALID_TOPOLOGY,
     "Changelog topic x must have an undefined partition count, but it is set to 3."),
    (-2, {}, _INVALID, "InstanceId can't be null."),
    (-3, {"active_tasks": []}, _INVALID,
     "MemberEpoch is -3, but must be greater than or equal to -2."),
    (3, {"active_tasks": [], "topology": topology()}, _INVALID,
     "If one task-type is non-null, all must be non-null."),
    (3, {"topology": topology()}, _INVALID, "Topology can only be provided when (re-)joining."),
    (0, {"topology": topology(epoch=-1)}, ErrorCode.UNKNOWN_SERVER_ERROR, None),
    (3, {}, ErrorCode.GROUP_ID_NOT_FOUND, "Streams group g not found."),
    (-1, {}, ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found."),
)  # fmt: skip


@pytest.mark.parametrize(("epoch", "fields", "error", "text"), FIELDS)
def test_request_is_refused(
    epoch: int, fields: dict[str, Any], error: ErrorCode, text: str | None
) -> None:
    harness = StreamsHarness()
    answer = harness.stream("m1", epoch, **fields)
    assert answer.error_code == error
    assert answer.error_message == text
    assert (answer.member_id, answer.member_epoch, answer.heartbeat_interval_ms) == ("", 0, 0)
    assert (answer.status, told(answer)) == ([], None)
    assert harness.coordinator.group("g") is None
    assert harness.written == []


def test_topology_that_no_topics_make_valid_is_refused() -> None:
    harness = StreamsHarness()
    reads_what_nobody_writes = topology(subtopology("0", "in", repartition=["r"]))
    answer = harness.stream("m1", 0, topology=reads_what_nobody_writes)
    assert answer.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY
    assert answer.error_message
    assert harness.coordinator.group("g") is None


def test_long_member_id_is_accepted() -> None:
    harness = StreamsHarness()
    assert not harness.stream("m" * 500, 0).error_code


def test_full_group_refuses_each_join_also_of_a_member() -> None:
    """[streams-groups/member-epochs]"""
    harness = StreamsHarness(max_size=2)
    harness.stream("m1", 0)
    harness.stream("m2", 0)
    for member_id in ("m3", "m1"):
        answer = harness.stream(member_id, 0)
        assert answer.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        text = "The streams group has reached its maximum capacity of 2 members."
        assert answer.error_message == text
    assert not harness.stream("m1", 2).error_code


def test_somebody_who_is_no_member_is_told_so() -> None:
    harness = StreamsHarness()
    harness.stream("m1", 0)
    for epoch in (3, -1):
        answer = harness.stream("m9", epoch)
        assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert answer.error_message == "Member m9 is not a member of group g."


def test_epoch_before_needs_tasks_that_are_assigned() -> None:
    """[streams-groups/member-epochs]"""
    harness = StreamsHarness()
    harness.stream("m1", 0)
    harness.stream("m2", 0)
    harness.stream("m1", 2)
    assert harness.stream("m1", 2, tasks(0)).member_epoch == 3
    text = (
        "The streams group member has a {} member epoch ({}) than the one known by the group"
        " coordinator (3). The member must abandon all its partitions and rejoin."
    )
    for epoch, listed, size in (
        (4, None, "greater"),
        (2, None, "smaller"),
        (2, tasks(0, 1), "smaller"),
        (2, tasks(0, subtopology="1"), "smaller"),
        (1, tasks(0), "smaller"),
    ):
        answer = harness.stream("m1", epoch, listed)
        assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH, epoch
        assert answer.error_message == text.format(size, epoch)
    assert harness.stream("m1", 2, tasks(0)).member_epoch == 3
    assert harness.stream("m1", 2, []).member_epoch == 3


def test_reported_tasks_must_exist_once_the_topology_is_ready() -> None:
    harness = StreamsHarness({})
    harness.stream("m1", 0)
    assert not harness.stream("m1", 2, tasks(7)).error_code
    harness.create_topic("in", 3)
    for listed, text in (
        (tasks(5), "Task 5 for subtopology 0 is invalid. Number of tasks for this subtopology: 3"),
        (
            tasks(-1),
            "Task -1 for subtopology 0 is invalid. Number of tasks for this subtopology: 3",
        ),
        (tasks(0, subtopology="7"), "Subtopology 7 does not exist in the topology."),
    ):
        answer = harness.stream("m1", 2, listed)
        assert (answer.error_code, answer.error_message) == (_INVALID, text)
    assert harness.streams_group.epoch == 2
    assert harness.streams_group.unlogged == 0
    # What was refused is not lost: the topics are still others than before.
    assert harness.stream("m1", 2).member_epoch == 3


def test_other_topology_is_refused_and_an_older_one_is_told() -> None:
    """[streams-groups/topology]"""
    harness = StreamsHarness({"in": 2, "other": 2})
    harness.stream("m1", 0, topology=topology(epoch=5))
    for other in (topology(epoch=6), topology(subtopology("0", "other"), epoch=5)):
        answer = harness.stream("m2", 0, topology=other)
        text = "Topology updates are not supported yet."
        assert (answer.error_code, answer.error_message) == (_INVALID, text)
    assert list(harness.streams_group.members) == ["m1"]
    answer = harness.stream("m2", 0, topology=topology(subtopology("0", "other"), epoch=4))
    (status,) = answer.status
    text = "The member's topology epoch 4 is behind the group's topology epoch 5."
    assert (status.status_code, status.status_detail) == (0, text)
    assert harness.stream("m1", 2).status == []


def test_order_of_subtopologies_does_not_matter() -> None:
    harness = StreamsHarness({"in": 2, "other": 2})
    parts = [subtopology("0", "in"), subtopology("1", "other")]
    harness.stream("m1", 0, topology=topology(*parts))
    assert not harness.stream("m2", 0, topology=topology(*parts[::-1])).error_code
