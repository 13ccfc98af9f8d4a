"""Bugs of share groups, each with the transcript that finds it."""

from tests.faults import Function, answers, calling, given
from tests.planting import Plant

_GROUPS = "coterie.coordinator.groups.share"


def _all_partitions(_: Function) -> Function:
    """Return all partitions of all topics."""
    return lambda group: {
        each.topic_id: range(each.partitions) for each in group.topics.by_id.values()
    }


SHARE_PLANTS: tuple[tuple[Plant, str], ...] = (
    (
        Plant(
            "partitions are assigned before their state exists",
            f"{_GROUPS}.target:_assignable",
            fault=_all_partitions,
        ),
        "share_groups/first_join",
    ),
    (
        Plant(
            "initialized partitions do not raise the epoch",
            f"{_GROUPS}.epochs:bump_if_needed",
            fault=calling(f"{_GROUPS}.epochs:_has_unassigned", answers(value=False)),
        ),
        "share_groups/first_join",
    ),
    (
        Plant(
            "the initialization is not tried again",
            f"{_GROUPS}.initialization:_without_state",
            fault=given({"group.initializing_since": {}}),
        ),
        "share_groups/state_is_not_created",
    ),
    (
        Plant(
            "a departure does not raise the epoch",
            f"{_GROUPS}.members:remove_member",
            fault=calling(f"{_GROUPS}.epochs:bump_epoch", answers(None)),
        ),
        "share_groups/departure",
    ),
    (
        Plant(
            "the answer of a share group that is lost is not forgiven",
            f"{_GROUPS}.lookup:find_member",
            "(JOIN_EPOCH, member.epoch, member.previous_epoch)",
            "(JOIN_EPOCH, member.epoch)",
        ),
        "share_groups/wrong_epochs",
    ),
    (
        Plant(
            "a group is deleted before the state of its partitions",
            f"{_GROUPS}.initialization:delete_state_first",
            fault=answers(None),
        ),
        "share_groups/delete_a_share_group",
    ),
    (
        Plant(
            "every topic is shared among all members",
            f"{_GROUPS}.group:ShareGroup.is_homogeneous",
            fault=answers(value=True),
        ),
        "share_groups/subscription_changes",
    ),
    (
        Plant(
            "the state of a deleted topic is kept",
            f"{_GROUPS}.initialization:forget_topic",
            fault=answers(()),
        ),
        "share_groups/topics_change",
    ),
    (
        Plant(
            "a client that waits for a deletion is not answered when its partition is given up",
            f"{_GROUPS}.group_type:ShareType.close",
            fault=given({"group.waiting": []}),
        ),
        "share_groups/state_is_not_deleted",
    ),
)
