"""A connection of the client to the scripted broker.

It decodes each request, records it, applies the script, lets the server handle it over a connection
in memory, and sends the response back. One request is handled at a time, as in Kafka, so responses
are in order.
"""

import asyncio
from copy import deepcopy
from typing import Any, Protocol

from coterie.client_check.conversation import ClientExchange, Conversation
from coterie.client_check.script import (
    AddTags,
    RefuseVersion,
    Rule,
    SetFields,
    Trickle,
    action_text,
    set_fields,
)
from coterie.conversation.pipe import AskingEnd
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.apis import request_class, response_class
from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.frames import (
    FrameBuffer,
    RequestHeader,
    decode_request_header,
    decode_response,
    decode_response_header,
    encode_request,
)
from coterie.protocol.messages.api_versions import ApiVersionsResponse, ApiVersionsResponseApiKey
from coterie.server.broker import Broker
from coterie.testing.actions import (
    AnswerError,
    CloseAfter,
    CloseBefore,
    CutAnswer,
    Delay,
    NeverAnswer,
)
from coterie.testing.error_answers import error_answer

LISTENER = "PLAINTEXT"
_LENGTH_BYTES = 4
_ID_BYTES = 4
_API_AND_VERSION_BYTES = 4
# One tagged field with a number that no release uses: count, tag 10,000, size, bytes.
_UNKNOWN_TAGS = b"\x01" + b"\x90\x4e" + b"\x05" + b"later"


class Node(Protocol):
    """The parts of the scripted broker that a connection needs.

    Attributes:
        conversation, server, is_down: see `ScriptedBroker`.
    """

    conversation: Conversation
    server: Broker
    is_down: bool

    def accept(self, transport: asyncio.Transport) -> None:
        """Let the server serve a connection in memory of a client."""

    def opened(self, connection: "ClientConnection") -> int:
        """Note an open connection; return its number."""

    def closed(self, connection: "ClientConnection") -> None:
        """Note that a connection has ended."""

    def rule_for(self, exchange: ClientExchange) -> Rule | None:
        """Return the rule that a request meets."""

    def is_announced(self, exchange: ClientExchange) -> bool:
        """Return whether ApiVersions announces the version of a request."""

    def adapt(self, exchange: ClientExchange, response: Any) -> None:
        """Change what the server says of itself."""


class ClientConnection(asyncio.Protocol):
    """One connection of the client."""

    def __init__(self, broker: Node, node: int) -> None:
        """Serve a client that connects to a node of the broker."""
        self._broker = broker
        self._node = node
        self._number = 0
        self._buffer = FrameBuffer()
        self._requests: asyncio.Queue[bytes] = asyncio.Queue()
        self._link = AskingEnd(("127.0.0.1", 0))
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None

    # --- what asyncio calls -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve, unless the broker is down."""
        assert isinstance(transport, asyncio.Transport), "clients connect over streams"
        self._transport = transport
        self._number = self._broker.opened(self)
        talk = self._broker.conversation
        if self._broker.is_down:
            talk.remark("refused", "connection refused", self._number, self._node)
            transport.abort()
            return
        talk.remark("connected", f"connects to node {self._node}", self._number, self._node)
        self._broker.accept(self._link)
        self._task = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        """Cut the bytes into frames."""
        self._buffer.append(data)
        try:
            while (frame := self._buffer.next_frame()) is not None:
                self._requests.put_nowait(frame)
        except MalformedFrame as error:
            self._malformed(str(error))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Forget the connection."""
        self._broker.closed(self)
        if self._task is not None:
            self._broker.conversation.remark("closed", "closed", self._number, self._node)
            self._task.cancel()
        self._link.close()

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.abort()

    # --- requests ---------------------------------------------------------------------------------

    async def _serve(self) -> None:
        while True:
            frame = await self._requests.get()
            try:
                exchange, header = self._decode(frame)
            except MalformedFrame as error:
                self._malformed(str(error))
                return
            except _NotServedError as other:
                self._refuse_version(other.api_key, other.version)
                return
            if exchange is None:
                await self._answer_unknown_version(frame, header)
            else:
                await self._handle(exchange, frame, header)

    def _refuse_version(self, api_key: int, version: int) -> None:
        try:
            name = ApiKey(api_key).kafka_name
        except ValueError:
            name = f"API {api_key}"
        text = f"sends {name} v{version}, which is not announced"
        self._broker.conversation.remark("malformed", text, self._number, self._node)
        self.close()

    def _malformed(self, text: str) -> None:
        self._broker.conversation.remark(
            "malformed", f"sends bytes that are no request: {text}", self._number, self._node
        )
        self.close()

    def _decode(self, frame: bytes) -> tuple[ClientExchange | None, RequestHeader]:
        if len(frame) < _API_AND_VERSION_BYTES:
            raise MalformedFrame(f"a frame of {len(frame)} bytes")
        key, version = (int.from_bytes(frame[at : at + 2], "big", signed=True) for at in (0, 2))
        try:
            api = ApiKey(key)
        except ValueError:
            raise _NotServedError(key, version) from None
        cls = request_class(api)
        first, last = SERVED_VERSIONS.get(api, (0, -1))
        if not first <= version <= last:
            if api is not ApiKey.API_VERSIONS:
                raise _NotServedError(key, version)
            header, _ = decode_request_header(frame, 0, len(frame), flexible=False)
            return None, header
        flexible = cls.has_flexible_header(version)
        header, position = decode_request_header(frame, 0, len(frame), flexible=flexible)
        request = cls.decode(frame, version, position)
        exchange = self._broker.conversation.request(
            "client", self._number, self._node, api, version, header.client_id, request
        )
        return exchange, header

    async def _answer_unknown_version(self, frame: bytes, header: RequestHeader) -> None:
        """Let the server refuse a version of ApiVersions that it does not know."""
        talk = self._broker.conversation
        text = f"ApiVersions v{header.version}, which is unknown: refused in version 0"
        talk.remark("scenario", text, self._number, self._node)
        answer = await self._link.ask(frame)
        if answer is None:
            self.close()
        else:
            self._write(_framed(answer))

    async def _handle(self, exchange: ClientExchange, frame: bytes, header: RequestHeader) -> None:
        rule = self._broker.rule_for(exchange)
        action = None if rule is None else rule.action
        if rule is None and not self._broker.is_announced(exchange):
            if exchange.api is not ApiKey.API_VERSIONS:
                # As Kafka does: a version that it does not know ends the connection.
                self._refuse_version(exchange.api, exchange.version)
                return
            action = RefuseVersion()
        if action is not None:
            exchange.script = action_text(action)
        match action:
            case RefuseVersion() if exchange.version == 0:
                exchange.script = ""
            case AnswerError() | RefuseVersion():
                await self._send(exchange, self._scripted_answer(exchange, action), header)
                return
            case CloseBefore():
                self.close()
                return
            case NeverAnswer():
                await asyncio.get_running_loop().create_future()
            case Delay(seconds):
                await asyncio.sleep(seconds)
            case SetFields(_, request_fields) if request_fields:
                # The conversation keeps what the client has sent.
                changed = deepcopy(exchange.request)
                set_fields(changed, request_fields)
                frame = encode_request(
                    changed, exchange.version, header.correlation_id, header.client_id
                )[_LENGTH_BYTES:]
            case _:
                pass
        answer = await self._link.ask(frame)
        if answer is None:
            self.close()
            return
        if isinstance(action, CloseAfter):
            self.close()
            return
        _, response = decode_response(response_class(exchange.api), answer, exchange.version)
        if isinstance(action, SetFields):
            set_fields(response, action.fields)
        self._broker.adapt(exchange, response)
        await self._send(exchange, response, header, action)

    def _scripted_answer(
        self, exchange: ClientExchange, action: AnswerError | RefuseVersion
    ) -> Any:
        if isinstance(action, AnswerError):
            return error_answer(
                exchange.api,
                exchange.request,
                action.code,
                exchange.version,
                self._broker.server,
                LISTENER,
            )
        known = ApiVersionsResponseApiKey(api_key=ApiKey.API_VERSIONS, min_version=0, max_version=0)
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[known])

    # --- responses --------------------------------------------------------------------------------

    async def _send(
        self, exchange: ClientExchange, response: Any, header: RequestHeader, action: Any = None
    ) -> None:
        cls = response_class(exchange.api)
        # A broker that refuses a version of ApiVersions answers in version 0.
        is_refusal = (
            exchange.api is ApiKey.API_VERSIONS
            and response.error_code == ErrorCode.UNSUPPORTED_VERSION
        )
        version = 0 if is_refusal else exchange.version
        frame = cls.framer(version)(response, header.correlation_id)
        self._broker.conversation.answered(exchange, response)
        match action:
            case AddTags():
                self._write(_with_tags(frame, cls, version))
            case CutAnswer(sent_bytes):
                self._write(frame[:sent_bytes])
                # The bytes go out before the end of the connection.
                await asyncio.sleep(0)
                if self._transport is not None:
                    self._transport.close()
            case Trickle():
                await self._trickle(frame, action)
            case _:
                self._write(frame)

    async def _trickle(self, frame: bytes, trickle: Trickle) -> None:
        single = min(trickle.single_bytes, len(frame))
        ends = [*range(1, single + 1), *range(single, len(frame), trickle.part_bytes), len(frame)]
        begin = 0
        for end in ends:
            if end > begin:
                self._write(frame[begin:end])
                begin = end
                await asyncio.sleep(trickle.pause_s)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)


class _NotServedError(Exception):
    """A request of an API or version that the broker does not announce."""

    def __init__(self, api_key: int, version: int) -> None:
        super().__init__(f"API {api_key} v{version}")
        self.api_key = api_key
        self.version = version


def _framed(body: bytes) -> bytes:
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body


def _with_tags(frame: bytes, cls: Any, version: int) -> bytes:
    """Add an unknown tagged field to the header and the body of a response, where both can have it.

    A body that ends with known tagged fields stays as it is.
    """
    body = frame[_LENGTH_BYTES:]
    has_header_tags = cls.has_flexible_header(version)
    _, start = decode_response_header(body, 0, len(body), flexible=has_header_tags)
    if has_header_tags:
        body = body[:_ID_BYTES] + _UNKNOWN_TAGS + body[start:]
        start = _ID_BYTES + len(_UNKNOWN_TAGS)
    if _is_flexible(cls, version) and body.endswith(b"\x00"):
        tagged = body[:-1] + _UNKNOWN_TAGS
        try:
            cls.decode(tagged, version, start)
        except MalformedFrame:
            # The last byte was another field's.
            return _framed(body)
        body = tagged
    return _framed(body)


def _is_flexible(cls: Any, version: int) -> bool:
    return cls.flexible is not None and version >= cls.flexible
