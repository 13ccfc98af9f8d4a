"""The conversation as lines, in the notation of the transcripts, with times and connections.

0.412 client#2> JoinGroup v9 group=check-group member="" session=45s ...
0.413 client#2< JoinGroup v9 error=MEMBER_ID_REQUIRED member=...
"""

from typing import Any

from coterie.client_check.conversation import ClientExchange, Conversation, Remark
from coterie.conversation.brief import Brief
from coterie.conversation.names import Names
from coterie.conversation.requests import request_arguments
from coterie.conversation.responses import is_structure, response_lines
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.wire import Message

# Lines of a report; what is left out is in its middle.
MAX_LINES = 150
_LAST_LINES = 110
_WITH_MEMBER_ID = (ApiKey.JOIN_GROUP, ApiKey.CONSUMER_GROUP_HEARTBEAT)
_REPEATED = (
    ApiKey.FETCH, ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.METADATA,
)  # fmt: skip


class _ShortNames(Names):
    """Short names for members, in the order in which they got their ids, and names of topics."""

    def __init__(self, topics: dict[bytes, str]) -> None:
        super().__init__()
        self.topic_ids = {name: topic_id for topic_id, name in topics.items()}
        self._members: dict[str, str] = {}

    def learn(self, exchange: ClientExchange) -> None:
        """Name the member that has its id from the response to a JoinGroup or a heartbeat."""
        member_id = exchange.response.member_id
        if not member_id or member_id in self._members:
            return
        count = sum(name.startswith(exchange.speaker) for name in self._members.values())
        name = f"{exchange.speaker}-{count + 1}" if count else exchange.speaker
        self._members[member_id] = name

    def topic_name(self, topic_id: bytes) -> str:
        """Return the name of a topic; a question mark if the client has made the id up."""
        return self.known_topic(topic_id) or "?"

    def member_text(self, member_id: str) -> str:
        """Return the short name of a member."""
        return self._members.get(member_id, member_id)


def conversation_lines(talk: Conversation, topics: dict[bytes, str]) -> list[str]:
    """Return the lines of a conversation; idle fetches and heartbeats are counted only."""
    names = _ShortNames(topics)
    for each in sorted([*talk.exchanges, *talk.others], key=lambda one: one.answered_place):
        if each.api in _WITH_MEMBER_ID and each.response is not None:
            names.learn(each)
    events: list[tuple[int, float, ClientExchange | Remark, bool]] = []
    for each in [*talk.exchanges, *talk.others]:
        events.append((each.place, each.at_s, each, True))
        if each.response is not None:
            events.append((each.answered_place, each.answered_s, each, False))
    events += [(each.place, each.at_s, each, True) for each in talk.remarks]
    lines: list[str] = []
    idle = 0
    seen: dict[int, str] = {}
    for _, at_s, event, is_request in sorted(events, key=lambda one: one[0]):
        if isinstance(event, Remark):
            new = [_remark(event)]
        elif _is_idle(event, names, seen, is_request=is_request):
            idle += is_request
            continue
        elif is_request:
            new = [request_line(event, names)]
        else:
            new = _response(event, names)
        if idle:
            lines.append(f"{'':9}({idle} more of the same, answered without records or errors)")
            idle = 0
        lines += [f"{at_s:8.3f} {line}" for line in new]
    if len(lines) > MAX_LINES:
        cut = len(lines) - MAX_LINES
        head = lines[: MAX_LINES - _LAST_LINES]
        lines = [*head, f"{'':9}({cut} lines are left out)", *lines[-_LAST_LINES:]]
    return lines


def _is_idle(
    exchange: ClientExchange, names: Names, seen: dict[int, str], *, is_request: bool
) -> bool:
    """Whether an exchange is a Fetch or heartbeat like the one before it, without news."""
    if exchange.api not in _REPEATED:
        return False
    if exchange.script or exchange.response is None or _has_news(exchange.response):
        return False
    if not is_request:
        return seen.get(-exchange.place) == ""
    text = request_line(exchange, names).partition(">")[2]
    is_same = seen.get(exchange.api) == text
    seen[exchange.api] = text
    if is_same:
        seen[-exchange.place] = ""
    return is_same


def _has_news(response: Any) -> bool:
    if getattr(response, "error_code", 0) or getattr(response, "assignment", None) is not None:
        return True
    for topic in getattr(response, "responses", ()):
        if any(each.error_code or each.records for each in topic.partitions):
            return True
    return any(topic.error_code for topic in getattr(response, "topics", ()))


def _remark(remark: Remark) -> str:
    where = f"client#{remark.connection}" if remark.connection else ""
    if remark.kind == "output":
        return f'client prints "{remark.text}"'
    if remark.kind in ("scenario", "ended"):
        return f"# {remark.text}"
    return f"{where} ({remark.text})"


def _speaker(exchange: ClientExchange) -> str:
    return f"client#{exchange.connection}" if exchange.connection else exchange.speaker


def request_line(exchange: ClientExchange, names: Names) -> str:
    """Return the line of a request."""
    text = request_arguments(exchange.request, exchange.version, names)
    line = _line(exchange, ">", _brief(exchange, exchange.request, names) if text is None else text)
    return f"{line}   # {exchange.script}" if exchange.script else line


def _response(exchange: ClientExchange, names: Names) -> list[str]:
    response = exchange.response
    if not is_structure(response):
        return response_lines(_speaker(exchange), exchange.version, response, names)
    return [_line(exchange, "<", _brief(exchange, response, names) or "ok")]


def _line(exchange: ClientExchange, way: str, text: str) -> str:
    name = exchange.api.kafka_name
    return f"{_speaker(exchange)}{way} {name} v{exchange.version} {text}".rstrip()


def _brief(exchange: ClientExchange, message: Message, names: Names) -> str:
    return Brief(type(message).__name__, exchange.version, names, is_short=True).line(message)
