"""What the coordinator can be told: Kafka's configuration names, underscored (spec section 19)."""

from typing import NamedTuple


class GroupConfig(NamedTuple):
    """Settings of the group coordinator, with Kafka's defaults.

    Attributes:
        group_min_session_timeout_ms, group_max_session_timeout_ms: what a JoinGroup may ask for.
        group_initial_rebalance_delay_ms: how long a first join waits for others.
        group_max_size: members a group may have.
        offset_metadata_max_size: UTF-16 units of metadata one committed offset may carry.
        offsets_retention_ms: how long offsets outlive their last use.
        offsets_retention_check_interval_ms: how often a partition is swept for them.
        max_groups: groups all partitions together may hold. Kafka has no such limit; ids come from
            peers, and a group
            without members costs about 1 KiB.
        offsets_topic_num_partitions: partitions of `__consumer_offsets`; fixed after its creation.
    """

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2_147_483_647
    offset_metadata_max_size: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    max_groups: int = 100_000
    offsets_topic_num_partitions: int = 50


# How long a member that was added may take until it is told its generation. It cannot heartbeat
# before that, so its own session timeout would be too short; the number is fixed in Kafka (spec
# section 4.3).
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
