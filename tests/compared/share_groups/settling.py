"""Wait until Kafka has done what it does in the background about a group.

Coterie has done it when it answers. How long Kafka needs depends on what else the machine does, so
its answers are what is waited for, not a time. What is still different after that is compared.
"""

import time
from typing import Any

from coterie.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
)
from coterie.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from tests.compared.share_groups.administration import GROUP_RESOURCE
from tests.compared.transactions.side import Side

_TRIES = 600
_PAUSE_S = 0.05


def settle(sides: list[Side], group: str) -> None:
    """Wait until a group has the same settings and initialised partitions in both brokers."""
    for _ in range(_TRIES):
        kafka, ours = (_view(side, group) for side in sides)
        if kafka == ours:
            return
        time.sleep(_PAUSE_S)


def _view(side: Side, group: str) -> Any:
    of_group = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None)
    offsets: Any = side.call(DescribeShareGroupOffsetsRequest(groups=[of_group]), 1)
    initialized = {
        (topic.topic_name, part.partition_index)
        for topic in offsets.groups[0].topics
        for part in topic.partitions
    }
    resource = DescribeConfigsRequestResource(
        resource_type=GROUP_RESOURCE, resource_name=group, configuration_keys=None
    )
    found: Any = side.call(DescribeConfigsRequest(resources=[resource]), 4)
    settings = {each.name: each.value for each in found.results[0].configs}
    return initialized, settings
