"""Following a cluster by its protocol: a thread that fetches, appends, and asks where logs end.

A broker that is restarted is waited for; a log that is not the one that was read ends everything.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sized
from typing import Any

import pyarrow as pa

from coterie.client.cluster import LEADER_MOVES, TopicPartition
from coterie.client.errors import (
    BrokerTimedOut,
    BrokerUnreachable,
    ClientError,
    ConnectionLost,
    Refused,
)
from coterie.pipeline.jobs.inputs import new_label
from coterie.pipeline.jobs.live_store import LiveStore
from coterie.pipeline.kafka_input import TABLE_OF, Arrived, KafkaLog
from coterie.pipeline.lag import commit_keys, committed_in, committed_partition, log_ends
from coterie.pipeline.store import Store
from coterie.protocol.topic_names import JOURNAL_TOPIC, OFFSETS_TOPIC

# How often brokers are asked where the partitions end that groups have committed to.
LOG_ENDS_EVERY_S = 30.0
_JOURNAL_EVERY_S = 5.0
_RETRY_S = 1.0
_STOP_S = 60.0

Append = Callable[[str, str, dict[str, str], dict[int, int], int, dict[str, Any] | None], None]


class Wire(threading.Thread):
    """One cluster that is followed; start it, look at it now and then, stop it."""

    def __init__(
        self,
        source: str,
        store: LiveStore,
        append: Append,
        trigger_ms: int,
        *,
        crc: bool = True,
    ) -> None:
        """Follow a cluster.

        Args:
            source: kafka://HOST:PORT.
            store: where to append.
            append: lets written parts count, see `follow.py`.
            trigger_ms: the least time between two appends.
            crc: whether to check checksums.
        """
        super().__init__(name=f"follow {source}", daemon=True)
        self._source = source
        self._store = store
        self._append = append
        self._trigger_ms = trigger_ms
        self._crc = crc
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
                with KafkaLog(self._source, crc=self._crc) as log:
                    self._follow(log)
                is_done = True
            except Exception as error:  # noqa: BLE001 - raised again by `look`, in the main thread
                if _is_away(error):
                    is_done = self._stopping.wait(_RETRY_S)
                else:
                    self._error = error
                    is_done = True

    def _follow(self, log: KafkaLog) -> None:
        about = about_cluster(self._store, log.identity, log.partitions, self._source)
        positions = known_positions(self._store, log)
        self._committed |= committed_in(self._store.files("log_records"), log.identity)
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
            if JOURNAL_TOPIC not in log.partitions and now_s - looked_s >= _JOURNAL_EVERY_S:
                looked_s = now_s
                if log.look_for_journal():
                    positions = known_positions(self._store, log) | positions
                    about = about_cluster(self._store, log.identity, log.partitions, self._source)
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
        new = commit_keys(rows) - self._keys
        self._keys |= new
        self._committed.update(filter(None, map(committed_partition, new)))

    def _ask_log_ends(self, log: KafkaLog) -> None:
        try:
            ends = log_ends(log.cluster, self._committed, int(time.time() * 1000))
        except ClientError:
            # Nobody tells: then the lag of this moment is not known.
            return
        if ends.num_rows:
            directory = self._store.write_rows("log_ends", [ends])
            self._append(log.identity, "", {"log_ends": directory}, {}, 0, None)


def _is_away(error: Exception) -> bool:
    """Whether the cluster is to be waited for: nobody answers, or partitions have no leader."""
    if isinstance(error, Refused):
        return error.code in LEADER_MOVES
    return isinstance(error, BrokerUnreachable | BrokerTimedOut | ConnectionLost)


def about_cluster(
    store: Store, identity: str, partitions: Mapping[str, Sized], source: str
) -> dict[str, Any]:
    """What to remember of a cluster, as of a data directory.

    Args:
        store: which may know it already.
        identity: what the input goes by.
        partitions: of each topic that exists.
        source: the address that was given for it.
    """
    known = store.about(identity)
    labels = {name: store.about(name).get("label", "") for name in store.inputs}
    label = known["label"] if known else new_label(source, labels)
    return {
        "paths": list(dict.fromkeys([*known.get("paths", []), source])),
        "label": label,
        "partitions": {topic: len(partitions.get(topic, ())) or None for topic in TABLE_OF},
    }


def known_positions(store: Store, log: KafkaLog) -> dict[TopicPartition, int]:
    """How far a cluster was read; where a partition begins if it is new."""
    positions = log.first_offsets()
    for topic in log.partitions:
        known = store.position(log.identity, topic)
        positions |= {(topic, number): offset for number, offset in known.items()}
    return positions
