"""Answers put together from several partitions, some of which hold their part back."""

from typing import Any

import pytest

from coterie.coordinator.answers import AnswerPart, MultiGroupAnswer
from coterie.coordinator.effects import Effects
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest
from coterie.protocol.messages.list_groups import ListGroupsRequest
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from tests.unit.coordinator.desk import Desk, offsets_of

# Groups on partitions 0, 1, 2 of 3.
GROUPS = ("c", "a", "b")


@pytest.fixture
def desk() -> Desk:
    """Three partitions with one group of commits each, all durable."""
    desk = Desk(offsets_topic_num_partitions=3)
    for number, group_id in enumerate(GROUPS):
        assert desk.coordinator.partition_for(group_id) == number
        desk.commit(f"{group_id} commits", 1, group_id=group_id)
        desk.store(number)
    return desk


def describe(desk: Desk, to: str, *group_ids: str) -> Any:
    return desk.send(DescribeGroupsRequest(groups=list(group_ids)), 5, to)


def delete(desk: Desk, to: str, *group_ids: str) -> Any:
    return desk.send(DeleteGroupsRequest(groups_names=list(group_ids)), 2, to)


def test_the_parts_stand_in_the_order_of_the_request(desk: Desk) -> None:
    answer = describe(desk, "admin", "b", "nobody", "c", "b")
    assert [each.group_id for each in answer.groups] == ["b", "nobody", "c", "b"]
    assert [each.group_state for each in answer.groups] == ["Empty", "Dead", "Empty", "Empty"]


def test_an_answer_waits_for_its_last_part(desk: Desk) -> None:
    desk.commit("c commits again", 2, group_id="c")
    desk.commit("b commits again", 2, group_id="b")
    assert describe(desk, "admin", *GROUPS) is None
    desk.store(2)
    assert "admin" not in desk.answers
    desk.store(0)
    assert [each.group_id for each in desk.answers["admin"].groups] == list(GROUPS)


def test_a_part_that_fails_does_not_spoil_the_others(desk: Desk) -> None:
    desk.commit("c commits again", 2, group_id="c")
    assert describe(desk, "admin", *GROUPS) is None
    desk.lose(partition=0)
    codes = [each.error_code for each in desk.answers["admin"].groups]
    assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE, ErrorCode.NONE]


def test_deleting_is_one_operation_a_group(desk: Desk) -> None:
    assert delete(desk, "admin", "a", "b", "a", "nobody") is None
    assert [len(desk.pending_appends(partition)) for partition in range(3)] == [0, 1, 1]
    desk.store(1)
    assert "admin" not in desk.answers
    desk.lose(partition=2)
    results = desk.answers["admin"].results
    assert [(each.group_id, each.error_code) for each in results] == [
        ("a", ErrorCode.NONE),
        ("b", ErrorCode.COORDINATOR_NOT_AVAILABLE),
        ("nobody", ErrorCode.GROUP_ID_NOT_FOUND),
    ]
    assert desk.coordinator.group("a") is None
    assert desk.fetch("reads", "b") == {("sales", 0): 1}


def test_two_groups_of_one_partition_in_one_request() -> None:
    desk = Desk()
    for group_id in "xy":
        desk.commit(f"{group_id} commits", 1, group_id=group_id)
    desk.store()
    assert delete(desk, "admin", "x", "y") is None
    desk.store(count=1)
    assert "admin" not in desk.answers
    desk.store()
    assert [each.error_code for each in desk.answers["admin"].results] == [0, 0]


def fetch_many(desk: Desk, to: str, *group_ids: str) -> Any:
    groups = [OffsetFetchRequestGroup(group_id=each, topics=None) for each in group_ids]
    return desk.send(OffsetFetchRequest(groups=groups), 8, to)


def test_offsets_of_several_groups(desk: Desk) -> None:
    desk.commit("a commits again", 2, group_id="a")
    assert fetch_many(desk, "reads", *GROUPS) is None
    desk.store(1)
    groups = desk.answers["reads"].groups
    assert [(each.group_id, offsets_of(each)) for each in groups] == [
        ("c", {("sales", 0): 1}),
        ("a", {("sales", 0): 2}),
        ("b", {("sales", 0): 1}),
    ]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_offsets_of_few_groups_while_their_partitions_are_away(desk: Desk, count: int) -> None:
    for partition in range(3):
        desk.take(desk.coordinator.unload(partition, None, desk.now_ms))
    groups = fetch_many(desk, "reads", *GROUPS[:count]).groups
    assert [each.error_code for each in groups] == [ErrorCode.NOT_COORDINATOR] * count


def test_nothing_asked_nothing_answered(desk: Desk) -> None:
    assert describe(desk, "one").groups == []
    assert delete(desk, "two").results == []
    assert fetch_many(desk, "three").groups == []


def test_partitions_that_are_away_or_loading(desk: Desk) -> None:
    desk.take(desk.coordinator.unload(0, None, desk.now_ms))
    desk.take(desk.coordinator.unload(1, None, desk.now_ms))
    desk.coordinator.begin_load(1, 1)
    codes = [each.error_code for each in describe(desk, "one", *GROUPS).groups]
    assert codes == [
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NONE,
    ]
    codes = [each.error_code for each in delete(desk, "two", "c", "a").results]
    assert codes == [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    # A partition that is away has no groups to list; of one that loads nobody knows (S128).
    listed = desk.send(ListGroupsRequest(), 4, "three")
    assert (listed.error_code, listed.groups) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    desk.take(desk.coordinator.finish_load(1, desk.now_ms))
    listed = desk.send(ListGroupsRequest(), 4, "four")
    assert [each.group_id for each in listed.groups] == ["b"]


def test_a_held_part_of_a_partition_that_is_given_up(desk: Desk) -> None:
    desk.commit("b commits again", 2, group_id="b")
    assert describe(desk, "admin", "c", "b") is None
    desk.take(desk.coordinator.unload(2, None, desk.now_ms))
    codes = [each.error_code for each in desk.answers["admin"].groups]
    assert codes == [ErrorCode.NONE, ErrorCode.NOT_COORDINATOR]


def test_a_part_is_filled_once() -> None:
    items: list[Any] = [None]
    part = AnswerPart(MultiGroupAnswer("to", "the message", items), 0)
    effects = Effects()
    part.deliver("first", effects)
    assert [reply.message for reply in effects.replies] == ["the message"]
    with pytest.raises(AssertionError):
        part.deliver("second", effects)
