"""One connection: requests, the order of responses, muting, flow control, and malformed bytes.

The handlers are stubs; frames and headers are real.
"""

import math
from collections.abc import Callable
from typing import Any

import pytest

from coterie.coordinator.kernel.request import ClientContext
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.frames import encode_request
from coterie.protocol.messages.api_versions import ApiVersionsRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.server.network import limits
from coterie.server.network.connection import Connection
from coterie.server.network.delayed_response import DelayedResponse
from coterie.server.network.routes import Overlay
from tests.unit.server.manual import Client, FakeTransport, logged, loop_of, make_broker
from tests.unit.server.manual_loop import ManualLoop

VERSION = 4
# ApiVersions, version 0, of the client "A".
WHOLE = b"\0\0\0\x0b\0\x12\0\0\0\0\0\1\0\1A"
Handler = Callable[[Any, HeartbeatRequest, Connection], HeartbeatResponse | None]


def heartbeat(generation_id: int) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=generation_id, member_id="m")


def answer(number: int) -> HeartbeatResponse:
    """Return a response that its error code identifies."""
    return HeartbeatResponse(error_code=number)


def echo(_broker: Any, request: HeartbeatRequest, _connection: Connection) -> HeartbeatResponse:
    return answer(request.generation_id)


@pytest.fixture
def client() -> Client:
    return with_handler(echo)


def with_handler(handle: Handler) -> Client:
    broker = make_broker()
    broker.use_routes(Overlay(broker.routes, {ApiKey.HEARTBEAT: lambda _: handle}))
    return Client(broker)


def codes(client: Client) -> list[int]:
    return [message.error_code for _, message in client.answers()]


class DelayingHandler:
    """A handler that delays requests of odd generations and answers those of even ones."""

    def __init__(self, *, mutes: bool) -> None:
        self.mutes = mutes
        self.delayed: list[DelayedResponse] = []
        self.handled: list[int] = []

    def __call__(
        self, _broker: Any, request: HeartbeatRequest, connection: Connection
    ) -> HeartbeatResponse | None:
        self.handled.append(request.generation_id)
        if request.generation_id % 2 == 0:
            return answer(request.generation_id)
        delayed = DelayedResponse(connection)
        self.delayed.append(delayed)
        (connection.delay_and_mute if self.mutes else connection.delay)(delayed)
        return None


class TestFrames:
    def test_requests_of_one_read_are_answered_with_one_write(self, client: Client) -> None:
        data = b"".join(client.frame(heartbeat(n), VERSION) for n in range(32))
        client.connection.data_received(data)
        assert len(client.transport.written) == 1
        assert codes(client) == list(range(32))

    def test_request_may_arrive_byte_by_byte(self, client: Client) -> None:
        frame = client.frame(heartbeat(5), VERSION)
        for position in range(len(frame)):
            assert not client.transport.written
            client.connection.data_received(frame[position : position + 1])
        assert codes(client) == [5]
        assert client.broker.connection_quotas.buffered_bytes == 0

    def test_responses_do_not_depend_on_where_requests_are_split(self, client: Client) -> None:
        for cut in range(1, 3 * len(client.frame(heartbeat(1), VERSION))):
            data = b"".join(client.frame(heartbeat(n), VERSION) for n in (1, 2, 3))
            client.connection.data_received(data[:cut])
            client.connection.data_received(data[cut:])
            # The requests of each round have a turn for themselves, and so a whole budget.
            client.loop.turn()
            assert codes(client) == [1, 2, 3], cut

    def test_handler_gets_client_id_host_and_version(self) -> None:
        seen = []

        def handle(_broker: Any, _request: Any, connection: Connection) -> HeartbeatResponse:
            seen.append(
                (connection.client.client_id, connection.client.client_host, connection.version)
            )
            return answer(0)

        client = with_handler(handle)
        for client_id in ("one", "other", "other", None, "größe"):
            client.client_id = client_id
            client.send(heartbeat(1), VERSION)
        names = ["one", "other", "other", "", "größe"]
        assert seen == [(name, "/127.0.0.1", VERSION) for name in names]

    def test_client_is_one_value_until_its_id_changes(self) -> None:
        seen: list[ClientContext] = []

        def handle(_broker: Any, _request: Any, connection: Connection) -> HeartbeatResponse:
            seen.append(connection.client)
            return answer(0)

        client = with_handler(handle)
        versions = ApiVersionsRequest(client_software_name="lib", client_software_version="2.1")
        client.call(versions, 3)
        for client_id in ("test", "test", "other"):
            client.client_id = client_id
            client.send(heartbeat(1), VERSION)
        first, again, other = seen
        assert first is again
        assert other == first._replace(client_id="other")
        assert first == ClientContext(
            first.connection_id,
            "PLAINTEXT",
            "User:ANONYMOUS",
            "/127.0.0.1",
            "test",
            "lib",
            "2.1",
            50_000,
        )
        assert Client(client.broker).connection.client.connection_id > first.connection_id

    def test_tagged_fields_of_the_header_are_skipped(self, client: Client) -> None:
        frame = client.frame(heartbeat(7), VERSION)
        at = 14 + len("test")
        assert frame[at] == 0
        tagged = frame[4:at] + b"\x01\x63\x02ab" + frame[at + 1 :]
        client.connection.data_received(len(tagged).to_bytes(4) + tagged)
        assert codes(client) == [7]

    def test_connection_yields_after_many_requests(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        # The number of requests ends the turn, not the time that they take.
        monkeypatch.setattr("coterie.server.network.turns.TURN_S", math.inf)
        data = client.frame(heartbeat(3), VERSION) * (limits.REQUESTS_PER_TURN + 10)
        client.connection.data_received(data)
        assert len(codes(client)) == limits.REQUESTS_PER_TURN
        client.loop.turn()
        assert len(codes(client)) == 10

    def test_ipv6_address_is_printed_as_java_prints_it(self) -> None:
        client = Client(make_broker(), host="2001:db8::7")
        assert client.connection.client.client_host == "/2001:db8:0:0:0:0:0:7"
        assert client.connection.peer == "[2001:db8::7]:50000"


class TestMuting:
    """The rule [connections/muting]."""

    def test_later_requests_are_handled_after_the_delayed_response(self) -> None:
        handler = DelayingHandler(mutes=True)
        client = with_handler(handler)
        client.connection.data_received(
            b"".join(client.frame(heartbeat(n), VERSION) for n in (2, 1, 4, 6))
        )
        client.send(heartbeat(8), VERSION)
        client.loop.turn()
        assert (codes(client), handler.handled) == ([2], [2, 1])
        handler.delayed[0].send(answer(1))
        client.loop.turn()
        assert (codes(client), handler.handled) == ([1, 4, 6, 8], [2, 1, 4, 6, 8])

    def test_two_delayed_responses_in_a_row(self) -> None:
        handler = DelayingHandler(mutes=True)
        client = with_handler(handler)
        for number in (1, 3, 4):
            client.send(heartbeat(number), VERSION)
        handler.delayed[0].send(answer(1))
        client.loop.turn()
        assert (codes(client), len(handler.delayed)) == ([1], 2)
        handler.delayed[1].send(answer(3))
        client.loop.turn()
        assert codes(client) == [3, 4]

    def test_delayed_response_may_be_sent_before_the_handler_returns(self) -> None:
        def handle(_broker: Any, request: Any, connection: Connection) -> None:
            delayed = DelayedResponse(connection)
            connection.delay_and_mute(delayed)
            delayed.send(answer(request.generation_id))

        client = with_handler(handle)
        client.connection.data_received(
            b"".join(client.frame(heartbeat(n), VERSION) for n in (1, 2))
        )
        assert codes(client) == [1, 2]

    def test_reading_pauses_while_a_muted_connection_buffers_too_much(self) -> None:
        handler = DelayingHandler(mutes=True)
        client = with_handler(handler)
        client.send(heartbeat(1), VERSION)
        frame = client.frame(heartbeat(2), VERSION)
        count = limits.RECEIVE_BUFFER_BYTES // len(frame) + 1
        for _ in range(count):
            assert client.transport.reading
            client.connection.data_received(frame)
        assert not client.transport.reading
        assert client.broker.connection_quotas.buffered_bytes == count * len(frame)
        handler.delayed[0].send(answer(1))
        client.loop.turn()
        assert client.transport.reading
        assert len(codes(client)) == count + 1
        assert client.broker.connection_quotas.buffered_bytes == 0

    def test_response_to_a_lost_connection_is_dropped(self) -> None:
        handler = DelayingHandler(mutes=True)
        client = with_handler(handler)
        client.send(heartbeat(1), VERSION)
        calls = []
        handler.delayed[0].on_disconnect = lambda: calls.append("on_disconnect")
        client.connection.connection_lost(None)
        handler.delayed[0].send(answer(1))
        client.loop.turn()
        assert calls == ["on_disconnect"]
        assert client.answers() == []

    def test_sending_a_response_does_not_handle_buffered_requests(self) -> None:
        """Otherwise calls would nest as deep as there are members in a group."""
        handler = DelayingHandler(mutes=True)
        first = with_handler(handler)
        first.send(heartbeat(1), VERSION)
        first.send(heartbeat(2), VERSION)
        handler.delayed[0].send(answer(1))
        assert handler.handled == [1]
        first.loop.turn()
        assert handler.handled == [1, 2]


class TestDelayed:
    """The rule [connections/muting]."""

    def test_later_requests_are_handled_and_their_responses_queue(self) -> None:
        handler = DelayingHandler(mutes=False)
        client = with_handler(handler)
        client.connection.data_received(
            b"".join(client.frame(heartbeat(n), VERSION) for n in (2, 1, 4, 3, 6))
        )
        client.loop.turn()
        assert (codes(client), handler.handled) == ([2], [2, 1, 4, 3, 6])
        handler.delayed[1].send(answer(3))
        client.loop.turn()
        assert codes(client) == []
        handler.delayed[0].send(answer(1))
        client.loop.turn()
        assert codes(client) == [1, 4, 3, 6]

    def test_responses_of_one_turn_are_one_write(self) -> None:
        handler = DelayingHandler(mutes=False)
        client = with_handler(handler)
        client.connection.data_received(
            b"".join(client.frame(heartbeat(n), VERSION) for n in (1, 3, 5))
        )
        for delayed in handler.delayed:
            delayed.send(answer(9))
        client.loop.turn()
        assert len(client.transport.written) == 1
        assert codes(client) == [9, 9, 9]

    def test_too_many_delayed_responses_mute_the_connection(self) -> None:
        handler = DelayingHandler(mutes=False)
        client = with_handler(handler)
        frame = client.frame(heartbeat(1), VERSION)
        for _ in range(5):
            client.connection.data_received(frame * (limits.DELAYED_RESPONSES // 4))
            client.loop.turn()
        assert len(handler.delayed) == limits.DELAYED_RESPONSES
        handler.delayed[0].send(answer(1))
        client.loop.turn()
        assert len(handler.delayed) == limits.DELAYED_RESPONSES + 1


class GoneTransport(FakeTransport):
    """A transport whose first write finds that the peer has reset the connection."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        super().write(data)
        self.closed = True


class TestFlowControl:
    """The rule [connections/input-limits]."""

    def test_connection_is_muted_while_the_peer_does_not_read(self) -> None:
        client = with_handler(echo)
        client.transport.peer_reads = False
        client.transport.high_bytes = 100
        while not client.transport.queued_bytes > 100:
            client.send(heartbeat(1), VERSION)
        before = len(codes(client))
        client.send(heartbeat(2), VERSION)
        assert codes(client) == []
        client.transport.read_by_peer()
        client.loop.turn()
        assert codes(client) == [2]
        assert before > 0

    def test_connection_is_closed_if_the_peer_reads_nothing_for_too_long(self) -> None:
        client = with_handler(echo)
        client.transport.peer_reads = False
        client.transport.queued_bytes = limits.UNREAD_HIGH_BYTES
        client.send(heartbeat(1), VERSION)
        client.loop.advance(limits.UNREAD_DEADLINE_MS // 2)
        assert not client.transport.closed
        # Reading one byte extends the deadline.
        client.transport.queued_bytes -= 1
        client.loop.advance(limits.UNREAD_DEADLINE_MS // 2 + 2 * limits.SWEEP_INTERVAL_MS)
        assert not client.transport.closed
        client.loop.advance(limits.UNREAD_DEADLINE_MS + 2 * limits.SWEEP_INTERVAL_MS)
        assert client.transport.aborted
        (line,) = logged(client.broker, "connection closed")
        assert line["error"] == "UnreadAnswers"

    def test_connection_is_closed_at_once_above_the_larger_limit(self) -> None:
        handler = DelayingHandler(mutes=False)
        client = with_handler(handler)
        client.transport.peer_reads = False
        client.send(heartbeat(1), VERSION)
        client.transport.queued_bytes = limits.UNREAD_LIMIT_BYTES
        handler.delayed[0].send(answer(1))
        client.loop.turn()
        assert client.transport.aborted

    @pytest.mark.parametrize("peer_is_gone", [False, True])
    def test_large_response_is_written_before_the_next_request_is_handled(
        self, peer_is_gone: bool
    ) -> None:
        handled = []

        def handle(_broker: Any, request: Any, _connection: Connection) -> HeartbeatResponse:
            handled.append(request.generation_id)
            return answer(0)

        client = with_handler(handle)
        route = client.broker.routes.load(ApiKey.HEARTBEAT << 16 | VERSION)
        route.framer = lambda _message, _id: bytes(limits.SMALL_RESPONSE_BYTES + 1)
        if peer_is_gone:
            client.connection._transport = GoneTransport()
        client.transport.peer_reads = False
        client.transport.high_bytes = 10
        client.connection.data_received(
            b"".join(client.frame(heartbeat(n), VERSION) for n in (1, 2))
        )
        assert handled == [1]


class TestMalformedRequests:
    """Any bytes: the connection is closed with one log line, and no exception leaves it."""

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            (b"\x7f\xff\xff\xff", "a frame of 2147483647 bytes"),
            (b"\xff\xff\xff\xff", "a frame of -1 bytes"),
            (b"\x00\x00\x00\x00", "a frame of 0 bytes"),
            (b"\x00\x00\x00\x09abcdefghi", "a frame of 9 bytes"),
            (b"GET / HTTP/1.1\r\n\r\n", "a frame of 1195725856 bytes"),
            (bytes((0, 0, 0, 10, 0, 99, 0, 0, 0, 0, 0, 1, 0, 0)), "api key 99 is not served"),
            (bytes((0, 0, 0, 10, 255, 255, 0, 0, 0, 0, 0, 1, 0, 0)), "api key 65535 is not served"),
            (
                bytes((0, 0, 0, 10, 0, 12, 0, 99, 0, 0, 0, 1, 0, 0)),
                "Heartbeat version 99 is not served, only 0 to 4",
            ),
            (b"\0\0\0\x0c\0\x0c\0\4\0\0\0\1\0\x09AA", "client_id claims 9 bytes"),
            (b"\0\0\0\x0c\0\x0c\0\4\0\0\0\1\xff\xfbAA", "client_id claims -5 bytes"),
            # The tags come after the frame, or the client id, which is that of the request before.
            (b"\0\0\0\x0a\0\x44\0\1\0\0\0\1\0\0\0", "header that does not end within its"),
            (WHOLE + b"\0\0\0\x0a\0\x0c\0\0\0\0\0\1\0\1A", "header that does not end within"),
            (bytes((0, 0, 0, 12, 0, 12, 0, 4, 0, 0, 0, 1, 0, 2, 255, 255)), "utf-8"),
            (bytes((0, 0, 0, 11, 0, 12, 0, 4, 0, 0, 0, 1, 0, 0, 0)), "Heartbeat v4"),
        ],
    )
    def test_malformed_bytes_close_the_connection(
        self, client: Client, data: bytes, reason: str
    ) -> None:
        client.connection.data_received(data)
        assert client.transport.closed
        (line,) = logged(client.broker, "connection closed")
        assert (line["error"], line["peer"]) == ("MalformedFrame", "127.0.0.1:50000")
        assert reason in line["reason"]
        client.connection.data_received(data)
        assert client.broker.connection_quotas.buffered_bytes == 0

    def test_requests_before_malformed_bytes_are_answered(self, client: Client) -> None:
        client.connection.data_received(client.frame(heartbeat(3), VERSION) + b"\xff" * 20)
        assert codes(client) == [3]
        assert client.transport.closed

    def test_truncated_body_closes_the_connection(self, client: Client) -> None:
        frame = client.frame(heartbeat(3), VERSION)
        for size in range(10, len(frame) - 4):
            other = Client(client.broker)
            other.connection.data_received(size.to_bytes(4) + frame[4 : size + 4])
            assert other.transport.closed, size
        assert not client.transport.closed

    def test_error_in_a_handler_closes_only_its_connection(self) -> None:
        def handle(
            _broker: Any, request: HeartbeatRequest, _connection: Connection
        ) -> HeartbeatResponse:
            # From a handler an IndexError is our mistake, although decoders raise it for malformed
            # bytes.
            answers: list[HeartbeatResponse] = [answer(0)]
            return answers[request.generation_id]

        client = with_handler(handle)
        other = Client(client.broker)
        client.connection.data_received(
            b"".join(client.frame(heartbeat(n), VERSION) for n in (0, 1, 0))
        )
        assert codes(client) == [0]
        assert client.transport.closed
        (line,) = logged(client.broker, "request failed")
        assert isinstance(line["exc_info"], IndexError)
        assert line["request"] == "Heartbeat v4"
        other.send(heartbeat(0), VERSION)
        assert codes(other) == [0]

    def test_log_lines_are_limited_in_a_flood(self) -> None:
        broker = make_broker()
        for _ in range(limits.CLOSE_LINES_PER_SWEEP + 7):
            Client(broker).connection.data_received(b"\xff\xff\xff\xff")
        assert len(logged(broker, "connection closed")) == limits.CLOSE_LINES_PER_SWEEP
        loop_of(broker).advance(limits.SWEEP_INTERVAL_MS)
        assert logged(broker, "connections closed, not shown") == [{"count": 7}]


def test_large_request_in_many_parts(client: Client) -> None:
    """The parts are joined once, so memory and time are in proportion to the request."""
    name = "n" * 30_000
    request = HeartbeatRequest(group_id=name, generation_id=3, member_id=name)
    frame = client.frame(request, VERSION)
    for position in range(0, len(frame), 1000):
        client.connection.data_received(frame[position : position + 1000])
    assert codes(client) == [3]


def test_manual_loop_runs_calls_in_the_order_of_their_time() -> None:
    loop = ManualLoop()
    seen: list[int] = []
    loop.call_later(2, lambda: seen.append(2))

    def one() -> None:
        seen.append(1)
        loop.call_soon(lambda: seen.append(10))

    loop.call_later(1, one)
    loop.call_later(3, lambda: seen.append(3)).cancel()
    loop.advance(5_000)
    assert seen == [1, 10, 2]


def test_stubbed_requests_have_the_real_header() -> None:
    frame = encode_request(heartbeat(1), VERSION, 77, "test")
    assert frame[4:12] == bytes((0, 12, 0, 4, 0, 0, 0, 77))
