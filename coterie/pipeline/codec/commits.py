"""The view `commits`: every offset commit of a piece, all value versions, tombstones (spec 14.1).

Keys and values have few fields at computable positions, so they are read for all records at once.
A record that does not look like one of the known versions down to its last byte is handed to
`coterie.protocol.messages.log_records`, which makes it a row or damage.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from coterie.pipeline.codec import columns
from coterie.pipeline.codec.numbers import Bools, Int64s
from coterie.pipeline.codec.piece import DecodedView, Piece, damaged_record
from coterie.pipeline.codec.records import Records
from coterie.pipeline.schemas import COMMITS
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.log_records import (
    NO_EXPIRY,
    OffsetCommitKey,
    decode_key,
    decode_value,
)
from coterie.protocol.primitives import MAX_STRING_BYTES
from coterie.protocol.record_batch import TRANSACTIONAL

KEY_TYPES = (0, 1)

_NEWEST_VERSION = 4
# What a value begins with; before version 3 there is no leader epoch.
_VALUE_HEAD = np.dtype([("version", ">i2"), ("offset", ">i8"), ("leader_epoch", ">i4")])
# What stands behind the metadata: of version 4 all of it, of others the timestamp.
_VALUE_TAIL = np.dtype(
    [("commit_ms", ">i8"), ("tags", "u1"), ("topic_id_tag", ">u2"), ("topic_id", "V16")]
)
# The tagged field 0 of 16 bytes, as its tag and size are written.
_TOPIC_ID_TAG = 0x0010
# The varint of MAX_STRING_BYTES + 1.
_MAX_SIZE_BYTES = 3


def decode_commits(piece: Piece) -> DecodedView:
    """The offset commits of a piece."""
    mask = (piece.key_types == KEY_TYPES[0]) | (piece.key_types == KEY_TYPES[1])
    records = piece.records if mask.all() else piece.records.chosen(mask)
    key_types = piece.key_types[mask]
    keys, bad_keys = _Keys.read(piece, records)
    values, bad_values = _Values.read(piece, records)
    wrong = bad_keys | bad_values
    for text in (keys.group, keys.topic, values.metadata):
        invalid = columns.invalid_utf8(text)
        if invalid is not None:
            wrong |= invalid
    batch = records.batch
    producer_id = piece.batches.producer_id[batch]
    transactional = piece.batches.attributes[batch] & TRANSACTIONAL != 0
    null = values.tombstone
    rows = pa.RecordBatch.from_arrays(
        [
            piece.log_partitions(len(records)),
            columns.numbers(records.offset, pa.int64()),
            columns.timestamps(records.timestamp_ms),
            columns.numbers(producer_id, pa.int64(), producer_id < 0),
            columns.flags(transactional),
            keys.group,
            keys.topic,
            values.topic_id,
            columns.numbers(keys.partition, pa.int32()),
            columns.numbers(values.offset, pa.int64(), null),
            columns.numbers(values.leader_epoch, pa.int32(), null | (values.leader_epoch < 0)),
            values.metadata,
            columns.timestamps(values.commit_ms, null),
            columns.timestamps(values.expire_ms, null),
            columns.numbers(key_types, pa.int16()),
            columns.numbers(values.version, pa.int16(), null),
            columns.flags(null),
        ],
        schema=COMMITS,
    )
    if not wrong.any():
        return DecodedView(rows, [])
    return _with_rows_by_hand(piece, records, rows, wrong)


class _Keys:
    """Group, topic and partition of every record."""

    __slots__ = ("group", "partition", "topic")

    group: pa.Array
    topic: pa.Array
    partition: Int64s

    @classmethod
    def read(cls, piece: Piece, records: Records) -> tuple["_Keys", Bools]:
        buffer = piece.buffer
        end = records.key_start + records.key_size
        group_at = records.key_start + 4
        group_size = buffer.read(">i2", records.key_start + 2)
        wrong = (group_size < 0) | (group_at + group_size + 6 > end)
        group_size[wrong] = 0
        topic_at = group_at + group_size + 2
        topic_size = buffer.read(">i2", topic_at - 2)
        wrong |= (topic_size < 0) | (topic_at + topic_size + 4 != end)
        topic_size[wrong] = 0
        self = cls()
        self.group = columns.texts(buffer, group_at, group_size, pa.string())
        self.topic = columns.texts(buffer, topic_at, topic_size, pa.string())
        self.partition = buffer.read(">i4", topic_at + topic_size)
        return self, wrong


class _Values:
    """The fields of every value; where the value is null they mean nothing."""

    __slots__ = (
        "commit_ms", "expire_ms", "leader_epoch", "metadata", "offset", "tombstone", "topic_id",
        "version",
    )  # fmt: skip

    tombstone: Bools
    version: Int64s
    offset: Int64s
    leader_epoch: Int64s
    metadata: pa.Array
    commit_ms: Int64s
    expire_ms: Int64s
    topic_id: pa.Array

    @classmethod
    def read(cls, piece: Piece, records: Records) -> tuple["_Values", Bools]:
        buffer = piece.buffer
        start = records.value_start
        end = start + records.value_size
        self = cls()
        self.tombstone = records.value_size < 0
        head = buffer.read_as(_VALUE_HEAD, start)
        version = self.version = head["version"].astype(np.int64)
        wrong = (version < 0) | (version > _NEWEST_VERSION) | (records.value_size < 2)
        self.offset = head["offset"].astype(np.int64)
        has_epoch = version >= 3
        self.leader_epoch = np.where(has_epoch, head["leader_epoch"].astype(np.int64), -1)
        size_at = start + np.where(has_epoch, 14, 10)
        size, at = _metadata_sizes(piece, size_at, version)
        wrong |= (size < 0) | (size > end - at)
        size[wrong] = 0
        after = at + size
        tail = buffer.read_as(_VALUE_TAIL, after)
        self.commit_ms = tail["commit_ms"].astype(np.int64)
        after += 8
        self.expire_ms = np.full(len(records), NO_EXPIRY, np.int64)
        expires = version == 1
        if expires.any():
            self.expire_ms = np.where(expires, buffer.read(">i8", after), NO_EXPIRY)
            after += np.where(expires, 8, 0)
        flexible = version == _NEWEST_VERSION
        tags = np.where(flexible, tail["tags"], 0)
        after += flexible
        tagged = (tags == 1) & (tail["topic_id_tag"] == _TOPIC_ID_TAG)
        wrong |= (tags != 0) & ~tagged
        after += np.where(tagged, 18, 0)
        wrong |= after != end
        wrong &= ~self.tombstone
        ids = np.ascontiguousarray(tail["topic_id"])
        self.topic_id = columns.topic_ids(ids, tagged & ~wrong & ~self.tombstone)
        size[self.tombstone] = -1
        # A tombstone's value begins where its record ends, and what was read there is not its own.
        at = np.where(self.tombstone, start, at)
        self.metadata = columns.texts(buffer, at, size, pa.string())
        return self, wrong


def _metadata_sizes(piece: Piece, size_at: Int64s, version: Int64s) -> tuple[Int64s, Int64s]:
    """The size of each metadata string and where it begins: compact from version 4 on."""
    flexible = version == _NEWEST_VERSION
    if not flexible.any():
        return piece.buffer.read(">i2", size_at), size_at + 2
    compact, after, _ = piece.buffer.unsigned_varints(size_at)
    compact -= 1
    # `protocol` refuses longer strings, and says which numbers are too long.
    compact[(compact > MAX_STRING_BYTES) | (after - size_at > _MAX_SIZE_BYTES)] = -1
    if flexible.all():
        return compact, after
    plain = piece.buffer.read(">i2", size_at)
    return np.where(flexible, compact, plain), np.where(flexible, after, size_at + 2)


def _with_rows_by_hand(
    piece: Piece, records: Records, rows: pa.RecordBatch, wrong: Bools
) -> DecodedView:
    damages = []
    by_hand = []
    for index in np.flatnonzero(wrong).tolist():
        key, value = piece.key_and_value(records, index)
        assert key is not None, "it has a type"
        try:
            commit = commit_fields(key, value)
        except MalformedFrame as error:
            damages.append(damaged_record(piece, records, index, error))
        else:
            attributes = int(piece.batches.attributes[records.batch[index]])
            place = piece.place(records, index)
            producer_id = int(piece.batches.producer_id[records.batch[index]])
            by_hand.append(
                place
                | commit
                | {
                    "producer_id": None if producer_id < 0 else producer_id,
                    "is_transactional": attributes & TRANSACTIONAL != 0,
                }
            )
    fine = rows.filter(pa.array(~wrong))
    if by_hand:
        fine = columns.in_order([fine, pa.RecordBatch.from_pylist(by_hand, COMMITS)])
    return DecodedView(fine, damages)


def commit_fields(key: bytes, value: bytes | None) -> dict[str, Any]:
    """One offset commit, decoded by `protocol`: the columns that come from key and value.

    Raises:
        MalformedFrame: key or value are not what their type and version say.
    """
    decoded = decode_key(key)
    assert isinstance(decoded, OffsetCommitKey), "chosen by its record type"
    row: dict[str, Any] = {
        "group_id": decoded.group,
        "topic": decoded.topic,
        "partition": decoded.partition,
        "key_type": int.from_bytes(key[:2], signed=True),
        "is_tombstone": value is None,
    }
    commit = decode_value(decoded, value)
    if commit is not None:
        assert value is not None, "only a tombstone has none"
        row |= {
            "topic_id": columns.topic_id_text(commit.topic_id),
            "committed_offset": commit.offset,
            "leader_epoch": None if commit.leader_epoch < 0 else commit.leader_epoch,
            "metadata": commit.metadata,
            "commit_ts": columns.timestamp_us(commit.commit_timestamp),
            "expire_ts": columns.timestamp_us(commit.expire_timestamp),
            "value_version": int.from_bytes(value[:2], signed=True),
        }
    return row
