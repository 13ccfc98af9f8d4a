"""Following a cluster by its protocol: a thread that fetches, appends, and asks where logs end.

A broker that is restarted is waited for; a log that is not the one that was read ends everything.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from coterie.client.cluster import TopicPartition
from coterie.client.errors import BrokerTimedOut, BrokerUnreachable, ClientError, ConnectionLost
from coterie.pipeline.jobs.inputs import new_label
from coterie.pipeline.jobs.live_store import LiveStore
from coterie.pipeline.kafka_input import TABLE_OF, Arrived, KafkaLog
from coterie.pipeline.lag import log_ends
from coterie.pipeline.segments import OFFSETS_TOPIC
from coterie.pipeline.store import Store
from protocol.errors import MalformedFrame
from protocol.messages.log_records import OffsetCommitKey, decode_key

# How often brokers are asked where the partitions end that groups have committed to.
LOG_ENDS_EVERY_S = 30.0
_JOURNAL_EVERY_S = 5.0
_RETRY_S = 1.0
_STOP_S = 60.0

Append = Callable[[str, str, dict[str, str], dict[int, int], int, dict[str, Any] | None], None]


class Wire(threading.Thread):
    """One cluster that is followed; start it, look at it now and then, stop it."""

    def __init__(self, source: str, store: LiveStore, append: Append, trigger_ms: int) -> None:
        """Follow a cluster.

        Args:
            source: kafka://HOST:PORT.
            store: where to append.
            append: lets written parts count, see `follow.py`.
            trigger_ms: the least time between two appends.
        """
        super().__init__(name=f"follow {source}", daemon=True)
        self._source = source
        self._store = store
        self._append = append
        self._trigger_ms = trigger_ms
        self._stopping = threading.Event()
        self._error: Exception | None = None
        # Keys of commits that were seen, for the partitions that are asked about.
        self._keys: set[bytes] = set()
        self._committed: set[TopicPartition] = set()

    def look(self) -> None:
        """Raise if the thread has ended by an error."""
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End it; what it is about to commit it still may."""
        self._stopping.set()
        self.join(_STOP_S)

    def run(self) -> None:
        """Follow until stopped; connect again when the cluster was away."""
        is_done = False
        while not is_done:
            try:
                with KafkaLog(self._source) as log:
                    self._follow(log)
                is_done = True
            except (BrokerUnreachable, BrokerTimedOut, ConnectionLost):
                is_done = self._stopping.wait(_RETRY_S)
            except Exception as error:  # noqa: BLE001 - raised again by `look`, in the main thread
                self._error = error
                is_done = True

    def _follow(self, log: KafkaLog) -> None:
        about = about_cluster(self._store, log, self._source)
        positions = known_positions(self._store, log)
        asked_s = looked_s = 0.0
        while not self._stopping.is_set():
            began_s = time.monotonic()
            arrived = list(log.fetch(positions, self._trigger_ms))
            self._take_all(log, arrived, about)
            positions |= {(each.topic, each.partition): each.next_offset for each in arrived}
            now_s = time.monotonic()
            if self._committed and now_s - asked_s >= LOG_ENDS_EVERY_S:
                self._ask_log_ends(log)
                asked_s = now_s
            if now_s - looked_s >= _JOURNAL_EVERY_S:
                looked_s = now_s
                if log.look_for_journal():
                    positions = log.first_offsets() | positions
            self._stopping.wait(max(0.0, self._trigger_ms / 1000 - (time.monotonic() - began_s)))

    def _take_all(self, log: KafkaLog, arrived: list[Arrived], about: dict[str, Any]) -> None:
        for topic in TABLE_OF:
            some = [each for each in arrived if each.topic == topic]
            if some:
                self._take(log, topic, some, about)

    def _take(
        self, log: KafkaLog, topic: str, arrived: list[Arrived], about: dict[str, Any]
    ) -> None:
        """Append what answers had of one topic."""
        batches: dict[str, list[pa.RecordBatch]] = {}
        for each in arrived:
            for table, rows in each.tables(log.identity):
                batches.setdefault(table, []).append(rows)
            if topic == OFFSETS_TOPIC:
                self._note_commits(each.rows)
        directories = {
            table: self._store.write_rows(table, some) for table, some in batches.items()
        }
        reached = {each.partition: each.next_offset for each in arrived}
        count = sum(each.rows.num_rows for each in arrived)
        self._append(log.identity, topic, directories, reached, count, about)

    def _note_commits(self, rows: pa.RecordBatch) -> None:
        """Remember which partitions groups have committed to."""
        commits = pc.less_equal(rows.column("key_type"), 1)
        for key in pc.unique(rows.column("key").filter(commits)).to_pylist():
            if key is None or key in self._keys:
                continue
            self._keys.add(key)
            partition = committed_partition(key)
            if partition is not None:
                self._committed.add(partition)

    def _ask_log_ends(self, log: KafkaLog) -> None:
        try:
            ends = log_ends(log.cluster, self._committed, int(time.time() * 1000))
        except ClientError:
            # Nobody tells: then the lag of this moment is not known.
            return
        if ends.num_rows:
            directory = self._store.write_rows("log_ends", [ends])
            self._append(log.identity, "", {"log_ends": directory}, {}, 0, None)


def about_cluster(store: Store, log: KafkaLog, source: str) -> dict[str, Any]:
    """What to remember of a cluster, as of a data directory.

    Args:
        store: which may know it already.
        log: of the cluster.
        source: the address that was given for it.
    """
    known = store.about(log.identity)
    labels = {name: store.about(name).get("label", "") for name in store.inputs}
    label = known["label"] if known else new_label(source, labels)
    return {
        "paths": list(dict.fromkeys([*known.get("paths", []), source])),
        "label": label,
        "partitions": {topic: len(log.partitions.get(topic, [])) or None for topic in TABLE_OF},
    }


def known_positions(store: Store, log: KafkaLog) -> dict[TopicPartition, int]:
    """How far a cluster was read; where a partition begins if it is new."""
    positions = log.first_offsets()
    for topic in log.partitions:
        known = store.position(log.identity, topic)
        positions |= {(topic, number): offset for number, offset in known.items()}
    return positions


def committed_partition(key: bytes) -> TopicPartition | None:
    """What a commit with this key is about; None where that can't be told."""
    try:
        decoded = decode_key(key)
    except MalformedFrame:
        return None
    return (decoded.topic, decoded.partition) if isinstance(decoded, OffsetCommitKey) else None
