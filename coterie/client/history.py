"""What happened to a group, read from the journal of a broker that keeps one.

The journal is an ordinary topic (protocol/messages/journal_records.py says what is in it), so any
broker that has it can be asked, a copy of it included. Facts of a type or version that is not known
here are counted and left out.
"""

from collections.abc import Iterator
from typing import NamedTuple

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.errors import ClientError
from coterie.client.offsets import EARLIEST, partition_offsets
from coterie.client.records import fetch
from coterie.client.topics import describe_topics
from coterie.coordinator.placement import partition_for
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
)
from coterie.protocol.messages.journal_records import (
    Fact,
    PartitionLoaded,
    PartitionUnloaded,
    UnknownFact,
    decode_fact,
)
from coterie.protocol.records import Record
from coterie.protocol.topic_names import JOURNAL_TOPIC, OFFSETS_TOPIC

ENABLE_SETTING = "journal.enable"

_BROKER_RESOURCE = 4
# In a key: the record type, the length of the group's id; then the id.
_TYPE_BYTES = 2


class NoJournal(ClientError):  # noqa: N818 - it says what is the matter
    """The broker keeps no journal."""


class Journal(NamedTuple):
    """Where the facts about one group stand.

    Attributes:
        group_id: which group.
        partition: of the journal.
        log_partition: the partition of `__consumer_offsets` the group is in; None where the broker
            does not show that topic. Its loads and unloads are the group's too.
    """

    group_id: str
    partition: TopicPartition
    log_partition: int | None


class Read(NamedTuple):
    """Facts about a group, in order.

    Attributes:
        facts: what happened.
        unknown: how many facts were left out because they are newer than this program.
        next_offset: where to go on reading.
    """

    facts: list[Fact]
    unknown: int
    next_offset: int


def journal_of(cluster: Cluster, group_id: str) -> Journal:
    """Find the journal of a group.

    Raises:
        NoJournal: there is none, and why.
    """
    journal, offsets = describe_topics(cluster, [JOURNAL_TOPIC, OFFSETS_TOPIC])
    if not journal.partitions:
        raise _no_journal(cluster)
    count = len(offsets.partitions)
    return Journal(
        group_id,
        (JOURNAL_TOPIC, partition_for(group_id, len(journal.partitions))),
        partition_for(group_id, count) if count else None,
    )


def read_history(cluster: Cluster, journal: Journal, since_ms: int | None = None) -> Read:
    """Everything the journal has about a group, up to now.

    Args:
        cluster: where.
        journal: of the group.
        since_ms: epoch milliseconds; None for as far back as there is something.
    """
    at = EARLIEST if since_ms is None else since_ms
    offset = partition_offsets(cluster, {journal.partition: at})[journal.partition]
    if offset < 0:
        # Nothing is that young: what comes later is.
        offset = fetch(cluster, journal.partition, 0).end_offset
    facts: list[Fact] = []
    unknown = 0
    while True:
        found = fetch(cluster, journal.partition, offset)
        some = _read(journal, found.records, found.next_offset)
        facts += [fact for fact in some.facts if since_ms is None or fact.at_ms >= since_ms]
        unknown += some.unknown
        if found.next_offset >= found.end_offset or found.next_offset == offset:
            return Read(facts, unknown, found.next_offset)
        offset = found.next_offset


def follow_history(
    cluster: Cluster, journal: Journal, offset: int, max_wait_ms: int
) -> Iterator[Read]:
    """What happens from an offset on, as it happens, without end.

    Args:
        cluster: where.
        journal: of the group.
        offset: where `read_history` ended.
        max_wait_ms: how long the broker may keep a request that finds nothing; below the cluster's
            timeout.
    """
    while True:
        found = fetch(cluster, journal.partition, offset, max_wait_ms)
        offset = found.next_offset
        if found.records:
            yield _read(journal, found.records, offset)


def _read(journal: Journal, records: list[Record], next_offset: int) -> Read:
    """The facts about the group among some records."""
    group = journal.group_id.encode()
    wanted = (len(group).to_bytes(2, "big") + group, b"\0\0")
    facts: list[Fact] = []
    unknown = 0
    for record in records:
        # Most are about other groups, and are not decoded.
        if record.key is None or record.key[_TYPE_BYTES:] not in wanted:
            continue
        try:
            fact = decode_fact(record.key, record.value).fact
        except MalformedFrame as error:
            name, index = journal.partition
            raise ClientError(
                f"The record at offset {record.offset} of {name}-{index} is none of a journal: "
                f"{error}."
            ) from error
        if isinstance(fact, UnknownFact):
            unknown += 1
        elif _concerns(journal, fact):
            facts.append(fact)
    return Read(facts, unknown, next_offset)


def _concerns(journal: Journal, fact: Fact) -> bool:
    """Whether a fact is about the group, or about its partition of the group log."""
    if isinstance(fact, PartitionLoaded | PartitionUnloaded):
        return fact.partition == journal.log_partition
    return True


def _no_journal(cluster: Cluster) -> NoJournal:
    """Why there is no journal: the broker is asked whether it would keep one."""
    node = cluster.brokers()[0]
    resource = DescribeConfigsRequestResource(
        resource_type=_BROKER_RESOURCE,
        resource_name=str(node.node_id),
        configuration_keys=[ENABLE_SETTING],
    )
    request = DescribeConfigsRequest(resources=[resource])
    answer = cluster.ask_node(node, request, DescribeConfigsResponse)
    values = {config.name: config.value for result in answer.results for config in result.configs}
    enabled = values.get(ENABLE_SETTING)
    if enabled is None:
        return NoJournal(
            f"The broker at {node.address} keeps no journal of its groups: it has no topic "
            f"{JOURNAL_TOPIC}.",
            "Coterie keeps one (`coterie serve`). What other brokers' own log tells of a group, "
            "`coterie pipeline` reads.",
        )
    if enabled != "true":
        return NoJournal(
            f"The broker at {node.address} was started with {ENABLE_SETTING}={enabled}.",
            f"Start it with {ENABLE_SETTING}=true: what happens from then on is kept.",
        )
    return NoJournal(
        f"The journal of the broker at {node.address} is empty.",
        "It begins with the first member of the first group.",
    )
