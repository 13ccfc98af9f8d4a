"""The members of a group, and a description of the group for people."""

from collections.abc import Mapping
from typing import NamedTuple

from coterie.coordinator.groups.group_like import GroupLike, SeenMember
from coterie.pipeline.timeline.model import CLASSIC, STREAMS, WITH_EPOCHS, Rebalance
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


def member_of(member: SeenMember) -> Member:
    """Return a member as it is now."""
    return Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host.removeprefix("/"),
        None if member.metadata is None else _topics(member.metadata),
        _assignment(member.assignment),
        member.waits_for,
    )


def picture(
    group: GroupLike,
    lag: Mapping[Partition, int],
    tasks: Mapping[str, str],
    now_ms: int,
    node_id: int | None,
) -> str:
    """Describe a group in lines: its state, what it waits for, its members and its offsets.

    Args:
        group: the group.
        lag: how many records follow each committed offset.
        tasks: what to say of the tasks of each member of a streams group, by member id; "" of none.
        now_ms: the time.
        node_id: which of several brokers coordinates it; None for the only one.
    """
    count = group.member_count
    where = "" if node_id is None else f" at broker {node_id}"
    counted = "generation" if group.group_type == CLASSIC else "epoch"
    head = f"{group.state_name}, {counted} {group.logged_generation()}"
    lines = [f"group '{group.group_id}'{where}: {head}, {count} member{'s' * (count != 1)}"]
    waits_for = group.waits_for(now_ms)
    if waits_for is not None:
        lines.append(f"  waits for {waits_for}")
    for live in group.seen_members():
        each = member_of(live)
        silent_s = max(0, now_ms - live.last_heard_ms) / 1000
        parts = ", ".join(f"{topic}-{index}" for topic, index in each.assignment) or "nothing"
        doing = f"waits for {each.waits_for}" if each.waits_for else f"has {parts}"
        lines.append(
            f"  {each.name} at {each.client_host}: {doing}; last heard {silent_s:.1f} s ago, "
            f"session {live.session_timeout_ms / 1000:g} s"
        )
        if each.member_id in tasks:
            lines.append(f"    {tasks[each.member_id]}")
    if "" in tasks:
        lines.append(f"  {tasks['']}")
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
    has_epochs = rebalance.group_type in WITH_EPOCHS
    # The journal says of a group with epochs how many partitions or tasks moved, and not which.
    moved = f"{rebalance.moved}" if has_epochs else f"{rebalance.moved} of {rebalance.partitions}"
    return (
        f"{'epoch' if has_epochs else 'generation'} {generation}: {trigger.cause}{who}{reason}, "
        f"{took}, {members}, {moved} "
        f"{'tasks' if rebalance.group_type == STREAMS else 'partitions'} moved"
    )


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
