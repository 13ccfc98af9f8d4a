"""Responses about several groups, some of which wait for appends of their partition.

Rules: [administration/delete], [coordinator/durable-responses].
"""

from typing import Any

import pytest

from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.response_parts import MultiGroupResponse, ResponsePart
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.unit.coordinator.harness import UnitHarness, offsets_of

# Groups on partitions 0, 1, 2 of 3.
GROUPS = ("c", "a", "b")


@pytest.fixture
def harness() -> UnitHarness:
    """Return three partitions with one simple group each, all durable."""
    harness = UnitHarness(offsets_topic_num_partitions=3)
    for number, group_id in enumerate(GROUPS):
        assert harness.coordinator.partition_for(group_id) == number
        harness.commit(f"{group_id} commits", 1, group_id=group_id)
        harness.store(number)
    return harness


def describe(harness: UnitHarness, to: str, *group_ids: str) -> Any:
    return harness.send(DescribeGroupsRequest(groups=list(group_ids)), 5, to)


def delete(harness: UnitHarness, to: str, *group_ids: str) -> Any:
    return harness.send(DeleteGroupsRequest(groups_names=list(group_ids)), 2, to)


def test_answer_waits_for_its_last_group(harness: UnitHarness) -> None:
    harness.commit("c commits again", 2, group_id="c")
    harness.commit("b commits again", 2, group_id="b")
    assert describe(harness, "admin", *GROUPS) is None
    harness.store(2)
    assert "admin" not in harness.responses
    harness.store(0)
    assert [each.group_id for each in harness.responses["admin"].groups] == list(GROUPS)


def test_failed_group_does_not_affect_the_others(harness: UnitHarness) -> None:
    harness.commit("c commits again", 2, group_id="c")
    assert describe(harness, "admin", *GROUPS) is None
    harness.lose(partition=0)
    codes = [each.error_code for each in harness.responses["admin"].groups]
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE, ErrorCode.NONE]


def test_deletion_is_one_operation_per_group(harness: UnitHarness) -> None:
    assert delete(harness, "admin", "a", "b", "a", "unknown") is None
    assert [len(harness.pending_appends(partition)) for partition in range(3)] == [0, 1, 1]
    harness.store(1)
    assert "admin" not in harness.responses
    harness.lose(partition=2)
    results = harness.responses["admin"].results
    assert [(each.group_id, each.error_code) for each in results] == [
        ("a", ErrorCode.NONE),
        ("b", ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ("unknown", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert harness.coordinator.group("a") is None
    assert harness.fetch("reads", "b") == {("sales", 0): 1}


def test_two_groups_of_one_partition_are_deleted_separately() -> None:
    harness = UnitHarness()
    for group_id in "xy":
        harness.commit(f"{group_id} commits", 1, group_id=group_id)
    harness.store()
    assert delete(harness, "admin", "x", "y") is None
    harness.store(count=1)
    assert "admin" not in harness.responses
    harness.store()
    assert [each.error_code for each in harness.responses["admin"].results] == [0, 0]


def fetch_groups(harness: UnitHarness, to: str, *group_ids: str) -> Any:
    groups = [OffsetFetchRequestGroup(group_id=each, topics=None) for each in group_ids]
    return harness.send(OffsetFetchRequest(groups=groups), 8, to)


def test_offsets_of_several_groups_are_fetched(harness: UnitHarness) -> None:
    harness.commit("a commits again", 2, group_id="a")
    assert fetch_groups(harness, "reads", *GROUPS) is None
    harness.store(1)
    groups = harness.responses["reads"].groups
    assert [(each.group_id, offsets_of(each)) for each in groups] == [
        ("c", {("sales", 0): 1}),
        ("a", {("sales", 0): 2}),
        ("b", {("sales", 0): 1}),
    ]


def test_request_without_groups_has_an_empty_answer(harness: UnitHarness) -> None:
    assert describe(harness, "one").groups == []
    assert delete(harness, "two").results == []
    assert fetch_groups(harness, "three").groups == []


def test_delayed_group_is_refused_when_its_partition_is_unloaded(harness: UnitHarness) -> None:
    harness.commit("b commits again", 2, group_id="b")
    assert describe(harness, "admin", "c", "b") is None
    harness.take(harness.coordinator.unload(2, None, harness.now_ms))
    codes = [each.error_code for each in harness.responses["admin"].groups]
    assert codes == [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR]


def test_part_is_delivered_once() -> None:
    parts: list[Any] = [None]
    part = ResponsePart(MultiGroupResponse("to", "the message", parts), 0)
    effects: Effects[Any] = Effects()
    part.deliver("first", effects)
    assert [reply.message for reply in effects.replies] == ["the message"]
    with pytest.raises(AssertionError):
        part.deliver("second", effects)
