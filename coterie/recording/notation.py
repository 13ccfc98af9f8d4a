"""Requests and responses as lines, in the notation of the transcripts (docs/transcripts.md).

What transcripts have no notation for has the form of `coterie/conversation/brief.py`.
"""

import re

from coterie.conversation.brief import Brief
from coterie.conversation.learnt_names import LearntNames
from coterie.conversation.requests import request_arguments
from coterie.conversation.responses import is_structure, response_lines
from coterie.protocol.wire import Message
from coterie.recording.conversation import RecordedExchange
from coterie.recording.format import Flag


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
        form = Brief(type(exchange.request).__name__, exchange.version, names, is_bare)
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
    form = Brief(type(response).__name__, exchange.version, names, is_bare)
    return [f"{start} {form.line(response) or 'ok'}"]
