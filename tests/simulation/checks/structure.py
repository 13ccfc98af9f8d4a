"""What always holds inside: every counter is what a recount gives, every timer has its reason and
every reason its timer, memory is what the log says (I9, I10).

These checks look at the coordinator's own fields, so they find a slip long before a client would.
"""

from typing import Any

from coterie.coordinator.answers import Part
from coterie.coordinator.effects import TimerKey, TimerKind
from coterie.coordinator.group import Group, GroupState
from coterie.coordinator.group_record import restore
from coterie.coordinator.replay import LoggedState
from coterie.coordinator.service import GroupCoordinator
from coterie.coordinator.shard import Shard, ShardState
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    decode_value,
    encode_key,
    encode_value,
)
from tests.simulation.checks.violation import Violation, require

# A largest group size that no run reaches.
_MANY = 1_000


def check_group(coordinator: GroupCoordinator, group: Group, now_ms: int) -> None:
    """One group: its counters, its state, its timers."""
    members = group.members
    _equal(group, "keys", [m.member_id for m in members.values()], list(members))
    parked = sum(member.delayed_join is not None for member in members.values())
    _equal(group, "awaiting_joins", group.awaiting_joins, parked)
    offered: dict[str, int] = {}
    for member in members.values():
        for name in {name for name, _ in member.protocols}:
            offered[name] = offered.get(name, 0) + 1
    _equal(group, "supported_protocols", group.supported_protocols, offered)
    instances = {
        member.group_instance_id: member.member_id
        for member in members.values()
        if member.group_instance_id is not None
    }
    _equal(group, "static_members", group.static_members, instances)
    require(not group.pending_joins & members.keys(), "counters", f"pending and member: {group}")
    require(group.pending_syncs <= members.keys(), "counters", f"sync of no member: {group}")
    require((group.leader is None) == (not members), "counters", f"leader {group}")
    require(group.leader is None or group.leader in members, "counters", f"leader {group}")
    # A straggler of an oversize group is dropped without looking at the others (quirk 5).
    _check_state(group, oversize=coordinator.config.group_max_size < _MANY)
    _check_timers(coordinator, group, now_ms)


def _equal(group: Group, what: str, held: Any, counted: Any) -> None:
    if held != counted:
        raise Violation("counters", f"{what} is {held}, counted {counted}: {group}")


def _check_state(group: Group, *, oversize: bool) -> None:
    members = group.members.values()
    state = group.state
    syncs = any(member.delayed_sync is not None for member in members)
    require(state is not GroupState.DEAD, "states", f"dead, but not gone: {group}")
    require(
        not syncs or state is GroupState.COMPLETING_REBALANCE, "states", f"a sync waits in {group}"
    )
    if state is GroupState.EMPTY:
        require(not members and group.protocol_name is None, "states", f"not empty: {group}")
    elif state is GroupState.PREPARING_REBALANCE:
        require(not group.pending_syncs, "states", f"syncs are expected in {group}")
        initial = group.previous_state is GroupState.EMPTY
        complete = members and all(member.delayed_join is not None for member in members)
        require(
            initial or not complete or group.pending_joins or oversize,
            "S26",
            f"everybody is back, but it waits: {group}",
        )
    else:
        common = all(
            any(name == group.protocol_name for name, _ in member.protocols) for member in members
        )
        require(members and common, "states", f"{group.protocol_name} is not common: {group}")
        require(
            group.generation_id > 0 and all(not member.is_new for member in members),
            "states",
            f"a member was told no generation: {group}",
        )
    if state is GroupState.COMPLETING_REBALANCE:
        require(not group.awaiting_joins, "states", f"a join waits in {group}")


def _check_timers(coordinator: GroupCoordinator, group: Group, now_ms: int) -> None:
    purgatory = coordinator.purgatory
    group_id = group.group_id
    for member_id in group.pending_joins:
        deadline = purgatory.deadline_ms((TimerKind.PENDING, group_id, member_id))
        require(deadline is not None, "timers", f"nothing will drop pending {member_id}: {group}")
    for member in group.members.values():
        armed = purgatory.deadline_ms((TimerKind.SESSION, group_id, member.member_id))
        waits = member.delayed_join is not None or member.delayed_sync is not None
        require((armed or 0) == member.armed_ms, "timers", f"{member.member_id} in {group}")
        if armed is None:
            require(waits and not member.is_new, "timers", f"immortal {member.member_id}: {group}")
            continue
        # While it waits its entry may be later: answering it starts its session anew.
        early = waits or armed <= member.deadline_ms
        require(early, "timers", f"{member.member_id} lives too long: {group}")
        require(armed >= now_ms, "timers", f"{member.member_id} should be gone: {group}")
    join = purgatory.deadline_ms((TimerKind.JOIN, group_id, ""))
    preparing = group.state is GroupState.PREPARING_REBALANCE
    require((join is not None) == preparing, "timers", f"join timer {join} in {group}")
    sync = purgatory.deadline_ms((TimerKind.SYNC, group_id, ""))
    require(
        (sync is not None) == bool(group.pending_syncs), "timers", f"sync timer {sync} in {group}"
    )
    for deadline in (join, sync):
        require(deadline is None or deadline >= now_ms, "timers", f"{group} is late: {deadline}")


def expected_timers(coordinator: GroupCoordinator) -> set[TimerKey]:
    """Every timer there is a reason for."""
    keys: set[TimerKey] = set()
    for shard in coordinator.shards:
        if shard.state is ShardState.ACTIVE:
            keys.add((TimerKind.EXPIRY, str(shard.partition), ""))
        for group in shard.groups.values():
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
    """No timer is left over and none is missing; the purgatory has the keys of its wheel (I9)."""
    purgatory = coordinator.purgatory
    keys = expected_timers(coordinator)
    delayed = set(purgatory._wheel._slot_of)
    if delayed != keys:
        raise Violation("I9", f"left over {delayed - keys}, missing {keys - delayed}")
    require(len(purgatory) == len(delayed), "I9", "wheel and purgatory differ")
    due = [purgatory.deadline_ms(key) for key in delayed]
    following = purgatory.next_deadline_ms()
    if due:
        earliest = min(each for each in due if each is not None)
        require(
            following is not None and following <= earliest,
            "timers",
            f"asked to come back at {following}, {earliest} is due",
        )


def waiting(coordinator: GroupCoordinator) -> set[int]:
    """The reply addresses the coordinator holds; none of them twice."""
    found: list[int] = []
    for shard in coordinator.shards:
        for group in shard.groups.values():
            for member in group.members.values():
                found += [to for to in (member.delayed_join, member.delayed_sync) if to is not None]
        parts = set()
        for operation in shard.unacknowledged:
            if operation.delayed_answer is None:
                continue
            to = operation.to
            if type(to) is Part:
                parts.add(to.gather.to)
            elif to is not None:
                found.append(to)
        found += parts - set(found)
    return set(found)


def dump(logged: LoggedState) -> dict[bytes, bytes]:
    """Durable state as the records that would make it."""
    records: dict[bytes, bytes] = {}
    for group_id, value in logged.groups.items():
        records[encode_key(GroupMetadataKey(group=group_id))] = encode_value(value)
    for group_id, topics in logged.offsets.items():
        require(topics, "I10", f"an empty mapping is left of {group_id}")
        for topic, partitions in topics.items():
            require(partitions, "I10", f"an empty mapping is left of {group_id} {topic}")
            for index, offset in partitions.items():
                key = OffsetCommitKey(group=group_id, topic=topic, partition=index)
                records[encode_key(key)] = encode_value(offset)
    return records


def check_logged(shard: Shard, newest: dict[bytes, bytes]) -> None:
    """Memory is what the records of a partition add up to, and every id in it has a group (I10)."""
    held = dump(shard.logged)
    if held != newest:
        differing = {key for key in held.keys() | newest if held.get(key) != newest.get(key)}
        raise Violation(
            "I10",
            "memory and log differ in "
            f"{[(k, held.get(k), newest.get(k)) for k in sorted(differing)]}",
        )
    for group_id in shard.logged.groups.keys() | shard.logged.offsets.keys():
        require(group_id in shard.groups, "I10", f"{group_id} is in the log, but not alive")


def check_restorable(shard: Shard, behind: set[str]) -> None:
    """A Stable or Empty group is what a restart would make of its record.

    Args:
        shard: with nothing unacknowledged, or with all of it counted as written.
        behind: groups whose last change was not logged because its append failed.
    """
    for group_id, group in shard.groups.items():
        if group_id in behind or group.state not in (GroupState.STABLE, GroupState.EMPTY):
            continue
        value = shard.logged.groups.get(group_id)
        if value is None:
            # A group of commits only has no record of its own.
            simple = group.state is GroupState.EMPTY and not group.generation_id
            require(simple, "I10", f"not in the log: {group}")
            continue
        again = decode_value(GroupMetadataKey(group=group_id), encode_value(value))
        assert type(again) is GroupMetadataValue
        live, restored = look(group), look(restore(group_id, again))
        require(live == restored, "I10", f"live {live}, restored {restored}")


def look(group: Group) -> dict[str, Any]:
    """What of a group survives a restart."""
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
