"""Mistakes of our own code are noticed where they are made, not when a client is answered wrongly.

Each of these calls is one that no right code makes.
"""

import pytest

from coterie.coordinator.groups.batch_size import split_into_batches
from coterie.coordinator.groups.classic.group_record import new_group_record
from coterie.coordinator.groups.classic.members import Removal, remove_member, start_session
from coterie.coordinator.groups.classic.rebalance import complete_join, fail_syncs
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.groups.classic.step import Step
from coterie.coordinator.groups.replay import LoggedState
from coterie.coordinator.kernel.append import Append
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.operation import Operation
from coterie.coordinator.kernel.response_parts import MultiGroupResponse, ResponsePart
from coterie.coordinator.kernel.shard_state import ShardState
from coterie.coordinator.transactions.operations import logging, removal
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.log_records import OffsetCommitKey, OffsetCommitValue
from tests.unit.coordinator.harness import UnitHarness
from tests.unit.transactions.coordinated import FOO, TID, Coordinated

NO_EFFECTS: Effects[None] = Effects()


def step_of(harness: UnitHarness) -> Step:
    return Step(harness.coordinator.shards[0], harness.group(), harness.now_ms, Effects())


# -- the kernel ------------------------------------------------------------------------------------


def test_an_append_writes_something() -> None:
    with pytest.raises(AssertionError, match="records or a marker"):
        Append(0, [])


def test_a_marker_is_in_a_control_batch() -> None:
    with pytest.raises(AssertionError, match="header of a control batch"):
        Append(0, [], marker=(b"key", b"value"))


def test_effects_of_an_operation_that_is_not_settled_do_not_leave() -> None:
    unsettled: Effects[None] = Effects()
    unsettled.operation = Operation("g", [])
    with pytest.raises(AssertionError, match="settled before its effects leave"):
        UnitHarness().coordinator.applied(unsettled)
    with pytest.raises(AssertionError, match="settled before its effects are added"):
        Effects().absorb(unsettled)


def test_a_part_of_a_response_is_delivered_once() -> None:
    parts = [None, None]
    part = ResponsePart(MultiGroupResponse("to", "message", parts), 0)
    part.deliver("one", NO_EFFECTS)
    with pytest.raises(AssertionError, match="a place takes one part"):
        part.deliver("another", NO_EFFECTS)
    assert parts == ["one", None]


def test_a_delayed_response_has_an_address() -> None:
    with pytest.raises(AssertionError, match="has an address"):
        Effects().reply(None, "message")


def test_a_mistake_after_a_write_stays_in_its_group() -> None:
    harness = UnitHarness()
    shard = harness.coordinator.shards[0]
    harness.commit("one", 7)
    harness.commit("other", 8)
    shard.unacknowledged[0].completion = "of no group"
    effects = harness.coordinator.appended([(0, 2)], harness.now_ms)
    assert [reply.to for reply in effects.replies] == ["one", "other"]
    assert len(effects.mistakes) == 1
    assert shard.unacknowledged == []


def test_a_partition_is_not_given_up_and_served() -> None:
    harness = UnitHarness()
    shard = harness.coordinator.shards[0]
    with pytest.raises(AssertionError, match="partition 0 is given up and"):
        shard.unload(harness.now_ms, Effects(), ShardState.ACTIVE)


def test_a_failed_append_has_an_error() -> None:
    harness = UnitHarness()
    harness.commit("commits", 7)
    with pytest.raises(AssertionError, match="an append that fails has an error"):
        harness.lose(ErrorCode.NONE)


def test_no_partition_has_a_negative_number() -> None:
    harness = UnitHarness()
    with pytest.raises(AssertionError, match="name another partition"):
        harness.coordinator.fail(-1, harness.now_ms)
    assert harness.coordinator.shards[-1].state is ShardState.ACTIVE


# -- groups ----------------------------------------------------------------------------------------


def test_a_group_is_not_removed_with_offsets() -> None:
    harness = UnitHarness()
    harness.commit("commits", 7)
    harness.store()
    operation = Operation("g", list(harness.group().tombstones()))
    operation.removes = harness.group()
    with pytest.raises(AssertionError, match="is removed with offsets"):
        harness.coordinator.shards[0].write(operation, harness.now_ms)


def test_an_operation_creates_the_group_of_its_key() -> None:
    harness = UnitHarness()
    shard = harness.coordinator.shards[0]
    key = OffsetCommitKey(group="h", topic="sales", partition=0)
    operation = Operation("h", [(key, None)])
    operation.creates = shard.new_group("g", harness.now_ms)
    with pytest.raises(AssertionError, match="is not of the operation"):
        shard.write(operation, harness.now_ms)


def test_groups_are_added_to_a_partition_that_is_served() -> None:
    harness = UnitHarness()
    shard = harness.coordinator.shards[0]
    harness.carry_out(harness.coordinator.unload(0, None, harness.now_ms))
    with pytest.raises(AssertionError, match="partition 0 is ShardState"):
        shard.add_group(shard.new_group("g", harness.now_ms))


def test_an_offset_is_not_lost_with_its_topic() -> None:
    state = LoggedState({})
    value = OffsetCommitValue.of(7, -1, "", 0, -1, bytes(16))
    state.add_topic("g", "sales")[0] = value
    with pytest.raises(AssertionError, match="g has offsets of sales"):
        state.remove_topic("g", "sales")
    with pytest.raises(AssertionError, match="g has offsets of sales"):
        state.add_topic("g", "sales")


def test_the_creation_of_a_group_is_not_split() -> None:
    harness = UnitHarness()
    operation = Operation("g", [])
    operation.creates = harness.coordinator.shards[0].new_group("g", harness.now_ms)
    with pytest.raises(AssertionError, match="created with all of its records"):
        list(split_into_batches(operation))


# -- classic groups --------------------------------------------------------------------------------


def test_only_a_join_phase_is_completed() -> None:
    harness = UnitHarness()
    harness.stable("c1")
    with pytest.raises(AssertionError, match="is not in a join phase"):
        complete_join(step_of(harness))
    assert harness.group().generation_id == 1


def test_only_a_group_that_waits_for_its_assignment_fails_syncs() -> None:
    harness = UnitHarness()
    harness.stable("c1")
    with pytest.raises(AssertionError, match="has no delayed syncs"):
        fail_syncs(step_of(harness), ErrorCode.REBALANCE_IN_PROGRESS)


def test_a_member_is_removed_once() -> None:
    harness = UnitHarness()
    harness.stable("c1", "c2")
    step = step_of(harness)
    member = step.group.members[harness.id_of("c2")]
    remove_member(step, member, Removal.LEAVE)
    with pytest.raises(AssertionError, match="is not in Group"):
        remove_member(step, member, Removal.LEAVE)
    with pytest.raises(AssertionError, match="only a member has a session"):
        start_session(step, member, 10_000)


def test_a_join_of_a_process_that_is_no_member_is_not_delayed() -> None:
    harness = UnitHarness()
    harness.stable("c1", "c2")
    group = harness.group()
    member = group.remove(harness.id_of("c2"))
    with pytest.raises(AssertionError, match="is not in Group"):
        group.delay_join(member, "to", harness.now_ms)
    assert group.awaiting_joins == 0


def test_a_group_of_a_later_generation_is_not_logged_as_new() -> None:
    harness = UnitHarness()
    harness.stable("c1")
    with pytest.raises(AssertionError, match="is not new"):
        new_group_record(harness.group())


def test_a_group_is_not_given_up_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    harness = UnitHarness()
    harness.stable("c1")
    group = harness.group()
    monkeypatch.setattr(type(group), "transition", lambda *_: None)
    with pytest.raises(AssertionError, match="is closed and exists"):
        harness.coordinator.unload(0, None, harness.now_ms)
    assert group.state is GroupState.STABLE


# -- transactions ----------------------------------------------------------------------------------


def test_a_decided_transaction_takes_no_partitions() -> None:
    coordinated = Coordinated()
    _, producer_id, epoch = coordinated.init()
    coordinated.use(producer_id, epoch, FOO)
    coordinated.writes_markers = False
    coordinated.end(producer_id, epoch)
    with pytest.raises(AssertionError, match="is decided"):
        coordinated.transaction().add([("bar", 1)], 0, coordinated.now_ms)
    assert list(coordinated.transaction().partitions) == [FOO]


def test_an_id_that_is_in_use_is_not_forgotten() -> None:
    coordinated = Coordinated()
    coordinated.init()
    with pytest.raises(AssertionError, match="is in use"):
        removal(coordinated.transaction())


def test_an_epoch_follows_the_one_before_it() -> None:
    coordinated = Coordinated()
    _, _, epoch = coordinated.init()
    with pytest.raises(AssertionError, match="is not the epoch of"):
        coordinated.transaction().raise_epoch(last_epoch=epoch + 1)
    assert coordinated.transaction().epoch == epoch


def test_an_id_is_created_once() -> None:
    coordinated = Coordinated()
    coordinated.init()
    transaction = coordinated.transaction()
    operation = logging(transaction)
    operation.creates = transaction
    with pytest.raises(AssertionError, match=f"{TID} exists"):
        coordinated.shard.apply(operation, coordinated.now_ms, Effects())
