"""Bugs planted into what is written of groups, read again and timed, for the simulation to find.

A text is replaced where one assignment or one condition of several is wrong: neither an argument
nor a call stands for it.
"""

from typing import Any

from coterie.coordinator.groups.classic.heartbeat import RESPONSES
from coterie.protocol.errors import ErrorCode
from tests.faults import Function, answers, calling, does_nothing, keeps, where
from tests.planting import Plant

_CLASSIC = "coterie.coordinator.groups.classic."


def _without_assignments(restore: Function) -> Function:
    """Restore a group whose members have no assignments."""

    def run(*record: Any) -> Any:
        group = restore(*record)
        for member in group.members.values():
            member.assignment = b""
        return group

    return run


def _without_its_leader(restore: Function) -> Function:
    """Restore a group that its first member leads."""

    def run(*record: Any) -> Any:
        group = restore(*record)
        group.leader = next(iter(group.members), None)
        return group

    return run


LOG_PLANTS: tuple[Plant, ...] = (
    # -- the log -----------------------------------------------------------------------------------
    Plant(
        "a reply leaves before its records are durable",
        "coterie.coordinator.kernel.shard:Shard.settle",
        "operation.response, effects.response = effects.response, None",
        "pass",
    ),
    Plant(
        "a read does not wait for earlier appends",
        "coterie.coordinator.kernel.shard:Shard.settle",
        "elif effects.response is None or not self.unacknowledged or self.holds:",
        "elif True:",
    ),
    Plant(
        "delayed requests are not answered when an append fails",
        "coterie.coordinator.groups.shard:GroupShard.forget",
        fault=calling(f"{_CLASSIC}group_type:ClassicType.close", does_nothing),
    ),
    Plant(
        "the groups of the partition stay when an append fails",
        "coterie.coordinator.kernel.shard:Shard.append_failed",
        fault=keeps("self.logged"),
    ),
    Plant(
        "the requests that wait for a failed append are not answered",
        "coterie.coordinator.kernel.shard:Shard._discard",
        fault=calling("coterie.coordinator.kernel.shard:send_response", does_nothing),
    ),
    Plant(
        "a tombstone does not remove an offset",
        "coterie.coordinator.groups.replay:_remove_offset",
        fault=does_nothing,
    ),
    Plant(
        "a newer offset does not replace an older one",
        "coterie.coordinator.groups.replay:replay",
        "partitions[key.partition] = value",
        "partitions.setdefault(key.partition, value)",
    ),
    Plant(
        "a restart loses the assignments",
        f"{_CLASSIC}group_record:restore",
        fault=_without_assignments,
    ),
    Plant(
        "a restart loses the leader",
        f"{_CLASSIC}group_record:restore",
        fault=_without_its_leader,
    ),
    Plant(
        "members of a loaded group have no session timer",
        f"{_CLASSIC}group_type:ClassicType.loaded",
        fault=does_nothing,
    ),
    Plant(
        "heartbeats are refused while loading",
        "coterie.coordinator.groups.service:GroupCoordinator.heartbeat",
        fault=where(
            HEARTBEAT_RESPONSES=RESPONSES
            | {ErrorCode.NONE: RESPONSES[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]}
        ),
    ),
    Plant(
        "the sweep timer is not armed again",
        "coterie.coordinator.groups.shard:GroupShard._arm_sweep",
        fault=does_nothing,
    ),
    # -- timers ------------------------------------------------------------------------------------
    Plant(
        "a cancelled timer stays in the wheel",
        "coterie.coordinator.kernel.timer_wheel:TimingWheel.cancel",
        fault=answers(value=True),
    ),
    Plant(
        "a timer beyond the range of a level is lost",
        "coterie.coordinator.kernel.timer_wheel:TimingWheel._slot_for",
        "if slot_ms < level.current_ms + level.interval_ms:",
        "if slot_ms < level.current_ms + 3 * level.interval_ms:",
    ),
    Plant(
        "timers of coarse levels fire one tick late",
        "coterie.coordinator.kernel.timer_wheel:TimingWheel._slot_for",
        "number = slot_ms // level.tick_ms",
        "number = slot_ms // level.tick_ms + (level.tick_ms > TICK_MS)",
    ),
)
