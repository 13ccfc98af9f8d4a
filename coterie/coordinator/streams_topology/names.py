"""The topics that a topology names, and what is refused of it before topics are looked up."""

from collections.abc import Callable, Collection, Iterable

from coterie.coordinator.streams_topology.model import InvalidTopology
from coterie.protocol.messages.streams_group_records import StreamsGroupTopologyValue, Subtopology


def named_topics(topology: StreamsGroupTopologyValue) -> list[str]:
    """Return all topics of a topology, each once, in the order in which Kafka checks them."""
    names: dict[str, None] = {}
    for each in topology.subtopologies:
        names |= dict.fromkeys(each.source_topics)
        names |= dict.fromkeys(each.repartition_sink_topics)
        names |= dict.fromkeys(topic.name for topic in each.repartition_source_topics)
        names |= dict.fromkeys(topic.name for topic in each.state_changelog_topics)
    return list(names)


def required_topics(topology: StreamsGroupTopologyValue) -> list[str]:
    """Return the topics that must exist: sources, repartition sources, changelogs; each once."""
    return topics_needed_by(topology.subtopologies)


def topics_needed_by(subtopologies: Iterable[Subtopology]) -> list[str]:
    """Return the topics that must exist for some subtopologies, in their order."""
    names: dict[str, None] = {}
    for each in subtopologies:
        names |= dict.fromkeys(each.source_topics)
        names |= dict.fromkeys(topic.name for topic in each.repartition_source_topics)
        names |= dict.fromkeys(topic.name for topic in each.state_changelog_topics)
    return list(names)


def check_topic_names(
    topology: StreamsGroupTopologyValue,
    *,
    internal_topics: Collection[str],
    why_illegal: Callable[[str], str | None],
) -> None:
    """Check that a topology names no topic of Kafka and no illegal one [streams-groups/validation].

    Args:
        topology: the topology of a request.
        internal_topics: Kafka's internal topics.
        why_illegal: returns why a name is illegal; None if it is legal.

    Raises:
        InvalidTopology: it names one.
    """
    names = named_topics(topology)
    prohibited = [name for name in names if name in internal_topics]
    if prohibited:
        raise InvalidTopology(
            f"Use of Kafka internal topics {','.join(prohibited)} in a Kafka Streams topology is"
            " prohibited."
        )
    illegal = [name for name in names if why_illegal(name) is not None]
    if illegal:
        raise InvalidTopology(f"Topic names {','.join(illegal)} are not valid topic names.")


def check_changelogs(topology: StreamsGroupTopologyValue) -> None:
    """Check that a topology leaves the partitions of its changelogs open.

    Raises:
        InvalidTopology: it specifies those of one.
    """
    for each in topology.subtopologies:
        for topic in each.state_changelog_topics:
            if topic.partitions != 0:
                raise InvalidTopology(
                    f"Changelog topic {topic.name} must have an undefined partition count, but it"
                    f" is set to {topic.partitions}."
                )
