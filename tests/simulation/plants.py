"""The planted bugs of the simulation: what is wrong with which function of the core.

Each is a mistake that is easily made, or that was made once. The simulation must find all of them.
A text is replaced where a state machine asks for the wrong state, or where it leaves out one change
of an object that it has looked up: neither an argument nor a call stands for it.
`tests/planting.py` plants them.
"""

from typing import Any

from coterie.coordinator.groups.classic.heartbeat import RESPONSES
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.groups.classic.sync import assignment_stored
from coterie.coordinator.groups.classic.timers import TimerKind
from coterie.protocol.errors import ErrorCode
from tests.faults import (
    Function,
    Of,
    answers,
    calling,
    confuses,
    does_nothing,
    given,
    gives_no_answer,
    keeps,
    mistaking,
    where,
)
from tests.planting import Plant
from tests.simulation.log_plants import LOG_PLANTS

_CLASSIC = "coterie.coordinator.groups.classic."
_STEP = "coterie.coordinator.groups.step:GroupStep."
_HAS_SESSION_LEFT = "coterie.coordinator.groups.sessions:has_session_left"


def _after_its_session_timeout(start: Function) -> Function:
    """Let the session of a member have the member's own timeout, whatever is asked for."""
    return lambda step, member, _: start(step, member, member.session_timeout_ms)


def _the_first_protocol(accepts: Function) -> Function:
    """Compare only the first protocol of a member with those of the others."""
    return lambda group, kind, names: bool(names) and accepts(group, kind, names[:1])


def _and_sends_it(log: Function) -> Function:
    """Send an assignment as soon as it is written."""

    def run(step: Any, request: Any) -> None:
        log(step, request)
        assignment_stored(step, step.effects.operation.completion)

    return run


def _but_static_members(remove: Function) -> Function:
    """Remove no static member."""

    def run(step: Any, member: Any, *others: Any) -> None:
        if member.group_instance_id is None:
            remove(step, member, *others)

    return run


PLANTS: tuple[Plant, ...] = (
    # -- JoinGroup ---------------------------------------------------------------------------------
    Plant(
        "the size of a group is not limited",
        f"{_CLASSIC}join:_has_room",
        fault=answers(value=True),
    ),
    Plant(
        "a first join is not answered with MEMBER_ID_REQUIRED",
        f"{_CLASSIC}join:_join_new",
        fault=where(_MEMBER_ID_REQUIRED_SINCE=9),
    ),
    Plant(
        "the timer of a pending id outlives its join",
        f"{_CLASSIC}join:_join_known",
        fault=calling(f"{_STEP}cancel", does_nothing, TimerKind.PENDING),
    ),
    Plant(
        "a new member expires after its session timeout",
        f"{_CLASSIC}join:_add",
        fault=calling(f"{_CLASSIC}members:start_session", _after_its_session_timeout),
    ),
    Plant(
        "a leader that rejoins unchanged starts no rebalance",
        f"{_CLASSIC}join:_rejoin",
        "if state is GroupState.STABLE and not changed and not is_leader:",
        "if state is GroupState.STABLE and not changed:",
    ),
    Plant(
        "a changed subscription in CompletingRebalance is ignored",
        f"{_CLASSIC}join:_rejoin",
        "if state is GroupState.COMPLETING_REBALANCE and not changed:",
        "if state is GroupState.COMPLETING_REBALANCE:",
    ),
    Plant(
        "a pending id is accepted with an instance id",
        f"{_CLASSIC}join:_join_known",
        "if instance is not None:",
        "if False:",
    ),
    Plant(
        "a joiner's protocols are not compared with those of the members",
        f"{_CLASSIC}group:Group.accepts",
        fault=_the_first_protocol,
    ),
    Plant(
        "fencing is skipped",
        f"{_CLASSIC}group:Group.identity_error",
        fault=given(
            group_instance_id=Of(
                "None if group_instance_id in self.static_members else group_instance_id"
            )
        ),
    ),
    # -- the join phase ----------------------------------------------------------------------------
    Plant(
        "the join timer is not armed",
        f"{_CLASSIC}rebalance:prepare_rebalance",
        'step.arm(TimerKind.JOIN, "", now_ms + timeout_ms)',
        "pass",
    ),
    Plant(
        "the initial delay is skipped",
        f"{_CLASSIC}rebalance:prepare_rebalance",
        "if previous_state is GroupState.EMPTY:",
        "if False:",
    ),
    Plant(
        "the initial delay ends when all members have joined",
        f"{_CLASSIC}rebalance:maybe_complete_join",
        fault=given({"step.group.previous_state": GroupState.STABLE}),
    ),
    Plant(
        "a new member extends the initial delay more than once",
        f"{_CLASSIC}rebalance:join_timer_fired",
        fault=keeps("step.group.new_member_added"),
    ),
    Plant(
        "the initial delay is extended beyond the rebalance timeout",
        f"{_CLASSIC}rebalance:join_timer_fired",
        fault=keeps("step.group.initial_remaining_ms"),
    ),
    Plant(
        "members that do not rejoin stay in the group",
        f"{_CLASSIC}rebalance:complete_join",
        fault=calling(f"{_CLASSIC}members:remove_member", does_nothing),
    ),
    Plant(
        "a static member is removed at the join timeout",
        f"{_CLASSIC}rebalance:complete_join",
        "if member.delayed_join is None and member.group_instance_id is None:",
        "if member.delayed_join is None:",
    ),
    Plant(
        "an absent leader stays leader",
        f"{_CLASSIC}group:Group.elect_joined_leader",
        fault=answers(value=True),
    ),
    Plant(
        "the generation is not incremented",
        f"{_CLASSIC}rebalance:complete_join",
        "group.generation_id += 1",
        "group.generation_id += not group.generation_id",
    ),
    Plant(
        "the member list is sent to followers",
        f"{_CLASSIC}rebalance:complete_join",
        "members = roster if member.member_id == group.leader else []",
        "members = roster",
    ),
    Plant(
        "the sync timer is not armed",
        f"{_CLASSIC}rebalance:complete_join",
        fault=calling(f"{_STEP}arm", does_nothing, TimerKind.SYNC),
    ),
    Plant(
        "a pending id does not keep a join phase open",
        f"{_CLASSIC}group:Group.all_joined",
        fault=given({"self.pending_joins": ()}),
    ),
    Plant(
        "the join phase does not wait for the last member",
        f"{_CLASSIC}group:Group.all_joined",
        fault=given(
            {
                "self.awaiting_joins": Of(
                    "self.awaiting_joins"
                    " + (len(self.members) - self.awaiting_joins == 1 and len(self.members) > 2)"
                )
            }
        ),
    ),
    Plant(
        "delayed syncs are not answered when a rebalance starts",
        f"{_CLASSIC}rebalance:fail_syncs",
        fault=does_nothing,
    ),
    Plant(
        "the protocol with the fewest votes is chosen",
        f"{_CLASSIC}group:Group.select_protocol",
        fault=mistaking(max="min"),
    ),
    Plant(
        "a group without members is not logged",
        f"{_CLASSIC}rebalance:_become_empty",
        fault=calling(f"{_STEP}write", does_nothing),
    ),
    # -- SyncGroup ---------------------------------------------------------------------------------
    Plant(
        "a sync is accepted in PreparingRebalance",
        f"{_CLASSIC}sync:_check",
        fault=confuses(ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NONE),
    ),
    Plant(
        "a sync of an old generation is accepted",
        f"{_CLASSIC}sync:_check",
        fault=given(
            {"request.generation_id": Of("max(request.generation_id, group.generation_id)")}
        ),
    ),
    Plant(
        "the assignment is sent before it is durable",
        f"{_CLASSIC}sync:_log_assignment",
        fault=_and_sends_it,
    ),
    Plant(
        "a repeated sync of the leader is logged again",
        f"{_CLASSIC}sync:sync",
        "and group.assigned_generation != group.generation_id",
        "",
    ),
    Plant(
        "an assignment is accepted for another generation",
        f"{_CLASSIC}sync:assignment_stored",
        fault=given({"write.generation_id": Of("step.group.generation_id")}),
    ),
    Plant(
        "a member without an assignment gets a partition",
        f"{_CLASSIC}sync:_log_assignment",
        'sent.get(member_id, b"")',
        'sent.get(member_id, b"t0-0")',
    ),
    Plant(
        "a commit to an unknown group creates no group",
        "coterie.coordinator.groups.partition_state:PartitionState.add_group",
        fault=does_nothing,
    ),
    Plant(
        "the sync timer does not remove static members",
        f"{_CLASSIC}sync:sync_timer_fired",
        fault=calling(f"{_CLASSIC}members:remove_member", _but_static_members),
    ),
    Plant(
        "the sync timer is not cancelled when all have synced",
        f"{_CLASSIC}sync:sync",
        fault=calling(f"{_STEP}cancel", does_nothing, TimerKind.SYNC),
    ),
    # -- heartbeats, sessions, leaving -------------------------------------------------------------
    Plant(
        "a heartbeat does not move the deadline",
        f"{_CLASSIC}heartbeat:heartbeat",
        fault=keeps("partition.groups[request.group_id].members[request.member_id].deadline_ms"),
    ),
    Plant(
        "a commit does not restart the session",
        f"{_CLASSIC}group:Group.commit_error",
        fault=keeps("self.members[request.member_id].deadline_ms"),
    ),
    Plant(
        "a heartbeat of an old generation is accepted",
        f"{_CLASSIC}heartbeat:heartbeat",
        "if request.generation_id != group.generation_id:",
        "if request.generation_id > group.generation_id:",
    ),
    Plant(
        "heartbeats do not report a rebalance",
        f"{_CLASSIC}heartbeat:heartbeat",
        fault=mistaking(_REBALANCING="_ALIVE"),
    ),
    Plant(
        "a member with a delayed request expires",
        f"{_CLASSIC}heartbeat:expire_session",
        fault=given({"member.is_new": True}),
    ),
    Plant(
        "an expiry does not start a rebalance",
        f"{_CLASSIC}heartbeat:expire_session",
        "if state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):",
        "if state is GroupState.COMPLETING_REBALANCE:",
    ),
    Plant(
        "the timer of an extended session is not armed again",
        _HAS_SESSION_LEFT,
        fault=calling(f"{_STEP}arm", does_nothing),
    ),
    Plant(
        "an expired pending id does not complete the join phase",
        f"{_CLASSIC}heartbeat:expire_pending",
        fault=calling(f"{_CLASSIC}heartbeat:_complete_if_all_joined", does_nothing),
    ),
    Plant(
        "the session of a removed member is not cancelled",
        f"{_CLASSIC}members:remove_member",
        fault=calling(f"{_STEP}cancel", does_nothing, TimerKind.SESSION),
    ),
    Plant(
        "the delayed join of a removed member is not answered",
        f"{_CLASSIC}members:remove_member",
        fault=calling(f"{_CLASSIC}group:Group.take_delayed_join", gives_no_answer),
    ),
    Plant(
        "a leave from Stable does not start a rebalance",
        f"{_CLASSIC}leave:leave",
        "if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):",
        "if group.state is GroupState.COMPLETING_REBALANCE:",
    ),
    Plant(
        "a pending id that leaves keeps its timer",
        f"{_CLASSIC}leave:_leave_one",
        fault=calling(f"{_STEP}cancel", does_nothing, TimerKind.PENDING),
    ),
    # -- static members ----------------------------------------------------------------------------
    Plant(
        "the delayed request of a replaced process is not fenced",
        f"{_CLASSIC}static_member:_fence_delayed_requests",
        fault=calling(f"{_CLASSIC}group:Group.take_delayed_join", gives_no_answer),
    ),
    Plant(
        "the sync of a replaced member is not awaited",
        f"{_CLASSIC}group:Group.replace_static",
        "self.pending_syncs.add(new_id)",
        "pass",
    ),
    Plant(
        "a restarted static leader of an old version computes an assignment",
        f"{_CLASSIC}static_member:replacement_stored",
        "if not write.can_skip_assignment:",
        "if False:",
    ),
    # -- offsets and groups ------------------------------------------------------------------------
    Plant(
        "a commit is accepted in CompletingRebalance",
        f"{_CLASSIC}group:Group.commit_error",
        fault=confuses(ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NONE),
    ),
    Plant(
        "a group with members can be deleted",
        f"{_CLASSIC}group:Group.delete_error",
        fault=given({"self.state": Of("_STABLE if self.state is _STABLE else _EMPTY")}),
    ),
    Plant(
        "the timers of a deleted group's pending ids are not cancelled",
        f"{_CLASSIC}group_type:ClassicType.removed",
        fault=calling(
            f"{_CLASSIC}group_type:_cancel_member_timers", given({"group.pending_joins": ()})
        ),
    ),
    Plant(
        "offsets expire while their topic is subscribed",
        f"{_CLASSIC}group:Group.expiry_base_ms",
        fault=calling(f"{_CLASSIC}group:Group.is_subscribed", answers(value=False)),
    ),
    Plant(
        "the subscriptions of the members count, not of the generation",
        f"{_CLASSIC}group:Group.subscribed_topics",
        fault=given(
            {
                "self.subscriptions": Of(
                    "None if self.subscriptions is None"
                    " else [each.protocols[0][1] for each in self.members.values()]"
                )
            }
        ),
    ),
    Plant(
        "offsets of a deleted topic stay in some groups",
        "coterie.coordinator.groups.shard:GroupShard.delete_topic_offsets",
        "for group_id in groups:",
        "for group_id in list(groups)[1:]:",
    ),
    *LOG_PLANTS,
)

# Checks that miss this bug check nothing.
CANARY = Plant(
    "every heartbeat is refused",
    f"{_CLASSIC}heartbeat:heartbeat",
    fault=answers(RESPONSES[ErrorCode.UNKNOWN_MEMBER_ID]),
)
