"""The history of a group, read from the journal of its broker.

The journal is an ordinary topic with the records of protocol/messages/journal_records.py, so it can
be read from any broker that has it, or a copy of it. Facts of an unknown type or version are left
out and counted. Facts about loads of `__consumer_offsets` have an empty group id; those of the
group's own partition belong to its history.
"""

from collections.abc import Iterator
from typing import NamedTuple

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.errors import ClientError
from coterie.client.offsets import EARLIEST, partition_offsets
from coterie.client.records import fetch
from coterie.client.topics import Topic, describe_topics
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.java_hash import partition_for
from coterie.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
)
from coterie.protocol.messages.journal_records import (
    Fact,
    JournalRecord,
    UnknownFact,
    decode_fact,
)
from coterie.protocol.messages.partition_facts import PartitionLoaded, PartitionUnloaded
from coterie.protocol.records import Record
from coterie.protocol.topic_names import JOURNAL_TOPIC, OFFSETS_TOPIC

ENABLE_SETTING = "journal.enable"

_BROKER_RESOURCE = 4
# The key of a record is its type, the length of the group id, and the group id.
_TYPE_BYTES = 2


class NoJournal(ClientError):  # noqa: N818 - the name says what is wrong
    """The broker keeps no journal."""


class Journal(NamedTuple):
    """Where the facts about a group are.

    Attributes:
        group_id: the group.
        partition: the partition of the journal.
        log_partition: the group's partition of `__consumer_offsets`, whose loading and unloading
            concerns the group too; None if the broker does not show that topic.
    """

    group_id: str
    partition: TopicPartition
    log_partition: int | None


class History(NamedTuple):
    """A part of a group's history.

    Attributes:
        facts: the facts, in order.
        unknown: the number of facts left out because a newer release wrote them.
        next_offset: the offset at which reading continues.
    """

    facts: list[Fact]
    unknown: int
    next_offset: int


def journal_of(cluster: Cluster, group_id: str) -> Journal:
    """Find the journal of a group, in the partition of [coordinator/partition].

    Raises:
        NoJournal: there is none; the cause says why.
    """
    journal, offsets = journal_topics(cluster)
    count = len(offsets.partitions)
    return Journal(
        group_id,
        (JOURNAL_TOPIC, partition_for(group_id, len(journal.partitions))),
        partition_for(group_id, count) if count else None,
    )


def journal_topics(cluster: Cluster) -> tuple[Topic, Topic]:
    """Return the topics of the journal and of the group log.

    Raises:
        NoJournal: there is no journal; the cause says why.
    """
    journal, offsets = describe_topics(cluster, [JOURNAL_TOPIC, OFFSETS_TOPIC])
    if not journal.partitions:
        raise _no_journal(cluster)
    return journal, offsets


def read_history(cluster: Cluster, journal: Journal, since_ms: int | None = None) -> History:
    """Return the history of a group up to now.

    Args:
        cluster: the cluster.
        journal: the journal of the group.
        since_ms: epoch milliseconds; None for the beginning of the journal.
    """
    at = EARLIEST if since_ms is None else since_ms
    offset = partition_offsets(cluster, {journal.partition: at})[journal.partition]
    if offset < 0:
        # No record is that recent: reading continues at the end of the journal.
        offset = fetch(cluster, journal.partition, 0).end_offset
    facts: list[Fact] = []
    unknown = 0
    while True:
        found = fetch(cluster, journal.partition, offset)
        part = _read(journal, found.records, found.next_offset)
        facts += [fact for fact in part.facts if since_ms is None or fact.at_ms >= since_ms]
        unknown += part.unknown
        if found.next_offset >= found.end_offset or found.next_offset == offset:
            return History(facts, unknown, found.next_offset)
        offset = found.next_offset


def follow_history(
    cluster: Cluster, journal: Journal, offset: int, max_wait_ms: int
) -> Iterator[History]:
    """Return new facts as they are recorded, endlessly.

    Args:
        cluster: the cluster.
        journal: the journal of the group.
        offset: the offset at which `read_history` ended.
        max_wait_ms: how long the broker may wait for new records; less than the cluster's timeout.
    """
    while True:
        found = read_on(cluster, journal, offset, max_wait_ms)
        if found.next_offset != offset:
            offset = found.next_offset
            yield found


def read_on(cluster: Cluster, journal: Journal, offset: int, max_wait_ms: int) -> History:
    """Return what was recorded from an offset on; nothing if nothing is recorded in time.

    Args:
        cluster, journal, offset, max_wait_ms: see `follow_history`.
    """
    found = fetch(cluster, journal.partition, offset, max_wait_ms)
    return _read(journal, found.records, found.next_offset)


def _read(journal: Journal, records: list[Record], next_offset: int) -> History:
    """Return the facts about the group in some records."""
    group = journal.group_id.encode()
    # Facts about a partition of __consumer_offsets have an empty group id.
    wanted = (len(group).to_bytes(2, "big") + group, b"\0\0")
    facts: list[Fact] = []
    unknown = 0
    for record in records:
        # Most records are about other groups; only their keys are read.
        if record.key is None or record.key[_TYPE_BYTES:] not in wanted:
            continue
        fact = journal_fact(journal.partition, record).fact
        if isinstance(fact, UnknownFact):
            unknown += 1
        elif _concerns(journal, fact):
            facts.append(fact)
    return History(facts, unknown, next_offset)


def journal_fact(partition: TopicPartition, record: Record) -> JournalRecord:
    """Return the fact of a record of the journal.

    Raises:
        ClientError: it is not a record of a journal.
    """
    try:
        return decode_fact(record.key, record.value)
    except MalformedFrame as error:
        name, index = partition
        raise ClientError(
            f"The record at offset {record.offset} of {name}-{index} is not a journal record: "
            f"{error}."
        ) from error


def _concerns(journal: Journal, fact: Fact) -> bool:
    """Return whether a fact is about the group or about its partition of the group log."""
    if isinstance(fact, PartitionLoaded | PartitionUnloaded):
        return fact.partition == journal.log_partition
    return True


def _no_journal(cluster: Cluster) -> NoJournal:
    """Return why there is no journal, according to the broker's setting."""
    node = cluster.brokers()[0]
    resource = DescribeConfigsRequestResource(
        resource_type=_BROKER_RESOURCE,
        resource_name=str(node.node_id),
        configuration_keys=[ENABLE_SETTING],
    )
    request = DescribeConfigsRequest(resources=[resource])
    response = cluster.call_node(node, request, DescribeConfigsResponse)
    values = {config.name: config.value for result in response.results for config in result.configs}
    enabled = values.get(ENABLE_SETTING)
    if enabled is None:
        return NoJournal(
            f"The broker at {node.address} keeps no journal of its groups: it has no topic "
            f"{JOURNAL_TOPIC}.",
            "Only Coterie keeps a journal (`coterie serve`). For other brokers, `coterie pipeline`"
            " derives the history of a group from __consumer_offsets.",
        )
    if enabled != "true":
        return NoJournal(
            f"The broker at {node.address} was started with {ENABLE_SETTING}={enabled}.",
            f"Start it with {ENABLE_SETTING}=true to record what happens from then on.",
        )
    return NoJournal(
        f"The journal of the broker at {node.address} is empty.",
        "It is created when the first member of a group joins.",
    )
