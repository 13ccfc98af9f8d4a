"""Runs transcripts over TCP against any broker: Coterie, Kafka, or another implementation.

Ticks last as long as they say, so all files run in parallel. Lines that only the core can show are
ignored. Every client must get the expected responses in order; responses to different clients may
come in any order, and lists and maps are compared without order.

A broker starts its timers when it reads a request, a little later than the transcript says. A timer
has therefore always ended when a tick reaches its deadline, and a transcript that expects "not yet"
leaves half a second or more.
"""

import re
import selectors
import socket
import struct
import time

from coterie.conformance.commands import INSPECTION_COMMANDS
from coterie.conformance.core_broker import Output
from coterie.conformance.core_lines import is_core_line
from coterie.conformance.group_setup import set_up_group
from coterie.conformance.harness import GROUP_APIS
from coterie.conformance.requests import build_request
from coterie.conformance.responses import response_lines
from coterie.conformance.syntax import parse_arguments, parse_duration_ms
from coterie.conformance.tcp_broker import TcpBroker
from coterie.conformance.tcp_names import TcpNames
from coterie.conformance.transcript import (
    Block,
    RequestLine,
    Transcript,
    TranscriptError,
    parse_request_line,
)
from coterie.protocol.frames import FrameBuffer, decode_response, encode_request
from coterie.protocol.messages.list_groups import ListGroupsResponse
from coterie.protocol.wire import Message

# How long an expected response may take. The first group of a fresh broker waits for its topic.
_EXPECTED_LIMIT_S = 5.0
# How long to watch that a request which should be delayed gets no response after all.
_DELAYED_LIMIT_S = 0.1
# The same where the transcript does not say whether the request will be delayed.
_UNKNOWN_LIMIT_S = 0.3
# How long to wait for further responses that come at the same time.
_SETTLE_S = 0.03

_DELAYED = "  (delayed)"
# The first line of a response, or the note that there is none yet.
_FIRST_LINE = re.compile(r"[\w.]+(< \S|  \(delayed\)$)")


class _Client:
    """One connection of one client."""

    def __init__(self, name: str, address: tuple[str, int]) -> None:
        self.name = name
        self.socket = socket.create_connection(address, timeout=_EXPECTED_LIMIT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frames = FrameBuffer()
        # Response class and version of each request without a response, by correlation id.
        self.pending: dict[int, tuple[type[Message], int]] = {}
        self._count = 0

    def send(self, message: Message, version: int) -> None:
        """Send a request."""
        self._count += 1
        self.pending[self._count] = (GROUP_APIS[type(message)].response, version)
        client_id = self.name.partition(".")[0]
        self.socket.sendall(encode_request(message, version, self._count, client_id))

    def receive(self) -> list[tuple[Message, int]]:
        """Return the responses that have come: message and version."""
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError(f"the broker closed the connection of {self.name}")
        self.frames.append(data)
        responses = []
        while (frame := self.frames.next_frame()) is not None:
            (number,) = struct.unpack_from(">i", frame)
            response_type, version = self.pending.pop(number)
            responses.append((decode_response(response_type, frame, version)[1], version))
        return responses


class TcpDriver:
    """One run of one transcript.

    Attributes:
        broker: the broker to run against.
        names: the names of this run.
    """

    def __init__(self, broker: TcpBroker, suffix: str) -> None:
        """Begin a run; a client connects when it sends its first request.

        Args:
            broker: the broker to run against.
            suffix: follows the name of every group, see `TcpNames`.
        """
        self.broker = broker
        self.names = TcpNames(suffix, broker.topic_id)
        self._clients: dict[str, _Client] = {}
        self._selector = selectors.DefaultSelector()
        # The first lines of the responses that the block still expects; None inside `given`, whose
        # responses the transcript does not show.
        self._expected: list[str] | None = None

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.socket.close()
        self._selector.close()

    def run(self, transcript: Transcript) -> list[list[str]]:
        """Carry out every block and return what the clients saw, one list of lines per block."""
        actual = []
        for block in transcript.blocks:
            self._expected = [line for line in block.expected if _FIRST_LINE.match(line)]
            lines: list[str] = []
            for command in block.commands:
                for output in self.execute(command.text):
                    lines += output.lines
            for output in self._receive_expected():
                lines += output.lines
            actual.append(lines)
        return actual

    def wait_for_responses(self, duration_ms: int, count: int) -> list[Output]:
        """Wait until `count` responses have come, a little longer than the time if need be."""
        end_s = time.monotonic() + duration_ms / 1000 + _UNKNOWN_LIMIT_S
        outputs: list[Output] = []
        while len(outputs) < count and time.monotonic() < end_s:
            outputs += self._receive(_SETTLE_S)
        return outputs

    def execute(self, text: str, *, delayed: bool = False) -> list[Output]:
        """Carry out one command line and return what clients see."""
        request = parse_request_line(text)
        if request is not None:
            limit_s = _DELAYED_LIMIT_S if delayed else self._limit_s(request.client)
            return self._request(request, limit_s)
        verb, _, rest = text.partition(" ")
        if verb == "tick":
            return self._receive(parse_duration_ms(rest) / 1000) + self._receive(_SETTLE_S)
        if verb == "given":
            expected, self._expected = self._expected, None
            outputs = set_up_group(self, parse_arguments(rest))
            self._expected = expected
            return outputs
        if verb == "disconnect":
            client = self._clients.pop(rest)
            self._selector.unregister(client.socket)
            client.socket.close()
        elif verb == "delete-topic":
            self.names.forget_topic(rest)
            self.broker.delete_topic(rest)
        elif verb not in INSPECTION_COMMANDS and verb != "config":
            raise TranscriptError(f"{verb!r} needs the core")
        return []

    def _request(self, request: RequestLine, limit_s: float) -> list[Output]:
        client = self._clients.get(request.client)
        if client is None:
            client = _Client(request.client, self.broker.address)
            self._clients[request.client] = client
            self._selector.register(client.socket, selectors.EVENT_READ, client)
        for topic in _topics_in(request):
            self.names.topic_id(topic)
        client.send(build_request(request, self.names), request.version)
        outputs = self._receive(limit_s, until=client)
        return outputs + self._receive(_SETTLE_S)

    def _limit_s(self, name: str) -> float:
        """Return how long to wait, by what the block expects next for this client."""
        if self._expected is None:
            return _UNKNOWN_LIMIT_S
        for at, line in enumerate(self._expected):
            if line == f"{name}{_DELAYED}":
                del self._expected[at]
                return _DELAYED_LIMIT_S
            if line.startswith(f"{name}< "):
                return _EXPECTED_LIMIT_S
        return _DELAYED_LIMIT_S

    def _receive(self, seconds: float, until: _Client | None = None) -> list[Output]:
        """Return the responses of a time span; with `until`, stop at that client's last one."""
        end_s = time.monotonic() + seconds
        outputs: list[Output] = []
        while (left_s := end_s - time.monotonic()) > 0:
            for key, _ in self._selector.select(left_s) if self._clients else ():
                client: _Client = key.data
                for message, version in client.receive():
                    outputs.append(self._output(client, message, version))
            if not self._clients:
                time.sleep(left_s)
            if until is not None and not until.pending:
                break
        return outputs

    def _output(self, client: _Client, message: Message, version: int) -> Output:
        if isinstance(message, ListGroupsResponse):
            message.groups = [g for g in message.groups if self.names.is_ours(g.group_id)]
        lines = response_lines(client.name, version, message, self.names)
        if self._expected is not None:
            heading = f"{client.name}< "
            for at, line in enumerate(self._expected):
                if line.startswith(heading):
                    del self._expected[at]
                    break
        return Output(lines, client.name, message)

    def _receive_expected(self) -> list[Output]:
        """Wait for the responses that the block still expects."""
        end_s = time.monotonic() + _EXPECTED_LIMIT_S
        outputs: list[Output] = []
        while time.monotonic() < end_s and any("< " in line for line in self._expected or []):
            outputs += self._receive(_SETTLE_S)
        return outputs


_TOPIC_APIS = ("OffsetCommit", "OffsetFetch", "OffsetDelete")


def _topics_in(request: RequestLine) -> set[str]:
    """Return the topics that a request names; a broker must have them before."""
    if request.api not in _TOPIC_APIS:
        return set()
    partitions = re.finditer(r"([a-z_]+)-\d+(?=[:,\]\s}])", request.arguments)
    return {match[1] for match in partitions} - {"c", "i"}


def client_view(lines: list[str]) -> dict[str, list[list[str]]]:
    """Return the responses of each client in order, with sorted lists and sorted further lines."""
    view: dict[str, list[list[str]]] = {}
    for line in lines:
        if is_core_line(line) or line.endswith(_DELAYED):
            continue
        text = re.sub(r"([\[{])([^\[\]{}]*)([\]}])", _sorted_items, line)
        client = line.partition("<")[0] if "< " in line else ""
        responses = view.setdefault(client, [])
        if client and line.startswith(f"{client}<   "):
            responses[-1] = [responses[-1][0], *sorted([*responses[-1][1:], text])]
        else:
            responses.append([text])
    return view


def _sorted_items(match: re.Match[str]) -> str:
    return match[1] + ", ".join(sorted(match[2].split(", "))) + match[3]


def client_differences(block: Block, actual: list[str]) -> list[str]:
    """Return how the clients' view differs from the block; empty if it does not."""
    expected_view, actual_view = client_view(block.expected), client_view(actual)
    if expected_view == actual_view:
        return []
    lines = [f"  {command.text}" for command in block.commands]
    for client in dict.fromkeys([*expected_view, *actual_view]):
        expected, came = expected_view.get(client, []), actual_view.get(client, [])
        if expected != came:
            lines += [f"- {line}" for response in expected for line in response]
            lines += [f"+ {line}" for response in came for line in response]
    return lines
