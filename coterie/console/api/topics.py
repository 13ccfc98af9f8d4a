"""Topics: the list, one with its partitions, its settings, and the groups that read it."""

import time
from collections.abc import Iterable, Mapping
from typing import Any

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.configs import describe_settings
from coterie.client.errors import Refused, VersionUnsupported
from coterie.client.groups import list_groups
from coterie.client.log_dirs import describe_log_dirs
from coterie.client.offsets import (
    EARLIEST,
    LATEST,
    Committed,
    committed_offsets_of_groups,
    partition_offsets,
)
from coterie.client.progress import total
from coterie.client.times import now_ms
from coterie.client.topic_rows import Row, details_row, partition_row, setting_row, summary_row
from coterie.client.topics import Topic, describe_topics
from coterie.console.routes import Request, Route
from coterie.protocol.errors import ErrorCode
from coterie.server.network import http_errors

# Share groups have no committed offsets.
_WITHOUT_OFFSETS = ("share",)
# The offsets of so many groups are asked for together: an answer of some megabytes.
_GROUPS_AT_ONCE = 200


def _topics(request: Request) -> dict[str, Any]:
    with request.place.cluster() as cluster:
        found = [each for each in describe_topics(cluster) if not each.error]
        partitions = _partitions(cluster, found, with_stable=False)
    written = request.place.topic_rates.add(time.monotonic(), partitions)
    rows = [
        {
            **summary_row(topic),
            **_totals(topic, partitions[topic.name]),
            **written[topic.name]._asdict(),
        }
        for topic in found
    ]
    return {"at_ms": now_ms(), "topics": rows}


def _topic(request: Request) -> dict[str, Any]:
    with request.place.cluster() as cluster:
        topic = described_topic(cluster, request.path["topic"])
        partitions = _partitions(cluster, [topic], with_stable=True)[topic.name]
        written = request.place.topic_rates.add(time.monotonic(), {topic.name: partitions})
        (settings,) = describe_settings(cluster, "topics", [topic.name], everything=True)
    configs = {each.name: each.value or "" for each in settings.settings if each.source == "topic"}
    return {
        "at_ms": now_ms(),
        **details_row(topic, configs),
        **_totals(topic, partitions),
        **written[topic.name]._asdict(),
        "partitions": partitions,
        "settings": [setting_row("topics", topic.name, each) for each in settings.settings],
    }


def described_topic(cluster: Cluster, name: str) -> Topic:
    """Return a topic.

    Raises:
        Refused: there is none with this name, or the broker refuses to describe it.
    """
    (topic,) = describe_topics(cluster, [name])
    if topic.error in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION):
        raise http_errors.Refused("NotFound", f"there is no topic '{name}'")
    if topic.error:
        raise Refused(topic.error, f"Topic '{name}'")
    return topic


def _partitions(
    cluster: Cluster, topics: Iterable[Topic], *, with_stable: bool
) -> dict[str, list[Row]]:
    """Return the rows of the partitions of topics; what no broker tells is null."""
    found = list(topics)
    keys = [(topic.name, each.partition_index) for topic in found for each in topic.partitions]
    missing: dict[TopicPartition, int] = {}
    starts = partition_offsets(cluster, dict.fromkeys(keys, EARLIEST), missing)
    latest = dict.fromkeys(starts, LATEST)
    ends = partition_offsets(cluster, latest, missing)
    stable = partition_offsets(cluster, latest, missing, only_committed=True) if with_stable else {}
    sizes = _sizes(cluster, found)
    rows: dict[str, list[Row]] = {}
    for topic in found:
        rows[topic.name] = [
            {
                **partition_row(each),
                "start_offset": starts.get(key),
                "end_offset": ends.get(key),
                **({"last_stable_offset": stable.get(key)} if with_stable else {}),
                "size_bytes": sizes.get((*key, each.leader)),
            }
            for each in topic.partitions
            for key in [(topic.name, each.partition_index)]
        ]
    return rows


def _sizes(cluster: Cluster, topics: list[Topic]) -> Mapping[tuple[str, int, int | None], int]:
    """Return the size of the log of each partition on each broker; none if it is refused."""
    try:
        directories = describe_log_dirs(cluster, {each.name for each in topics}, ())
    except (Refused, VersionUnsupported):
        return {}
    return {
        (each.topic, each.partition, directory.broker): each.size_bytes
        for directory in directories
        for each in directory.partitions
        if not each.is_future
    }


def _totals(topic: Topic, partitions: list[Row]) -> Row:
    return {
        "size_bytes": total(each["size_bytes"] for each in partitions),
        "offsets": total(
            each["end_offset"] - each["start_offset"]
            for each in partitions
            if each["end_offset"] is not None
        ),
        "under_replicated": sum(
            len(each.in_sync) < len(each.replicas) for each in topic.partitions
        ),
        "without_leader": sum(each.leader is None for each in topic.partitions),
    }


def _groups(request: Request) -> dict[str, Any]:
    name = request.path["topic"]
    with request.place.cluster() as cluster:
        topic = described_topic(cluster, name)
        keys = [(name, each.partition_index) for each in topic.partitions]
        ends = partition_offsets(cluster, dict.fromkeys(keys, LATEST), {})
        listed = {
            each.group_id: each
            for each in list_groups(cluster)
            if each.type not in _WITHOUT_OFFSETS
        }
        committed = _committed(cluster, list(listed))
    rows = []
    for group_id, offsets in committed.items():
        partitions = [
            _group_partition(number, each.offset, ends.get((topic_name, number)))
            for (topic_name, number), each in sorted(offsets.items())
            if topic_name == name
        ]
        if not partitions:
            continue
        rows.append(
            {
                "group": group_id,
                "type": listed[group_id].type,
                "protocol_type": listed[group_id].protocol_type,
                "state": listed[group_id].state,
                "lag": total(each["lag"] for each in partitions),
                "partitions": partitions,
            }
        )
    return {"at_ms": now_ms(), "topic": name, "groups": sorted(rows, key=lambda row: row["group"])}


def _group_partition(number: int, committed: int, end: int | None) -> Row:
    lag = None if end is None else max(0, end - committed)
    return {"partition": number, "current_offset": committed, "log_end_offset": end, "lag": lag}


def _committed(
    cluster: Cluster, group_ids: list[str]
) -> Mapping[str, Mapping[TopicPartition, Committed]]:
    """Return the committed offsets of groups; a group that is refused has none."""
    found: dict[str, Mapping[TopicPartition, Committed]] = {}
    refused: dict[str, int] = {}
    for begin in range(0, len(group_ids), _GROUPS_AT_ONCE):
        part = group_ids[begin : begin + _GROUPS_AT_ONCE]
        found |= committed_offsets_of_groups(cluster, part, refused)
    return found


ROUTES = (
    Route("GET", "/api/topics", "The topics, with sizes and offsets.", _topics),
    Route(
        "GET",
        "/api/topics/{topic}",
        "A topic: its partitions and its settings with their sources.",
        _topic,
    ),
    Route(
        "GET",
        "/api/topics/{topic}/groups",
        "The groups that have committed offsets of a topic, with their lag.",
        _groups,
    ),
)
