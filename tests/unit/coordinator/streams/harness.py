"""A coordinator with topics, and heartbeats of streams groups by a few words."""

from collections.abc import Mapping, Sequence
from typing import Any

from coterie.coordinator.groups.config import (
    StreamsGroupConfig,
    StreamsSettings,
    StreamsSettingsTable,
)
from coterie.coordinator.groups.metadata_hash import metadata_hash
from coterie.coordinator.groups.recorded.records import RecordedGroups
from coterie.coordinator.groups.streams.group import StreamsGroup
from coterie.coordinator.groups.streams.states import MemberState
from coterie.coordinator.groups.streams.tasks import (
    NO_TASKS,
    HeldTasks,
    TaskRoles,
    Tasks,
    current_value,
    target_value,
)
from coterie.coordinator.groups.streams.topology import logged_topology
from coterie.coordinator.streams_topology.names import required_topics
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.log_records import GROUP_RECORDS, decode_key, decode_value
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsHeartbeatKeyValue,
    StreamsHeartbeatSubtopology,
    StreamsHeartbeatTaskIds,
    StreamsHeartbeatTopicInfo,
    StreamsHeartbeatTopology,
)
from coterie.protocol.messages.streams_group_records import (
    StreamsGroupCurrentMemberAssignmentKey,
    StreamsGroupMemberMetadataKey,
    StreamsGroupMemberMetadataValue,
    StreamsGroupMetadataKey,
    StreamsGroupMetadataValue,
    StreamsGroupTargetAssignmentMemberKey,
    StreamsGroupTargetAssignmentMetadataKey,
    StreamsGroupTargetAssignmentMetadataValue,
    StreamsGroupTopologyKey,
    StreamsKeyValue,
)
from coterie.protocol.wire import Message
from tests.unit.coordinator.consumer.harness import ConsumerHarness

REBALANCE_MS = 300_000

_NO_STANDBYS = [StreamsKeyValue(key="num.standby.replicas", value="0")]

Told = list[StreamsHeartbeatTaskIds]
Roles = Mapping[str, list[int]]


def tasks(*indexes: int, subtopology: str = "0") -> Told:
    """Return tasks of one subtopology as a heartbeat lists them."""
    if not indexes:
        return []
    return [StreamsHeartbeatTaskIds(subtopology_id=subtopology, partitions=list(indexes))]


def subtopology(
    subtopology_id: str = "0",
    *sources: str,
    changelogs: Sequence[str] = (),
    sinks: Sequence[str] = (),
    repartition: Sequence[str] = (),
) -> StreamsHeartbeatSubtopology:
    """Return a subtopology that reads topics."""
    return StreamsHeartbeatSubtopology(
        subtopology_id=subtopology_id,
        source_topics=list(sources),
        source_topic_regex=[],
        state_changelog_topics=[internal_topic(name) for name in changelogs],
        repartition_sink_topics=list(sinks),
        repartition_source_topics=[internal_topic(name) for name in repartition],
        copartition_groups=[],
    )


def internal_topic(name: str, partitions: int = 0) -> StreamsHeartbeatTopicInfo:
    """Return an internal topic of a topology."""
    configs = [StreamsHeartbeatKeyValue(key="cleanup.policy", value="compact")]
    return StreamsHeartbeatTopicInfo(
        name=name, partitions=partitions, replication_factor=-1, topic_configs=configs
    )


def topology(*subtopologies: StreamsHeartbeatSubtopology, epoch: int = 0) -> Any:
    """Return a topology; without subtopologies one that reads the topic in."""
    found = list(subtopologies) or [subtopology("0", "in")]
    return StreamsHeartbeatTopology(epoch=epoch, subtopologies=found)


STATEFUL = topology(subtopology("0", "in", changelogs=["store"]))


def told(answer: Any) -> dict[str, list[str]] | None:
    """Return the tasks of an answer by their roles, such as 0_1; None without lists."""
    lists = (answer.active_tasks, answer.standby_tasks, answer.warmup_tasks)
    if answer.active_tasks is None:
        assert lists == (None, None, None), "all three lists are sent, or none"
        return None
    return {
        role: [f"{each.subtopology_id}_{index}" for each in listed for index in each.partitions]
        for role, listed in zip(("active", "standby", "warmup"), lists, strict=True)
        if listed
    }


def statuses(answer: Any) -> list[tuple[int, str]]:
    """Return the statuses of an answer."""
    return [(int(each.status_code), each.status_detail) for each in answer.status]


def _sorted(role: Roles) -> Tasks:
    return {name: tuple(sorted(indexes)) for name, indexes in role.items()}


class StreamsHarness(ConsumerHarness):
    """A coordinator without delay and interval, unless they are given."""

    def __init__(
        self,
        topics: dict[str, int] | None = None,
        *,
        max_size: int = 100,
        interval_ms: int = 0,
        delay_ms: int = 0,
        standbys: int = 0,
    ) -> None:
        self.settings = StreamsSettingsTable(
            StreamsSettings(
                assignment_interval_ms=interval_ms,
                initial_rebalance_delay_ms=delay_ms,
                num_standby_replicas=standbys,
            )
        )
        config = StreamsGroupConfig(max_size=max_size, settings=self.settings)
        super().__init__({"in": 2} if topics is None else topics, streams=config)

    @property
    def streams_group(self) -> StreamsGroup:
        """A streams group that must exist."""
        group = self.coordinator.group("g")
        assert isinstance(group, StreamsGroup), group
        return group

    def stream(
        self,
        member_id: str,
        epoch: int,
        active: Told | None = None,
        standby: Told | None = None,
        /,
        **fields: Any,
    ) -> Any:
        """Send a heartbeat; one that joins has all that a join needs."""
        lists = None if active is None and standby is None else [active or [], standby or [], []]
        if epoch == 0:
            lists = lists or [[], [], []]
            fields = {
                "rebalance_timeout_ms": REBALANCE_MS,
                "topology": topology(),
                "process_id": f"p{member_id[1:]}",
                **fields,
            }
        if lists is not None:
            names = ("active_tasks", "standby_tasks", "warmup_tasks")
            fields = {**dict(zip(names, lists, strict=True)), **fields}
        request = StreamsGroupHeartbeatRequest(
            **{
                "group_id": "g",
                "member_id": member_id,
                "member_epoch": epoch,
                "endpoint_information_epoch": -1,
                **fields,
            }
        )
        return self.send(request, 0, f"beat {member_id}")

    def calm(self, *member_ids: str) -> None:
        """Let members send heartbeats until each of them has its target."""
        group = self.streams_group
        for _ in range(10):
            for each in member_ids:
                member = group.members[each]
                held = member.assigned.without_epochs()
                answer = self.stream(
                    each,
                    member.epoch,
                    *(
                        [
                            StreamsHeartbeatTaskIds(subtopology_id=name, partitions=list(indexes))
                            for name, indexes in role.items()
                        ]
                        for role in (held.active, held.standby)
                    ),
                )
                assert not answer.error_code, answer
            if group.state_name == "Stable":
                return
        raise AssertionError(f"{group} does not come to rest")

    def send_deletion(self, group_id: str) -> ErrorCode:
        """Send a DeleteGroups; return its error."""
        answer = self.send(DeleteGroupsRequest(groups_names=[group_id]), 2, "delete")
        return ErrorCode(answer.results[0].error_code)

    def record_types(self) -> list[list[str]]:
        """Return the types of the records that were written, batch by batch, and forget them."""
        written, self.written = self.written, []
        return [
            [
                f"{GROUP_RECORDS.type_of(key).number}{'' if value is not None else '-'}"
                for key, value in batch
            ]
            for batch in written
        ]

    def written_group(
        self,
        *,
        members: Mapping[str, str],
        current: Mapping[str, tuple[Roles, Roles]],
        target: Mapping[str, tuple[Roles, Roles]],
    ) -> list[tuple[Message, Message | None]]:
        """Return the records of a stateful group whose target is one epoch ahead of its members.

        Args:
            members: the process of each.
            current, target: the active and standby tasks of members, at the epochs 2 and 3.
        """
        value = logged_topology(STATEFUL)
        hashed = metadata_hash(required_topics(value), self.topics.image)
        records: list[tuple[Message, Message | None]] = [
            (StreamsGroupTopologyKey(group_id="g"), value),
            (
                StreamsGroupMetadataKey(group_id="g"),
                StreamsGroupMetadataValue(
                    epoch=3,
                    metadata_hash=hashed,
                    validated_topology_epoch=0,
                    last_assignment_configs=[
                        StreamsKeyValue(key="num.standby.replicas", value="0")
                    ],
                ),
            ),
            (
                StreamsGroupTargetAssignmentMetadataKey(group_id="g"),
                StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=3),
            ),
        ]
        for each, process in members.items():
            description = StreamsGroupMemberMetadataValue(
                instance_id=None, rack_id=None, client_id=f"beat {each}", client_host="/127.0.0.1",
                rebalance_timeout_ms=REBALANCE_MS, topology_epoch=0, process_id=process,
                client_tags=[],
            )  # fmt: skip
            records.append(
                (StreamsGroupMemberMetadataKey(group_id="g", member_id=each), description)
            )
            active, standby = (_sorted(role) for role in target.get(each, ({}, {})))
            records.append(
                (
                    StreamsGroupTargetAssignmentMemberKey(group_id="g", member_id=each),
                    target_value(TaskRoles(active, standby)),
                )
            )
            held, copies = (_sorted(role) for role in current.get(each, ({}, {})))
            epochs = {name: dict.fromkeys(indexes, 2) for name, indexes in held.items()}
            records.append(
                (
                    StreamsGroupCurrentMemberAssignmentKey(group_id="g", member_id=each),
                    current_value(2, 1, MemberState.STABLE, HeldTasks(epochs, copies), NO_TASKS),
                )
            )
        return records

    def in_memory(self) -> dict[str, Any]:
        """Return what the coordinator has of the records of streams groups."""
        return dict(self.coordinator.shards[0].logged.of_types["streams"].values())

    def in_the_log(self) -> dict[str, Any]:
        """Return what replaying the log gives."""
        records = RecordedGroups(StreamsGroup)
        for raw_key, raw_value in self.logs[0].durable:
            key = decode_key(raw_key)
            if isinstance(key, records.keys):
                records.apply(key, decode_value(key, raw_value))
        return dict(records.values())
