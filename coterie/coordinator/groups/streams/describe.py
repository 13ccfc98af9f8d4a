"""StreamsGroupDescribe: streams groups for administrators [streams-groups/describe]."""

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.coordinator.groups.partition_state import PartitionState
from coterie.coordinator.groups.recorded.describe import AskedGroup, asked_group
from coterie.coordinator.groups.refusal import Refusal
from coterie.coordinator.groups.streams.group import STREAMS, StreamsGroup
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

    __slots__ = ()


def describe_streams_group(
    partition: PartitionState, asked: DescribedStreamsGroup
) -> StreamsGroupDescribeResponseGroup:
    """Return one group: its epochs, its topology, and what its members have."""
    try:
        group = asked_group(partition, asked, StreamsGroup, STREAMS)
    except Refusal as refusal:
        return describe_error(asked.group_id, refusal.error, refusal.text)
    return StreamsGroupDescribeResponseGroup(
        error_code=ErrorCode.NONE,
        group_id=asked.group_id,
        group_state=group.state_name,
        group_epoch=group.epoch,
        assignment_epoch=group.target_epoch,
        topology=_topology(group),
        members=[_member(group, member) for member in group.ordered_members()],
        authorized_operations=asked.operations,
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


def describe_error(
    group_id: str, error: ErrorCode, text: str | None = None
) -> StreamsGroupDescribeResponseGroup:
    """Return a group that cannot be described."""
    return StreamsGroupDescribeResponseGroup(
        error_code=error,
        error_message=text,
        group_id=group_id,
        group_state="",
        group_epoch=0,
        assignment_epoch=0,
        members=[],
    )


def describe_error_part(
    asked: Any, error: ErrorCode, _version: int
) -> StreamsGroupDescribeResponseGroup:
    """Return the part of the response about a group whose partition is not available."""
    return describe_error(asked.group_id, asked.error(error))
