"""One more type of groups takes a folder: toy groups beside classic ones, in one coordinator."""

from typing import Any

import pytest

from coterie.coordinator.groups.classic.group_type import ClassicType
from coterie.coordinator.groups.classic.timers import TimerKind
from coterie.coordinator.groups.group_type import GroupTypes
from coterie.coordinator.groups.service import GroupCoordinator
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode
from tests.unit.coordinator.harness import SALES, UnitHarness
from tests.unit.coordinator.toy.toy_groups import SESSION_MS, Meet, ToyGroup, ToyType, meet

TYPES = GroupTypes((ClassicType(), ToyType()))


class ToyHarness(UnitHarness):
    """A coordinator that serves toy groups too."""

    def new_coordinator(self) -> GroupCoordinator:
        return GroupCoordinator(self.config, self.new_id, self.now_ms, types=TYPES)

    def meet(self, member_id: str, group_id: str = "g") -> Any:
        """Meet; return the response if there is one yet."""
        self.responses.pop(member_id, None)
        context = RequestContext(self.client, 0, member_id)
        request = Meet(group_id, member_id)
        effects = self.coordinator.run(meet, ErrorCode.NONE, self.now_ms, request, context)
        return self.take(effects, member_id)

    def toy(self) -> ToyGroup:
        group = self.coordinator.group("g")
        assert isinstance(group, ToyGroup)
        return group


def test_response_waits_for_the_records_and_the_completion_follows() -> None:
    harness = ToyHarness()
    assert harness.meet("a") is None
    assert (harness.toy().epoch, harness.toy().durable_epoch) == (1, 0)
    harness.store()
    assert (harness.responses["a"], harness.toy().durable_epoch) == (1, 1)


def test_group_is_restored_from_its_records_with_its_timers() -> None:
    harness = ToyHarness()
    for member_id in ("a", "b"):
        harness.meet(member_id)
    harness.store()
    harness.restart()
    assert (harness.toy().epoch, harness.toy().members) == (2, {"a", "b"})
    harness.wait(SESSION_MS)
    harness.store()
    assert (harness.toy().epoch, harness.toy().members) == (4, set())


def test_timer_writes_and_the_sweep_removes_the_empty_group() -> None:
    harness = ToyHarness(offsets_retention_check_interval_ms=20_000)
    harness.meet("a")
    harness.store()
    harness.wait(SESSION_MS)
    harness.store()
    assert harness.toy().state_name == "Empty"
    harness.wait(20_000)
    harness.store()
    assert harness.coordinator.group("g") is None
    harness.restart()
    assert harness.coordinator.group("g") is None


def test_classic_request_is_answered_by_the_type_of_the_group() -> None:
    harness = ToyHarness()
    harness.meet("a")
    harness.store()
    assert harness.join("j").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize("loses", [False, True])
def test_upgrade_replaces_a_classic_group_while_its_operation_is_in_flight(loses: bool) -> None:
    """The leader's assignment is being written; its completion does not reach the new group."""
    harness = ToyHarness()
    harness.commit("commit", 5)
    harness.join("leader")
    harness.fire_due_timers()
    harness.store()
    joined = harness.responses["leader"]
    harness.sync("sync", joined.member_id, 1, {joined.member_id: SALES})
    assert harness.pending_appends(), "the assignment is in flight"
    assert harness.meet("a") is None
    # The parked sync is answered by the upgrade, and by nothing else later.
    assert harness.responses["sync"].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.toy().members == {"a"}
    if loses:
        harness.lose()
        assert harness.responses["a"] == -ErrorCode.COORDINATOR_NOT_AVAILABLE
        harness.restart()
        group = harness.coordinator.group("g")
        assert group is None or group.group_type == "classic"
        return
    harness.store()
    assert (harness.responses["a"], harness.toy().durable_epoch) == (1, 1)
    assert harness.fetch("fetch") == {("sales", 0): 5}
    # The timers of the classic member are gone, and the log has only the toy group.
    harness.restart()
    assert harness.toy().members == {"a"}
    assert len(harness.coordinator.purgatory) == 2, "the sweep and one session"


def test_result_from_elsewhere_is_an_operation_without_request_and_timer() -> None:
    harness = ToyHarness()
    harness.meet("a")
    harness.store()
    group = harness.toy()

    def result(shard: Any, now_ms: int) -> Effects[Any]:
        if shard.groups.get("g") is not group:
            return Effects()
        return meet(shard, now_ms, Meet("g", "b"), RequestContext(harness.client, 0, None))

    harness.carry_out(harness.coordinator.operate("g", result, harness.now_ms))
    harness.store()
    assert (group.durable_epoch, group.members) == (2, {"a", "b"})
    harness.coordinator.unload(0, None, harness.now_ms)
    assert harness.coordinator.operate("g", result, harness.now_ms).quiet


def test_timer_of_a_replaced_group_does_nothing() -> None:
    harness = ToyHarness()
    harness.meet("a")
    harness.store()
    key = (TimerKind.JOIN, "g", "")
    assert harness.coordinator.shards[0].timer_fired(key, harness.now_ms).quiet
