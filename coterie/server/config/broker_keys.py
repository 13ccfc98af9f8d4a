"""The broker's settings that are honoured here: Kafka's names, types, defaults and ranges.

A Kafka setting that would have no effect on this broker is not in the table: it is refused at the
start rather than silently ignored.
"""

from coterie.server.config.keys import ConfigKey, ConfigType

_B, _S, _I, _H, _L, _D, _A = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.SHORT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)
_NEVER = str(2**63 - 1)
_COMPRESSIONS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_POLICIES = ("compact", "delete")
_TIMESTAMPS = ("CreateTime", "LogAppendTime")
_SINGLE = "This is a single broker: the only value is 1."
# Of the 64 MiB that compaction may add to the process, the map is the part that grows with the
# keys; the rest is the indexes of the copy, and what is read and written at a time.
DEDUPE_BUFFER_BYTES = str(24 * 1024 * 1024)

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
        "The shortest session timeout a member may ask for.",
        1,
    ),
    ConfigKey(
        "group.max.session.timeout.ms",
        _I,
        "1800000",
        "The longest session timeout a member may ask for.",
        1,
    ),
    ConfigKey("group.max.size", _I, "2147483647", "Members a group may have.", 1),
    ConfigKey(
        "offset.metadata.max.bytes",
        _I,
        "4096",
        "Size of the metadata one committed offset may carry.",
        0,
    ),
    ConfigKey(
        "offsets.retention.minutes",
        _I,
        "10080",
        "How long offsets are kept after their group became empty or stopped subscribing.",
        1,
    ),
    ConfigKey(
        "offsets.retention.check.interval.ms",
        _L,
        "600000",
        "How often offsets past their retention are looked for.",
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
        "offsets.topic.segment.bytes",
        _I,
        "104857600",
        "Segment size of __consumer_offsets.",
        1024 * 1024,
    ),
    ConfigKey(
        "offsets.topic.replication.factor",
        _H,
        "1",
        f"Copies of __consumer_offsets. {_SINGLE}",
        1,
        1,
    ),
)

_TOPIC_DEFAULT_KEYS = (
    ConfigKey("auto.create.topics.enable", _B, "true", "Create a topic when a client asks for it."),
    ConfigKey("delete.topic.enable", _B, "true", "Allow the deletion of topics."),
    ConfigKey(
        "num.partitions",
        _I,
        "1",
        "Partitions of a topic that is created without a number.",
        1,
        10_000,
    ),
    ConfigKey("default.replication.factor", _I, "1", f"Copies of a topic. {_SINGLE}", 1, 1),
    ConfigKey(
        "min.insync.replicas", _I, "1", "Copies that must exist for acks=all.", 1, dynamic=True
    ),
    ConfigKey(
        "message.max.bytes",
        _I,
        "1048588",
        "The largest record batch that is accepted.",
        0,
        dynamic=True,
    ),
    ConfigKey(
        "compression.type",
        _S,
        "producer",
        "Compression of stored batches; `producer` keeps what came.",
        choices=_COMPRESSIONS,
        dynamic=True,
    ),
    ConfigKey(
        "log.message.timestamp.type",
        _S,
        "CreateTime",
        "Whether records keep the producer's time or get the time of their append.",
        choices=_TIMESTAMPS,
        dynamic=True,
    ),
    ConfigKey(
        "log.message.timestamp.before.max.ms",
        _L,
        _NEVER,
        "How far in the past a record's timestamp may lie.",
        0,
        dynamic=True,
    ),
    ConfigKey(
        "log.message.timestamp.after.max.ms",
        _L,
        "3600000",
        "How far in the future a record's timestamp may lie.",
        0,
        dynamic=True,
    ),
    ConfigKey(
        "log.segment.bytes",
        _I,
        "1073741824",
        "Size at which a new segment begins.",
        1024 * 1024,
        dynamic=True,
    ),
    ConfigKey("log.roll.ms", _L, None, "Age at which a new segment begins.", 1, dynamic=True),
    ConfigKey(
        "log.roll.hours", _I, "168", "The same in hours; used when log.roll.ms is not set.", 1
    ),
    ConfigKey("log.retention.ms", _L, None, "How long records are kept.", -1, dynamic=True),
    ConfigKey("log.retention.minutes", _I, None, "The same in minutes.", -1),
    ConfigKey(
        "log.retention.hours", _I, "168", "The same in hours; used when the others are not set.", -1
    ),
    ConfigKey(
        "log.retention.bytes",
        _L,
        "-1",
        "Size up to which a partition's records are kept.",
        -1,
        dynamic=True,
    ),
    ConfigKey(
        "log.cleanup.policy",
        _A,
        "delete",
        "What becomes of old records.",
        choices=_POLICIES,
        dynamic=True,
    ),
    ConfigKey(
        "log.index.interval.bytes",
        _I,
        "4096",
        "Bytes of log between two index entries.",
        0,
        dynamic=True,
    ),
    ConfigKey(
        "log.index.size.max.bytes", _I, "10485760", "Largest size of an index.", 4, dynamic=True
    ),
)

# What is kept of what happened to groups.
_JOURNAL_KEYS = (
    ConfigKey(
        "journal.enable",
        _B,
        "true",
        "Keep in the topic coterie.journal what happens to groups, and why.",
    ),
    ConfigKey(
        "journal.retention.hours",
        _I,
        "168",
        "How long the journal is kept; -1 for ever.",
        -1,
    ),
    ConfigKey(
        "journal.retention.bytes",
        _L,
        str(256 * 1024 * 1024),
        "Size up to which a partition of the journal is kept; -1 for any size. A rebalance of ten"
        " members takes about 2 KiB.",
        -1,
    ),
)

# How the logs of all topics are looked after.
_UPKEEP_KEYS = (
    ConfigKey(
        "log.cleaner.enable",
        _B,
        "true",
        "Compact the logs whose cleanup.policy says so, __consumer_offsets among them. Without it"
        " they grow for ever.",
    ),
    ConfigKey(
        "log.cleaner.backoff.ms",
        _L,
        "15000",
        "How long the cleaner waits before it looks for work again, when no log needs cleaning.",
        0,
        dynamic=True,
    ),
    ConfigKey(
        "log.cleaner.dedupe.buffer.size",
        _L,
        DEDUPE_BUFFER_BYTES,
        "Memory that one cleaning may take for its map from keys to offsets. A log whose dirty part"
        " has more keys than fit is compacted in several cleanings. Kafka's default is 128 MiB;"
        " here the whole process stays within 64 MiB above its idle size.",
        1024 * 1024 + 1,
        dynamic=True,
    ),
    ConfigKey(
        "log.cleaner.io.max.bytes.per.second",
        _D,
        "1.7976931348623157E308",
        "The most bytes the cleaner reads and writes in a second.",
        1,
        dynamic=True,
    ),
    ConfigKey(
        "log.cleaner.min.cleanable.ratio",
        _D,
        "0.5",
        "Share of uncleaned bytes above which a log is compacted.",
        0,
        1,
        dynamic=True,
    ),
    ConfigKey(
        "log.cleaner.delete.retention.ms",
        _L,
        "86400000",
        "How long tombstones stay after compaction.",
        0,
        dynamic=True,
    ),
    ConfigKey(
        "log.cleaner.min.compaction.lag.ms",
        _L,
        "0",
        "Age below which a record is not compacted.",
        0,
        dynamic=True,
    ),
    ConfigKey(
        "log.cleaner.max.compaction.lag.ms",
        _L,
        _NEVER,
        "Age at which a record is compacted in any case.",
        1,
        dynamic=True,
    ),
    ConfigKey(
        "log.retention.check.interval.ms",
        _L,
        "300000",
        "How often records past their retention are looked for.",
        1,
    ),
    ConfigKey(
        "log.initial.task.delay.ms",
        _L,
        "30000",
        "How long after the start they are looked for first.",
        0,
    ),
    ConfigKey(
        "log.flush.offset.checkpoint.interval.ms",
        _I,
        "60000",
        "How often it is written down up to where each log is known to be on the disk; after a"
        " crash only what follows is scanned.",
        1,
    ),
)

_SERVER_KEYS = (
    ConfigKey("node.id", _I, "1", "The id of this broker.", 0),
    ConfigKey(
        "socket.request.max.bytes",
        _I,
        "104857600",
        "The largest request. It is refused from its first four bytes.",
        1024,
    ),
    ConfigKey(
        "max.connections",
        _I,
        "10000",
        "Connections that may be open. A group of 1,000 members needs a tenth of it;"
        " 10,000 idle ones take about 40 MiB.",
        0,
    ),
    ConfigKey(
        "max.connections.per.ip",
        _I,
        "5000",
        "Connections from one address: half of all, so that one host can't lock the others out.",
        0,
    ),
    ConfigKey(
        "connections.max.idle.ms", _L, "600000", "Idle connections are closed after this time.", 1
    ),
    ConfigKey(
        "fetch.max.bytes", _I, "57671680", "The most record bytes one Fetch answer holds.", 1024
    ),
    ConfigKey(
        "producer.id.expiration.ms",
        _I,
        "86400000",
        "How long the sequence numbers of an idle producer are remembered.",
        1,
    ),
)

BROKER: dict[str, ConfigKey] = {
    key.name: key
    for key in (*_GROUP_KEYS, *_JOURNAL_KEYS, *_TOPIC_DEFAULT_KEYS, *_UPKEEP_KEYS, *_SERVER_KEYS)
}

# Names that a server.properties of a real Kafka has and whose place here is an option of the
# command.
OPTIONS_INSTEAD = {
    "log.dirs": "--data-dir",
    "log.dir": "--data-dir",
    "listeners": "--host and --port",
    "advertised.listeners": "--advertise",
    "broker.id": "node.id",
    "log.flush.interval.ms": "--flush interval:MS",
    "log.flush.interval.messages": "--flush",
}
