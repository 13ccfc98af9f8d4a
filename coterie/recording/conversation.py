"""A recording as a conversation: requests with their responses, decoded where that is possible."""

from collections import deque
from typing import NamedTuple

from coterie.protocol.api_keys import ApiKey, is_declared
from coterie.protocol.apis import request_class, response_class
from coterie.protocol.errors import DECODE_ERRORS, MalformedFrame
from coterie.protocol.frames import RequestHeader, decode_request_header, decode_response
from coterie.protocol.resources import groups_of
from coterie.protocol.wire import Message
from coterie.recording.format import Entry, Flag, Kind
from coterie.recording.redaction import RequestStart, request_start


class RecordedExchange:
    """A request and its response.

    Attributes:
        number: its place in the recording, from 1.
        connection: the number of the connection.
        node_id: the broker of the connection, if there are several; else None.
        at_ms: when the request was sent, in epoch milliseconds.
        start: API, version and correlation id; None for a token of SASL without a header.
        client_id: of the header.
        frame: the recorded request.
        body_at: where its body begins.
        flags: of the recorded request.
        request: the decoded request; None if it cannot be decoded or was redacted.
        answered_at_ms: when the response came; None if it did not.
        response: the decoded response; None if there is none to read.
        response_flags: of the recorded response.
    """

    def __init__(self, number: int, entry: Entry, node_id: int | None = None) -> None:
        """Begin with a request."""
        self.number = number
        self.node_id = node_id
        self.connection = entry.connection
        self.at_ms = entry.at_ms
        self.frame = entry.data
        self.flags = entry.flags
        self.start = request_start(entry.data)
        self.client_id = ""
        self.body_at = 0
        self.request: Message | None = None
        self.answered_at_ms: int | None = None
        self.response: Message | None = None
        self.response_flags = Flag(0)
        if self.start is not None:
            self._decode()

    @property
    def api(self) -> ApiKey | None:
        """The API; None if this program does not know it."""
        if self.start is None:
            return None
        try:
            return ApiKey(self.start.api_key)
        except ValueError:
            return None

    @property
    def name(self) -> str:
        """The name of the API, or its number."""
        if self.start is None:
            return "a token of SASL"
        api = self.api
        return api.kafka_name if api is not None else f"API{self.start.api_key}"

    @property
    def version(self) -> int:
        """The version of the request."""
        return -1 if self.start is None else self.start.version

    @property
    def groups(self) -> set[str]:
        """The ids of the groups that the request is about, as far as it can be read."""
        return set() if self.request is None else groups_of(self.request)

    def _decode(self) -> None:
        api = self.api
        known = api is not None and is_declared(api, self.version)
        flexible = False
        if api is not None and known:
            flexible = request_class(api).has_flexible_header(self.version)
        is_whole = known and not self.flags & Flag.REDACTED
        try:
            header, self.body_at = _header(self.frame, flexible=flexible and is_whole)
            self.client_id = header.client_id or ""
            if api is not None and is_whole:
                self.request = request_class(api).decode(self.frame, self.version, self.body_at)
        except DECODE_ERRORS:
            return

    def answer(self, entry: Entry) -> None:
        """Take the recorded response."""
        self.answered_at_ms = entry.at_ms
        self.response_flags = entry.flags
        self.response = self.decoded(entry.data) if not entry.flags & Flag.REDACTED else None

    def decoded(self, frame: bytes) -> Message | None:
        """Return a response to this request; None if it cannot be decoded."""
        api = self.api
        if api is None:
            return None
        versions = [self.version] if is_declared(api, self.version) else []
        if api is ApiKey.API_VERSIONS:
            # A broker that does not know the version answers in version 0 (KIP-511).
            versions.append(0)
        for version in versions:
            try:
                return decode_response(response_class(api), frame, version)[1]
            except DECODE_ERRORS:
                continue
        return None


class RecordedStep(NamedTuple):
    """What happens next: OPENED, REQUEST, RESPONSE or CLOSED.

    Attributes:
        kind: which of these.
        at_ms: when, in epoch milliseconds.
        connection: the number of the connection.
        exchange: of a request or response.
        peer: the client's address, of OPENED.
    """

    kind: Kind
    at_ms: int
    connection: int
    exchange: RecordedExchange | None
    peer: str


class Conversation(NamedTuple):
    """What a recording holds.

    Attributes:
        steps: in the order in which they happened.
        exchanges: in the order of their requests.
        orphans: the number of responses whose requests are missing.
    """

    steps: list[RecordedStep]
    exchanges: list[RecordedExchange]
    orphans: int


def conversation_of(entries: list[Entry]) -> Conversation:
    """Return the conversation of a recording [recording/order]."""
    steps: list[RecordedStep] = []
    exchanges: list[RecordedExchange] = []
    awaited: dict[int, deque[RecordedExchange]] = {}
    nodes: dict[int, int] = {}
    orphans = 0
    for entry in entries:
        kind, _, connection, at_ms, data = entry
        exchange, peer = None, ""
        if kind is Kind.OPENED:
            if connection in awaited:
                continue
            awaited[connection] = deque()
            peer, _, node = data.decode().partition("@")
            if node.isdecimal():
                nodes[connection] = int(node)
        elif kind is Kind.REQUEST:
            exchange = RecordedExchange(len(exchanges) + 1, entry, nodes.get(connection))
            exchanges.append(exchange)
            awaited.setdefault(connection, deque()).append(exchange)
        elif kind is Kind.RESPONSE:
            exchange = _answered(awaited.get(connection, deque()), entry)
            if exchange is None:
                orphans += 1
                continue
        elif kind is not Kind.CLOSED:
            continue
        steps.append(RecordedStep(kind, at_ms, connection, exchange, peer))
    return Conversation(steps, exchanges, orphans)


def _answered(awaited: deque[RecordedExchange], entry: Entry) -> RecordedExchange | None:
    """Return the exchange that a response belongs to; the ones before it have no response."""
    correlation_id = int.from_bytes(entry.data[:4], signed=True)
    while awaited:
        exchange = awaited.popleft()
        if exchange.start is None or exchange.start.correlation_id == correlation_id:
            exchange.answer(entry)
            return exchange
    return None


def _header(frame: bytes, *, flexible: bool) -> tuple[RequestHeader, int]:
    try:
        return decode_request_header(frame, 0, len(frame), flexible=flexible)
    except MalformedFrame:
        # An API that is newer than the recording program has no client id.
        start = request_start(frame)
        assert start is not None, "the caller has read it"
        return RequestHeader(*start, client_id=None), len(frame)


__all__ = [
    "Conversation",
    "RecordedExchange",
    "RecordedStep",
    "RequestStart",
    "conversation_of",
]
