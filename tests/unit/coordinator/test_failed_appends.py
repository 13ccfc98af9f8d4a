"""What is left when appends fail, in the orders that a log can fail in.

Memory goes back to what the log says, and nobody who waits is forgotten; the simulation found most
of these.
"""

import pytest

from coterie.coordinator.group import GroupState
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.unit.coordinator.desk import Desk

MAPPED = ErrorCode.COORDINATOR_NOT_AVAILABLE


def delete(desk: Desk, to: str) -> None:
    desk.send(DeleteGroupsRequest(groups_names=["g"]), 2, to)


def test_whoever_joined_a_group_that_is_undone_is_told() -> None:
    desk = Desk()
    desk.join("c1")
    desk.join("c2")
    desk.lose()
    assert desk.coordinator.group("g") is None
    assert [desk.answers[name].error_code for name in ("c1", "c2")] == [MAPPED, MAPPED]
    assert len(desk.coordinator.purgatory) == 1  # the sweep


def test_whoever_joined_a_group_of_commits_that_is_undone_is_told() -> None:
    desk = Desk()
    desk.commit("committer", 5)
    desk.join("c1")
    desk.lose()
    assert desk.coordinator.group("g") is None
    assert desk.answers["c1"].error_code == MAPPED
    assert desk.answers["committer"].topics[0].partitions[0].error_code == MAPPED
    assert len(desk.coordinator.purgatory) == 1


@pytest.mark.parametrize("first_is_durable", [True, False])
def test_a_group_that_was_deleted_and_made_again_is_the_first_one_after_a_failure(
    first_is_durable: bool,
) -> None:
    desk = Desk(group_initial_rebalance_delay_ms=3_000)
    desk.join("a", version=9)
    if first_is_durable:
        desk.store()
    first = desk.group()
    delete(desk, "admin")
    desk.join("c1")
    assert desk.group() is not first
    desk.lose()
    assert desk.answers["c1"].error_code == MAPPED
    assert desk.answers["admin"].results[0].error_code == MAPPED
    assert desk.coordinator.group("g") is (first if first_is_durable else None)
    assert len(desk.coordinator.purgatory) == 1


def test_ids_handed_out_go_with_a_deleted_group_and_stay_away_when_it_comes_back() -> None:
    desk = Desk()
    desk.join("a", version=9)
    desk.store()
    assert desk.group().pending_joins
    delete(desk, "admin")
    assert len(desk.coordinator.purgatory) == 1
    desk.lose()
    assert not desk.group().pending_joins
    assert desk.join("a again", desk.id_of("a"), version=9).error_code == (
        ErrorCode.UNKNOWN_MEMBER_ID
    )


def test_an_assignment_of_an_earlier_group_does_not_reach_the_later_one() -> None:
    """All in one batch of a slow log: a group syncs, empties, is deleted, and forms again with the
    same generation.
    """
    desk = Desk()
    desk.join("c1")
    desk.store()
    desk.wait(0)
    desk.sync("c1 syncs", desk.id_of("c1"), 1, {desk.id_of("c1"): b"old"})
    desk.leave("c1 leaves", desk.id_of("c1"))
    delete(desk, "admin")
    desk.join("c2")
    desk.wait(0)
    assert desk.group().generation_id == 1
    desk.sync("c2 syncs", desk.id_of("c2"), 1, {desk.id_of("c2"): b"new"})
    desk.store(count=1)
    assert desk.group().state is GroupState.COMPLETING_REBALANCE
    desk.store()
    assert desk.answers["c2 syncs"].assignment == b"new"


def test_two_restarts_of_an_instance_are_undone_newest_first() -> None:
    desk = Desk()
    generation_id = desk.stable("c1", instances={"c1": "i1"})
    original = desk.id_of("c1")
    desk.join("second", instance="i1")
    desk.join("third", instance="i1")
    assert desk.answers["second"].error_code == ErrorCode.FENCED_INSTANCE_ID
    desk.lose()
    assert (desk.answers["third"].error_code, desk.answers["third"].member_id) == (MAPPED, "")
    assert desk.heartbeat(original, generation_id, "i1") == ErrorCode.NONE
    assert desk.group().leader == original


def test_a_restarted_instance_that_has_not_synced_is_still_waited_for_after_a_failure() -> None:
    desk = Desk()
    for name, instance in (("c1", None), ("c2", "i2")):
        desk.join(name, instance=instance)
    desk.store()
    desk.wait(0)
    c1, c2 = desk.id_of("c1"), desk.id_of("c2")
    desk.sync("c1 syncs", c1, 1, {c1: b"", c2: b""})
    desk.store()
    assert desk.group().pending_syncs == {c2}
    desk.join("c2 again", instance="i2")
    desk.lose()
    assert desk.group().pending_syncs == {c2}


def test_a_restart_that_was_answered_in_the_next_generation_stays() -> None:
    """Its record fails after a rebalance has told the new id: taking it back would fence a living
    process.
    """
    desk = Desk()
    desk.stable("c1", "c2", instances={"c2": "i2"})
    desk.join("c2 again", instance="i2")
    desk.join("c1 again", desk.id_of("c1"))
    new_id = desk.id_of("c2 again")
    assert desk.answers["c2 again"].generation_id == 2
    desk.lose()
    assert desk.heartbeat(new_id, 2, "i2") == ErrorCode.NONE


def test_a_leader_that_asks_twice_waits_for_its_first_assignment() -> None:
    desk = Desk()
    desk.join("c1")
    desk.store()
    desk.wait(0)
    c1 = desk.id_of("c1")
    desk.sync("first", c1, 1, {c1: b"one"})
    desk.sync("second", c1, 1, {c1: b"two"})
    assert len(desk.pending_appends()) == 1
    desk.store()
    assert desk.answers["second"].assignment == b"one"
    assert "first" not in desk.answers
    desk.restart()
    assert desk.sync("after", c1, 1).assignment == b"one"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.INVALID_FETCH_SIZE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.CORRUPT_MESSAGE, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_errors_of_the_log_are_translated(error: ErrorCode, told: ErrorCode) -> None:
    desk = Desk()
    desk.stable("c1")
    desk.commit("commits", 7, member_id=desk.id_of("c1"), generation_id=1)
    desk.fetch("reads")
    desk.lose(error)
    assert desk.answers["commits"].topics[0].partitions[0].error_code == told
    # Old clients take COORDINATOR_NOT_AVAILABLE in an OffsetFetch for fatal.
    fetched = ErrorCode.NOT_COORDINATOR if told == MAPPED else told
    assert desk.answers["reads"].error_code == fetched
    assert desk.fetch("reads again") == {}


def test_only_what_was_not_acknowledged_is_taken_back() -> None:
    desk = Desk()
    desk.commit("one", 1, partitions=(0, 1))
    desk.commit("two", 2, partitions=(1, 2))
    desk.store(count=1)
    assert desk.fetch("reads") is None  # behind the second
    desk.lose()
    assert desk.fetch("reads again") == {("sales", 0): 1, ("sales", 1): 1}
    assert desk.answers["one"].topics[0].partitions[0].error_code == ErrorCode.NONE
