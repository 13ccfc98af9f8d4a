"""From the bytes of one connection to the entries of a recording: frames are cut and redacted."""

from collections import deque
from collections.abc import Iterator

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.frames import FrameBuffer
from coterie.recording.format import Entry, Flag, Kind
from coterie.recording.redaction import (
    NEWEST_API,
    SASL_HANDSHAKE,
    RequestStart,
    redacted_request,
    redacted_response,
    request_start,
)

# A client that sends Produce with acks=0 gets no responses. Older requests than these have none.
_AWAITED_REQUESTS = 10_000


class ConnectionFrames:
    """The frames of one connection, in both directions.

    Attributes:
        opened: the entry with which the connection begins.
    """

    def __init__(self, opened: Entry, *, with_payloads: bool) -> None:
        """Begin with the first bytes of a connection."""
        self.opened = opened
        self._with_payloads = with_payloads
        self._buffers: dict[Kind, FrameBuffer | None] = {
            Kind.REQUEST: FrameBuffer(),
            Kind.RESPONSE: FrameBuffer(),
        }
        # The requests that may still be answered, oldest first; None for a token of SASL.
        self._awaited: deque[RequestStart | None] = deque(maxlen=_AWAITED_REQUESTS)
        # After SaslHandshake v0 the client sends tokens without a header.
        self._may_send_tokens = False

    def arrived(self, kind: Kind, at_ms: int, data: bytes) -> Iterator[Entry]:
        """Return the entries of the frames that are complete with these bytes."""
        buffer = self._buffers[kind]
        if buffer is None:
            return
        buffer.append(data)
        try:
            while (frame := buffer.next_frame()) is not None:
                found, flags = self._redacted(kind, frame)
                yield self._entry(kind, flags, at_ms, found)
        except MalformedFrame as error:
            self._buffers[kind] = None
            yield self._entry(Kind.UNREADABLE, Flag(0), at_ms, str(error).encode())

    def lost(self, at_ms: int) -> Entry:
        """Return the entry after which nothing of this connection is recorded."""
        self._buffers = dict.fromkeys(self._buffers)
        return self._entry(Kind.LOST, Flag(0), at_ms, b"")

    def _redacted(self, kind: Kind, frame: bytes) -> tuple[bytes, Flag]:
        return self._request(frame) if kind is Kind.REQUEST else self._response(frame)

    def _request(self, frame: bytes) -> tuple[bytes, Flag]:
        start = request_start(frame)
        if start is None or (self._may_send_tokens and start.api_key > NEWEST_API):
            self._awaited.append(None)
            return b"", Flag.REDACTED
        if start.api_key == SASL_HANDSHAKE:
            self._may_send_tokens = start.version == 0
        self._awaited.append(start)
        return redacted_request(frame, start, with_payloads=self._with_payloads)

    def _response(self, frame: bytes) -> tuple[bytes, Flag]:
        """Redact a response as the API of its request demands; one without a request is dropped."""
        correlation_id = int.from_bytes(frame[:4], signed=True)
        while self._awaited:
            request = self._awaited.popleft()
            if request is None:
                return b"", Flag.REDACTED
            if request.correlation_id == correlation_id:
                return redacted_response(frame, request, with_payloads=self._with_payloads)
        return b"", Flag.REDACTED

    def _entry(self, kind: Kind, flags: Flag, at_ms: int, data: bytes) -> Entry:
        return Entry(kind, flags, self.opened.connection, at_ms, data)
