"""Damage in a log, as data for the table `quarantine`.

What fails a check never becomes a row of another view, and is never lost: its bytes are kept with
file and position, so that they can be examined and repaired [pipeline/quarantine].
"""

from typing import NamedTuple

# The checksum of a batch is wrong.
CRC = "crc"
# Magic, length or counts are impossible for a batch.
HEADER = "header"
# The log ends within a batch, because a write was interrupted.
TORN = "torn"
# An offset or leader epoch contradicts those of the neighbours; no checksum covers these fields.
ORDER = "order"
# A compressed block cannot be decompressed, or its codec is not defined.
COMPRESSION = "compression"
# A length disagrees with the bytes, in a batch, a key or a value.
BAD_LENGTH = "bad_length"
UNKNOWN_TYPE = "unknown_type"
UNKNOWN_VERSION = "unknown_version"
# A text is not UTF-8.
UTF8 = "utf8"

# How many of the damaged bytes are kept: Kafka's default of message.max.bytes.
MAX_KEPT_BYTES = 1 << 20


class Damage(NamedTuple):
    """Bytes that could not be decoded, from `position` of the decoded buffer on."""

    position: int
    length_bytes: int
    reason: str
    detail: str
    data: bytes
    log_offset: int | None = None


def damage(
    buffer: bytes,
    start: int,
    stop: int,
    reason: str,
    detail: str,
    log_offset: int | None = None,
) -> Damage:
    """Return the bytes from `start` to `stop` of the buffer as damage, with the first MiB."""
    kept = bytes(buffer[start : min(stop, start + MAX_KEPT_BYTES)])
    return Damage(start, stop - start, reason, detail, kept, log_offset)
