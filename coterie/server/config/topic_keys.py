"""The settings of a topic: every one that Kafka 4.3 has.

Test suites create topics with all kinds of settings, so all are accepted, checked, kept and shown.
Those that do nothing on a single broker without tiered storage say so in their documentation.
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
_NO_EFFECT = "Kept and shown; it has no effect on a single broker with local storage."

_TOPIC_KEYS = (
    ConfigKey(
        "cleanup.policy",
        _A,
        "delete",
        "What becomes of old records: `delete` after a time or beyond a size, `compact` to the"
        " newest of each key, or both.",
        choices=_POLICIES,
        synonyms=(("log.cleanup.policy", 1),),
    ),
    ConfigKey(
        "compression.type",
        _S,
        "producer",
        "Compression of stored batches; `producer` keeps what came.",
        choices=_COMPRESSIONS,
        synonyms=(("compression.type", 1),),
    ),
    ConfigKey(
        "compression.gzip.level", _I, "-1", "Level of gzip, where this broker compresses.", -1, 9
    ),
    ConfigKey(
        "compression.lz4.level", _I, "9", "Level of lz4, where this broker compresses.", 1, 17
    ),
    ConfigKey(
        "compression.zstd.level",
        _I,
        "3",
        "Level of zstd, where this broker compresses.",
        -131072,
        22,
    ),
    ConfigKey(
        "delete.retention.ms",
        _L,
        "86400000",
        "How long a tombstone stays after the first cleaning that met it, so that readers see it.",
        0,
        synonyms=(("log.cleaner.delete.retention.ms", 1),),
    ),
    ConfigKey("file.delete.delay.ms", _L, "60000", _NO_EFFECT, 0),
    ConfigKey(
        "flush.messages", _L, _NEVER, "Kept and shown; --flush decides when the disk is synced.", 1
    ),
    ConfigKey(
        "flush.ms", _L, _NEVER, "Kept and shown; --flush decides when the disk is synced.", 0
    ),
    ConfigKey("follower.replication.throttled.replicas", _A, "", _NO_EFFECT),
    ConfigKey("leader.replication.throttled.replicas", _A, "", _NO_EFFECT),
    ConfigKey(
        "index.interval.bytes",
        _I,
        "4096",
        "Bytes of log between two index entries.",
        0,
        synonyms=(("log.index.interval.bytes", 1),),
    ),
    ConfigKey("local.retention.bytes", _L, "-2", _NO_EFFECT, -2),
    ConfigKey("local.retention.ms", _L, "-2", _NO_EFFECT, -2),
    ConfigKey(
        "max.compaction.lag.ms",
        _L,
        _NEVER,
        "Age at which a record becomes due for compaction, however little there is to compact.",
        1,
        synonyms=(("log.cleaner.max.compaction.lag.ms", 1),),
    ),
    ConfigKey(
        "max.message.bytes",
        _I,
        "1048588",
        "The largest record batch that is accepted.",
        0,
        synonyms=(("message.max.bytes", 1),),
    ),
    ConfigKey(
        "message.timestamp.after.max.ms",
        _L,
        "3600000",
        "How far in the future a record's timestamp may lie.",
        0,
        synonyms=(("log.message.timestamp.after.max.ms", 1),),
    ),
    ConfigKey(
        "message.timestamp.before.max.ms",
        _L,
        _NEVER,
        "How far in the past a record's timestamp may lie.",
        0,
        synonyms=(("log.message.timestamp.before.max.ms", 1),),
    ),
    ConfigKey(
        "message.timestamp.type",
        _S,
        "CreateTime",
        "Whether records keep the producer's time or get the time of their append.",
        choices=_TIMESTAMPS,
        synonyms=(("log.message.timestamp.type", 1),),
    ),
    ConfigKey(
        "min.cleanable.dirty.ratio",
        _D,
        "0.5",
        "Share of uncleaned bytes above which a log is compacted.",
        0,
        1,
        synonyms=(("log.cleaner.min.cleanable.ratio", 1),),
    ),
    ConfigKey(
        "min.compaction.lag.ms",
        _L,
        "0",
        "Age below which a record is not compacted.",
        0,
        synonyms=(("log.cleaner.min.compaction.lag.ms", 1),),
    ),
    ConfigKey(
        "min.insync.replicas",
        _I,
        "1",
        "Copies that must exist for acks=all; there is one.",
        1,
        synonyms=(("min.insync.replicas", 1),),
    ),
    ConfigKey("preallocate", _B, "false", _NO_EFFECT),
    ConfigKey("remote.log.copy.disable", _B, "false", _NO_EFFECT),
    ConfigKey("remote.log.delete.on.disable", _B, "false", _NO_EFFECT),
    ConfigKey("remote.storage.enable", _B, "false", _NO_EFFECT),
    ConfigKey(
        "retention.bytes",
        _L,
        "-1",
        "Size up to which a partition's records are kept, where cleanup.policy has delete; -1 for"
        " any.",
        -1,
        synonyms=(("log.retention.bytes", 1),),
    ),
    ConfigKey(
        "retention.ms",
        _L,
        "604800000",
        "How long records are kept, where cleanup.policy has delete; -1 for ever.",
        -1,
        synonyms=(
            ("log.retention.ms", 1),
            ("log.retention.minutes", 60_000),
            ("log.retention.hours", 3_600_000),
        ),
    ),
    ConfigKey(
        "segment.bytes",
        _I,
        "1073741824",
        "Size at which a new segment begins.",
        1024 * 1024,
        synonyms=(("log.segment.bytes", 1),),
    ),
    ConfigKey(
        "segment.index.bytes",
        _I,
        "10485760",
        "Largest size of an index.",
        4,
        synonyms=(("log.index.size.max.bytes", 1),),
    ),
    ConfigKey("segment.jitter.ms", _L, "0", _NO_EFFECT, 0),
    ConfigKey(
        "segment.ms",
        _L,
        "604800000",
        "Age at which a new segment begins.",
        1,
        synonyms=(("log.roll.ms", 1), ("log.roll.hours", 3_600_000)),
    ),
    ConfigKey("unclean.leader.election.enable", _B, "false", _NO_EFFECT),
)

TOPIC: dict[str, ConfigKey] = {key.name: key for key in _TOPIC_KEYS}
