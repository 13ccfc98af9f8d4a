"""The consumers' own bytes as text: subscriptions in JoinGroup, assignments in SyncGroup.

    subscription   sales clicks   |   sales owned sales-0 sales-1 generation 9   |   0x00ff
    assignment     sales-0 sales-1   |   none   |   ""   |   0x00ff

A subscription is encoded in the lowest version that has all its parts: 0 for topics alone, 1 for
owned partitions, 2 for the generation, 3 for the rack. `none` is an assignment without partitions;
`""` is an assignment of no bytes, which a member gets if the leader does not mention it.
"""

from coterie.conformance.names import Names
from coterie.conformance.syntax import group_by_topic, parse_partition, quote, unquote
from coterie.conformance.transcript import TranscriptError
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

_PARTS = ("owned", "generation", "rack")
# The names of the core: topics are called as in the transcript.
_PLAIN = Names()


def subscription_bytes(text: str, names: Names = _PLAIN) -> bytes:
    """Return the metadata of one protocol in a JoinGroup."""
    raw = _raw(text)
    if raw is not None:
        return raw
    parts: dict[str, list[str]] = {"topics": []}
    current = parts["topics"]
    for word in text.split():
        if word in _PARTS:
            current = parts[word] = []
        else:
            current.append(word)
    version = max((_PARTS.index(part) + 1 for part in parts if part != "topics"), default=0)
    subscription = ConsumerProtocolSubscription(
        topics=[names.topic(topic) for topic in _without_none(parts["topics"])],
        owned_partitions=_partitions(_without_none(parts.get("owned", [])), names),
        generation_id=int(parts.get("generation", ["-1"])[0]),
        rack_id=unquote(parts["rack"][0]) if "rack" in parts else None,
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
    if version >= 3 and subscription.rack_id is not None:
        parts = [*parts, "rack", quote(subscription.rack_id)]
    text = " ".join(parts)
    return text if subscription_bytes(text, names) == metadata else _hexadecimal(metadata)


def assignment_bytes(text: str, names: Names = _PLAIN) -> bytes:
    """Return the assignment that a leader sends for one member."""
    raw = _raw(text)
    if raw is not None:
        return raw
    partitions = _partitions(_without_none(text.split()), names)
    return encode_assignment(ConsumerProtocolAssignment(assigned_partitions=partitions), 0)


def assignment_text(assignment: bytes, names: Names = _PLAIN) -> str:
    """Return an assignment as text; hexadecimal if it is not an assignment of a consumer."""
    if not assignment:
        return '""'
    try:
        decoded = decode_assignment(assignment)
    except MalformedFrame:
        return _hexadecimal(assignment)
    text = " ".join(_partition_texts(decoded.assigned_partitions, names)) or "none"
    return text if assignment_bytes(text, names) == assignment else _hexadecimal(assignment)


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
    texts = [
        f"{names.topic_text(each.topic)}-{index}"
        for each in partitions
        for index in each.partitions
    ]
    for text in texts:
        parse_partition(text)
    return texts
