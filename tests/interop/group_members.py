"""Members of groups that send single requests: the test decides which step each of them takes."""

from collections.abc import Iterable
from typing import Any

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatTopicPartitions,
)
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
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
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    StreamsHeartbeatSubtopology,
    StreamsHeartbeatTaskIds,
    StreamsHeartbeatTopicInfo,
    StreamsHeartbeatTopology,
)
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.interop.model import Failed
from tests.interop.requests import ask

_TIMEOUT_MS = 300_000
_SESSION_MS = 45_000
_LEAVE, _LEAVE_FOR_A_WHILE = -1, -2
_PROTOCOL = "range"
_OFFSET_VERSION = 9


class ConsumerMember:
    """A member that speaks the consumer protocol (KIP-848).

    Attributes:
        epoch: the epoch that it was last answered.
        last_epoch: as `epoch`; after it has left, that before.
        owned: the partitions that it owns, by topic id.
    """

    def __init__(self, group: str, member_id: str, instance_id: str | None = None) -> None:
        self.epoch = self.last_epoch = 0
        self.owned: dict[bytes, list[int]] = {}
        self._group = group
        self._member_id = member_id
        self._instance_id = instance_id
        # What it was told to own, and has not acknowledged.
        self._assigned: dict[bytes, list[int]] | None = None

    def __repr__(self) -> str:
        return f"{self._member_id} at {self.epoch} with {self.owned}"

    def partitions(self) -> list[int]:
        """Return the partitions of its one topic."""
        return [index for indexes in self.owned.values() for index in indexes]

    def join(
        self, bootstrap: str, names: list[str] | None = None, regex: str | None = None
    ) -> None:
        """Join with a subscription; what it owned it has given up."""
        self.epoch, self.owned = 0, {}
        self._beat(
            bootstrap,
            rebalance_timeout_ms=_TIMEOUT_MS,
            subscribed_topic_names=names,
            subscribed_topic_regex=regex,
            topic_partitions=[],
        )
        self.acknowledge(bootstrap, sends=False)

    def beat(self, bootstrap: str) -> int:
        """Send a heartbeat that says nothing new; return the epoch."""
        self._beat(bootstrap)
        return self.epoch

    def acknowledge(self, bootstrap: str, *, sends: bool = True) -> None:
        """Own what the last answer said, and say so."""
        if self._assigned is None:
            return
        self.owned, self._assigned = self._assigned, None
        if sends:
            owned = [
                HeartbeatTopicPartitions(topic_id=topic, partitions=indexes)
                for topic, indexes in self.owned.items()
            ]
            self._beat(bootstrap, topic_partitions=owned)
            self.acknowledge(bootstrap, sends=False)

    def leave(self, bootstrap: str, *, for_a_while: bool = False) -> None:
        """Leave the group; a static member may do so for a while."""
        self.last_epoch = self.epoch
        self.epoch = _LEAVE_FOR_A_WHILE if for_a_while else _LEAVE
        self._beat(bootstrap)

    def _beat(self, bootstrap: str, **fields: Any) -> None:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member_id,
            member_epoch=self.epoch,
            instance_id=self._instance_id,
            **fields,
        )
        answer = ask(bootstrap, request, 1)
        check(answer.error_code, f"{request}: {answer.error_message}")
        self.epoch = answer.member_epoch
        if self.epoch > 0:
            self.last_epoch = self.epoch
        if answer.assignment is not None:
            self._assigned = {
                each.topic_id: list(each.partitions) for each in answer.assignment.topic_partitions
            }

    def commit(self, bootstrap: str, topic: str, offset: int) -> None:
        """Commit an offset of partition 0 at its epoch."""
        commit_first(bootstrap, self._group, self._member_id, self.epoch, topic, offset)

    def check_offset(self, bootstrap: str, topic: str, offset: int) -> None:
        """Check the committed offset of partition 0, asked for at its epoch."""
        asked = OffsetFetchRequestGroup(
            group_id=self._group,
            member_id=self._member_id,
            member_epoch=self.epoch,
            topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])],
        )
        (group,) = ask(bootstrap, OffsetFetchRequest(groups=[asked]), _OFFSET_VERSION).groups
        check(group.error_code, str(asked))
        found = group.topics[0].partitions[0].committed_offset
        if found != offset:
            raise Failed(f"the committed offset of {self._group} is {found} and not {offset}")


class StreamsMember:
    """A member of a streams group (KIP-1071) that reads one topic.

    Attributes:
        epoch: the epoch that it was last answered.
        active, standby: the tasks that it has, as the last answer that listed them did.
    """

    def __init__(self, group: str, member_id: str, topic: str, store: str | None = None) -> None:
        """Describe a member.

        Args:
            group, member_id, topic: its group, its id, and what it reads.
            store: the changelog topic of its state; None for no state.
        """
        self.epoch = 0
        self.active: list[StreamsHeartbeatTaskIds] = []
        self.standby: list[StreamsHeartbeatTaskIds] = []
        self._group = group
        self._member_id = member_id
        self._topic = topic
        self._changelogs = (
            []
            if store is None
            else [
                StreamsHeartbeatTopicInfo(
                    name=store, partitions=0, replication_factor=0, topic_configs=[]
                )
            ]
        )

    def join(self, bootstrap: str) -> None:
        """Join, as a process of its own."""
        self.take(ask(bootstrap, self.joining(), 0))

    def beat(self, bootstrap: str) -> int:
        """Send a heartbeat that says nothing new; return the epoch."""
        self.take(ask(bootstrap, self.beating(), 0))
        return self.epoch

    def confirm(self, bootstrap: str) -> int:
        """Send a heartbeat with the tasks that it has; return the epoch."""
        self.take(ask(bootstrap, self.confirming(), 0))
        return self.epoch

    def leave(self, bootstrap: str) -> None:
        """Leave the group."""
        self.epoch = _LEAVE
        self.beat(bootstrap)

    def joining(self) -> StreamsGroupHeartbeatRequest:
        """Return the heartbeat of `join`."""
        self.epoch, self.active, self.standby = 0, [], []
        subtopology = StreamsHeartbeatSubtopology(
            subtopology_id="0",
            source_topics=[self._topic],
            source_topic_regex=[],
            state_changelog_topics=self._changelogs,
            repartition_sink_topics=[],
            repartition_source_topics=[],
            copartition_groups=[],
        )
        request = self.confirming()
        request.rebalance_timeout_ms = _TIMEOUT_MS
        request.process_id = f"process-of-{self._member_id}"
        request.topology = StreamsHeartbeatTopology(epoch=0, subtopologies=[subtopology])
        return request

    def beating(self) -> StreamsGroupHeartbeatRequest:
        """Return the heartbeat of `beat`."""
        return StreamsGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member_id,
            member_epoch=self.epoch,
            endpoint_information_epoch=-1,
        )

    def confirming(self) -> StreamsGroupHeartbeatRequest:
        """Return the heartbeat of `confirm`."""
        request = self.beating()
        request.active_tasks, request.standby_tasks = self.active, self.standby
        request.warmup_tasks = []
        return request

    def take(self, answer: StreamsGroupHeartbeatResponse) -> None:
        """Take over what an answer says."""
        check(answer.error_code, f"{self._member_id}: {answer.error_message}")
        self.epoch = answer.member_epoch
        if answer.active_tasks is not None:
            self.active, self.standby = (
                [
                    StreamsHeartbeatTaskIds(
                        subtopology_id=each.subtopology_id, partitions=list(each.partitions)
                    )
                    for each in tasks or ()
                ]
                for tasks in (answer.active_tasks, answer.standby_tasks)
            )

    def commit(self, bootstrap: str, offset: int) -> None:
        """Commit an offset of partition 0 at its epoch."""
        commit_first(bootstrap, self._group, self._member_id, self.epoch, self._topic, offset)


class ClassicMember:
    """The only classic member of a group, which is its leader while the group is a classic one.

    Attributes:
        generation: its generation.
        partitions: the partitions of its topic that it owns.
    """

    def __init__(self, group: str, topic: str, session_ms: int = _SESSION_MS) -> None:
        self._session_ms = session_ms
        self.generation = -1
        self.partitions: list[int] = []
        self._group = group
        self._topic = topic
        self._member_id = ""
        self._is_leader = False
        self._has_to_sync = False

    def join(self, bootstrap: str) -> None:
        """Join the group, or its next generation."""
        subscription = ConsumerProtocolSubscription(topics=[self._topic])
        protocol = JoinGroupRequestProtocol(
            name=_PROTOCOL, metadata=encode_subscription(subscription, 1)
        )
        for _ in range(2):
            request = JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=self._session_ms,
                rebalance_timeout_ms=_TIMEOUT_MS,
                member_id=self._member_id,
                protocol_type="consumer",
                protocols=[protocol],
            )
            answer = ask(bootstrap, request, 7)
            self._member_id = answer.member_id
            if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                break
        check(answer.error_code, str(request))
        self.generation = answer.generation_id
        self._is_leader = answer.leader == self._member_id
        self._has_to_sync = True

    def sync(self, bootstrap: str, all_partitions: Iterable[int]) -> None:
        """Take over its assignment; as the leader it has assigned all partitions to itself."""
        assignment = ConsumerProtocolAssignment(
            assigned_partitions=[TopicPartition(topic=self._topic, partitions=list(all_partitions))]
        )
        own = SyncGroupRequestAssignment(
            member_id=self._member_id, assignment=encode_assignment(assignment, 1)
        )
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self.generation,
            member_id=self._member_id,
            protocol_type="consumer",
            protocol_name=_PROTOCOL,
            assignments=[own] if self._is_leader else [],
        )
        answer = ask(bootstrap, request, 5)
        check(answer.error_code, str(request))
        self._has_to_sync = False
        self.partitions = [
            index
            for each in decode_assignment(answer.assignment).assigned_partitions
            for index in each.partitions
        ]

    def go_on(self, bootstrap: str, all_partitions: Iterable[int]) -> None:
        """Send what comes next: SyncGroup, or a heartbeat, and JoinGroup if the broker wants it."""
        if self._has_to_sync:
            self.sync(bootstrap, all_partitions)
            return
        request = HeartbeatRequest(
            group_id=self._group, generation_id=self.generation, member_id=self._member_id
        )
        error = ask(bootstrap, request, 4).error_code
        if error in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
            self.join(bootstrap)
            self.sync(bootstrap, all_partitions)
        else:
            check(error, str(request))


def commit_first(
    bootstrap: str, group: str, member_id: str, epoch: int, topic: str, offset: int
) -> None:
    """Commit an offset of partition 0 of a topic for a member."""
    partition = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )
    answer = ask(bootstrap, request, _OFFSET_VERSION)
    check(answer.topics[0].partitions[0].error_code, str(request))


def check(error: int, what: str) -> None:
    """Check that there is no error.

    Raises:
        Failed: there is one.
    """
    if error:
        raise Failed(f"{what}: {ErrorCode(error).name}")
