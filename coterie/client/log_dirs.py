"""The log directories of brokers and the sizes of what is in them.

DescribeLogDirs is sent to each broker for all topics, since a request for some must name
partitions; topics are filtered here.
"""

from collections.abc import Collection
from typing import NamedTuple

from coterie.client.cluster import Cluster
from coterie.client.errors import Refused, error_name
from coterie.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)

UNKNOWN = -1


class LogPartition(NamedTuple):
    """A partition in a log directory.

    Attributes:
        topic, partition: which one.
        size_bytes: the size of its log.
        offset_lag: how many records it is behind its leader or its current copy.
        is_future: whether it will replace a copy in another directory.
    """

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDir(NamedTuple):
    """A log directory of a broker.

    Attributes:
        broker: the id of the broker.
        path: the directory.
        error: the name of its error; None if it can be used.
        total_bytes, usable_bytes: of its volume; -1 if the broker does not say.
        partitions: what is in it, in order.
    """

    broker: int
    path: str
    error: str | None
    total_bytes: int
    usable_bytes: int
    partitions: list[LogPartition]


def describe_log_dirs(
    cluster: Cluster, topics: Collection[str], brokers: Collection[int]
) -> list[LogDir]:
    """Return the log directories.

    Args:
        cluster: the cluster.
        topics: only partitions of these topics; none for all.
        brokers: only these brokers; none for all.

    Raises:
        ClientError: a broker cannot be asked or refuses the request.
    """
    found = []
    for node in cluster.brokers():
        if brokers and node.node_id not in brokers:
            continue
        # All topics: a request for some has to name their partitions.
        request = DescribeLogDirsRequest(topics=None)
        response = cluster.call_node(node, request, DescribeLogDirsResponse)
        if response.error_code:
            raise Refused(response.error_code, f"The log directories of broker {node.node_id}")
        for each in response.results:
            partitions = [
                LogPartition(
                    topic.name,
                    one.partition_index,
                    one.partition_size,
                    one.offset_lag,
                    one.is_future_key,
                )
                for topic in each.topics
                if not topics or topic.name in topics
                for one in topic.partitions
            ]
            found.append(
                LogDir(
                    node.node_id,
                    each.log_dir,
                    error_name(each.error_code) if each.error_code else None,
                    each.total_bytes,
                    each.usable_bytes,
                    sorted(partitions),
                )
            )
    return found
