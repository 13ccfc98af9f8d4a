"""What `groups assign` and `topics assign` share: assumed counts and the final assignment.

Nothing here changes anything. A cooperative assignor needs two rebalances to hand a partition over;
the assignment is that of the second one.
"""

import base64
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import click

from coterie.assignors.by_name import ASSIGNORS
from coterie.assignors.model import Assignment, MemberSubscription, TopicPartition
from coterie.assignors.shares import Shares, Subscriber
from coterie.assignors.uniform import share_uniform
from coterie.cli.errors import no_such_topics
from coterie.cli.output import NOTHING
from coterie.cli.timeline import partition_ranges
from coterie.client.cluster import Cluster
from coterie.client.topics import describe_topics

_COOPERATIVE = "cooperative-sticky"
# The assignors of the coordinator, for consumer groups (KIP-848).
UNIFORM = "uniform"
COORDINATOR_ASSIGNORS = (UNIFORM, "range")

assumed_partitions_option = click.option(
    "--partitions",
    "counts",
    multiple=True,
    metavar="TOPIC=COUNT",
    help="Assume that the topic has this many partitions; repeatable.",
)


def assumed_counts(texts: Iterable[str]) -> dict[str, int]:
    """Return the values of --partitions by topic.

    Raises:
        click.UsageError: a value is not TOPIC=COUNT.
    """
    counts = {}
    for text in texts:
        topic, equals, number = text.rpartition("=")
        if not equals or not topic or not (number.isascii() and number.isdigit()):
            raise click.UsageError(f"Invalid value for --partitions: {text!r} is not TOPIC=COUNT.")
        counts[topic] = int(number)
    return counts


def partition_counts(cluster: Cluster, members: Iterable[MemberSubscription]) -> dict[str, int]:
    """Return the partition counts of the subscribed topics that exist.

    Raises:
        CommandFailed: none of them exists.
    """
    names = {topic for member in members for topic in member.topics}
    topics = describe_topics(cluster, sorted(names)) if names else []
    missing = [topic.name for topic in topics if topic.error]
    if missing and len(missing) == len(topics):
        raise no_such_topics(missing)
    return {topic.name: len(topic.partitions) for topic in topics if not topic.error}


def final_assignment(
    assignor: str, counts: Mapping[str, int], members: list[MemberSubscription]
) -> Assignment:
    """Return the final assignment, which is the second one of a cooperative assignor."""
    assignment = ASSIGNORS[assignor](counts, members)
    if assignor == _COOPERATIVE:
        rejoined = [
            member._replace(owned=tuple(assignment[member.member_id]), generation_id=1)
            for member in members
        ]
        assignment = ASSIGNORS[assignor](counts, rejoined)
    return assignment


def coordinator_assignment(
    cluster: Cluster, counts: Mapping[str, int], members: Sequence[MemberSubscription]
) -> Assignment:
    """Return what the coordinator's `uniform` makes of a consumer group
    [assignors/uniform].

    Args:
        cluster: the cluster, for the ids of the topics.
        counts: the partitions of the topics that exist.
        members: the members, with the target that they had as what they own.
    """
    topics = describe_topics(cluster, sorted(counts))
    ids = {
        topic.name: _uuid(topic.topic_id) if topic.topic_id else topic.name.encode().ljust(16)[:16]
        for topic in topics
    }
    subscribers = [_subscriber(each, counts, ids) for each in members]
    shares: Shares[bytes] = {each.member_id: [] for each in members}
    homogeneous = len({frozenset(each.topics) for each in subscribers}) == 1
    for _ in share_uniform(counts, ids, subscribers, shares, homogeneous=homogeneous):
        pass
    named = {topic_id: partial(TopicPartition, name) for name, topic_id in ids.items()}
    return {
        member_id: [named[topic_id](index) for topic_id, indexes in runs for index in indexes]
        for member_id, runs in shares.items()
    }


def _subscriber(
    member: MemberSubscription, counts: Mapping[str, int], ids: Mapping[str, bytes]
) -> Subscriber[bytes]:
    owned: dict[bytes, list[int]] = {}
    for topic, index in sorted(member.owned):
        if index < counts.get(topic, 0):
            owned.setdefault(ids[topic], []).append(index)
    topics = dict.fromkeys(ids[topic] for topic in member.topics if topic in counts)
    return Subscriber(member.member_id, topics, owned, member.group_instance_id)


def _uuid(text: str) -> bytes:
    """Return the bytes of a topic id in Kafka's form."""
    return base64.urlsafe_b64decode(text + "==")


def ranges_text(assignment: dict[str, list[int]]) -> str:
    """Return partitions by topic in short, for a terminal: sales 0-2,5."""
    pairs = [(topic, each) for topic, numbers in assignment.items() for each in numbers]
    return partition_ranges(pairs) if pairs else NOTHING
