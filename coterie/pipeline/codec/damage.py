"""What is wrong with bytes of a log, as data: it goes to the table `quarantine`, not to a log file.

Nothing that fails a check becomes a row of another view, and nothing that fails one is lost: its
bytes are kept with the file and the position, so that it can be looked at, and repaired by hand.
"""

from typing import NamedTuple

# The checksum of a batch is another one.
CRC = "crc"
# No batch can begin so: magic, length or counts are impossible.
HEADER = "header"
# The log ends within a batch: a write that was cut off.
TORN = "torn"
# An offset or leader epoch that cannot follow or precede its neighbours'; no checksum covers them.
ORDER = "order"
# A compressed block that can't be opened, or a codec that nobody has defined.
COMPRESSION = "compression"
# A length that disagrees with the bytes, in a batch, a key or a value.
BAD_LENGTH = "bad_length"
UNKNOWN_TYPE = "unknown_type"
UNKNOWN_VERSION = "unknown_version"
# Text that is not UTF-8.
UTF8 = "utf8"

# What is kept of damaged bytes: Kafka's largest batch by default (message.max.bytes, 1 MiB).
MAX_KEPT_BYTES = 1 << 20


class Damage(NamedTuple):
    """Bytes that were left out, from `position` of the decoded buffer on."""

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
    """The bytes from `start` to `stop` of the buffer, as damage; only the first MiB is kept."""
    kept = bytes(buffer[start : min(stop, start + MAX_KEPT_BYTES)])
    return Damage(start, stop - start, reason, detail, kept, log_offset)
