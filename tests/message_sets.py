"""Messages of magic 0 and 1, written without the product's code."""

import gzip
import struct
import zlib
from typing import NamedTuple

# 2020-09-13.
TIMESTAMP_MS = 1_600_000_000_000
GZIP = 1


class Message(NamedTuple):
    """A message that was read."""

    offset: int
    magic: int
    attributes: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None


def _sized(content: bytes | None) -> bytes:
    if content is None:
        return struct.pack(">i", -1)
    return struct.pack(">i", len(content)) + content


def message(
    offset: int,
    value: bytes | None,
    key: bytes | None = None,
    *,
    magic: int = 1,
    timestamp_ms: int = TIMESTAMP_MS,
    attributes: int = 0,
    crc: int | None = None,
) -> bytes:
    """Encode a message; `crc` is a wrong one."""
    body = struct.pack(">bb", magic, attributes)
    if magic:
        body += struct.pack(">q", timestamp_ms)
    body += _sized(key) + _sized(value)
    right = zlib.crc32(body)
    return struct.pack(">qiI", offset, len(body) + 4, right if crc is None else crc) + body


def read(data: bytes) -> list[Message]:
    """Read messages and check their CRCs; compressed ones are not opened."""
    found = []
    while data:
        offset, length, crc, magic, attributes = struct.unpack_from(">qiIbb", data)
        body, data = data[16 : 12 + length], data[12 + length :]
        assert zlib.crc32(body) == crc
        at = 2
        timestamp_ms = None
        if magic:
            (timestamp_ms,) = struct.unpack_from(">q", body, at)
            at += 8
        contents = []
        for _ in range(2):
            (size,) = struct.unpack_from(">i", body, at)
            at += 4
            contents.append(None if size < 0 else body[at : at + size])
            at += max(size, 0)
        assert at == len(body)
        found.append(Message(offset, magic, attributes, timestamp_ms, *contents))
    return found


def opened(wrapper: Message) -> list[Message]:
    """Read the messages in one that is compressed with gzip, with absolute offsets."""
    assert wrapper.attributes & 7 == GZIP
    assert wrapper.value is not None
    inner = read(gzip.decompress(wrapper.value))
    if not wrapper.magic:
        return inner
    shift = wrapper.offset - inner[-1].offset
    return [each._replace(offset=each.offset + shift) for each in inner]
