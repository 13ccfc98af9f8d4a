"""The fields of single records as columns, without numpy and pyarrow, and what they share.

The codec uses them for records of which a log has few, and `plain_log` for all.
"""

from collections.abc import Iterable
from typing import Any

from coterie.protocol.fields import uuid_text

# The calendars of Spark and Python end with the year 9999.
MAX_TIMESTAMP_MS = 253_402_300_799_999
_NO_ID = bytes(16)


def timestamp_us(epoch_ms: int) -> int | None:
    """Return one timestamp in the unit of the columns; None outside the calendar, as for -1."""
    return epoch_ms * 1000 if 0 <= epoch_ms <= MAX_TIMESTAMP_MS else None


def topic_id_text(topic_id: bytes) -> str | None:
    """Return an id as Kafka prints it; None for the id of zeros, which means no id."""
    return None if topic_id == _NO_ID else uuid_text(topic_id)


def partition_rows(topics: Iterable[Any]) -> list[dict[str, Any]]:
    """Return partitions of topics that a record names by their ids."""
    return [
        {"topic_id": topic_id_text(topic.topic_id), "partition": partition}
        for topic in topics
        for partition in topic.partitions
    ]


def target_columns(value: Any) -> dict[str, Any]:
    """Return the columns of the record about the target of a group of any type with heartbeats."""
    at_ms = value.assignment_timestamp or -1
    return {"target_epoch": value.assignment_epoch, "target_ts": timestamp_us(at_ms)}
