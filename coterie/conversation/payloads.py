"""The consumers' own bytes as text: subscriptions in JoinGroup, assignments in SyncGroup.

    subscription   sales clicks   |   sales owned sales-0 sales-1 generation 9   |   0x00ff
    assignment     sales-0 sales-1   |   none   |   sales-0 data "" version 3   |   ""   |   0x00ff

A subscription is encoded in the lowest version that has all its parts: 0 for topics alone, 1 for
owned partitions, 2 for the generation, 3 for the rack, which may be null. `none` is an assignment
without partitions; `""` is an assignment of no bytes, which a member gets if the leader does not
mention it. `data ""` are user data of no bytes, which clients send where others send null, and
`data 0x00ff` those of an assignor. An assignment has version 0 unless it names another.
"""

from collections.abc import Callable

from coterie.conversation.names import Names
from coterie.conversation.syntax import (
    TranscriptError,
    group_by_topic,
    quote,
    unquote,
)
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)

# The subscription of a protocol that states none; responses do not show it either.
DEFAULT_SUBSCRIPTION = "sales"

# The parts behind the topics; each of the first three has come with a version.
_PARTS = ("owned", "generation", "rack", "data")
_ASSIGNMENT_PARTS = ("data", "version")
_NULL = "null"
# The names of the core: topics are called as in the transcript.
_PLAIN = Names()


def subscription_bytes(text: str, names: Names = _PLAIN) -> bytes:
    """Return the metadata of one protocol in a JoinGroup."""
    raw = _raw(text)
    if raw is not None:
        return raw
    topics, parts = _parts(text, _PARTS)
    version = max((_PARTS.index(part) + 1 for part in parts if part != "data"), default=0)
    subscription = ConsumerProtocolSubscription(
        topics=[names.topic(topic) for topic in _without_none(topics)],
        user_data=_user_data(parts),
        owned_partitions=_partitions(_without_none(parts.get("owned", [])), names),
        generation_id=int(parts.get("generation", ["-1"])[0]),
        rack_id=None if parts.get("rack", [_NULL]) == [_NULL] else unquote(parts["rack"][0]),
    )
    return encode_subscription(subscription, version)


def subscription_text(metadata: bytes, names: Names = _PLAIN) -> str:
    """Return a member's metadata as text; hexadecimal if it is not a subscription."""
    try:
        subscription = decode_subscription(metadata)
    except MalformedFrame:
        return _hexadecimal(metadata)
    parts = [names.topic_text(topic) for topic in subscription.topics] or ["none"]
    version = int.from_bytes(metadata[:2], "big")
    if version >= 1:
        owned = _partition_texts(subscription.owned_partitions, names)
        parts = [*parts, "owned", *(owned or ["none"])]
    if version >= 2:
        parts = [*parts, "generation", str(subscription.generation_id)]
    if version >= 3:
        rack = subscription.rack_id
        parts = [*parts, "rack", _NULL if rack is None else quote(rack)]
    text = " ".join([*parts, *_data_texts(subscription.user_data)])
    return _if_equal(text, subscription_bytes, metadata, names)


def assignment_bytes(text: str, names: Names = _PLAIN) -> bytes:
    """Return the assignment that a leader sends for one member."""
    raw = _raw(text)
    if raw is not None:
        return raw
    partitions, parts = _parts(text, _ASSIGNMENT_PARTS)
    assignment = ConsumerProtocolAssignment(
        assigned_partitions=_partitions(_without_none(partitions), names),
        user_data=_user_data(parts),
    )
    return encode_assignment(assignment, int(parts.get("version", ["0"])[0]))


def assignment_text(assignment: bytes, names: Names = _PLAIN) -> str:
    """Return an assignment as text; hexadecimal if it is not an assignment of a consumer."""
    if not assignment:
        return '""'
    try:
        decoded = decode_assignment(assignment)
    except MalformedFrame:
        return _hexadecimal(assignment)
    version = int.from_bytes(assignment[:2], "big")
    parts = _partition_texts(decoded.assigned_partitions, names) or ["none"]
    parts += _data_texts(decoded.user_data)
    text = " ".join(parts if version == 0 else [*parts, "version", str(version)])
    return _if_equal(text, assignment_bytes, assignment, names)


def _if_equal(text: str, encode: Callable[[str, Names], bytes], data: bytes, names: Names) -> str:
    """Return a text if it stands for just these bytes, and else these in hexadecimal.

    It does not if a topic is called as a part is, or if the bytes have a version of the future.
    """
    try:
        is_equal = encode(text, names) == data
    except (TranscriptError, ValueError, LookupError):
        is_equal = False
    return text if is_equal else _hexadecimal(data)


def _parts(text: str, named: tuple[str, ...]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the words before the first named part, and those of each named part."""
    parts: dict[str, list[str]] = {}
    first: list[str] = []
    current = first
    for word in text.split():
        if word in named:
            current = parts[word] = []
        else:
            current.append(word)
    return first, parts


def _user_data(parts: dict[str, list[str]]) -> bytes | None:
    if "data" not in parts:
        return None
    data = _raw(" ".join(parts["data"]))
    if data is None:
        raise TranscriptError(f'user data are 0x... or "", not {parts["data"]}')
    return data


def _data_texts(user_data: bytes | None) -> list[str]:
    return [] if user_data is None else ["data", _hexadecimal(user_data)]


def _raw(text: str) -> bytes | None:
    if text == '""':
        return b""
    if not text.startswith("0x"):
        return None
    try:
        return bytes.fromhex(text[2:])
    except ValueError as error:
        raise TranscriptError(f"{text!r}: {error}") from error


def _hexadecimal(data: bytes) -> str:
    return f"0x{data.hex()}" if data else '""'


def _without_none(words: list[str]) -> list[str]:
    return [] if words == ["none"] else words


def _partitions(texts: list[str], names: Names) -> list[TopicPartition]:
    return [
        TopicPartition(topic=names.topic(topic), partitions=indexes)
        for topic, indexes in group_by_topic(texts).items()
    ]


def _partition_texts(partitions: list[TopicPartition], names: Names) -> list[str]:
    return [
        f"{names.topic_text(each.topic)}-{index}"
        for each in partitions
        for index in each.partitions
    ]
