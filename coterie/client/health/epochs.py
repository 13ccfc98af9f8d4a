"""Checks of consumer groups (KIP-848): members that do not follow the epochs of their group, and
subscriptions that give them nothing. Each takes an observation and returns its findings. Streams
groups have epochs, too; `tasks.py` has what their members hold back.

A member owns what it is assigned and what it has yet to give up; its target is what it shall have
[client/checks-of-epochs].
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from coterie.client.cluster import TopicPartition
from coterie.client.group_description import DescribedMember, GroupDescription
from coterie.client.health.finding import (
    Finding,
    error,
    names_text,
    partitions_text,
    warning,
)
from coterie.client.health.observation import Observation, short_name
from coterie.client.health.tasks import asked_members
from coterie.client.names import counted, printable
from coterie.protocol.messages.consumer_group_facts import MemberReconciled, TargetComputed

# Six heartbeat intervals, as in the pipeline's finding of the same [pipeline/held-back].
_HELD_MS = 30_000
# The default heartbeat interval: after it a member that is alive has been heard.
_HEARTBEAT_S = 5.0
_UNREVOKED = "UNREVOKED_PARTITIONS"


class Held(NamedTuple):
    """The partitions that a member holds back, and the members that shall have them.

    Attributes:
        partitions: in order.
        waiting: the short names of these members.
        waiting_ids: their ids.
    """

    partitions: list[TopicPartition]
    waiting: list[str]
    waiting_ids: set[str]


def held_back_partitions(seen: Observation) -> Iterator[Finding]:
    """A member has partitions that are another one's by the target, at both looks."""
    if seen.has_tasks:
        return
    held = held_partitions(seen.group)
    earlier = held if seen.earlier is None else held_partitions(seen.earlier)
    members = {each.member_id: each for each in seen.group.members}
    for member_id, now in held.items():
        same = [each for each in now.partitions if each in earlier.get(member_id, now).partitions]
        if member_id not in earlier or not same:
            continue
        asked_ms = _asked_since(seen, member_id)
        for_ms = None if asked_ms is None else seen.now_ms - asked_ms
        is_long = for_ms is not None and for_ms > _HELD_MS
        owner = members[member_id]
        since = "" if for_ms is None else f" for {for_ms // 1000} s"
        yield (error if is_long else warning)(
            partitions_text(same),
            f"{short_name(owner)} has not given up {counted(len(same), 'partition')}{since}, for"
            f" which {names_text(now.waiting)} {'waits' if len(now.waiting) == 1 else 'wait'}."
            f" {_why(seen, owner)}",
            "Look what its application does: a long poll loop, a slow rebalance listener or a"
            " process that is stopped. If it does not give them up within max.poll.interval.ms, or"
            " sends no heartbeat for a session timeout, it is removed.",
        )


def held_partitions(group: GroupDescription) -> dict[str, Held]:
    """Return what each member holds back."""
    shall_have: dict[TopicPartition, DescribedMember] = {}
    for member in group.members:
        for partition in missing_partitions(member):
            shall_have[partition] = member
    found = {}
    for member in group.members:
        kept = _set(member.assignment) - _set(member.target_assignment)
        partitions = sorted(kept & shall_have.keys())
        if partitions and member.target_assignment is not None:
            waiting = sorted({short_name(shall_have[each]) for each in partitions})
            ids = {shall_have[each].member_id for each in partitions}
            found[member.member_id] = Held(partitions, waiting, ids)
    return found


def missing_partitions(member: DescribedMember) -> list[TopicPartition]:
    """Return what a member shall have and does not have yet."""
    return sorted(_set(member.target_assignment) - _set(member.assignment))


def _set(assignment: Mapping[str, list[int]] | None) -> set[TopicPartition]:
    return {(topic, index) for topic, indexes in (assignment or {}).items() for index in indexes}


def _asked_since(seen: Observation, member_id: str) -> int | None:
    """Return since when the journal knows that a member shall give partitions up."""
    at_ms = None
    for fact in seen.facts or ():
        if isinstance(fact, TargetComputed) and at_ms is None:
            at_ms = fact.at_ms
        elif isinstance(fact, MemberReconciled) and fact.member_id == member_id:
            # What it was asked before is done, unless it is asked now.
            at_ms = fact.at_ms if fact.state == _UNREVOKED else None
    return at_ms


def _why(seen: Observation, member: DescribedMember) -> str:
    """Return what the journal knows of a member that does not give partitions up."""
    if member.has_left:
        return "It has left as a static member, which keeps its place until its session ends."
    states = [
        fact.state
        for fact in seen.facts or ()
        if isinstance(fact, MemberReconciled) and fact.member_id == member.member_id
    ]
    if not states and seen.earlier is not None:
        return f"It had them {seen.seconds:.0f} s earlier, too."
    if not states:
        return "It is asked with its next heartbeat, and gives them up after that."
    if states[-1] == _UNREVOKED:
        return "It was asked for them, and has not reported that it gave them up."
    return "It has sent no heartbeat with which it could have been asked for them."


def stale_epoch(seen: Observation) -> Iterator[Finding]:
    """Members were at the same epoch at both looks, before that of the target."""
    if seen.earlier is None or seen.seconds < _HEARTBEAT_S or not seen.has_epochs:
        return
    target_epoch, earlier_target = seen.group.assignment_epoch, seen.earlier.assignment_epoch
    before = {each.member_id: each.member_epoch for each in seen.earlier.members}
    held = held_partitions(seen.group).keys() | asked_members(seen)
    stale = [
        each
        for each in seen.group.members
        if each.member_epoch is not None
        and not each.has_left
        and each.member_epoch < (target_epoch or 0)
        and before.get(each.member_id) == each.member_epoch < (earlier_target or 0)
        and each.member_id not in held
    ]
    if stale:
        epochs = sorted({each.member_epoch or 0 for each in stale})
        yield warning(
            names_text(map(short_name, stale)),
            f"{counted(len(stale), 'member', 'is', 'are')} at"
            f" {counted(len(epochs), 'epoch').partition(' ')[2]}"
            f" {', '.join(map(str, epochs))}, and the target has epoch {target_epoch}, also"
            f" {seen.seconds:.0f} s earlier: they send no heartbeats, or do not give up what they"
            " shall not have any more.",
            "A consumer sends heartbeats as long as its process runs; look whether it is stopped or"
            " has lost its network. It is removed when its session timeout is over. A classic"
            " member follows when it joins again.",
        )


def target_not_computed(seen: Observation) -> Iterator[Finding]:
    """The group waits for the target of its epoch at both looks."""
    if seen.earlier is None or seen.seconds < _HEARTBEAT_S:
        return
    if not (_waits(seen.group) and _waits(seen.earlier)):
        return
    yield warning(
        "",
        f"The group is at epoch {seen.group.group_epoch}, and its target is that of epoch"
        f" {seen.group.assignment_epoch}, also {seen.seconds:.0f} s earlier: the coordinator"
        " computes a target with the next heartbeat of a member, and none has come.",
        "Look whether the processes are stopped or have lost their network. A group with classic"
        " members only gets its target when one of them joins again.",
    )


def _waits(group: GroupDescription) -> bool:
    epoch, target_epoch = group.group_epoch, group.assignment_epoch
    has_target = epoch is None or target_epoch is None or target_epoch >= epoch
    return bool(group.members) and not has_target


def empty_subscription(seen: Observation) -> Iterator[Finding]:
    """Members of a consumer group subscribe to nothing."""
    if not seen.is_consumer_group:
        return
    empty = [each for each in seen.group.members if not each.topics and not each.regex]
    if empty:
        yield warning(
            names_text(map(short_name, empty)),
            f"{counted(len(empty), 'member', 'subscribes', 'subscribe')} to nothing, so nothing is"
            " assigned to them.",
            "Call subscribe() with topics or a pattern; a list that is made at run time may be"
            " empty.",
        )


def pattern_without_topics(seen: Observation) -> Iterator[Finding]:
    """A regular expression matches no topic."""
    if not seen.is_consumer_group:
        return
    by_regex: dict[str, list[str]] = {}
    for member in seen.group.members:
        if member.regex and not member.topics:
            by_regex.setdefault(member.regex, []).append(short_name(member))
    for regex, members in sorted(by_regex.items()):
        yield warning(
            names_text(members),
            f"The pattern {printable(regex)} matches no topic, so nothing is assigned for it.",
            "The whole name must match, and the syntax is that of RE2, without look-around and"
            " backreferences. `coterie topics list` shows the names.",
        )
