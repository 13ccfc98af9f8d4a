"""The topology of a group: how it is logged, and what it becomes with the topics that exist.

[streams-groups/topology]
"""

from collections.abc import Mapping

from coterie.coordinator.groups.refusal import Refusal, invalid
from coterie.coordinator.groups.streams.group import StreamsGroup
from coterie.coordinator.groups.streams.step import Step
from coterie.coordinator.groups.streams.tasks import TaskRoles
from coterie.coordinator.streams_topology.configure import configure
from coterie.coordinator.streams_topology.model import ConfiguredTopology, InvalidTopology
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsHeartbeatTopicInfo,
    StreamsHeartbeatTopology,
)
from coterie.protocol.messages.streams_group_records import (
    CopartitionGroup,
    StreamsGroupTopologyKey,
    StreamsGroupTopologyValue,
    StreamsKeyValue,
    StreamsTopic,
    Subtopology,
)


def logged_topology(topology: StreamsHeartbeatTopology) -> StreamsGroupTopologyValue:
    """Return the topology of a request as it is logged, in its own order."""
    return StreamsGroupTopologyValue(
        epoch=topology.epoch,
        subtopologies=[
            Subtopology(
                subtopology_id=each.subtopology_id,
                source_topics=each.source_topics,
                source_topic_regex=each.source_topic_regex,
                state_changelog_topics=_topics(each.state_changelog_topics),
                repartition_sink_topics=each.repartition_sink_topics,
                repartition_source_topics=_topics(each.repartition_source_topics),
                copartition_groups=[
                    CopartitionGroup(
                        source_topics=group.source_topics,
                        source_topic_regex=group.source_topic_regex,
                        repartition_source_topics=group.repartition_source_topics,
                    )
                    for group in each.copartition_groups
                ],
            )
            for each in topology.subtopologies
        ],
    )


def _topics(topics: list[StreamsHeartbeatTopicInfo]) -> list[StreamsTopic]:
    return [
        StreamsTopic(
            name=each.name,
            partitions=each.partitions,
            replication_factor=each.replication_factor,
            topic_configs=[
                StreamsKeyValue(key=config.key, value=config.value) for config in each.topic_configs
            ],
        )
        for each in topics
    ]


def take_topology(step: Step, topology: StreamsHeartbeatTopology | None) -> None:
    """Write the topology of a group that has none; that of another one has to be the same.

    A member with an older topology may join; its responses have STALE_TOPOLOGY.

    Raises:
        Refusal: the topology is another one than that of the group.
    """
    if topology is None:
        return
    known, value = step.group.topology, logged_topology(topology)
    if value.epoch < 0:
        raise Refusal(ErrorCode.UNKNOWN_SERVER_ERROR)
    if known is None:
        step.set(StreamsGroupTopologyKey(group_id=step.group.group_id), value)
    elif known.epoch <= value.epoch and (
        known.epoch != value.epoch or _by_id(known) != _by_id(value)
    ):
        raise invalid("Topology updates are not supported yet.")


def _by_id(topology: StreamsGroupTopologyValue) -> Mapping[str, Subtopology]:
    return {each.subtopology_id: each for each in topology.subtopologies}


def configured_topology(group: StreamsGroup) -> ConfiguredTopology:
    """Return the topology of a group with its tasks, which is made anew if topics have changed.

    Raises:
        Refusal: no topics can make it valid.
    """
    configured = group.configured
    if configured is None:
        topology = group.topology
        assert topology is not None, f"{group} has members and no topology"
        by_name = group.topics.by_name
        counts = {name: by_name[name].partitions for name in group.required if name in by_name}
        try:
            configured = group.configured = configure(topology, counts)
        except InvalidTopology as error:
            raise Refusal(ErrorCode.STREAMS_INVALID_TOPOLOGY, error.message) from None
    return configured


def check_tasks(configured: ConfiguredTopology, tasks: TaskRoles | None) -> None:
    """Check that the tasks exist that a member says that it has.

    Raises:
        Refusal: one does not.
    """
    if tasks is None or not configured.is_ready:
        return
    for role in tasks:
        for subtopology, indexes in role.items():
            found = configured.subtopologies.get(subtopology)
            if found is None:
                raise invalid(f"Subtopology {subtopology} does not exist in the topology.")
            for index in indexes:
                if not 0 <= index < found.tasks:
                    raise invalid(
                        f"Task {index} for subtopology {subtopology} is invalid. "
                        f"Number of tasks for this subtopology: {found.tasks}"
                    )
