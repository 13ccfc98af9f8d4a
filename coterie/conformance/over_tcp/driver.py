"""Runs one transcript against a broker: Coterie, Kafka, or another implementation.

Ticks last as long as they say, so many transcripts run side by side. A broker starts its timers
when it reads a request, a little later than the transcript says. A timer has therefore always
ended when a tick reaches its deadline, and a transcript that expects "not yet" leaves half a
second or more.
"""

import asyncio
import re
import struct
import time
from typing import NamedTuple

from coterie.address import Address
from coterie.conformance.commands import INSPECTION_COMMANDS, group_setting
from coterie.conformance.comparison import DELAYED, Deviation, deviations
from coterie.conformance.core_broker import Output
from coterie.conformance.group_setup import set_up_group
from coterie.conformance.over_tcp.connection import Arrival, CheckConnection, Inbox, request_frame
from coterie.conformance.over_tcp.places import broker_at, parse_place
from coterie.conformance.over_tcp.target import Target, TopicSpec
from coterie.conformance.over_tcp.users import Users
from coterie.conformance.over_tcp.versions import is_exact, lowered_expectation, lowered_request
from coterie.conformance.patterns import Variables, substitute
from coterie.conformance.transcript import Block, Transcript
from coterie.conversation.learnt_names import LearntNames
from coterie.conversation.requests import build_request
from coterie.conversation.responses import response_lines
from coterie.conversation.structures import response_type
from coterie.conversation.syntax import (
    RequestLine,
    TranscriptError,
    parse_arguments,
    parse_duration_ms,
    parse_map,
    parse_request_line,
)
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.frames import decode_response
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from coterie.protocol.messages.list_groups import ListGroupsResponse
from coterie.protocol.wire import Message

# How long an expected response may take beyond the time that the request itself asks for.
_EXPECTED_LIMIT_S = 10.0
# How long to watch that a request which should be delayed gets no response after all.
_DELAYED_LIMIT_S = 0.1
# How long to wait for further responses that come at the same time.
_SETTLE_S = 0.03
# How often `eventually` and `retry` repeat a request.
_REPEAT_S = 0.05
# While a response has one of these errors, `retry` repeats its request.
_BUSY = re.compile(
    r"\b(CONCURRENT_TRANSACTIONS|COORDINATOR_LOAD_IN_PROGRESS|COORDINATOR_NOT_AVAILABLE"
    r"|NOT_COORDINATOR)\b"
)

# A coordinator learns of a change a little later than the broker shows it: that of topics in the
# metadata, that of the settings of groups in their description.
_PROPAGATION_S = 0.3
_TOPIC_COMMANDS = ("create-topic", "grow-topic", "delete-topic")

# The first line of a response, or the note that there is none yet.
_FIRST_LINE = re.compile(r"[\w.]+(< \S|  \(delayed\)$)")
_RAW = re.compile(r"(?P<client>[a-z]\w*(?:\.\d+)?)> raw (?P<bytes>.*)")
_EVENTUALLY = "eventually "
_RETRY = "retry "
# The topics that transcripts of groups mention have so many partitions.
_SHARED_PARTITIONS = 4


class Said(NamedTuple):
    """One line of a conversation, and when it was said."""

    elapsed_s: float
    text: str


class _Pending(NamedTuple):
    """A request without a response: the class and version of the response, and the client's id."""

    request: Message
    response: type[Message]
    version: int
    client_id: str


class _Shown(NamedTuple):
    """A response that was shown with a member id that had no name yet."""

    output: Output
    version: int
    # Its first line in the conversation.
    line: int


class TcpDriver:
    """One run of one transcript.

    Attributes:
        target: the broker to run against.
        names: the names of this run.
        users: its users, if the broker has logins.
        conversation: what was sent and received, in order.
        began_s: when the run began, by time.monotonic.
    """

    def __init__(self, target: Target, names: LearntNames) -> None:
        """Begin a run; a client connects when it sends its first request."""
        self.target = target
        self.names = names
        self.users = Users(target, names)
        self.conversation: list[Said] = []
        self.began_s = time.monotonic()
        self._inbox: Inbox = asyncio.Queue()
        self._clients: dict[str, CheckConnection] = {}
        # Where clients connect that were placed at a broker of a cluster.
        self._places: dict[str, Address] = {}
        self._pending: dict[CheckConnection, dict[int, _Pending]] = {}
        self._numbers = 0
        self._variables: Variables = {}
        self._nameless: list[_Shown] = []
        # Whether requests must be sent in the versions of the transcript, except in `given`.
        self._is_exact = False
        # The first lines of the responses that the block still expects; None inside `given`, whose
        # responses the transcript does not show.
        self._expected: list[str] | None = None
        # When the last command was carried out, but for the wait for its response.
        self._waits_since_s = 0.0

    @property
    def heard_s(self) -> float:
        """When the broker sent something last, by time.monotonic; 0 before."""
        return max((client.heard_s for client in self._pending), default=0.0)

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()

    async def run(self, transcript: Transcript) -> list[Deviation]:
        """Carry out the blocks until one deviates; return its deviations."""
        self._is_exact = is_exact(transcript)
        for block in transcript.blocks:
            found = await self._block(block)
            if found:
                return found
        return []

    async def _block(self, block: Block) -> list[Deviation]:
        expected = [substitute(line, self._variables) for line in block.expected]
        if not self._is_exact:
            expected = [lowered_expectation(line, self.target) for line in expected]
        block = block._replace(expected=expected)
        self._expected = [line for line in expected if _FIRST_LINE.match(line)]
        outputs: list[Output] = []
        for command in block.commands:
            if command.text.startswith(_EVENTUALLY):
                return await self._repeat(command.text.removeprefix(_EVENTUALLY), block)
            if command.text.startswith(_RETRY):
                text = command.text.removeprefix(_RETRY)
                return await self._repeat(text, block, only_while=_BUSY)
            outputs += await self.execute(command.text)
        outputs += await self._receive_expected()
        self._show_names()
        return deviations(block, outputs, self.names, self._variables)

    async def _repeat(
        self, text: str, block: Block, only_while: re.Pattern[str] | None = None
    ) -> list[Deviation]:
        """Repeat a request until its response is as expected; return the last deviations.

        Args:
            text: the request.
            block: what is expected.
            only_while: what a response has that does not count; None if only the expected one does.
        """
        end_s = self._now_s() + _EXPECTED_LIMIT_S
        while True:
            self._expected = [line for line in block.expected if _FIRST_LINE.match(line)]
            outputs = await self.execute(text)
            # A response that is not as expected names no values.
            variables = dict(self._variables)
            found = deviations(block, outputs, self.names, variables)
            if not found:
                self._variables.update(variables)
            counts = only_while is not None and not any(
                only_while.search(line) for output in outputs for line in output.lines
            )
            if not found or counts or self._now_s() > end_s:
                return found
            await asyncio.sleep(_REPEAT_S)

    # -- commands ----------------------------------------------------------------------------------

    async def execute(self, text: str, *, delayed: bool = False) -> list[Output]:
        """Carry out one command line and return what clients see."""
        text = self.users.filled(substitute(text, self._variables))
        request = parse_request_line(text)
        if request is not None:
            limit_s = _DELAYED_LIMIT_S if delayed else self._limit_s(request.client)
            return await self._request(request, limit_s)
        raw = _RAW.match(text)
        if raw is not None:
            client = await self._client(raw["client"])
            self._say(text)
            client.send(bytes.fromhex(raw["bytes"].replace("0x", "")))
            self._waits_since_s = self._now_s()
            return await self._receive(self._limit_s(raw["client"]), until=client)
        verb, _, rest = text.partition(" ")
        if verb == "tick":
            self._say(text)
            outputs = await self._receive(parse_duration_ms(rest) / 1000)
            self._waits_since_s = self._now_s()
            return outputs + await self._receive(_SETTLE_S)
        if verb == "given":
            return await self._given(rest)
        if verb == "form":
            return [Output([self.names.form_text(rest)])]
        await self._change(verb, rest)
        return []

    async def _change(self, verb: str, rest: str) -> None:
        """Carry out a command that shows nothing: it changes connections, users or the broker."""
        if verb == "disconnect":
            self._clients.pop(rest).close()
        elif verb in _TOPIC_COMMANDS:
            await self._change_topic(verb, *rest.split())
        elif verb == "config":
            await self._configure_groups(rest)
        elif verb == "acl":
            await self.users.allow(rest)
        elif verb == "connect":
            self.users.connect(rest)
        elif verb == "login":
            await self.users.login(*rest.split())
        elif verb == "place":
            await self._place(rest)
        elif verb == "elsewhere":
            self._say(f"{verb} {rest}")
            self.names.spell(rest, self.target.is_elsewhere)
        elif verb not in INSPECTION_COMMANDS:
            raise TranscriptError(f"{verb!r} needs the core")

    async def _place(self, text: str) -> None:
        """Let a client talk to a certain broker of the cluster."""
        place = parse_place(text)
        node_id = await broker_at(place, self.target, self.names)
        target = self.target
        address = target.address if node_id == target.node_id else target.cluster[node_id]
        self._say(f"place {text}  (broker {node_id})")
        self._variables[f"${place.client}"] = str(node_id)
        self._variables[f"${place.client}_host"] = address.host
        self._variables[f"${place.client}_port"] = str(address.port)
        self._places[place.client] = address
        if place.client in self._clients:
            self._clients.pop(place.client).close()

    async def _change_topic(self, verb: str, topic: str, count: str = "0") -> None:
        """Create, grow or delete a topic of this run."""
        spec = TopicSpec(self.names.topic(topic), int(count))
        if verb == "create-topic":
            self.names.topic_ids[topic] = (await self.target.create_topics([spec]))[spec.name]
        elif verb == "grow-topic":
            await self.target.grow_topic(spec)
        else:
            self.names.forget_topic(topic)
            await self.target.delete_topic(spec.name)
        await asyncio.sleep(_PROPAGATION_S)

    async def _configure_groups(self, text: str) -> None:
        """Change the settings of single groups; those of the broker it must have already."""
        settings = [each for each in map(group_setting, text.split()) if each is not None]
        for each in settings:
            group_id = self.names.group(each.group)
            await self.target.group_settings.change(group_id, each.name, each.value)
        if settings:
            await asyncio.sleep(_PROPAGATION_S)

    async def _given(self, text: str) -> list[Output]:
        """Carry out the steps that bring a group into a state."""
        expected, self._expected = self._expected, None
        steps = set_up_group(self.names, parse_arguments(text))
        step = next(steps)
        while True:
            if step.command:
                outputs = await self.execute(step.command, delayed=step.delayed)
            else:
                outputs = await self._wait_for_responses(step.duration_ms, step.responses)
            try:
                step = steps.send(outputs)
            except StopIteration as end:
                self._expected = expected
                result: list[Output] = end.value
                return result

    async def _wait_for_responses(self, duration_ms: int, count: int) -> list[Output]:
        """Wait until `count` responses have come, a little longer than the time if need be."""
        end_s = self._now_s() + duration_ms / 1000 + _EXPECTED_LIMIT_S
        outputs: list[Output] = []
        while len(outputs) < count and self._now_s() < end_s:
            outputs += await self._receive(_SETTLE_S)
        return outputs

    async def _client(self, name: str) -> CheckConnection:
        client = self._clients.get(name)
        if client is None or not client.is_open:
            client = await self.users.open(name, self._inbox, self._places.get(name))
            self._clients[name] = client
            self._pending[client] = {}
        return client

    async def _request(self, request: RequestLine, limit_s: float) -> list[Output]:
        if not self._is_exact or self._expected is None:
            request = lowered_request(request, self.target)
        client = await self._client(request.client)
        await self._create_topics(topics_in(request))
        options = parse_map(parse_arguments(request.arguments).named.get("wire", "{}"))
        message = build_request(request, self.names)
        if isinstance(message, JoinGroupRequest) and message.group_instance_id:
            self.names.uses(message.group_instance_id)
        self._numbers += 1
        client_id = request.client.partition(".")[0]
        number = int(options.get("correlation", self._numbers))
        frame = request_frame(message, request.version, number, client_id, options)
        answer = int(options.get("answer", request.version))
        owner = options.get("client_id", client_id)
        self.names.uses(owner)
        pending = _Pending(message, response_type(request.api), answer, owner)
        self._pending[client][number] = pending
        text = f"{request.client}> {request.api} v{request.version} {request.arguments}"
        self._say(text)
        client.send(frame, int(options.get("split", "0")))
        self._waits_since_s = self._now_s()
        outputs = await self._receive(limit_s, until=client)
        return outputs + await self._receive(_SETTLE_S)

    async def _create_topics(self, topics: set[str]) -> None:
        """Create the topics that a request of a group names; a broker must have them before."""
        missing = topics - self.names.topic_ids.keys()
        for topic in sorted(missing):
            spec = TopicSpec(self.names.topic(topic), _SHARED_PARTITIONS)
            self.names.topic_ids[topic] = (await self.target.create_topics([spec]))[spec.name]

    # -- responses ---------------------------------------------------------------------------------

    def _limit_s(self, name: str) -> float:
        """Return how long to wait, by what the block expects next for this client."""
        if self._expected is None:
            return _EXPECTED_LIMIT_S
        for at, line in enumerate(self._expected):
            if line == f"{name}{DELAYED}":
                del self._expected[at]
                return _DELAYED_LIMIT_S
            if line.startswith(f"{name}< "):
                return _EXPECTED_LIMIT_S
        return _DELAYED_LIMIT_S

    async def _receive(self, seconds: float, until: CheckConnection | None = None) -> list[Output]:
        """Return what comes in a time span; with `until`, stop at that client's last response."""
        end_s = self._now_s() + seconds
        outputs: list[Output] = []
        while (left_s := end_s - self._now_s()) > 0:
            try:
                async with asyncio.timeout(left_s):
                    arrival = await self._inbox.get()
            except TimeoutError:
                break
            outputs.append(self._output(arrival))
            if until is arrival.connection and not self._pending[until]:
                break
        return outputs

    def _output(self, arrival: Arrival) -> Output:
        client, frame = arrival
        pending = self._pending[client]
        if frame is None:
            pending.clear()
            return self._received(Output([f"{client.name}< closed"], client.name))
        number = struct.unpack_from(">i", frame)[0] if len(frame) >= 4 else None
        if number not in pending:
            return self._received(Output([f"{client.name}< bytes 0x{frame.hex()}"], client.name))
        expected = pending.pop(number)
        try:
            message = decode_response(expected.response, frame, expected.version)[1]
        except MalformedFrame as error:
            line = f"{client.name}< bytes 0x{frame.hex()} ({error})"
            return self._received(Output([line], client.name))
        if isinstance(message, ListGroupsResponse):
            message.groups = [g for g in message.groups if self.names.is_ours(g.group_id)]
        if isinstance(message, JoinGroupResponse | ConsumerGroupHeartbeatResponse):
            self._note_member_id(expected, message.member_id)
        lines = response_lines(client.name, expected.version, message, self.names)
        output = Output(lines, client.name, message)
        if self.names.nameless:
            self._nameless.append(_Shown(output, expected.version, len(self.conversation)))
        return self._received(output)

    def _note_member_id(self, asked: _Pending, member_id: str | None) -> None:
        """Name the id that a member gets, unless the broker repeats the one that was sent."""
        request = asked.request
        instance = None
        if isinstance(request, JoinGroupRequest):
            instance = request.group_instance_id
        else:
            assert isinstance(request, ConsumerGroupHeartbeatRequest), request
            instance = request.instance_id
        if member_id and member_id != request.member_id:
            self.names.give(member_id, instance or asked.client_id)

    def _show_names(self) -> None:
        """Show names in place of the member ids that had none when they came."""
        for output, version, at in self._nameless:
            assert output.message is not None, output
            lines = response_lines(output.client, version, output.message, self.names)
            for offset, line in enumerate(lines):
                self.conversation[at + offset] = self.conversation[at + offset]._replace(text=line)
            output.lines[:] = lines
        self._nameless.clear()

    def _received(self, output: Output) -> Output:
        for line in output.lines:
            self._say(line)
        heading = f"{output.client}< "
        for at, line in enumerate(self._expected or ()):
            if line.startswith(heading):
                assert self._expected is not None
                del self._expected[at]
                break
        return output

    async def _receive_expected(self) -> list[Output]:
        """Wait for the responses that the block still expects."""
        end_s = self._waits_since_s + _EXPECTED_LIMIT_S
        outputs: list[Output] = []
        while self._now_s() < end_s and any("< " in line for line in self._expected or []):
            outputs += await self._receive(_SETTLE_S)
        return outputs

    def _say(self, text: str) -> None:
        self.conversation.append(Said(time.monotonic() - self.began_s, text))

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()


_TOPIC_APIS = ("OffsetCommit", "OffsetFetch", "OffsetDelete", "TxnOffsetCommit")


def topics_in(request: RequestLine) -> set[str]:
    """Return the topics that a request of a group names."""
    if request.api not in _TOPIC_APIS:
        return set()
    partitions = re.finditer(r"([a-z_]+)-\d+(?=[:,\]\s}])", request.arguments)
    return {match[1] for match in partitions} - {"c", "i"}
