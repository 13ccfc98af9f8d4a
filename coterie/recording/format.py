"""The format of a recording: a header and entries, each of them readable on its own (ADR 26).

    file    magic (8 bytes), version (uint16), length of the header (uint32), header (JSON), entries
    entry   length (uint32), CRC-32 of the body (uint32), body
    body    kind (uint8), flags (uint8), connection (uint32), time (int64, epoch ms), data

All numbers are big-endian. The data of REQUEST and RESPONSE are a frame of the protocol without its
length. A writer that was killed leaves an entry that is cut off or whose checksum is wrong: a
reader takes the entries before it [recording/order].
"""

import json
import zlib
from collections.abc import Iterator
from enum import IntEnum, IntFlag
from struct import Struct
from typing import NamedTuple

MAGIC = b"\x89cotrec\n"
VERSION = 1

_PREAMBLE = Struct(">8sHI")
_ENTRY = Struct(">II")
_BODY = Struct(">BBIq")


class NotARecording(Exception):  # noqa: N818 - a file of another kind is no failure of ours
    """A file that cannot be read as a recording; the text says why."""


class Kind(IntEnum):
    """What an entry is about.

    OPENED and CLOSED: a connection; the data of OPENED are the peer's address, and of several
    brokers @ and the id of the one that has accepted it. UNREADABLE: bytes of
    a peer that are no frame, after which its direction of the connection is not recorded any more.
    LOST: the rest of a connection is missing, because the disk was too slow.
    """

    OPENED = 1
    CLOSED = 2
    REQUEST = 3
    RESPONSE = 4
    UNREADABLE = 5
    LOST = 6


class Flag(IntFlag):
    """How the data of an entry differ from what was sent.

    REDACTED: everything behind the header of the frame was left out. HIDDEN: values of settings
    were replaced. WITHOUT_PAYLOADS: of record batches only the headers are there. CONTINUED: the
    connection was opened in an earlier file.
    """

    REDACTED = 1
    HIDDEN = 2
    WITHOUT_PAYLOADS = 4
    CONTINUED = 8


class Header(NamedTuple):
    """The header of a file.

    Attributes:
        recording: the id of the recording; its files have the same one.
        number: counts its files from 1.
        started_ms: when the recording began, in epoch milliseconds.
        program: the program that wrote it, with its version.
        address: the address that clients connect to.
        upstream: the address of the broker behind a proxy; None for a broker of ours.
        settings: the settings that the broker was given; secrets are replaced.
        with_payloads: whether keys and values of records are kept.
        brokers: the addresses of several brokers, by their ids; None for one.
    """

    recording: str
    number: int
    started_ms: int
    program: str
    address: str
    upstream: str | None
    settings: dict[str, str]
    with_payloads: bool
    brokers: dict[str, str] | None = None

    def encode(self) -> bytes:
        """Return the beginning of a file."""
        fields = self._asdict()
        if self.brokers is None:
            # Programs that know one broker read it.
            del fields["brokers"]
        text = json.dumps(fields).encode()
        return _PREAMBLE.pack(MAGIC, VERSION, len(text)) + text


class Entry(NamedTuple):
    """One entry.

    Attributes:
        kind, flags: see `Kind` and `Flag`.
        connection: the number of the connection, from 1.
        at_ms: when it happened, in epoch milliseconds.
        data: by kind.
    """

    kind: Kind
    flags: Flag
    connection: int
    at_ms: int
    data: bytes

    def encode(self) -> bytes:
        """Return the bytes of the entry."""
        body = _BODY.pack(self.kind, self.flags, self.connection, self.at_ms) + self.data
        return _ENTRY.pack(len(body), zlib.crc32(body)) + body


def is_recording(start: bytes) -> bool:
    """Return whether a file that begins with these bytes is a recording."""
    return start.startswith(MAGIC)


def decode_header(data: bytes) -> tuple[Header, int]:
    """Return the header of a file and the position of the first entry.

    Raises:
        NotARecording: the file begins otherwise, or has a version that is not known.
    """
    if len(data) < _PREAMBLE.size or not is_recording(data):
        raise NotARecording("it does not begin as a recording does")
    _, version, length = _PREAMBLE.unpack_from(data)
    if version != VERSION:
        raise NotARecording(f"it has version {version} of the format, this program reads {VERSION}")
    end = _PREAMBLE.size + length
    try:
        return Header(**json.loads(data[_PREAMBLE.size : end])), end
    except (ValueError, TypeError) as error:
        raise NotARecording(f"its header is damaged: {error}") from error


def decode_entries(data: bytes, position: int) -> Iterator[Entry]:
    """Return the entries from `position` on, up to the last one that is whole."""
    while position + _ENTRY.size <= len(data):
        length, crc = _ENTRY.unpack_from(data, position)
        start = position + _ENTRY.size
        position = start + length
        body = data[start:position]
        if length < _BODY.size or len(body) < length or zlib.crc32(body) != crc:
            return
        kind, flags, connection, at_ms = _BODY.unpack_from(body)
        yield Entry(Kind(kind), Flag(flags), connection, at_ms, body[_BODY.size :])
