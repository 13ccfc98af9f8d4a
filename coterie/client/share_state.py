"""The records of a share group in `__share_group_state`, read from any broker that has the topic.

They say what became of each delivery, which no request does. The topic is not compacted: brokers
delete what is older than the latest snapshots [share-partitions/state-pruning].
"""

from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.errors import ClientError
from coterie.client.offsets import EARLIEST, partition_offsets
from coterie.client.records import fetch_each
from coterie.client.topics import describe_topics
from coterie.protocol.records import Record
from coterie.protocol.topic_names import SHARE_GROUPS_TOPIC

# A key begins with its type, which is followed by the length of the group id and the group id.
_TYPE_BYTES = 2


class NoShareState(ClientError):  # noqa: N818 - the name says what is wrong
    """The broker has no share groups, or does not show their states."""


def state_records(cluster: Cluster, group_id: str) -> dict[int, list[Record]]:
    """Return the records of a group by partition of the topic, in their order.

    Raises:
        NoShareState: there is no such topic, or it is not shown to this client.
        ClientError: it cannot be read.
    """
    (topic,) = describe_topics(cluster, [SHARE_GROUPS_TOPIC])
    if topic.error or not topic.partitions:
        raise NoShareState(
            f"The broker does not show the topic {SHARE_GROUPS_TOPIC}, which has the deliveries of"
            " share groups: it has none, or this client may not read the topic."
        )
    partitions = [(SHARE_GROUPS_TOPIC, each.partition_index) for each in topic.partitions]
    offsets = partition_offsets(cluster, dict.fromkeys(partitions, EARLIEST))
    encoded = group_id.encode()
    key = len(encoded).to_bytes(2, "big") + encoded
    found: dict[int, list[Record]] = {}
    while offsets:
        rest: dict[TopicPartition, int] = {}
        for partition, each in fetch_each(cluster, offsets).items():
            found.setdefault(partition[1], []).extend(
                one for one in each.records if (one.key or b"").startswith(key, _TYPE_BYTES)
            )
            # A partition that the response had no room for has its turn with the next request.
            if each.next_offset < each.end_offset:
                rest[partition] = each.next_offset
        if rest == offsets:
            break
        offsets = rest
    return found
