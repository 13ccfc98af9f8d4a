"""Checks of streams groups (KIP-1071): a topology without tasks, members that hold tasks back or
have none. Each takes an observation and returns its findings.

A description has the tasks that members go on with, and not those that they have yet to give up. So
who holds a task back is seen until the member is asked for it, and after that in the journal only
[client/checks-of-tasks].
"""

from collections.abc import Iterator, Mapping

from coterie.client.group_description import DescribedMember, GroupDescription, StreamsTasks
from coterie.client.health.finding import Finding, error, names_text, warning
from coterie.client.health.observation import NOT_READY, Observation, short_name
from coterie.client.names import counted
from coterie.protocol.messages.consumer_group_facts import MemberReconciled, TargetComputed

# As for partitions of consumer groups.
_HELD_MS = 30_000
_UNREVOKED = "UNREVOKED_TASKS"

# The subtopology and the number of a task.
_Task = tuple[str, int]


def topology_not_ready(seen: Observation) -> Iterator[Finding]:
    """Topics of the topology are missing or do not fit, so that nobody has tasks."""
    if seen.group.state != NOT_READY:
        return
    topology = seen.group.topology
    missing = sorted(
        {
            topic
            for each in (topology.subtopologies if topology is not None else ())
            for topic, count in each.source_topics.items()
            if count is None
        }
    )
    if missing:
        yield error(
            names_text(missing),
            f"{counted(len(missing), 'source topic')} of the topology"
            f" {'does' if len(missing) == 1 else 'do'} not exist, so no member has tasks.",
            "Create the topic (`coterie topics create`). A Kafka Streams application ends with a"
            " MissingSourceTopicException after two heartbeats.",
        )
        return
    yield error(
        "",
        "The topology is not ready, so no member has tasks: internal topics are missing, or topics"
        " that are read together have different numbers of partitions.",
        "The application's log and `coterie groups describe` say what is missing. Internal topics"
        " are created by the broker if the client may do that: CREATE on the cluster or on them.",
    )


def held_back_tasks(seen: Observation) -> Iterator[Finding]:
    """A member has tasks that are another one's by the target, at both looks."""
    if not seen.has_tasks:
        return
    earlier = seen.group if seen.earlier is None else seen.earlier
    waiting = _missing(seen.group)
    if not waiting or not _missing(earlier):
        return
    before = {each.member_id: _kept(each) for each in earlier.members}
    names = list(dict.fromkeys(map(short_name, waiting.values())))
    for member in seen.group.members:
        kept = _kept(member) & waiting.keys() & before.get(member.member_id, set())
        asked = _asked(seen, member.member_id)
        at_ms: int | None
        if asked is not None:
            at_ms, count = asked
            what = "It was asked for them, and has not reported that it gave them up."
        elif kept:
            at_ms, count = _target_ms(seen), len(kept)
            what = "It has sent no heartbeat with which it could have been asked for them."
        else:
            continue
        for_ms = None if at_ms is None else seen.now_ms - at_ms
        since = "" if for_ms is None else f" for {for_ms // 1000} s"
        yield (error if for_ms is not None and for_ms > _HELD_MS else warning)(
            short_name(member),
            f"{short_name(member)} has not given up {counted(count, 'task')}{since}, and"
            f" {names_text(names)} {'waits' if len(names) == 1 else 'wait'} for tasks. {what}",
            "Look what its application does: a record that takes long, a restore that goes on or a"
            " process that is stopped. If it does not give them up within max.poll.interval.ms, or"
            " sends no heartbeat for a session timeout, it is removed.",
        )


def asked_members(seen: Observation) -> set[str]:
    """Return the ids of the members that are asked to give up tasks, as the journal knows it."""
    ids = [each.member_id for each in seen.group.members if seen.has_tasks]
    return {each for each in ids if _asked(seen, each) is not None}


def members_without_tasks(seen: Observation) -> Iterator[Finding]:
    """Members have no task, not even a standby."""
    if not seen.has_tasks or seen.is_rebalancing or seen.group.state == NOT_READY:
        return
    idle = [
        short_name(each)
        for each in seen.group.members
        if each.streams is not None and not any(each.streams.tasks)
    ]
    if idle:
        tasks = sum(map(len, map(_active, seen.group.members)))
        yield warning(
            names_text(idle),
            f"{counted(len(idle), 'member', 'has', 'have')} no task: the group has"
            f" {counted(len(seen.group.members), 'member')} for {counted(tasks, 'active task')}.",
            "A subtopology has as many tasks as its largest topic has partitions. Add partitions,"
            " run fewer threads, or let them keep copies: the setting"
            " streams.num.standby.replicas of the group.",
        )


def unequal_topologies(seen: Observation) -> Iterator[Finding]:
    """Members have another topology than the group."""
    topology = seen.group.topology
    behind = [
        short_name(each)
        for each in seen.group.members
        if topology is not None
        and each.streams is not None
        and each.streams.topology_epoch != topology.epoch
    ]
    if topology is not None and behind:
        yield warning(
            names_text(behind),
            f"{counted(len(behind), 'member', 'has', 'have')} another topology epoch than the"
            f" group, which is at {topology.epoch}.",
            "Finish the deployment of the application. A topology can only change while the group"
            " has no members.",
        )


def _active(member: DescribedMember) -> set[_Task]:
    return set() if member.streams is None else _tasks(member.streams.tasks)


def _target(member: DescribedMember) -> set[_Task]:
    return set() if member.streams is None else _tasks(member.streams.target)


def _tasks(tasks: StreamsTasks) -> set[_Task]:
    return {(each, index) for each, indexes in tasks.active.items() for index in indexes}


def _kept(member: DescribedMember) -> set[_Task]:
    """Return what a member goes on with although its target does not have it."""
    return _active(member) - _target(member)


def _missing(group: GroupDescription) -> Mapping[_Task, DescribedMember]:
    """Return the active tasks that members shall have and do not have, with these members."""
    return {task: member for member in group.members for task in _target(member) - _active(member)}


def _asked(seen: Observation, member_id: str) -> tuple[int, int] | None:
    """Return since when a member is asked to give up tasks and how many; None if it is not."""
    last = None
    for fact in seen.facts or ():
        if isinstance(fact, MemberReconciled) and fact.member_id == member_id:
            last = fact
    if last is None or last.state != _UNREVOKED:
        return None
    return last.at_ms, last.revoked


def _target_ms(seen: Observation) -> int | None:
    """Return when the present target was computed, as far as the journal knows it."""
    times = [fact.at_ms for fact in seen.facts or () if isinstance(fact, TargetComputed)]
    return times[-1] if times else None
