"""The conversation as lines, in the notation of the transcripts, with times and connections.

0.412 client#2> JoinGroup v9 group=check-group member="" session=45s ...
0.413 client#2< JoinGroup v9 error=MEMBER_ID_REQUIRED member=...
"""

from collections.abc import Callable, Iterable
from typing import Any

from coterie.client_check.conversation import Conversation, Exchange, Remark
from coterie.conversation.names import Names
from coterie.conversation.responses import error_text, response_lines
from coterie.conversation.syntax import format_list, format_map, quote
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.consumer_protocol import decode_assignment, decode_subscription

# Lines of a report; what is left out is in its middle.
MAX_LINES = 150
_LAST_LINES = 110


class _ShortNames(Names):
    """Short names for members, in the order in which they got their ids, and names of topics."""

    def __init__(self, topics: dict[bytes, str]) -> None:
        super().__init__()
        self._topic_ids = {name: topic_id for topic_id, name in topics.items()}
        self._members: dict[str, str] = {}

    def learn(self, exchange: Exchange) -> None:
        """Name the member that the response to a JoinGroup gives an id to."""
        member_id = exchange.response.member_id
        if not member_id or member_id in self._members:
            return
        count = sum(name.startswith(exchange.speaker) for name in self._members.values())
        name = f"{exchange.speaker}-{count + 1}" if count else exchange.speaker
        self._members[member_id] = name

    def topic_name(self, topic_id: bytes) -> str:
        """Return the name of a topic; a question mark if the client has made the id up."""
        return next((name for name, known in self._topic_ids.items() if known == topic_id), "?")

    def member_text(self, member_id: str) -> str:
        """Return the short name of a member."""
        return self._members.get(member_id, member_id)


def conversation_lines(talk: Conversation, topics: dict[bytes, str]) -> list[str]:
    """Return the lines of a conversation; idle fetches and heartbeats are counted only."""
    names = _ShortNames(topics)
    for each in sorted([*talk.exchanges, *talk.others], key=lambda one: one.answered_place):
        if each.api is ApiKey.JOIN_GROUP and each.response is not None:
            names.learn(each)
    events: list[tuple[int, float, Exchange | Remark, bool]] = []
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


def _is_idle(exchange: Exchange, names: Names, seen: dict[int, str], *, is_request: bool) -> bool:
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


def _speaker(exchange: Exchange) -> str:
    return f"client#{exchange.connection}" if exchange.connection else exchange.speaker


def request_line(exchange: Exchange, names: Names) -> str:
    """Return the line of a request."""
    form = _REQUESTS.get(exchange.api, _any)
    text = form(exchange.request, exchange.version, names)
    line = f"{_speaker(exchange)}> {exchange.api.kafka_name} v{exchange.version} {text}".rstrip()
    return f"{line}   # {exchange.script}" if exchange.script else line


def _response(exchange: Exchange, names: Names) -> list[str]:
    speaker, response = _speaker(exchange), exchange.response
    form = _RESPONSES.get(exchange.api)
    if form is not None:
        text = form(response, exchange.version, names)
        return [f"{speaker}< {exchange.api.kafka_name} v{exchange.version} {text}".rstrip()]
    try:
        return response_lines(speaker, exchange.version, response, names)
    except KeyError:
        error = getattr(response, "error_code", 0)
        return [f"{speaker}< {exchange.api.kafka_name} v{exchange.version} {error_text(error)}"]


# --- requests -------------------------------------------------------------------------------------


def _any(_request: Any, _version: int, _names: Names) -> str:
    return ""


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds / 1000:g}s"


def _instance(request: Any) -> str:
    instance = getattr(request, "group_instance_id", None)
    return "" if instance is None else f" instance={instance}"


def _join(request: Any, version: int, names: Names) -> str:
    protocols = [f"{each.name}: {_subscription(each.metadata)}" for each in request.protocols]
    rebalance = f" rebalance={_seconds(request.rebalance_timeout_ms)}" if version else ""
    return (
        f"group={request.group_id} {_member(request, names)}"
        f" session={_seconds(request.session_timeout_ms)}{rebalance}"
        f" protocols={format_list(protocols)}"
    )


def _identity(request: Any, names: Names) -> str:
    generation = getattr(request, "generation_id", None)
    if generation is None:
        generation = request.generation_id_or_member_epoch
    return f"generation={generation} {_member(request, names)}"


def _member(request: Any, names: Names) -> str:
    return f"member={quote(names.member_text(request.member_id))}{_instance(request)}"


def _sync(request: Any, _version: int, names: Names) -> str:
    entries = [
        (quote(names.member_text(each.member_id)), _assignment(each.assignment))
        for each in request.assignments
    ]
    return f"{_identity(request, names)} assignment={format_map(entries)}"


def _heartbeat(request: Any, _version: int, names: Names) -> str:
    return _identity(request, names)


def _leave(request: Any, version: int, names: Names) -> str:
    if version < 3:
        return f"member={quote(names.member_text(request.member_id))}"
    members = [
        f"{quote(names.member_text(each.member_id))}{_instance(each)}" for each in request.members
    ]
    return f"members={format_list(members)}"


def _commit(request: Any, _version: int, names: Names) -> str:
    entries = [
        (f"{_topic(topic, names)}-{each.partition_index}", str(each.committed_offset))
        for topic in request.topics
        for each in topic.partitions
    ]
    return f"{_identity(request, names)} offsets={format_map(entries)}"


def _offsets(request: Any, version: int, names: Names) -> str:
    if version >= 8:
        groups = request.groups
        topics = groups[0].topics if groups else []
    else:
        topics = request.topics
    if topics is None:
        return "partitions=all"
    listed = [f"{_topic(each, names)}-{i}" for each in topics for i in each.partition_indexes]
    return f"partitions={format_list(listed)}"


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


_Form = Callable[[Any, int, Names], str]
_REQUESTS: dict[ApiKey, _Form] = {
    ApiKey.JOIN_GROUP: _join,
    ApiKey.SYNC_GROUP: _sync,
    ApiKey.HEARTBEAT: _heartbeat,
    ApiKey.LEAVE_GROUP: _leave,
    ApiKey.OFFSET_COMMIT: _commit,
    ApiKey.OFFSET_FETCH: _offsets,
    ApiKey.FETCH: _fetch,
    ApiKey.LIST_OFFSETS: _list_offsets,
    ApiKey.FIND_COORDINATOR: _coordinator,
    ApiKey.METADATA: _metadata,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _epochs,
    ApiKey.API_VERSIONS: _versions,
}


def _subscription(metadata: bytes) -> str:
    """Return a subscription as text, as transcripts do, whatever its user data are."""
    try:
        found = decode_subscription(metadata)
    except MalformedFrame:
        return f"0x{metadata.hex()}"
    text = " ".join(found.topics) or "none"
    if found.owned_partitions:
        text += " owned " + _partition_texts(found.owned_partitions)
    return text if found.generation_id < 0 else f"{text} generation {found.generation_id}"


def _assignment(data: bytes) -> str:
    try:
        found = decode_assignment(data) if data else None
    except MalformedFrame:
        return f"0x{data.hex()}"
    return '""' if found is None else _partition_texts(found.assigned_partitions) or "none"


def _partition_texts(topics: Iterable[Any]) -> str:
    return " ".join(f"{each.topic}-{index}" for each in topics for index in each.partitions)


# --- responses that transcripts do not have -------------------------------------------------------


def _joined(response: Any, _version: int, names: Names) -> str:
    member = f"member={quote(names.member_text(response.member_id))}"
    if response.error_code:
        return f"error={error_text(response.error_code)} {member}"
    members = [
        f"{names.member_text(each.member_id)}: {_subscription(each.metadata)}"
        for each in response.members
    ]
    shown = f" members={format_list(members)}" if members else ""
    return (
        f"generation={response.generation_id} protocol={response.protocol_name}"
        f" leader={quote(names.member_text(response.leader))} {member}{shown}"
    )


def _synced(response: Any, _version: int, _names: Names) -> str:
    if response.error_code:
        return f"error={error_text(response.error_code)}"
    return f"assignment=[{_assignment(response.assignment)}]"


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


_RESPONSES: dict[ApiKey, _Form] = {
    ApiKey.JOIN_GROUP: _joined,
    ApiKey.SYNC_GROUP: _synced,
    ApiKey.FETCH: _fetched,
    ApiKey.LIST_OFFSETS: _listed,
    ApiKey.FIND_COORDINATOR: _found,
    ApiKey.METADATA: _described,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _ends,
    ApiKey.API_VERSIONS: _known,
}
