"""Recordings that a test writes without a broker."""

from collections.abc import Sequence
from pathlib import Path

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import response_class
from coterie.protocol.frames import encode_request
from coterie.protocol.wire import Message
from coterie.recording.files import Limits
from coterie.recording.format import Header, Kind
from coterie.recording.recorder import Observation, RecordingWriter

START_MS = 1_700_000_000_000
LIMITS = Limits(1 << 20, 3)


def header(*, with_payloads: bool = False, **settings: str) -> Header:
    return Header("r-1", 1, START_MS, "a test", "127.0.0.1:9092", None, settings, with_payloads)


def opened(connection: int = 1, at_ms: int = 0) -> Observation:
    return Observation(Kind.OPENED, connection, START_MS + at_ms, b"127.0.0.1:5000")


def request(
    message: Message, version: int, number: int = 1, *, connection: int = 1, at_ms: int = 0
) -> Observation:
    frame = encode_request(message, version, number, "c1")
    return Observation(Kind.REQUEST, connection, START_MS + at_ms, frame)


def response(
    api: ApiKey, message: Message, version: int, number: int = 1, *, connection: int = 1
) -> Observation:
    frame = response_class(api).framer(version)(message, number)
    return Observation(Kind.RESPONSE, connection, START_MS, frame)


def write(
    path: Path,
    observations: Sequence[Observation],
    limits: Limits = LIMITS,
    head: Header | None = None,
) -> str:
    """Write a recording; return its path."""
    writer = RecordingWriter(str(path), head or header(), limits)
    for _ in writer.write(list(observations)):
        pass
    writer.close()
    return str(path)
