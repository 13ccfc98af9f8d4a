"""`kafka://HOST:PORT` as an input: the group log and the journal, read through Fetch.

Our own wire client asks the leaders of `__consumer_offsets` and `coterie.journal` for whole record
batches, and the codec of the segment files decodes them, so the rows are those that the files would
have given. It needs no connector and no Java, and works against any broker from Kafka 0.11 on.

Invariants: what is held at once is one answer (`ANSWER_BYTES`); positions are log offsets, so a
copy goes on where it ended, and a compaction in between changes nothing but what is gone; an input
goes by its cluster's id, so the same cluster under another address is not read twice.

Not known over the wire are the segments: each partition counts as one segment that begins at 0.
"""

import os
import struct
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.errors import ClientError, Refused
from coterie.client.offsets import EARLIEST, LATEST, partition_offsets
from coterie.pipeline.codec.decoder import SegmentDecoder
from coterie.pipeline.codec.piece import Source
from coterie.pipeline.codec.views import quarantined
from coterie.pipeline.tables import with_input
from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponsePartition,
)
from coterie.protocol.records import read_header
from coterie.protocol.topic_names import JOURNAL_TOPIC, OFFSETS_TOPIC
from coterie.protocol.wire import ZERO_UUID

SCHEME = "kafka://"
# The bronze table of each topic that is read.
TABLE_OF = {OFFSETS_TOPIC: "log_records", JOURNAL_TOPIC: "journal_records"}

# What one partition, and one broker, may put into an answer: the codec is fastest with 4 MiB at a
# time, and four of them make a round trip cheap.
PARTITION_BYTES = 4 << 20
ANSWER_BYTES = 16 << 20
_PREFIX = struct.Struct(">qi")


def is_kafka(source: str) -> bool:
    """Whether an input is a cluster's address, not a directory."""
    return source.startswith(SCHEME)


def address_of(source: str) -> str:
    """The brokers' addresses in such an input: HOST:PORT, or several with commas."""
    return source.removeprefix(SCHEME).rstrip("/")


def no_group_log(address: str) -> ClientError:
    """What to say of a cluster without consumer groups."""
    return ClientError(
        f"The cluster at {address} has no topic {OFFSETS_TOPIC}.",
        "It comes with the first consumer group; reading it may also be forbidden.",
    )


class Copying(NamedTuple):
    """How far the copying of a cluster has come.

    Attributes:
        source: kafka://HOST:PORT.
        done, total: log offsets, of which compaction may have left few records.
        rows: records so far.
    """

    source: str
    done: int
    total: int
    rows: int


CopyProgress = Callable[[Copying], None]


class Arrived(NamedTuple):
    """What one answer had of one partition.

    Attributes:
        topic, partition: whose.
        rows: the records, in the columns of the view `raw`.
        damaged: what could not be decoded, in those of `quarantine`.
        next_offset: where to go on.
        size_bytes: of the batches.
    """

    topic: str
    partition: int
    rows: pa.RecordBatch
    damaged: pa.RecordBatch
    next_offset: int
    size_bytes: int

    def tables(self, identity: str) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Its rows by the table they belong to, with the input in front."""
        for table, rows in ((TABLE_OF[self.topic], self.rows), ("quarantine", self.damaged)):
            if rows.num_rows:
                yield table, with_input(identity, table, rows)


class KafkaLog:
    """The logs of one cluster; use it in `with`.

    Attributes:
        source, address: as given, and without the scheme.
        identity: what the input goes by in tables and in the manifest.
        partitions: of each topic that exists.
    """

    def __init__(self, source: str, timeout_s: float = 30.0, *, crc: bool = True) -> None:
        """Connect and learn what there is.

        Args:
            source: kafka://HOST:PORT, or several addresses with commas.
            timeout_s: for one request with its retries.
            crc: whether to check checksums. Without, damage may become rows.

        Raises:
            ClientError: no broker answers, or the cluster has no group log yet.
            ValueError: that is no address.
        """
        self.source = source
        self.address = address_of(source)
        self._crc = crc
        self.cluster = Cluster(self.address, timeout_s)
        # Which partition stands first in a request: each in turn, so that none starves.
        self._turn = 0
        try:
            self._look()
        except BaseException:
            self.cluster.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cluster.close()

    def _look(self) -> None:
        answer = self.cluster.metadata(TABLE_OF)
        found = {topic.name: topic for topic in answer.topics if not topic.error_code}
        if OFFSETS_TOPIC not in found:
            raise no_group_log(self.address)
        # As a data directory of the cluster says in its meta.properties.
        self.identity = answer.cluster_id or SCHEME + self.address
        self._ids = {str(name): topic.topic_id for name, topic in found.items()}
        self.partitions = {
            topic: sorted(each.partition_index for each in found[topic].partitions)
            for topic in TABLE_OF
            if topic in found
        }

    def look_for_journal(self) -> bool:
        """Whether the journal exists by now; a broker makes it with the first group's event."""
        if JOURNAL_TOPIC not in self.partitions:
            self._look()
        return JOURNAL_TOPIC in self.partitions

    def first_offsets(self) -> dict[TopicPartition, int]:
        """Where each partition's log begins."""
        return partition_offsets(self.cluster, dict.fromkeys(self._all(), EARLIEST))

    def end_offsets(self) -> dict[TopicPartition, int]:
        """Where each partition's log ends now."""
        return partition_offsets(self.cluster, dict.fromkeys(self._all(), LATEST))

    def _all(self) -> list[TopicPartition]:
        return [(topic, number) for topic, some in self.partitions.items() for number in some]

    def read_to_end(self, positions: Mapping[TopicPartition, int]) -> Iterator[Arrived]:
        """Everything from the positions to where the logs end now.

        Args:
            positions: the next offset of each partition; partitions without one are read from
                their beginning.

        Raises:
            ClientError: a broker refuses, or a log is shorter than it was.
        """
        begins = {**self.first_offsets(), **positions}
        return self.read_between(begins, self.end_offsets())

    def read_between(
        self, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> Iterator[Arrived]:
        """What there is between some offsets.

        Args:
            begins, ends: by partition, for the same ones.

        Raises:
            ClientError: a broker refuses, or a log is shorter than it was.
        """
        refuse_truncated(begins, ends)
        offsets = dict(begins)
        pending = {each for each in ends if offsets[each] < ends[each]}
        while pending:
            some = {each: offsets[each] for each in pending}
            seen = False
            for arrived in self.fetch(some):
                seen = True
                partition = arrived.topic, arrived.partition
                offsets[partition] = arrived.next_offset
                yield arrived
            # Compaction may leave nothing before the end; then nobody sends anything.
            pending = {each for each in pending if offsets[each] < ends[each]} if seen else set()

    def fetch(
        self, positions: Mapping[TopicPartition, int], max_wait_ms: int = 0
    ) -> Iterator[Arrived]:
        """What there is from the positions on, as much as fits into one answer of each broker.

        Args:
            positions: the next offset of each partition that is wanted.
            max_wait_ms: how long a broker may wait for a record to come.

        Raises:
            ClientError: a broker refuses.
        """
        offsets = dict(positions)
        answers = self._ask(offsets, max_wait_ms)
        gone = [
            each
            for each, found in answers.items()
            if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        ]
        if gone:
            firsts = partition_offsets(self.cluster, dict.fromkeys(gone, EARLIEST))
            ends = partition_offsets(self.cluster, dict.fromkeys(gone, LATEST))
            refuse_truncated({each: offsets[each] for each in gone}, ends)
            offsets |= firsts
            answers |= self._ask(firsts, 0)
        for partition, found in answers.items():
            if found.error_code:
                raise Refused(found.error_code, f"Records of {partition[0]}-{partition[1]}")
            data = found.records or b""
            if data:
                yield _decoded(
                    self.address, partition, offsets[partition], bytes(data), crc=self._crc
                )

    def _ask(
        self, positions: Mapping[TopicPartition, int], max_wait_ms: int
    ) -> dict[TopicPartition, FetchResponsePartition]:
        names = {topic_id: topic for topic, topic_id in self._ids.items()}

        def request_for(some: list[TopicPartition]) -> FetchRequest:
            topics: dict[str, list[FetchRequestPartition]] = {}
            for topic, number in self._in_turn(some):
                wanted = FetchRequestPartition(
                    partition=number,
                    fetch_offset=positions[topic, number],
                    partition_max_bytes=PARTITION_BYTES,
                )
                topics.setdefault(topic, []).append(wanted)
            return FetchRequest(
                max_wait_ms=max_wait_ms,
                min_bytes=1 if max_wait_ms else 0,
                max_bytes=ANSWER_BYTES,
                topics=[
                    FetchRequestTopic(topic=topic, topic_id=self._ids[topic], partitions=parts)
                    for topic, parts in topics.items()
                ],
            )

        def results(
            answer: FetchResponse,
        ) -> dict[TopicPartition, tuple[int, FetchResponsePartition]]:
            if answer.error_code:
                raise Refused(answer.error_code, "Fetch")
            found = {}
            for topic in answer.responses:
                # By id from version 13 on.
                by_id = topic.topic_id != ZERO_UUID
                name = names.get(topic.topic_id, "") if by_id else topic.topic
                for each in topic.partitions:
                    found[name, each.partition_index] = (each.error_code, each)
            return found

        return self.cluster.ask_leaders(positions, request_for, FetchResponse, results)

    def _in_turn(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """An answer that is full leaves out those that stand last, so they stand first next."""
        self._turn += 1
        first = self._turn % max(len(partitions), 1)
        ordered = sorted(partitions)
        return ordered[first:] + ordered[:first]


def refuse_truncated(
    offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> None:
    """Refuse a log that ends before what was read of it: it is not the log that was read.

    Raises:
        ClientError: there is one.
    """
    for partition, offset in offsets.items():
        if offset > ends.get(partition, offset):
            raise ClientError(
                f"{partition[0]}-{partition[1]} ends at offset {ends[partition]}, but has been"
                f" read to {offset}: it was truncated, or made anew.",
                "Give another --output: what was read before can't be continued.",
            )


def _decoded(
    address: str, partition: TopicPartition, offset: int, data: bytes, *, crc: bool = True
) -> Arrived:
    """The whole batches of an answer, decoded."""
    topic, number = partition
    size_bytes, last = _whole_batches(data)
    if not size_bytes:
        raise ClientError(
            f"The broker sent no whole batch of {topic}-{number} at offset {offset},"
            f" but {len(data)} bytes."
        )
    data = data[:size_bytes]
    # Bytes of an answer stand in no file; they are told by where the answer begins.
    source = Source(number, f"{SCHEME}{address}/{topic}-{number} from offset {offset}", 0)
    decoder = SegmentDecoder(TABLE_OF[topic], source, first_offset=offset, crc=crc)
    decoded = decoder.decode(data, 0, final=True)
    damaged = quarantined(source, decoded.damages)
    next_offset = decoder.last_offset + 1
    if next_offset <= offset:
        # Nothing of it is sound. Its headers, believed or not, must lead past it.
        next_offset = max(offset + 1, _next_offset(data, last))
    return Arrived(topic, number, decoded.rows, damaged, next_offset, size_bytes)


def _whole_batches(data: bytes) -> tuple[int, int]:
    """How many bytes of an answer are whole batches, and where the last of them begins."""
    position = last = 0
    end = len(data)
    while position + _PREFIX.size <= end:
        _, length = _PREFIX.unpack_from(data, position)
        stop = position + _PREFIX.size + length
        if length <= 0 or stop > end:
            break
        last, position = position, stop
    return position, last


def _next_offset(data: bytes, position: int) -> int:
    try:
        return read_header(data, position).next_offset
    except MalformedFrame:
        return 0


class Spooled(NamedTuple):
    """What a copy brought.

    Attributes:
        directories: by bronze table where its Parquet files are; tables without rows are missing.
        positions: by topic and partition the next offset to read.
        rows, size_bytes: how many records, and how much log they were.
    """

    directories: dict[str, str]
    positions: dict[str, dict[int, int]]
    rows: int
    size_bytes: int


def spool(
    log: KafkaLog,
    positions: Mapping[TopicPartition, int],
    directory: str,
    progress: CopyProgress | None = None,
) -> Spooled:
    """Copy everything new, to where the logs end now, into Parquet files.

    Args:
        log: of the cluster.
        positions: how far it has been read.
        directory: where to put a directory for each bronze table; it must exist.
        progress: is told how far it has come.

    Raises:
        ClientError: a broker refuses, or a log is shorter than it was.
    """
    directories: dict[str, str] = {}
    writers: dict[str, pq.ParquetWriter] = {}
    reached: dict[str, dict[int, int]] = {}
    rows = size_bytes = 0
    begins, ends = {**log.first_offsets(), **positions}, log.end_offsets()
    left = {each: end - begins[each] for each, end in ends.items() if begins[each] < end}
    total = sum(left.values())
    try:
        for arrived in log.read_between(begins, ends):
            reached.setdefault(arrived.topic, {})[arrived.partition] = arrived.next_offset
            for table, batch in arrived.tables(log.identity):
                if table not in writers:
                    directories[table] = os.path.join(directory, table)
                    os.makedirs(directories[table])
                    path = os.path.join(directories[table], "records.parquet")
                    writers[table] = pq.ParquetWriter(path, batch.schema)
                writers[table].write_batch(batch)
            rows += arrived.rows.num_rows
            size_bytes += arrived.size_bytes
            partition = arrived.topic, arrived.partition
            left[partition] = max(0, ends[partition] - arrived.next_offset)
            if progress is not None:
                progress(Copying(log.source, total - sum(left.values()), total, rows))
    finally:
        for writer in writers.values():
            writer.close()
    return Spooled(directories, reached, rows, size_bytes)
