"""The layout of a record batch: fields, positions, structs and bits of its header.

Every module that reads or writes bytes of a header takes the layout from here
[record-batch/header]. Hot loops read a few fields instead of the whole header; their structs are
defined below, so that all views of the header stand next to each other.

This module imports nothing of ours.
"""

import struct

# The fields of magic 2 in the order of their bytes: name, and format character of `struct`.
HEADER_FIELDS = (
    ("base_offset", "q"),
    ("length", "i"),
    ("leader_epoch", "i"),
    ("magic", "b"),
    ("crc", "I"),
    ("attributes", "h"),
    ("last_offset_delta", "i"),
    ("base_timestamp_ms", "q"),
    ("max_timestamp_ms", "q"),
    ("producer_id", "q"),
    ("producer_epoch", "h"),
    ("base_sequence", "i"),
    ("record_count", "i"),
)
_NAMES = tuple(name for name, _ in HEADER_FIELDS)
_CHARACTERS = dict(HEADER_FIELDS)


def position_of(field: str) -> int:
    """Return the position of a field's first byte in the header."""
    before = _NAMES[: _NAMES.index(field)]
    return struct.calcsize(">" + "".join(_CHARACTERS[name] for name in before))


def header_format(*fields: str) -> str:
    """Return the struct format that reads these fields, in their order, and skips the others."""
    parts, position = [">"], 0
    for field in fields:
        if position_of(field) > position:
            parts.append(f"{position_of(field) - position}x")
        parts.append(_CHARACTERS[field])
        position = position_of(field) + struct.calcsize(">" + _CHARACTERS[field])
    return "".join(parts)


# -- positions and lengths -------------------------------------------------------------------------

LENGTH_AT = position_of("length")
LEADER_EPOCH_AT = position_of("leader_epoch")
MAGIC_AT = position_of("magic")
CRC_AT = position_of("crc")
ATTRIBUTES_AT = position_of("attributes")
LAST_OFFSET_DELTA_AT = position_of("last_offset_delta")
BASE_TIMESTAMP_AT = position_of("base_timestamp_ms")
MAX_TIMESTAMP_AT = position_of("max_timestamp_ms")
PRODUCER_ID_AT = position_of("producer_id")
HEADER_BYTES = struct.calcsize(header_format(*_NAMES))
# Base offset and length. The length field counts the bytes behind itself. Kafka: LOG_OVERHEAD.
LOG_OVERHEAD_BYTES = LEADER_EPOCH_AT
# These bytes say offset, length and magic in every format. Kafka: HEADER_SIZE_UP_TO_MAGIC.
HEADER_UP_TO_MAGIC_BYTES = MAGIC_AT + 1
# From here on the CRC covers the batch [record-batch/checksum].
CRC_START = ATTRIBUTES_AT

# -- attributes [record-batch/header] ----------------------------------------------------------

COMPRESSION_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
HAS_DELETE_HORIZON = 0x40
# These, and the codec. Like Kafka, we clear unknown bits when we rewrite the attributes.
KNOWN_ATTRIBUTES = 0x7F

# -- values of absent fields -----------------------------------------------------------------------

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1

# -- structs ---------------------------------------------------------------------------------------

HEADER = struct.Struct(header_format(*_NAMES))
# So many bytes of the part before the CRC's start are counted by the length field.
COUNTED_BEFORE_CRC_START = CRC_START - LOG_OVERHEAD_BYTES

BASE_OFFSET = struct.Struct(header_format("base_offset"))
LENGTH = struct.Struct(header_format("length"))
BASE_OFFSET_AND_LENGTH = struct.Struct(header_format("base_offset", "length"))
# Single fields, to be packed at their positions.
LEADER_EPOCH = struct.Struct(">i")
ATTRIBUTES = struct.Struct(">h")
CRC = struct.Struct(">I")
LAST_OFFSET_DELTA = struct.Struct(">i")
TIMESTAMP = struct.Struct(">q")

# An append gives a batch its base offset and leader epoch. The indexes need the rest, and the
# producer id says whether the log notes a producer.
APPEND_FIELDS = struct.Struct(
    header_format(
        "base_offset", "length", "leader_epoch", "magic", "last_offset_delta", "max_timestamp_ms",
        "producer_id",
    )
)  # fmt: skip
# A scan checks framing, checksum and offsets.
SCAN_FIELDS = struct.Struct(
    header_format("base_offset", "length", "magic", "crc", "last_offset_delta", "max_timestamp_ms")
)
# What a reader needs to know that looks for batches by their offsets.
EXTENT_FIELDS = struct.Struct(header_format("base_offset", "length", "last_offset_delta"))
# What the indexes need to know of a batch that compaction keeps.
OFFSETS_AND_TIME = struct.Struct(
    header_format("base_offset", "last_offset_delta", "max_timestamp_ms")
)

# -- magic 0 and 1 [record-batch/legacy-messages] --------------------------------------------------

# Offset, length, CRC, magic, attributes; then in magic 1 a timestamp; then key and value.
LEGACY_HEADER = struct.Struct(">qiIbb")
LEGACY_TIMESTAMP_AT = LEGACY_HEADER.size
# By magic: where the key begins, and the length of a message whose key and value are empty.
LEGACY_KEY_AT = (LEGACY_TIMESTAMP_AT, LEGACY_TIMESTAMP_AT + TIMESTAMP.size)
LEGACY_MIN_BYTES = (LEGACY_KEY_AT[0] + 8, LEGACY_KEY_AT[1] + 8)
LEGACY_CRC_START = MAGIC_AT
