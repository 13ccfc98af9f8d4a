"""The settings of the share coordinator, by Kafka's names with underscores."""

from typing import NamedTuple


class ShareStateConfig(NamedTuple):
    """Settings of the share coordinator, with Kafka's defaults.

    Attributes:
        state_partitions: partitions of `__share_group_state`; fixed once it is created.
        updates_per_snapshot: so many updates of a share partition are followed by a snapshot.
    """

    state_partitions: int = 50
    updates_per_snapshot: int = 500
