"""Random conversations of consumer members, classic members and administrators, from a seed."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from coterie.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
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
from coterie.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
)
from coterie.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from coterie.protocol.messages.list_groups import ListGroupsRequest
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

_MEMBERS = ("m1", "m2", "m3", "m4", "m5")
# Both have the same instance id.
_STATIC = ("m4", "m5")
_CLASSIC = ("c1", "c2")
_INSTANCES = ("i1", "i2")


@dataclass
class Known:
    """What a member has learnt from its answers."""

    epoch: int = 0
    assigned: dict[bytes, list[int]] = field(default_factory=dict)
    member_id: str = ""
    protocol: str = "range"


@dataclass
class Conversation:
    """The requests of one conversation.

    They are made one after the other: a request may say what the members have learnt from the
    answers of Kafka, which are those of Coterie as long as nothing differs.

    Attributes:
        name: the beginning of all names in it.
        random: makes all choices.
        length: how many requests it has.
        topic_ids: the ids of the topics, by name.
        regexes: how many joiners subscribe to a regular expression.
        topic_changes: how many requests change topics.
    """

    name: str
    random: random.Random
    length: int
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    regexes: float = 0.0
    topic_changes: float = 0.0

    def __post_init__(self) -> None:
        self.topics = {f"{self.name}-a": 6, f"{self.name}-b": 3, f"{self.name}-c": 1}
        self.groups: tuple[str, ...] = (f"{self.name}-g", f"{self.name}-h")
        self.settings = {self.groups[1]: {"consumer.assignment.interval.ms": "15000"}}
        self.known: dict[tuple[str, str], Known] = {}

    def requests(self) -> Iterator[tuple[Any, int]]:
        """Yield each request with its version."""
        kinds: dict[Callable[[], tuple[Any, int]], int] = {
            self._heartbeat: 60,
            self._classic_join: 8,
            self._classic_sync: 8,
            self._classic_heartbeat: 7,
            self._classic_leave: 2,
            self._describe: 6,
            self._describe_classic: 1,
            self._list: 2,
            self._commit: 7,
            self._fetch: 5,
            self._delete_offsets: 1,
            self._delete_groups: 1,
        }
        for _ in range(self.length):
            if self._maybe(self.topic_changes):
                yield self._topic_change()
                continue
            (kind,) = self.random.choices(list(kinds), list(kinds.values()))
            yield kind()

    # -- choices -----------------------------------------------------------------------------------

    def _maybe(self, share: float) -> bool:
        return self.random.random() < share

    def _group(self) -> str:
        return (
            self.groups[0]
            if self._maybe(0.85)
            else self.random.choice((*self.groups, f"{self.name}-x"))
        )

    def _of(self, group: str, name: str) -> Known:
        return self.known.setdefault((group, name), Known())

    def _names(self, least: int = 0) -> list[str]:
        names = list(dict.fromkeys([*self.topics, f"{self.name}-absent"]))
        return self.random.sample(names, self.random.choice((least, 1, 1, 2, 2, 3)))

    def _regex(self) -> str:
        return self.random.choice((f"{self.name}-[ab]", f"{self.name}-.*", f"{self.name}-x.*", "["))

    def _owned(self, known: Known) -> list[HeartbeatTopicPartitions] | None:
        owned = {topic: list(indexes) for topic, indexes in known.assigned.items()}
        if self._maybe(0.1) and owned:
            del owned[self.random.choice(list(owned))]
        if self._maybe(0.05):
            owned[self.topic_ids[self.random.choice(list(self.topics))]] = [0]
        return [
            HeartbeatTopicPartitions(topic_id=topic, partitions=indexes)
            for topic, indexes in owned.items()
        ]

    def _topic_change(self) -> tuple[Any, int]:
        absent, first = f"{self.name}-absent", f"{self.name}-a"
        if absent not in self.topics and self._maybe(0.5):
            self.topics[absent] = 2
            topic = CreateTopicsRequestTopic(name=absent, num_partitions=2, replication_factor=1)
            return CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7
        self.topics[first] += 1
        grown = CreatePartitionsRequestTopic(name=first, count=self.topics[first], assignments=None)
        request = CreatePartitionsRequest(topics=[grown], timeout_ms=10_000, validate_only=False)
        return request, 3

    # -- the consumer protocol ---------------------------------------------------------------------

    def _heartbeat(self) -> tuple[Any, int]:  # noqa: C901 - each choice stands alone
        group, name = self._group(), self.random.choice(_MEMBERS)
        known = self._of(group, name)
        version = 1
        epoch = known.epoch
        if self._maybe(0.12):
            epoch = self.random.choice((0, 0, -1, -2, epoch + 1, epoch - 1, epoch - 1, -3))
        instance = "i1" if name in _STATIC else None
        # Not for joins [consumer-groups/static-members].
        if epoch in (-1, -2) and self._maybe(0.2):
            instance = self.random.choice((None, *_INSTANCES))
        request = ConsumerGroupHeartbeatRequest(
            group_id=group, member_id=name, member_epoch=epoch, instance_id=instance
        )
        if epoch == 0:
            request.rebalance_timeout_ms = 300_000
            request.topic_partitions = []
            # A joiner without topics may make Kafka take the topics of all others away
            # [consumer-groups/joiner-without-topics].
            request.subscribed_topic_names = self._names(1)
            if self._maybe(self.regexes):
                request.subscribed_topic_regex = self._regex()
                request.subscribed_topic_names = self.random.choice(([], None, self._names(1)))
            if self._maybe(0.2):
                request.server_assignor = self.random.choice(("uniform", "range"))
            if self._maybe(0.03):
                request.topic_partitions = None
            if self._maybe(0.03):
                request.rebalance_timeout_ms = -1
        elif epoch > 0:
            if self._maybe(0.55):
                request.topic_partitions = self._owned(known)
            if self._maybe(0.08):
                request.subscribed_topic_names = self._names()
            if self._maybe(self.regexes / 4):
                request.subscribed_topic_regex = self.random.choice((self._regex(), ""))
            if self._maybe(0.06):
                request.rebalance_timeout_ms = self.random.choice((300_000, 200_000))
            if self._maybe(0.05):
                request.server_assignor = self.random.choice(("uniform", "range", "other", ""))
            if self._maybe(0.03):
                request.rack_id = self.random.choice(("r1", "r2", " "))
        return request, version

    def _describe(self) -> tuple[Any, int]:
        groups = [self._group() for _ in range(self.random.choice((1, 1, 2)))]
        if self._maybe(0.05):
            groups.append("")
        groups = list(dict.fromkeys(groups))
        request = ConsumerGroupDescribeRequest(
            group_ids=groups, include_authorized_operations=self._maybe(0.2)
        )
        return request, self.random.randint(0, 1)

    # -- classic members ---------------------------------------------------------------------------

    def _classic_join(self) -> tuple[Any, int]:
        group, name = self._group(), self.random.choice(_CLASSIC)
        known = self._of(group, name)
        instance = "i2" if name == "c2" else None
        member_id = known.member_id if self._maybe(0.95) else "made-up"
        owned = [
            TopicPartition(topic=self._topic_name(topic), partitions=indexes)
            for topic, indexes in known.assigned.items()
            if known.protocol == "cooperative-sticky"
        ]
        subscription = ConsumerProtocolSubscription(
            topics=self._names() or [f"{self.name}-a"], owned_partitions=owned
        )
        metadata = encode_subscription(subscription, self.random.choice((1, 2, 3)))
        if self._maybe(0.02):
            metadata = b"\0"
        protocols = [known.protocol]
        if self._maybe(0.1):
            protocols = self.random.choice(
                (["range", "roundrobin"], ["other"], ["cooperative-sticky"])
            )
            known.protocol = protocols[0]
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type="consumer" if self._maybe(0.98) else "connect",
            protocols=[
                JoinGroupRequestProtocol(name=each, metadata=metadata) for each in protocols
            ],
        )
        return request, self.random.choice((5, 7, 9))

    def _classic_sync(self) -> tuple[Any, int]:
        group, name = self._group(), self.random.choice(_CLASSIC)
        known = self._of(group, name)
        epoch = known.epoch + self.random.choice((0,) * 12 + (1, -1))
        assignment = encode_assignment(
            ConsumerProtocolAssignment(
                assigned_partitions=[TopicPartition(topic=f"{self.name}-a", partitions=[0, 1, 2])]
            )
        )
        request = SyncGroupRequest(
            group_id=group,
            generation_id=epoch,
            member_id=known.member_id,
            group_instance_id="i2" if name == "c2" else None,
            protocol_type="consumer" if self._maybe(0.95) else "connect",
            protocol_name=known.protocol if self._maybe(0.95) else "other",
            assignments=[
                SyncGroupRequestAssignment(member_id=known.member_id, assignment=assignment)
            ],
        )
        return request, self.random.choice((3, 5))

    def _classic_heartbeat(self) -> tuple[Any, int]:
        group, name = self._group(), self.random.choice(_CLASSIC)
        known = self._of(group, name)
        epoch = known.epoch + self.random.choice((0,) * 12 + (1, -1))
        member_id = known.member_id if self._maybe(0.95) else self.random.choice(("m1", "nobody"))
        request = HeartbeatRequest(
            group_id=group,
            generation_id=epoch,
            member_id=member_id,
            group_instance_id="i2" if name == "c2" else None,
        )
        return request, self.random.choice((3, 4))

    def _classic_leave(self) -> tuple[Any, int]:
        group = self._group()
        who = self.random.choice(("c1", "c1", "c2", "m1", "i1", "i2", "nobody"))
        if who in _CLASSIC:
            member_id, instance = self._of(group, who).member_id, None
        elif who in _INSTANCES:
            member_id, instance = self.random.choice(("", "", "m1")), who
        else:
            member_id, instance = who, None
        member = LeaveGroupRequestMember(member_id=member_id, group_instance_id=instance)
        return LeaveGroupRequest(group_id=group, members=[member]), self.random.choice((3, 5))

    # -- offsets and administration ----------------------------------------------------------------

    def _identity(self, group: str) -> tuple[str, int]:
        name = self.random.choice((*_MEMBERS, *_CLASSIC))
        known = self._of(group, name)
        member_id = known.member_id if name in _CLASSIC else name
        epoch = known.epoch
        if self._maybe(0.3):
            epoch += self.random.choice((-1, -1, -2, 1))
        if self._maybe(0.15):
            member_id, epoch = self.random.choice((("", -1), ("nobody", 1), ("nobody", -1)))
        return member_id, epoch

    def _commit(self) -> tuple[Any, int]:
        group = self._group()
        member_id, epoch = self._identity(group)
        version = self.random.choice((8, 9, 9, 10))
        partitions = {(f"{self.name}-a", self.random.randrange(6))}
        if self._maybe(0.4):
            partitions.add((f"{self.name}-b", self.random.randrange(3)))
        topics = [
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=self.topic_ids[topic],
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=index, committed_offset=7, committed_metadata=""
                    )
                ],
            )
            for topic, index in sorted(partitions)
        ]
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=topics,
        )
        return request, version

    def _fetch(self) -> tuple[Any, int]:
        group = self._group()
        member_id: str | None
        member_id, epoch = self._identity(group)
        if self._maybe(0.3):
            member_id, epoch = None, self.random.choice((-1, -1, 1))
        asked = OffsetFetchRequestGroup(
            group_id=group, member_id=member_id, member_epoch=epoch, topics=None
        )
        return OffsetFetchRequest(groups=[asked]), 9

    def _delete_offsets(self) -> tuple[Any, int]:
        topics = [
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
            )
            for name in self.topics
        ]
        return OffsetDeleteRequest(group_id=self._group(), topics=topics), 0

    def _delete_groups(self) -> tuple[Any, int]:
        return DeleteGroupsRequest(groups_names=[self._group()]), 2

    def _describe_classic(self) -> tuple[Any, int]:
        return DescribeGroupsRequest(groups=[self._group()]), self.random.choice((5, 6))

    def _list(self) -> tuple[Any, int]:
        states = self.random.choice(([], ["stable"], ["Reconciling", "Assigning"], ["Empty"]))
        types = self.random.choice(([], ["Consumer"], ["classic"]))
        return ListGroupsRequest(states_filter=states, types_filter=types), 5

    # -- answers -----------------------------------------------------------------------------------

    def learn(self, request: Any, answer: Any) -> None:
        """Let a member learn from the answer of its broker."""
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            known = self._of(request.group_id, request.member_id)
            if answer.error_code:
                if answer.error_code in (25, 110, 69, 82):
                    known.epoch, known.assigned = 0, {}
                return
            known.epoch = max(answer.member_epoch, 0)
            if answer.member_epoch < 0:
                known.assigned = {}
            elif answer.assignment is not None and self._maybe(0.8):
                known.assigned = {
                    each.topic_id: list(each.partitions)
                    for each in answer.assignment.topic_partitions
                }
        elif isinstance(request, JoinGroupRequest):
            name = "c2" if request.group_instance_id is not None else "c1"
            known = self._of(request.group_id, name)
            if answer.error_code in (0, 79):
                known.member_id = answer.member_id
            elif answer.error_code == 25:
                known.member_id = ""
            if not answer.error_code:
                known.epoch = answer.generation_id
        elif isinstance(request, SyncGroupRequest) and not answer.error_code:
            name = "c2" if request.group_instance_id is not None else "c1"
            known = self._of(request.group_id, name)
            if answer.assignment:
                known.assigned = {
                    self.topic_ids.get(each.topic, b""): list(each.partitions)
                    for each in decode_assignment(answer.assignment).assigned_partitions
                }

    def _topic_name(self, topic_id: bytes) -> str:
        names = {each: name for name, each in self.topic_ids.items()}
        return names.get(topic_id, "gone")
