"""The conversation as lines, in the notation of the transcripts, with times and connections.

0.412 client#2> JoinGroup v9 group=check-group member="" session=45s ...
0.413 client#2< JoinGroup v9 error=MEMBER_ID_REQUIRED member=...
"""

from collections.abc import Callable, Iterable
from typing import Any

from coterie.client_check.conversation import ClientExchange, Conversation, Remark
from coterie.conversation.names import Names
from coterie.conversation.requests import request_arguments
from coterie.conversation.responses import response_lines
from coterie.conversation.structures import error_text
from coterie.conversation.syntax import format_list, format_map
from coterie.protocol.api_keys import ApiKey

# Lines of a report; what is left out is in its middle.
MAX_LINES = 150
_LAST_LINES = 110


class _ShortNames(Names):
    """Short names for members, in the order in which they got their ids, and names of topics."""

    def __init__(self, topics: dict[bytes, str]) -> None:
        super().__init__()
        self.topic_ids = {name: topic_id for topic_id, name in topics.items()}
        self._members: dict[str, str] = {}

    def learn(self, exchange: ClientExchange) -> None:
        """Name the member that the response to a JoinGroup gives an id to."""
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
        if each.api is ApiKey.JOIN_GROUP and each.response is not None:
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
    """Whether an exchange is a Fetch or Heartbeat like the one before it, without news."""
    if exchange.api not in (ApiKey.FETCH, ApiKey.HEARTBEAT, ApiKey.METADATA):
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
    if getattr(response, "error_code", 0):
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
    form = _REQUESTS.get(exchange.api, request_arguments)
    text = form(exchange.request, exchange.version, names) or ""
    line = f"{_speaker(exchange)}> {exchange.api.kafka_name} v{exchange.version} {text}".rstrip()
    return f"{line}   # {exchange.script}" if exchange.script else line


def _response(exchange: ClientExchange, names: Names) -> list[str]:
    speaker, response = _speaker(exchange), exchange.response
    form = _RESPONSES.get(exchange.api)
    if form is not None:
        text = form(response, exchange.version, names)
        return [f"{speaker}< {exchange.api.kafka_name} v{exchange.version} {text}".rstrip()]
    return response_lines(speaker, exchange.version, response, names)


# --- requests that are not about groups -----------------------------------------------------------


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:g}s"


def _fetch(request: Any, _version: int, names: Names) -> str:
    listed = [
        f"{_topic(topic, names)}-{each.partition}@{each.fetch_offset}"
        + (f" epoch {each.current_leader_epoch}" if each.current_leader_epoch >= 0 else "")
        for topic in request.topics
        for each in topic.partitions
    ]
    return f"wait={_seconds(request.max_wait_ms)} partitions={format_list(listed)}"


def _list_offsets(request: Any, _version: int, _names: Names) -> str:
    entries = [
        (f"{topic.name}-{each.partition_index}", _TIMES.get(each.timestamp, str(each.timestamp)))
        for topic in request.topics
        for each in topic.partitions
    ]
    return f"times={format_map(entries)}"


_TIMES = {-1: "latest", -2: "earliest"}


def _coordinator(request: Any, _version: int, _names: Names) -> str:
    keys = request.coordinator_keys or [request.key]
    return f"keys={format_list(keys)}"


def _metadata(request: Any, _version: int, names: Names) -> str:
    if request.topics is None:
        return "topics=all"
    listed = [each.name or names.topic_name(each.topic_id) for each in request.topics]
    return f"topics={format_list(listed)}"


def _epochs(request: Any, _version: int, _names: Names) -> str:
    listed = [
        (f"{topic.topic}-{each.partition}", f"epoch {each.leader_epoch}")
        for topic in request.topics
        for each in topic.partitions
    ]
    return f"partitions={format_map(listed)}"


def _versions(request: Any, version: int, _names: Names) -> str:
    if version < 3:
        return ""
    return f"software={request.client_software_name} {request.client_software_version}"


def _topic(topic: Any, names: Names) -> str:
    name = getattr(topic, "name", "") or getattr(topic, "topic", "")
    return str(name or names.topic_name(topic.topic_id))


_REQUESTS: dict[ApiKey, Callable[[Any, int, Names], str | None]] = {
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.FIND_COORDINATOR: _coordinator,
    ApiKey.METADATA: _metadata,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _epochs,
    ApiKey.API_VERSIONS: _versions,
}


# --- responses that transcripts do not have -------------------------------------------------------


def _fetched(response: Any, _version: int, names: Names) -> str:
    entries = [
        (f"{_topic(topic, names)}-{each.partition_index}", _partition(each))
        for topic in response.responses
        for each in topic.partitions
    ]
    return _throttled(response, format_map(entries))


def _partition(each: Any) -> str:
    if each.error_code:
        return error_text(each.error_code)
    return f"{len(each.records or b'')} bytes to {each.high_watermark}"


def _throttled(response: Any, text: str) -> str:
    throttle = response.throttle_time_ms
    return f"{text} throttle={_seconds(throttle)}" if throttle else text


def _listed(response: Any, _version: int, _names: Names) -> str:
    entries = [
        (
            f"{topic.name}-{each.partition_index}",
            error_text(each.error_code) if each.error_code else str(each.offset),
        )
        for topic in response.topics
        for each in topic.partitions
    ]
    return format_map(entries)


def _found(response: Any, _version: int, _names: Names) -> str:
    found: Iterable[Any] = response.coordinators or [response]
    return " ".join(
        error_text(each.error_code)
        if each.error_code
        else f"node={each.node_id} at {each.host}:{each.port}"
        for each in found
    )


def _described(response: Any, _version: int, _names: Names) -> str:
    brokers = [f"{each.node_id} at {each.host}:{each.port}" for each in response.brokers]
    topics = [(each.name or "?", _topic_state(each)) for each in response.topics]
    return f"brokers={format_list(brokers)} topics={format_map(topics)}"


def _topic_state(topic: Any) -> str:
    if topic.error_code:
        return error_text(topic.error_code)
    epochs = {each.leader_epoch for each in topic.partitions}
    text = f"{len(topic.partitions)} partitions"
    return f"{text} epoch {max(epochs)}" if epochs and max(epochs) > 0 else text


def _ends(response: Any, _version: int, _names: Names) -> str:
    listed = [
        (f"{topic.topic}-{each.partition}", f"epoch {each.leader_epoch} ends at {each.end_offset}")
        for topic in response.topics
        for each in topic.partitions
    ]
    return format_map(listed)


def _known(response: Any, _version: int, _names: Names) -> str:
    return f"{error_text(response.error_code)} apis={len(response.api_keys)}"


_RESPONSES: dict[ApiKey, Callable[[Any, int, Names], str]] = {
    ApiKey.FETCH: _fetched,
    ApiKey.LIST_OFFSETS: _listed,
    ApiKey.FIND_COORDINATOR: _found,
    ApiKey.METADATA: _described,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _ends,
    ApiKey.API_VERSIONS: _known,
}
