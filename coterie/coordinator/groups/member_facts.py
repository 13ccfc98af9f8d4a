"""What the journal says of members that join and leave, of groups whose members send heartbeats."""

from collections.abc import Sequence
from typing import Protocol

from coterie.coordinator.groups.epochs import Bump, Instigator
from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.kernel.request import ClientContext, RequestContext
from coterie.protocol.messages.journal_records import MAX_REASON_LENGTH, MemberJoined, MemberRemoved


class JoinedMember(Protocol):
    """A member of a group of any of these types."""

    @property
    def member_id(self) -> str:
        """Its id."""

    @property
    def instance_id(self) -> str | None:
        """The instance id of a static member."""

    @property
    def client_id(self) -> str:
        """The client id with which it joined."""

    @property
    def client_host(self) -> str:
        """The host of its client as Java prints it."""

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long it may take to give partitions up; -1 if it never has to."""

    @property
    def session_ms(self) -> int:
        """How long it may be silent."""

    def last_heard_ms(self) -> int:
        """Return when its session was last started."""


def joined_fact(
    group: GroupLike,
    member: JoinedMember,
    protocols: Sequence[str],
    client: ClientContext,
    now_ms: int,
) -> MemberJoined:
    """Return the fact that a member has joined.

    Args:
        group: its group, with the member.
        member: the member, whose session has begun.
        protocols: what it has in place of the names of assignors.
        client: who sent the request.
        now_ms: the time.
    """
    return MemberJoined(
        at_ms=now_ms,
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        state=group.state_name,
        generation_id=group.logged_generation(),
        member_count=group.member_count,
        session_timeout_ms=member.session_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=list(protocols),
        reason=None,
        client_software_name=client.software_name or None,
        client_software_version=client.software_version or None,
        principal=client.login,
    )


def removed_fact(
    group: GroupLike,
    member: JoinedMember,
    identity: Instigator,
    cause: Bump,
    now_ms: int,
    reason: str | None = None,
    requester: RequestContext | None = None,
) -> MemberRemoved:
    """Return the fact that a member was removed.

    Args:
        group: what is left of its group.
        member: the member.
        identity: what it was before its records were removed.
        cause: why it was removed.
        now_ms: the time.
        reason: what the request says.
        requester: who asked for it, if that was not the member.
    """
    client = None if requester is None else requester.client
    return MemberRemoved(
        at_ms=now_ms,
        cause=cause.value,
        member_id=member.member_id,
        group_instance_id=identity.instance_id,
        client_id=identity.client_id,
        client_host=identity.client_host,
        state=group.state_name,
        generation_id=group.logged_generation(),
        member_count=group.member_count,
        was_leader=False,
        leader=None,
        last_heard_ms=member.last_heard_ms(),
        session_timeout_ms=member.session_ms,
        reason=reason[:MAX_REASON_LENGTH] if reason else None,
        requester_client_id=None if client is None else client.client_id,
        requester_host=None if client is None else client.client_host,
        requester_principal=None if client is None else client.login,
    )
