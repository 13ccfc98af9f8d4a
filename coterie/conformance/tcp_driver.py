"""Runs transcripts over TCP against any broker: Coterie, a real Kafka, another stand-in.

Ticks are waited out, so all files run side by side. Lines that only the core can show are left out;
of what remains every client's answers must be those expected, in its own order, while clients may
be answered in any order among each other, and lists and maps are compared without order.

Timers begin when the broker reads a request, a little after the moment the transcript says. So a
timer has always ended when a tick reaches its deadline, and a transcript that says "not yet" leaves
half a second or more.
"""

import re
import selectors
import socket
import struct
import time

from coterie.conformance.answers import answer_lines
from coterie.conformance.core_broker import RESPONSES, Seen
from coterie.conformance.core_lines import is_core_line
from coterie.conformance.given import given
from coterie.conformance.requests import request_of
from coterie.conformance.stage import LOOKS
from coterie.conformance.tcp_broker import TcpBroker
from coterie.conformance.tcp_names import TcpNames
from coterie.conformance.transcript import Block, Transcript, TranscriptError, request_parts
from coterie.conformance.words import duration_ms, words_of
from coterie.protocol.frames import FrameBuffer, decode_response, encode_request
from coterie.protocol.messages.list_groups import ListGroupsResponse
from coterie.protocol.wire import Message

# How long an answer that is expected may take; a first group of a fresh broker waits for its topic.
_PATIENCE_S = 5.0
# How long to look whether a request is answered after all that should be parked.
_PARKED_S = 0.1
# The same where nothing says whether it will be parked, and how long to wait for more answers.
_UNSURE_S = 0.3
_QUIET_S = 0.03

_PARKED = "  (delayed)"
# The first line of an answer, or the note that there is none yet.
_ANSWER = re.compile(r"[\w.]+(< \S|  \(delayed\)$)")


class _Client:
    """One connection of one client."""

    def __init__(self, name: str, address: tuple[str, int]) -> None:
        self.name = name
        self.socket = socket.create_connection(address, timeout=_PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.frames = FrameBuffer()
        self.asked: dict[int, tuple[type[Message], int]] = {}
        self._count = 0

    def send(self, message: Message, version: int) -> None:
        """Send a request without waiting."""
        self._count += 1
        self.asked[self._count] = (RESPONSES[type(message)], version)
        client_id = self.name.partition(".")[0]
        self.socket.sendall(encode_request(message, version, self._count, client_id))

    def receive(self) -> list[tuple[Message, int]]:
        """The answers that have come: message and version."""
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError(f"the broker closed the connection of {self.name}")
        self.frames.append(data)
        answers = []
        while (frame := self.frames.next_frame()) is not None:
            (number,) = struct.unpack_from(">i", frame)
            response_type, version = self.asked.pop(number)
            answers.append((decode_response(response_type, frame, version)[1], version))
        return answers


class TcpDriver:
    """One run of one transcript."""

    def __init__(self, broker: TcpBroker, suffix: str) -> None:
        """Clients connect when they first speak."""
        self.broker = broker
        self.names = TcpNames(suffix, broker.topic_id)
        self._clients: dict[str, _Client] = {}
        self._selector = selectors.DefaultSelector()
        self._expected: list[str] | None = None

    def close(self) -> None:
        """Hang up everywhere."""
        for client in self._clients.values():
            client.socket.close()
        self._selector.close()

    def run(self, transcript: Transcript) -> list[list[str]]:
        """Carry out every block; the lines clients saw, one list a block."""
        actual = []
        for block in transcript.blocks:
            self._expected = [line for line in block.expected if _ANSWER.match(line)]
            lines: list[str] = []
            for command in block.commands:
                for each in self.execute(command.text):
                    lines += each.lines
            for each in self._until_expected():
                lines += each.lines
            actual.append(lines)
        return actual

    def let_pass(self, duration_ms: int, answers: int) -> list[Seen]:
        """Wait until so many answers have come, a little longer than the time if need be."""
        end_s = time.monotonic() + duration_ms / 1000 + _UNSURE_S
        seen: list[Seen] = []
        while len(seen) < answers and time.monotonic() < end_s:
            seen += self._listen(_QUIET_S)
        return seen

    def execute(self, text: str, *, parks: bool = False) -> list[Seen]:
        """What clients see after one command line."""
        request = request_parts(text)
        if request is not None:
            name, api, version, text = request
            patience_s = _PARKED_S if parks else self._patience_s(name)
            return self._ask(name, api, version, text, patience_s)
        verb, _, rest = text.partition(" ")
        if verb == "tick":
            return self._listen(duration_ms(rest) / 1000) + self._listen(_QUIET_S)
        if verb == "given":
            expected, self._expected = self._expected, None
            seen = given(self, words_of(rest))
            self._expected = expected
            return seen
        if verb == "hangs-up":
            client = self._clients.pop(rest)
            self._selector.unregister(client.socket)
            client.socket.close()
        elif verb == "topic-deleted":
            self.names.forget_topic(rest)
            self.broker.delete_topic(rest)
        elif verb not in LOOKS and verb != "config":
            raise TranscriptError(f"{verb!r} is not for a running broker")
        return []

    def _ask(self, name: str, api: str, version: int, rest: str, patience_s: float) -> list[Seen]:
        client = self._clients.get(name)
        if client is None:
            client = self._clients[name] = _Client(name, self.broker.address)
            self._selector.register(client.socket, selectors.EVENT_READ, client)
        for topic in _topics_in(api, rest):
            self.names.topic_id(topic)
        client.send(request_of(api, version, rest, self.names), version)
        seen = self._listen(patience_s, until=client)
        return seen + self._listen(_QUIET_S)

    def _patience_s(self, name: str) -> float:
        """By what the block expects next of this client."""
        if self._expected is None:
            return _UNSURE_S
        for at, line in enumerate(self._expected):
            if line == f"{name}{_PARKED}":
                del self._expected[at]
                return _PARKED_S
            if line.startswith(f"{name}< "):
                return _PATIENCE_S
        return _PARKED_S

    def _listen(self, seconds: float, until: _Client | None = None) -> list[Seen]:
        """What is answered within a time; with `until` only to the answer of that client."""
        end_s = time.monotonic() + seconds
        seen: list[Seen] = []
        while (left_s := end_s - time.monotonic()) > 0:
            for key, _ in self._selector.select(left_s) if self._clients else ():
                client: _Client = key.data
                for message, version in client.receive():
                    seen.append(self._seen(client, message, version))
            if not self._clients:
                time.sleep(left_s)
            if until is not None and not until.asked:
                break
        return seen

    def _seen(self, client: _Client, message: Message, version: int) -> Seen:
        if isinstance(message, ListGroupsResponse):
            message.groups = [g for g in message.groups if self.names.is_ours(g.group_id)]
        lines = answer_lines(client.name, version, message, self.names)
        if self._expected is not None:
            heading = f"{client.name}< "
            for at, line in enumerate(self._expected):
                if line.startswith(heading):
                    del self._expected[at]
                    break
        return Seen(lines, client.name, message)

    def _until_expected(self) -> list[Seen]:
        """Wait a little more for answers that the block still expects."""
        end_s = time.monotonic() + _PATIENCE_S
        seen: list[Seen] = []
        while time.monotonic() < end_s and any("< " in line for line in self._expected or []):
            seen += self._listen(_QUIET_S)
        return seen


_TOPIC_APIS = ("OffsetCommit", "OffsetFetch", "OffsetDelete")


def _topics_in(api: str, rest: str) -> set[str]:
    """The topics a request names, which must exist before."""
    if api not in _TOPIC_APIS:
        return set()
    return {match[1] for match in re.finditer(r"([a-z_]+)-\d+(?=[:,\]\s}])", rest)} - {"c", "i"}


def client_view(lines: list[str]) -> dict[str, list[list[str]]]:
    """Per client its answers in order, each without the order of its lists and lines."""
    view: dict[str, list[list[str]]] = {}
    for line in lines:
        if is_core_line(line) or line.endswith(_PARKED):
            continue
        text = re.sub(r"([\[{])([^\[\]{}]*)([\]}])", _sorted_items, line)
        client = line.partition("<")[0] if "< " in line else ""
        answers = view.setdefault(client, [])
        if client and line.startswith(f"{client}<   "):
            answers[-1] = [answers[-1][0], *sorted([*answers[-1][1:], text])]
        else:
            answers.append([text])
    return view


def _sorted_items(match: re.Match[str]) -> str:
    return match[1] + ", ".join(sorted(match[2].split(", "))) + match[3]


def client_differences(block: Block, actual: list[str]) -> list[str]:
    """What clients saw other than the block says; empty if nothing."""
    expected, came = client_view(block.expected), client_view(actual)
    if expected == came:
        return []
    lines = [f"  {command.text}" for command in block.commands]
    for client in dict.fromkeys([*expected, *came]):
        if expected.get(client) != came.get(client):
            lines += [f"- {line}" for answer in expected.get(client, []) for line in answer]
            lines += [f"+ {line}" for answer in came.get(client, []) for line in answer]
    return lines
