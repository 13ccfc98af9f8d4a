"""The metrics of a broker, collected when they are scraped.

State that changes anyway (groups, logs, connections) is counted during the scrape, in slices
between which the event loop serves other connections. Events are counted in plain integers where
they happen. The names follow [metrics/names]. Those of several brokers are in `cluster_metrics`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from coterie import __version__
from coterie.coordinator.kernel.shard_state import ShardState
from coterie.server.metrics.security import denials, login_metrics, principal_connections
from coterie.server.operating_system import cpu_s, open_files, resident_bytes

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.groups.runtime import GroupRuntime
    from coterie.server.shared_parts import SharedParts

_GROUPS = "kafka.coordinator.group:type=GroupMetadataManager,name="
_RUNTIME = "kafka.server:type=group-coordinator-metrics,name="
_LOG = "kafka.log:type=Log,name="
_FLUSHES = "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs."
_CLEANER = "kafka.log:type=LogCleaner,name="
_CLEANER_MANAGER = "kafka.log:type=LogCleanerManager,name="
_REPLICAS = "kafka.server:type=ReplicaManager,name="
_SESSIONS = "kafka.server:type=FetchSessionCache,name="

# A state that is not listed here counts as failed [metrics/group-metrics].
_SHARD_STATES = {
    ShardState.LOADING: "loading",
    ShardState.ACTIVE: "active",
    ShardState.FAILED: "failed",
}
# Groups and partitions that are counted before the event loop gets a turn: half a millisecond.
_GROUPS_PER_TURN = 1_000
PARTITIONS_PER_TURN = 500


async def collect(broker: "Broker") -> list[Metric]:
    """Return all metrics of the only broker of a process."""
    shared = broker.shared
    return [
        *await _groups(broker),
        *await _logs(shared),
        *_cleaner(shared),
        *_flushes(shared),
        *_network(broker),
        *_telemetry(shared),
        principal_connections(broker),
        denials(shared),
        *login_metrics(broker),
        *_process(broker.started_ms, broker.now_ms()),
    ]


async def collect_of_broker(broker: "Broker") -> list[Metric]:
    """Return the metrics that each of several brokers has."""
    return [
        *await _groups(broker),
        *_network(broker),
        principal_connections(broker),
        *login_metrics(broker),
    ]


async def collect_shared(shared: "SharedParts", started_ms: int) -> list[Metric]:
    """Return the metrics of what the brokers of a process share, the process among it."""
    return [
        *await _logs(shared),
        *_cleaner(shared),
        *_flushes(shared),
        *_telemetry(shared),
        denials(shared),
        *_process(started_ms, shared.environment.now_ms()),
    ]


def _gauge(name: str, documentation: str, value: float) -> Metric:
    return GaugeMetricFamily(name, documentation, value)


def _gauges(
    name: str, documentation: str, label: str, values: Iterable[tuple[str, float]]
) -> Metric:
    """Return a gauge with one label; `values` are the label's values and the samples'."""
    family = GaugeMetricFamily(name, documentation, labels=[label])
    for text, value in values:
        family.add_metric([text], value)
    return family


def _counter(name: str, documentation: str, value: float) -> Metric:
    """Return a counter, whose name is exposed with the suffix `_total`."""
    return CounterMetricFamily(name, documentation, value)


async def _groups(broker: "Broker") -> list[Metric]:
    states: Counter[str] = Counter()
    offset_count = member_count = seen = 0
    shards = broker.coordinator.shards
    for shard in shards:
        # A copy, because groups are created and deleted between two turns.
        for group in list(shard.groups.values()):
            states[group.state_name] += 1
            member_count += group.member_count
            topics = shard.logged.offsets.get(group.group_id)
            if topics is not None:
                offset_count += sum(map(len, topics.values()))
            seen += 1
            if seen % _GROUPS_PER_TURN == 0:
                await broker.environment.next_turn()
    shard_states = Counter(
        _SHARD_STATES.get(shard.state, "failed")
        for shard, partition in zip(shards, broker.offsets_topic.partitions, strict=True)
        if broker.host.leads(partition)
    )
    return [
        _gauge(
            "kafka_coordinator_group_num_groups",
            f"{_GROUPS}NumGroups. Groups that exist.",
            states.total(),
        ),
        _gauges(
            "kafka_coordinator_group_groups",
            f"{_GROUPS}NumGroups<State>. Groups by state.",
            "state",
            [(state, states[state]) for state in broker.coordinator.types.states],
        ),
        _gauge(
            "kafka_coordinator_group_num_offsets",
            f"{_GROUPS}NumOffsets. Committed offsets.",
            offset_count,
        ),
        _gauge("coterie_group_members", "Members of all groups.", member_count),
        _gauges(
            "kafka_coordinator_group_num_partitions",
            f"{_RUNTIME}num-partitions. Partitions of __consumer_offsets by state.",
            "state",
            [(state, shard_states[state]) for state in _SHARD_STATES.values()],
        ),
        _gauge(
            "coterie_group_load_seconds",
            "Time that loading all partitions of __consumer_offsets took at start.",
            broker.load_seconds,
        ),
        *_group_events(broker.groups),
    ]


def _group_events(groups: "GroupRuntime") -> Iterator[Metric]:
    for name, kafka_name, text, value in (
        (
            "offset_commits",
            "offset-commit-count",
            "Committed offsets, one for each partition.",
            groups.offsets_committed,
        ),
        (
            "offset_deletions",
            "offset-deletion-count",
            "Deleted offsets, expired ones included.",
            groups.offsets_deleted,
        ),
        (
            "offset_expirations",
            "offset-expiration-count",
            "Times that offsets of a group expired.",
            groups.event_counts.get("offsets_expired", 0),
        ),
        (
            "completed_rebalances",
            "group-completed-rebalance-count",
            "Rebalances that ended with an assignment for every member.",
            groups.event_counts.get("generation_completed", 0),
        ),
    ):
        yield _counter(f"kafka_coordinator_group_{name}", f"{_RUNTIME}{kafka_name}. {text}", value)
    events = CounterMetricFamily(
        "coterie_group_events",
        "Events of groups, by their names in the log and in the journal.",
        labels=["event"],
    )
    for event, count in sorted(groups.event_counts.items()):
        events.add_metric([event], count)
    yield events


async def _logs(shared: "SharedParts") -> list[Metric]:
    """Return sizes by topic [metrics/group-metrics]."""
    sizes: list[tuple[str, float]] = []
    segments: list[tuple[str, float]] = []
    offsets: list[tuple[str, float]] = []
    partition_count = offline_count = 0
    for topic in list(shared.topics.by_name.values()):
        size_bytes = segment_count = offset_count = 0
        for partition in list(topic.partitions):
            log = partition.opened_log
            if partition.failed or (log is not None and log.failed):
                offline_count += 1
            if log is not None:
                size_bytes += log.size_bytes
                segment_count += len(log.segments)
                offset_count += log.log_end_offset - log.log_start_offset
            partition_count += 1
            if partition_count % PARTITIONS_PER_TURN == 0:
                await shared.environment.next_turn()
        sizes.append((topic.name, size_bytes))
        segments.append((topic.name, segment_count))
        offsets.append((topic.name, offset_count))
    return [
        _gauges(
            "kafka_log_size_bytes", f"{_LOG}Size. Bytes of a topic's open logs.", "topic", sizes
        ),
        _gauges(
            "kafka_log_num_log_segments",
            f"{_LOG}NumLogSegments. Segments of a topic's open logs.",
            "topic",
            segments,
        ),
        _gauges(
            "coterie_log_offsets",
            "Offsets between start and end of a topic's open logs; compaction leaves gaps in them.",
            "topic",
            offsets,
        ),
        _gauge(
            "kafka_server_partition_count",
            f"{_REPLICAS}PartitionCount. Partitions that exist.",
            partition_count,
        ),
        _gauge(
            "kafka_server_offline_replica_count",
            f"{_REPLICAS}OfflineReplicaCount. Partitions whose log cannot be read or written.",
            offline_count,
        ),
    ]


def _cleaner(shared: "SharedParts") -> list[Metric]:
    maintenance = shared.maintenance
    cleaner = maintenance.cleaner
    return [
        _counter("coterie_log_cleaner_cleanings", "Logs that were compacted.", cleaner.cleanings),
        _counter(
            "coterie_log_cleaner_read_bytes",
            "Bytes that compaction read in order to copy them.",
            cleaner.bytes_read,
        ),
        _counter(
            "coterie_log_cleaner_written_bytes",
            "Bytes that compaction kept.",
            cleaner.bytes_written,
        ),
        _gauge(
            "kafka_log_cleaner_recopy_percent",
            f"{_CLEANER}cleaner-recopy-percent. Share of the bytes read that was kept.",
            100 * cleaner.bytes_written / cleaner.bytes_read if cleaner.bytes_read else 0,
        ),
        _gauge(
            "coterie_log_cleaner_last_clean_time_seconds",
            "Duration of the last cleaning, pauses included.",
            cleaner.last_cleaning_s,
        ),
        _gauge(
            "kafka_log_cleaner_max_clean_time_secs",
            f"{_CLEANER}max-clean-time-secs. Duration of the longest cleaning since the start.",
            cleaner.longest_cleaning_s,
        ),
        _gauge(
            "kafka_log_cleaner_max_dirty_percent",
            f"{_CLEANER_MANAGER}max-dirty-percent. Share of uncleaned bytes in the dirtiest log.",
            100 * cleaner.max_dirty_ratio,
        ),
        _gauge(
            "kafka_log_cleaner_uncleanable_partitions_count",
            f"{_CLEANER_MANAGER}uncleanable-partitions-count. Partitions whose cleaning failed; the"
            " log says why.",
            len(cleaner.uncleanable),
        ),
        _gauge("coterie_log_cleaner_busy", "1 while a log is being compacted.", cleaner.busy),
        _counter(
            "coterie_log_retention_segments",
            "Segments that retention removed.",
            maintenance.segments_removed,
        ),
        _counter(
            "coterie_log_retention_bytes",
            "Bytes that retention removed.",
            maintenance.bytes_removed,
        ),
    ]


def _flushes(shared: "SharedParts") -> list[Metric]:
    flusher = shared.flusher
    return [
        _counter("kafka_log_flushes", f"{_FLUSHES} Syncs of logs.", flusher.syncs),
        _counter(
            "kafka_log_flush_seconds",
            f"{_FLUSHES} Time spent in syncs of logs.",
            flusher.sync_seconds,
        ),
        _gauge(
            "coterie_log_slowest_flush_seconds",
            "Duration of the slowest sync since the start.",
            flusher.slowest_sync_seconds,
        ),
    ]


def _network(broker: "Broker") -> list[Metric]:
    quotas = broker.connection_quotas
    sessions = broker.fetch_sessions
    return [
        _gauge(
            "kafka_server_connection_count",
            "kafka.server:type=socket-server-metrics,name=connection-count. Open connections.",
            len(quotas),
        ),
        _gauge(
            "coterie_buffered_request_bytes",
            "Bytes of requests that are incomplete or wait for an earlier request.",
            quotas.buffered_bytes,
        ),
        _gauge(
            "kafka_server_num_incremental_fetch_sessions",
            f"{_SESSIONS}NumIncrementalFetchSessions. Fetch sessions.",
            sessions.session_count,
        ),
        _gauge(
            "kafka_server_num_incremental_fetch_partitions_cached",
            f"{_SESSIONS}NumIncrementalFetchPartitionsCached. Partitions of all fetch sessions.",
            sessions.partition_count,
        ),
        _counter(
            "kafka_server_incremental_fetch_session_evictions",
            f"{_SESSIONS}IncrementalFetchSessionEvictionsPerSec. Fetch sessions that yielded to"
            " others.",
            sessions.evictions,
        ),
    ]


def _telemetry(shared: "SharedParts") -> list[Metric]:
    telemetry = shared.telemetry
    return [
        _counter(
            "coterie_telemetry_client_instances",
            "Clients that were given an id to push metrics with.",
            telemetry.instances,
        ),
        _counter(
            "coterie_telemetry_pushes", "Accepted pushes of clients' metrics.", telemetry.pushes
        ),
        _counter(
            "coterie_telemetry_pushed_bytes",
            "Bytes of metrics that clients have pushed.",
            telemetry.pushed_bytes,
        ),
    ]


def _process(started_ms: int, now_ms: int) -> list[Metric]:
    metrics = [
        _gauges("coterie_build_info", "Always 1, with the version.", "version", [(__version__, 1)]),
        _counter("process_cpu_seconds", "CPU time of the process.", cpu_s()),
        _gauge(
            "process_start_time_seconds",
            "Start of the broker in seconds since the epoch.",
            started_ms / 1000,
        ),
        _gauge(
            "coterie_uptime_seconds",
            "Time since the start of the broker.",
            (now_ms - started_ms) / 1000,
        ),
    ]
    resident, files = resident_bytes(), open_files()
    if resident is not None:
        metrics.append(
            _gauge("process_resident_memory_bytes", "Resident memory of the process.", resident)
        )
    if files is not None:
        metrics.append(_gauge("process_open_fds", "Open file descriptors.", files))
    return metrics
