"""Random conversations of streams members and administrators, from a seed."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
)
from coterie.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
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
from coterie.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsHeartbeatEndpoint,
    StreamsHeartbeatKeyValue,
    StreamsHeartbeatTaskIds,
)
from tests.compared.group_conversations import group_settings
from tests.compared.streams_groups.topologies import READY, TOPOLOGIES, refused, topology

_MEMBERS = ("m1", "m2", "m3", "m4", "m5")
_PROCESSES = {"m1": "p1", "m2": "p1", "m3": "p2", "m4": "p3", "m5": "p4"}
# Of those members that answer queries.
_ENDPOINTS = {"m1": 7001, "m3": 7003, "m4": 7004}
_ROLES = ("active_tasks", "standby_tasks", "warmup_tasks")
_ENDPOINTS_OR_CHANGES = 0.5
# An epoch of endpoints that no group reaches in a conversation.
_NO_EPOCH = -1
_LOST = (25, 110, 69)

Tasks = dict[str, list[int]]


@dataclass
class Known:
    """What a member has learnt from its answers."""

    epoch: int = 0
    tasks: dict[str, Tasks] = field(default_factory=dict)
    endpoint_epoch: int = _NO_EPOCH


class Conversation:
    """The requests of one conversation.

    They are made one after the other: a request may say what the members have learnt from the
    answers of Kafka, which are those of Coterie as long as nothing differs.
    """

    def __init__(self, name: str, chance: random.Random, length: int) -> None:
        """Begin one of so many requests, whose names begin with `name`."""
        self.name = name
        self.random = chance
        self.length = length
        self.topic_ids: dict[str, bytes] = {}
        self.topics = {f"{name}-a": 6, f"{name}-b": 3, f"{name}-c": chance.choice((1, 2, 3))}
        self.groups: tuple[str, ...] = (f"{name}-g", f"{name}-h", f"{name}-i")
        quick = {
            "streams.initial.rebalance.delay.ms": "0",
            "streams.assignment.interval.ms": "0",
            "streams.num.standby.replicas": str(chance.choice((0, 0, 1, 2))),
        }
        # In the second group nothing is assigned a second time, in the third nothing at all.
        self.settings = {
            self.groups[0]: quick,
            self.groups[1]: {**quick, "streams.assignment.interval.ms": "15000"},
            self.groups[2]: {**quick, "streams.initial.rebalance.delay.ms": "900000"},
        }
        self.known: dict[tuple[str, str], Known] = {}
        # A member with an endpoint makes Kafka fail as long as the sources are not as the topology
        # needs them [streams-groups/endpoints].
        self._has_endpoints = chance.random() < _ENDPOINTS_OR_CHANGES
        topologies = READY if self._has_endpoints else TOPOLOGIES
        self._parts = {
            group: chance.choice(topologies)(name, f"{group}-x") for group in self.groups
        }
        self._refused = refused(name, f"{name}-x")

    def requests(self) -> Iterator[tuple[Any, int]]:
        """Yield each request with its version."""
        kinds: dict[Callable[[], tuple[Any, int]], float] = {
            self._heartbeat: 80,
            self._describe: 7,
            self._list: 2,
            self._commit: 9,
            self._fetch: 5,
            self._delete_offsets: 1,
            self._delete_groups: 1,
            self._other_protocol: 0.7,
            self._topic_change: 0 if self._has_endpoints else 1.5,
            self._setting: 0.7,
        }
        for _ in range(self.length):
            (kind,) = self.random.choices(list(kinds), list(kinds.values()))
            yield kind()

    # -- choices -----------------------------------------------------------------------------------

    def _maybe(self, share: float) -> bool:
        return self.random.random() < share

    def _group(self) -> str:
        return self.groups[0] if self._maybe(0.8) else self.random.choice(self.groups)

    def _of(self, group: str, name: str) -> Known:
        return self.known.setdefault((group, name), Known())

    # -- members -----------------------------------------------------------------------------------

    def _heartbeat(self) -> tuple[Any, int]:
        group, name = self._group(), self.random.choice(_MEMBERS)
        known = self._of(group, name)
        epoch = known.epoch
        if self._maybe(0.12):
            epoch = self.random.choice((0, 0, -1, -1, epoch + 1, epoch - 1, epoch - 1, -2, -3))
        request = StreamsGroupHeartbeatRequest(
            group_id=group,
            member_id=name,
            member_epoch=epoch,
            endpoint_information_epoch=known.endpoint_epoch,
            shutdown_application=self._maybe(0.003),
        )
        if epoch == 0:
            self._join(request, name)
        elif epoch > 0:
            self._report(request, known)
        self._spoil(request)
        return request, 0

    def _join(self, request: StreamsGroupHeartbeatRequest, name: str) -> None:
        parts = self._parts[request.group_id]
        if self._maybe(0.05):
            parts = self.random.choice([*self._refused, *self._parts.values()])
        request.topology = topology(parts, self.random.choice((1, -1)) if self._maybe(0.02) else 0)
        request.rebalance_timeout_ms = 300_000
        request.process_id = _PROCESSES[name]
        for role in _ROLES:
            setattr(request, role, [])
        if self._has_endpoints and name in _ENDPOINTS:
            request.user_endpoint = StreamsHeartbeatEndpoint(host="h", port=_ENDPOINTS[name])
        if self._maybe(0.2):
            tags = {"zone": self.random.choice("ab"), "rack": self.random.choice("ab")}
            request.client_tags = [
                StreamsHeartbeatKeyValue(key=key, value=value) for key, value in tags.items()
            ]

    def _report(self, request: StreamsGroupHeartbeatRequest, known: Known) -> None:
        """Report the tasks, all or some of them, and perhaps other data of the member."""
        if self._maybe(0.55):
            for role in _ROLES:
                setattr(request, role, self._tasks(known.tasks.get(role, {})))
        if self._maybe(0.02):
            request.rebalance_timeout_ms = self.random.choice((300_000, 200_000))
        has_state = any(each.state_changelog_topics for each in self._parts[request.group_id])
        if not has_state and self._maybe(0.02):
            # With copies of tasks Kafka forgets whose they are [streams-groups/reconciliation].
            request.process_id = f"q{self.random.randrange(1_000_000)}"
        if self._maybe(0.03):
            request.rack_id = self.random.choice(("r1", "r2", ""))

    def _tasks(self, held: Tasks) -> list[StreamsHeartbeatTaskIds]:
        tasks = {name: list(indexes) for name, indexes in held.items()}
        if tasks and self._maybe(0.1):
            del tasks[self.random.choice(list(tasks))]
        if tasks and self._maybe(0.1):
            tasks[self.random.choice(list(tasks))].pop()
        if self._maybe(0.02):
            tasks[self.random.choice(("0", "1", "7"))] = [self.random.randrange(9)]
        return [
            StreamsHeartbeatTaskIds(subtopology_id=name, partitions=indexes)
            for name, indexes in tasks.items()
        ]

    def _spoil(self, request: StreamsGroupHeartbeatRequest) -> None:
        """Let a request now and then have what it must not have, or lack what it must have."""
        if not self._maybe(0.06):
            return
        task = StreamsHeartbeatTaskIds(subtopology_id="0", partitions=[0])
        name, value = self.random.choice(
            (
                ("instance_id", "i1"),
                ("rebalance_timeout_ms", -1),
                ("topology", None),
                ("topology", topology(self._parts[request.group_id])),
                ("active_tasks", None),
                ("active_tasks", [task]),
                ("standby_tasks", [task]),
                ("warmup_tasks", [task]),
                ("warmup_tasks", None),
                ("task_offsets", []),
                ("task_end_offsets", []),
                ("process_id", None),
                ("member_id", ""),
                ("member_id", "nobody"),
                ("group_id", ""),
                ("group_id", f"{self.name}-unknown"),
                ("endpoint_information_epoch", 0),
            )
        )
        if (name, value) != ("group_id", f"{self.name}-unknown") or request.member_epoch:
            setattr(request, name, value)

    # -- offsets -----------------------------------------------------------------------------------

    def _identity(self, group: str) -> tuple[str, int]:
        name = self.random.choice(_MEMBERS)
        epoch = self._of(group, name).epoch
        if self._maybe(0.3):
            epoch += self.random.choice((-1, -1, -2, 1))
        if self._maybe(0.15):
            return self.random.choice((("", -1), ("nobody", 1), ("nobody", -1)))
        return name, epoch

    def _commit(self) -> tuple[Any, int]:
        group = self._group()
        member_id, epoch = self._identity(group)
        held = self._of(group, member_id).tasks.get("active_tasks", {})
        indexes = held.get("0", [0]) if self._maybe(0.7) else [0, 1]
        partitions = [(f"{self.name}-a", index) for index in indexes if index < 6]
        if self._maybe(0.3):
            partitions.append((f"{self.name}-b", self.random.randrange(3)))
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=self.topic_ids[topic],
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index, committed_offset=7, committed_metadata="m"
                        )
                        for index in found
                    ],
                )
                for topic, found in topics.items()
            ],
        )
        return request, self.random.choice((8, 9, 9, 10))

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

    # -- administration ----------------------------------------------------------------------------

    def _describe(self) -> tuple[Any, int]:
        groups = [self._group() for _ in range(self.random.choice((1, 1, 2)))]
        if self._maybe(0.05):
            groups.append(self.random.choice(("", f"{self.name}-unknown")))
        request = StreamsGroupDescribeRequest(
            group_ids=list(dict.fromkeys(groups)), include_authorized_operations=self._maybe(0.2)
        )
        return request, 0

    def _list(self) -> tuple[Any, int]:
        states = self.random.choice(([], ["stable"], ["not_ready", "Assigning"], ["Empty"]))
        types = self.random.choice(([], ["Streams"], ["classic"]))
        return ListGroupsRequest(states_filter=states, types_filter=types), 5

    def _delete_groups(self) -> tuple[Any, int]:
        return DeleteGroupsRequest(groups_names=[self._group()]), 2

    def _other_protocol(self) -> tuple[Any, int]:
        """A first request of another protocol: of a member of the group, or of a new one."""
        group = self._group()
        if self._maybe(0.5):
            return ConsumerGroupHeartbeatRequest(
                group_id=group, member_id="k1", member_epoch=self.random.choice((1, -1))
            ), 1
        protocol = JoinGroupRequestProtocol(name="range", metadata=b"\0")
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=45_000,
            rebalance_timeout_ms=60_000,
            member_id="made-up",
            protocol_type="consumer",
            protocols=[protocol],
        )
        return request, 9

    def _topic_change(self) -> tuple[Any, int]:
        """Create, grow or delete a topic; what was deleted is created again later."""
        absent = [f"{self.name}-{letter}" for letter in ("absent", "b", "c")]
        missing = [each for each in absent if each not in self.topics]
        if missing and self._maybe(0.6):
            name = self.random.choice(missing)
            count = self.topics[name] = self.random.choice((1, 2, 3))
            topic = CreateTopicsRequestTopic(name=name, num_partitions=count, replication_factor=1)
            return CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7
        name = self.random.choice(list(self.topics))
        if name in absent and self._maybe(0.4):
            del self.topics[name]
            deleted = DeleteTopicsRequestTopic(name=name)
            return DeleteTopicsRequest(topics=[deleted], timeout_ms=10_000), 6
        self.topics[name] += 1
        grown = CreatePartitionsRequestTopic(name=name, count=self.topics[name], assignments=None)
        request = CreatePartitionsRequest(topics=[grown], timeout_ms=10_000, validate_only=False)
        return request, 3

    def _setting(self) -> tuple[Any, int]:
        standbys = str(self.random.choice((0, 1, 2, 2, 3)))
        return group_settings({self.groups[0]: {"streams.num.standby.replicas": standbys}}), 1

    # -- answers -----------------------------------------------------------------------------------

    def learn(self, request: Any, answer: Any) -> None:
        """Let a member learn from the answer of its broker."""
        if not isinstance(request, StreamsGroupHeartbeatRequest):
            return
        known = self._of(request.group_id, request.member_id)
        if answer.error_code:
            if answer.error_code in _LOST:
                known.epoch, known.tasks = 0, {}
            return
        known.epoch = max(answer.member_epoch, 0)
        if answer.member_epoch < 0:
            known.tasks = {}
        elif answer.active_tasks is not None and self._maybe(0.8):
            known.tasks = {
                role: {each.subtopology_id: list(each.partitions) for each in getattr(answer, role)}
                for role in _ROLES
            }
        if self._maybe(0.8):
            known.endpoint_epoch = answer.endpoint_information_epoch
