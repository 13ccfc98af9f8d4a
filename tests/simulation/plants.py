"""The bugs themselves: which text of which function of the core is replaced by what.

Each is one that somebody could make, or has made. The simulation must find every one; `planted.py`
puts them in.
"""

from typing import NamedTuple


class Plant(NamedTuple):
    """One bug.

    Attributes:
        name: what is wrong.
        target: "module.function" or "module.Class.function" below `coordinator`.
        old, new: the text that is replaced, once, and what takes its place.
    """

    name: str
    target: str
    old: str
    new: str


PLANTS: tuple[Plant, ...] = (
    # -- JoinGroup ---------------------------------------------------------------------------------
    Plant(
        "the size of a group is not limited",
        "join._has_room",
        "return member is not None or len(group.members) < limit",
        "return True",
    ),
    Plant(
        "a first join gets no member id of its own",
        "join._join_new",
        "if context.version < _MEMBER_ID_REQUIRED_SINCE:",
        "if context.version < 9:",
    ),
    Plant(
        "the timer of a pending id outlives its join",
        "join._join_known",
        "effects.cancel(TimerKind.PENDING, group.group_id, member_id)",
        "pass",
    ),
    Plant(
        "a new member must heartbeat before it knows its generation",
        "join._add",
        "start_session(group, member, NEW_MEMBER_JOIN_TIMEOUT_MS, now_ms, effects)",
        "start_session(group, member, request.session_timeout_ms, now_ms, effects)",
    ),
    Plant(
        "a leader that rejoins unchanged is answered from memory",
        "join._rejoin",
        "if state is GroupState.STABLE and not changed and not is_leader:",
        "if state is GroupState.STABLE and not changed:",
    ),
    Plant(
        "a changed subscription in CompletingRebalance is not seen",
        "join._rejoin",
        "if state is GroupState.COMPLETING_REBALANCE and not changed:",
        "if state is GroupState.COMPLETING_REBALANCE:",
    ),
    Plant(
        "a pending id may come with an instance",
        "join._join_known",
        "if request.group_instance_id is not None:",
        "if False:",
    ),
    Plant(
        "protocols are not compared with what the members offer",
        "join._admission_error",
        "if not group.accepts(request.protocol_type, names):",
        "if not names or not group.accepts(request.protocol_type, names[:1]):",
    ),
    Plant(
        "fencing is skipped",
        "identity.identity_error",
        "return ErrorCode.FENCED_INSTANCE_ID",
        "pass",
    ),
    # -- the join phase ----------------------------------------------------------------------------
    Plant(
        "the join timer is not armed for stragglers",
        "rebalance.prepare_rebalance",
        'effects.arm(TimerKind.JOIN, group.group_id, "", now_ms + group.rebalance_timeout_ms())',
        "pass",
    ),
    Plant(
        "the initial delay is skipped",
        "rebalance.prepare_rebalance",
        "if began_from is GroupState.EMPTY:",
        "if False:",
    ),
    Plant(
        "the initial delay ends when everybody is there",
        "rebalance.maybe_complete_join",
        "and group.previous_state is not GroupState.EMPTY",
        "",
    ),
    Plant(
        "an arrival buys slice after slice",
        "rebalance.join_timer_fired",
        "group.new_member_added = False",
        "pass",
    ),
    Plant(
        "slices go on beyond the rebalance timeout",
        "rebalance.join_timer_fired",
        "group.initial_remaining_ms = max(remaining_ms - delay_ms, 0)",
        "group.initial_remaining_ms = remaining_ms",
    ),
    Plant(
        "stragglers stay members",
        "rebalance.complete_join",
        "if member.delayed_join is None and member.group_instance_id is None:",
        "if False:",
    ),
    Plant(
        "a static member is removed at the join timeout",
        "rebalance.complete_join",
        "if member.delayed_join is None and member.group_instance_id is None:",
        "if member.delayed_join is None:",
    ),
    Plant(
        "an absent leader keeps the lead",
        "group.Group.elect_joined_leader",
        "if self.leader is not None and self.members[self.leader].delayed_join is not None:",
        "if self.leader is not None:",
    ),
    Plant(
        "the generation is not incremented",
        "rebalance.complete_join",
        "group.generation_id += 1",
        "group.generation_id += not group.generation_id",
    ),
    Plant(
        "the member list is sent to followers",
        "rebalance.complete_join",
        "members = roster if member.member_id == group.leader else []",
        "members = roster",
    ),
    Plant(
        "the sync timer is not armed",
        "rebalance.complete_join",
        'effects.arm(TimerKind.SYNC, group_id, "", now_ms + group.rebalance_timeout_ms())',
        "pass",
    ),
    Plant(
        "a pending id does not keep a join phase open",
        "group.Group.all_joined",
        "return len(self.members) == self.awaiting_joins and not self.pending_joins",
        "return len(self.members) == self.awaiting_joins",
    ),
    Plant(
        "one straggler is not waited for",
        "group.Group.all_joined",
        "len(self.members) == self.awaiting_joins",
        "len(self.members) - self.awaiting_joins <= (len(self.members) > 2)",
    ),
    Plant(
        "parked syncs are not told of a new rebalance",
        "rebalance.prepare_rebalance",
        "if group.state is GroupState.COMPLETING_REBALANCE:",
        "if False:",
    ),
    Plant(
        "the minority's protocol is chosen",
        "group.Group.select_protocol",
        "most = max(votes.values())",
        "most = min(votes.values())",
    ),
    Plant(
        "a group that everybody left is not logged",
        "rebalance._become_empty",
        "effects.records.append(group_record(group))",
        "pass",
    ),
    # -- SyncGroup ---------------------------------------------------------------------------------
    Plant(
        "a sync is accepted in PreparingRebalance",
        "sync._sync_error_of",
        "if group.state is GroupState.PREPARING_REBALANCE:",
        "if False:",
    ),
    Plant(
        "a sync of an old generation is accepted",
        "sync._sync_error_of",
        "if request.generation_id != group.generation_id:",
        "if request.generation_id > group.generation_id:",
    ),
    Plant(
        "the assignment is handed out before it is durable",
        "sync.sync",
        "_store_assignment(group, request, effects)",
        "_store_assignment(group, request, effects);"
        " assignment_stored(group, effects.completion, group.state_timestamp_ms, effects)",
    ),
    Plant(
        "a leader that asks twice has two assignments on their way",
        "sync.sync",
        "and group.assigned_generation != group.generation_id",
        "",
    ),
    Plant(
        "an assignment is stored for another generation",
        "sync.assignment_stored",
        "or group.generation_id != done.generation_id",
        "",
    ),
    Plant(
        "who the leader leaves out gets somebody's assignment",
        "sync._store_assignment",
        'given.get(member_id, b"")',
        'given.get(member_id, b"t0-0")',
    ),
    Plant(
        "a failed assignment does not cost a rebalance",
        "sync.assignment_failed",
        "prepare_rebalance(shard, group, now_ms, effects, Cause.APPEND_FAILURE)",
        "pass",
    ),
    Plant(
        "the sync timer spares static members",
        "sync.sync_timer_fired",
        "for member in late:",
        "for member in [each for each in late if each.group_instance_id is None]:",
    ),
    Plant(
        "the sync timer runs on when all have synced",
        "sync.sync",
        "effects.cancel(TimerKind.SYNC, group.group_id)",
        "pass",
    ),
    # -- heartbeats, sessions, leaving -------------------------------------------------------------
    Plant(
        "a heartbeat does not move the deadline",
        "heartbeat.heartbeat",
        "member.deadline_ms = now_ms + member.session_timeout_ms",
        "pass",
    ),
    Plant(
        "a commit does not keep a member alive",
        "offsets._commit_error",
        "member.deadline_ms = now_ms + member.session_timeout_ms",
        "pass",
    ),
    Plant(
        "a heartbeat of an old generation is fine",
        "heartbeat.heartbeat",
        "if request.generation_id != group.generation_id:",
        "if request.generation_id > group.generation_id:",
    ),
    Plant(
        "members hear nothing of a rebalance",
        "heartbeat.heartbeat",
        "_REBALANCING if state is GroupState.PREPARING_REBALANCE else _ALIVE",
        "_ALIVE",
    ),
    Plant(
        "a member expires while its request waits",
        "session.expire_session",
        "if not member.is_new and "
        "(member.delayed_join is not None or member.delayed_sync is not None):",
        "if False:",
    ),
    Plant(
        "an expiry does not start a rebalance",
        "session.expire_session",
        "if state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):",
        "if state is GroupState.COMPLETING_REBALANCE:",
    ),
    Plant(
        "a session that was prolonged is not watched any more",
        "session.expire_session",
        "effects.arm(TimerKind.SESSION, group.group_id, member.member_id, member.deadline_ms)",
        "pass",
    ),
    Plant(
        "an expired pending id does not complete the join phase",
        "session.expire_pending",
        "_complete_if_all_joined(group, now_ms, effects)",
        "pass",
    ),
    Plant(
        "the session of a removed member is not cancelled",
        "removal.remove_member",
        "effects.cancel(TimerKind.SESSION, group.group_id, member.member_id)",
        "pass",
    ),
    Plant(
        "a parked joiner that is removed is not told",
        "removal.remove_member",
        "if to is not None:",
        "if False:",
    ),
    Plant(
        "a leave from Stable does not start a rebalance",
        "leave.leave",
        "if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):",
        "if group.state is GroupState.COMPLETING_REBALANCE:",
    ),
    Plant(
        "a pending id that leaves keeps its timer",
        "leave._leave_one",
        "effects.cancel(TimerKind.PENDING, group.group_id, member_id)",
        "pass",
    ),
    # -- static members ----------------------------------------------------------------------------
    Plant(
        "the older process of an instance is not fenced where it waits",
        "static_member._fence_parked",
        "if to is not None:",
        "if False:",
    ),
    Plant(
        "a static replacement that failed is not taken back",
        "static_member.replacement_failed",
        "group.replace_static(done.group_instance_id, done.member_id, done.old_member_id)",
        "pass",
    ),
    Plant(
        "a failed replacement is taken back in the next generation too",
        "static_member.replacement_failed",
        "if member is None or group.generation_id != done.generation_id:",
        "if member is None:",
    ),
    Plant(
        "a failed replacement forgets who has not synced",
        "static_member.replacement_failed",
        "group.pending_syncs.add(done.old_member_id)",
        "pass",
    ),
    Plant(
        "a restarted static leader makes old clients compute an assignment",
        "static_member.replacement_stored",
        "if not done.skips_assignment:",
        "if False:",
    ),
    # -- offsets and groups ------------------------------------------------------------------------
    Plant(
        "a commit is accepted in CompletingRebalance",
        "offsets._commit_error",
        "if state is GroupState.COMPLETING_REBALANCE:",
        "if False:",
    ),
    Plant(
        "a group with members can be deleted",
        "admin.delete_group",
        "elif group.state is not GroupState.EMPTY:",
        "elif group.state is GroupState.STABLE:",
    ),
    Plant(
        "a deleted group leaves the timers of its pending ids",
        "expiry.remove_group",
        "effects.cancel(TimerKind.PENDING, group.group_id, member_id)",
        "pass",
    ),
    Plant(
        "offsets expire while their topic is subscribed",
        "expiry._has_expired",
        "and not group.is_subscribed(topic)",
        "",
    ),
    Plant(
        "subscriptions of the present members count, not of the generation",
        "group.Group.subscribed_topics",
        "for metadata in self.subscriptions:",
        "for metadata in [m.protocols[0][1] for m in self.members.values()]:",
    ),
    Plant(
        "offsets of a deleted topic stay in some groups",
        "shard.Shard.forget_topic",
        "for group_id in list(self.logged.offsets):",
        "for group_id in list(self.logged.offsets)[1:]:",
    ),
    # -- the log -----------------------------------------------------------------------------------
    Plant(
        "a reply leaves before its records are durable",
        "shard.Shard.settle",
        "effects.delayed_answer, effects.answer = effects.answer, None",
        "effects.delayed_answer = None",
    ),
    Plant(
        "a read does not wait for the appends before it",
        "shard.Shard.settle",
        "elif effects.answer is None or not self.unacknowledged:",
        "else:",
    ),
    Plant(
        "a failed append is not undone",
        "shard.Shard.append_failed",
        "take_back(operation.undo)",
        "pass",
    ),
    Plant(
        "only the newest failed append is undone",
        "shard.Shard.append_failed",
        "for operation in reversed(failed):\n        take_back",
        "for operation in failed[-1:]:\n        take_back",
    ),
    Plant(
        "a group whose first record failed stays",
        "shard.Shard._failed",
        "del self.groups[group.group_id]",
        "pass",
    ),
    Plant(
        "who waits in a group that vanished is forgotten",
        "shard.Shard.append_failed",
        "self._dissolve(group, code, effects)",
        "pass",
    ),
    Plant(
        "a tombstone does not remove an offset",
        "replay._forget_offset",
        "before = partitions.pop(key.partition, None)",
        "before = None",
    ),
    Plant(
        "an older offset wins",
        "replay._store_offset",
        "partitions[key.partition] = value",
        "partitions.setdefault(key.partition, value)",
    ),
    Plant(
        "a restart forgets the assignments",
        "replay.restore",
        "member.assignment = logged.assignment",
        "pass",
    ),
    Plant(
        "a restart forgets who leads",
        "replay.restore",
        "if value.leader in group.members:",
        "if False:",
    ),
    Plant(
        "members of a loaded group live for ever",
        "shard.Shard.finish_load",
        "start_session(group, member, member.session_timeout_ms, now_ms, effects)",
        "pass",
    ),
    Plant(
        "heartbeats are refused while loading",
        "service.GroupCoordinator.heartbeat",
        "return HEARTBEAT_ANSWERS[ErrorCode.NONE]",
        "return HEARTBEAT_ANSWERS[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]",
    ),
    Plant(
        "the sweep comes once only",
        "shard.Shard.sweep",
        'effects.arm(TimerKind.EXPIRY, str(self.partition), "", now_ms + interval_ms)',
        "pass",
    ),
    # -- timers ------------------------------------------------------------------------------------
    Plant(
        "a cancelled timer stays in the wheel",
        "timer_wheel.TimingWheel.cancel",
        "del slot.entries[key]",
        "pass",
    ),
    Plant(
        "a timer that overflows a level is lost",
        "timer_wheel.TimingWheel._place",
        "if slot_ms < level.current_ms + level.interval_ms:",
        "if slot_ms < level.current_ms + 3 * level.interval_ms:",
    ),
    Plant(
        "timers of coarse levels fire a tick too late",
        "timer_wheel.TimingWheel._place",
        "number = slot_ms // level.tick_ms",
        "number = slot_ms // level.tick_ms + (index > 0)",
    ),
)

# Not a bug but the test of the tests: a harness that finds nothing here looks at nothing.
CANARY = Plant(
    "every heartbeat is refused",
    "heartbeat.heartbeat",
    "return _REBALANCING if state is GroupState.PREPARING_REBALANCE else _ALIVE",
    "return ANSWERS[ErrorCode.UNKNOWN_MEMBER_ID]",
)
