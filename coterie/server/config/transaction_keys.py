"""The broker's settings for transactions, with Kafka's names, defaults and ranges."""

from coterie.server.config.keys import ConfigKey, ConfigType

_I = ConfigType.INT

TRANSACTION_KEYS = (
    ConfigKey(
        "transaction.max.timeout.ms",
        _I,
        "900000",
        "The longest transaction.timeout.ms of a producer.",
        1,
    ),
    ConfigKey(
        "transactional.id.expiration.ms",
        _I,
        "604800000",
        "How long a transactional id is kept that is not used.",
        1,
    ),
    ConfigKey(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        _I,
        "10000",
        "Interval between two searches for transactions past their timeout, which are aborted.",
        1,
    ),
    ConfigKey(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        _I,
        "3600000",
        "Interval between two searches for expired transactional ids.",
        1,
    ),
    ConfigKey(
        "transaction.state.log.num.partitions",
        _I,
        "50",
        "Partitions of __transaction_state. Fixed once the topic exists.",
        1,
        1000,
    ),
    ConfigKey(
        "transaction.state.log.segment.bytes",
        _I,
        "104857600",
        "Segment size of __transaction_state.",
        1024 * 1024,
    ),
)
