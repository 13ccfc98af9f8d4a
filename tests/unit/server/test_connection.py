"""One connection: frames, order of answers, parking, holding, flow control, and bytes that are
none.

The handlers are stubs; the wire is real.
"""

from collections.abc import Callable
from typing import Any

import pytest

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.frames import encode_request
from coterie.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from coterie.server.network import limits
from coterie.server.network.connection import Connection
from coterie.server.network.delayed_response import DelayedResponse
from coterie.server.network.routes import Route
from tests.unit.server.manual import Client, ManualLoop, make_broker

VERSION = 4
Handler = Callable[[Any, HeartbeatRequest, Connection], HeartbeatResponse | None]


def heartbeat(generation_id: int) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=generation_id, member_id="m")


def answer(number: int) -> HeartbeatResponse:
    """Answers are told apart by their error codes."""
    return HeartbeatResponse(error_code=number)


def echo(_broker: Any, request: HeartbeatRequest, _connection: Connection) -> HeartbeatResponse:
    return answer(request.generation_id)


@pytest.fixture
def client() -> Client:
    return with_handler(echo)


def with_handler(handle: Handler) -> Client:
    broker = make_broker()
    broker.routes[ApiKey.HEARTBEAT << 16 | VERSION] = Route(
        ApiKey.HEARTBEAT,
        VERSION,
        handle,
        HeartbeatRequest.decoder(VERSION),
        HeartbeatResponse.framer(VERSION),
        flexible=True,
    )
    return Client(broker)


def codes(client: Client) -> list[int]:
    return [message.error_code for _, message in client.answers()]


class Waiting:
    """A handler that delays requests of odd generations and answers the even ones."""

    def __init__(self, *, mutes: bool) -> None:
        self.mutes = mutes
        self.replies: list[DelayedResponse] = []
        self.handled: list[int] = []

    def __call__(
        self, _broker: Any, request: HeartbeatRequest, connection: Connection
    ) -> HeartbeatResponse | None:
        self.handled.append(request.generation_id)
        if request.generation_id % 2 == 0:
            return answer(request.generation_id)
        reply = DelayedResponse(connection)
        self.replies.append(reply)
        (connection.delay_and_mute if self.mutes else connection.delay)(reply)
        return None


class TestFrames:
    def test_many_frames_of_one_read_are_answered_with_one_write(self, client: Client) -> None:
        data = b"".join(client.frame(heartbeat(n), VERSION) for n in range(32))
        client.connection.data_received(data)
        assert len(client.transport.written) == 1
        assert codes(client) == list(range(32))

    def test_a_frame_may_come_byte_by_byte(self, client: Client) -> None:
        frame = client.frame(heartbeat(5), VERSION)
        for position in range(len(frame)):
            assert not client.transport.written
            client.connection.data_received(frame[position : position + 1])
        assert codes(client) == [5]
        assert client.broker.connection_quotas.buffered_bytes == 0

    def test_every_cut_of_three_frames_gives_the_same_answers(self, client: Client) -> None:
        for cut in range(1, 3 * len(client.frame(heartbeat(1), VERSION))):
            data = b"".join(client.frame(heartbeat(n), VERSION) for n in (1, 2, 3))
            client.connection.data_received(data[:cut])
            client.connection.data_received(data[cut:])
            assert codes(client) == [1, 2, 3], cut

    def test_the_handler_sees_who_asks(self) -> None:
        seen = []

        def handle(_broker: Any, _request: Any, connection: Connection) -> HeartbeatResponse:
            seen.append((connection.client_id, connection.client_host, connection.version))
            return answer(0)

        client = with_handler(handle)
        for client_id in ("one", "other", "other", None, "größe"):
            client.client_id = client_id
            client.send(heartbeat(1), VERSION)
        names = ["one", "other", "other", "", "größe"]
        assert seen == [(name, "/127.0.0.1", VERSION) for name in names]

    def test_tags_of_the_header_are_skipped(self, client: Client) -> None:
        frame = client.frame(heartbeat(7), VERSION)
        at = 14 + len("test")
        assert frame[at] == 0
        tagged = frame[4:at] + b"\x01\x63\x02ab" + frame[at + 1 :]
        client.connection.data_received(len(tagged).to_bytes(4) + tagged)
        assert codes(client) == [7]

    def test_after_a_turns_worth_of_requests_others_come_first(self, client: Client) -> None:
        data = client.frame(heartbeat(3), VERSION) * (limits.REQUESTS_PER_TURN + 10)
        client.connection.data_received(data)
        assert len(codes(client)) == limits.REQUESTS_PER_TURN
        client.loop.turn()
        assert len(codes(client)) == 10

    def test_an_address_of_version_6_is_printed_as_java_does(self) -> None:
        client = Client(make_broker(), host="2001:db8::7")
        assert client.connection.client_host == "/2001:db8:0:0:0:0:0:7"
        assert client.connection.peer == "[2001:db8::7]:50000"


class TestParked:
    def test_nothing_behind_it_is_handled_until_it_is_answered(self) -> None:
        handler = Waiting(mutes=True)
        client = with_handler(handler)
        client.connection.data_received(
            b"".join(client.frame(heartbeat(n), VERSION) for n in (2, 1, 4, 6))
        )
        client.send(heartbeat(8), VERSION)
        client.loop.turn()
        assert (codes(client), handler.handled) == ([2], [2, 1])
        handler.replies[0].send(answer(1))
        client.loop.turn()
        assert (codes(client), handler.handled) == ([1, 4, 6, 8], [2, 1, 4, 6, 8])

    def test_two_in_a_row(self) -> None:
        handler = Waiting(mutes=True)
        client = with_handler(handler)
        for number in (1, 3, 4):
            client.send(heartbeat(number), VERSION)
        handler.replies[0].send(answer(1))
        client.loop.turn()
        assert (codes(client), len(handler.replies)) == ([1], 2)
        handler.replies[1].send(answer(3))
        client.loop.turn()
        assert codes(client) == [3, 4]

    def test_it_may_be_answered_before_its_handler_returns(self) -> None:
        def handle(_broker: Any, request: Any, connection: Connection) -> None:
            reply = DelayedResponse(connection)
            connection.delay_and_mute(reply)
            reply.send(answer(request.generation_id))

        client = with_handler(handle)
        client.connection.data_received(
            b"".join(client.frame(heartbeat(n), VERSION) for n in (1, 2))
        )
        assert codes(client) == [1, 2]

    def test_reading_stops_when_much_waits_behind_it_and_goes_on_afterwards(self) -> None:
        handler = Waiting(mutes=True)
        client = with_handler(handler)
        client.send(heartbeat(1), VERSION)
        frame = client.frame(heartbeat(2), VERSION)
        count = limits.RECEIVE_BUFFER_BYTES // len(frame) + 1
        for _ in range(count):
            assert client.transport.reading
            client.connection.data_received(frame)
        assert not client.transport.reading
        assert client.broker.connection_quotas.buffered_bytes == count * len(frame)
        handler.replies[0].send(answer(1))
        client.loop.turn()
        assert client.transport.reading
        assert len(codes(client)) == count + 1
        assert client.broker.connection_quotas.buffered_bytes == 0

    def test_an_answer_for_a_connection_that_is_gone_vanishes(self) -> None:
        handler = Waiting(mutes=True)
        client = with_handler(handler)
        client.send(heartbeat(1), VERSION)
        told = []
        handler.replies[0].on_disconnect = lambda: told.append("gone")
        client.connection.connection_lost(None)
        handler.replies[0].send(answer(1))
        client.loop.turn()
        assert told == ["gone"]
        assert client.answers() == []

    def test_an_answer_does_not_handle_another_connections_requests_inside_it(self) -> None:
        """Otherwise a chain of parked members would nest as deep as there are connections."""
        handler = Waiting(mutes=True)
        first = with_handler(handler)
        first.send(heartbeat(1), VERSION)
        first.send(heartbeat(2), VERSION)
        handler.replies[0].send(answer(1))
        assert handler.handled == [1]
        first.loop.turn()
        assert handler.handled == [1, 2]


class TestHeld:
    def test_later_requests_are_handled_and_their_answers_queue_behind(self) -> None:
        handler = Waiting(mutes=False)
        client = with_handler(handler)
        client.connection.data_received(
            b"".join(client.frame(heartbeat(n), VERSION) for n in (2, 1, 4, 3, 6))
        )
        client.loop.turn()
        assert (codes(client), handler.handled) == ([2], [2, 1, 4, 3, 6])
        handler.replies[1].send(answer(3))
        client.loop.turn()
        assert codes(client) == []
        handler.replies[0].send(answer(1))
        client.loop.turn()
        assert codes(client) == [1, 4, 3, 6]

    def test_what_is_released_in_one_turn_is_one_write(self) -> None:
        handler = Waiting(mutes=False)
        client = with_handler(handler)
        client.connection.data_received(
            b"".join(client.frame(heartbeat(n), VERSION) for n in (1, 3, 5))
        )
        for reply in handler.replies:
            reply.send(answer(9))
        client.loop.turn()
        assert len(client.transport.written) == 1
        assert codes(client) == [9, 9, 9]

    def test_too_many_held_answers_stop_the_connection_until_some_are_released(self) -> None:
        handler = Waiting(mutes=False)
        client = with_handler(handler)
        frame = client.frame(heartbeat(1), VERSION)
        for _ in range(5):
            client.connection.data_received(frame * (limits.DELAYED_RESPONSES // 4))
            client.loop.turn()
        assert len(handler.replies) == limits.DELAYED_RESPONSES
        handler.replies[0].send(answer(1))
        client.loop.turn()
        assert len(handler.replies) == limits.DELAYED_RESPONSES + 1


class TestFlowControl:
    def test_a_peer_that_does_not_read_is_not_served_further(self) -> None:
        client = with_handler(echo)
        client.transport.peer_reads = False
        client.transport.high_bytes = 100
        while not client.transport.queued_bytes > 100:
            client.send(heartbeat(1), VERSION)
        before = len(codes(client))
        client.send(heartbeat(2), VERSION)
        assert codes(client) == []
        client.transport.take()
        client.loop.turn()
        assert codes(client) == [2]
        assert before > 0

    def test_it_is_closed_when_it_takes_nothing_for_the_time_of_the_limit(self) -> None:
        client = with_handler(echo)
        client.transport.peer_reads = False
        client.transport.queued_bytes = limits.UNREAD_HIGH_BYTES
        client.send(heartbeat(1), VERSION)
        client.loop.advance(limits.UNREAD_DEADLINE_MS // 2)
        assert not client.transport.closed
        # It reads a little: that counts.
        client.transport.queued_bytes -= 1
        client.loop.advance(limits.UNREAD_DEADLINE_MS // 2 + 2 * limits.SWEEP_INTERVAL_MS)
        assert not client.transport.closed
        client.loop.advance(limits.UNREAD_DEADLINE_MS + 2 * limits.SWEEP_INTERVAL_MS)
        assert client.transport.aborted
        (line,) = client.broker.log.named("connection closed")  # type: ignore[attr-defined]
        assert line["error"] == "UnreadAnswers"

    def test_it_is_closed_at_once_beyond_the_larger_limit(self) -> None:
        handler = Waiting(mutes=False)
        client = with_handler(handler)
        client.transport.peer_reads = False
        client.send(heartbeat(1), VERSION)
        client.transport.queued_bytes = limits.UNREAD_LIMIT_BYTES
        handler.replies[0].send(answer(1))
        client.loop.turn()
        assert client.transport.aborted

    def test_a_large_answer_is_written_before_the_next_request_is_handled(self) -> None:
        handled = []

        def handle(_broker: Any, request: Any, _connection: Connection) -> HeartbeatResponse:
            handled.append(request.generation_id)
            return answer(0)

        client = with_handler(handle)
        route = client.broker.routes[ApiKey.HEARTBEAT << 16 | VERSION]
        route.framer = lambda _message, _id: bytes(limits.SMALL_RESPONSE_BYTES + 1)
        client.transport.peer_reads = False
        client.transport.high_bytes = 10
        client.connection.data_received(
            b"".join(client.frame(heartbeat(n), VERSION) for n in (1, 2))
        )
        assert handled == [1]


class TestBadBytes:
    """Whatever comes: one line, closed, nothing raised."""

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
            (
                bytes((0, 0, 0, 12, 0, 12, 0, 4, 0, 0, 0, 1, 0, 9, 65, 65)),
                "client_id claims 9 bytes",
            ),
            (
                bytes((0, 0, 0, 12, 0, 12, 0, 4, 0, 0, 0, 1, 255, 251, 65, 65)),
                "client_id claims -5 bytes",
            ),
            (bytes((0, 0, 0, 12, 0, 12, 0, 4, 0, 0, 0, 1, 0, 2, 255, 255)), "utf-8"),
            (bytes((0, 0, 0, 11, 0, 12, 0, 4, 0, 0, 0, 1, 0, 0, 0)), "Heartbeat v4"),
        ],
    )
    def test_close_the_connection_with_one_line(
        self, client: Client, data: bytes, reason: str
    ) -> None:
        client.connection.data_received(data)
        assert client.transport.closed
        (line,) = client.broker.log.named("connection closed")  # type: ignore[attr-defined]
        assert (line["error"], line["peer"]) == ("MalformedFrame", "127.0.0.1:50000")
        assert reason in line["reason"]
        client.connection.data_received(data)
        assert client.broker.connection_quotas.buffered_bytes == 0

    def test_requests_before_them_are_answered(self, client: Client) -> None:
        client.connection.data_received(client.frame(heartbeat(3), VERSION) + b"\xff" * 20)
        assert codes(client) == [3]
        assert client.transport.closed

    def test_every_truncated_body_is_refused(self, client: Client) -> None:
        frame = client.frame(heartbeat(3), VERSION)
        for size in range(10, len(frame) - 4):
            other = Client(client.broker)
            other.connection.data_received(size.to_bytes(4) + frame[4 : size + 4])
            assert other.transport.closed, size
        assert not client.transport.closed

    def test_a_mistake_of_ours_closes_that_connection_only_and_shows_its_traceback(self) -> None:
        def handle(_broker: Any, request: Any, _connection: Connection) -> HeartbeatResponse:
            # An IndexError from a handler is ours, although decoders raise it about the peer's
            # bytes.
            return [answer(0)][request.generation_id]

        client = with_handler(handle)
        other = Client(client.broker)
        client.connection.data_received(
            b"".join(client.frame(heartbeat(n), VERSION) for n in (0, 1, 0))
        )
        assert codes(client) == [0]
        assert client.transport.closed
        (line,) = client.broker.log.named("request failed")  # type: ignore[attr-defined]
        assert isinstance(line["exc_info"], IndexError)
        assert line["request"] == "Heartbeat v4"
        other.send(heartbeat(0), VERSION)
        assert codes(other) == [0]

    def test_lines_are_counted_instead_of_written_in_a_flood(self) -> None:
        broker = make_broker()
        for _ in range(limits.CLOSE_LINES_PER_SWEEP + 7):
            Client(broker).connection.data_received(b"\xff\xff\xff\xff")
        log: Any = broker.log
        assert len(log.named("connection closed")) == limits.CLOSE_LINES_PER_SWEEP
        loop: Any = broker.loop
        loop.advance(limits.SWEEP_INTERVAL_MS)
        assert log.named("connections closed, not shown") == [{"count": 7}]


def test_a_large_frame_is_joined_once(client: Client) -> None:
    """Parts are kept as they came: memory and time stay in proportion to the frame."""
    name = "n" * 30_000
    request = HeartbeatRequest(group_id=name, generation_id=3, member_id=name)
    frame = client.frame(request, VERSION)
    for position in range(0, len(frame), 1000):
        client.connection.data_received(frame[position : position + 1000])
    assert codes(client) == [3]


def test_the_loop_of_these_tests_keeps_time() -> None:
    loop = ManualLoop()
    seen: list[int] = []
    loop.call_later(2, lambda: seen.append(2))
    loop.call_later(1, lambda: (seen.append(1), loop.call_soon(lambda: seen.append(10))))
    loop.call_later(3, lambda: seen.append(3)).cancel()
    loop.advance(5_000)
    assert seen == [1, 10, 2]


def test_encode_request_is_what_clients_send() -> None:
    """The stub routes above speak the same header as the protocol package."""
    frame = encode_request(heartbeat(1), VERSION, 77, "test")
    assert frame[4:12] == bytes((0, 12, 0, 4, 0, 0, 0, 77))
