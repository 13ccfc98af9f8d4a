"""Coordinators for unit tests: requests by keyword, appends that stay pending until `store`.

Unlike a transcript they let a test inspect the coordinator between the steps.
"""

from typing import Any

from coterie.conformance.harness import START_MS, CoordinatorHarness
from coterie.coordinator.groups.classic.group import Group, classic
from coterie.coordinator.groups.classic.records import CLASSIC, ClassicRecords
from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.groups.replay import LoggedState
from coterie.coordinator.kernel.append import Append
from coterie.coordinator.kernel.effects import Effects, R
from coterie.coordinator.kernel.request import ClientContext, RequestContext
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from coterie.protocol.messages.log_records import GroupMetadataValue
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

__all__ = [
    "SALES",
    "START_MS",
    "EventHarness",
    "UnitHarness",
    "assert_fields",
    "logged_generations",
    "offsets_of",
]

# A subscription to the topic "sales", as version 0 of the consumer protocol.
SALES = b"\0\0\0\0\0\x01\0\x05sales\0\0\0\0"


class UnitHarness(CoordinatorHarness):
    """A coordinator whose responses are kept by name.

    Attributes:
        responses: every response, by the name under which its request was sent.
    """

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("offsets_topic_num_partitions", 1)
        settings.setdefault("group_initial_rebalance_delay_ms", 0)
        self.responses: dict[str, Any] = {}
        self.client = ClientContext(client_host="/127.0.0.1")
        super().__init__(GroupConfig(**settings))

    def group(self, group_id: str = "g") -> Group:
        """Return a group that must exist."""
        group = classic(self.coordinator.group(group_id))
        assert group is not None
        return group

    # -- responses and the log ---------------------------------------------------------------------

    def deliver(self, to: str, message: Any) -> None:
        """Keep a response; a request gets only one."""
        assert to not in self.responses, f"{to} gets a second response"
        self.responses[to] = message

    def take(self, effects: Effects[Any], to: str = "") -> Any:
        """Carry effects out; return the response to `to`, if there is one yet."""
        self.carry_out(effects, to)
        return self.responses.get(to)

    def store(self, partition: int = 0, count: int | None = None) -> None:
        """Acknowledge the oldest `count` appends of a partition, by default all of them."""
        pending = len(self.logs[partition].pending)
        self.acknowledge(partition, pending if count is None else count)

    def pending_appends(self, partition: int = 0) -> list[Append]:
        """Return the appends of a partition that are neither acknowledged nor lost."""
        return [batch.append for batch in self.logs[partition].pending]

    def lose(self, error: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS, partition: int = 0) -> None:
        """Fail all pending appends of a partition."""
        self.fail_appends(partition, error)

    # -- requests ----------------------------------------------------------------------------------

    def send(self, request: Any, version: int, to: str) -> Any:
        """Send any request; return its response, if there is one yet."""
        self.responses.pop(to, None)
        context = RequestContext(self.client._replace(client_id=to), version, to)
        return self.take(self.handle(request, context), to)

    def join(
        self,
        to: str,
        member_id: str = "",
        *,
        group_id: str = "g",
        instance: str | None = None,
        version: int | None = None,
        protocols: tuple[tuple[str, bytes], ...] = (("range", SALES),),
        protocol_type: str = "consumer",
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
    ) -> Any:
        """Send a JoinGroup; without an instance as version 3, so that it joins at once."""
        request = JoinGroupRequest(
            group_id=group_id,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=n, metadata=m) for n, m in protocols],
        )
        return self.send(request, version or (9 if instance else 3), to)

    def sync(
        self,
        to: str,
        member_id: str,
        generation_id: int,
        assignments: dict[str, bytes] | None = None,
        *,
        group_id: str = "g",
        instance: str | None = None,
    ) -> Any:
        """Send a SyncGroup."""
        request = SyncGroupRequest(
            group_id=group_id,
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=assignment)
                for each, assignment in (assignments or {}).items()
            ],
        )
        return self.send(request, 3, to)

    def heartbeat(
        self, member_id: str, generation_id: int, instance: str | None = None
    ) -> ErrorCode:
        """Send a Heartbeat; return its error."""
        request = HeartbeatRequest(
            group_id="g",
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance,
        )
        return ErrorCode(answered(self.coordinator.heartbeat(self.now_ms, request)).error_code)

    def leave(self, to: str, *member_ids: str, group_id: str = "g") -> Any:
        """Send a LeaveGroup."""
        members = [LeaveGroupRequestMember(member_id=each) for each in member_ids]
        return self.send(LeaveGroupRequest(group_id=group_id, members=members), 4, to)

    def commit(
        self,
        to: str,
        offset: int,
        *,
        topic: str = "sales",
        partitions: tuple[int, ...] = (0,),
        group_id: str = "g",
        member_id: str = "",
        generation_id: int = -1,
    ) -> Any:
        """Send an OffsetCommit."""
        request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=generation_id,
            member_id=member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_metadata=None
                        )
                        for index in partitions
                    ],
                )
            ],
        )
        return self.send(request, 8, to)

    def fetch(self, to: str, group_id: str = "g") -> dict[tuple[str, int], int] | None:
        """Send an OffsetFetch of all partitions; return the offsets, or None if it is delayed."""
        response = self.send(OffsetFetchRequest(group_id=group_id, topics=None), 5, to)
        return None if response is None else offsets_of(response)

    def stable(self, *names: str, instances: dict[str, str] | None = None) -> int:
        """Bring a group of new members into a Stable generation; return its number."""
        for name in names:
            self.join(name, instance=(instances or {}).get(name))
        self.store()
        self.wait(0)
        responses = {name: self.responses[name] for name in names}
        leader = next(each for each in responses.values() if each.members)
        generation_id = int(leader.generation_id)
        for name, response in responses.items():
            assignments = {each.member_id: each.member_id.encode() for each in response.members}
            self.sync(f"{name} syncs", response.member_id, generation_id, assignments)
        self.store()
        return generation_id

    def id_of(self, name: str) -> str:
        """Return the member id of the response to a JoinGroup."""
        return str(self.responses[name].member_id)


class EventHarness(UnitHarness):
    """A coordinator whose events a test takes step by step."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.events.clear()  # of the first load

    def take_facts(self) -> list[Any]:
        """Return the facts since the last call."""
        facts = [event.fact for event in self.events]
        self.events.clear()
        return facts

    def take_fact_names(self) -> list[str]:
        """Return the names of the facts since the last call."""
        names = [event.name for event in self.events]
        self.events.clear()
        return names

    def rejoin(
        self,
        name: str,
        *,
        protocols: tuple[tuple[str, bytes], ...] = (("range", SALES),),
        reason: str | None = None,
        to: str = "",
        protocol_type: str = "consumer",
    ) -> Any:
        """Send a JoinGroup with the member id of an earlier one."""
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id=self.id_of(name),
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=n, metadata=m) for n, m in protocols],
            reason=reason,
        )
        return self.send(request, 9, to or f"{name} rejoins")

    def remove(
        self, *members: tuple[str, str | None], reason: str | None = None, to: str = "operator"
    ) -> Any:
        """Send a LeaveGroup of (member id, instance id)."""
        listed = [
            LeaveGroupRequestMember(member_id=member, group_instance_id=instance, reason=reason)
            for member, instance in members
        ]
        return self.send(LeaveGroupRequest(group_id="g", members=listed), 5, to)


def answered(effects: Effects[R]) -> R:
    """Return the response of a request that is answered at once."""
    assert effects.response is not None, f"{effects} is delayed"
    return effects.response


def offsets_of(response: Any) -> dict[tuple[str, int], int]:
    """Return topic and partition to offset, of an OffsetFetch response."""
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in response.topics
        for each in topic.partitions
    }


def assert_fields(fact: Any, **expected: Any) -> None:
    """Assert that a fact has these fields, whatever others it has."""
    assert {name: getattr(fact, name) for name in expected} == expected


def logged_generations(logged: LoggedState) -> dict[str, GroupMetadataValue]:
    """Return the last logged generations of a partition by group id."""
    records = logged.of_types[CLASSIC]
    assert isinstance(records, ClassicRecords), records
    return records.generations
