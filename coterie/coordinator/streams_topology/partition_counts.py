"""How many partitions the internal topics of a topology shall have.

A repartition topic has as many as the topology specifies, or as many as the largest source of the
subtopology that writes it. Topics of one copartition group have the same number. A changelog has as
many as its subtopology has tasks [streams-groups/validation].

A topic that exists counts with the partitions it has, whatever it shall have.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush

from coterie.assignors.java_order import in_map_order
from coterie.coordinator.streams_topology.model import InvalidTopology
from coterie.protocol.messages.streams_group_records import Subtopology

_LOOPS = (
    "Failed to compute number of partitions for all repartition topics. There may be loops in the"
    " topology that cannot be resolved."
)
_NEVER_WRITTEN = (
    "Failed to compute number of partitions for all repartition topics, because a repartition"
    " source topic is never used as a sink topic."
)


class CountsDoNotFit(Exception):  # noqa: N818 - a refusal is an answer, not a failure of the server
    """Topics that must have the same number of partitions differ.

    Attributes:
        detail: Kafka's text.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


def decide_counts(
    subtopologies: Sequence[Subtopology],
    groups: Sequence[Sequence[str]],
    partitions_of: Mapping[str, int],
) -> dict[str, int]:
    """Return how many partitions each internal topic shall have.

    Args:
        subtopologies: in the order of Kafka's map; a topic that two of them write is decided by
            the first whose count is known.
        groups: their copartition groups.
        partitions_of: the topics that exist, with all source topics among them.

    Raises:
        CountsDoNotFit: the topics of a copartition group differ.
        InvalidTopology: the count of a topic depends on itself or on nothing.
    """
    decided = _repartition_counts(subtopologies, partitions_of)
    _enforce_copartitioning(groups, subtopologies, decided, partitions_of)
    counts = {**decided, **partitions_of}
    for each in subtopologies:
        tasks = max(source_counts(each, counts), default=None)
        if tasks is None:
            raise InvalidTopology(f"No source topics found for subtopology {each.subtopology_id}")
        decided |= dict.fromkeys((topic.name for topic in each.state_changelog_topics), tasks)
    return decided


def source_counts(subtopology: Subtopology, counts: Mapping[str, int]) -> Iterator[int]:
    """Return the counts of all topics that a subtopology reads."""
    for name in subtopology.source_topics:
        yield counts[name]
    for topic in subtopology.repartition_source_topics:
        yield counts[topic.name]


def copartition_groups(subtopologies: Iterable[Subtopology]) -> list[list[str]]:
    """Return the topics of each copartition group, each once.

    Raises:
        InvalidTopology: a group has an index of no topic.
    """
    found = []
    for each in subtopologies:
        repartition = [topic.name for topic in each.repartition_source_topics]
        for group in each.copartition_groups:
            names: dict[str, None] = {}
            for indexes, topics in (
                (group.source_topics, each.source_topics),
                (group.repartition_source_topics, repartition),
            ):
                if any(not 0 <= index < len(topics) for index in indexes):
                    raise InvalidTopology(
                        f"A copartition group of subtopology {each.subtopology_id} has a topic that"
                        " the subtopology does not read."
                    )
                names |= dict.fromkeys(topics[index] for index in indexes)
            if names:
                found.append(list(names))
    return found


def _repartition_counts(
    subtopologies: Sequence[Subtopology], partitions_of: Mapping[str, int]
) -> dict[str, int]:
    """Return the count of each repartition topic.

    Kafka goes through all subtopologies again and again, and decides what a subtopology writes as
    soon as one of its sources is known. The heap has those of which one is, in the same order: the
    number of Kafka's pass, and the place in it.
    """
    counts = {
        topic.name: topic.partitions
        for each in subtopologies
        for topic in each.repartition_source_topics
        if topic.partitions != 0
    }
    readers: dict[str, list[int]] = {}
    due: list[tuple[int, int]] = []
    waiting: set[int] = set()
    for place, each in enumerate(subtopologies):
        names = [topic.name for topic in each.repartition_source_topics]
        if each.source_topics or any(name in counts for name in names):
            due.append((0, place))
        elif each.repartition_sink_topics:
            waiting.add(place)
            for name in names:
                readers.setdefault(name, []).append(place)
    heapify(due)
    while due:
        turn, place = heappop(due)
        each = subtopologies[place]
        open_sinks = [name for name in each.repartition_sink_topics if name not in counts]
        if not open_sinks:
            continue
        count = max(
            [
                *(
                    counts[topic.name]
                    for topic in each.repartition_source_topics
                    if topic.name in counts
                ),
                *(partitions_of[name] for name in each.source_topics),
            ]
        )
        for name in open_sinks:
            counts[name] = count
            for reader in readers.pop(name, ()):
                if reader in waiting:
                    waiting.discard(reader)
                    heappush(due, (turn if reader > place else turn + 1, reader))
    if any(
        name not in counts
        for place in waiting
        for name in subtopologies[place].repartition_sink_topics
    ):
        raise InvalidTopology(_LOOPS)
    if any(
        topic.name not in counts
        for each in subtopologies
        for topic in each.repartition_source_topics
    ):
        raise InvalidTopology(_NEVER_WRITTEN)
    return counts


def _enforce_copartitioning(
    groups: Sequence[Sequence[str]],
    subtopologies: Sequence[Subtopology],
    decided: dict[str, int],
    partitions_of: Mapping[str, int],
) -> None:
    """Give the repartition topics of each copartition group the count of the group.

    If a group has only repartition topics and the topology specifies the count of any topic, Kafka
    demands that all such topics of the topology agree, also those of other groups.

    Raises:
        CountsDoNotFit: topics whose count is given differ.
    """
    repartition = {topic.name for each in subtopologies for topic in each.repartition_source_topics}
    fixed = {
        topic.name
        for each in subtopologies
        for topic in each.repartition_source_topics
        if topic.partitions != 0
    }

    def count(name: str) -> int:
        return partitions_of[name] if name in partitions_of else decided[name]

    # A topic of a given count keeps it: a group that demands another is refused.
    fixed_counts = {count(name) for name in fixed}
    for names in groups:
        ours = {name: count(name) for name in names if name in repartition}
        others = {name: count(name) for name in names if name not in repartition}
        required = set(others.values()) if others else fixed_counts
        if len(required) > 1:
            raise CountsDoNotFit(
                "Following topics do not have the same number of partitions:"
                f" [{_as_map(others or ours)}]"
            )
        shared = max(required or ours.values())
        if any(ours[name] != shared for name in fixed.intersection(ours)):
            ordered = in_map_order(name for name in in_map_order(names) if name in ours)
            name = next(each for each in ordered if each in fixed and ours[each] != shared)
            raise CountsDoNotFit(
                f"Number of partitions [{ours[name]}] of repartition topic [{name}] doesn't match"
                f" number of partitions [{shared}] of the source topic."
            )
        decided |= dict.fromkeys(ours, shared)


def _as_map(counts: Mapping[str, int]) -> str:
    """Return counts as Java prints a map."""
    return "{" + ", ".join(f"{name}={counts[name]}" for name in sorted(counts)) + "}"
