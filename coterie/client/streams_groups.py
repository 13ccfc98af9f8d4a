"""The description of streams groups (KIP-1071): their topology, and the tasks of their members.

A task reads one partition of each topic of its subtopology that has so many. The response names
these topics without their partitions, so the topics are described too [client/streams-groups].
"""

from collections.abc import Iterable, Mapping

from coterie.client.cluster import Cluster
from coterie.client.consumer_groups import groups_with_epochs
from coterie.client.group_description import (
    STREAMS_GROUP,
    DescribedMember,
    DescribedSubtopology,
    DescribedTopology,
    GroupDescription,
    StreamsTasks,
    StreamsWork,
)
from coterie.client.topics import describe_topics
from coterie.protocol.messages.streams_group_describe import (
    StreamsDescribeAssignment,
    StreamsDescribeTaskIds,
    StreamsDescribeTopicInfo,
    StreamsDescribeTopology,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    StreamsGroupDescribeResponseMember,
)


def describe_streams_groups(
    cluster: Cluster, group_ids: Iterable[str], refused: dict[str, int] | None = None
) -> dict[str, GroupDescription]:
    """Return the descriptions of those groups that are streams groups.

    Args:
        cluster: the cluster.
        group_ids: the groups.
        refused: as for `describe_by_epochs`.

    Raises:
        VersionUnsupported: the broker has no groups of this type.
        Refused: a coordinator responds with another error than GROUP_ID_NOT_FOUND.
    """
    found = groups_with_epochs(
        cluster,
        group_ids,
        lambda keys: StreamsGroupDescribeRequest(group_ids=keys),
        StreamsGroupDescribeResponse,
        refused,
    )
    nodes = cluster.coordinators(found)
    counts = _partition_counts(cluster, [each.topology for each in found.values()])
    described = {}
    for name, group in found.items():
        topology = None if group.topology is None else _topology(group.topology, counts)
        described[name] = GroupDescription(
            group_id=name,
            exists=True,
            type=STREAMS_GROUP,
            state=group.group_state,
            protocol_type=STREAMS_GROUP,
            protocol="",
            coordinator=nodes[name],
            members=[_member(member, topology) for member in group.members],
            group_epoch=group.group_epoch,
            assignment_epoch=group.assignment_epoch,
            topology=topology,
        )
    return described


def _partition_counts(
    cluster: Cluster, topologies: Iterable[StreamsDescribeTopology | None]
) -> dict[str, int]:
    """Return the numbers of partitions of the source topics that exist."""
    names = {
        topic
        for topology in topologies
        if topology is not None
        for each in topology.subtopologies or ()
        for topic in each.source_topics
    }
    topics = describe_topics(cluster, sorted(names)) if names else []
    return {each.name: len(each.partitions) for each in topics if not each.error}


def _topology(topology: StreamsDescribeTopology, counts: Mapping[str, int]) -> DescribedTopology:
    return DescribedTopology(
        topology.epoch,
        [
            DescribedSubtopology(
                subtopology_id=each.subtopology_id,
                source_topics={topic: counts.get(topic) for topic in each.source_topics},
                repartition_source_topics=_internal(each.repartition_source_topics),
                repartition_sink_topics=list(each.repartition_sink_topics),
                state_changelog_topics=_internal(each.state_changelog_topics),
            )
            for each in topology.subtopologies or ()
        ],
    )


def _internal(topics: Iterable[StreamsDescribeTopicInfo]) -> dict[str, int | None]:
    # 0 is the number of a topology that is not ready.
    return {each.name: each.partitions or None for each in topics}


def _member(
    member: StreamsGroupDescribeResponseMember, topology: DescribedTopology | None
) -> DescribedMember:
    subtopologies = () if topology is None else topology.subtopologies
    read = {each.subtopology_id: each.read_topics for each in subtopologies}
    endpoint = member.user_endpoint
    work = StreamsWork(
        process_id=member.process_id,
        endpoint=None if endpoint is None else f"{endpoint.host}:{endpoint.port}",
        topology_epoch=member.topology_epoch,
        tasks=_tasks(member.assignment),
        target=_tasks(member.target_assignment),
    )
    return DescribedMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        host=member.client_host,
        assignment=_partitions(work.tasks.active, read),
        member_epoch=member.member_epoch,
        target_assignment=_partitions(work.target.active, read),
        topics=sorted({topic for topics in read.values() for topic in topics}),
        streams=work,
    )


def _tasks(assignment: StreamsDescribeAssignment) -> StreamsTasks:
    return StreamsTasks(
        *(
            _by_subtopology(tasks)
            for tasks in (
                assignment.active_tasks,
                assignment.standby_tasks,
                assignment.warmup_tasks,
            )
        )
    )


def _by_subtopology(tasks: Iterable[StreamsDescribeTaskIds]) -> dict[str, list[int]]:
    return {each.subtopology_id: sorted(each.partitions) for each in tasks}


def _partitions(
    tasks: Mapping[str, list[int]], read: Mapping[str, Mapping[str, int | None]]
) -> dict[str, list[int]]:
    """Return the partitions that tasks read, by topic.

    Args:
        tasks: the numbers of the tasks by subtopology.
        read: by subtopology its topics with the numbers of their partitions.
    """
    found: dict[str, set[int]] = {}
    for subtopology_id, numbers in tasks.items():
        for topic, count in read.get(subtopology_id, {}).items():
            found.setdefault(topic, set()).update(n for n in numbers if n < (count or 0))
    return {topic: sorted(partitions) for topic, partitions in sorted(found.items()) if partitions}
