"""The settings of a topic: every one that Kafka 4.3 has.

Test suites create topics with all kinds of settings, so all are accepted, checked, kept and shown.
The documentation of a setting without effect says so.
"""

import re
from collections.abc import Mapping

from coterie.server.config.broker_keys import COMPRESSIONS, POLICIES, TIMESTAMPS
from coterie.server.config.keys import ConfigKey, ConfigType, InvalidValue

_B, _S, _I, _L, _D, _A = (
    ConfigType.BOOLEAN,
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.DOUBLE,
    ConfigType.LIST,
)
_LONG_MAX = str(2**63 - 1)
_HOUR_MS = 3_600_000
_NO_FOLLOWERS = "Kept and shown without an effect: there are no followers."
_NO_TIERS = "Kept and shown without an effect: there is no tiered storage."
_FLUSH = (
    "Kept and shown without an effect: the option --flush decides when the disk is synced, and by"
    " default it is before a response."
)
_LEVEL = "Level of this codec, if batches are stored in it because of compression.type."

_TOPIC_KEYS = (
    ConfigKey(
        "cleanup.policy",
        _A,
        "delete",
        "What happens to old records: `delete` after a time or beyond a size, `compact` to the"
        " newest of each key, or both.",
        choices=POLICIES,
        synonyms=(("log.cleanup.policy", 1),),
    ),
    ConfigKey(
        "compression.type",
        _S,
        "producer",
        "Compression of stored batches; `producer` keeps that of the producer.",
        choices=COMPRESSIONS,
        synonyms=(("compression.type", 1),),
    ),
    ConfigKey(
        "compression.gzip.level",
        _I,
        "-1",
        _LEVEL,
        1,
        9,
        or_minus_one=True,
        synonyms=(("compression.gzip.level", 1),),
    ),
    ConfigKey(
        "compression.lz4.level",
        _I,
        "9",
        _LEVEL,
        1,
        17,
        synonyms=(("compression.lz4.level", 1),),
    ),
    ConfigKey(
        "compression.zstd.level",
        _I,
        "3",
        _LEVEL,
        -131072,
        22,
        synonyms=(("compression.zstd.level", 1),),
    ),
    ConfigKey(
        "delete.retention.ms",
        _L,
        "86400000",
        "How long a tombstone is kept after the first cleaning that met it, for readers to see.",
        0,
        synonyms=(("log.cleaner.delete.retention.ms", 1),),
    ),
    ConfigKey(
        "file.delete.delay.ms",
        _L,
        "60000",
        "Kept and shown without an effect: a file that retention or compaction removes is removed"
        " at once, because no reader holds it.",
        0,
        synonyms=(("log.segment.delete.delay.ms", 1),),
    ),
    ConfigKey(
        "flush.messages",
        _L,
        _LONG_MAX,
        _FLUSH,
        1,
        synonyms=(("log.flush.interval.messages", 1),),
    ),
    ConfigKey(
        "flush.ms",
        _L,
        _LONG_MAX,
        _FLUSH,
        0,
        synonyms=(("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
    ),
    ConfigKey("follower.replication.throttled.replicas", _A, "", _NO_FOLLOWERS),
    ConfigKey("leader.replication.throttled.replicas", _A, "", _NO_FOLLOWERS),
    ConfigKey(
        "index.interval.bytes",
        _I,
        "4096",
        "Bytes of log between two index entries.",
        0,
        synonyms=(("log.index.interval.bytes", 1),),
    ),
    ConfigKey(
        "local.retention.bytes",
        _L,
        "-2",
        _NO_TIERS,
        -2,
        synonyms=(("log.local.retention.bytes", 1),),
    ),
    ConfigKey(
        "local.retention.ms",
        _L,
        "-2",
        _NO_TIERS,
        -2,
        synonyms=(("log.local.retention.ms", 1),),
    ),
    ConfigKey(
        "max.compaction.lag.ms",
        _L,
        _LONG_MAX,
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
        "How far a record's timestamp may lie in the future.",
        0,
        synonyms=(("log.message.timestamp.after.max.ms", 1),),
    ),
    ConfigKey(
        "message.timestamp.before.max.ms",
        _L,
        _LONG_MAX,
        "How far a record's timestamp may lie in the past.",
        0,
        synonyms=(("log.message.timestamp.before.max.ms", 1),),
    ),
    ConfigKey(
        "message.timestamp.type",
        _S,
        "CreateTime",
        "Whether records keep the producer's time or get the time of their append.",
        choices=TIMESTAMPS,
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
        "Kept and shown; there is one replica, and acks=all waits for it.",
        1,
        synonyms=(("min.insync.replicas", 1),),
    ),
    ConfigKey(
        "preallocate",
        _B,
        "false",
        "Kept and shown without an effect: segments grow as they are written.",
        synonyms=(("log.preallocate", 1),),
    ),
    ConfigKey("remote.log.copy.disable", _B, "false", _NO_TIERS),
    ConfigKey("remote.log.delete.on.disable", _B, "false", _NO_TIERS),
    ConfigKey("remote.storage.enable", _B, "false", "There is no tiered storage: must be false."),
    ConfigKey(
        "retention.bytes",
        _L,
        "-1",
        "Size up to which a partition's records are kept, if cleanup.policy has delete; a negative"
        " value is any.",
        synonyms=(("log.retention.bytes", 1),),
    ),
    ConfigKey(
        "retention.ms",
        _L,
        "604800000",
        "How long records are kept, if cleanup.policy has delete; -1 is for ever.",
        -1,
        synonyms=(
            ("log.retention.ms", 1),
            ("log.retention.minutes", 60_000),
            ("log.retention.hours", _HOUR_MS),
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
        "Size of an index at which a new segment begins.",
        4,
        synonyms=(("log.index.size.max.bytes", 1),),
    ),
    ConfigKey(
        "segment.jitter.ms",
        _L,
        "0",
        "How much earlier than segment.ms a new segment may begin; each partition has a share of it"
        " of its own, so that not all begin one at once.",
        0,
        synonyms=(("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
    ),
    ConfigKey(
        "segment.ms",
        _L,
        "604800000",
        "Age at which a new segment begins.",
        1,
        synonyms=(("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
    ),
    ConfigKey(
        "unclean.leader.election.enable",
        _B,
        "false",
        "Kept and shown without an effect: there is one replica, which is always in sync.",
        synonyms=(("unclean.leader.election.enable", 1),),
    ),
)

# Beats segment.bytes where it is set, and is shown only there. Tests of clients make small segments
# with it, since segment.bytes has a minimum of 1 MiB.
INTERNAL_SEGMENT_BYTES = "internal.segment.bytes"
_UNLISTED_KEY = ConfigKey(
    INTERNAL_SEGMENT_BYTES,
    _I,
    None,
    "Size at which a new segment begins, in place of segment.bytes and without its minimum.",
    is_listed=False,
)

TOPIC: dict[str, ConfigKey] = {key.name: key for key in (*_TOPIC_KEYS, _UNLISTED_KEY)}

_THROTTLED = ("follower.replication.throttled.replicas", "leader.replication.throttled.replicas")
_REPLICA = re.compile(r"[0-9]+:[0-9]+")


def check_topic_value(name: str, text: str) -> None:
    """Check the value of a topic's setting, `name` being one.

    Raises:
        InvalidValue: the setting cannot have the value.
    """
    value = TOPIC[name].parse(text)
    if name in _THROTTLED and isinstance(value, tuple) and value not in ((), ("*",)):
        if not all(_REPLICA.fullmatch(element) for element in value):
            raise InvalidValue(
                f"Invalid value [{', '.join(value)}] for configuration {name}: {name} must be the"
                " literal '*' or a list of replicas in the following format:"
                " [partitionId]:[brokerId],[partitionId]:[brokerId],..."
            )
    elif name == "remote.storage.enable" and value:
        raise InvalidValue(
            "Tiered Storage functionality is disabled in the broker."
            " Topic cannot be configured with remote log storage."
        )


def check_compaction_lags(values: Mapping[str, str]) -> None:
    """Check the two compaction lags of a topic against each other.

    Args:
        values: the topic's own settings, each of them valid.

    Raises:
        InvalidValue: records would have to be compacted before they may be.
    """
    low, high = "min.compaction.lag.ms", "max.compaction.lag.ms"
    minimum, maximum = (int(values.get(name) or TOPIC[name].default or 0) for name in (low, high))
    if minimum > maximum:
        raise InvalidValue(f"conflict topic config setting {low} ({minimum}) > {high} ({maximum})")
