"""Where the state of partitions can be queried [streams-groups/endpoints].

The epoch of this information is kept in memory only.
"""

from collections.abc import Iterable, Mapping

from coterie.coordinator.groups.streams.group import StreamsGroup
from coterie.coordinator.streams_topology.model import ConfiguredTopology
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsHeartbeatEndpoint,
    StreamsHeartbeatEndpointPartitions,
    StreamsHeartbeatTopicPartitions,
)


def partitions_by_endpoint(
    group: StreamsGroup, configured: ConfiguredTopology, last: str
) -> list[StreamsHeartbeatEndpointPartitions]:
    """Return the partitions of each member with an endpoint.

    Args:
        group: the group.
        configured: its topology with its tasks.
        last: the member that is listed last, as in Kafka: the one that asks.
    """
    members = sorted(group.ordered_members(), key=lambda each: each.member_id == last)
    return [
        StreamsHeartbeatEndpointPartitions(
            user_endpoint=StreamsHeartbeatEndpoint(
                host=member.endpoint.host, port=member.endpoint.port
            ),
            active_partitions=_partitions(group, configured, member.assigned.active),
            standby_partitions=_partitions(group, configured, member.assigned.standby),
        )
        for member in members
        if member.endpoint is not None
    ]


def _partitions(
    group: StreamsGroup, configured: ConfiguredTopology, tasks: Mapping[str, Iterable[int]]
) -> list[StreamsHeartbeatTopicPartitions]:
    """Return the partitions of the topics that tasks read.

    As in Kafka a topic with fewer partitions than there are tasks has the first ones.
    """
    found = []
    for each, indexes in sorted(tasks.items()):
        subtopology = configured.subtopologies.get(each)
        if subtopology is None:
            continue
        ordered = sorted(indexes)
        for name in sorted({*subtopology.source_topics, *subtopology.repartition_sources}):
            topic = group.topics.by_name.get(name)
            if topic is not None:
                found.append(
                    StreamsHeartbeatTopicPartitions(
                        topic=name, partitions=ordered[: topic.partitions]
                    )
                )
    return found
