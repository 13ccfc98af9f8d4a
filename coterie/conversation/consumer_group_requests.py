"""Requests of consumer groups (KIP-848) as text: their tables, and partitions by topic.

    ConsumerGroupHeartbeat v1 group=orders member=m1 epoch=0 timeout=5m topics=[foo] owned={}
    ConsumerGroupHeartbeat v1 group=orders member=m1 epoch=2 owned={foo: [0-2, 5]}

What is left out is null, or -1 for the timeout: the member has it already.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from coterie.conversation.arguments import (
    DURATION,
    FLAG,
    GROUP,
    INTEGER,
    MEMBER,
    NULLABLE,
    Argument,
    Kind,
    Place,
    Shown,
    list_kind,
    optional_kind,
    text_kind,
)
from coterie.conversation.names import Names
from coterie.conversation.syntax import (
    TranscriptError,
    format_list,
    format_map,
    parse_list,
    parse_map,
    quote,
    unquote,
)
from coterie.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatTopicPartitions,
)
from coterie.protocol.wire import Message

_RUN = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
# Partitions that follow each other are written as a range from this number on.
_SHORTEST_RANGE = 2
# A longer range is a mistake.
_LONGEST_RANGE = 100_000


def read_indexes(text: str) -> list[int]:
    """Return the partitions of `[0-2, 5]`.

    Raises:
        TranscriptError: it is not a list of partitions.
    """
    indexes: list[int] = []
    for item in parse_list(text):
        match = _RUN.fullmatch(item)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if not 0 <= last - first < _LONGEST_RANGE:
            raise TranscriptError(f"{text!r} is not a list of partitions: [0-2, 5]")
        indexes += range(first, last + 1)
    return indexes


def indexes_text(indexes: Sequence[int]) -> str:
    """Return partitions in their order as `[0-2, 5]`."""
    return format_list([run_text(first, count) for first, count in _runs(indexes)])


def _runs(indexes: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Yield the first of the partitions that follow each other, and their number."""
    start = 0
    for at in range(1, len(indexes) + 1):
        if at < len(indexes) and indexes[at] == indexes[at - 1] + 1:
            continue
        count = at - start
        if count < _SHORTEST_RANGE:
            yield from ((index, 1) for index in indexes[start:at])
        else:
            yield indexes[start], count
        start = at


def run_text(first: int, count: int) -> str:
    """Return one partition, or a range of several."""
    return str(first) if count == 1 else f"{first}-{first + count - 1}"


def assignment_map(topics: Iterable[Any], names: Names) -> str:
    """Return partitions by topic, in the order of the names; a set has no order of its own."""
    entries = [
        (names.partitioned(each.topic_id), indexes_text(sorted(each.partitions))) for each in topics
    ]
    return format_map(sorted(entries))


def _read_owned(text: str, place: Place) -> list[HeartbeatTopicPartitions]:
    return [
        HeartbeatTopicPartitions(
            topic_id=place.names.partitioned_id(topic), partitions=read_indexes(indexes)
        )
        for topic, indexes in parse_map(text).items()
    ]


def _write_owned(topics: list[HeartbeatTopicPartitions], place: Place) -> str:
    return format_map(
        [
            (quote(place.names.partitioned(each.topic_id)), indexes_text(each.partitions))
            for each in topics
        ]
    )


# A topic in a list of subscribed topics.
TOPIC = text_kind(
    lambda text, names: names.topic(text), lambda value, names: names.topic_text(value)
)
# Always in quotes: a parenthesis counts as a bracket elsewhere.
_REGEX = Kind(
    lambda text, place: place.names.regex(unquote(text)),
    lambda value, place: f'"{place.names.topic_text(value)}"',
)
_IF_SET = Shown.IF_SET

TABLES: dict[type[Message], tuple[Argument, ...]] = {
    ConsumerGroupHeartbeatRequest: (
        Argument("group", "group_id", GROUP, "orders"),
        Argument("member", "member_id", MEMBER, '""'),
        Argument("instance", "instance_id", NULLABLE, "null", _IF_SET),
        Argument("epoch", "member_epoch", INTEGER, "0"),
        Argument("timeout", "rebalance_timeout_ms", DURATION, "-1", _IF_SET),
        Argument(
            "topics", "subscribed_topic_names", optional_kind(list_kind(TOPIC)), "null", _IF_SET
        ),
        Argument("regex", "subscribed_topic_regex", optional_kind(_REGEX), "null", _IF_SET),
        Argument("assignor", "server_assignor", NULLABLE, "null", _IF_SET),
        Argument("rack", "rack_id", NULLABLE, "null", _IF_SET),
        Argument(
            "owned",
            "topic_partitions",
            optional_kind(Kind(_read_owned, _write_owned)),
            "null",
            _IF_SET,
        ),
    ),
    ConsumerGroupDescribeRequest: (
        Argument("groups", "group_ids", list_kind(GROUP), "[orders]"),
        Argument("operations", "include_authorized_operations", FLAG, "false", _IF_SET),
    ),
}
