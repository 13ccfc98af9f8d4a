"""The numbers of a broker, gathered when somebody asks for them.

What changes anyway (groups, logs, connections) is counted when it is scraped, in slices between
which the event loop belongs to others; what happens is counted in plain integers where it happens.
Names are Kafka's, written as Prometheus writes them, and the documentation of each begins with the
name Kafka's own metric has (spec section 20); what Kafka has no name for begins with `coterie_`.
"""

import asyncio
import os
import resource
import sys
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from coterie import __version__
from coterie.coordinator.group import GroupState
from coterie.coordinator.shard import ShardState
from coterie.server.metrics.exposition import Family, Labels, by_label, counter, gauge, render

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.groups.runtime import CoordinatorRuntime

_GROUPS = "kafka.coordinator.group:type=GroupMetadataManager,name="
_RUNTIME = "kafka.server:type=group-coordinator-metrics,name="
_CLEANER = "kafka.log:type=LogCleaner,name="
_CLEANER_MANAGER = "kafka.log:type=LogCleanerManager,name="

# Kafka has no metric for a shard that holds nothing; ours that is not loaded yet counts as failed.
_SHARD_STATES = {
    ShardState.LOADING: "loading",
    ShardState.ACTIVE: "active",
    ShardState.FAILED: "failed",
}
# Groups looked at before others get a turn: 1,000 take about half a millisecond.
_GROUPS_PER_TURN = 1_000
# Likewise partitions.
_PARTITIONS_PER_TURN = 500


async def collect(broker: "Broker") -> bytes:
    """All metrics as text."""
    families: list[Family] = []
    families += await _groups(broker)
    families += await _logs(broker)
    families += _cleaner(broker)
    families += _disk(broker)
    families += _process(broker)
    return render(families)


async def _groups(broker: "Broker") -> list[Family]:
    states: Counter[GroupState] = Counter()
    offsets = members = seen = 0
    shards = broker.coordinator.shards
    for shard in shards:
        # Copied, for groups come and go between two turns.
        for group in list(shard.groups.values()):
            states[group.state] += 1
            members += len(group.members)
            topics = shard.logged.offsets.get(group.group_id)
            if topics is not None:
                offsets += sum(map(len, topics.values()))
            seen += 1
            if seen % _GROUPS_PER_TURN == 0:
                await asyncio.sleep(0)
    loaded = Counter(_SHARD_STATES.get(shard.state, "failed") for shard in shards)
    happened = broker.groups.event_counts
    return [
        gauge(
            "kafka_coordinator_group_num_groups",
            f"{_GROUPS}NumGroups. Groups that exist.",
            states.total(),
        ),
        by_label(
            "gauge",
            "kafka_coordinator_group_groups",
            f"{_GROUPS}NumGroups<State>. Groups by state.",
            "state",
            [(state.value, states[state]) for state in GroupState],
        ),
        gauge(
            "kafka_coordinator_group_num_offsets",
            f"{_GROUPS}NumOffsets. Committed offsets that are kept.",
            offsets,
        ),
        gauge("coterie_group_members", "Members of all groups.", members),
        by_label(
            "gauge",
            "kafka_coordinator_group_num_partitions",
            f"{_RUNTIME}num-partitions. Partitions of __consumer_offsets by what becomes of them.",
            "state",
            [(state, loaded[state]) for state in _SHARD_STATES.values()],
        ),
        gauge(
            "coterie_group_load_seconds",
            "How long loading all partitions of __consumer_offsets took at the start.",
            broker.load_seconds,
        ),
        *_group_events(broker.groups, happened),
    ]


def _group_events(groups: "CoordinatorRuntime", happened: "Counter[str]") -> Iterator[Family]:
    for name, kafkas, text, value in (
        (
            "offset_commits",
            "offset-commit-count",
            "Offsets that were committed, one for each partition.",
            groups.offsets_committed,
        ),
        (
            "offset_deletions",
            "offset-deletion-count",
            "Offsets that were deleted, also by their expiration.",
            groups.offsets_deleted,
        ),
        (
            "offset_expirations",
            "offset-expiration-count",
            "Times that offsets of a group passed their retention.",
            happened["offsets_expired"],
        ),
        (
            "completed_rebalances",
            "group-completed-rebalance-count",
            "Rebalances that ended with an assignment for everybody.",
            happened["generation_completed"],
        ),
    ):
        yield counter(f"kafka_coordinator_group_{name}_total", f"{_RUNTIME}{kafkas}. {text}", value)
    yield by_label(
        "counter",
        "coterie_group_events_total",
        "What happened to groups, by the name it has in the log and the journal.",
        "event",
        sorted(happened.items()),
    )


async def _logs(broker: "Broker") -> list[Family]:
    """Sizes by topic: a sample for each partition would be 20,000 of them at worst."""
    sizes: list[tuple[Labels, float]] = []
    segments: list[tuple[Labels, float]] = []
    records: list[tuple[Labels, float]] = []
    partitions = offline = seen = 0
    for topic in list(broker.topics.by_name.values()):
        label = (("topic", topic.name),)
        size_bytes = segment_count = offsets = 0
        for partition in list(topic.partitions):
            partitions += 1
            log = partition.opened_log
            if partition.failed or (log is not None and log.failed):
                offline += 1
            if log is not None:
                size_bytes += log.size_bytes
                segment_count += len(log.segments)
                offsets += log.log_end_offset - log.log_start_offset
            seen += 1
            if seen % _PARTITIONS_PER_TURN == 0:
                await asyncio.sleep(0)
        sizes.append((label, size_bytes))
        segments.append((label, segment_count))
        records.append((label, offsets))
    return [
        Family(
            "kafka_log_size_bytes",
            "gauge",
            "kafka.log:type=Log,name=Size. Bytes of a topic's logs that are open.",
            sizes,
        ),
        Family(
            "kafka_log_num_log_segments",
            "gauge",
            "kafka.log:type=Log,name=NumLogSegments. Segments of a topic's logs that are open.",
            segments,
        ),
        Family(
            "coterie_log_offsets",
            "gauge",
            "Offsets from the start to the end of a topic's logs that are open; compaction leaves"
            " gaps among them.",
            records,
        ),
        gauge(
            "kafka_server_partition_count",
            "kafka.server:type=ReplicaManager,name=PartitionCount. Partitions that exist.",
            partitions,
        ),
        gauge(
            "kafka_server_offline_replica_count",
            "kafka.server:type=ReplicaManager,name=OfflineReplicaCount. Partitions whose log can't"
            " be read or written.",
            offline,
        ),
    ]


def _cleaner(broker: "Broker") -> list[Family]:
    maintenance = broker.maintenance
    cleaner = maintenance.cleaner
    return [
        counter(
            "coterie_log_cleaner_cleanings_total", "Logs that were compacted.", cleaner.cleanings
        ),
        counter(
            "coterie_log_cleaner_read_bytes_total",
            "Bytes that compaction read to copy them.",
            cleaner.bytes_read,
        ),
        counter(
            "coterie_log_cleaner_written_bytes_total",
            "Bytes that compaction kept.",
            cleaner.bytes_written,
        ),
        gauge(
            "kafka_log_cleaner_recopy_percent",
            f"{_CLEANER}cleaner-recopy-percent. Share of the bytes read that was kept.",
            100 * cleaner.bytes_written / cleaner.bytes_read if cleaner.bytes_read else 0,
        ),
        gauge(
            "coterie_log_cleaner_last_clean_time_seconds",
            "How long the last cleaning took, its rests included.",
            cleaner.last_cleaning_s,
        ),
        gauge(
            "kafka_log_cleaner_max_clean_time_secs",
            f"{_CLEANER}max-clean-time-secs. The longest cleaning since the start.",
            cleaner.longest_cleaning_s,
        ),
        gauge(
            "kafka_log_cleaner_max_dirty_percent",
            f"{_CLEANER_MANAGER}max-dirty-percent. Share of uncleaned bytes in the dirtiest log.",
            100 * cleaner.max_dirty_ratio,
        ),
        gauge(
            "kafka_log_cleaner_uncleanable_partitions_count",
            f"{_CLEANER_MANAGER}uncleanable-partitions-count. Partitions whose cleaning failed; the"
            " log says why.",
            len(cleaner.uncleanable),
        ),
        gauge("coterie_log_cleaner_busy", "Whether a log is being compacted.", cleaner.busy),
        counter(
            "coterie_log_retention_segments_total",
            "Segments that retention removed.",
            maintenance.segments_removed,
        ),
        counter(
            "coterie_log_retention_bytes_total",
            "Bytes that retention removed.",
            maintenance.bytes_removed,
        ),
    ]


def _disk(broker: "Broker") -> list[Family]:
    flusher = broker.flusher
    return [
        counter(
            "kafka_log_flushes_total",
            "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs. Syncs of logs.",
            flusher.syncs,
        ),
        counter(
            "kafka_log_flush_seconds_total",
            "kafka.log:type=LogFlushStats,name=LogFlushRateAndTimeMs. Time spent in them.",
            flusher.sync_seconds,
        ),
        gauge(
            "coterie_log_slowest_flush_seconds",
            "The slowest of them since the start.",
            flusher.slowest_sync_seconds,
        ),
        gauge(
            "kafka_server_connection_count",
            "kafka.server:type=socket-server-metrics,name=connection-count. Open connections.",
            len(broker.connection_quotas),
        ),
        gauge(
            "coterie_buffered_request_bytes",
            "Bytes of requests that are not complete, or wait for an earlier one.",
            broker.connection_quotas.buffered_bytes,
        ),
    ]


def _process(broker: "Broker") -> list[Family]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    families = [
        by_label("gauge", "coterie_build_info", "1; the version.", "version", [(__version__, 1)]),
        counter(
            "process_cpu_seconds_total", "CPU time of the process.", used.ru_utime + used.ru_stime
        ),
        gauge(
            "process_start_time_seconds",
            "When the broker was started, in seconds since the epoch.",
            broker.started_ms / 1000,
        ),
        gauge(
            "coterie_uptime_seconds", "Since then.", (broker.now_ms() - broker.started_ms) / 1000
        ),
    ]
    if sys.platform == "linux":
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        families += [
            gauge(
                "process_resident_memory_bytes",
                "Memory of the process.",
                pages * resource.getpagesize(),
            ),
            gauge("process_open_fds", "Open file descriptors.", len(os.listdir("/proc/self/fd"))),
        ]
    return families
