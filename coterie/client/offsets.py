"""Offsets: those that groups have committed, and those at which partitions begin and end.

Commits have no member id and generation -1. A coordinator accepts such a commit only for a group
without members, so a running group can't be disturbed. OffsetCommit and OffsetFetch are used up to
version 9, because version 10 has topic ids instead of names.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.connection import Deadline
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
_FIRST_VERSION_WITH_GROUPS = 8
EARLIEST = EARLIEST_TIMESTAMP
LATEST = LATEST_TIMESTAMP

_CONSUMER_REPLICA = -1

P = TypeVar("P")

_Fetched = tuple[int, list[OffsetFetchResponseTopic]]


class Committed(NamedTuple):
    """A committed offset; `leader_epoch` is -1 if the consumer sent none."""

    offset: int
    leader_epoch: int
    metadata: str


def committed_offsets(cluster: Cluster, group_id: str) -> dict[TopicPartition, Committed]:
    """Return all committed offsets of a group; none for a group that does not exist.

    Raises:
        Refused: the coordinator refuses.
    """
    return committed_offsets_of_groups(cluster, [group_id])[group_id]


def committed_offsets_of_groups(
    cluster: Cluster, group_ids: Iterable[str], refused: dict[str, int] | None = None
) -> dict[str, dict[TopicPartition, Committed]]:
    """Return all committed offsets of groups, with one request to each coordinator.

    Brokers before Kafka 3.0 answer for one group at a time (KIP-709).

    Args:
        cluster: the cluster.
        group_ids: the groups.
        refused: if given, groups that are refused are added here with their error code, and left
            out, instead of raising.

    Raises:
        Refused: a coordinator refuses.
    """
    wanted = list(group_ids)
    deadline = Deadline(cluster.timeout_s)
    version = cluster.any_broker(deadline).version_for(OffsetFetchRequest, LAST_VERSION_WITH_NAMES)
    in_one_request = version >= _FIRST_VERSION_WITH_GROUPS
    fetched: dict[str, _Fetched] = {}
    for part in [wanted] if in_one_request else [[name] for name in wanted]:
        fetched |= cluster.call_coordinators(
            part,
            _fetch_request,
            OffsetFetchResponse,
            _fetched(part),
            LAST_VERSION_WITH_NAMES,
            refused,
        )
    found: dict[str, dict[TopicPartition, Committed]] = {}
    for name in wanted:
        if refused is not None and name in refused:
            continue
        try:
            found[name] = _committed(name, *fetched[name])
        except Refused as error:
            if refused is None:
                raise
            refused[name] = error.code
    return found


def _fetch_request(group_ids: list[str]) -> OffsetFetchRequest:
    """Return a request for all offsets, with the fields of old and of new versions."""
    return OffsetFetchRequest(
        group_id=group_ids[0],
        topics=None,
        groups=[OffsetFetchRequestGroup(group_id=name, topics=None) for name in group_ids],
    )


def _fetched(
    group_ids: list[str],
) -> Callable[[OffsetFetchResponse], dict[str, tuple[int, _Fetched]]]:
    """Return what takes a response for these groups apart."""

    def results(response: OffsetFetchResponse) -> dict[str, tuple[int, _Fetched]]:
        if response.groups:
            return {
                each.group_id: (each.error_code, (each.error_code, each.topics))
                for each in response.groups
            }
        only = response.error_code, response.topics
        return {group_ids[0]: (response.error_code, only)}

    return results


def _committed(
    group_id: str, error: int, topics: list[OffsetFetchResponseTopic]
) -> dict[TopicPartition, Committed]:
    # From version 9 on, Kafka responds with this error for a group that does not exist.
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
    *,
    only_committed: bool = False,
) -> dict[TopicPartition, int]:
    """Return the offset of each partition at a time.

    Args:
        cluster: the cluster.
        timestamps: epoch milliseconds, `EARLIEST` or `LATEST`, by partition.
        missing: if given, partitions without an offset are added here with their error code instead
            of raising.
        only_committed: whether the end of a partition is its last stable offset.

    Returns:
        The offset of the first record at or after the time; -1 if there is no such record.

    Raises:
        Refused: a partition does not exist, or its leader refuses.
    """

    def request_for(keys: list[TopicPartition]) -> ListOffsetsRequest:
        topics = _by_topic(
            keys,
            lambda part: ListOffsetsRequestPartition(
                partition_index=part[1], timestamp=timestamps[part]
            ),
        )
        return ListOffsetsRequest(
            replica_id=_CONSUMER_REPLICA,
            isolation_level=int(only_committed),
            topics=[
                ListOffsetsRequestTopic(name=name, partitions=parts)
                for name, parts in topics.items()
            ],
            timeout_ms=int(cluster.timeout_s * 1000),
        )

    def results(
        response: ListOffsetsResponse,
    ) -> dict[TopicPartition, tuple[int, ListOffsetsResponsePartition]]:
        return {
            (topic.name, part.partition_index): (part.error_code, part)
            for topic in response.topics
            for part in topic.partitions
        }

    found = cluster.call_leaders(timestamps, request_for, ListOffsetsResponse, results, missing)
    offsets: dict[TopicPartition, int] = {}
    for (topic, index), result in found.items():
        if not result.error_code:
            offsets[topic, index] = result.offset
        elif missing is not None:
            missing[topic, index] = result.error_code
        else:
            raise Refused(result.error_code, f"Offsets of {topic}-{index}")
    return offsets


def commit_offsets(
    cluster: Cluster, group_id: str, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Commit offsets of a group without members; return the error code of each partition."""
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

    def results(response: OffsetCommitResponse) -> dict[str, tuple[int, dict[TopicPartition, int]]]:
        errors = {
            (topic.name, part.partition_index): part.error_code
            for topic in response.topics
            for part in topic.partitions
        }
        # The response has no error code for the group: an error of the group, such as that of a
        # moving coordinator, is on every partition.
        return {group_id: (next(iter(errors.values()), 0), errors)}

    return cluster.call_coordinators(
        [group_id], lambda _: request, OffsetCommitResponse, results, LAST_VERSION_WITH_NAMES
    )[group_id]


def delete_offsets(
    cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]
) -> tuple[int, dict[TopicPartition, int]]:
    """Delete committed offsets; return the group's error code and that of each partition."""
    topics = _by_topic(
        partitions, lambda part: OffsetDeleteRequestPartition(partition_index=part[1])
    )
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[
            OffsetDeleteRequestTopic(name=name, partitions=parts) for name, parts in topics.items()
        ],
    )

    def results(response: OffsetDeleteResponse) -> dict[str, tuple[int, OffsetDeleteResponse]]:
        return {group_id: (response.error_code, response)}

    response = cluster.call_coordinators(
        [group_id], lambda _: request, OffsetDeleteResponse, results
    )[group_id]
    return response.error_code, {
        (topic.name, part.partition_index): part.error_code
        for topic in response.topics
        for part in topic.partitions
    }


def _by_topic(
    partitions: Iterable[TopicPartition], make: Callable[[TopicPartition], P]
) -> dict[str, list[P]]:
    """Return the structures that `make` makes of the partitions, by topic."""
    topics: dict[str, list[P]] = {}
    for partition in partitions:
        topics.setdefault(partition[0], []).append(make(partition))
    return topics
