"""What another assignor would have done with a group's recorded history.

The same members come, go and rejoin at the same times; only who gets which partition is worked out
anew, from what everybody would have had by then. What is assumed stands in `ASSUMPTIONS` and is
part of every answer, for the times are estimates: the members' clocks ran under the real assignor.

Pure: a `GroupHistory` in, numbers out. Times are epoch milliseconds or durations in milliseconds.
"""

from collections.abc import Mapping
from typing import NamedTuple

from coterie.assignors import (
    ASSIGNORS,
    Assignment,
    MemberSubscription,
    TopicPartition,
    assign_by_config,
    assign_by_machine_room,
    assign_nearby,
)
from coterie.pipeline.timeline.holdings import fewest_moves, moved_partitions
from coterie.pipeline.timeline.model import Generation, GroupHistory, Rebalance

BY_CONFIG, BY_MACHINE_ROOM, NEARBY = "by-config", "by-machine-room", "nearby"
WITH_ROOMS = (BY_CONFIG, BY_MACHINE_ROOM, NEARBY)
NAMES = (*ASSIGNORS, *WITH_ROOMS)

# Assignors whose members go on with what they keep while a rebalance runs (KIP-429, KIP-848).
INCREMENTAL = frozenset(("cooperative-sticky", "uniform"))

ASSUMPTIONS = (
    "Members come, go and rejoin when they really did.",
    "A topic has as many partitions as were ever assigned of it until then.",
    "Eager assignors: what a member has stops from its rejoin to the end of the rebalance.",
    "Incremental ones (cooperative-sticky, uniform): only what moves stops, for one round more.",
    "That round takes as long as the recorded second one, else as the recorded join and sync.",
    "What nobody has, or whose owner went, waits for the end of the first round.",
    "Times are known where the journal has the rebalance; others are left out on both sides.",
)


class Rooms(NamedTuple):
    """Where partitions and members stand, for the assignors that ask.

    Attributes:
        partitions: room of each partition; for `by-config` the key of the member it goes to.
        members: room by member key, client id or host.
    """

    partitions: Mapping[TopicPartition, str]
    members: Mapping[str, str]


class ReplayedRebalance(NamedTuple):
    """One rebalance as it was and as it would have been.

    Attributes:
        from_generation, to_generation, completed_ms: which.
        recorded_moved, recorded_moved_min, recorded_unowned_ms: what happened; None: not known.
        moved: partitions that would have gone from one member to another.
        moved_min: as many as had to, given what everybody would have had.
        unowned_ms: partitions x milliseconds without an owner; None where times are not known.
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
    """A group under another assignor; the sums are over `rebalances`.

    Attributes:
        group_id, assignor: which.
        protocols: what the group really used, in order of appearance.
        rebalances: those that were replayed.
        left_out: rebalances that could not be, for want of members or subscriptions.
        problem: why none could be; None if some were.
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
        first_ms: when its first round was over.
        second_ms: how long another round would take.
        rejoined: member key to when it rejoined.
        gone: member key to when it went.
    """

    started_ms: int
    first_ms: int
    second_ms: int
    rejoined: dict[str, int]
    gone: dict[str, int]


def replay(history: GroupHistory, assignor: str, rooms: Rooms | None = None) -> GroupReplay:
    """Run a group's history again under an assignor.

    Args:
        history: as recorded.
        assignor: one of `NAMES`.
        rooms: for those of `WITH_ROOMS`.
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
        problem = "no rebalance with members that tell what they subscribe to"
    return GroupReplay(history.group_id, assignor, protocols, replayed, left_out, problem)


def _assigned(
    assignor: str,
    counts: Mapping[str, int],
    generation: Generation,
    held: Mapping[TopicPartition, str],
    rooms: Rooms | None,
) -> tuple[dict[TopicPartition, str], set[TopicPartition]]:
    """Who would have what, and which partitions would have waited for a second round."""
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
    """Under an assignor that has to be told something.

    Raises:
        ValueError: it was not told enough.
    """
    if rooms is None:
        raise ValueError(f"{assignor} must be told rooms")
    if assignor == BY_CONFIG:
        configured: dict[str, list[TopicPartition]] = {}
        for partition, key in sorted(rooms.partitions.items()):
            configured.setdefault(key, []).append(partition)
        mine = {member.member_id: configured.get(member.key, []) for member in generation.members}
        return assign_by_config(members, mine)
    stands: dict[str, str] = {}
    for member in generation.members:
        names = (member.key, member.client_id, member.client_host, member.client_host.lstrip("/"))
        room = next((rooms.members[name] for name in names if name in rooms.members), None)
        if room is not None:
            stands[member.member_id] = room
    if assignor == BY_MACHINE_ROOM:
        return assign_by_machine_room(
            counts, members, rooms=rooms.partitions, consumer_rooms=set(stands.values())
        )
    return assign_nearby(counts, members, rooms=rooms.partitions, member_rooms=stands)


def _times(history: GroupHistory, rebalance: Rebalance, generation: Generation) -> _Times | None:
    """The course of a rebalance; None where its beginning is not known."""
    started_ms, completed_ms = rebalance.started_ms, rebalance.completed_ms
    if started_ms is None or completed_ms is None:
        return None
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
    rejoined = {
        member.key: min(started_ms + member.joined_after_ms, first_ms)
        for member in first.members
        if member.joined_after_ms is not None
    }
    gone = {
        session.member_key: session.last_seen_ms
        for session in history.sessions
        if session.last_seen_ms is not None and session.last_seen_ms <= first_ms
    }
    return _Times(started_ms, first_ms, second_ms, rejoined, gone)


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
    """How long a partition that somebody has afterwards would have had no owner."""
    if owner is None:
        return times.first_ms - times.started_ms
    if owner not in here:
        return times.first_ms - max(times.gone.get(owner, times.started_ms), times.started_ms)
    if eager:
        # A static member that stayed away goes on with what it had.
        stopped_ms = times.rejoined.get(owner, times.first_ms)
        return times.first_ms - stopped_ms
    return times.second_ms if is_late or owner != new_owner else 0
