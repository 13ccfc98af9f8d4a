"""A coordinator at hand for unit tests: requests by keyword, appends acknowledged when told.

Unlike a transcript it lets a test hold appends back, look inside and compare states.
"""

import itertools
from typing import Any

from coterie.coordinator.config import GroupConfig
from coterie.coordinator.effects import Append, Effects, RequestContext
from coterie.coordinator.group import Group
from coterie.coordinator.service import GroupCoordinator
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from coterie.protocol.messages.log_records import encode_key, encode_value
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

START_MS = 1_700_000_000_000

# A subscription to the topic "sales", as version 0 of the consumer protocol.
SALES = b"\0\0\0\0\0\x01\0\x05sales\0\0\0\0"


class Desk:
    """A coordinator, its clock, what it answered, what it wants appended.

    Attributes:
        answers: message by reply address, for every answer there was.
        held: appends that are not acknowledged yet, by partition.
        log: what was acknowledged, as bytes, by partition.
    """

    def __init__(self, **settings: Any) -> None:
        settings.setdefault("offsets_topic_num_partitions", 1)
        settings.setdefault("group_initial_rebalance_delay_ms", 0)
        self.config = GroupConfig(**settings)
        self.now_ms = START_MS
        self.answers: dict[str, Any] = {}
        self.log: dict[int, list[tuple[bytes, bytes | None]]] = {}
        self.held: dict[int, list[Append]] = {}
        self._uuids = itertools.count(1)
        self.coordinator = self._loaded({})

    def _loaded(self, log: dict[int, list[tuple[bytes, bytes | None]]]) -> GroupCoordinator:
        coordinator = GroupCoordinator(self.config, lambda: str(next(self._uuids)), self.now_ms)
        for partition in range(self.config.offsets_topic_num_partitions):
            assert coordinator.begin_load(partition, 0)
            for key, value in log.get(partition, []):
                coordinator.replay(partition, key, value)
            coordinator.finish_load(partition, self.now_ms)
        return coordinator

    def group(self, group_id: str = "g") -> Group:
        """A group that has to be there."""
        group = self.coordinator.group(group_id)
        assert group is not None
        return group

    # -- the log -----------------------------------------------------------------------------------

    def take(self, effects: Effects, to: str = "") -> Any:
        """Carry effects out but for the appends, which wait; the answer to `to`, if it is there."""
        if effects.answer is not None:
            self.answers[to] = effects.answer
        for reply in effects.replies:
            assert reply.to not in self.answers, f"{reply.to} is answered twice"
            self.answers[reply.to] = reply.message
        for append in effects.appends:
            self.held.setdefault(append.partition, []).append(append)
        return self.answers.get(to)

    def store(self, partition: int = 0, count: int | None = None) -> None:
        """The oldest `count` appends of a partition are durable; by default all of them."""
        held = self.held.get(partition, [])
        count = len(held) if count is None else count
        for append in held[:count]:
            self.log.setdefault(partition, []).extend(
                (encode_key(key), None if value is None else encode_value(value))
                for key, value in append.records
            )
        del held[:count]
        self.take(self.coordinator.appended(partition, count, self.now_ms))

    def lose(self, error: ErrorCode = ErrorCode.NOT_ENOUGH_REPLICAS, partition: int = 0) -> None:
        """All appends of a partition that wait fail."""
        self.held.pop(partition, None)
        self.take(self.coordinator.append_failed(partition, error, self.now_ms))

    def restart(self) -> None:
        """A fresh coordinator reads what was acknowledged."""
        self.held.clear()
        self.coordinator = self._loaded(self.log)

    # -- time --------------------------------------------------------------------------------------

    def wait(self, delay_ms: int) -> None:
        """Let time pass, timer by timer."""
        end_ms = self.now_ms + delay_ms
        while (next_ms := self.coordinator.next_deadline_ms()) is not None and next_ms <= end_ms:
            self.now_ms = max(self.now_ms, next_ms)
            self.take(self.coordinator.advance(self.now_ms))
        self.now_ms = end_ms

    # -- requests ----------------------------------------------------------------------------------

    def call(self, method: str, request: Any, version: int, to: str) -> Any:
        """Send any request."""
        context = RequestContext(to, "/127.0.0.1", version, to)
        return self.take(getattr(self.coordinator, method)(self.now_ms, request, context), to)

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
        return self.call("join_group", request, version or (9 if instance else 3), to)

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
        return self.call("sync_group", request, 3, to)

    def heartbeat(
        self, member_id: str, generation_id: int, instance: str | None = None
    ) -> ErrorCode:
        """Send a Heartbeat; its error."""
        request = HeartbeatRequest(
            group_id="g",
            generation_id=generation_id,
            member_id=member_id,
            group_instance_id=instance,
        )
        return ErrorCode(self.coordinator.heartbeat(self.now_ms, request).answer.error_code)

    def leave(self, to: str, *member_ids: str, group_id: str = "g") -> Any:
        """Send a LeaveGroup."""
        members = [LeaveGroupRequestMember(member_id=each) for each in member_ids]
        return self.call(
            "leave_group", LeaveGroupRequest(group_id=group_id, members=members), 4, to
        )

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
        return self.call("offset_commit", request, 8, to)

    def fetch(self, to: str, group_id: str = "g") -> dict[tuple[str, int], int] | None:
        """Send an OffsetFetch of everything; what is committed, or None while it waits."""
        answer = self.call(
            "offset_fetch", OffsetFetchRequest(group_id=group_id, topics=None), 5, to
        )
        return None if answer is None else offsets_of(answer)

    def stable(self, *names: str, instances: dict[str, str] | None = None) -> int:
        """Bring a group of new members into a Stable generation; returns its number."""
        for name in names:
            self.join(name, instance=(instances or {}).get(name))
        self.store()
        self.wait(0)
        answers = {name: self.answers[name] for name in names}
        leader = next(each for each in answers.values() if each.members)
        generation_id = int(leader.generation_id)
        for name, answer in answers.items():
            given = {each.member_id: each.member_id.encode() for each in answer.members}
            self.sync(f"{name} syncs", answer.member_id, generation_id, given)
        self.store()
        return generation_id

    def id_of(self, name: str) -> str:
        """The member id a joiner was given."""
        return str(self.answers[name].member_id)


def offsets_of(answer: Any) -> dict[tuple[str, int], int]:
    """Topic and partition to offset, of an OffsetFetch answer."""
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
    }
