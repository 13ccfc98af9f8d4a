"""Members of groups without input and output: their place in the group, and their requests.

The clients that are played derive from them. They differ in when a request is sent, in what is
assigned, and in what an error leads to. A request has the fields that its version
carries, by the declaration of the message, so it can also be passed on without being encoded.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from coterie.assignors.model import TopicPartition
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from coterie.protocol.schema import fields_of
from coterie.protocol.wire import ZERO_UUID, Message

_M = TypeVar("_M", bound=Message)


class Member:
    """A member of any group.

    Attributes:
        group_id, instance_id: its group, and its instance id or None.
        rebalance_ms: how long it may take for a rebalance.
        member_id, generation_id: its place in the group; the generation is the epoch in a consumer
            group. "" and -1 before it has one.
    """

    def __init__(self, group_id: str, *, rebalance_ms: int, instance_id: str | None) -> None:
        """Describe a member that has not joined."""
        self.group_id = group_id
        self.instance_id = instance_id
        self.rebalance_ms = rebalance_ms
        self.member_id = ""
        self.generation_id = -1

    def commit_request(
        self,
        offsets: Mapping[TopicPartition, int],
        version: int,
        topic_ids: Mapping[str, bytes] | None = None,
    ) -> OffsetCommitRequest:
        """Return an OffsetCommit.

        Args:
            offsets: by topic and partition; topics are in the order of their first mention.
            version: of the request.
            topic_ids: by name, for the versions that name topics by id.
        """
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, index), offset in offsets.items():
            each = OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=""
            )
            topics.setdefault(topic, []).append(each)
        ids = topic_ids or {}
        return carried(
            OffsetCommitRequest,
            version,
            group_id=self.group_id,
            generation_id_or_member_epoch=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic, topic_id=ids.get(topic, ZERO_UUID), partitions=partitions
                )
                for topic, partitions in topics.items()
            ],
        )


class ClassicMember(Member):
    """A member of a classic group.

    Attributes:
        protocol_type, protocols: "consumer" or another; the names in its JoinGroup, in order of
            preference.
        session_ms: its session timeout.
        joined: the newest response to its JoinGroup that had no error.
    """

    def __init__(
        self,
        group_id: str,
        *,
        protocols: tuple[str, ...],
        session_ms: int,
        rebalance_ms: int,
        protocol_type: str = "consumer",
        instance_id: str | None = None,
    ) -> None:
        super().__init__(group_id, rebalance_ms=rebalance_ms, instance_id=instance_id)
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.session_ms = session_ms
        self.joined: JoinGroupResponse | None = None

    def metadata(self, protocol: str) -> bytes:
        """Return its metadata for a protocol, such as a subscription."""
        raise NotImplementedError

    @property
    def leads(self) -> bool:
        """Whether it is the leader of its generation."""
        return self.joined is not None and self.joined.leader == self.member_id

    def take_join(self, response: JoinGroupResponse) -> None:
        """Take the member id and the generation that a response to its JoinGroup gives."""
        if response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id = response.member_id
        if response.error_code == ErrorCode.NONE:
            self.generation_id = response.generation_id
            self.joined = response

    def join_request(self, version: int) -> JoinGroupRequest:
        """Return a JoinGroup, with the member id if there is one."""
        return carried(
            JoinGroupRequest,
            version,
            group_id=self.group_id,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocols=[
                JoinGroupRequestProtocol(name=name, metadata=self.metadata(name))
                for name in self.protocols
            ],
        )

    def sync_request(self, assignments: Mapping[str, bytes], version: int) -> SyncGroupRequest:
        """Return a SyncGroup after a join.

        Args:
            assignments: by member id; empty from a follower.
            version: of the request.
        """
        assert self.joined is not None, "a sync follows a join"
        return carried(
            SyncGroupRequest,
            version,
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocol_name=self.joined.protocol_name,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in assignments.items()
            ],
        )

    def heartbeat_request(self, version: int) -> HeartbeatRequest:
        """Return a Heartbeat."""
        return carried(
            HeartbeatRequest,
            version,
            group_id=self.group_id,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )

    def leave_request(self, version: int, reason: str | None = None) -> LeaveGroupRequest:
        """Return a LeaveGroup for this member alone."""
        member = LeaveGroupRequestMember(
            member_id=self.member_id, group_instance_id=self.instance_id, reason=reason
        )
        return carried(
            LeaveGroupRequest,
            version,
            group_id=self.group_id,
            member_id=self.member_id,
            members=[member],
        )


_FIELDS: dict[tuple[type[Message], int], frozenset[str]] = {}


def carried(cls: type[_M], version: int, **values: Any) -> _M:
    """Return a message with those values that a version carries."""
    names = _FIELDS.get((cls, version))
    if names is None:
        names = frozenset(each.name for each in fields_of(cls) if each.present(version))
        _FIELDS[cls, version] = names
    return cls(**{name: value for name, value in values.items() if name in names})
