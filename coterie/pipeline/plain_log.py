"""Records of groups in a data directory, read without numpy and pyarrow.

`coterie pipeline show` works with the plain install: it reads the directory record by record, which
takes ten times as long as the codec. Damaged batches are left out, as they are by the codec.
"""

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from coterie.pipeline.records import timestamp_us
from coterie.pipeline.records.commits import KEY_TYPES as COMMIT_KEY_TYPES
from coterie.pipeline.records.commits import commit_fields
from coterie.pipeline.records.epochs import KINDS, epoch_fields
from coterie.pipeline.records.groups import KEY_TYPE as GROUP_KEY_TYPE
from coterie.pipeline.records.groups import group_fields
from coterie.pipeline.segments import list_segments
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.records import check_crc, decode_records, iterate_batches

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Row = dict[str, Any]


class PlainRecord(NamedTuple):
    """A record: its offset, its time in microseconds, key and value."""

    offset: int
    at_us: int | None
    key: bytes
    value: bytes | None


def plain_records(directory: str) -> Iterator[PlainRecord]:
    """Yield the records with a key in the directory of a partition, up to the first damage of each
    segment.
    """
    for segment in list_segments(directory):
        try:
            with open(segment.path, "rb") as file:
                data = file.read()
        except FileNotFoundError:
            continue
        try:
            for position, header in iterate_batches(data):
                if header.is_control or not check_crc(data, header, position):
                    continue
                for record in decode_records(data, header, position):
                    if record.key is not None:
                        at_us = timestamp_us(record.timestamp_ms)
                        yield PlainRecord(record.offset, at_us, record.key, record.value)
        except MalformedFrame:
            # The end of a log that is being written, or damage.
            continue


def plain_rows(directory: str, view: str) -> Iterator[Row]:
    """Yield the rows of a view; see `plain_row`.

    Args:
        directory: the directory of a partition.
        view: raw, commits, groups or consumer_epochs.
    """
    for record in plain_records(directory):
        row = plain_row(record, view)
        if row is not None:
            yield row


def plain_row(record: PlainRecord, view: str) -> Row | None:
    """Return a record as a row with the columns of a group's records; other columns are None.

    Args:
        record: the record.
        view: raw, commits, groups or consumer_epochs.

    Returns:
        None if the record is not of this view.
    """
    key_type = int.from_bytes(record.key[:2], signed=True) if len(record.key) > 1 else None
    row: Row = {"log_offset": record.offset, "record_ts": record.at_us}
    try:
        if view == "raw":
            row |= {"key": record.key, "value": record.value}
        elif view == "groups" and key_type == GROUP_KEY_TYPE:
            row |= group_fields(record.key, record.value)
        elif view == "commits" and key_type in COMMIT_KEY_TYPES:
            row |= commit_fields(record.key, record.value)
        elif view == "consumer_epochs" and key_type in KINDS:
            row |= epoch_fields(record.key, record.value)
        else:
            return None
    except MalformedFrame:
        return None
    for name in row:
        if name.endswith("_ts") and row[name] is not None:
            row[name] = _EPOCH + timedelta(microseconds=row[name])
    return defaultdict(lambda: None, row)
