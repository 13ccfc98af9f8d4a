"""OffsetCommit and OffsetFetch requests of simulated clients.

Every commit has an offset of its own, so a fetched offset identifies the commit that wrote it.
"""

from typing import TYPE_CHECKING

from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)

if TYPE_CHECKING:
    from tests.simulation.world import World


def commit_request(
    world: "World", group_id: str, partitions: list[str]
) -> tuple[OffsetCommitRequest, int]:
    """Return a commit without member id and generation, and a version to send it in.

    Args:
        world: gives the offset and the randomness.
        group_id: the group.
        partitions: "topic-number" each; the commit has some of them.
    """
    rng = world.rng
    version = rng.choice((2, 4, 5, 6, 7, 8, 9))
    offset = world.next_offset()
    chosen = rng.sample(partitions, rng.randint(1, len(partitions)))
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for partition in sorted(chosen):
        topic, number = partition.split("-")
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=int(number),
                committed_offset=offset,
                committed_leader_epoch=rng.randint(-1, 3) if version >= 6 else -1,
                committed_metadata=rng.choice((None, "", "note", "far too long for it" * 2)),
            )
        )
    retention_ms = rng.choice((-1, -1, 3_000)) if version <= 4 else -1
    request = OffsetCommitRequest(
        group_id=group_id,
        member_id="",
        retention_time_ms=retention_ms,
        topics=[
            OffsetCommitRequestTopic(name=topic, partitions=indexes)
            for topic, indexes in topics.items()
        ],
    )
    return request, version


def fetch_request(world: "World", group_ids: list[str]) -> tuple[OffsetFetchRequest, int]:
    """Return a fetch of all or some partitions of these groups, and a version to send it in."""
    rng = world.rng
    topics = None
    if rng.random() < 0.5:
        names = rng.sample(("t0", "t1", "t2", "t9"), 2)
        topics = [OffsetFetchRequestTopic(name=name, partition_indexes=[0, 1, 3]) for name in names]
    if len(group_ids) > 1 or rng.random() < 0.5:
        groups = [OffsetFetchRequestGroup(group_id=each, topics=topics) for each in group_ids]
        return OffsetFetchRequest(groups=groups), rng.choice((8, 9))
    version = rng.randint(2 if topics is None else 1, 7)
    return OffsetFetchRequest(group_id=group_ids[0], topics=topics), version
