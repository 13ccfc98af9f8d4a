"""The settings of the share coordinator, by Kafka's names with underscores."""

from typing import NamedTuple


class ShareStateConfig(NamedTuple):
    """Settings of the share coordinator, with Kafka's defaults.

    Attributes:
        state_partitions: partitions of `__share_group_state`; fixed once it is created.
        updates_per_snapshot: so many updates of a share partition are followed by a snapshot.
        write_timeout_ms: after how long a write is answered with an error that cannot be
            acknowledged, because too few replicas are in sync.
        cold_interval_ms: a share partition whose snapshot is older gets a new one.
        prune_interval_ms: after how long what is not needed is deleted from the log.
    """

    state_partitions: int = 50
    updates_per_snapshot: int = 500
    write_timeout_ms: int = 5_000
    cold_interval_ms: int = 300_000
    prune_interval_ms: int = 300_000
