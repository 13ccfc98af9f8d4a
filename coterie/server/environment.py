"""The server's sources of time and chance: its clock, and random ids.

Nothing else in the server reads a clock that decides about groups, or draws a random number. A test
passes functions of its own in their place.
"""

import os
import time
from collections.abc import Callable

from coterie.protocol.fields import uuid_text

# A UUID of version 4 has fixed bits for its version and its variant.
_RANDOM_BITS = ~((0xF000 << 64) | (0xC000 << 48))
_VERSION_4_BITS = (0x4000 << 64) | (0x8000 << 48)

# The first six bits that base64url writes as a dash.
_DASH = 0b111110


def system_clock() -> Callable[[], int]:
    """Return a function that returns the time in epoch milliseconds and never jumps.

    The wall clock is read once, here. From then on the monotonic clock is added to it: setting the
    wall clock back or forward must not expire sessions.
    """
    read = time.monotonic_ns
    offset_ns = time.time_ns() - read()

    def now_ms() -> int:
        return (read() + offset_ns) // 1_000_000

    return now_ms


def new_file_id() -> bytes:
    """Return 8 random bytes, for the name of a write-ahead file."""
    return os.urandom(8)


def new_uuid_text() -> str:
    """Return a random UUID in Java's text form; generated member ids end with one."""
    digits = f"{_random_uuid():032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def new_topic_id() -> bytes:
    """Return a random topic id of 16 bytes [topics/topic-ids].

    As in Kafka, the text form of an id does not begin with a dash, which tools would read as an
    option.
    """
    while True:
        topic_id = _random_uuid().to_bytes(16)
        if topic_id[0] >> 2 != _DASH:
            return topic_id


def new_base64_id() -> str:
    """Return a random id in Kafka's text form of 22 characters, for a cluster or a directory."""
    return uuid_text(new_topic_id())


def _random_uuid() -> int:
    return int.from_bytes(os.urandom(16)) & _RANDOM_BITS | _VERSION_4_BITS
