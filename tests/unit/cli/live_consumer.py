"""A member of a consumer group (KIP-848), one heartbeat after the other."""

from collections.abc import Sequence
from typing import Any

from coterie.client.cluster import Cluster
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    HeartbeatTopicPartitions,
)

GROUP = "g"
REBALANCE_MS = 30_000


class Consumer:
    """A member of the group `g`.

    Attributes:
        member_id, epoch: of the member.
        owned: what it was told to own, by topic id.
    """

    def __init__(
        self,
        cluster: Cluster,
        member_id: str,
        *names: str,
        regex: str = "",
        instance: str | None = None,
    ) -> None:
        """Join."""
        self.cluster, self.member_id, self.epoch = cluster, member_id, 0
        self.instance = instance
        self.owned: dict[bytes, list[int]] = {}
        self._beat(
            subscribed_topic_names=list(names), subscribed_topic_regex=regex or None,
            rebalance_timeout_ms=REBALANCE_MS,
        )  # fmt: skip

    def beat(self) -> None:
        """Send a heartbeat that reports what it owns."""
        self._beat()

    def leave(self) -> None:
        """Leave the group; a static member keeps its place."""
        self.epoch = -1 if self.instance is None else -2
        self._beat()

    def _beat(self, **fields: Any) -> None:
        owned = [
            HeartbeatTopicPartitions(topic_id=topic, partitions=indexes)
            for topic, indexes in self.owned.items()
        ]
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=self.epoch,
            instance_id=self.instance,
            topic_partitions=owned, **fields,
        )  # fmt: skip
        found = self.cluster.call_coordinators(
            [GROUP],
            lambda _: request,
            ConsumerGroupHeartbeatResponse,
            lambda response: {GROUP: (response.error_code, response)},
        )[GROUP]
        assert not found.error_code, found
        self.epoch = found.member_epoch
        if found.assignment is not None:
            self.owned = {
                each.topic_id: each.partitions for each in found.assignment.topic_partitions
            }


def settle(consumers: Sequence[Consumer], rounds: int = 4) -> None:
    """Let members send heartbeats until everybody has what it shall have."""
    for _ in range(rounds):
        for each in consumers:
            each.beat()
