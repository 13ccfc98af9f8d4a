"""The records of one group in its partition of `__consumer_offsets`, read on and on.

They have what no request returns: the time of each commit, and on any Kafka the completed
generations; of consumer groups (KIP-848) who had which partitions. Invariant: memory is bounded by
`MAX_ROWS` and `MAX_COMMITS`, whatever the log has.
"""

from collections import deque
from typing import Any

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.offsets import EARLIEST, LATEST, partition_offsets
from coterie.client.records import fetch
from coterie.client.topics import describe_topics
from coterie.pipeline.plain_log import PlainRecord, plain_row
from coterie.pipeline.records import timestamp_us
from coterie.pipeline.timeline.with_departures import Commit
from coterie.protocol.java_hash import partition_for
from coterie.protocol.topic_names import OFFSETS_TOPIC

# A page draws a thousand rebalances; a group that rebalances has a record for each of them, and a
# consumer group a few for each of its members.
MAX_ROWS = 10_000
# Commits that say how members left; a minute of a large group.
MAX_COMMITS = 50_000
# Reading begins so many records before the end: a cleaner that does not run must not cost minutes.
MAX_RECORDS = 500_000
# A key begins with its type, which is followed by the length of the group id and the group id.
_TYPE_BYTES = 2
_VIEWS = ("groups", "consumer_epochs")

Row = dict[str, Any]


class GroupLog:
    """What the group log says of a group.

    Attributes:
        generations: rows of the view `groups`, in order.
        epochs: rows of the view `consumer_epochs`, in order.
        commits: the newest commits, in order.
        commit_times: when each partition was committed last, in epoch milliseconds.
    """

    def __init__(self, group_id: str) -> None:
        """Remember the group; nothing is read yet."""
        self.generations: deque[Row] = deque(maxlen=MAX_ROWS)
        self.epochs: deque[Row] = deque(maxlen=MAX_ROWS)
        self.commits: deque[Commit] = deque(maxlen=MAX_COMMITS)
        self.commit_times: dict[TopicPartition, int] = {}
        self._group_id = group_id
        encoded = group_id.encode()
        self._key = len(encoded).to_bytes(2, "big") + encoded
        self._place: TopicPartition | None = None
        self._offset = 0

    def read(self, cluster: Cluster) -> bool:
        """Read to the end; return whether there are new generations or epochs.

        A broker that does not show the topic, for lack of authorization, has nothing to read.
        """
        if self._place is None and not self._find(cluster):
            return False
        assert self._place is not None, "it was found"
        has_news, before = False, self._offset
        while True:
            found = fetch(cluster, self._place, self._offset)
            if found.end_offset < before:
                # It is another log: the broker has lost its data.
                self._forget()
                return True
            for record in found.records:
                # Most records are of other groups; only the beginning of their keys is read.
                if (record.key or b"").startswith(self._key, _TYPE_BYTES):
                    at_us = timestamp_us(record.timestamp_ms)
                    plain = PlainRecord(record.offset, at_us, record.key or b"", record.value)
                    has_news |= self._note(plain)
            moved = found.next_offset > self._offset
            self._offset = found.next_offset
            if not moved or found.next_offset >= found.end_offset:
                return has_news

    def _forget(self) -> None:
        for each in (self.generations, self.epochs, self.commits, self.commit_times):
            each.clear()
        self._place, self._offset = None, 0

    def last_generation(self, state: str) -> tuple[int, int] | None:
        """Return the number of the last generation, and when it was completed.

        Args:
            state: that of the group now; the log has only the ends of rebalances, so it says
                nothing of a group that is in one.
        """
        row = self.generations[-1] if self.generations else None
        if row is None or row["state"] != state or row["generation"] is None:
            return None
        at = row["record_ts"] or row["state_ts"]
        return None if at is None else (row["generation"], round(at.timestamp() * 1000))

    def _find(self, cluster: Cluster) -> bool:
        (topic,) = describe_topics(cluster, [OFFSETS_TOPIC])
        if topic.error or not topic.partitions:
            return False
        place = OFFSETS_TOPIC, partition_for(self._group_id, len(topic.partitions))
        begin = partition_offsets(cluster, {place: EARLIEST})[place]
        end = partition_offsets(cluster, {place: LATEST})[place]
        self._place, self._offset = place, max(begin, end - MAX_RECORDS)
        return True

    def _note(self, record: PlainRecord) -> bool:
        commit = plain_row(record, "commits")
        if commit is not None and commit["group_id"] == self._group_id:
            self._note_commit(commit)
            return False
        for view, rows in zip(_VIEWS, (self.generations, self.epochs), strict=True):
            row = plain_row(record, view)
            if row is not None and row["group_id"] == self._group_id:
                rows.append(row)
                return True
        return False

    def _note_commit(self, row: Row) -> None:
        place = row["topic"], row["partition"]
        if row["is_tombstone"]:
            self.commit_times.pop(place, None)
            return
        if row["commit_ts"] is not None:
            self.commit_times[place] = round(row["commit_ts"].timestamp() * 1000)
        if row["record_ts"] is not None:
            self.commits.append(Commit(*place, round(row["record_ts"].timestamp() * 1_000_000)))
