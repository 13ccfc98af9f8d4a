"""The fields of single records as columns, without numpy and pyarrow, and what they share.

The codec uses them for records of which a log has few, and `plain_log` for all.
"""

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
