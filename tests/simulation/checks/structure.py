"""Invariants of the coordinator's own fields: counters, states, timers, memory against the log.

A client would notice most violations only much later.
"""

from collections.abc import Iterable
from typing import Any

from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.classic.group_record import restore
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.groups.classic.timers import TimerKind
from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.groups.replay import LoggedState
from coterie.coordinator.groups.service import GroupCoordinator
from coterie.coordinator.groups.shard import SWEEP_TIMER, GroupShard
from coterie.coordinator.kernel.response_parts import ResponsePart
from coterie.coordinator.kernel.shard_state import ShardState
from coterie.coordinator.kernel.timers import TimerKey
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    decode_value,
    encode_key,
    encode_value,
)
from tests.simulation.checks.violation import Violation, require
from tests.unit.coordinator.harness import logged_generations

# The rule that memory and log agree.
REPLAY = "[group-log/replay]"

# No group of a run has so many members.
_NO_LIMIT = 1_000


def classic_groups(groups: Iterable[GroupLike]) -> list[Group]:
    """Return those of some groups that are classic."""
    return [group for group in groups if isinstance(group, Group)]


def check_group(coordinator: GroupCoordinator, group: Group, now_ms: int) -> None:
    """Check the counters, the state and the timers of a group."""
    members = group.members
    _check_equal(group, "keys", [m.member_id for m in members.values()], list(members))
    delayed = sum(member.delayed_join is not None for member in members.values())
    _check_equal(group, "awaiting_joins", group.awaiting_joins, delayed)
    supported: dict[str, int] = {}
    for member in members.values():
        for name in {name for name, _ in member.protocols}:
            supported[name] = supported.get(name, 0) + 1
    _check_equal(group, "supported_protocols", group.supported_protocols, supported)
    instances = {
        member.group_instance_id: member.member_id
        for member in members.values()
        if member.group_instance_id is not None
    }
    _check_equal(group, "static_members", group.static_members, instances)
    require(
        not group.pending_joins & members.keys(),
        "counters",
        f"an id is pending and a member: {group}",
    )
    require(
        group.pending_syncs <= members.keys(), "counters", f"an awaited sync of no member: {group}"
    )
    require((group.leader is None) == (not members), "counters", f"leader {group}")
    require(group.leader is None or group.leader in members, "counters", f"leader {group}")
    # With a size limit, a phase that is complete may go on [joining/size-gate].
    _check_state(group, limited=coordinator.config.group_max_size < _NO_LIMIT)
    _check_timers(coordinator, group, now_ms)


def _check_equal(group: Group, name: str, actual: Any, counted: Any) -> None:
    if actual != counted:
        raise Violation("counters", f"{name} is {actual}, counted {counted}: {group}")


def _check_state(group: Group, *, limited: bool) -> None:
    members = group.members.values()
    state = group.state
    syncs = any(member.delayed_sync is not None for member in members)
    require(state is not GroupState.DEAD, "states", f"dead, but not removed: {group}")
    require(
        not syncs or state is GroupState.COMPLETING_REBALANCE,
        "states",
        f"a delayed sync in {group}",
    )
    if state is GroupState.EMPTY:
        require(not members and group.protocol_name is None, "states", f"not empty: {group}")
    elif state is GroupState.PREPARING_REBALANCE:
        require(not group.pending_syncs, "states", f"syncs are expected in {group}")
        initial = group.previous_state is GroupState.EMPTY
        complete = members and all(member.delayed_join is not None for member in members)
        require(
            initial or not complete or group.pending_joins or limited,
            "[joining/join-completion]",
            f"every member has joined, but the phase goes on: {group}",
        )
    else:
        common = all(
            any(name == group.protocol_name for name, _ in member.protocols) for member in members
        )
        require(
            members and common,
            "states",
            f"not every member supports {group.protocol_name}: {group}",
        )
        require(
            group.generation_id > 0 and all(not member.is_new for member in members),
            "states",
            f"a member does not know its generation: {group}",
        )
    if state is GroupState.COMPLETING_REBALANCE:
        require(not group.awaiting_joins, "states", f"a delayed join in {group}")


def _check_timers(coordinator: GroupCoordinator, group: Group, now_ms: int) -> None:
    purgatory = coordinator.purgatory
    group_id = group.group_id
    for member_id in group.pending_joins:
        deadline = purgatory.deadline_ms((TimerKind.PENDING, group_id, member_id))
        require(deadline is not None, "timers", f"no timer for pending {member_id}: {group}")
    for member in group.members.values():
        armed = purgatory.deadline_ms((TimerKind.SESSION, group_id, member.member_id))
        waits = member.delayed_join is not None or member.delayed_sync is not None
        require((armed or 0) == member.armed_ms, "timers", f"{member.member_id} in {group}")
        if armed is None:
            require(
                waits and not member.is_new, "timers", f"no timer for {member.member_id}: {group}"
            )
            continue
        # With a delayed request the entry may be later: the response restarts the session.
        in_time = waits or armed <= member.deadline_ms
        require(in_time, "timers", f"the timer of {member.member_id} is too late: {group}")
        require(armed >= now_ms, "timers", f"{member.member_id} is overdue: {group}")
    join = purgatory.deadline_ms((TimerKind.JOIN, group_id, ""))
    preparing = group.state is GroupState.PREPARING_REBALANCE
    require((join is not None) == preparing, "timers", f"join timer {join} in {group}")
    sync = purgatory.deadline_ms((TimerKind.SYNC, group_id, ""))
    require(
        (sync is not None) == bool(group.pending_syncs), "timers", f"sync timer {sync} in {group}"
    )
    for deadline in (join, sync):
        require(deadline is None or deadline >= now_ms, "timers", f"{group} is overdue: {deadline}")


def expected_timers(coordinator: GroupCoordinator) -> set[TimerKey]:
    """Return the keys of all timers that must be armed."""
    keys: set[TimerKey] = set()
    for shard in coordinator.shards:
        if shard.state is ShardState.ACTIVE:
            keys.add((SWEEP_TIMER, str(shard.partition), ""))
        for group in classic_groups(shard.groups.values()):
            group_id = group.group_id
            keys.update((TimerKind.PENDING, group_id, each) for each in group.pending_joins)
            keys.update(
                (TimerKind.SESSION, group_id, member.member_id)
                for member in group.members.values()
                if member.armed_ms
            )
            if group.state is GroupState.PREPARING_REBALANCE:
                keys.add((TimerKind.JOIN, group_id, ""))
            if group.pending_syncs:
                keys.add((TimerKind.SYNC, group_id, ""))
    return keys


def check_timers(coordinator: GroupCoordinator) -> None:
    """Check that exactly the expected timers are armed."""
    purgatory = coordinator.purgatory
    keys = expected_timers(coordinator)
    # Those that are due and were left to the next call are still delayed.
    armed = {*purgatory._wheel._entry_of, *purgatory._expired}
    if armed != keys:
        raise Violation("no-leaks", f"left over {armed - keys}, missing {keys - armed}")
    require(len(purgatory) == len(armed), "no-leaks", "wheel and purgatory differ")
    due = [purgatory.deadline_ms(key) for key in armed]
    next_ms = purgatory.next_deadline_ms()
    if due:
        earliest_ms = min(each for each in due if each is not None)
        require(
            next_ms is not None and next_ms <= earliest_ms,
            "timers",
            f"the next deadline is said to be {next_ms}, it is {earliest_ms}",
        )


def groups_of(shard: GroupShard) -> dict[str, Group]:
    """Return the groups of a partition by id."""
    return {group.group_id: group for group in classic_groups(shard.groups.values())}


def waiting(coordinator: GroupCoordinator) -> set[int]:
    """Return the reply addresses that the coordinator holds, each once."""
    addresses: list[Any] = []
    for shard in coordinator.shards:
        for group in classic_groups(shard.groups.values()):
            for member in group.members.values():
                addresses += [
                    to for to in (member.delayed_join, member.delayed_sync) if to is not None
                ]
        parts: set[Any] = set()
        for operation in shard.unacknowledged:
            if operation.response is None:
                continue
            to = operation.to
            if type(to) is ResponsePart:
                parts.add(to.response.to)
            elif to is not None:
                addresses.append(to)
        addresses += parts - set(addresses)
    return set(addresses)


def as_records(logged: LoggedState) -> dict[bytes, bytes]:
    """Return durable state as the records that lead to it."""
    records: dict[bytes, bytes] = {}
    for group_id, value in logged_generations(logged).items():
        records[encode_key(GroupMetadataKey(group=group_id))] = encode_value(value)
    for group_id, topics in logged.offsets.items():
        require(topics, REPLAY, f"{group_id} has an empty mapping")
        for topic, partitions in topics.items():
            require(partitions, REPLAY, f"{group_id} {topic} has an empty mapping")
            for index, offset in partitions.items():
                key = OffsetCommitKey(group=group_id, topic=topic, partition=index)
                records[encode_key(key)] = encode_value(offset)
    return records


def check_logged(shard: GroupShard, newest: dict[bytes, bytes]) -> None:
    """Check that memory is what the records of a partition add up to."""
    memory = as_records(shard.logged)
    if memory != newest:
        keys = sorted(k for k in memory.keys() | newest if memory.get(k) != newest.get(k))
        differences = [(key, memory.get(key), newest.get(key)) for key in keys]
        raise Violation(REPLAY, f"memory and log differ in {differences}")
    for group_id in logged_generations(shard.logged).keys() | shard.logged.offsets.keys():
        require(group_id in shard.groups, REPLAY, f"{group_id} is in the log, but not in memory")


def check_restorable(shard: GroupShard) -> None:
    """Check that a Stable or Empty group is what a restart would make of its record.

    What the partition has not acknowledged counts as written.
    """
    for group in classic_groups(shard.groups.values()):
        group_id = group.group_id
        if group.state not in (GroupState.STABLE, GroupState.EMPTY):
            continue
        value = logged_generations(shard.logged).get(group_id)
        if value is None:
            # A simple group has no record of its own [offsets/unknown-group-commit].
            simple = group.state is GroupState.EMPTY and not group.generation_id
            require(simple, REPLAY, f"not in the log: {group}")
            continue
        decoded = decode_value(GroupMetadataKey(group=group_id), encode_value(value))
        assert type(decoded) is GroupMetadataValue
        live, restored = durable_fields(group), durable_fields(restore(group_id, decoded))
        require(live == restored, REPLAY, f"live {live}, restored {restored}")


def durable_fields(group: Group) -> dict[str, Any]:
    """Return the fields of a group that survive a restart."""
    name = group.protocol_name
    return {
        "state": group.state,
        "since": group.state_timestamp_ms if group.state is GroupState.EMPTY else None,
        "generation": group.generation_id,
        "type": group.protocol_type,
        "protocol": name,
        "leader": group.leader,
        "members": [
            (
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(name) if name is not None else b"",
                member.assignment,
            )
            for member in group.members.values()
        ],
    }
