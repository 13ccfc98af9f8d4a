"""A group of any type, as everything but its own protocol sees it.

Offsets, their expiry, administration, listings and metrics are the same for every type of group.
They know a group through this class only. Each type of group derives from it, in a folder of its
own with the verbs of its protocol: `classic/`.
"""

from collections.abc import Sequence
from typing import NamedTuple

from coterie.coordinator.kernel.append import Record
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.describe_groups import DescribeGroupsResponseGroup
from coterie.protocol.messages.log_records import OffsetCommitValue
from coterie.protocol.messages.offset_commit import OffsetCommitRequest
from coterie.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest


class SeenMember(NamedTuple):
    """A member of a group of any type, as people see it.

    Attributes:
        member_id, instance_id: its ids; the instance id is None for a dynamic member.
        client_id, client_host: the client that joined; the host as Java prints it.
        metadata: its subscription in the format of consumers, or other bytes of its client.
        assignment: its part of the present assignment, likewise.
        waits_for: the response that it waits for, such as JoinGroup; None for none.
        last_heard_ms: when its session was last started.
        session_timeout_ms: how long it may be silent.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes | None
    assignment: bytes
    waits_for: str | None
    last_heard_ms: int
    session_timeout_ms: int


class GroupLike:
    """A group.

    Attributes:
        group_id: its id.
        group_type: Kafka's name of its type, in lower case.
        protocol_type: what its members do; None if it has had none.
        id_hash: Java's hash of its id, once it is known.
    """

    __slots__ = ("group_id", "id_hash", "protocol_type")

    group_id: str
    protocol_type: str | None
    id_hash: int | None

    @property
    def group_type(self) -> str:
        """See the class."""
        raise NotImplementedError

    @property
    def state_name(self) -> str:
        """The name of its state on the wire."""
        raise NotImplementedError

    @property
    def state_filter(self) -> str:
        """The word by which a ListGroups asks for groups in its state."""
        return self.state_name.lower()

    @property
    def exists(self) -> bool:
        """False once its partition was given up."""
        raise NotImplementedError

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, so that it is removed with its last offset."""
        raise NotImplementedError

    @property
    def expires(self) -> bool:
        """Whether it is removed when it has neither members nor offsets [offsets/sweep]."""
        return True

    @property
    def member_count(self) -> int:
        """The number of its members."""
        raise NotImplementedError

    # -- for people --------------------------------------------------------------------------------

    def seen_members(self) -> Sequence[SeenMember]:
        """Return its members in the order in which they joined."""
        raise NotImplementedError

    def waits_for(self, now_ms: int) -> str | None:
        """Return in words for what it waits; None if it is at rest."""
        raise NotImplementedError

    # -- offsets -----------------------------------------------------------------------------------

    def commit_error(self, now_ms: int, request: OffsetCommitRequest, version: int) -> ErrorCode:
        """Return the error of a commit [offsets/commit-validation].

        An accepted commit of a member may start its session anew.
        """
        raise NotImplementedError

    def transactional_commit_error(self, request: TxnOffsetCommitRequest) -> ErrorCode:
        """Return the error of a commit in a transaction [offsets/transactional-validation]."""
        raise NotImplementedError

    def fetch_error(self, member_id: str | None, member_epoch: int) -> ErrorCode:
        """Return the error of a fetch of its offsets by a member; null and -1 are no member."""
        raise NotImplementedError

    def offset_delete_error(self) -> ErrorCode:
        """Return why none of its offsets can be deleted, or NONE [offsets/delete]."""
        raise NotImplementedError

    def is_consuming(self, topic: str) -> bool:
        """Return whether its members need their offsets of a topic [offsets/delete]."""
        raise NotImplementedError

    def expiry_base_ms(self, topic: str, value: OffsetCommitValue) -> int | None:
        """Return the time from which the retention of an offset counts.

        None means that the offset does not expire [offsets/expiry].
        """
        raise NotImplementedError

    # -- administration ----------------------------------------------------------------------------

    def delete_error(self) -> tuple[ErrorCode, str | None]:
        """Return why it cannot be deleted, and a text, or NONE [administration/delete]."""
        raise NotImplementedError

    def tombstones(self) -> Sequence[Record]:
        """Return the records that remove it, without its offsets."""
        raise NotImplementedError

    def logged_generation(self) -> int:
        """Return its generation or epoch, for the journal."""
        raise NotImplementedError

    def describe(self, operations: int) -> DescribeGroupsResponseGroup | None:
        """Describe it as a classic group; None if it is none [administration/describe-by-state].

        Args:
            operations: the operations that the client is authorized to.
        """
        raise NotImplementedError
