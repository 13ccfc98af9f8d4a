"""The broker's settings that have an effect here: Kafka's names, types, defaults and ranges.

`kafka_keys.py` has Kafka's other settings, which are accepted without effect. Names that begin
with `journal.` and `event.loop.` are our own, as is `telemetry.announce.enable`. Where a default or
a range differs from Kafka's, [settings/differences] gives the reason.
"""

from coterie.server.config.keys import ConfigKey, ConfigType, UpdateMode
from coterie.server.config.network_keys import NETWORK_KEYS
from coterie.server.config.storage_keys import STORAGE_KEYS
from coterie.server.config.transaction_keys import TRANSACTION_KEYS

_B, _S, _I, _L, _D, _A = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)
_CLUSTER_WIDE = UpdateMode.CLUSTER_WIDE
_LONG_MAX = str(2**63 - 1)
COMPRESSIONS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
POLICIES = ("compact", "delete")
TIMESTAMPS = ("CreateTime", "LogAppendTime")
# A cleaning may add 64 MiB to the process. The map is the part that grows with the number of keys;
# the indexes of the copy and the buffers need the rest.
DEDUPE_BUFFER_BYTES = 24 * 1024 * 1024

_GROUP_KEYS = (
    ConfigKey(
        "group.initial.rebalance.delay.ms",
        _I,
        "3000",
        "How long the first rebalance of an empty group waits for more members.",
        0,
    ),
    ConfigKey(
        "group.min.session.timeout.ms",
        _I,
        "6000",
        "The shortest session timeout that a member may request.",
        1,
    ),
    ConfigKey(
        "group.max.session.timeout.ms",
        _I,
        "1800000",
        "The longest session timeout that a member may request.",
        1,
    ),
    ConfigKey("group.max.size", _I, "2147483647", "The most members of a group.", 1),
    ConfigKey(
        "offset.metadata.max.bytes",
        _I,
        "4096",
        "The largest metadata of a committed offset.",
        0,
    ),
    ConfigKey(
        "offsets.retention.minutes",
        _I,
        "10080",
        "How long offsets are kept after their group became empty or unsubscribed.",
        1,
    ),
    ConfigKey(
        "offsets.retention.check.interval.ms",
        _L,
        "600000",
        "Interval between two searches for expired offsets.",
        1,
    ),
    ConfigKey(
        "offsets.topic.num.partitions",
        _I,
        "50",
        "Partitions of __consumer_offsets. Fixed once the topic exists.",
        1,
        1000,
    ),
    ConfigKey(
        "offsets.topic.compression.codec",
        _I,
        "0",
        "Codec of batches in __consumer_offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        0,
        4,
    ),
    ConfigKey(
        "offsets.topic.segment.bytes",
        _I,
        "104857600",
        "Segment size of __consumer_offsets.",
        1024 * 1024,
    ),
)

_TOPIC_DEFAULT_KEYS = (
    ConfigKey(
        "auto.create.topics.enable",
        _B,
        "true",
        "Whether a topic is created when a client uses it.",
    ),
    ConfigKey("delete.topic.enable", _B, "true", "Whether topics may be deleted."),
    ConfigKey(
        "num.partitions",
        _I,
        "1",
        "Partitions of a topic that is created without a number.",
        1,
        10_000,
    ),
    ConfigKey(
        "message.max.bytes",
        _I,
        "1048588",
        "The largest record batch that is accepted.",
        0,
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "compression.type",
        _S,
        "producer",
        "Compression of stored batches; `producer` keeps that of the producer.",
        choices=COMPRESSIONS,
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.message.timestamp.type",
        _S,
        "CreateTime",
        "Whether records keep the producer's time or get the time of their append.",
        choices=TIMESTAMPS,
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.message.timestamp.before.max.ms",
        _L,
        _LONG_MAX,
        "How far a record's timestamp may lie in the past.",
        0,
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.message.timestamp.after.max.ms",
        _L,
        "3600000",
        "How far a record's timestamp may lie in the future.",
        0,
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.segment.bytes",
        _I,
        "1073741824",
        "Size at which a new segment begins.",
        1024 * 1024,
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.roll.ms", _L, None, "Age at which a new segment begins.", 1, update=_CLUSTER_WIDE
    ),
    ConfigKey("log.roll.hours", _I, "168", "log.roll.ms in hours, used if that is not set.", 1),
    ConfigKey(
        "log.retention.ms",
        _L,
        None,
        "How long records are kept; a negative value is for ever.",
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.retention.minutes",
        _I,
        None,
        "log.retention.ms in minutes, used if that is not set.",
        -1,
    ),
    ConfigKey(
        "log.retention.hours",
        _I,
        "168",
        "log.retention.ms in hours, used if the other two are not set.",
        -1,
    ),
    ConfigKey(
        "log.retention.bytes",
        _L,
        "-1",
        "Size up to which a partition's records are kept; -1 is any.",
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.cleanup.policy",
        _A,
        "delete",
        "What happens to old records: `delete` after a time or beyond a size, `compact` to the"
        " newest of each key, or both.",
        choices=POLICIES,
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.index.interval.bytes",
        _I,
        "4096",
        "Bytes of log between two index entries.",
        0,
        update=_CLUSTER_WIDE,
    ),
)

_OWN_KEYS = (
    ConfigKey(
        "event.loop.warning.ms",
        _I,
        "500",
        "A warning names what held the event loop, and with it all clients, for this time or"
        " longer; 0 is no warning.",
        0,
    ),
    ConfigKey(
        "quota.window.num",
        _I,
        "11",
        "Over how many windows the rates of quotas are computed.",
        1,
    ),
    ConfigKey("quota.window.size.seconds", _I, "1", "The length of a window of rates.", 1),
    ConfigKey(
        "controller.quota.window.num",
        _I,
        "11",
        "How many windows of changes of topics a client may make at once.",
        1,
    ),
    ConfigKey(
        "controller.quota.window.size.seconds",
        _I,
        "1",
        "The length of a window of changes of topics.",
        1,
    ),
    ConfigKey(
        "metric.reporters",
        ConfigType.LIST,
        "org.apache.kafka.common.metrics.JmxReporter",
        "Classes of Java, which are not loaded. One with the name of a receiver of clients' metrics"
        " (`telemetry` or `ClientMetrics` in it) invites clients to push them, as"
        " telemetry.announce.enable does.",
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "telemetry.announce.enable",
        _B,
        "false",
        "Whether clients are invited to push their metrics, which are counted and dropped.",
    ),
    ConfigKey(
        "telemetry.max.bytes",
        _I,
        "1048576",
        "The largest metrics that a client may push at once.",
        1,
    ),
    ConfigKey(
        "journal.enable",
        _B,
        "true",
        "Whether the topic coterie.journal records what happens to groups, and why.",
    ),
    ConfigKey(
        "journal.retention.hours",
        _I,
        "168",
        "How long the journal is kept; -1 is for ever.",
        -1,
    ),
    ConfigKey(
        "journal.retention.bytes",
        _L,
        str(256 * 1024 * 1024),
        "Size up to which a partition of the journal is kept; -1 is any. A rebalance of ten"
        " members takes about 2 KiB.",
        -1,
    ),
)

_MAINTENANCE_KEYS = (
    ConfigKey(
        "log.cleaner.enable",
        _B,
        "true",
        "Whether logs are compacted whose cleanup.policy says so, __consumer_offsets among them."
        " Otherwise they grow for ever.",
    ),
    ConfigKey(
        "log.cleaner.backoff.ms",
        _L,
        "15000",
        "How long the cleaner waits before it looks for work again, if no log needs cleaning.",
        0,
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.cleaner.dedupe.buffer.size",
        _L,
        str(DEDUPE_BUFFER_BYTES),
        "Memory that one cleaning may take for its map from keys to offsets. A log whose dirty part"
        " has more keys than fit is compacted in several cleanings. Kafka's default is 128 MiB;"
        " here the whole process stays within 64 MiB above its idle size.",
        1024 * 1024 + 1,
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.cleaner.io.max.bytes.per.second",
        _D,
        "1.7976931348623157E308",
        "The most bytes that the cleaner reads and writes in a second.",
        1,
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.cleaner.min.cleanable.ratio",
        _D,
        "0.5",
        "Share of uncleaned bytes above which a log is compacted.",
        0,
        1,
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.cleaner.delete.retention.ms",
        _L,
        "86400000",
        "How long tombstones are kept after compaction.",
        0,
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.cleaner.min.compaction.lag.ms",
        _L,
        "0",
        "Age below which a record is not compacted.",
        0,
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.cleaner.max.compaction.lag.ms",
        _L,
        _LONG_MAX,
        "Age at which a record is compacted in any case.",
        1,
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "log.retention.check.interval.ms",
        _L,
        "300000",
        "Interval between two searches for records past their retention.",
        1,
    ),
    ConfigKey(
        "log.initial.task.delay.ms",
        _L,
        "30000",
        "Time from the start to the first search for old records and for logs to compact.",
        0,
        is_listed=False,
    ),
    ConfigKey(
        "log.flush.offset.checkpoint.interval.ms",
        _I,
        "60000",
        "How often the recovery points of the logs are written. After a crash only what follows"
        " them is scanned.",
        1,
    ),
)

_SERVER_KEYS = (
    ConfigKey("node.id", _I, None, "The id of this broker; 1 if it is not given.", 0),
    ConfigKey(
        "broker.rack", _S, None, "Where the broker is, as Metadata and DescribeCluster answer it."
    ),
    ConfigKey("broker.id", _I, "-1", "An older name of node.id; -1 is not set."),
    ConfigKey(
        "process.roles",
        _A,
        None,
        "Must name the broker. The controller's role needs nothing here.",
        choices=("broker", "controller"),
    ),
    ConfigKey(
        "listeners",
        _A,
        "PLAINTEXT://:9092",
        "Where the broker listens: one PLAINTEXT listener, besides those of the controller.",
    ),
    ConfigKey(
        "advertised.listeners",
        _A,
        None,
        "The address that clients are given, if they reach the broker by another one"
        " than that of `listeners`.",
    ),
    ConfigKey(
        "listener.security.protocol.map",
        _S,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "The security protocol of each listener name.",
    ),
    ConfigKey(
        "controller.listener.names",
        _A,
        None,
        "Listeners that belong to the controller, which are not opened here.",
    ),
    ConfigKey("log.dir", _A, None, "The data directory, if log.dirs is not set."),
    ConfigKey("log.dirs", _A, None, "The data directory; exactly one."),
    ConfigKey(
        "fetch.max.bytes", _I, "57671680", "The most record bytes in a Fetch response.", 1024
    ),
    ConfigKey(
        "max.incremental.fetch.session.cache.slots", _I, "1000", "The most fetch sessions.", 0
    ),
    ConfigKey(
        "producer.id.expiration.ms",
        _I,
        "86400000",
        "How long the sequence numbers of an idle producer are remembered.",
        1,
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "producer.id.expiration.check.interval.ms",
        _I,
        "600000",
        "Interval between two searches for idle producers whose sequence numbers are forgotten.",
        1,
        is_listed=False,
    ),
    ConfigKey(
        "transaction.partition.verification.enable",
        _B,
        "true",
        "Whether older producers' partitions must have been added to their transactions.",
        update=_CLUSTER_WIDE,
    ),
    ConfigKey(
        "add.partitions.to.txn.retry.backoff.ms",
        _I,
        "20",
        "Pause before a Produce adds its partitions again while the last transaction ends.",
        1,
    ),
    ConfigKey(
        "add.partitions.to.txn.retry.backoff.max.ms",
        _I,
        "100",
        "How long a Produce tries to add its partitions while the last transaction ends.",
        0,
    ),
)

BROKER: dict[str, ConfigKey] = {
    key.name: key
    for key in (
        *_GROUP_KEYS,
        *_OWN_KEYS,
        *_TOPIC_DEFAULT_KEYS,
        *_MAINTENANCE_KEYS,
        *_SERVER_KEYS,
        *NETWORK_KEYS,
        *STORAGE_KEYS,
        *TRANSACTION_KEYS,
    )
}
