"""Rows of the view `groups` as generations of the timeline."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from coterie.assignors.model import TopicPartition
from coterie.pipeline.timeline.model import Generation, RecordedMember, Removed

Row = Mapping[str, Any]


def generations_of(rows: Iterable[Row]) -> Iterator[Generation | Removed]:
    """Yield a generation for each row, or the end of the group for a tombstone.

    The time of a generation is the timestamp of its record [pipeline/journal-then-log].

    Args:
        rows: rows of the view `groups`, in the order of the log.
    """
    for row in rows:
        at = row["record_ts"] or row["state_ts"]
        if at is None:
            continue
        at_ms = round(at.timestamp() * 1000)
        if row["is_tombstone"]:
            yield Removed(at_ms)
            continue
        yield Generation(
            row["generation"],
            at_ms,
            row["protocol_type"] or "",
            row["protocol"],
            row["leader"],
            tuple(_member(member) for member in row["members"]),
        )


def _member(row: Row) -> RecordedMember:
    return RecordedMember(
        row["member_id"],
        row["instance_id"],
        row["client_id"],
        row["client_host"],
        None if row["topics"] is None else tuple(row["topics"]),
        _partitions(row["owned"]),
        _partitions(row["assigned"]),
        None,
        row["session_timeout_ms"],
        row["rebalance_timeout_ms"],
    )


def _partitions(listed: Iterable[Row] | None) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(each["topic"], each["partition"]) for each in listed or ())
