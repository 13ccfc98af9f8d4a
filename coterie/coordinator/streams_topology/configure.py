"""The tasks of a topology, and the internal topics that it still needs.

Kafka does this in one order, and stops at the first reason why there are no tasks: source topics
that are missing, counts that do not fit, internal topics that exist with another count, internal
topics that are missing [streams-groups/validation]. Where Kafka names only some topics of many,
these are the first of a hash map, so the order of Java's maps is kept (assignors/java_order.py).

A topology that Kafka's own classes cannot hold (an id twice, a topic twice in one list, an index of
no topic, a negative count) is invalid here [streams-groups/broken-topologies].
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from coterie.assignors.java_order import in_map_order, in_order_of_hashes
from coterie.coordinator.streams_topology.model import (
    ConfiguredSubtopology,
    ConfiguredTopology,
    InternalTopic,
    InvalidTopology,
    StatusCode,
    TopologyStatus,
)
from coterie.coordinator.streams_topology.names import topics_needed_by
from coterie.coordinator.streams_topology.partition_counts import (
    CountsDoNotFit,
    copartition_groups,
    decide_counts,
    source_counts,
)
from coterie.protocol.java_hash import java_hash
from coterie.protocol.messages.streams_group_records import (
    StreamsGroupTopologyValue,
    StreamsTopic,
    Subtopology,
)

# So many topics are named in the detail of a status, and the rest counted.
_NAMED = 3


def configure(
    topology: StreamsGroupTopologyValue, partitions_of: Mapping[str, int]
) -> ConfiguredTopology:
    """Return a topology with its tasks, and the internal topics that are to be created.

    Args:
        topology: the topology of a group.
        partitions_of: the topics that exist, by name, and how many partitions each has.

    Raises:
        InvalidTopology: no topics can make it valid.
    """
    by_id = {each.subtopology_id: each for each in topology.subtopologies}
    if len(by_id) < len(topology.subtopologies):
        raise InvalidTopology("Two subtopologies have the same id.")
    subtopologies = [by_id[each] for each in in_map_order(by_id)]
    groups = copartition_groups(subtopologies)
    missing = sorted(
        {name for each in subtopologies for name in each.source_topics if name not in partitions_of}
    )
    if missing:
        return _without_tasks(
            topology,
            StatusCode.MISSING_SOURCE_TOPICS,
            f"Source topics {_summary(missing)} are missing.",
        )
    try:
        decided = decide_counts(subtopologies, groups, partitions_of)
    except CountsDoNotFit as refused:
        return _without_tasks(topology, StatusCode.INCORRECTLY_PARTITIONED_TOPICS, refused.detail)
    # A topic that exists has the partitions it has.
    counts = {**decided, **partitions_of}
    configured = {each: _configured(by_id[each], counts, decided) for each in sorted(by_id)}
    internal = {topic.name: topic for topic in _internal_topics(configured.values())}
    detail = _mismatch(subtopologies, internal, partitions_of)
    if detail is not None:
        return _without_tasks(topology, StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)
    return _with_tasks(topology.epoch, configured, internal, partitions_of)


def _without_tasks(
    topology: StreamsGroupTopologyValue, code: StatusCode, detail: str
) -> ConfiguredTopology:
    return ConfiguredTopology(topology.epoch, {}, (), TopologyStatus(code, detail))


def _with_tasks(
    epoch: int,
    configured: Mapping[str, ConfiguredSubtopology],
    internal: Mapping[str, InternalTopic],
    partitions_of: Mapping[str, int],
) -> ConfiguredTopology:
    missing = [name for name in internal if name not in partitions_of]
    if not missing:
        return ConfiguredTopology(epoch, configured, (), None)
    # The map from which Kafka takes the names had all internal topics.
    ordered = in_order_of_hashes(missing, java_hash, len(internal))
    to_create = [internal[name] for name in ordered]
    return ConfiguredTopology(
        epoch,
        configured,
        tuple(
            each._replace(replication_factor=each.replication_factor or -1) for each in to_create
        ),
        TopologyStatus(
            StatusCode.MISSING_INTERNAL_TOPICS,
            f"Internal topics are missing: {_summary(ordered)}",
        ),
    )


def _configured(
    subtopology: Subtopology, counts: Mapping[str, int], decided: Mapping[str, int]
) -> ConfiguredSubtopology:
    # That there is a source is known: the count of changelogs needs one.
    tasks = max(source_counts(subtopology, counts))
    return ConfiguredSubtopology(
        tasks,
        tuple(dict.fromkeys(subtopology.source_topics)),
        _by_name(subtopology.repartition_source_topics, decided),
        _by_name(subtopology.state_changelog_topics, decided),
    )


def _by_name(
    topics: Sequence[StreamsTopic], decided: Mapping[str, int]
) -> dict[str, InternalTopic]:
    found: dict[str, InternalTopic] = {}
    for topic in topics:
        partitions = topic.partitions or decided[topic.name]
        if partitions < 1:
            raise InvalidTopology("Number of partitions must be at least 1.")
        configs = {each.key: each.value for each in topic.topic_configs}
        if topic.name in found or len(configs) < len(topic.topic_configs):
            raise InvalidTopology(f"Topic {topic.name} or one of its settings is there twice.")
        found[topic.name] = InternalTopic(topic.name, partitions, topic.replication_factor, configs)
    return found


def _internal_topics(configured: Iterable[ConfiguredSubtopology]) -> Iterator[InternalTopic]:
    """Return all internal topics in the order in which Kafka collects them."""
    for each in configured:
        for topics in (each.repartition_sources, each.changelogs):
            for name in in_map_order(topics):
                yield topics[name]


def _mismatch(
    subtopologies: Iterable[Subtopology],
    internal: Mapping[str, InternalTopic],
    partitions_of: Mapping[str, int],
) -> str | None:
    """Return how an internal topic that exists differs from what it shall be; None if none does."""
    differing = {
        name
        for name, topic in internal.items()
        if name in partitions_of and partitions_of[name] != topic.partitions
    }
    if not differing:
        return None
    name = next(each for each in in_map_order(topics_needed_by(subtopologies)) if each in differing)
    return (
        f"Existing topic {name} has different number of partitions: expected"
        f" {internal[name].partitions}, found {partitions_of[name]}"
    )


def _summary(names: Sequence[str]) -> str:
    text = ", ".join(names[:_NAMED])
    more = len(names) - _NAMED
    return f"{text} and {more} additional topics" if more > 0 else text
