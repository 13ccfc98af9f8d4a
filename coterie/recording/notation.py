"""Requests and responses as lines, in the notation of the transcripts (docs/transcripts.md).

What transcripts have no notation for is written in the same style: `name=value` for each field
that does not have its default.
"""

import re
from typing import Any, NamedTuple

from coterie.conversation.identities import kind_of
from coterie.conversation.learnt_names import LearntNames
from coterie.conversation.requests import request_arguments
from coterie.conversation.responses import is_structure, response_lines
from coterie.conversation.structures import error_text
from coterie.conversation.syntax import format_list, format_map, quote
from coterie.protocol.fields import uuid_text
from coterie.protocol.schema import WireField, fields_of
from coterie.protocol.wire import Message, Struct
from coterie.recording.conversation import RecordedExchange
from coterie.recording.format import Flag
from coterie.recording.redaction import batch_headers, read_batch_headers

# Of a longer list only the first elements are shown.
_LONG_LIST = 8
_SHOWN_ELEMENTS = 2
_SHOWN_BYTES = 16


class ConversationNames(LearntNames):
    """The names of a recording: clients by their ids, members counted, topics by their ids."""

    def __init__(self) -> None:
        """Begin without names."""
        super().__init__("")
        self._clients: dict[str, str] = {}
        self._labels: dict[int, str] = {}
        self._connections: dict[str, int] = {}

    def learn_topic(self, name: str, topic_id: bytes) -> None:
        """Keep the id of a topic."""
        if name and any(topic_id):
            self.topic_ids[name] = topic_id

    def client(self, client_id: str) -> str:
        """Return the name of a client: its id, as far as it can be written as a name."""
        if client_id not in self._clients:
            plain = re.sub(r"\W+", "_", client_id.lower()).strip("_")
            name = plain if re.match(r"[a-z]", plain) else f"c{plain}"
            taken = set(self._clients.values())
            number = 1
            while name in taken:
                number += 1
                name = f"{plain}_{number}"
            self._clients[client_id] = name
        return self._clients[client_id]

    def connection(self, exchange: RecordedExchange) -> str:
        """Return the name of a connection: that of its client, and a number from the second on."""
        label = self._labels.get(exchange.connection)
        if label is None:
            client = self.client(exchange.client_id)
            count = self._connections[client] = self._connections.get(client, 0) + 1
            label = client if count == 1 else f"{client}.{count}"
            self._labels[exchange.connection] = label
        return label


def learn_topics(response: Message | None, names: ConversationNames) -> None:
    """Keep the ids of the topics that a response names."""
    for topic in getattr(response, "topics", None) or ():
        topic_id = getattr(topic, "topic_id", None)
        if topic_id is not None:
            names.learn_topic(getattr(topic, "name", None) or "", topic_id)


def request_line(exchange: RecordedExchange, names: ConversationNames) -> str:
    """Return the line of a request."""
    start = f"{names.connection(exchange)}> {exchange.name} v{exchange.version}"
    if exchange.request is None:
        why = "redacted" if exchange.flags & Flag.REDACTED else "not decoded"
        return f"{start} ({why}, {len(exchange.frame)} bytes)"
    arguments = request_arguments(exchange.request, exchange.version, names)
    if arguments is None:
        is_bare = bool(exchange.flags & Flag.WITHOUT_PAYLOADS)
        form = _Form(type(exchange.request).__name__, exchange.version, names, is_bare)
        arguments = form.line(exchange.request)
    return f"{start} {arguments}".rstrip()


def answer_lines(
    exchange: RecordedExchange, response: Message | None, names: ConversationNames
) -> list[str]:
    """Return the lines of a response."""
    client = names.connection(exchange)
    start = f"{client}< {exchange.name} v{exchange.version}"
    if response is None:
        why = "redacted" if exchange.response_flags & Flag.REDACTED else "not decoded"
        return [f"{start} ({why})"]
    if not is_structure(response):
        return response_lines(client, exchange.version, response, names)
    learn_topics(response, names)
    is_bare = response is exchange.response and bool(
        exchange.response_flags & Flag.WITHOUT_PAYLOADS
    )
    form = _Form(type(response).__name__, exchange.version, names, is_bare)
    return [f"{start} {form.line(response) or 'ok'}"]


class _Form(NamedTuple):
    """What the text of a field depends on, besides the field.

    Attributes:
        message: the name of the message.
        version: its version.
        names: the names of the recording.
        is_bare: whether of record batches only the headers are there.
    """

    message: str
    version: int
    names: ConversationNames
    is_bare: bool

    def fields(self, holder: Struct) -> list[tuple[str, str]]:
        """Return the names and texts of the fields that do not have their default."""
        parts = []
        for field in fields_of(type(holder)):
            value = getattr(holder, field.name)
            is_default = not field.required and value == field.default
            if is_default or not field.present(self.version):
                continue
            if field.name == "error_code":
                if value:
                    parts.append(("error", error_text(value)))
            else:
                parts.append((field.name, self.value(field, value)))
        return parts

    def line(self, message: Struct) -> str:
        """Return the text behind the version."""
        return " ".join(f"{name}={text}" for name, text in self.fields(message))

    def value(self, field: WireField, value: Any) -> str:
        """Return the text of a value."""
        if isinstance(value, list):
            shown = value if len(value) <= _LONG_LIST else value[:_SHOWN_ELEMENTS]
            items = [self.value(field, each) for each in shown]
            if len(shown) < len(value):
                items.append(f"and {len(value) - len(shown)} more")
            return format_list(items)
        if isinstance(value, Struct):
            return format_map(self.fields(value))
        if isinstance(value, bytes):
            return self._bytes(field, value)
        if isinstance(value, str):
            is_member = kind_of(self.message, field.name) == "member"
            return quote(self.names.member_text(value) if is_member else value)
        if value is None:
            return "null"
        return str(value).lower() if isinstance(value, bool) else str(value)

    def _bytes(self, field: WireField, value: bytes) -> str:
        kind = "" if field.type.wire is None else field.type.wire.kind
        if kind == "uuid":
            return uuid_text(value)
        if kind == "records":
            headers = read_batch_headers(value if self.is_bare else batch_headers(value))
            records = sum(header.record_count for _, header in headers)
            return format_map([("batches", str(len(headers))), ("records", str(records))])
        shown = value[:_SHOWN_BYTES].hex()
        return f"0x{shown}{'...' if len(value) > _SHOWN_BYTES else ''}"
