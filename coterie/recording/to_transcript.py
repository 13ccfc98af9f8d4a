"""Turns a stretch of a recording into a transcript, so that a bug report becomes a test.

The requests about groups are sent to the coordinator core as they are written down, and its
answers become the expected output [recording/transcripts]. Where the recorded broker has answered
otherwise, a comment says so.
"""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from coterie.conformance.commands import CONFIG_FIELDS, is_type_setting, type_and_field
from coterie.conformance.core_driver import CoreDriver, differences
from coterie.conformance.harness import GROUP_APIS
from coterie.conformance.transcript import SEPARATOR, parse
from coterie.conversation.identities import Identities
from coterie.conversation.requests import build_request, request_arguments
from coterie.conversation.syntax import (
    TranscriptError,
    duration_text,
    format_time,
    parse_request_line,
    quote,
)
from coterie.coordinator.groups.config import GroupConfig
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.protocol.messages.incremental_alter_configs import (
    SET,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from coterie.protocol.messages.metadata import MetadataResponse
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from coterie.protocol.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest
from coterie.protocol.wire import Message
from coterie.recording.comparison import Comparison
from coterie.recording.conversation import Conversation, RecordedExchange
from coterie.recording.format import Header
from coterie.recording.heartbeats import superfluous
from coterie.recording.internal_topics import created_topics
from coterie.recording.notation import ConversationNames, answer_lines, learn_topics
from coterie.recording.redaction import HIDDEN
from coterie.recording.replay import refusal_of_unready
from coterie.server.config.keys import GROUP_RESOURCE

# The members of these groups have their partitions from the coordinator, which knows the topics.
_HEARTBEATS = (
    ConsumerGroupHeartbeatRequest, ShareGroupHeartbeatRequest, StreamsGroupHeartbeatRequest,
)  # fmt: skip
# A shorter pause is added to the next one: it is the time that requests took.
_SHORTEST_TICK_MS = 100
# How long an answer is waited for that the recording has already.
_PATIENCE_MS = 5_000
# A transcript that lets more time pass cannot be run against a broker in real time.
_LONG_MS = 600_000
# The number of partitions of __consumer_offsets decides nothing that clients can see.
_NOT_SET = frozenset({"offsets_topic_num_partitions"})


class Written(NamedTuple):
    """A transcript of a recording.

    Attributes:
        text: the file.
        requests: the number of its requests.
        differing: how many of their answers differ from the recorded ones.
        left_out: what it does not have and why, with the number of requests.
    """

    text: str
    requests: int
    differing: int
    left_out: Counter[str]


class CannotWrite(Exception):  # noqa: N818 - the stretch has nothing for a transcript
    """There is no transcript of this stretch; the text says why."""


def to_transcript(
    header: Header,
    conversation: Conversation,
    stretch: list[RecordedExchange],
    settings: Mapping[str, str],
) -> Written:
    """Return the transcript of some exchanges.

    Args:
        header, conversation: of the recording.
        stretch: the exchanges.
        settings: of the coordinator, over those of the recording.

    Raises:
        CannotWrite: none of them is about a group.
    """
    names = _Names()
    for exchange in conversation.exchanges:
        learn_topics(exchange.response, names)
    left_out: Counter[str] = Counter()
    handled = _handled(conversation)
    group_requests: list[RecordedExchange] = []
    for exchange in sorted(stretch, key=lambda each: (handled[each.number], each.number)):
        refusal = refusal_of_unready(exchange.response)
        if type(exchange.request) not in GROUP_APIS and not _alters_groups(exchange):
            continue
        if refusal:
            left_out[f"{exchange.name}: the recorded coordinator was not ready ({refusal})"] += 1
        else:
            group_requests.append(exchange)
    if all(_alters_groups(each) for each in group_requests):
        raise CannotWrite("the stretch has no request about a group")
    writer = _Writer(names, handled[group_requests[0].number])
    writer.configure({**header.settings, **settings})
    if any(isinstance(each.request, _HEARTBEATS) for each in group_requests):
        writer.create_topics(_partition_counts(conversation))
    folded = superfluous(group_requests, handled)
    for exchange in group_requests:
        if exchange.number in folded:
            left_out["Heartbeat: answered without an error, as the next one of its member"] += 1
            continue
        try:
            if _alters_groups(exchange):
                writer.configure_groups(exchange, handled[exchange.number])
            else:
                writer.add(exchange, handled[exchange.number])
        except (TranscriptError, ValueError) as error:
            left_out[f"{exchange.name} v{exchange.version}: {error}"] += 1
    writer.finish()
    comment = _comment(header, conversation, group_requests, is_long=writer.passed_ms > _LONG_MS)
    text = comment + "\n" + "\n".join(writer.blocks).rstrip() + "\n"
    _check(text)
    return Written(text, writer.requests, writer.differing, left_out)


def _alters_groups(exchange: RecordedExchange) -> bool:
    """Return whether a request has altered settings of groups."""
    request, response = exchange.request, exchange.response
    return (
        isinstance(request, IncrementalAlterConfigsRequest)
        and isinstance(response, IncrementalAlterConfigsResponse)
        and not request.validate_only
        and bool(request.resources)
        and all(each.resource_type == GROUP_RESOURCE for each in request.resources)
        and not any(each.error_code for each in response.responses)
    )


def _partition_counts(conversation: Conversation) -> dict[str, int]:
    """Return how many partitions the topics have by the last answer that says it.

    Those that the core creates by itself are left out.
    """
    created = created_topics(conversation.exchanges)
    return {
        topic.name: len(topic.partitions)
        for exchange in conversation.exchanges
        if isinstance(exchange.response, MetadataResponse)
        for topic in exchange.response.topics
        if topic.name and topic.name not in created and not topic.error_code
    }


class _Names(ConversationNames):
    """The names of a transcript: members are called as the core calls them."""

    def __init__(self) -> None:
        super().__init__()
        self.identities = Identities()

    def member_text(self, member_id: str) -> str:
        return str(self.identities.replayed("member", member_id))


class _Writer:
    """Writes blocks and carries them out.

    Attributes:
        blocks: the written blocks.
        requests, differing: see `Written`.
        passed_ms: the time that the transcript lets pass.
    """

    def __init__(self, names: _Names, began_ms: int) -> None:
        self.blocks: list[str] = []
        self.requests = self.differing = self.passed_ms = 0
        self._names = names
        self._driver = CoreDriver()
        self._comparison = Comparison(names.identities, with_payloads=False)
        self._began_ms = began_ms
        # The length of the last block, if it is a tick without output.
        self._silent_ms = 0
        # The requests without a response of the core, by client, oldest first.
        self._awaited: dict[str, list[RecordedExchange]] = {}

    def configure(self, values: Mapping[str, str]) -> None:
        """Write those settings that groups have."""
        settings = []
        for name, value in values.items():
            field = CONFIG_FIELDS.get(name, name.replace(".", "_"))
            is_written = field in GroupConfig._fields and field not in _NOT_SET
            if (is_written or is_type_setting(name)) and value != HIDDEN:
                settings.append(f"{name}={value}")
        if settings:
            self._carry_out(f"config {' '.join(settings)}")

    def configure_groups(self, exchange: RecordedExchange, at_ms: int) -> None:
        """Write the settings of single groups that a request at `at_ms` has altered.

        Raises:
            TranscriptError: the request alters something else, or a group that cannot be named.
        """
        request = exchange.request
        assert isinstance(request, IncrementalAlterConfigsRequest), "it alters settings"
        config: Any = self._driver.broker.config
        settings = []
        for resource in request.resources:
            group_id = resource.resource_name
            if quote(group_id) != group_id:
                raise TranscriptError("the group has a name that settings cannot have")
            for each in resource.configs:
                name = f"group.{each.name}"
                if not is_type_setting(name) or each.value == HIDDEN:
                    raise TranscriptError(f"transcripts have no setting {each.name} of a group")
                kind, field = type_and_field(name)
                default = getattr(config, kind).settings.default
                value = each.value if each.config_operation == SET else getattr(default, field)
                settings.append(f"{name}:{group_id}={value}")
        self._pass_time(at_ms, is_needed=self._waits_at(at_ms))
        self._wait_for_answers(at_ms)
        self._carry_out(f"config {' '.join(settings)}")

    def create_topics(self, counts: Mapping[str, int]) -> None:
        """Create topics: the coordinator of consumer groups assigns only those that exist."""
        for name, count in counts.items():
            self._carry_out(f"create-topic {name} {count}")

    def add(self, exchange: RecordedExchange, at_ms: int) -> None:
        """Write a request that was handled at `at_ms`, and the time that passes before it.

        Raises:
            TranscriptError, ValueError: it cannot be written.
        """
        self._line(exchange)
        self._pass_time(at_ms, is_needed=self._waits_at(at_ms))
        self._wait_for_answers(at_ms)
        # The ids of members may have come in the meantime.
        line = self._line(exchange)
        self._awaited.setdefault(self._names.connection(exchange), []).append(exchange)
        self.requests += 1
        self._carry_out(line)

    def finish(self) -> None:
        """Let the time pass in which the last recorded answers came."""
        last_ms = [
            each.answered_at_ms
            for awaited in self._awaited.values()
            for each in awaited
            if each.answered_at_ms is not None
        ]
        if last_ms:
            self._pass_time(max(last_ms), is_needed=True)

    def _line(self, exchange: RecordedExchange) -> str:
        """Return the command of a request.

        Raises:
            TranscriptError: it cannot be written so that it is the same again.
        """
        request: Any = exchange.request
        arguments = request_arguments(request, exchange.version, self._names)
        client = self._names.connection(exchange)
        line = f"{client}> {exchange.name} v{exchange.version} {arguments}".rstrip()
        parsed = parse_request_line(line)
        if parsed is None or arguments is None:
            raise TranscriptError("transcripts have no notation for it")
        built = build_request(parsed, self._driver.names)
        expected = type(request).decode(exchange.frame, exchange.version, exchange.body_at)
        self._names.identities.substitute(expected)
        if not _are_alike(built, expected):
            raise TranscriptError("a field has a value that transcripts cannot write")
        return line

    def _waits_at(self, at_ms: int) -> bool:
        """Return whether the recording has answered by then what the core has not answered yet."""
        return any(
            each.answered_at_ms is not None and each.answered_at_ms <= at_ms
            for awaited in self._awaited.values()
            for each in awaited
        )

    def _wait_for_answers(self, at_ms: int) -> None:
        """Let more time pass, while the core has not answered what was answered by then.

        Its initial delay may be longer than that of the recorded broker.
        """
        broker = self._driver.broker
        end_ms = broker.now_ms + _PATIENCE_MS
        while self._waits_at(at_ms):
            next_ms = broker.coordinator.next_deadline_ms()
            if next_ms is None or next_ms > end_ms:
                return
            self._tick(max(1, next_ms - broker.now_ms))

    def _pass_time(self, at_ms: int, *, is_needed: bool) -> None:
        pause_ms = at_ms - self._began_ms - self.passed_ms
        if pause_ms >= _SHORTEST_TICK_MS or (is_needed and pause_ms > 0):
            self._tick(pause_ms)

    def _tick(self, pause_ms: int) -> None:
        """Let time pass; a tick without output before this one becomes a part of it."""
        self.passed_ms += pause_ms
        before_ms, self._silent_ms = self._silent_ms, 0
        if before_ms:
            self.blocks.pop()
        written = f"tick {duration_text(before_ms + pause_ms)}"
        if not self._carry_out(f"tick {duration_text(pause_ms)}", written):
            self._silent_ms = before_ms + pause_ms

    def _carry_out(self, command: str, written: str = "") -> bool:
        """Carry out a command and write it, or `written` in its place; return if it has output."""
        self._silent_ms = 0
        outputs = self._driver.execute(command)
        comments = []
        for output in outputs:
            if output.message is not None:
                comments += self._compare(
                    self._asked(output.client, output.message), output.message
                )
        lines = [line for output in outputs for line in output.lines]
        self.blocks.append("\n".join([*comments, written or command, SEPARATOR, *lines]) + "\n")
        return bool(lines)

    def _asked(self, client: str, response: Message) -> RecordedExchange:
        """Return the oldest request that a response may belong to, which is answered now."""
        awaited = self._awaited[client]
        kind = type(response).__name__
        found = next(each for each in awaited if f"{each.name}Response" == kind)
        awaited.remove(found)
        return found

    def _compare(self, exchange: RecordedExchange, message: Message) -> list[str]:
        """Return comments about an answer of the core that is not the recorded one."""
        if exchange.response is None:
            return []
        found = self._comparison.differences(exchange.response, message, exchange.version)
        # The core has other hosts and names of clients.
        found = [each for each in found if not each.field.endswith(("client_host", "client_id"))]
        if not found:
            return []
        self.differing += 1
        recorded = answer_lines(exchange, exchange.response, self._names)
        return [f"# Recorded: {line}" for line in recorded]


def _handled(conversation: Conversation) -> dict[int, int]:
    """Return when each request was handled: a broker answers one of a connection at a time."""
    handled: dict[int, int] = {}
    free_ms: dict[int, int] = {}
    for each in conversation.exchanges:
        handled[each.number] = max(each.at_ms, free_ms.get(each.connection, 0))
        if each.answered_at_ms is not None:
            free_ms[each.connection] = each.answered_at_ms
    return handled


def _are_alike(built: Message, expected: Message) -> bool:
    """Return whether two requests say the same, apart from the ids of topics."""
    one, other = str(built), str(expected)
    for message in (built, expected):
        for topic in getattr(message, "topics", None) or ():
            if hasattr(topic, "topic_id"):
                topic.topic_id, topic.name = bytes(16), ""
        for owned in getattr(message, "topic_partitions", None) or ():
            owned.topic_id = bytes(16)
        for group in getattr(message, "groups", ()):
            for topic in getattr(group, "topics", None) or ():
                topic.topic_id, topic.name = bytes(16), ""
    return one == other or built == expected


def _comment(
    header: Header, conversation: Conversation, stretch: list[RecordedExchange], *, is_long: bool
) -> str:
    began_ms = conversation.steps[0].at_ms
    day = datetime.fromtimestamp(header.started_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    start, end = stretch[0].at_ms - began_ms, stretch[-1].at_ms - began_ms
    lines = [
        f"# Recorded by {header.program} on {day} UTC, {format_time(start)} to {format_time(end)}.",
        f"# The broker was at {header.upstream or header.address}.",
    ]
    return "\n".join([*lines, *(["needs: time"] if is_long else []), ""])


def _check(text: str) -> None:
    """Check that the transcript holds: it is read and run as any other."""
    transcript = parse(text, Path("recording.txt"))
    found = differences(transcript, CoreDriver().run(transcript))
    assert not found, f"a written transcript holds:\n{found}"
