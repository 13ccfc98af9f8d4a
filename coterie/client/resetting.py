"""Where a group shall read from next: the rules of kafka-consumer-groups --reset-offsets.

A plan is made from what is committed and where the partitions begin and end; nothing is changed by
making one. As in Kafka, an offset asked for by number (or by shift, or from a file) is moved into
the partition's range, a time after the last record means the end, and a partition without a
committed offset can't be shifted.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.errors import ClientError
from coterie.client.offsets import (
    EARLIEST,
    LATEST,
    Committed,
    committed_offsets,
    partition_offsets,
)
from coterie.client.topics import describe_topics

_DURATION = re.compile(
    r"(?P<sign>[+-])?P(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)


class PlannedOffset(NamedTuple):
    """A partition's committed offset (None without one), the one to commit, and why it is not what
    was asked for.
    """

    partition: TopicPartition
    current: int | None
    new: int
    remark: str | None = None


class Range(NamedTuple):
    """What there is to choose from in a partition."""

    partition: TopicPartition
    begin: int
    end: int
    committed: int | None


# From the facts about a partition to its plan.
Rule = Callable[[Range], PlannedOffset]


def to_earliest(at: Range) -> PlannedOffset:
    """The first record that is still there."""
    return PlannedOffset(at.partition, at.committed, at.begin)


def to_latest(at: Range) -> PlannedOffset:
    """Behind the last record."""
    return PlannedOffset(at.partition, at.committed, at.end)


def to_current(at: Range) -> PlannedOffset:
    """Where it is; the end where nothing is committed."""
    if at.committed is None:
        return PlannedOffset(at.partition, None, at.end, "nothing is committed: the end is taken")
    return PlannedOffset(at.partition, at.committed, at.committed)


def to_offset(offset: int) -> Rule:
    """This offset in every partition."""
    return lambda at: _within(at, offset)


def shift_by(count: int) -> Rule:
    """So many records forward, or (negative) back."""

    def rule(at: Range) -> PlannedOffset:
        if at.committed is None:
            topic, index = at.partition
            raise ClientError(
                f"Partition {topic}-{index} has no committed offset to shift.",
                "Leave it out (--topic TOPIC:PARTITION,...), or choose another rule for it.",
            )
        return _within(at, at.committed + count)

    return rule


def to_given(offsets: Mapping[TopicPartition, int]) -> Rule:
    """The offset listed for each partition."""
    return lambda at: _within(at, offsets[at.partition])


def plan(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition], rule: Rule
) -> list[PlannedOffset]:
    """What a rule means for each partition of a group, by topic and number.

    Raises:
        ClientError: the rule can't be applied to one of them.
        Refused: a partition does not exist.
    """
    return [rule(at) for at in _ranges(cluster, group_id, partitions)]


def plan_by_time(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition], timestamp_ms: int
) -> list[PlannedOffset]:
    """The first record of this time or later in each partition; the end where there is none."""
    ranges = _ranges(cluster, group_id, partitions)
    found = partition_offsets(cluster, {at.partition: timestamp_ms for at in ranges})
    return [
        PlannedOffset(at.partition, at.committed, found[at.partition])
        if found[at.partition] >= 0
        else PlannedOffset(
            at.partition, at.committed, at.end, "no record is that young: the end is taken"
        )
        for at in ranges
    ]


def resolve_partitions(cluster: Cluster, scopes: Iterable[str]) -> list[TopicPartition]:
    """The partitions that TOPIC or TOPIC:0,1 mean, in order.

    Raises:
        ClientError: a topic or partition does not exist, or a scope is not of that form.
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
                "`coterie topics list` shows those that do exist.",
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


def timestamp_of(text: str) -> int:
    """Epoch milliseconds of an ISO 8601 date and time; without an offset it is UTC, as in Kafka's
    tool.

    Raises:
        ValueError: the text is none.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def duration_ms_of(text: str) -> int:
    """Milliseconds of an ISO 8601 duration of days and smaller units: P7D, PT1H30M, P1DT0.5S.

    Raises:
        ValueError: the text is none.
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None or not any(match[unit] for unit in ("days", "hours", "minutes", "seconds")):
        raise ValueError(f"{text!r} is no duration of the form PnDTnHnMnS")
    days, hours, minutes = (int(match[unit] or 0) for unit in ("days", "hours", "minutes"))
    seconds = ((days * 24 + hours) * 60 + minutes) * 60 + float(match["seconds"] or 0)
    return round(seconds * 1000) * (-1 if match["sign"] == "-" else 1)


def _scope(text: str) -> tuple[str, set[int] | None]:
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    try:
        return topic, {int(number) for number in numbers.split(",")}
    except ValueError as error:
        raise ClientError(f"'{text}' is neither TOPIC nor TOPIC:PARTITION,PARTITION...") from error


def _ranges(cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]) -> list[Range]:
    wanted = sorted(partitions)
    committed: dict[TopicPartition, Committed] = committed_offsets(cluster, group_id)
    begins = partition_offsets(cluster, dict.fromkeys(wanted, EARLIEST))
    ends = partition_offsets(cluster, dict.fromkeys(wanted, LATEST))
    return [
        Range(
            partition,
            begins[partition],
            ends[partition],
            committed[partition].offset if partition in committed else None,
        )
        for partition in wanted
    ]


def _within(at: Range, offset: int) -> PlannedOffset:
    """An offset moved into what the partition holds."""
    if offset > at.end:
        return PlannedOffset(at.partition, at.committed, at.end, f"{offset} is above the end")
    if offset < at.begin:
        return PlannedOffset(at.partition, at.committed, at.begin, f"{offset} is below the start")
    return PlannedOffset(at.partition, at.committed, offset)
