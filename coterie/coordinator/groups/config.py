"""The settings of the group coordinator, by Kafka's names with underscores."""

from typing import Generic, NamedTuple, TypeVar


class ConsumerSettings(NamedTuple):
    """Settings of consumer groups that a group may have for itself.

    Attributes:
        session_timeout_ms: how long a member of the consumer protocol may be silent.
        heartbeat_interval_ms: how often its members are asked to send a heartbeat.
        assignment_interval_ms: the least time between two target assignments.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000


class ShareSettings(NamedTuple):
    """Settings of share groups that a group may have for itself, and that concern its members.

    Attributes:
        session_timeout_ms: how long a member may be silent.
        heartbeat_interval_ms: how often members are asked to send a heartbeat.
        assignment_interval_ms: the least time between two target assignments.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000


class StreamsSettings(NamedTuple):
    """Settings of streams groups that a group may have for itself.

    Attributes:
        session_timeout_ms: how long a member may be silent.
        heartbeat_interval_ms: how often members are asked to send a heartbeat.
        assignment_interval_ms: the least time between two target assignments.
        num_standby_replicas: how many standby tasks each stateful task has.
        initial_rebalance_delay_ms: how long the first target of an empty group waits for members.
    """

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    assignment_interval_ms: int = 1_000
    num_standby_replicas: int = 0
    initial_rebalance_delay_ms: int = 3_000


S = TypeVar("S")


class SettingsTable(Generic[S]):
    """The settings of all groups of a type. Their owner changes them while the coordinator runs.

    Attributes:
        default: of the groups that have none of their own.
        own: by group id.
    """

    __slots__ = ("default", "own")

    def __init__(self, default: S) -> None:
        """Begin without a group that has its own."""
        self.default = default
        self.own: dict[str, S] = {}

    def of(self, group_id: str) -> S:
        """Return the settings of a group."""
        return self.own.get(group_id, self.default)


class ConsumerSettingsTable(SettingsTable[ConsumerSettings]):
    """The settings of all consumer groups."""

    __slots__ = ()

    def __init__(self, default: ConsumerSettings | None = None) -> None:
        """Begin without a group that has its own."""
        super().__init__(ConsumerSettings() if default is None else default)


class ShareSettingsTable(SettingsTable[ShareSettings]):
    """The settings of all share groups."""

    __slots__ = ()

    def __init__(self, default: ShareSettings | None = None) -> None:
        """Begin without a group that has its own."""
        super().__init__(ShareSettings() if default is None else default)


class StreamsSettingsTable(SettingsTable[StreamsSettings]):
    """The settings of all streams groups."""

    __slots__ = ()

    def __init__(self, default: StreamsSettings | None = None) -> None:
        """Begin without a group that has its own."""
        super().__init__(StreamsSettings() if default is None else default)


class ConsumerGroupConfig(NamedTuple):
    """Settings of consumer groups, with Kafka's defaults.

    Attributes:
        max_size: the most members of a group.
        assignors: the names of the assignors that members may ask for; the first one serves groups
            that ask for none.
        migration_policy: in which direction groups with members change their type:
            "bidirectional", "upgrade", "downgrade" or "disabled".
        regex_refresh_interval_ms: how old a resolved regular expression may be.
        settings: those that a group may have for itself, by group.
    """

    max_size: int = 2_147_483_647
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: str = "bidirectional"
    regex_refresh_interval_ms: int = 600_000
    settings: ConsumerSettingsTable = ConsumerSettingsTable()


# Kafka's name of the only assignor of share groups.
SHARE_ASSIGNOR = "simple"


class ShareGroupConfig(NamedTuple):
    """Settings of share groups, with Kafka's defaults.

    Attributes:
        max_size: the most members of a group.
        initialize_retry_interval_ms: after how long the state of partitions is initialized again
            that did not come into being.
        settings: those that a group may have for itself, by group.
    """

    max_size: int = 200
    initialize_retry_interval_ms: int = 30_000
    settings: ShareSettingsTable = ShareSettingsTable()


# Kafka's name of the only assignor of streams groups.
STREAMS_ASSIGNOR = "sticky"


class StreamsGroupConfig(NamedTuple):
    """Settings of streams groups, with Kafka's defaults.

    Attributes:
        max_size: the most members of a group.
        settings: those that a group may have for itself, by group.
    """

    max_size: int = 2_147_483_647
    settings: StreamsSettingsTable = StreamsSettingsTable()


class GroupConfig(NamedTuple):
    """Settings of the group coordinator, with Kafka's defaults.

    Attributes:
        group_min_session_timeout_ms, group_max_session_timeout_ms: the session timeouts that a
            JoinGroup may name.
        group_initial_rebalance_delay_ms: how long the first join phase of a group lasts.
        group_max_size: the most members of a group.
        offset_metadata_max_size: the longest metadata of a committed offset, in UTF-16 code units.
        offsets_retention_ms: how long offsets are kept after their last use.
        offsets_retention_check_interval_ms: the time between two sweeps of a partition.
        offsets_commit_timeout_ms: how long an operation waits while too few replicas are in sync.
        max_groups: the most groups of all partitions together. Kafka has no such limit. A group
            without members takes about 1 KiB, and clients choose the ids.
        consumer: those of consumer groups.
        share: those of share groups.
        streams: those of streams groups.
        offsets_topic_num_partitions: partitions of `__consumer_offsets`; fixed once it is created.
    """

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_size: int = 2_147_483_647
    offset_metadata_max_size: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    offsets_commit_timeout_ms: int = 5_000
    max_groups: int = 100_000
    consumer: ConsumerGroupConfig = ConsumerGroupConfig()
    share: ShareGroupConfig = ShareGroupConfig()
    streams: StreamsGroupConfig = StreamsGroupConfig()
    offsets_topic_num_partitions: int = 50


# The time limit of a new member until its JoinGroup is answered. Before that it cannot heartbeat,
# so its own session timeout would be too short. Kafka has the same constant
# [joining/new-member-timeout].
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
