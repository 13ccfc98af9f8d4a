"""Sessions: what keeps a member alive and what removes it (spec sections 4.3, 6 and 13).

A heartbeat stores a deadline on the member and touches no timer. When the wheel entry of the member
fires, the deadline is looked at and the entry armed again if it moved; there is one entry a member,
ever. An entry that fires while a join or sync of the member is parked is not armed again: answering
that request restarts the session.
"""

from typing import TYPE_CHECKING

from coterie.coordinator.effects import Effects, TimerKind
from coterie.coordinator.group import Group, GroupState, Member
from coterie.coordinator.rebalance import Cause, Instigator, complete_join, prepare_rebalance
from coterie.coordinator.removal import Removal, remove_member
from coterie.protocol.messages.journal_records import PendingMemberExpired

if TYPE_CHECKING:
    from coterie.coordinator.shard import Shard


def expire_pending(group: Group, member_id: str, now_ms: int, effects: Effects) -> None:
    """A member id that was handed out has not been used within the session timeout: it is forgotten
    (T10).
    """
    if member_id not in group.pending_joins:
        return
    group.pending_joins.discard(member_id)
    expired = PendingMemberExpired(
        at_ms=now_ms,
        member_id=member_id,
        state=group.state.value,
        generation_id=group.generation_id,
    )
    effects.note(group.group_id, expired)
    _complete_if_all_joined(group, now_ms, effects)


def expire_session(
    shard: "Shard", group: Group, member: Member, now_ms: int, effects: Effects
) -> None:
    """The wheel entry of a member has fired: arm it again, leave it to a parked request, or remove
    the member.
    """
    member.armed_ms = 0
    if member.deadline_ms > now_ms:
        member.armed_ms = member.deadline_ms
        effects.arm(TimerKind.SESSION, group.group_id, member.member_id, member.deadline_ms)
        return
    if not member.is_new and (member.delayed_join is not None or member.delayed_sync is not None):
        return
    state = group.state
    remove_member(group, member, now_ms, effects, Removal.SESSION_EXPIRY)
    if state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        prepare_rebalance(shard, group, now_ms, effects, Cause.SESSION_EXPIRY, Instigator(member))
    else:
        _complete_if_all_joined(group, now_ms, effects)


def _complete_if_all_joined(group: Group, now_ms: int, effects: Effects) -> None:
    # Kafka 4 does this during the initial delay too, where other events wait for the delay (spec
    # section 6).
    if group.state is GroupState.PREPARING_REBALANCE and group.all_joined():
        complete_join(group, now_ms, effects)
