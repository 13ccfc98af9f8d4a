"""`kafka://HOST:PORT` as an input: the group log, the journal and the states of share groups.

Our own wire client fetches whole record batches of their topics from the leaders, and the codec of
the segment files decodes them. This needs no Java, and works with every broker since Kafka 0.11.

Invariants: at most one response (`RESPONSE_BYTES`) is in memory at a time. Positions are log
offsets, so a copy continues where the last one ended, even after a compaction. An input is
identified by its cluster's id [pipeline/input-identity].
"""

import os
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Self

import pyarrow as pa
import pyarrow.parquet as pq

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.errors import ClientError, Refused
from coterie.client.offsets import EARLIEST, LATEST, partition_offsets
from coterie.client.security import PLAINTEXT, Security
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
from coterie.protocol.record_batch_layout import BASE_OFFSET_AND_LENGTH
from coterie.protocol.records import read_header
from coterie.protocol.topic_names import JOURNAL_TOPIC, OFFSETS_TOPIC, SHARE_GROUPS_TOPIC
from coterie.protocol.wire import ZERO_UUID

SCHEME = "kafka://"
# The bronze table for each topic that is read.
TABLE_OF = {
    OFFSETS_TOPIC: "log_records",
    JOURNAL_TOPIC: "journal_records",
    SHARE_GROUPS_TOPIC: "share_state_records",
}

# The limits of a response for one partition and for all of them. The codec is fastest with 4 MiB at
# a time, and four partitions per round trip make the round trip cheap.
PARTITION_BYTES = 4 << 20
RESPONSE_BYTES = 16 << 20


def is_kafka(source: str) -> bool:
    """Return whether an input is a cluster's address and not a directory."""
    return source.startswith(SCHEME)


def address_of(source: str) -> str:
    """Return the brokers' addresses of such an input: HOST:PORT, or several with commas."""
    return source.removeprefix(SCHEME).rstrip("/")


class NoGroupLog(ClientError):  # noqa: N818 - it describes the cluster
    """A cluster has had no consumer group yet.

    Args:
        address: of the cluster.
    """

    def __init__(self, address: str) -> None:
        super().__init__(
            f"The cluster at {address} has no topic {OFFSETS_TOPIC}.",
            "The first consumer group creates it. The user may also lack permission to read it.",
        )


class Copying(NamedTuple):
    """The progress of copying a cluster.

    Attributes:
        source: kafka://HOST:PORT.
        done, total: log offsets; compaction may have left few records among them.
        rows: records so far.
    """

    source: str
    done: int
    total: int
    rows: int


CopyProgress = Callable[[Copying], None]


class FetchedRows(NamedTuple):
    """The rows of one partition in one response.

    Attributes:
        topic, partition: the partition.
        rows: the records, with the columns of the view `raw`.
        damaged: what could not be decoded, with the columns of `quarantine`.
        next_offset: the offset of the next request.
        size_bytes: the size of the batches.
    """

    topic: str
    partition: int
    rows: pa.RecordBatch
    damaged: pa.RecordBatch
    next_offset: int
    size_bytes: int

    def tables(self, identity: str) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield its rows with the table that they belong to, with the column of the input added."""
        for table, rows in ((TABLE_OF[self.topic], self.rows), ("quarantine", self.damaged)):
            if rows.num_rows:
                yield table, with_input(identity, table, rows)


class KafkaLog:
    """The logs of one cluster; use it in `with`.

    Attributes:
        source, address: as given, and without the scheme.
        identity: the name of the input in tables and in the manifest.
        partitions: the partition numbers of each topic that exists.
    """

    def __init__(
        self,
        source: str,
        timeout_s: float = 30.0,
        *,
        crc: bool = True,
        security: Security = PLAINTEXT,
    ) -> None:
        """Connect and read the metadata.

        Args:
            source: kafka://HOST:PORT, or several addresses with commas.
            timeout_s: the limit for one request with its retries.
            crc: whether to check checksums. Without the check, damage may become rows.
            security: how connections to the cluster are secured.

        Raises:
            NoGroupLog: the cluster has no group log yet.
            ClientError: no broker answers.
            ValueError: `source` is not an address.
        """
        self.source = source
        self.address = address_of(source)
        self._crc = crc
        self.cluster = Cluster(self.address, timeout_s, security)
        # The partition that is first in the next request; see `_rotated`.
        self._first = 0
        try:
            self._read_metadata()
        except BaseException:
            self.cluster.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.close()

    def _read_metadata(self) -> None:
        response = self.cluster.metadata(TABLE_OF)
        found = {topic.name: topic for topic in response.topics if not topic.error_code}
        if OFFSETS_TOPIC not in found:
            raise NoGroupLog(self.address)
        # The same id is in the meta.properties of the cluster's data directories.
        self.identity = response.cluster_id or SCHEME + self.address
        self._ids = {str(name): topic.topic_id for name, topic in found.items()}
        self.partitions = {
            topic: sorted(each.partition_index for each in found[topic].partitions)
            for topic in TABLE_OF
            if topic in found
        }

    def look_for_topics(self) -> bool:
        """Return whether a topic has been created meanwhile: a broker makes them at need."""
        known = len(self.partitions)
        if known < len(TABLE_OF):
            self._read_metadata()
        return len(self.partitions) > known

    def first_offsets(self) -> dict[TopicPartition, int]:
        """Return where each partition's log begins."""
        return partition_offsets(self.cluster, dict.fromkeys(self._all(), EARLIEST))

    def end_offsets(self) -> dict[TopicPartition, int]:
        """Return where each partition's log ends now."""
        return partition_offsets(self.cluster, dict.fromkeys(self._all(), LATEST))

    def _all(self) -> list[TopicPartition]:
        return [(topic, number) for topic, some in self.partitions.items() for number in some]

    def read_between(
        self, begins: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> Iterator[FetchedRows]:
        """Read everything between two offsets of each partition.

        Args:
            begins, ends: offsets by partition; every partition of `ends` is in `begins`.

        Raises:
            ClientError: a broker refuses a request, or a log is shorter than it was.
        """
        refuse_truncated(begins, ends)
        offsets = dict(begins)
        pending = {each for each in ends if offsets[each] < ends[each]}
        while pending:
            some = {each: offsets[each] for each in pending}
            seen = False
            for fetched in self.fetch(some):
                seen = True
                partition = fetched.topic, fetched.partition
                offsets[partition] = fetched.next_offset
                yield fetched
            # Compaction may have left no record before the end. Responses are then empty.
            pending = {each for each in pending if offsets[each] < ends[each]} if seen else set()

    def fetch(
        self, positions: Mapping[TopicPartition, int], max_wait_ms: int = 0
    ) -> Iterator[FetchedRows]:
        """Fetch from the positions on as much as fits into one response of each broker.

        Args:
            positions: the next offset of each partition to read.
            max_wait_ms: how long a broker may wait for a record.

        Raises:
            ClientError: a broker refuses a request.
        """
        offsets = dict(positions)
        responses = self._request(offsets, max_wait_ms)
        removed = [
            each
            for each, found in responses.items()
            if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        ]
        if removed:
            # Retention or compaction removed the records at these offsets, or the log is another
            # one, which refuse_truncated finds out.
            firsts = partition_offsets(self.cluster, dict.fromkeys(removed, EARLIEST))
            ends = partition_offsets(self.cluster, dict.fromkeys(removed, LATEST))
            refuse_truncated({each: offsets[each] for each in removed}, ends)
            offsets |= firsts
            responses |= self._request(firsts, 0)
        for partition, found in responses.items():
            if found.error_code:
                raise Refused(found.error_code, f"Records of {partition[0]}-{partition[1]}")
            data = found.records or b""
            if data:
                yield _decoded(
                    self.address, partition, offsets[partition], bytes(data), crc=self._crc
                )

    def _request(
        self, positions: Mapping[TopicPartition, int], max_wait_ms: int
    ) -> dict[TopicPartition, FetchResponsePartition]:
        names = {topic_id: topic for topic, topic_id in self._ids.items()}

        def request_for(some: list[TopicPartition]) -> FetchRequest:
            topics: dict[str, list[FetchRequestPartition]] = {}
            for topic, number in self._rotated(some):
                partition = FetchRequestPartition(
                    partition=number,
                    fetch_offset=positions[topic, number],
                    partition_max_bytes=PARTITION_BYTES,
                )
                topics.setdefault(topic, []).append(partition)
            return FetchRequest(
                max_wait_ms=max_wait_ms,
                min_bytes=1 if max_wait_ms else 0,
                max_bytes=RESPONSE_BYTES,
                topics=[
                    FetchRequestTopic(topic=topic, topic_id=self._ids[topic], partitions=parts)
                    for topic, parts in topics.items()
                ],
            )

        def results(
            response: FetchResponse,
        ) -> dict[TopicPartition, tuple[int, FetchResponsePartition]]:
            if response.error_code:
                raise Refused(response.error_code, "Fetch")
            found = {}
            for topic in response.responses:
                # Topics are named by their ids from version 13 on.
                by_id = topic.topic_id != ZERO_UUID
                name = names.get(topic.topic_id, "") if by_id else topic.topic
                for each in topic.partitions:
                    found[name, each.partition_index] = (each.error_code, each)
            return found

        return self.cluster.call_leaders(positions, request_for, FetchResponse, results)

    def _rotated(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions with another one first in each request.

        A full response leaves out the partitions at the end of the request. With a fixed order the
        last ones might never be read.
        """
        self._first += 1
        first = self._first % max(len(partitions), 1)
        ordered = sorted(partitions)
        return ordered[first:] + ordered[:first]


def refuse_truncated(
    offsets: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
) -> None:
    """Refuse a log that ends before the offset to which it was read [pipeline/shorter-log].

    Raises:
        ClientError: there is such a log.
    """
    for partition, offset in offsets.items():
        if offset > ends.get(partition, offset):
            raise ClientError(
                f"{partition[0]}-{partition[1]} ends at offset {ends[partition]}, but was read to"
                f" {offset} before: it was truncated, or deleted and created again.",
                "Give another --output, because the earlier tables cannot be continued.",
            )


def _decoded(
    address: str, partition: TopicPartition, offset: int, data: bytes, *, crc: bool = True
) -> FetchedRows:
    """Decode the whole batches of a response."""
    topic, number = partition
    size_bytes, last = _whole_batches(data)
    if not size_bytes:
        raise ClientError(
            f"The broker sent {len(data)} bytes of {topic}-{number} at offset {offset}, but no"
            " whole batch."
        )
    data = data[:size_bytes]
    # The bytes are in no file. In `quarantine` they are identified by the response's first offset.
    source = Source(number, f"{SCHEME}{address}/{topic}-{number} from offset {offset}", 0)
    decoder = SegmentDecoder(TABLE_OF[topic], source, first_offset=offset, crc=crc)
    decoded = decoder.decode(data, 0, final=True)
    damaged = quarantined(source, decoded.damages)
    next_offset = decoder.last_offset + 1
    if next_offset <= offset:
        # No batch is valid. The last header is not reliable, but the next request must be for
        # another offset.
        next_offset = max(offset + 1, _next_offset(data, last))
    return FetchedRows(topic, number, decoded.rows, damaged, next_offset, size_bytes)


def _whole_batches(data: bytes) -> tuple[int, int]:
    """Return the size of the whole batches of a response, and where the last of them begins."""
    position = last = 0
    end = len(data)
    while position + BASE_OFFSET_AND_LENGTH.size <= end:
        _, length = BASE_OFFSET_AND_LENGTH.unpack_from(data, position)
        stop = position + BASE_OFFSET_AND_LENGTH.size + length
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
    """The result of a copy.

    Attributes:
        directories: the directory with the Parquet files of each bronze table that has rows.
        positions: by topic and partition the next offset to read.
        rows, size_bytes: the number of records, and the size of their log.
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
        log: the cluster's log.
        positions: how far it has been read.
        directory: an existing directory, in which one is made for each bronze table.
        progress: is called with the progress.

    Raises:
        ClientError: a broker refuses a request, or a log is shorter than it was.
    """
    directories: dict[str, str] = {}
    writers: dict[str, pq.ParquetWriter] = {}
    reached: dict[str, dict[int, int]] = {}
    rows = size_bytes = 0
    begins, ends = {**log.first_offsets(), **positions}, log.end_offsets()
    left = {each: end - begins[each] for each, end in ends.items() if begins[each] < end}
    total = sum(left.values())
    try:
        for fetched in log.read_between(begins, ends):
            reached.setdefault(fetched.topic, {})[fetched.partition] = fetched.next_offset
            for table, batch in fetched.tables(log.identity):
                if table not in writers:
                    directories[table] = os.path.join(directory, table)
                    os.makedirs(directories[table])
                    path = os.path.join(directories[table], "records.parquet")
                    writers[table] = pq.ParquetWriter(path, batch.schema)
                writers[table].write_batch(batch)
            rows += fetched.rows.num_rows
            size_bytes += fetched.size_bytes
            partition = fetched.topic, fetched.partition
            left[partition] = max(0, ends[partition] - fetched.next_offset)
            if progress is not None:
                progress(Copying(log.source, total - sum(left.values()), total, rows))
    finally:
        for writer in writers.values():
            writer.close()
    return Spooled(directories, reached, rows, size_bytes)
