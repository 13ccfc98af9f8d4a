"""Follow a cluster over the wire: a thread that fetches, appends, and requests the ends of logs.

The thread waits for a broker that is being restarted, and for the first consumer group. A log that
is not the one that was read is an error, which ends following.
"""

import threading
import time
from collections.abc import Mapping, Sized
from typing import Any

import pyarrow as pa

from coterie.client.cluster import RETRIABLE_LEADER_ERRORS, TopicPartition
from coterie.client.errors import (
    BrokerTimedOut,
    BrokerUnreachable,
    ClientError,
    ConnectionLost,
    Refused,
)
from coterie.client.security import PLAINTEXT, Security
from coterie.pipeline.jobs.inputs import new_label
from coterie.pipeline.jobs.live_store import Append, LiveStore
from coterie.pipeline.kafka_input import TABLE_OF, FetchedRows, KafkaLog, NoGroupLog
from coterie.pipeline.lag import (
    commit_keys,
    committed_in,
    committed_partition,
    log_ends,
    shared_partitions,
)
from coterie.pipeline.store import Store
from coterie.protocol.topic_names import OFFSETS_TOPIC

# How often brokers are asked for the ends of the partitions that groups have committed to.
LOG_ENDS_EVERY_S = 30.0
_TOPICS_EVERY_S = 5.0
_RETRY_S = 1.0
_STOP_S = 60.0


class Wire(threading.Thread):
    """One cluster that is followed; start it, call `check` from time to time, stop it."""

    def __init__(
        self,
        source: str,
        store: LiveStore,
        append: Append,
        trigger_ms: int,
        *,
        crc: bool = True,
        security: Security = PLAINTEXT,
    ) -> None:
        """Follow a cluster.

        Args:
            source: kafka://HOST:PORT.
            store: the output directory.
            append: commits written parts, see `_Following.append` in `follow.py`.
            trigger_ms: the shortest time between two appends.
            crc: whether to check checksums.
            security: how connections to the cluster are secured.
        """
        super().__init__(name=f"follow {source}", daemon=True)
        self._source = source
        self._store = store
        self._append = append
        self._trigger_ms = trigger_ms
        self._crc = crc
        self._security = security
        self._stopping = threading.Event()
        self._error: Exception | None = None
        # The keys of all commits so far. Their partitions are those whose ends are requested.
        self._keys: set[bytes] = set()
        self._committed: set[TopicPartition] = set()

    def check(self) -> None:
        """Raise the error that has ended the thread, if there was one."""
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End the thread. An append that has begun is completed."""
        self._stopping.set()
        self.join(_STOP_S)

    def run(self) -> None:
        """Follow until stopped; connect again after the cluster was unavailable."""
        is_done = False
        while not is_done:
            try:
                with KafkaLog(self._source, crc=self._crc, security=self._security) as log:
                    self._follow(log)
                is_done = True
            except Exception as error:  # noqa: BLE001 - raised again by `check`, in the main thread
                if _is_unavailable(error):
                    is_done = self._stopping.wait(_RETRY_S)
                else:
                    self._error = error
                    is_done = True

    def _follow(self, log: KafkaLog) -> None:
        about = about_cluster(self._store, log.identity, log.partitions, self._source)
        positions = known_positions(self._store, log)
        with self._store.unmerged():
            files = self._store.files("log_records")
            self._committed |= committed_in(files, log.identity)
        log_ends_s = topics_s = 0.0
        while not self._stopping.is_set():
            began_s = time.monotonic()
            fetched = list(log.fetch(positions, self._trigger_ms))
            for topic in TABLE_OF:
                if of_topic := [each for each in fetched if each.topic == topic]:
                    self._append_rows(log, topic, of_topic, about)
            positions |= {(each.topic, each.partition): each.next_offset for each in fetched}
            now_s = time.monotonic()
            if self._committed and now_s - log_ends_s >= LOG_ENDS_EVERY_S:
                self._append_log_ends(log)
                log_ends_s = now_s
            if now_s - topics_s >= _TOPICS_EVERY_S:
                topics_s = now_s
                if log.look_for_topics():
                    positions = known_positions(self._store, log) | positions
                    about = about_cluster(self._store, log.identity, log.partitions, self._source)
            self._stopping.wait(max(0.0, self._trigger_ms / 1000 - (time.monotonic() - began_s)))

    def _append_rows(
        self, log: KafkaLog, topic: str, fetched: list[FetchedRows], about: dict[str, Any]
    ) -> None:
        """Append the rows of one topic."""
        batches: dict[str, list[pa.RecordBatch]] = {}
        for each in fetched:
            for table, rows in each.tables(log.identity):
                batches.setdefault(table, []).append(rows)
            if topic == OFFSETS_TOPIC:
                self._note_commits(each.rows)
        directories = {
            table: self._store.write_rows(table, some) for table, some in batches.items()
        }
        reached = {each.partition: each.next_offset for each in fetched}
        count = sum(each.rows.num_rows for each in fetched)
        self._append(log.identity, topic, directories, reached, count, about)

    def _note_commits(self, rows: pa.RecordBatch) -> None:
        """Remember the partitions that groups have committed to, or share."""
        self._committed |= shared_partitions(rows)
        new = commit_keys(rows) - self._keys
        self._keys |= new
        self._committed.update(filter(None, map(committed_partition, new)))

    def _append_log_ends(self, log: KafkaLog) -> None:
        try:
            now_ms = int(time.time() * 1000)
            # The ends of earlier minutes were requested in those.
            ends = log_ends(log.identity, log.cluster, self._committed, now_ms, with_earlier=False)
        except ClientError:
            # The lag of this minute remains unknown. The next request may succeed.
            return
        if ends.num_rows:
            directory = self._store.write_rows("log_ends", [ends])
            self._append(log.identity, "", {"log_ends": directory}, {}, 0, None)


def _is_unavailable(error: Exception) -> bool:
    """Return whether to wait for the cluster [pipeline/log-ends]."""
    if isinstance(error, Refused):
        return error.code in RETRIABLE_LEADER_ERRORS
    return isinstance(error, BrokerUnreachable | BrokerTimedOut | ConnectionLost | NoGroupLog)


def about_cluster(
    store: Store, identity: str, partitions: Mapping[str, Sized], source: str
) -> dict[str, Any]:
    """Return what the manifest stores about a cluster.

    Args:
        store: the output directory, which may have read the cluster before.
        identity: the name of the input.
        partitions: the partitions of each topic that exists.
        source: the address that was given for it.
    """
    known = store.about(identity)
    labels = {name: store.about(name).get("label", "") for name in store.inputs}
    label = known["label"] if known else new_label(source, labels)
    return {
        "paths": list(dict.fromkeys([*known.get("paths", []), source])),
        "label": label,
        "partitions": {topic: len(partitions.get(topic, ())) or None for topic in TABLE_OF},
        "topics": known.get("topics", {}),
    }


def known_positions(store: Store, log: KafkaLog) -> dict[TopicPartition, int]:
    """Return how far each partition of a cluster was read; for a new one, where it begins."""
    positions = log.first_offsets()
    for topic in log.partitions:
        known = store.position(log.identity, topic)
        positions |= {(topic, number): offset for number, offset in known.items()}
    return positions
