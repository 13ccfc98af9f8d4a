"""Which member a heartbeat means."""

from coterie.coordinator.groups.epochs import JOIN_EPOCH
from coterie.coordinator.groups.recorded import lookup
from coterie.coordinator.groups.recorded.lookup import refuse_epoch
from coterie.coordinator.groups.share.group import ShareGroup
from coterie.coordinator.groups.share.member import ShareMember


def find_member(group: ShareGroup, member_id: str, epoch: int) -> ShareMember | None:
    """Return the member that sends a heartbeat; None if it joins [share-groups/member-epochs].

    Raises:
        Refusal: there is no such member, or it does not know its epoch.
    """
    member = lookup.find_member(group, member_id, epoch)
    if member is not None and epoch not in (JOIN_EPOCH, member.epoch, member.previous_epoch):
        more = f", and it does not match the previous member epoch ({member.previous_epoch})"
        refuse_epoch(group, epoch, member, more)
    return member
