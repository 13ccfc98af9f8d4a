"""Offsets: what groups have committed, where partitions begin and end, and changing the former.

Commits made here carry no member and generation -1, which a coordinator accepts for a group without
members only (spec section 9), so a running group can't be disturbed. Topics go by name, hence
OffsetCommit and OffsetFetch up to version 9: version 10 speaks of topic ids.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.errors import Refused
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.list_offsets import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
    ListOffsetsResponsePartition,
)
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from coterie.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
)
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
)

LAST_VERSION_WITH_NAMES = 9
EARLIEST = EARLIEST_TIMESTAMP
LATEST = LATEST_TIMESTAMP

_CONSUMER_REPLICA = -1

P = TypeVar("P")

_Fetched = tuple[int, list[OffsetFetchResponseTopic]]


class Committed(NamedTuple):
    """A committed offset; `leader_epoch` is -1 when the client sent none."""

    offset: int
    leader_epoch: int
    metadata: str


def committed_offsets(cluster: Cluster, group_id: str) -> dict[TopicPartition, Committed]:
    """Everything the group has committed.

    Raises:
        Refused: the coordinator refuses.
    """
    request = OffsetFetchRequest(
        group_id=group_id,
        topics=None,
        groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)],
    )

    def results(answer: OffsetFetchResponse) -> dict[str, tuple[int, _Fetched]]:
        if answer.groups:
            (group,) = answer.groups
            return {group_id: (group.error_code, (group.error_code, group.topics))}
        return {group_id: (answer.error_code, (answer.error_code, answer.topics))}

    error, topics = cluster.ask_coordinators(
        [group_id], lambda _: request, OffsetFetchResponse, results, LAST_VERSION_WITH_NAMES
    )[group_id]
    # A group that never was has committed nothing: Kafka answers so from version 9 on.
    if error and error != ErrorCode.GROUP_ID_NOT_FOUND:
        raise Refused(error, f"Offsets of group '{group_id}'")
    found: dict[TopicPartition, Committed] = {}
    for topic in topics:
        for part in topic.partitions:
            if part.error_code:
                raise Refused(part.error_code, f"Offset of {topic.name}-{part.partition_index}")
            if part.committed_offset >= 0:
                found[topic.name, part.partition_index] = Committed(
                    part.committed_offset, part.committed_leader_epoch, part.metadata or ""
                )
    return found


def partition_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    missing: dict[TopicPartition, int] | None = None,
) -> dict[TopicPartition, int]:
    """The offset of each partition that belongs to a time.

    Args:
        cluster: where.
        timestamps: epoch milliseconds, or `EARLIEST` or `LATEST`, by partition.
        missing: when given, partitions without an answer are put here with their error code instead
            of raising.

    Returns:
        Offsets; -1 where no record is that young.

    Raises:
        Refused: a partition does not exist, or its leader refuses.
    """

    def request_for(some: list[TopicPartition]) -> ListOffsetsRequest:
        topics = _by_topic(
            some,
            lambda part: ListOffsetsRequestPartition(
                partition_index=part[1], timestamp=timestamps[part]
            ),
        )
        return ListOffsetsRequest(
            replica_id=_CONSUMER_REPLICA,
            topics=[
                ListOffsetsRequestTopic(name=name, partitions=parts)
                for name, parts in topics.items()
            ],
            timeout_ms=int(cluster.timeout_s * 1000),
        )

    def results(
        answer: ListOffsetsResponse,
    ) -> dict[TopicPartition, tuple[int, ListOffsetsResponsePartition]]:
        return {
            (topic.name, part.partition_index): (part.error_code, part)
            for topic in answer.topics
            for part in topic.partitions
        }

    answers = cluster.ask_leaders(timestamps, request_for, ListOffsetsResponse, results, missing)
    offsets: dict[TopicPartition, int] = {}
    for partition, answer in answers.items():
        if not answer.error_code:
            offsets[partition] = answer.offset
        elif missing is not None:
            missing[partition] = answer.error_code
        else:
            raise Refused(answer.error_code, f"Offsets of {partition[0]}-{partition[1]}")
    return offsets


def commit_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Commit for a group without members; the error code of each partition, 0 where it is done."""
    topics = _by_topic(
        offsets,
        lambda part: OffsetCommitRequestPartition(
            partition_index=part[1], committed_offset=offsets[part], committed_metadata=""
        ),
    )
    request = OffsetCommitRequest(
        group_id=group_id,
        member_id="",
        topics=[
            OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()
        ],
    )

    def results(answer: OffsetCommitResponse) -> dict[str, tuple[int, dict[TopicPartition, int]]]:
        errors = {
            (topic.name, part.partition_index): part.error_code
            for topic in answer.topics
            for part in topic.partitions
        }
        # An error of the group as a whole stands on every partition, a moving coordinator's too.
        return {group_id: (next(iter(errors.values()), 0), errors)}

    return cluster.ask_coordinators(
        [group_id], lambda _: request, OffsetCommitResponse, results, LAST_VERSION_WITH_NAMES
    )[group_id]


def delete_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]
) -> tuple[int, dict[TopicPartition, int]]:
    """Forget committed offsets: the group's error code, and that of each partition."""
    topics = _by_topic(
        partitions, lambda part: OffsetDeleteRequestPartition(partition_index=part[1])
    )
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(name=name, partitions=parts) for name, parts in topics.items()
        ],
    )

    def results(answer: OffsetDeleteResponse) -> dict[str, tuple[int, OffsetDeleteResponse]]:
        return {group_id: (answer.error_code, answer)}

    answer = cluster.ask_coordinators([group_id], lambda _: request, OffsetDeleteResponse, results)[
        group_id
    ]
    return answer.error_code, {
        (topic.name, part.partition_index): part.error_code
        for topic in answer.topics
        for part in topic.partitions
    }


def _by_topic(
    partitions: Iterable[TopicPartition], make: Callable[[TopicPartition], P]
) -> dict[str, list[P]]:
    """Request structures of the partitions, grouped by topic."""
    topics: dict[str, list[P]] = {}
    for partition in partitions:
        topics.setdefault(partition[0], []).append(make(partition))
    return topics
