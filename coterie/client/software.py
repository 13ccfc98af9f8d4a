"""The client libraries of members, read from the journal of a Coterie broker.

A client names its library in ApiVersions. Kafka keeps it for its metrics and returns it in no
response, so it is known only where a broker writes it down [journal/members].
"""

from collections.abc import Collection
from typing import NamedTuple

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.errors import ClientError
from coterie.client.offsets import EARLIEST, LATEST, partition_offsets
from coterie.client.records import fetch
from coterie.client.topics import describe_topics
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.journal_records import (
    FACTS,
    Fact,
    MemberJoined,
    StaticMemberReplaced,
    UnknownFact,
    decode_fact,
)
from coterie.protocol.records import Record
from coterie.protocol.topic_names import JOURNAL_TOPIC

_ARRIVALS = (MemberJoined, StaticMemberReplaced)
# The first bytes of the keys of these facts. No other record is decoded.
_PREFIXES = tuple(
    each.record_type.to_bytes(2, "big") for each in FACTS if each.fact_class in _ARRIVALS
)


class Software(NamedTuple):
    """The client of a member: name and version of its library, and who has logged in.

    What it has not said is None.
    """

    name: str | None
    version: str | None
    principal: str | None = None

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


def client_software(cluster: Cluster, member_ids: Collection[str]) -> dict[str, Software]:
    """Return the library of each member whose arrival is in the journal.

    Without a journal, which only Coterie keeps, that is none.

    Args:
        cluster: the cluster.
        member_ids: members of any groups.
    """
    (journal,) = describe_topics(cluster, [JOURNAL_TOPIC])
    found: dict[str, Software] = {}
    if journal.error or not member_ids:
        return found
    partitions = [(JOURNAL_TOPIC, each.partition_index) for each in journal.partitions]
    starts = partition_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    ends = partition_offsets(cluster, dict.fromkeys(partitions, LATEST))
    for partition in partitions:
        offset = starts[partition]
        while offset < ends[partition]:
            fetched = fetch(cluster, partition, offset)
            for record in fetched.records:
                if (record.key or b"").startswith(_PREFIXES):
                    _note_arrival(_arrival(partition, record), member_ids, found)
            if fetched.next_offset <= offset:
                break
            offset = fetched.next_offset
    return found


def _arrival(partition: TopicPartition, record: Record) -> Fact | UnknownFact:
    try:
        return decode_fact(record.key, record.value).fact
    except MalformedFrame as error:
        raise ClientError(
            f"The record at offset {record.offset} of {partition[0]}-{partition[1]} is not a"
            f" journal record: {error}."
        ) from error


def _note_arrival(
    fact: Fact | UnknownFact, member_ids: Collection[str], found: dict[str, Software]
) -> None:
    if isinstance(fact, MemberJoined | StaticMemberReplaced) and fact.member_id in member_ids:
        name, version = fact.client_software_name, fact.client_software_version
        if name is not None or fact.principal is not None:
            found[fact.member_id] = Software(name, version, fact.principal)
