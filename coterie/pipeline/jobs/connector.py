"""`kafka://` inputs through Spark's own Kafka connector, for clusters with TLS or SASL.

Our own client supports neither. The rows are those of the other transports, without the fields
that the connector does not have [pipeline/connector-input]. Kafka's client fails on damaged
batches, so a copy ends with an error there.

Invariants: as everywhere, inputs are identified by cluster id and positions are log offsets, so a
copy continues where another transport ended. Rows and the offsets up to which they reach are
committed by the same replacement of the manifest. The end of a copy is requested before reading.

By default the connector silently skips internal topics [pipeline/connector-internal-topics]. A copy
changes the setting for its own time, and names the offsets of every partition: a connector that
skipped the topic nevertheless would fail, because these partitions would be missing.
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
from coterie.pipeline.engine import Engine
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
    NoGroupLog,
    address_of,
    refuse_truncated,
)
from coterie.pipeline.lag import (
    EARLIER_MS,
    committed_in,
    earlier_ends,
    have_moved,
    log_end_rows,
)
from coterie.pipeline.schemas import spark_schema
from coterie.pipeline.spark_engine import SparkEngine
from coterie.pipeline.store import Store
from coterie.pipeline.tables import TABLES
from coterie.protocol.topic_names import OFFSETS_TOPIC

_FORMAT = "kafka"
# The prefix of settings for Kafka's clients among the connector's options.
_KAFKA = "kafka."
# Every poll costs two more requests, and Kafka's default is 500 records [pipeline/connector-polls].
_DEFAULTS = {_KAFKA + "max.poll.records": "50000"}
# Options that a copy sets itself, because its rows and positions depend on them.
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
    """The user's settings for the connector.

    Attributes:
        options: options of the connector; those for Kafka's clients begin with `kafka.`.
        settings_file: a file of Java properties with more settings for Kafka's clients.
    """

    options: Mapping[str, str] = {}
    settings_file: str | None = None

    def refused(self) -> list[str]:
        """Return the given options that a copy sets itself."""
        return [name for name in self.options if name.lower() in RESERVED]


class _NewOffsets(NamedTuple):
    """What is new in a cluster.

    Attributes:
        identity: the name of the input.
        partitions: partition numbers by topic.
        spans: first and end offset of every partition that has something new.
    """

    identity: str
    partitions: dict[str, list[int]]
    spans: dict[TopicPartition, Span]


def copy_by_connector(
    engine: Engine,
    sources: Iterable[str],
    output: str,
    connector: Connector,
    progress: CopyProgress | None = None,
) -> list[Copied]:
    """Append what is new in clusters to the bronze tables.

    Args:
        engine: Spark with the connector's jars.
        sources: kafka://HOST:PORT each.
        output: the directory of the tables.
        connector: the user's settings.
        progress: is called with the progress.

    Returns:
        The results for the clusters with anything new.

    Raises:
        ClientError: the connector is missing, a cluster cannot be reached, refuses a request, or
            has a shorter log than before.
        StoreError: the output directory cannot be used.
    """
    assert isinstance(engine, SparkEngine), "the connector belongs to Spark"
    spark = engine.spark
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
        """Copy what is new; return None if nothing is."""
        began_s = time.monotonic()
        new = _new_offsets(admin, self._store, self._source)
        total = sum(end - begin for begin, end in new.spans.values())
        directories: dict[str, str] = {}
        rows = done = 0
        for topic, table in TABLE_OF.items():
            spans = {number: span for (name, number), span in new.spans.items() if name == topic}
            self._report(Copying(self._source, done, total, rows))
            if spans:
                directory = self._store.new_directory(table)
                self._read(new.identity, topic, spans, directory)
                found = copied_of({table: directory}, 0, began_s).rows
                done += sum(end - begin for begin, end in spans.values())
                rows += found
                if found:
                    directories[table] = directory
                else:
                    # There were only markers, or compaction has removed everything since.
                    shutil.rmtree(directory)
        self._report(Copying(self._source, done, total, rows))
        files = self._store.files("log_records") + parquet_files(directories)
        ends = _log_ends(admin, new.identity, committed_in(files, new.identity))
        if not new.spans and not have_moved(ends, self._store.files("log_ends")):
            return None
        if ends.num_rows:
            directories["log_ends"] = self._store.write_rows("log_ends", [ends])
        # The connector does not say how many bytes of log it has read.
        copied = copied_of(directories, 0, began_s)
        report = report_of(copied, self._store.next_run, new.identity)
        positions: dict[str, dict[int, int]] = {}
        for (topic, partition), (_, end) in new.spans.items():
            positions.setdefault(topic, {})[partition] = end
        about = about_cluster(self._store, new.identity, new.partitions, self._source)
        self._store.append(directories, {new.identity: positions}, report, {new.identity: about})
        return copied

    def _report(self, copying: Copying) -> None:
        if self._progress is not None:
            self._progress(copying)

    def _read(self, identity: str, topic: str, spans: Mapping[int, Span], directory: str) -> None:
        """Write the records in the spans of one topic to Parquet files."""
        with _session_settings(self._spark, _SETTINGS):
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
            # Without this there would be a file of a few records for each partition.
            files = self._spark.sparkContext.defaultParallelism
            rows.coalesce(files).write.parquet(directory)


def bronze_rows(read: DataFrame, identity: str, table: str) -> DataFrame:
    """Return the connector's rows as rows of a bronze table.

    Args:
        read: rows with the connector's columns.
        identity: the name of the input.
        table: log_records or journal_records.
    """
    key_size = f.octet_length("key")
    known: dict[str, Column] = {
        "input": f.lit(identity),
        "log_partition": f.col("partition"),
        "log_offset": f.col("offset"),
        # Kafka writes -1 for an absent timestamp.
        "record_ts": f.when(f.unix_millis("timestamp") >= 0, f.col("timestamp")),
        "key_type": f.when(key_size >= f.lit(_KEY_TYPE_BYTES), _first_int16("key")),
        "key": f.col("key"),
        "value": f.col("value"),
        # Segments are unknown over the wire [pipeline/wire-input].
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
    """Return the big-endian number in the first two bytes."""
    digits = f.hex(f.substring(column, 1, _KEY_TYPE_BYTES))
    number = f.conv(digits, 16, 10).cast("int")
    return f.when(number >= _INT16_NEGATIVE, number - _INT16_VALUES).otherwise(number)


def _new_offsets(admin: KafkaAdmin, store: Store, source: str) -> _NewOffsets:
    """Find out what is new in a cluster.

    Raises:
        ClientError: the cluster has no group log, or one that is shorter than before.
    """
    identity = admin.cluster_id() or SCHEME + address_of(source)
    partitions = admin.partitions(TABLE_OF)
    if OFFSETS_TOPIC not in partitions:
        raise NoGroupLog(address_of(source))
    every = [(topic, number) for topic, some in partitions.items() for number in some]
    begins = admin.offsets(every, EARLIEST)
    # The copy ends at the last stable offset. The next copy reads what is committed or appended
    # after this request.
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
    return _NewOffsets(identity, partitions, spans)


def _log_ends(admin: KafkaAdmin, identity: str, partitions: set[TopicPartition]) -> pa.RecordBatch:
    """Return where partitions end now and ended some minutes ago, as rows of `log_ends`."""
    existing = admin.partitions({topic for topic, _ in partitions}, only_led=True)
    some = [each for each in sorted(partitions) if each[1] in existing.get(each[0], ())]
    now_ms = int(time.time() * 1000)
    ends = admin.offsets(some, LATEST)
    since = admin.offsets(some, now_ms - EARLIER_MS)
    return log_end_rows(identity, {now_ms: ends, now_ms - EARLIER_MS: earlier_ends(ends, since)})


def _offsets(topic: str, spans: Mapping[int, Span], side: int) -> str:
    """Return the beginnings or ends of spans in the format of the connector's options."""
    return json.dumps({topic: {str(number): span[side] for number, span in sorted(spans.items())}})


@contextmanager
def _session_settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of the session until the end of the block."""
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
