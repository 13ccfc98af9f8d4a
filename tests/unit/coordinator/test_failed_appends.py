"""Failed appends: the partition is loaded again, and every delayed request is answered.

Rules: [coordinator/failed-append], [coordinator/live-groups],
[static-membership/stable-replacement].
"""

import pytest

from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.kernel.shard_state import ShardState
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.unit.coordinator.harness import UnitHarness

TRANSLATED = ErrorCode.COORDINATOR_NOT_AVAILABLE


def delete(harness: UnitHarness, to: str) -> None:
    harness.send(DeleteGroupsRequest(groups_names=["g"]), 2, to)


def test_delayed_joins_of_a_failed_group_are_answered() -> None:
    harness = UnitHarness()
    harness.join("c1")
    harness.join("c2")
    harness.lose()
    assert harness.coordinator.group("g") is None
    assert [harness.responses[name].error_code for name in ("c1", "c2")] == [TRANSLATED, TRANSLATED]
    assert len(harness.coordinator.purgatory) == 1  # the sweep


def test_delayed_joins_of_a_failed_simple_group_are_answered() -> None:
    harness = UnitHarness()
    harness.commit("committer", 5)
    harness.join("c1")
    harness.lose()
    assert harness.coordinator.group("g") is None
    assert harness.responses["c1"].error_code == TRANSLATED
    assert harness.responses["committer"].topics[0].partitions[0].error_code == TRANSLATED
    assert len(harness.coordinator.purgatory) == 1


@pytest.mark.parametrize("first_is_durable", [True, False])
def test_failed_deletion_brings_the_first_group_back_and_closes_the_second(
    first_is_durable: bool,
) -> None:
    harness = UnitHarness(group_initial_rebalance_delay_ms=3_000)
    harness.join("a", version=9)
    if first_is_durable:
        harness.store()
    delete(harness, "admin")
    harness.join("c1")
    harness.lose()
    assert harness.responses["c1"].error_code == TRANSLATED
    assert harness.responses["admin"].results[0].error_code == TRANSLATED
    assert (harness.coordinator.group("g") is not None) is first_is_durable
    assert len(harness.coordinator.purgatory) == 1


def test_pending_members_do_not_return_with_a_group_whose_deletion_failed() -> None:
    harness = UnitHarness()
    harness.join("a", version=9)
    harness.store()
    assert harness.group().pending_joins
    delete(harness, "admin")
    assert len(harness.coordinator.purgatory) == 1
    harness.lose()
    assert not harness.group().pending_joins
    assert harness.join("a again", harness.id_of("a"), version=9).error_code == (
        ErrorCode.UNKNOWN_MEMBER_ID
    )


def test_assignment_of_a_deleted_group_does_not_reach_its_successor() -> None:
    """While appends are pending a group syncs, empties, is deleted and forms again.

    Its new generation has the same number.
    """
    harness = UnitHarness()
    harness.join("c1")
    harness.store()
    harness.wait(0)
    harness.sync("c1 syncs", harness.id_of("c1"), 1, {harness.id_of("c1"): b"old"})
    harness.leave("c1 leaves", harness.id_of("c1"))
    delete(harness, "admin")
    harness.join("c2")
    harness.wait(0)
    assert harness.group().generation_id == 1
    harness.sync("c2 syncs", harness.id_of("c2"), 1, {harness.id_of("c2"): b"new"})
    harness.store(count=1)
    assert harness.group().state is GroupState.COMPLETING_REBALANCE
    harness.store()
    assert harness.responses["c2 syncs"].assignment == b"new"


def test_lost_replacements_leave_the_member_that_the_log_has() -> None:
    harness = UnitHarness()
    generation_id = harness.stable("c1", instances={"c1": "i1"})
    original = harness.id_of("c1")
    harness.join("second", instance="i1")
    harness.join("third", instance="i1")
    assert harness.responses["second"].error_code == ErrorCode.FENCED_INSTANCE_ID
    harness.lose()
    assert harness.responses["third"].error_code == TRANSLATED
    assert harness.heartbeat(original, generation_id, "i1") == ErrorCode.NONE
    assert harness.group().leader == original


def test_lost_assignment_returns_the_group_to_the_generation_before() -> None:
    harness = UnitHarness()
    harness.stable("c1", "c2")
    c1, c2 = harness.id_of("c1"), harness.id_of("c2")
    harness.join("c1 again", c1, protocols=(("range", b"other"),))
    harness.join("c2 again", c2)
    harness.sync("c2 syncs", c2, 2)
    harness.sync("c1 syncs", c1, 2, {c1: b"one", c2: b"two"})
    harness.lose()
    for name in ("c1 syncs", "c2 syncs"):
        assert harness.responses[name].error_code == TRANSLATED
    assert (harness.group().state, harness.group().generation_id) == (GroupState.STABLE, 1)
    assert harness.heartbeat(c1, 2) == ErrorCode.ILLEGAL_GENERATION
    assert harness.heartbeat(c2, 1) == ErrorCode.NONE


def test_delayed_requests_of_other_groups_look_for_their_coordinator() -> None:
    harness = UnitHarness()
    harness.stable("c2", "c3")
    harness.join("c2 again", harness.id_of("c2"), protocols=(("range", b"other"),))
    harness.commit("commits", 7, group_id="h")
    harness.lose()
    assert harness.responses["commits"].topics[0].partitions[0].error_code == TRANSLATED
    assert harness.responses["c2 again"].error_code == ErrorCode.NOT_COORDINATOR
    assert harness.group().state is GroupState.STABLE
    assert harness.heartbeat(harness.id_of("c2"), 1) == ErrorCode.NONE


def test_partition_refuses_requests_until_it_is_loaded_again() -> None:
    harness = UnitHarness()
    harness.commit("commits", 7)
    harness.store()
    shard = harness.coordinator.shards[0]
    harness.take(
        harness.coordinator.append_failed(0, ErrorCode.KAFKA_STORAGE_ERROR, harness.now_ms)
    )
    assert shard.state is ShardState.LOADING
    harness.commit("refused", 8)
    code = harness.responses["refused"].topics[0].partitions[0].error_code
    assert code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    epoch = shard.epoch
    for key, value in harness.logs[0].durable:
        harness.coordinator.replay(0, key, value)
    harness.finish_load(0)
    assert (shard.state, shard.epoch) == (ShardState.ACTIVE, epoch)
    assert harness.fetch("reads") == {("sales", 0): 7}


def test_leader_that_syncs_twice_waits_for_its_first_assignment() -> None:
    harness = UnitHarness()
    harness.join("c1")
    harness.store()
    harness.wait(0)
    c1 = harness.id_of("c1")
    harness.sync("first", c1, 1, {c1: b"one"})
    harness.sync("second", c1, 1, {c1: b"two"})
    assert len(harness.pending_appends()) == 1
    harness.store()
    assert harness.responses["second"].assignment == b"one"
    assert "first" not in harness.responses
    harness.restart()
    assert harness.sync("after", c1, 1).assignment == b"one"


def test_acknowledged_appends_are_not_lost() -> None:
    harness = UnitHarness()
    harness.commit("one", 1, partitions=(0, 1))
    harness.commit("two", 2, partitions=(1, 2))
    harness.store(count=1)
    assert harness.fetch("reads") is None  # it waits for the second commit
    harness.lose()
    assert harness.fetch("reads again") == {("sales", 0): 1, ("sales", 1): 1}
    assert harness.responses["one"].topics[0].partitions[0].error_code == ErrorCode.NONE
