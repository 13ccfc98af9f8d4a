"""Which member a heartbeat means.

| epoch of the request | the member                         | answer                    |
|----------------------|------------------------------------|---------------------------|
| 0                    | is not known                       | a new member              |
| 0                    | is known                           | it keeps epoch and tasks  |
| larger than known    |                                    | FENCED_MEMBER_EPOCH       |
| the known one        |                                    | accepted                  |
| the one before it    | reports no task but those assigned | accepted                  |
| any other            |                                    | FENCED_MEMBER_EPOCH       |

[streams-groups/member-epochs]
"""

from coterie.coordinator.groups.epochs import JOIN_EPOCH
from coterie.coordinator.groups.recorded import lookup
from coterie.coordinator.groups.recorded.lookup import refuse_epoch
from coterie.coordinator.groups.streams.group import StreamsGroup
from coterie.coordinator.groups.streams.member import StreamsMember
from coterie.coordinator.groups.streams.tasks import TaskRoles


def find_member(
    group: StreamsGroup, member_id: str, epoch: int, tasks: TaskRoles | None
) -> StreamsMember | None:
    """Return the member that sends a heartbeat; None if it joins.

    Args:
        group: the group.
        member_id, epoch: of the heartbeat.
        tasks: what it says that the member has; None if it does not say.

    Raises:
        Refusal: there is no such member, or it does not know its epoch.
    """
    member = lookup.find_member(group, member_id, epoch)
    if member is not None and epoch not in (JOIN_EPOCH, member.epoch):
        # The answer with the new epoch may have been lost.
        is_within = tasks is not None and tasks.is_within(member.assigned)
        if epoch != member.previous_epoch or not is_within:
            refuse_epoch(group, epoch, member)
    return member
