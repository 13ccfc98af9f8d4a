"""Checks of members and their assignments. Each takes an observation and returns its findings."""

from collections import Counter
from collections.abc import Iterator

from coterie.client.group_description import DescribedMember
from coterie.client.health.finding import (
    Finding,
    error,
    names_text,
    partitions_text,
    warning,
)
from coterie.client.health.observation import REBALANCING, Observation, short_name
from coterie.client.names import counted

# The largest difference of an even assignment.
_EVEN = 1


def stuck_rebalance(seen: Observation) -> Iterator[Finding]:
    """The group rebalanced at both looks, or, as a warning, rebalances at the only one."""
    # With epochs nobody waits for all others; `epochs.py` has checks of its own.
    if not seen.is_rebalancing or seen.has_epochs:
        return
    state = seen.group.state
    wait = (
        "A rebalance waits for every member that is alive, at most for the longest"
        " max.poll.interval.ms of a member."
    )
    if seen.earlier is not None and seen.earlier.state in REBALANCING:
        yield error(
            "",
            f"The group is {state}, and {seen.seconds:.0f} s earlier it was {seen.earlier.state}:"
            f" it rebalances and reads nothing. {wait}",
            "Find members that do not call poll (`coterie groups history` shows who rebalances"
            " and why), and members that join and leave all the time.",
        )
    else:
        yield warning(
            "",
            f"The group is {state}: it rebalances at the moment. {wait}",
            "Check again; if it lasts, find the member that does not rejoin.",
        )


def unassigned_partitions(seen: Observation) -> Iterator[Finding]:
    """A subscribed topic has partitions that no member owns."""
    consumers, owners = seen.consumers, seen.owners
    subscribed = {topic for member in consumers for topic in member.topics or ()}
    free = [
        (topic, part.partition_index)
        for topic in sorted(subscribed & seen.look.topics.keys())
        for part in seen.look.topics[topic].partitions
        if (topic, part.partition_index) not in owners
    ]
    if free:
        yield error(
            partitions_text(free),
            f"{counted(len(free), 'partition', 'has', 'have')} no owner although the group"
            " subscribes to the topic, so the records are not read.",
            "The coordinator assigns them when the next heartbeat of a member comes; check again."
            if seen.has_epochs
            else "Partitions that were added a moment ago are assigned when the members refresh"
            " their metadata (metadata.max.age.ms, 5 minutes). Otherwise the assignor left them"
            " out: preview it with `coterie groups assign`, and restart the leader of the group.",
        )


def assigned_twice(seen: Observation) -> Iterator[Finding]:
    """A partition has two owners."""
    twice = {each: names for each, names in seen.owners.items() if len(names) > 1}
    # Tasks of several subtopologies may read one partition.
    if twice and not seen.has_tasks:
        members = names_text(name for names in twice.values() for name in names)
        yield error(
            partitions_text(list(twice)),
            f"{counted(len(twice), 'partition', 'is', 'are')} assigned to several members, so"
            f" records are read twice: {members}.",
            "The assignor of the group's leader is wrong. Use one of Kafka's, or correct it.",
        )


def assigned_missing_partitions(seen: Observation) -> Iterator[Finding]:
    """A member owns a partition that does not exist."""
    missing = [each for each in seen.owners if not seen.exists(each)]
    if missing:
        yield warning(
            partitions_text(missing),
            f"{counted(len(missing), 'assigned partition', 'does', 'do')} not exist: the topic"
            " was deleted, or created again with fewer partitions.",
            "The members notice it when they refresh their metadata (metadata.max.age.ms). If it"
            " remains, restart them or correct their subscription.",
        )


def missing_topics(seen: Observation) -> Iterator[Finding]:
    """A member subscribes to a topic that does not exist."""
    subscribed = {topic for member in seen.consumers for topic in member.topics or ()}
    missing = sorted(
        name
        for name in subscribed
        if name not in seen.look.topics or not seen.look.topics[name].partitions
    )
    if missing:
        yield warning(
            names_text(missing),
            f"The group subscribes to {counted(len(missing), 'topic', 'that does', 'that do')}"
            " not exist.",
            "Create the topic (`coterie topics create`), or correct the subscription.",
        )


def unequal_subscriptions(seen: Observation) -> Iterator[Finding]:
    """Members subscribe to different topics."""
    found: dict[tuple[str, ...], list[str]] = {}
    for member in _subscribers(seen):
        found.setdefault(tuple(sorted(member.topics or ())), []).append(short_name(member))
    if len(found) > 1:
        parts = [
            f"{names_text(topics) or 'nothing'} by {names_text(members)}"
            for topics, members in sorted(found.items(), key=lambda each: -len(each[1]))
        ]
        yield warning(
            "",
            f"The members have {len(found)} different subscriptions: {'; '.join(parts)}. Each"
            " topic is read by some of the members only.",
            "If this is not a deployment in progress, give different applications different"
            " groups.",
        )


def mixed_clients(seen: Observation) -> Iterator[Finding]:
    """Members speak different versions of the consumer protocol."""
    versions: dict[int, list[str]] = {}
    for member in seen.consumers:
        if member.subscription_version is not None:
            versions.setdefault(member.subscription_version, []).append(short_name(member))
    if len(versions) > 1:
        parts = [f"v{each} by {names_text(versions[each])}" for each in sorted(versions)]
        yield warning(
            "",
            "The members are clients of different libraries or releases: their subscriptions have"
            f" the versions {'; '.join(parts)}. Assignors treat members with old versions"
            " differently.",
            "If this is not an upgrade in progress, update the older clients. `coterie groups"
            " describe --members --verbose` shows the software of each, on Coterie.",
        )


def idle_members(seen: Observation) -> Iterator[Finding]:
    """Members own nothing."""
    idle = [short_name(each) for each in _subscribers(seen) if not each.partition_count]
    if not idle or seen.has_tasks:
        return
    count = len(seen.owners)
    more = len(seen.consumers) > count
    why = (
        f"the group has {counted(len(seen.consumers), 'member')} for {counted(count, 'partition')}"
        if more
        else "the assignor gave them none, although there are enough partitions"
    )
    yield warning(
        names_text(idle),
        f"{counted(len(idle), 'member', 'owns', 'own')} no partition: {why}.",
        "Add partitions, or stop members that are not a reserve."
        if more
        else f"Use an assignor that works across topics, such as {_across_topics(seen)}; preview"
        " it with `coterie groups assign`.",
    )


def uneven_assignment(seen: Observation) -> Iterator[Finding]:
    """Members with the same subscription have numbers of partitions that differ by more than"
    " one."""
    if seen.has_tasks:
        # Its tasks are even, and read different numbers of partitions.
        return
    consumers = seen.consumers
    subscriptions = Counter(tuple(sorted(member.topics or ())) for member in consumers)
    counts = sorted(member.partition_count for member in consumers)
    if len(subscriptions) != 1 or not counts[0] or counts[-1] - counts[0] <= _EVEN:
        return
    yield warning(
        "",
        f"The members own {counts[0]} to {counts[-1]} partitions although they have the same"
        f" subscription; the assignor is {seen.group.protocol}.",
        "range, allocate-averagely and averagely-by-circle share each topic on its own, so the"
        f" first members get more of every topic. {_across_topics(seen)} share all of them;"
        " preview with `coterie groups assign`.",
    )


def _subscribers(seen: Observation) -> list[DescribedMember]:
    """Return the members without those that subscribe to nothing, which is a finding of its own."""
    return [each for each in seen.consumers if each.topics or not seen.is_consumer_group]


def _across_topics(seen: Observation) -> str:
    """Return the assignors that share all topics together, as far as the group can use them."""
    if seen.is_consumer_group:
        return "uniform (group.remote.assignor)"
    return "sticky, cooperative-sticky and roundrobin"
