"""Planted bugs about the records of consumer groups, which crashes of their stories must find.

A text is replaced where one of two equal calls is left out, or one assignment of several.
"""

from collections.abc import Iterable
from typing import Any

from coterie.coordinator.kernel.append import Pair
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from tests.faults import Fault, Function, Of, calling, does_nothing, given, without
from tests.planting import Plant

_CONSUMER = "coterie.coordinator.groups.consumer."
_SET = "coterie.coordinator.groups.tentative_step:TentativeStep.set"
_SERVER = "coterie.server.coordinators."


def _in_memory(_: Function) -> Function:
    """Apply a record to the group, and do not write it."""
    return lambda step, key, value, _=None: step.group.apply(key, value)


def _removed_in_memory(_: Function) -> Function:
    """Apply tombstones to the group, and do not write them."""

    def remove(step: Any, keys: Iterable[Any]) -> None:
        for key in keys:
            step.group.apply(key, None)

    return remove


def acknowledges_at_once(kind: str) -> Fault:
    """Return the fault of an acknowledgement that does not wait for the sync of one kind of log."""

    def fault(acknowledge: Function) -> Function:
        def run(appends: Any, written: list[Any], now_ms: int) -> None:
            if appends._kind == kind:
                appends._appended([(each.index, each.written) for each in written], now_ms)
            else:
                acknowledge(appends, written, now_ms)

        return run

    return fault


def _record_by_record(write: Function) -> Function:
    """Write each record of a batch as a batch of its own."""

    def run(
        appends: Any, ownership: Any, index: int, pairs: list[Pair], form: Any, now_ms: int
    ) -> None:
        for each in pairs:
            write(appends, ownership, index, [each], form, now_ms)

    return run


PLANTS = (
    Plant(
        "an epoch is told before its record is synced",
        f"{_SERVER}appends:Appends._acknowledge",
        fault=acknowledges_at_once("group"),
        kinds=("power:members:commit",),
    ),
    Plant(
        "a heartbeat is answered before its records are written",
        "coterie.coordinator.kernel.shard:Shard.settle",
        "operation.response, effects.response = effects.response, None",
        "operation.response = None",
        ("death:members:never",),
    ),
    Plant(
        "the records of one operation are several batches",
        f"{_SERVER}appends:Appends._write_partition",
        fault=calling(f"{_SERVER}appends:Appends._write_batch", _record_by_record),
        kinds=("death:members:never",),
    ),
    Plant(
        "the epoch of a group rises in memory only",
        "coterie.coordinator.groups.recorded.epochs:write_epoch",
        fault=calling(_SET, _in_memory, ConsumerGroupMetadataKey),
        kinds=("death:members:commit",),
    ),
    Plant(
        "what a member owns is in memory only",
        f"{_CONSUMER}members:reconcile_member",
        fault=calling(_SET, _in_memory),
        kinds=("death:members:commit",),
    ),
    Plant(
        "a departed member keeps its records",
        f"{_CONSUMER}members:remove_members",
        fault=calling(
            "coterie.coordinator.groups.tentative_step:TentativeStep.remove", _removed_in_memory
        ),
        kinds=("death:members:commit",),
    ),
    Plant(
        "the target of a static successor is in memory only",
        f"{_CONSUMER}static_member:replace_member",
        fault=calling(_SET, _in_memory, ConsumerGroupTargetAssignmentMemberKey),
        kinds=("death:members:commit",),
    ),
    Plant(
        "the previous epoch of a member is not loaded",
        f"{_CONSUMER}records:current_value",
        fault=given(previous_epoch=Of("epoch")),
        kinds=("death:members:commit",),
    ),
    Plant(
        "a group without members is not loaded",
        "coterie.coordinator.groups.recorded.group:RecordedGroup.is_blank",
        fault=given({"self.metadata": None, "self.target_metadata": None}),
        kinds=("death:members:commit",),
    ),
    Plant(
        "a deleted group leaves its epoch",
        "coterie.coordinator.groups.recorded.group:RecordedGroup.keys",
        fault=without(ConsumerGroupMetadataKey),
        kinds=("death:members:commit",),
    ),
    Plant(
        "what a regular expression matches is in memory only",
        f"{_CONSUMER}regexes:resolve_some",
        fault=calling(_SET, _in_memory, ConsumerGroupRegularExpressionKey),
        kinds=("death:topics:commit",),
    ),
    Plant(
        "the partitions that a member gives up are free after a load",
        f"{_CONSUMER}group_state:ConsumerGroupState.replace_current",
        "self._occupy(member.pending, member)",
        "pass",
        ("death:members:commit",),
    ),
    Plant(
        "an upgrade leaves the record of the classic group",
        f"{_CONSUMER}upgrade:upgrade",
        fault=calling("coterie.coordinator.groups.step:GroupStep.write", does_nothing),
        kinds=("death:migration:commit",),
    ),
    Plant(
        "a downgrade leaves the target epoch",
        "coterie.coordinator.groups.recorded.group:RecordedGroup.keys",
        fault=without(ConsumerGroupTargetAssignmentMetadataKey),
        kinds=("death:migration:commit",),
    ),
    Plant(
        "a downgraded group begins anew",
        f"{_CONSUMER}downgrade:downgrade",
        fault=given(generation=1),
        kinds=("death:migration:commit",),
    ),
    Plant(
        "an upgraded group begins anew",
        f"{_CONSUMER}upgrade:upgrade",
        fault=given({"before.generation_id": 1}),
        kinds=("death:migration:commit",),
    ),
)
