"""New offsets for a group, by the rules of kafka-consumer-groups --reset-offsets.

A plan is made from the offsets that the group has and the begin and end of the partitions; making
it changes nothing. As in Kafka, an offset outside a partition is moved to its nearest end, a time
after the last record means the end, and a partition without an offset can't be shifted
[client/reset-rules].
"""

import re
from collections.abc import Callable, Container, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.errors import ClientError
from coterie.client.group_description import SHARE_GROUP, GroupDescription
from coterie.client.groups import describe_groups
from coterie.client.offsets import (
    EARLIEST,
    LATEST,
    committed_offsets,
    partition_offsets,
)
from coterie.client.share_groups import start_offsets
from coterie.client.topics import describe_topics

_DURATION = re.compile(
    r"(?P<sign>[+-])?P(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)


class PlannedOffset(NamedTuple):
    """The new offset of a partition.

    Attributes:
        partition: topic and number.
        current: the committed offset; None without one.
        new: the offset to commit.
        remark: why `new` is not the requested offset; None if it is.
    """

    partition: TopicPartition
    current: int | None
    new: int
    remark: str | None = None


class Clone(NamedTuple):
    """The committed offsets of another group.

    Attributes:
        offsets: those of existing partitions.
        without_partition: the partitions that do not exist any more.
    """

    offsets: dict[TopicPartition, int]
    without_partition: list[TopicPartition]


class Range(NamedTuple):
    """The begin, end and committed offset of a partition."""

    partition: TopicPartition
    begin: int
    end: int
    committed: int | None


# Makes the new offset of a partition.
Rule = Callable[[Range], PlannedOffset]


def to_earliest(at: Range) -> PlannedOffset:
    """Reset to the first available record."""
    return PlannedOffset(at.partition, at.committed, at.begin)


def to_latest(at: Range) -> PlannedOffset:
    """Reset to the end of the log."""
    return PlannedOffset(at.partition, at.committed, at.end)


def to_current(at: Range) -> PlannedOffset:
    """Keep the committed offset; without one, reset to the end of the log."""
    if at.committed is None:
        return PlannedOffset(at.partition, None, at.end, "there is no committed offset")
    return PlannedOffset(at.partition, at.committed, at.committed)


def to_offset(offset: int) -> Rule:
    """Return the rule that resets every partition to this offset."""
    return lambda at: _within(at, offset)


def shift_by(count: int) -> Rule:
    """Return the rule that moves by a number of records, backwards if it is negative."""

    def rule(at: Range) -> PlannedOffset:
        if at.committed is None:
            topic, index = at.partition
            raise ClientError(
                f"Partition {topic}-{index} has no committed offset to shift.",
                "Select other partitions with --topic TOPIC:PARTITION,..., or choose another rule.",
            )
        return _within(at, at.committed + count)

    return rule


def to_given(offsets: Mapping[TopicPartition, int]) -> Rule:
    """Return the rule that resets each partition to its listed offset."""
    return lambda at: _within(at, offsets[at.partition])


def current_offsets(cluster: Cluster, group: GroupDescription) -> dict[TopicPartition, int]:
    """Return the committed offsets of a group, or the start offsets of a share group.

    A group that does not exist has none.
    """
    if group.type != SHARE_GROUP:
        found = committed_offsets(cluster, group.group_id)
        return {partition: each.offset for partition, each in found.items()}
    shared = start_offsets(cluster, [group.group_id])[group.group_id]
    return {part: each.offset for part, each in shared.items() if each.offset is not None}


def plan(
    cluster: Cluster,
    current: Mapping[TopicPartition, int],
    partitions: Iterable[TopicPartition],
    rule: Rule,
    refused: dict[TopicPartition, ClientError] | None = None,
) -> list[PlannedOffset]:
    """Return the new offset of each partition by a rule, in order of topic and number.

    Args:
        cluster: the cluster.
        current: the offsets that the group has.
        partitions: the partitions.
        rule: makes the new offset of each.
        refused: if given, partitions to which the rule can't be applied are added here with the
            reason instead of raising.

    Raises:
        ClientError: the rule can't be applied to a partition.
        Refused: a partition does not exist.
    """
    planned = []
    for at in _ranges(cluster, current, partitions):
        try:
            planned.append(rule(at))
        except ClientError as error:
            if refused is None:
                raise
            refused[at.partition] = error
    return planned


def plan_by_time(
    cluster: Cluster,
    current: Mapping[TopicPartition, int],
    partitions: Iterable[TopicPartition],
    timestamp_ms: int,
) -> list[PlannedOffset]:
    """Return the offset of the first record at or after a time in each partition.

    If there is no such record it is the end of the partition.
    """
    ranges = _ranges(cluster, current, partitions)
    found = partition_offsets(cluster, {at.partition: timestamp_ms for at in ranges})
    return [
        PlannedOffset(at.partition, at.committed, found[at.partition])
        if found[at.partition] >= 0
        else PlannedOffset(
            at.partition, at.committed, at.end, "there is no record at or after this time"
        )
        for at in ranges
    ]


def resolve_partitions(cluster: Cluster, scopes: Iterable[str]) -> list[TopicPartition]:
    """Return the partitions that scopes of the form TOPIC or TOPIC:0,1 name, in order.

    Raises:
        ClientError: a topic or partition does not exist, or a scope has another form.
    """
    wanted: dict[str, set[int] | None] = {}
    for scope in scopes:
        topic, numbers = _scope(scope)
        known = wanted.get(topic, set())
        wanted[topic] = None if numbers is None or known is None else known | numbers
    found: list[TopicPartition] = []
    for described in describe_topics(cluster, wanted):
        numbers = wanted[described.name]
        if described.error:
            raise ClientError(
                f"Topic '{described.name}' does not exist.",
                "`coterie topics list` lists the existing topics.",
            )
        existing = {partition.partition_index for partition in described.partitions}
        for index in sorted(existing if numbers is None else numbers):
            if index not in existing:
                raise ClientError(
                    f"Topic '{described.name}' has no partition {index}: "
                    f"its partitions are 0 to {max(existing)}."
                )
            found.append((described.name, index))
    return sorted(found)


def offsets_to_clone(
    cluster: Cluster, source: str, wanted: Container[TopicPartition] | None = None
) -> Clone:
    """Return the offsets of a group of any type for another one [client/reset-rules].

    Args:
        cluster: the cluster.
        source: the group, which may have members.
        wanted: the partitions; None for all.
    """
    group = describe_groups(cluster, [source])[source]
    committed = {
        partition: offset
        for partition, offset in sorted(current_offsets(cluster, group).items())
        if wanted is None or partition in wanted
    }
    names = {topic for topic, _ in committed}
    counts = {each.name: len(each.partitions) for each in describe_topics(cluster, names)}
    left = [(topic, index) for topic, index in committed if index >= counts[topic]]
    return Clone({each: committed[each] for each in committed.keys() - set(left)}, left)


def timestamp_of(text: str) -> int:
    """Return epoch milliseconds of an ISO 8601 date and time.

    Without a UTC offset the time is UTC, as in Kafka's tool.

    Raises:
        ValueError: the text is not a date and time.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def duration_ms_of(text: str) -> int:
    """Return milliseconds of an ISO 8601 duration in days and smaller units: P7D, PT1H30M.

    Raises:
        ValueError: the text is not such a duration.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match[unit] for unit in ("days", "hours", "minutes", "seconds")):
        raise ValueError(f"{text!r} is not a duration of the form PnDTnHnMnS")
    days, hours, minutes = (int(match[unit] or 0) for unit in ("days", "hours", "minutes"))
    seconds = ((days * 24 + hours) * 60 + minutes) * 60 + float(match["seconds"] or 0)
    return round(seconds * 1000) * (-1 if match["sign"] == "-" else 1)


def planned_row(group_id: str, planned: PlannedOffset, *, committed: bool) -> dict[str, Any]:
    """Return a planned offset with the keys of `groups reset-offsets --json`."""
    return {
        "group": group_id,
        "topic": planned.partition[0],
        "partition": planned.partition[1],
        "current_offset": planned.current,
        "new_offset": planned.new,
        "committed": committed,
        "remark": planned.remark,
    }


def _scope(text: str) -> tuple[str, set[int] | None]:
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    try:
        return topic, {int(number) for number in numbers.split(",")}
    except ValueError as error:
        raise ClientError(f"'{text}' is neither TOPIC nor TOPIC:PARTITION,PARTITION,...") from error


def _ranges(
    cluster: Cluster,
    current: Mapping[TopicPartition, int],
    partitions: Iterable[TopicPartition],
) -> list[Range]:
    wanted = sorted(partitions)
    begins = partition_offsets(cluster, dict.fromkeys(wanted, EARLIEST))
    ends = partition_offsets(cluster, dict.fromkeys(wanted, LATEST))
    return [
        Range(partition, begins[partition], ends[partition], current.get(partition))
        for partition in wanted
    ]


def _within(at: Range, offset: int) -> PlannedOffset:
    """Return an offset, moved to the nearest end of the partition if it is outside."""
    if offset > at.end:
        return PlannedOffset(at.partition, at.committed, at.end, f"{offset} is above the end")
    if offset < at.begin:
        return PlannedOffset(at.partition, at.committed, at.begin, f"{offset} is below the start")
    return PlannedOffset(at.partition, at.committed, offset)
