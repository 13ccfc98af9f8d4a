"""StreamsGroupDescribe: streams groups for administrators [streams-groups/describe]."""

from collections.abc import Iterable, Mapping

from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.describe import AskedGroup
from coterie.coordinator.groups.streams.group import StreamsGroup
from coterie.coordinator.groups.streams.member import StreamsMember
from coterie.coordinator.groups.streams.tasks import HeldTasks, TaskRoles
from coterie.coordinator.streams_topology.model import InternalTopic
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.streams_group_describe import (
    StreamsDescribeAssignment,
    StreamsDescribeEndpoint,
    StreamsDescribeKeyValue,
    StreamsDescribeSubtopology,
    StreamsDescribeTaskIds,
    StreamsDescribeTopicInfo,
    StreamsDescribeTopology,
    StreamsGroupDescribeResponseGroup,
    StreamsGroupDescribeResponseMember,
)
from coterie.protocol.messages.streams_group_records import StreamsTopic


class DescribedStreamsGroup(AskedGroup):
    """One group of a StreamsGroupDescribe request."""

    GROUPS = StreamsGroup
    PART = StreamsGroupDescribeResponseGroup

    __slots__ = ()

    def description(
        self,
        partition: PartitionState,  # noqa: ARG002 - it needs no setting
        group: StreamsGroup,
    ) -> StreamsGroupDescribeResponseGroup:
        """Return its epochs, and what its members have."""
        return StreamsGroupDescribeResponseGroup(
            error_code=ErrorCode.NONE,
            group_id=self.group_id,
            group_state=group.state_name,
            group_epoch=group.epoch,
            assignment_epoch=group.target_epoch,
            topology=_topology(group),
            members=[_member(group, member) for member in group.ordered_members()],
            authorized_operations=self.operations,
        )


def _topology(group: StreamsGroup) -> StreamsDescribeTopology | None:
    """Return the topology: with resolved partitions once it is ready, as declared before."""
    topology, configured = group.topology, group.configured
    if topology is None:
        return None
    resolved = {} if configured is None or not configured.is_ready else configured.subtopologies
    found = []
    for each in topology.subtopologies:
        tasks = resolved.get(each.subtopology_id)
        repartition = {} if tasks is None else tasks.repartition_sources
        changelogs = {} if tasks is None else tasks.changelogs
        found.append(
            StreamsDescribeSubtopology(
                subtopology_id=each.subtopology_id,
                source_topics=sorted(each.source_topics),
                repartition_sink_topics=sorted(each.repartition_sink_topics),
                state_changelog_topics=_topics(each.state_changelog_topics, changelogs),
                repartition_source_topics=_topics(each.repartition_source_topics, repartition),
            )
        )
    found.sort(key=lambda each: each.subtopology_id)
    return StreamsDescribeTopology(epoch=topology.epoch, subtopologies=found)


def _topics(
    topics: list[StreamsTopic], resolved: Mapping[str, InternalTopic]
) -> list[StreamsDescribeTopicInfo]:
    found = []
    for each in sorted(topics, key=lambda each: each.name):
        topic = resolved.get(each.name)
        found.append(
            StreamsDescribeTopicInfo(
                name=each.name,
                partitions=each.partitions if topic is None else topic.partitions,
                replication_factor=each.replication_factor,
                topic_configs=[
                    StreamsDescribeKeyValue(key=config.key, value=config.value)
                    for config in sorted(each.topic_configs, key=lambda config: config.key)
                ],
            )
        )
    return found


def _member(group: StreamsGroup, member: StreamsMember) -> StreamsGroupDescribeResponseMember:
    description, endpoint = member.description, member.endpoint
    return StreamsGroupDescribeResponseMember(
        member_id=member.member_id,
        member_epoch=member.epoch,
        instance_id=description.instance_id,
        rack_id=description.rack_id,
        client_id=description.client_id,
        client_host=description.client_host,
        topology_epoch=description.topology_epoch,
        process_id=description.process_id,
        user_endpoint=None
        if endpoint is None
        else StreamsDescribeEndpoint(host=endpoint.host, port=endpoint.port),
        client_tags=[
            StreamsDescribeKeyValue(key=each.key, value=each.value)
            for each in description.client_tags
        ],
        task_offsets=[],
        task_end_offsets=[],
        assignment=_assignment(member.assigned),
        target_assignment=_assignment(group.target(member.member_id)),
        is_classic=False,
    )


def _assignment(tasks: HeldTasks | TaskRoles) -> StreamsDescribeAssignment:
    return StreamsDescribeAssignment(
        active_tasks=_tasks(tasks.active),
        standby_tasks=_tasks(tasks.standby),
        warmup_tasks=_tasks(tasks.warmup),
    )


def _tasks(tasks: Mapping[str, Iterable[int]]) -> list[StreamsDescribeTaskIds]:
    return [
        StreamsDescribeTaskIds(subtopology_id=each, partitions=sorted(indexes))
        for each, indexes in sorted(tasks.items())
    ]
