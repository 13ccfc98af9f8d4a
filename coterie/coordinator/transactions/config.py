"""The settings of the transaction coordinator, by Kafka's names with underscores."""

from typing import NamedTuple


class TransactionConfig(NamedTuple):
    """Settings of the transaction coordinator, with Kafka's defaults.

    Attributes:
        max_timeout_ms: the longest timeout that a producer may ask for.
        abort_interval_ms: the time between two searches for transactions past their timeout.
        id_expiration_ms: how long an unused transactional id is kept.
        expiry_interval_ms: the time between two searches for expired ids.
        state_partitions: partitions of `__transaction_state`; fixed once it is created.
        max_ids: a partition keeps at most twice its even share of so many ids. Kafka has no such
            limit. An id that is not used takes about 1 KiB, mostly of Python objects.
    """

    max_timeout_ms: int = 900_000
    abort_interval_ms: int = 10_000
    id_expiration_ms: int = 604_800_000
    expiry_interval_ms: int = 3_600_000
    state_partitions: int = 50
    max_ids: int = 100_000
