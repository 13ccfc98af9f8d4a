"""Which group and which member a request means."""

from coterie.coordinator.groups.epochs import JOIN_EPOCH
from coterie.coordinator.groups.recorded.lookup import (
    refuse_epoch,
    unknown_member,
)
from coterie.coordinator.groups.share.group import SHARE, ShareGroup
from coterie.coordinator.groups.share.member import ShareMember


def find_member(group: ShareGroup, member_id: str, epoch: int) -> ShareMember | None:
    """Return the member that sends a heartbeat; None if it joins [share-groups/member-epochs].

    Raises:
        Refusal: there is no such member, or it does not know its epoch.
    """
    member = group.members.get(member_id)
    if epoch == JOIN_EPOCH:
        return member
    if member is None:
        raise unknown_member(group, member_id)
    if epoch > member.epoch:
        refuse_epoch(SHARE, epoch, member.epoch)
    if epoch < member.epoch and epoch != member.previous_epoch:
        more = f", and it does not match the previous member epoch ({member.previous_epoch})"
        refuse_epoch(SHARE, epoch, member.epoch, more)
    return member
