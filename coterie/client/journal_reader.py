"""The journal of all groups: what is in it, and then each fact as it is recorded.

`history` reads the journal of one group; this reads that of a whole cluster with one request to
each broker, and tells the facts about partitions of the group log to the groups that are in them.
"""

from collections import deque
from typing import NamedTuple

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.history import journal_fact, journal_topics
from coterie.client.offsets import LATEST, partition_offsets
from coterie.client.records import fetch_each
from coterie.protocol.java_hash import partition_for
from coterie.protocol.messages.journal_records import Fact, UnknownFact
from coterie.protocol.messages.partition_facts import PartitionLoaded, PartitionUnloaded
from coterie.protocol.records import Record
from coterie.protocol.topic_names import JOURNAL_TOPIC

# The last loads and unloads of a partition that groups without other facts receive later.
_PARTITION_FACTS = 16


class NewFacts(NamedTuple):
    """Facts that were not read before.

    Attributes:
        by_group: the facts of each group, in order.
        is_complete: whether there were no more at that time.
    """

    by_group: dict[str, list[Fact]]
    is_complete: bool


class JournalReader:
    """Reads the journal of a cluster from a time on; each call of `read` continues.

    Facts about partitions of the group log are added to those of each group that is in them and has
    other facts, before these facts or after them as they happened.
    """

    def __init__(self, cluster: Cluster, since_ms: int) -> None:
        """Find the beginning.

        Args:
            cluster: the cluster.
            since_ms: epoch milliseconds; earlier facts are left out.

        Raises:
            NoJournal: there is none; the cause says why.
        """
        journal, offsets = journal_topics(cluster)
        self._since_ms = since_ms
        self._log_partitions = len(offsets.partitions)
        self._leaders = len({each.leader for each in journal.partitions})
        partitions = [(JOURNAL_TOPIC, each.partition_index) for each in journal.partitions]
        begins = partition_offsets(cluster, dict.fromkeys(partitions, since_ms))
        recent = [each for each, offset in begins.items() if offset < 0]
        # Where no record is that recent, reading begins at the end.
        ends = partition_offsets(cluster, dict.fromkeys(recent, LATEST)) if recent else {}
        self._offsets: dict[TopicPartition, int] = dict(sorted((begins | ends).items()))
        # The facts about partitions of the group log, and the groups that are in these.
        self._of_partitions: dict[int, deque[Fact]] = {}
        self._groups_of: dict[int, list[str]] = {}
        self._known: set[str] = set()

    def read(self, cluster: Cluster, max_wait_ms: int = 0) -> NewFacts:
        """Return the next facts.

        Args:
            cluster: the cluster; another connection than before after an error.
            max_wait_ms: how long the brokers may wait for new facts, taken together.
        """
        found = fetch_each(cluster, self._offsets, max_wait_ms // self._leaders)
        new: dict[str, list[Fact]] = {}
        for partition in self._offsets:
            for record in found[partition].records:
                self._add(partition, record, new)
        ended = all(each.next_offset >= each.end_offset for each in found.values())
        after = {partition: found[partition].next_offset for partition in self._offsets}
        # A partition that the response had no room for has its turn with the next request.
        is_complete = ended or after == self._offsets
        self._offsets = after
        return NewFacts(new, is_complete)

    def _add(self, partition: TopicPartition, record: Record, new: dict[str, list[Fact]]) -> None:
        group_id, fact = journal_fact(partition, record)
        if isinstance(fact, UnknownFact) or fact.at_ms < self._since_ms:
            return
        if isinstance(fact, PartitionLoaded | PartitionUnloaded):
            none = deque[Fact](maxlen=_PARTITION_FACTS)
            self._of_partitions.setdefault(fact.partition, none).append(fact)
            for each in self._groups_of.get(fact.partition, ()):
                new.setdefault(each, []).append(fact)
            return
        if group_id not in self._known:
            count = self._log_partitions
            number = partition_for(group_id, count) if count else -1
            self._known.add(group_id)
            self._groups_of.setdefault(number, []).append(group_id)
            new[group_id] = list(self._of_partitions.get(number, ()))
        new.setdefault(group_id, []).append(fact)


def read_histories(cluster: Cluster, since_ms: int) -> dict[str, list[Fact]]:
    """Return the facts of every group up to now.

    Args:
        cluster: the cluster.
        since_ms: epoch milliseconds.

    Raises:
        NoJournal: there is none.
    """
    reader = JournalReader(cluster, since_ms)
    histories: dict[str, list[Fact]] = {}
    while True:
        found = reader.read(cluster)
        for group_id, facts in found.by_group.items():
            histories.setdefault(group_id, []).extend(facts)
        if found.is_complete:
            return histories
