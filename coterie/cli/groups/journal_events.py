"""Events of a group's timeline, made from the facts in the broker's journal."""

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from typing import Any

from coterie.cli.groups.consumer_group_events import EVENTS as CONSUMER_GROUP_EVENTS
from coterie.cli.groups.share_group_events import EVENTS as SHARE_GROUP_EVENTS
from coterie.cli.output import printable
from coterie.cli.timeline import (
    SHOWN_MEMBERS,
    Event,
    MemberLine,
    TopicPartition,
    cause_text,
    client_text,
    joined_text,
    member_name,
    partition_ranges,
    quoted_reason,
    work_text,
)
from coterie.client.names import counted
from coterie.client.times import duration_text
from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.messages import journal_records as facts
from coterie.protocol.messages.connect_protocol import PROTOCOL_TYPE as CONNECT
from coterie.protocol.messages.connect_protocol import ConnectWorker, decode_worker
from coterie.protocol.messages.consumer_protocol import decode_assignment
from coterie.protocol.messages.offset_facts import OffsetsExpired
from coterie.protocol.messages.partition_facts import PartitionLoaded, PartitionUnloaded, is_move

# A member that rejoined sooner than this after the rebalance began is not remarked on.
_SLOW_JOIN_MS = 100

_Partitions = Sequence[TopicPartition]


class JournalEvents:
    """Makes the event of each fact, in order, and keeps track of who owned what.

    In a cooperative rebalance a partition that moves has no owner for one generation. Therefore a
    partition counts as moved if its owner is not the last owner it had, however long ago.
    """

    def __init__(self) -> None:
        # None while it is not known: at the beginning and when an assignment can't be decoded.
        self._owned: set[TopicPartition] | None = None
        self._last_owners: dict[TopicPartition, str] = {}
        # By instance id the client and host of the newest process. Facts about a static member name
        # the first one, as the coordinator does [pipeline/static-restart].
        self._clients: dict[str | None, tuple[str, str]] = {}
        # Which of several brokers has coordinated so far; -1 while it is not known.
        self._node_id = -1

    def event(self, fact: facts.Fact) -> Event:
        """Return the event of the next fact."""
        before, self._node_id = self._node_id, fact.node_id
        if isinstance(fact, PartitionLoaded) and is_move(before, fact):
            return _coordinator_moved(before, fact)
        if isinstance(fact, facts.GenerationCompleted):
            return self._generation(fact)
        if isinstance(fact, facts.GroupDeleted | facts.GroupExpired | facts.GroupEmptied):
            self._owned, self._last_owners = set(), {}
        elif isinstance(fact, facts.StaticMemberReplaced | facts.MemberJoined):
            self._clients[fact.group_instance_id] = fact.client_id, fact.client_host
        elif isinstance(fact, facts.MemberRemoved) and fact.group_instance_id in self._clients:
            client_id, client_host = self._clients[fact.group_instance_id]
            if fact.group_instance_id is not None:
                fact = copy(fact)
                fact.client_id, fact.client_host = client_id, client_host
        return _EVENTS[type(fact)](fact)

    def _generation(self, fact: facts.GenerationCompleted) -> Event:
        owned = {_identity(member): _assigned(fact, member) for member in fact.members}
        shown = fact.members[:SHOWN_MEMBERS]
        details = joined_text(
            f"{duration_text(fact.join_ms + fact.sync_ms)} (join {duration_text(fact.join_ms)}, "
            f"sync {duration_text(fact.sync_ms)})",
            counted(len(fact.members), "member"),
            printable(fact.protocol_name),
        )
        return Event(
            fact.at_ms,
            "■",
            "green",
            f"generation {fact.generation_id} stable",
            joined_text(details + self._changes(owned, fact.protocol_type), _delay_text(fact)),
            members=[
                _member_line(member, owned[_identity(member)], fact.protocol_type)
                for member in shown
            ],
            hidden_members=len(fact.members) - len(shown),
        )

    def _changes(self, owned: Mapping[str, _Partitions | None], protocol_type: str) -> str:
        """Return how many partitions are assigned, moved and unassigned; "" if that is unknown.

        Connect's tasks are counted in the same way; a connector itself is one of its tasks.
        """
        before, self._owned = self._owned, None
        if any(partitions is None for partitions in owned.values()):
            return ""
        owners = {
            partition: name for name, partitions in owned.items() for partition in partitions or ()
        }
        moved = sum(self._last_owners.get(each, name) != name for each, name in owners.items())
        unowned = 0 if before is None else len(before - owners.keys())
        self._owned = set(owners)
        self._last_owners |= owners
        return "; " + joined_text(
            counted(len(owners), "task" if protocol_type == CONNECT else "partition"),
            f"{moved} moved" if moved else None,
            f"{unowned} without an owner" if unowned else None,
        )


def _identity(member: facts.GenerationMember) -> str:
    """Return what identifies a member across restarts."""
    return member.group_instance_id or member.member_id


def _assigned(
    fact: facts.GenerationCompleted, member: facts.GenerationMember
) -> _Partitions | None:
    """Return the partitions of a consumer or the tasks of a Connect worker; None for others."""
    if fact.protocol_type == CONNECT:
        worker = _worker(member)
        if worker is None:
            return None
        return [(connector, task) for connector, tasks in worker.running.items() for task in tasks]
    if fact.protocol_type != "consumer":
        return None
    if not member.assignment:
        return []
    try:
        assignment = decode_assignment(member.assignment)
    except MalformedFrame:
        return None
    return sorted(
        (each.topic, partition)
        for each in assignment.assigned_partitions
        for partition in each.partitions
    )


def _worker(member: facts.GenerationMember) -> ConnectWorker | None:
    try:
        return decode_worker(member.subscription, member.assignment)
    except MalformedFrame:
        return None


def _delay_text(fact: facts.GenerationCompleted) -> str | None:
    """Return how long Connect's leader leaves lost tasks unassigned; all workers have that time."""
    workers = [_worker(member) for member in fact.members if fact.protocol_type == CONNECT]
    delay_ms = max((worker.delay_ms for worker in workers if worker is not None), default=0)
    return f"lost tasks wait {duration_text(delay_ms)}" if delay_ms else None


def _member_line(
    member: facts.GenerationMember, partitions: _Partitions | None, protocol_type: str
) -> MemberLine:
    if partitions is None:
        text = counted(len(member.assignment), "byte")
    else:
        text = (work_text if protocol_type == CONNECT else partition_ranges)(partitions)
    remark = ""
    if member.joined_after_ms < 0:
        remark = "(did not rejoin)"
    elif member.joined_after_ms >= _SLOW_JOIN_MS:
        remark = f"(joined after {duration_text(member.joined_after_ms)})"
    return MemberLine(member_name(member.member_id, member.group_instance_id), text, remark)


def _requester(
    fact: facts.RebalanceBegan | facts.MemberRemoved | facts.GroupDeleted,
) -> str | None:
    if fact.requester_client_id is None:
        return None
    who = client_text(fact.requester_client_id, fact.requester_host or "")
    return joined_text(f"requested by {who}", _login_text(fact.requester_principal))


def _rebalance_began(fact: facts.RebalanceBegan) -> Event:
    member = None if fact.member_id is None else member_name(fact.member_id, fact.group_instance_id)
    details = joined_text(
        cause_text(fact.cause, member, fact.subscription_change),
        quoted_reason(fact.reason),
        _requester(fact),
        "before the previous rebalance had completed"
        if fact.previous_state == "CompletingRebalance"
        else None,
    )
    return Event(fact.at_ms, "▷", "yellow", "rebalance began", details)


def _member_joined(fact: facts.MemberJoined) -> Event:
    name = member_name(fact.member_id, fact.group_instance_id)
    details = joined_text(
        client_text(fact.client_id, fact.client_host),
        _login_text(fact.principal),
        counted(fact.member_count, "member"),
        quoted_reason(fact.reason),
    )
    return Event(fact.at_ms, "+", "green", f"{name} joined", details)


def _member_removed(fact: facts.MemberRemoved) -> Event:
    name = member_name(fact.member_id, fact.group_instance_id)
    by_request = fact.cause in ("leave", "admin removal")
    last_heard = None
    if not by_request and fact.last_heard_ms >= 0:
        last_heard = f"last heard from {duration_text(fact.at_ms - fact.last_heard_ms)} earlier"
    details = joined_text(
        None if fact.cause == "leave" else fact.cause,
        last_heard,
        client_text(fact.client_id, fact.client_host),
        "was the leader" if fact.was_leader else None,
        f"{counted(fact.member_count, 'member')} remaining",
        quoted_reason(fact.reason),
        _requester(fact),
    )
    verb = "left" if fact.cause == "leave" else "removed"
    return Event(fact.at_ms, "-", "red", f"{name} {verb}", details)


def _member_fenced(fact: facts.MemberFenced) -> Event:
    if fact.error_code == ErrorCode.FENCED_MEMBER_EPOCH:
        name = member_name(fact.member_id, fact.group_instance_id)
        details = (
            f"{fact.request} with epoch {fact.said_epoch} was refused: the epoch of the member is"
            f" {fact.known_epoch}"
        )
        return Event(fact.at_ms, "!", "red", f"{name} fenced", details)
    name = printable(fact.group_instance_id or "")
    details = (
        f"{fact.request} of {member_name(fact.member_id)} was refused:"
        f" {member_name(fact.holder)} has this instance id"
    )
    return Event(fact.at_ms, "!", "red", f"{name} fenced", details)


def _login_text(principal: str | None) -> str | None:
    return None if principal is None else printable(f"logged in as {principal}")


def _static_member_replaced(fact: facts.StaticMemberReplaced) -> Event:
    details = joined_text(
        client_text(fact.client_id, fact.client_host),
        _login_text(fact.principal),
        None if fact.rebalances else "without a rebalance",
        quoted_reason(fact.reason),
    )
    return Event(
        fact.at_ms, "±", "green", f"{printable(fact.group_instance_id)} restarted", details
    )


def _pending_member_expired(fact: facts.PendingMemberExpired) -> Event:
    details = joined_text(
        "it was given a member id but never joined with it",
        "the rebalance waited for it" if fact.state == "PreparingRebalance" else None,
    )
    return Event(fact.at_ms, "-", "dim", f"{member_name(fact.member_id)} dropped", details)


def _join_phase_extended(fact: facts.JoinPhaseExtended) -> Event:
    details = (
        f"none of {counted(fact.member_count, 'static member')} has rejoined,"
        f" waiting {duration_text(fact.wait_ms)} more"
    )
    return Event(fact.at_ms, "·", "yellow", "join phase extended", details)


def _join_completed(fact: facts.JoinCompleted) -> Event:
    details = joined_text(
        f"{fact.ended_by} after {duration_text(fact.join_ms)}",
        counted(fact.member_count, "member"),
        printable(fact.protocol_name),
        f"leader {member_name(fact.leader)}",
    )
    return Event(fact.at_ms, "·", "", f"generation {fact.generation_id} joined", details)


def _group_emptied(fact: facts.GroupEmptied) -> Event:
    details = f"generation {fact.generation_id}, no members left"
    return Event(fact.at_ms, "□", "dim", "group empty", details)


def _group_deleted(fact: facts.GroupDeleted) -> Event:
    details = joined_text(
        f"with {counted(fact.offset_count, 'offset')}",
        _requester(fact),
    )
    return Event(fact.at_ms, "✗", "red", "group deleted", details)


def _group_expired(fact: facts.GroupExpired) -> Event:
    details = f"generation {fact.generation_id}, no members and no offsets left"
    return Event(fact.at_ms, "✗", "red", "group expired", details)


def _offsets_expired(fact: OffsetsExpired) -> Event:
    partitions = [(each.topic, part.partition) for each in fact.topics for part in each.partitions]
    details = joined_text(
        counted(fact.offset_count, "offset"),
        partition_ranges(sorted(partitions)) if partitions else None,
    )
    return Event(fact.at_ms, "✗", "yellow", "offsets expired", details)


def _coordinator_moved(before: int, fact: PartitionLoaded) -> Event:
    details = f"from broker {before} to {fact.node_id}; generation stayed"
    return Event(fact.at_ms, "○", "cyan", "coordinator moved", details)


def _partition_loaded(fact: PartitionLoaded) -> Event:
    details = f"{_broker(fact)} loaded __consumer_offsets-{fact.partition}"
    return Event(fact.at_ms, "○", "cyan", "coordinator loaded", details)


def _partition_unloaded(fact: PartitionUnloaded) -> Event:
    reason = (
        "the log can't be used"
        if fact.cause == "failed"
        else f"{_broker(fact)} stopped or is no longer its coordinator"
    )
    details = f"__consumer_offsets-{fact.partition}: {reason}"
    return Event(fact.at_ms, "●", "cyan", "coordinator unloaded", details)


def _broker(fact: facts.Fact) -> str:
    return "the broker" if fact.node_id < 0 else f"broker {fact.node_id}"


_EVENTS: dict[type[facts.Fact], Callable[[Any], Event]] = {
    facts.RebalanceBegan: _rebalance_began,
    facts.MemberJoined: _member_joined,
    facts.MemberRemoved: _member_removed,
    facts.MemberFenced: _member_fenced,
    facts.StaticMemberReplaced: _static_member_replaced,
    facts.PendingMemberExpired: _pending_member_expired,
    facts.JoinPhaseExtended: _join_phase_extended,
    facts.JoinCompleted: _join_completed,
    facts.GroupEmptied: _group_emptied,
    facts.GroupDeleted: _group_deleted,
    facts.GroupExpired: _group_expired,
    OffsetsExpired: _offsets_expired,
    PartitionLoaded: _partition_loaded,
    PartitionUnloaded: _partition_unloaded,
    **CONSUMER_GROUP_EVENTS,
    **SHARE_GROUP_EVENTS,
}
