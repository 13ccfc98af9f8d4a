"""The members of a group, and a description of the group for people."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.classic.member import Member as LiveMember
from coterie.coordinator.groups.classic.states import GroupState
from coterie.pipeline.timeline.model import Rebalance
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.consumer_protocol import decode_assignment, decode_subscription

# Topic and number.
Partition = tuple[str, int]


class Member(NamedTuple):
    """A member of a group.

    Attributes:
        member_id, instance_id: its ids; the instance id is None for a dynamic member.
        client_id, client_host: the client that joined.
        topics: the topics it subscribes to; None if its metadata is not that of a consumer.
        assignment: its partitions in the present generation.
        waits_for: the response that it waits for, JoinGroup or SyncGroup; None for none.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    topics: tuple[str, ...] | None
    assignment: tuple[Partition, ...]
    waits_for: str | None

    @property
    def name(self) -> str:
        """A short name: the instance id, or the client id and the end of the member id."""
        return self.instance_id or f"{self.client_id} (…{self.member_id[-8:]})"


def member_of(member: LiveMember) -> Member:
    """Return a member as it is now."""
    waits_for = "JoinGroup" if member.delayed_join is not None else None
    return Member(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host.removeprefix("/"),
        _topics(member.protocols[0][1]) if member.protocols else None,
        _assignment(member.assignment),
        "SyncGroup" if member.delayed_sync is not None else waits_for,
    )


def picture(
    group: Group, members: Sequence[Member], lag: Mapping[Partition, int], now_ms: int
) -> str:
    """Describe a group in lines: its state, what it waits for, its members and its offsets."""
    count = len(members)
    head = f"{group.state_name}, generation {group.generation_id}"
    lines = [f"group '{group.group_id}': {head}, {count} member{'s' * (count != 1)}"]
    lines += _progress(group, now_ms)
    for each in members:
        live = group.members[each.member_id]
        silent_s = max(0, now_ms - live.last_heard_ms()) / 1000
        parts = ", ".join(f"{topic}-{index}" for topic, index in each.assignment) or "nothing"
        doing = f"waits for {each.waits_for}" if each.waits_for else f"has {parts}"
        lines.append(
            f"  {each.name} at {each.client_host}: {doing}; last heard {silent_s:.1f} s ago, "
            f"session {live.session_timeout_ms / 1000:g} s"
        )
    if lag:
        lines.append(f"  committed partitions: {len(lag)}, lag {sum(lag.values())}")
    return "\n".join(lines)


def rebalance_line(rebalance: Rebalance) -> str:
    """Describe a rebalance in a line: its generation, its cause, its duration, what moved."""
    trigger = rebalance.trigger
    who = f" of {trigger.client_id}" if trigger.client_id else ""
    reason = f' ("{trigger.reason}")' if trigger.reason else ""
    took = "not over" if rebalance.duration_ms is None else f"{rebalance.duration_ms} ms"
    generation = "?" if rebalance.to_generation is None else rebalance.to_generation
    members = f"{rebalance.members} member{'s' * (rebalance.members != 1)}"
    return (
        f"generation {generation}: {trigger.cause}{who}{reason}, {took}, "
        f"{members}, {rebalance.moved} of {rebalance.partitions} partitions moved"
    )


def _progress(group: Group, now_ms: int) -> list[str]:
    """Describe what a rebalance in progress waits for."""
    if group.state is GroupState.PREPARING_REBALANCE:
        if group.initial_delay_ms is not None:
            return ["  waits for more members (group.initial.rebalance.delay.ms)"]
        missing = [each.client_id for each in group.members.values() if each.delayed_join is None]
        # Members that were given an id and have not joined with it yet.
        missing += ["a new member"] * len(group.pending_joins)
        ends_ms = group.rebalance_began_ms + group.rebalance_timeout_ms()
        left_s = max(0, ends_ms - now_ms) / 1000
        return [f"  waits for JoinGroup of {', '.join(missing)}, at most {left_s:.1f} s more"]
    if group.state is GroupState.COMPLETING_REBALANCE:
        leader = group.members.get(group.leader or "")
        name = "the leader" if leader is None else f"the leader {leader.client_id}"
        return [f"  waits for the assignment in the SyncGroup of {name}"]
    return []


def _topics(metadata: bytes) -> tuple[str, ...] | None:
    try:
        return tuple(sorted(decode_subscription(metadata).topics))
    except MalformedFrame:
        return None


def _assignment(assigned: bytes) -> tuple[Partition, ...]:
    try:
        topics = decode_assignment(assigned).assigned_partitions if assigned else []
    except MalformedFrame:
        return ()
    return tuple(sorted((each.topic, index) for each in topics for index in each.partitions))
