"""`kafka://` inputs through Spark's own Kafka connector: for clusters with TLS or SASL, which our
client does not speak.

The rows are those of the other transports, as far as the connector tells: it has no batches, so
`batch_base_offset`, `attributes`, `leader_epoch` and `producer_id` are null, and as it reads only
what is committed there are no markers. Damage does not come through: Kafka's client ends at it.

Invariants: an input goes by its cluster's id and positions are log offsets, as everywhere, so a
copy goes on where another transport has ended; rows and the positions that they reach to begin to
count by the same replacement of the manifest; the end of a copy is asked for before it is read.

The connector passes over internal topics, without a word, unless it takes offsets from its consumer
(pipeline.md section 0). That is set for the time of a copy; and because every copy says from where
to where, a connector that passed over them all the same would say that it has no such partitions.
"""

import json
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, cast

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from coterie.client.cluster import TopicPartition
from coterie.pipeline.jobs.clusters import Copied, copied_of, parquet_files, report_of
from coterie.pipeline.jobs.connector_admin import (
    EARLIEST,
    LATEST,
    READ_COMMITTED,
    KafkaAdmin,
    read_settings,
    require_connector,
)
from coterie.pipeline.jobs.follow_wire import about_cluster
from coterie.pipeline.jobs.live_store import LiveStore
from coterie.pipeline.kafka_input import (
    SCHEME,
    TABLE_OF,
    Copying,
    CopyProgress,
    address_of,
    no_group_log,
    refuse_truncated,
)
from coterie.pipeline.lag import committed_in, have_moved, log_end_rows
from coterie.pipeline.schemas import spark_schema
from coterie.pipeline.store import Store
from coterie.pipeline.tables import TABLES
from coterie.protocol.topic_names import OFFSETS_TOPIC

_FORMAT = "kafka"
# What the connector calls the settings of Kafka's clients.
_KAFKA = "kafka."
# 500, which is Kafka's, costs two requests for each (pipeline.md section 3).
_DEFAULTS = {_KAFKA + "max.poll.records": "50000"}
# What a copy sets by itself, because its rows and positions follow from it.
RESERVED = frozenset(
    (
        "assign", "subscribe", "subscribepattern", "startingoffsets", "endingoffsets",
        "startingtimestamp", "endingtimestamp", "startingoffsetsbytimestamp",
        "endingoffsetsbytimestamp", "includeheaders", "kafka.bootstrap.servers",
        "kafka.isolation.level",
    )
)  # fmt: skip
_SETTINGS = {
    "spark.sql.streaming.kafka.useDeprecatedOffsetFetching": "true",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}

Span = tuple[int, int]


class Connector(NamedTuple):
    """How to use the connector.

    Attributes:
        options: of the connector; those of Kafka's clients begin with `kafka.`.
        settings_file: more settings of Kafka's clients, in a file of Java's properties.
    """

    options: Mapping[str, str] = {}
    settings_file: str | None = None

    def refused(self) -> list[str]:
        """Options that a copy sets by itself."""
        return [name for name in self.options if name.lower() in RESERVED]


class _Asked(NamedTuple):
    """What a cluster was found to have.

    Attributes:
        identity: what the input goes by.
        partitions: by topic.
        spans: by partition with something new, from which offset to which.
    """

    identity: str
    partitions: dict[str, list[int]]
    spans: dict[TopicPartition, Span]


def copy_by_connector(
    spark: SparkSession,
    sources: Iterable[str],
    output: str,
    connector: Connector,
    progress: CopyProgress | None = None,
) -> list[Copied]:
    """Append what is new in clusters to the bronze tables; tells it of those that have anything.

    Args:
        spark: a session with the connector's jars.
        sources: kafka://HOST:PORT each.
        output: the directory of the tables.
        connector: its options.
        progress: is told how far a cluster has been copied.

    Raises:
        ClientError: the connector is missing, a cluster can't be reached or refuses, or its log is
            shorter than it was.
        StoreError: the output can't be used.
    """
    jvm = require_connector(spark)
    of_file = {} if connector.settings_file is None else read_settings(jvm, connector.settings_file)
    options = _DEFAULTS | {_KAFKA + name: value for name, value in of_file.items()}
    options |= connector.options
    clients = {
        name.removeprefix(_KAFKA): value
        for name, value in options.items()
        if name.startswith(_KAFKA)
    }
    copied = []
    with LiveStore.open(output) as opened:
        store = cast("LiveStore", opened)
        for source in dict.fromkeys(sources):
            address = address_of(source)
            with KafkaAdmin(jvm, address, clients) as admin:
                copied.append(_Copy(spark, store, source, options, progress).run(admin))
    return [each for each in copied if each is not None]


class _Copy:
    """The copying of one cluster."""

    def __init__(
        self,
        spark: SparkSession,
        store: LiveStore,
        source: str,
        options: Mapping[str, str],
        progress: CopyProgress | None,
    ) -> None:
        self._spark = spark
        self._store = store
        self._source = source
        self._options = options
        self._progress = progress

    def run(self, admin: KafkaAdmin) -> Copied | None:
        """Copy; None where nothing is new."""
        began_s = time.monotonic()
        asked = _ask(admin, self._store, self._source)
        total = sum(end - begin for begin, end in asked.spans.values())
        directories: dict[str, str] = {}
        rows = done = 0
        for topic, table in TABLE_OF.items():
            spans = {number: span for (name, number), span in asked.spans.items() if name == topic}
            self._tell(Copying(self._source, done, total, rows))
            if spans:
                directory = self._store.new_directory(table)
                self._read(asked.identity, topic, spans, directory)
                found = copied_of({table: directory}, 0, began_s).rows
                done += sum(end - begin for begin, end in spans.values())
                rows += found
                if found:
                    directories[table] = directory
                else:
                    # All of it was markers, or was compacted meanwhile.
                    shutil.rmtree(directory)
        self._tell(Copying(self._source, done, total, rows))
        files = self._store.files("log_records") + parquet_files(directories)
        ends = _log_ends(admin, committed_in(files, asked.identity))
        if not asked.spans and not have_moved(ends, self._store.files("log_ends")):
            return None
        if ends.num_rows:
            directories["log_ends"] = self._store.write_rows("log_ends", [ends])
        # How much log that was, the connector does not tell.
        copied = copied_of(directories, 0, began_s)
        report = report_of(copied, self._store.next_run, asked.identity)
        positions: dict[str, dict[int, int]] = {}
        for (topic, partition), (_, end) in asked.spans.items():
            positions.setdefault(topic, {})[partition] = end
        about = about_cluster(self._store, asked.identity, asked.partitions, self._source)
        self._store.append(
            directories, {asked.identity: positions}, report, {asked.identity: about}
        )
        return copied

    def _tell(self, copying: Copying) -> None:
        if self._progress is not None:
            self._progress(copying)

    def _read(self, identity: str, topic: str, spans: Mapping[int, Span], directory: str) -> None:
        """Write what the spans of one topic hold to Parquet files."""
        with _set(self._spark, _SETTINGS):
            read = (
                self._spark.read.format(_FORMAT)
                .options(**self._options)
                .option("kafka.bootstrap.servers", address_of(self._source))
                .option("kafka.isolation.level", READ_COMMITTED.lower())
                .option("assign", json.dumps({topic: sorted(spans)}))
                .option("startingOffsets", _offsets(topic, spans, 0))
                .option("endingOffsets", _offsets(topic, spans, 1))
                .load()
            )
            rows = bronze_rows(read, identity, TABLE_OF[topic])
            # A file for each task would be a file for each partition, of a few records.
            files = self._spark.sparkContext.defaultParallelism
            rows.coalesce(files).write.parquet(directory)


def bronze_rows(read: DataFrame, identity: str, table: str) -> DataFrame:
    """What the connector gave, as rows of a bronze table.

    Args:
        read: with the connector's columns.
        identity: what the input goes by.
        table: log_records or journal_records.
    """
    key_size = f.octet_length("key")
    known: dict[str, Column] = {
        "input": f.lit(identity),
        "log_partition": f.col("partition"),
        "log_offset": f.col("offset"),
        # Kafka's -1 is no time.
        "record_ts": f.when(f.unix_millis("timestamp") >= 0, f.col("timestamp")),
        "key_type": f.when(key_size >= f.lit(_KEY_TYPE_BYTES), _first_int16("key")),
        "key": f.col("key"),
        "value": f.col("value"),
        # The segments are not known over the wire.
        "segment_base": f.lit(0),
    }
    return read.select(
        *(
            known.get(field.name, f.lit(None)).cast(field.dataType).alias(field.name)
            for field in spark_schema(TABLES[table].schema)
        )
    )


_KEY_TYPE_BYTES = 2
_INT16_VALUES, _INT16_NEGATIVE = 1 << 16, 1 << 15


def _first_int16(column: str) -> Column:
    """The number in the first two bytes, as big-endian as everything of Kafka's."""
    digits = f.hex(f.substring(column, 1, _KEY_TYPE_BYTES))
    number = f.conv(digits, 16, 10).cast("int")
    return f.when(number >= _INT16_NEGATIVE, number - _INT16_VALUES).otherwise(number)


def _ask(admin: KafkaAdmin, store: Store, source: str) -> _Asked:
    """What there is, and what of it is new.

    Raises:
        ClientError: the cluster has no group log, or one that is shorter than it was.
    """
    identity = admin.cluster_id() or SCHEME + address_of(source)
    partitions = admin.partitions(TABLE_OF)
    if OFFSETS_TOPIC not in partitions:
        raise no_group_log(address_of(source))
    every = [(topic, number) for topic, some in partitions.items() for number in some]
    begins = admin.offsets(every, EARLIEST)
    # What the next question adds is read by the next copy; what is not committed stays for it too.
    stable = admin.offsets(every, LATEST, READ_COMMITTED)
    ends = admin.offsets(every, LATEST)
    reached = {
        (topic, number): offset
        for topic in partitions
        for number, offset in store.position(identity, topic).items()
    }
    refuse_truncated(reached, ends)
    spans = {}
    for each, end in stable.items():
        begin = max(reached.get(each, 0), begins.get(each, 0))
        if begin < end:
            spans[each] = (begin, end)
    return _Asked(identity, partitions, spans)


def _log_ends(admin: KafkaAdmin, wanted: set[TopicPartition]) -> pa.RecordBatch:
    """Where partitions end now."""
    there = admin.partitions({topic for topic, _ in wanted}, only_led=True)
    some = [each for each in sorted(wanted) if each[1] in there.get(each[0], ())]
    return log_end_rows(admin.offsets(some, LATEST), int(time.time() * 1000))


def _offsets(topic: str, spans: Mapping[int, Span], side: int) -> str:
    """The beginnings or ends of spans, as the connector's options have offsets."""
    return json.dumps({topic: {str(number): span[side] for number, span in sorted(spans.items())}})


@contextmanager
def _set(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session for the time of a block."""
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, former in before.items():
            if former is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, former)
