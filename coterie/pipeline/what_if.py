"""Replay a group's recorded history under another assignor [pipeline/what-if].

The same members join, leave and rejoin at the same times; only the assignment is computed again,
from the partitions that each member would have had. The times are estimates, because the members
behaved as the real assignor made them. The assumptions are in `ASSUMPTIONS` and part of every
result.

The functions are pure. Times are epoch milliseconds or durations in milliseconds.
"""

from collections.abc import Mapping
from typing import NamedTuple

from coterie.assignors.by_name import ASSIGNORS
from coterie.assignors.machine_room import assign_by_config, assign_by_machine_room, assign_nearby
from coterie.assignors.model import Assignment, MemberSubscription, TopicPartition
from coterie.pipeline.timeline.holdings import fewest_moves, moved_partitions
from coterie.pipeline.timeline.model import (
    CONSUMER,
    SHARE,
    STREAMS,
    Generation,
    GroupHistory,
    Rebalance,
)

BY_CONFIG, BY_MACHINE_ROOM, NEARBY = "by-config", "by-machine-room", "nearby"
WITH_ROOMS = (BY_CONFIG, BY_MACHINE_ROOM, NEARBY)
NAMES = (*ASSIGNORS, *WITH_ROOMS)

# With these assignors members keep working on unchanged partitions while a rebalance runs (KIP-429,
# KIP-848).
INCREMENTAL = frozenset(("cooperative-sticky", "uniform"))

# Why no rebalance of a group of some types is replayed.
NOT_REPLAYED = {
    STREAMS: "a streams group: tasks have an assignor of their own, and these assign partitions",
    SHARE: "a share group: several members read a partition, and these give each one owner",
}

ASSUMPTIONS = (
    "Members join, leave and rejoin at the recorded times.",
    "A topic has as many partitions as have been assigned of it so far.",
    "Eager assignors: a member's partitions stop from its rejoin to the end of the rebalance.",
    "Incremental assignors (cooperative-sticky, uniform): only moves stop, for a second round.",
    "The second round takes as long as the recorded one, otherwise as long as join and sync.",
    "Partitions without an owner, or whose owner left, wait for the end of the first round.",
    "Times are compared only for rebalances whose beginning is recorded.",
    "Consumer groups (KIP-848): members rejoin when they first follow a new epoch.",
    "Consumer groups (KIP-848): a second round takes as long as a partition had no owner.",
    "Streams groups (KIP-1071) are left out: only one assignor assigns tasks.",
    "Share groups (KIP-932) are left out: a partition has several readers.",
)


class Rooms(NamedTuple):
    """The locations of partitions and members, for the assignors that need them.

    Attributes:
        partitions: the room of each partition; for `by-config` the key of its member.
        members: rooms by member key, client id or host.
    """

    partitions: Mapping[TopicPartition, str]
    members: Mapping[str, str]


class ReplayedRebalance(NamedTuple):
    """One rebalance as it was and as it would have been.

    Attributes:
        from_generation, to_generation, completed_ms: the rebalance.
        recorded_moved, recorded_moved_min, recorded_unowned_ms: what happened; None if unknown.
        moved: partitions that would have moved from one member to another.
        moved_min: the moves that a balanced assignment would have needed.
        unowned_ms: the time without owner, summed over partitions; None if the times are unknown.
    """

    from_generation: int | None
    to_generation: int
    completed_ms: int
    recorded_moved: int
    recorded_moved_min: int | None
    recorded_unowned_ms: int | None
    moved: int
    moved_min: int | None
    unowned_ms: int | None


class GroupReplay(NamedTuple):
    """The replay of a group under another assignor.

    Attributes:
        group_id, assignor: the group and the assignor.
        protocols: the assignors that the group used, in order of appearance.
        rebalances: the replayed rebalances.
        left_out: the number of rebalances without known members or subscriptions.
        problem: why the replay stopped or has no rebalance; None otherwise.
    """

    group_id: str
    assignor: str
    protocols: tuple[str, ...]
    rebalances: list[ReplayedRebalance]
    left_out: int
    problem: str | None = None


class _Times(NamedTuple):
    """The recorded course of a rebalance.

    Attributes:
        started_ms: when it began.
        first_ms: when its first round ended.
        second_ms: how long a second round would take.
        rejoined: by member key when the member rejoined.
        left: by member key when the member left.
    """

    started_ms: int
    first_ms: int
    second_ms: int
    rejoined: dict[str, int]
    left: dict[str, int]


def replay(history: GroupHistory, assignor: str, rooms: Rooms | None = None) -> GroupReplay:
    """Replay a group's history under an assignor.

    Args:
        history: the recorded history.
        assignor: one of `NAMES`.
        rooms: the rooms, for the assignors of `WITH_ROOMS`.
    """
    completed = {(each.generation, each.completed_ms): each for each in history.generations}
    protocols = tuple(dict.fromkeys(each.protocol for each in history.generations if each.protocol))
    replayed: list[ReplayedRebalance] = []
    left_out = 0
    problem = None
    held: dict[TopicPartition, str] = {}
    counts: dict[str, int] = {}
    for rebalance in history.rebalances:
        if rebalance.to_generation is None or rebalance.completed_ms is None:
            continue
        if not rebalance.members:
            held = {}
            continue
        generation = completed.get((rebalance.to_generation, rebalance.completed_ms))
        if rebalance.group_type in NOT_REPLAYED:
            left_out += 1
            held = {}
            continue
        if generation is None or any(each.topics is None for each in generation.members):
            left_out += 1
            continue
        for topic, partition in generation.owners:
            counts[topic] = max(counts.get(topic, 0), partition + 1)
        try:
            after, late = _assigned(assignor, counts, generation, held, rooms)
        except ValueError as error:
            problem = str(error)
            break
        times = _times(history, rebalance, generation)
        replayed.append(_compared(assignor, rebalance, generation, held, after, late, times))
        held = after
    if problem is None and not replayed:
        types = {each.group_type for each in history.rebalances}
        problem = next(
            (text for group_type, text in NOT_REPLAYED.items() if group_type in types),
            "no rebalance with members of known subscriptions",
        )
    return GroupReplay(history.group_id, assignor, protocols, replayed, left_out, problem)


def _assigned(
    assignor: str,
    counts: Mapping[str, int],
    generation: Generation,
    held: Mapping[TopicPartition, str],
    rooms: Rooms | None,
) -> tuple[dict[TopicPartition, str], set[TopicPartition]]:
    """Return the owners, and the partitions that would have waited for a second round."""
    owned: dict[str, list[TopicPartition]] = {}
    for partition, owner in held.items():
        owned.setdefault(owner, []).append(partition)
    members = [
        MemberSubscription(
            member.member_id,
            member.topics or (),
            tuple(sorted(owned.get(member.key, ()))),
            0 if member.key in owned else None,
            member.instance_id,
        )
        for member in generation.members
    ]
    if assignor in WITH_ROOMS:
        given = _by_room(assignor, counts, generation, members, rooms)
    else:
        given = ASSIGNORS[assignor](counts, members)
    keys = {member.member_id: member.key for member in generation.members}
    first = _owners(given, keys)
    if assignor not in INCREMENTAL:
        return first, set()
    rejoined = [
        member._replace(owned=tuple(given[member.member_id]), generation_id=1) for member in members
    ]
    after = _owners(ASSIGNORS[assignor](counts, rejoined), keys)
    here = set(keys.values())
    late = {
        partition
        for partition, owner in after.items()
        if held.get(partition, owner) != owner and held[partition] in here
    }
    return after, late


def _owners(given: Assignment, keys: Mapping[str, str]) -> dict[TopicPartition, str]:
    return {partition: keys[member] for member, some in given.items() for partition in some}


def _by_room(
    assignor: str,
    counts: Mapping[str, int],
    generation: Generation,
    members: list[MemberSubscription],
    rooms: Rooms | None,
) -> Assignment:
    """Compute the assignment of an assignor that needs rooms.

    Raises:
        ValueError: rooms are missing.
    """
    if rooms is None:
        raise ValueError(f"{assignor} needs rooms")
    if assignor == BY_CONFIG:
        configured: dict[str, list[TopicPartition]] = {}
        for partition, key in sorted(rooms.partitions.items()):
            configured.setdefault(key, []).append(partition)
        by_member = {
            member.member_id: configured.get(member.key, []) for member in generation.members
        }
        return assign_by_config(members, by_member)
    member_rooms: dict[str, str] = {}
    for member in generation.members:
        names = (member.key, member.client_id, member.client_host, member.client_host.lstrip("/"))
        room = next((rooms.members[name] for name in names if name in rooms.members), None)
        if room is not None:
            member_rooms[member.member_id] = room
    if assignor == BY_MACHINE_ROOM:
        return assign_by_machine_room(
            counts, members, rooms=rooms.partitions, consumer_rooms=set(member_rooms.values())
        )
    return assign_nearby(counts, members, rooms=rooms.partitions, member_rooms=member_rooms)


def _times(history: GroupHistory, rebalance: Rebalance, generation: Generation) -> _Times | None:
    """Return the course of a rebalance; None if its beginning is unknown."""
    started_ms, completed_ms = rebalance.started_ms, rebalance.completed_ms
    if started_ms is None or completed_ms is None:
        return None
    if rebalance.group_type == CONSUMER:
        return _times_of_epochs(history, rebalance, generation, started_ms)
    rounds = [
        each for each in history.generations if started_ms <= each.completed_ms <= completed_ms
    ]
    first = min(rounds, key=lambda each: each.completed_ms, default=generation)
    first_ms = first.completed_ms
    if first_ms < completed_ms:
        second_ms = completed_ms - first_ms
    else:
        delay_ms = rebalance.initial_delay_ms or 0
        second_ms = max(0, (rebalance.join_ms or 0) - delay_ms) + (rebalance.sync_ms or 0)
    return _Times(
        started_ms,
        first_ms,
        second_ms,
        _rejoined(first, started_ms, first_ms),
        _left(history, first_ms),
    )


def _times_of_epochs(
    history: GroupHistory, rebalance: Rebalance, generation: Generation, started_ms: int
) -> _Times:
    """Return the course of a rebalance of a consumer group, as that of a classic one."""
    completed_ms = generation.completed_ms
    noticed = [
        completed_ms if each.joined_after_ms is None else started_ms + each.joined_after_ms
        for each in generation.members
    ]
    first_ms = min(max(noticed), completed_ms)
    gaps = [
        move.gap_ms
        for move in history.moves
        if move.at_ms == completed_ms
        and move.to_generation == rebalance.to_generation
        and move.from_member_key is not None
        and move.gap_ms is not None
    ]
    second_ms = round(sum(gaps) / len(gaps)) if gaps else 0
    rejoined = _rejoined(generation, started_ms, first_ms)
    return _Times(started_ms, first_ms, second_ms, rejoined, _left(history, first_ms))


def _rejoined(generation: Generation, started_ms: int, first_ms: int) -> dict[str, int]:
    return {
        member.key: min(started_ms + member.joined_after_ms, first_ms)
        for member in generation.members
        if member.joined_after_ms is not None
    }


def _left(history: GroupHistory, first_ms: int) -> dict[str, int]:
    return {
        session.member_key: session.last_seen_ms
        for session in history.sessions
        if session.last_seen_ms is not None and session.last_seen_ms <= first_ms
    }


def _compared(
    assignor: str,
    rebalance: Rebalance,
    generation: Generation,
    held: Mapping[TopicPartition, str],
    after: Mapping[TopicPartition, str],
    late: set[TopicPartition],
    times: _Times | None,
) -> ReplayedRebalance:
    assert rebalance.to_generation is not None, "only completed ones are replayed"
    if times is None:
        unowned_ms = None
    elif rebalance.is_first:
        unowned_ms = 0
    else:
        here = {member.key for member in generation.members}
        eager = assignor not in INCREMENTAL
        unowned_ms = sum(
            _unowned_ms(held.get(partition), owner, partition in late, here, times, eager=eager)
            for partition, owner in after.items()
        )
    return ReplayedRebalance(
        rebalance.from_generation,
        rebalance.to_generation,
        generation.completed_ms,
        rebalance.moved,
        rebalance.moved_min,
        rebalance.unowned_partition_ms,
        len(moved_partitions(held, after)),
        fewest_moves(held, generation),
        unowned_ms,
    )


def _unowned_ms(
    owner: str | None,
    new_owner: str,
    is_late: bool,  # noqa: FBT001 - one of three facts about a partition
    here: set[str],
    times: _Times,
    *,
    eager: bool,
) -> int:
    """Return how long a partition with an owner afterwards would have had none."""
    if owner is None:
        return times.first_ms - times.started_ms
    if owner not in here:
        return times.first_ms - max(times.left.get(owner, times.started_ms), times.started_ms)
    if eager:
        # A static member that has not rejoined keeps its partitions.
        stopped_ms = times.rejoined.get(owner, times.first_ms)
        return times.first_ms - stopped_ms
    return times.second_ms if is_late or owner != new_owner else 0
