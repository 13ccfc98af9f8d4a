"""What is wrong with the deliveries of a share group of a broker that runs.

The records of its states in `__share_group_state` are read with our own client, and judged by the
rules of the pipeline's findings [pipeline/share-findings].
"""

from collections.abc import Sequence
from typing import Any

from coterie.client.cluster import Cluster
from coterie.client.share_state import state_records
from coterie.client.topics import describe_topics
from coterie.pipeline.findings.finding import Finding
from coterie.pipeline.findings.of_journal import recorded
from coterie.pipeline.findings.precedence import without_explained
from coterie.pipeline.findings.shares import ShareRows, findings_of
from coterie.pipeline.timeline.columns import (
    delivery_columns,
    poison_columns,
    shared_partition_columns,
)
from coterie.pipeline.timeline.share_partitions import ShareStory, story_of
from coterie.protocol.messages.share_facts import LOCK_TIMEOUT


def share_story(cluster: Cluster, group_id: str, facts: Sequence[Any] = ()) -> ShareStory:
    """Read the deliveries of a group that are still recorded.

    Args:
        cluster: the cluster.
        group_id: the group.
        facts: the facts of its journal.

    Raises:
        NoShareState: the broker does not show the states of share groups.
        ClientError: they cannot be read.
    """
    names = {
        each.topic_id: each.name for each in describe_topics(cluster) if each.topic_id is not None
    }
    records = (
        (record.key, record.value, record.timestamp_ms, record.offset)
        for records in state_records(cluster, group_id).values()
        for record in records
    )
    return story_of(records, names, facts)


def delivery_findings(
    cluster: Cluster, group_id: str, facts: Sequence[Any], since_ms: int, now_ms: int
) -> list[Finding]:
    """Return what is wrong with the deliveries of a group since some time.

    Args:
        cluster, group_id, facts: see `share_story`.
        since_ms, now_ms: from when to when, in epoch milliseconds.

    Raises:
        NoShareState, ClientError: see `share_story`.
    """
    story = share_story(cluster, group_id, facts)
    partitions = story.partitions.values()
    expired = [each for each in story.deliveries if each.ended_by == LOCK_TIMEOUT]
    rows = ShareRows(
        [shared_partition_columns(group_id, each) for each in partitions],
        [
            poison_columns(group_id, partition, each)
            for partition in partitions
            for each in partition.poison.values()
            if each.last_ms >= since_ms
        ],
        [delivery_columns(group_id, each) for each in expired if each.delivery.at_ms >= since_ms],
    )
    return without_explained(list(findings_of(recorded(group_id, facts, now_ms), rows)))
