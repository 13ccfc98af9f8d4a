"""The topology of a streams group as text: subtopologies by their ids.

    {0: {sources: [foo, bar], sinks: [map], changelogs: [store {cleanup.policy: compact}],
     copartitioned: [[0, 1]]}, 1: {repartitions: [map 4 1], epoch: 1}}

An internal topic has a name, and may have a number of partitions (0 unless it is there), of
replicas (-1) and settings. `copartitioned` names topics by their place in `sources`; `r0` is the
first of `repartitions`, `x0` of `regexes`. `epoch` beside the ids is that of the topology, if it is
not 0.
"""

from collections.abc import Iterable
from typing import Any

from coterie.conversation.arguments import Kind, Place
from coterie.conversation.consumer_group_requests import TOPIC
from coterie.conversation.names import Names
from coterie.conversation.syntax import (
    TranscriptError,
    format_list,
    format_map,
    parse_arguments,
    parse_list,
    parse_map,
    quote,
    unquote,
)
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsHeartbeatCopartitionGroup,
    StreamsHeartbeatKeyValue,
    StreamsHeartbeatSubtopology,
    StreamsHeartbeatTopicInfo,
    StreamsHeartbeatTopology,
)

_EPOCH = "epoch"
_COPARTITIONED = "copartitioned"
# The name in a transcript of each list of a subtopology, in the order in which it is written.
_TOPICS = {
    "sources": "source_topics",
    "regexes": "source_topic_regex",
    "sinks": "repartition_sink_topics",
}
_INTERNAL = {
    "changelogs": "state_changelog_topics",
    "repartitions": "repartition_source_topics",
}
# What precedes the place of a topic in a group of topics, by the list that has the place.
_LISTS = {
    "": "source_topics",
    "x": "source_topic_regex",
    "r": "repartition_source_topics",
}
_ANY_PARTITIONS, _DEFAULT_REPLICAS = 0, -1


def _read(text: str, place: Place) -> StreamsHeartbeatTopology:
    subtopologies = parse_map(text)
    epoch = int(subtopologies.pop(_EPOCH, "0"))
    return StreamsHeartbeatTopology(
        epoch=epoch,
        subtopologies=[
            _read_subtopology(name, parse_map(each), place) for name, each in subtopologies.items()
        ],
    )


def _read_subtopology(
    name: str, lists: dict[str, str], place: Place
) -> StreamsHeartbeatSubtopology:
    values: dict[str, list[Any]] = {}
    for word, field in _TOPICS.items():
        values[field] = [TOPIC.read(each, place) for each in parse_list(lists.pop(word, "[]"))]
    for word, field in _INTERNAL.items():
        values[field] = [_read_internal(each, place) for each in parse_list(lists.pop(word, "[]"))]
    groups = [_read_group(each) for each in parse_list(lists.pop(_COPARTITIONED, "[]"))]
    if lists:
        raise TranscriptError(f"a subtopology has no {', '.join(lists)}")
    return StreamsHeartbeatSubtopology(subtopology_id=name, copartition_groups=groups, **values)


def _read_internal(text: str, place: Place) -> StreamsHeartbeatTopicInfo:
    """Return the topic of `store`, `store 4`, `store 4 1` or `store 4 1 {retention.ms: 1}`."""
    name, *rest = parse_arguments(text).positional
    settings = parse_map(rest.pop()) if rest and rest[-1].startswith("{") else {}
    partitions = int(rest[0]) if rest else _ANY_PARTITIONS
    replicas = int(rest[1]) if len(rest) > 1 else _DEFAULT_REPLICAS
    return StreamsHeartbeatTopicInfo(
        name=TOPIC.read(name, place),
        partitions=partitions,
        replication_factor=replicas,
        topic_configs=[
            StreamsHeartbeatKeyValue(key=key, value=unquote(value))
            for key, value in settings.items()
        ],
    )


def _read_group(text: str) -> StreamsHeartbeatCopartitionGroup:
    places: dict[str, list[int]] = {field: [] for field in _LISTS.values()}
    for each in parse_list(text):
        number = each.lstrip("xr")
        places[_LISTS[each.removesuffix(number)]].append(int(number))
    return StreamsHeartbeatCopartitionGroup(
        source_topics=places["source_topics"],
        source_topic_regex=places["source_topic_regex"],
        repartition_source_topics=places["repartition_source_topics"],
    )


def topology_text(topology: Any, names: Names) -> str:
    """Return a topology as a transcript shows it.

    Args:
        topology: of a request, a description or a record.
        names: the names of the transcript.
    """
    entries = [
        (quote(each.subtopology_id), subtopology_text(each, names))
        for each in topology.subtopologies or []
    ]
    if topology.epoch:
        entries.append((_EPOCH, str(topology.epoch)))
    return format_map(entries)


def subtopology_text(subtopology: Any, names: Names) -> str:
    """Return the lists of a subtopology that are not empty; a description lacks some of them."""
    entries = []
    for word, field in _TOPICS.items():
        topics = [quote(names.topic_text(each)) for each in getattr(subtopology, field, ())]
        entries.append((word, topics))
    for word, field in _INTERNAL.items():
        entries.append(
            (word, [_internal_text(each, names) for each in getattr(subtopology, field)])
        )
    groups = getattr(subtopology, "copartition_groups", ())
    entries.append((_COPARTITIONED, [_group_text(each) for each in groups]))
    return format_map([(word, format_list(items)) for word, items in entries if items])


def _internal_text(topic: Any, names: Names) -> str:
    parts = [quote(names.topic_text(topic.name))]
    if topic.replication_factor != _DEFAULT_REPLICAS:
        parts += [str(topic.partitions), str(topic.replication_factor)]
    elif topic.partitions != _ANY_PARTITIONS:
        parts.append(str(topic.partitions))
    settings: Iterable[Any] = topic.topic_configs
    if settings:
        parts.append(format_map([(quote(each.key), quote(each.value)) for each in settings]))
    return " ".join(parts)


def _group_text(group: Any) -> str:
    return format_list(
        [f"{prefix}{place}" for prefix, field in _LISTS.items() for place in getattr(group, field)]
    )


TOPOLOGY = Kind(_read, lambda value, place: topology_text(value, place.names))
