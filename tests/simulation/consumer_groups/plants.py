"""Bugs that the simulation of consumer groups must find.

A text is replaced where one of two equal calls is left out, or one condition on a group or member
that the function has looked up: neither an argument nor a call stands for it.
"""

from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupTargetAssignmentMetadataKey,
)
from tests.faults import Function, Of, answers, calling, does_nothing, given, keeps, without
from tests.planting import Plant

_GROUPS = "coterie.coordinator.groups.consumer."


def _if_they_were_compared(may_have_others: Function) -> Function:
    """Compare the topics of a group only if they were compared before."""
    return lambda group: group.checked_version is not None and may_have_others(group)


PLANTS = (
    Plant(
        "a partition is taken from its owner",
        f"{_GROUPS}reconciliation:_next",
        fault=given({"group.owners": {}}),
    ),
    Plant(
        "partitions are given up without a word of the member",
        f"{_GROUPS}reconciliation:_has_some",
        fault=answers(value=False),
    ),
    Plant(
        "a member that has nothing to give up any more is waited for",
        f"{_GROUPS}reconciliation:_has_some",
        fault=answers(value=True),
    ),
    Plant(
        "partitions that are given up are free at once",
        f"{_GROUPS}group_state:ConsumerGroupState.replace_current",
        "self._occupy(member.pending, member)",
        "pass",
    ),
    Plant(
        "a departed member keeps its partitions",
        f"{_GROUPS}group_state:ConsumerGroupState._release",
        fault=does_nothing,
    ),
    Plant(
        "a member waits for partitions that are its own",
        f"{_GROUPS}reconciliation:_next",
        "epoch = group.target_epoch",
        "epoch, waits = group.target_epoch, bool(add)",
    ),
    Plant(
        "a departure does not raise the epoch",
        f"{_GROUPS}members:remove_members",
        fault=calling(f"{_GROUPS}epochs:bump_epoch", does_nothing),
    ),
    Plant(
        "the epoch does not rise with another subscription",
        f"{_GROUPS}subscription:bump_for",
        fault=given({"change.names": False}),
    ),
    Plant(
        "changed topics are not noticed",
        f"{_GROUPS}epochs:bump_if_topics_changed",
        fault=answers(value=False),
    ),
    Plant(
        "the topics of a loaded group are not compared",
        "coterie.coordinator.groups.epochs:may_have_other_topics",
        fault=_if_they_were_compared,
    ),
    Plant(
        "the revocation timer is not armed",
        "coterie.coordinator.groups.recorded.revocation:time_revocation",
        fault=calling("coterie.coordinator.groups.step:GroupStep.arm", does_nothing),
    ),
    Plant(
        "the revocation timer is not armed after a load",
        f"{_GROUPS}group_type:ConsumerType.member_loaded",
        fault=calling(f"{_GROUPS}members:time_revocation", does_nothing),
    ),
    Plant(
        "a loaded member has no session",
        "coterie.coordinator.groups.recorded.group_type:RecordedType.loaded",
        fault=calling("coterie.coordinator.groups.sessions:start_session", does_nothing),
    ),
    Plant(
        "the members of an upgraded group have no session",
        f"{_GROUPS}upgrade:start_classic_sessions",
        fault=does_nothing,
    ),
    Plant(
        "a session that went on is forgotten when its timer fires",
        "coterie.coordinator.groups.sessions:has_session_left",
        fault=calling("coterie.coordinator.groups.step:GroupStep.arm", does_nothing),
    ),
    Plant(
        "a static successor has no target",
        f"{_GROUPS}static_member:replace_member",
        fault=calling(f"{_GROUPS}records:target_value", given(target={})),
    ),
    Plant(
        "the place of a static member is not cleared",
        f"{_GROUPS}static_member:replace_member",
        fault=calling(
            "coterie.coordinator.groups.tentative_step:TentativeStep.remove", does_nothing
        ),
    ),
    Plant(
        "the live group of a static successor is not the logged one",
        "coterie.coordinator.groups.recorded.records:RecordedGroups.apply",
        "if group.unlogged:",
        "if False:",
    ),
    Plant(
        "a member that is away may be asked for its partitions for ever",
        f"{_GROUPS}leave:_leave_for_a_while",
        fault=calling(
            f"{_GROUPS}records:current_value", given(previous_epoch=0, pending=Of("assigned"))
        ),
    ),
    Plant(
        "an upgrade leaves the record of the classic group",
        f"{_GROUPS}upgrade:upgrade",
        fault=calling("coterie.coordinator.groups.step:GroupStep.write", does_nothing),
    ),
    Plant(
        "a downgrade leaves the target epoch",
        "coterie.coordinator.groups.recorded.group:RecordedGroup.keys",
        fault=without(ConsumerGroupTargetAssignmentMetadataKey),
    ),
    Plant(
        "a downgraded group does not rebalance",
        f"{_GROUPS}members:finish_removal",
        fault=calling(f"{_GROUPS}downgrade:begin_classic", given(rebalances=False)),
    ),
    Plant(
        "the regular expressions of departed members stay",
        f"{_GROUPS}subscription:drop_regexes",
        fault=does_nothing,
    ),
    Plant(
        "a resolved regular expression raises no epoch",
        f"{_GROUPS}regexes:resolve_some",
        fault=calling(f"{_GROUPS}epochs:bump_epoch", does_nothing),
    ),
    Plant(
        "new topics are not matched with regular expressions",
        f"{_GROUPS}regexes:ask_for_resolution",
        fault=given({"step.group.topics.created_version": 0}),
    ),
    Plant(
        "a resolution does not end",
        f"{_GROUPS}regexes:resolve_some",
        fault=keeps("step.group.resolution"),
    ),
    Plant(
        "classic members are not asked to rejoin",
        f"{_GROUPS}classic_members:_has_to_rejoin",
        fault=answers(value=False),
    ),
    Plant(
        "what a classic member owns is not read",
        f"{_GROUPS}classic_join:_join",
        fault=calling(f"{_GROUPS}members:reconcile_member", given(owned={})),
    ),
    Plant(
        "an unchanged heartbeat is answered after the topics have changed",
        "coterie.coordinator.groups.recorded.heartbeat:unchanged",
        "or group.checked_version != group.topics.version",
        "or False",
    ),
    Plant(
        "an unchanged heartbeat is answered while a newer target is due",
        "coterie.coordinator.groups.recorded.heartbeat:unchanged",
        "or group.epoch != epoch",
        "or False",
    ),
    Plant(
        "unchanged heartbeats do not prolong the session",
        "coterie.coordinator.groups.recorded.heartbeat:unchanged",
        fault=keeps("partition.groups[request.group_id].members[request.member_id].deadline_ms"),
    ),
)
