"""What administrators, and share coordinators' other clients, ask about share groups."""

import random
from typing import Any

from coterie.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from coterie.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteStatePartition,
    DeleteStateTopic,
)
from coterie.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
)
from coterie.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from coterie.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStatePartition,
    InitializeStateTopic,
)
from coterie.protocol.messages.list_groups import ListGroupsRequest
from coterie.protocol.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadStatePartition,
    ReadStateTopic,
)
from coterie.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryPartition,
    ReadStateSummaryTopic,
)
from coterie.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from coterie.protocol.messages.share_state_batch import ShareStateBatch
from coterie.protocol.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteStatePartition,
    WriteStateTopic,
)
from tests.compared.share_groups.parts import Asked, Plain

GROUP_RESOURCE = 32
_ISOLATION = "share.isolation.level"
# Settings of groups, with values of which some are refused.
_SETTINGS = {
    "share.delivery.count.limit": ("2", "3", "5", "10", "1", "11"),
    "share.partition.max.record.locks": ("100", "2000", "99"),
    _ISOLATION: ("read_committed", "read_uncommitted", "serializable"),
    "share.renew.acknowledge.enable": ("true", "false", "maybe"),
    "share.auto.offset.reset": ("earliest", "latest", "by_duration:PT1H", "by_duration:P9", "none"),
    "share.heartbeat.interval.ms": ("5000", "6000", "4999"),
}


def alter_group(group: str, name: str, value: str | None) -> Asked:
    """Return a change of one setting of a group; without a value it is removed."""
    config = IncrementalAlterConfigsRequestConfig(
        name=name, config_operation=0 if value is not None else 1, value=value
    )
    resource = IncrementalAlterConfigsRequestResource(
        resource_type=GROUP_RESOURCE, resource_name=group, configs=[config]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
    return Asked(Plain(1, request), settles=group)


def has_no_partition(asked: Asked, topics: dict[str, int]) -> bool:
    """Return whether none of the partitions exists that `alter_offsets` names of some topic.

    Args:
        asked: the request.
        topics: by name the number of the partitions of topics.
    """
    request: Any = asked.step.request(None)  # type: ignore[arg-type]
    return any(
        all(part.partition_index >= topics[topic.topic_name] for part in topic.partitions)
        for topic in request.topics
    )


class Administrator:
    """Makes requests about groups and states.

    Attributes:
        random: makes all choices.
    """

    def __init__(self, chance: random.Random) -> None:
        """Begin.

        Args:
            chance: makes all choices.
        """
        self.random = chance

    def _maybe(self, share: float) -> bool:
        return self.random.random() < share

    def change_settings(self, group: str, *, is_reading: bool) -> Asked:
        """Change a setting of a group.

        Args:
            group: the group.
            is_reading: whether a member may have acquired records. In Kafka it loses those of
                aborted transactions if the group does not see them any more
                [share-partitions/acquisition].
        """
        settings = [each for each in _SETTINGS if not is_reading or each != _ISOLATION]
        name = self.random.choice(settings)
        return alter_group(group, name, self.random.choice((*_SETTINGS[name], None)))

    # -- groups ------------------------------------------------------------------------------------

    def describe(self, groups: list[str]) -> Asked:
        """Describe groups."""
        if self._maybe(0.06):
            groups = [*groups, ""]
        request = ShareGroupDescribeRequest(
            group_ids=groups, include_authorized_operations=self._maybe(0.2)
        )
        return Asked(Plain(1, request))

    def list_groups(self) -> Asked:
        """List groups."""
        states = self.random.choice(([], ["stable"], ["Empty"], ["EMPTY", "bogus"]))
        types = self.random.choice(([], ["share"], ["SHARE"], ["bogus"]))
        return Asked(Plain(5, ListGroupsRequest(states_filter=states, types_filter=types)))

    def delete_group(self, group: str) -> Asked:
        """Delete a group."""
        return Asked(Plain(2, DeleteGroupsRequest(groups_names=[group])), settles=group)

    # -- offsets -----------------------------------------------------------------------------------

    def describe_offsets(self, group: str, topics: dict[str, int]) -> Asked:
        """Describe the offsets of a group."""
        asked = None
        if self._maybe(0.5):
            names = self.random.sample(
                list(topics), min(len(topics), self.random.choice((0, 1, 2)))
            )
            asked = [
                DescribeShareGroupOffsetsRequestTopic(
                    topic_name=name, partitions=list(range(topics[name]))
                )
                for name in names
            ]
        of_group = DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=asked)
        request = DescribeShareGroupOffsetsRequest(groups=[of_group])
        return Asked(Plain(self.random.choice((0, 1, 1, 1)), request))

    def alter_offsets(
        self, group: str, topics: dict[str, int], appended: dict[tuple[str, int], int]
    ) -> Asked:
        """Set the start offsets of a group.

        Args:
            group: the group.
            topics: by name the number of their partitions.
            appended: how many records the partitions have at least. Kafka answers a fetch of an
                offset behind the end at once [share-partitions/log-start].
        """
        names = self.random.sample(list(topics), min(len(topics), self.random.choice((1, 1, 2))))
        request = AlterShareGroupOffsetsRequest(
            group_id=group,
            topics=[
                AlterShareGroupOffsetsRequestTopic(
                    topic_name=name,
                    partitions=[
                        AlterShareGroupOffsetsRequestPartition(
                            partition_index=index if self._maybe(0.95) else 7,
                            start_offset=self.random.choice(
                                (0, 0, 1 if appended.get((name, index)) else 0, -1)
                            ),
                        )
                        for index in range(topics[name])
                    ],
                )
                for name in names
            ],
        )
        return Asked(Plain(0, request), settles=group)

    def delete_offsets(self, group: str, topics: list[str]) -> Asked:
        """Delete the start offsets of a group."""
        request = DeleteShareGroupOffsetsRequest(
            group_id=group,
            topics=[
                DeleteShareGroupOffsetsRequestTopic(topic_name=each)
                for each in self.random.sample(topics, min(len(topics), 2))
            ],
        )
        return Asked(Plain(0, request), settles=group)

    # -- the share coordinator ---------------------------------------------------------------------

    def read(self, group: str, where: tuple[bytes, int]) -> Asked:
        """Read a state as a leader does."""
        topic_id, index = where
        part = ReadStatePartition(partition=index, leader_epoch=self.random.choice((0, 0, 0, -1)))
        topic = ReadStateTopic(topic_id=topic_id, partitions=[part])
        return Asked(Plain(0, ReadShareGroupStateRequest(group_id=group, topics=[topic])))

    def summary(self, group: str, where: tuple[bytes, int]) -> Asked:
        """Read the summary of a state."""
        topic_id, index = where
        part = ReadStateSummaryPartition(
            partition=index, leader_epoch=self.random.choice((0, 0, -1, 3))
        )
        topic = ReadStateSummaryTopic(topic_id=topic_id, partitions=[part])
        request = ReadShareGroupStateSummaryRequest(group_id=group, topics=[topic])
        return Asked(Plain(self.random.choice((0, 1)), request))

    def write(self, group: str, where: tuple[bytes, int], state_epoch: int) -> Asked:
        """Write states as a leader does."""
        topic_id, index = where
        batches = []
        for _ in range(self.random.choice((0, 1, 1, 2, 4))):
            first = self.random.randrange(30)
            batches.append(
                ShareStateBatch(
                    first_offset=first,
                    last_offset=first + self.random.randrange(8),
                    delivery_state=self.random.choice((0, 0, 2, 2, 4)),
                    delivery_count=self.random.choice((1, 1, 2, 3, 0)),
                )
            )
        version = self.random.choice((0, 1))
        part = WriteStatePartition(
            partition=index,
            state_epoch=state_epoch + self.random.choice((0,) * 8 + (-1, 1)),
            leader_epoch=self.random.choice((0, 0, 0, -1)),
            start_offset=self.random.choice((-1, 0, 3, 10, 12)),
            state_batches=batches,
        )
        if version:
            part.delivery_complete_count = self.random.choice((-1, 0, 2))
        topic = WriteStateTopic(topic_id=topic_id, partitions=[part])
        request = WriteShareGroupStateRequest(group_id=group, topics=[topic])
        return Asked(Plain(version, request))

    def initialize(self, group: str, where: tuple[bytes, int], state_epoch: int) -> Asked:
        """Begin a state anew."""
        topic_id, index = where
        part = InitializeStatePartition(
            partition=index if self._maybe(0.95) else self.random.choice((-1, 9)),
            state_epoch=state_epoch + self.random.choice((0, 0, 1, -1)),
            start_offset=self.random.choice((-1, 0, 4)),
        )
        topic = InitializeStateTopic(topic_id=topic_id, partitions=[part])
        return Asked(Plain(0, InitializeShareGroupStateRequest(group_id=group, topics=[topic])))

    def delete_state(self, group: str, where: tuple[bytes, int]) -> Asked:
        """Delete a state."""
        topic_id, index = where
        topic = DeleteStateTopic(
            topic_id=topic_id, partitions=[DeleteStatePartition(partition=index)]
        )
        request: Any = DeleteShareGroupStateRequest(group_id=group, topics=[topic])
        return Asked(Plain(0, request))
