"""The view `commits`: every offset commit of a piece, in all value versions, and tombstones.

Keys and values have few fields at computable positions [group-log/offset-value], so each field is
read for all records at once. `coterie.protocol.messages.log_records` decodes the records that do
not match a known version to the last byte, and decides whether they are rows or damage.
"""

import numpy as np
import pyarrow as pa

from coterie.pipeline.codec import columns
from coterie.pipeline.codec.numbers import Bools, Int64s
from coterie.pipeline.codec.piece import DecodedView, Piece, damaged_record
from coterie.pipeline.codec.records import Records
from coterie.pipeline.records.commits import commit_fields
from coterie.pipeline.schemas import COMMITS
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.log_records import (
    NO_EXPIRY,
)
from coterie.protocol.primitives import MAX_STRING_BYTES
from coterie.protocol.record_batch_layout import TRANSACTIONAL

KEY_TYPES = (0, 1)

_NEWEST_VERSION = 4
# The beginning of a value; before version 3 there is no leader epoch.
_VALUE_HEAD = np.dtype([("version", ">i2"), ("offset", ">i8"), ("leader_epoch", ">i4")])
# The fields behind the metadata. Version 4 has all of them, the others only the timestamp.
_VALUE_TAIL = np.dtype(
    [("commit_ms", ">i8"), ("tags", "u1"), ("topic_id_tag", ">u2"), ("topic_id", "V16")]
)
# Tag 0 and size 16, the beginning of the tagged field with the topic id.
_TOPIC_ID_TAG = 0x0010
# The size of the varint of MAX_STRING_BYTES + 1.
_MAX_SIZE_BYTES = 3


def decode_commits(piece: Piece) -> DecodedView:
    """Return the offset commits of a piece."""
    mask = (piece.key_types == KEY_TYPES[0]) | (piece.key_types == KEY_TYPES[1])
    records = piece.records if mask.all() else piece.records.select(mask)
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
    return _with_rows_decoded_singly(piece, records, rows, wrong)


class _Keys:
    """The group, topic and partition of every record."""

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
    """The fields of every value. Those of a null value are meaningless."""

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
        # Behind a tombstone's key there is no value, so what was read there belongs to others.
        at = np.where(self.tombstone, start, at)
        self.metadata = columns.texts(buffer, at, size, pa.string())
        return self, wrong


def _metadata_sizes(piece: Piece, size_at: Int64s, version: Int64s) -> tuple[Int64s, Int64s]:
    """Return the size and the position of each metadata string, compact from version 4 on."""
    flexible = version == _NEWEST_VERSION
    if not flexible.any():
        return piece.buffer.read(">i2", size_at), size_at + 2
    compact, after, _ = piece.buffer.unsigned_varints(size_at)
    compact -= 1
    # `protocol` refuses longer strings and longer varints. A negative size sends the record there.
    compact[(compact > MAX_STRING_BYTES) | (after - size_at > _MAX_SIZE_BYTES)] = -1
    if flexible.all():
        return compact, after
    plain = piece.buffer.read(">i2", size_at)
    return np.where(flexible, compact, plain), np.where(flexible, after, size_at + 2)


def _with_rows_decoded_singly(
    piece: Piece, records: Records, rows: pa.RecordBatch, wrong: Bools
) -> DecodedView:
    """Replace the rows that are `wrong` by what `protocol` decodes."""
    damages = []
    singly = []
    for index in np.flatnonzero(wrong).tolist():
        key, value = piece.key_and_value(records, index)
        assert key is not None, "a record with a type has a key"
        try:
            commit = commit_fields(key, value)
        except MalformedFrame as error:
            damages.append(damaged_record(piece, records, index, error))
        else:
            attributes = int(piece.batches.attributes[records.batch[index]])
            place = piece.place(records, index)
            producer_id = int(piece.batches.producer_id[records.batch[index]])
            singly.append(
                place
                | commit
                | {
                    "producer_id": None if producer_id < 0 else producer_id,
                    "is_transactional": attributes & TRANSACTIONAL != 0,
                }
            )
    fine = rows.filter(pa.array(~wrong))
    if singly:
        fine = columns.in_order([fine, pa.RecordBatch.from_pylist(singly, COMMITS)])
    return DecodedView(fine, damages)
