"""A member of a streams group (KIP-1071), without input and output.

Its topology has a subtopology for each topic, without state, so its tasks are the partitions of the
topics. The heartbeat with which it joins says everything; a later one lists its tasks only after
these have changed. It chooses its member id and is a process of its own.
"""

from collections.abc import Iterable, Sequence

from coterie.assignors.model import TopicPartition
from coterie.conversation.consumer_protocol_member import FENCED, JOIN_EPOCH, LEAVE_EPOCH
from coterie.conversation.member import Member
from coterie.conversation.subscriptions import by_topic
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsHeartbeatSubtopology,
    StreamsHeartbeatTaskIds,
    StreamsHeartbeatTopology,
)

# The epoch that a member sends which has no endpoints of others yet.
_NO_ENDPOINTS = -1


class StreamsMember(Member):
    """One member.

    Attributes:
        names: the topics that it reads.
        interval_ms: the time between two heartbeats, as the latest answer said.
    """

    def __init__(
        self, group_id: str, member_id: str, *, names: Sequence[str], rebalance_ms: int
    ) -> None:
        """Describe a member that has not joined."""
        super().__init__(group_id, rebalance_ms=rebalance_ms, instance_id=None)
        self.member_id = member_id
        self.generation_id = JOIN_EPOCH
        self.names = names
        self.interval_ms = 0
        self._said: frozenset[TopicPartition] | None = None

    def heartbeat_request(self, owned: Iterable[TopicPartition]) -> StreamsGroupHeartbeatRequest:
        """Return its next heartbeat, as the one that has some partitions."""
        has = frozenset(owned)
        request = self._request(self.generation_id)
        joins = self.generation_id == JOIN_EPOCH
        if joins:
            request.rebalance_timeout_ms = self.rebalance_ms
            request.process_id = self.member_id
            request.topology = self._topology()
        if joins or has != self._said:
            request.active_tasks = self._tasks(has)
            request.standby_tasks, request.warmup_tasks = [], []
            self._said = has
        return request

    def leave_request(self) -> StreamsGroupHeartbeatRequest:
        """Return the heartbeat of a member that leaves."""
        return self._request(LEAVE_EPOCH)

    def take(self, response: StreamsGroupHeartbeatResponse) -> frozenset[TopicPartition] | None:
        """Take the answer to a heartbeat.

        Returns:
            The partitions of the tasks that it shall have; None if the answer does not say.
        """
        if response.error_code:
            # What was said may not have arrived.
            self._said = None
            if response.error_code in FENCED:
                self.generation_id = JOIN_EPOCH
            return None
        self.generation_id = response.member_epoch
        self.interval_ms = response.heartbeat_interval_ms
        if response.active_tasks is None:
            return None
        return frozenset(
            TopicPartition(self.names[int(each.subtopology_id)], index)
            for each in response.active_tasks
            for index in each.partitions
        )

    def _request(self, epoch: int) -> StreamsGroupHeartbeatRequest:
        return StreamsGroupHeartbeatRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            member_epoch=epoch,
            endpoint_information_epoch=_NO_ENDPOINTS,
        )

    def _topology(self) -> StreamsHeartbeatTopology:
        return StreamsHeartbeatTopology(
            epoch=0,
            subtopologies=[
                StreamsHeartbeatSubtopology(
                    subtopology_id=str(number),
                    source_topics=[name],
                    source_topic_regex=[],
                    state_changelog_topics=[],
                    repartition_sink_topics=[],
                    repartition_source_topics=[],
                    copartition_groups=[],
                )
                for number, name in enumerate(self.names)
            ],
        )

    def _tasks(self, partitions: Iterable[TopicPartition]) -> list[StreamsHeartbeatTaskIds]:
        return [
            StreamsHeartbeatTaskIds(
                subtopology_id=str(self.names.index(each.topic)), partitions=each.partitions
            )
            for each in by_topic(sorted(partitions))
        ]
