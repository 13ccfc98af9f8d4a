"""The planted bugs of the simulation: which text of which function of the core is replaced.

Each is a mistake that is easily made, or that was made once. The simulation must find all of them.
`tests/planting.py` plants them.
"""

from coterie.coordinator.groups.classic.heartbeat import RESPONSES
from coterie.protocol.errors import ErrorCode
from tests.planting import Plant, answers, does_nothing

PLANTS: tuple[Plant, ...] = (
    # -- JoinGroup ---------------------------------------------------------------------------------
    Plant(
        "the size of a group is not limited",
        "coterie.coordinator.groups.classic.join:_has_room",
        fault=answers(value=True),
    ),
    Plant(
        "a first join is not answered with MEMBER_ID_REQUIRED",
        "coterie.coordinator.groups.classic.join:_join_new",
        "if step.context.version < _MEMBER_ID_REQUIRED_SINCE:",
        "if step.context.version < 9:",
    ),
    Plant(
        "the timer of a pending id outlives its join",
        "coterie.coordinator.groups.classic.join:_join_known",
        "step.cancel(TimerKind.PENDING, member_id)",
        "pass",
    ),
    Plant(
        "a new member expires after its session timeout",
        "coterie.coordinator.groups.classic.join:_add",
        "start_session(step, member, NEW_MEMBER_JOIN_TIMEOUT_MS)",
        "start_session(step, member, request.session_timeout_ms)",
    ),
    Plant(
        "a leader that rejoins unchanged starts no rebalance",
        "coterie.coordinator.groups.classic.join:_rejoin",
        "if state is GroupState.STABLE and not changed and not is_leader:",
        "if state is GroupState.STABLE and not changed:",
    ),
    Plant(
        "a changed subscription in CompletingRebalance is ignored",
        "coterie.coordinator.groups.classic.join:_rejoin",
        "if state is GroupState.COMPLETING_REBALANCE and not changed:",
        "if state is GroupState.COMPLETING_REBALANCE:",
    ),
    Plant(
        "a pending id is accepted with an instance id",
        "coterie.coordinator.groups.classic.join:_join_known",
        "if instance is not None:",
        "if False:",
    ),
    Plant(
        "a joiner's protocols are not compared with those of the members",
        "coterie.coordinator.groups.classic.join:_admission_error",
        "if not group.accepts(request.protocol_type, names):",
        "if not names or not group.accepts(request.protocol_type, names[:1]):",
    ),
    Plant(
        "fencing is skipped",
        "coterie.coordinator.groups.classic.group:Group.identity_error",
        "return ErrorCode.FENCED_INSTANCE_ID",
        "pass",
    ),
    # -- the join phase ----------------------------------------------------------------------------
    Plant(
        "the join timer is not armed",
        "coterie.coordinator.groups.classic.rebalance:prepare_rebalance",
        'step.arm(TimerKind.JOIN, "", now_ms + group.rebalance_timeout_ms())',
        "pass",
    ),
    Plant(
        "the initial delay is skipped",
        "coterie.coordinator.groups.classic.rebalance:prepare_rebalance",
        "if previous_state is GroupState.EMPTY:",
        "if False:",
    ),
    Plant(
        "the initial delay ends when all members have joined",
        "coterie.coordinator.groups.classic.rebalance:maybe_complete_join",
        "and group.previous_state is not GroupState.EMPTY",
        "",
    ),
    Plant(
        "a new member extends the initial delay more than once",
        "coterie.coordinator.groups.classic.rebalance:join_timer_fired",
        "group.new_member_added = False",
        "pass",
    ),
    Plant(
        "the initial delay is extended beyond the rebalance timeout",
        "coterie.coordinator.groups.classic.rebalance:join_timer_fired",
        "group.initial_remaining_ms = max(remaining_ms - delay_ms, 0)",
        "group.initial_remaining_ms = remaining_ms",
    ),
    Plant(
        "members that do not rejoin stay in the group",
        "coterie.coordinator.groups.classic.rebalance:complete_join",
        "if member.delayed_join is None and member.group_instance_id is None:",
        "if False:",
    ),
    Plant(
        "a static member is removed at the join timeout",
        "coterie.coordinator.groups.classic.rebalance:complete_join",
        "if member.delayed_join is None and member.group_instance_id is None:",
        "if member.delayed_join is None:",
    ),
    Plant(
        "an absent leader stays leader",
        "coterie.coordinator.groups.classic.group:Group.elect_joined_leader",
        fault=answers(value=True),
    ),
    Plant(
        "the generation is not incremented",
        "coterie.coordinator.groups.classic.rebalance:complete_join",
        "group.generation_id += 1",
        "group.generation_id += not group.generation_id",
    ),
    Plant(
        "the member list is sent to followers",
        "coterie.coordinator.groups.classic.rebalance:complete_join",
        "members = roster if member.member_id == group.leader else []",
        "members = roster",
    ),
    Plant(
        "the sync timer is not armed",
        "coterie.coordinator.groups.classic.rebalance:complete_join",
        'step.arm(TimerKind.SYNC, "", now_ms + group.rebalance_timeout_ms())',
        "pass",
    ),
    Plant(
        "a pending id does not keep a join phase open",
        "coterie.coordinator.groups.classic.group:Group.all_joined",
        "return len(self.members) == self.awaiting_joins and not self.pending_joins",
        "return len(self.members) == self.awaiting_joins",
    ),
    Plant(
        "the join phase does not wait for the last member",
        "coterie.coordinator.groups.classic.group:Group.all_joined",
        "len(self.members) == self.awaiting_joins",
        "len(self.members) - self.awaiting_joins <= (len(self.members) > 2)",
    ),
    Plant(
        "delayed syncs are not answered when a rebalance starts",
        "coterie.coordinator.groups.classic.rebalance:fail_syncs",
        fault=does_nothing,
    ),
    Plant(
        "the protocol with the fewest votes is chosen",
        "coterie.coordinator.groups.classic.group:Group.select_protocol",
        "most = max(votes.values())",
        "most = min(votes.values())",
    ),
    Plant(
        "a group without members is not logged",
        "coterie.coordinator.groups.classic.rebalance:_become_empty",
        "step.write(group_record(group))",
        "pass",
    ),
    # -- SyncGroup ---------------------------------------------------------------------------------
    Plant(
        "a sync is accepted in PreparingRebalance",
        "coterie.coordinator.groups.classic.sync:_check",
        "if group.state is GroupState.PREPARING_REBALANCE:",
        "if False:",
    ),
    Plant(
        "a sync of an old generation is accepted",
        "coterie.coordinator.groups.classic.sync:_check",
        "if request.generation_id != group.generation_id:",
        "if request.generation_id > group.generation_id:",
    ),
    Plant(
        "the assignment is sent before it is durable",
        "coterie.coordinator.groups.classic.sync:sync",
        "_log_assignment(step, request)",
        "_log_assignment(step, request)\n"
        "        assignment_stored(step, step.effects.operation.completion)",
    ),
    Plant(
        "a repeated sync of the leader is logged again",
        "coterie.coordinator.groups.classic.sync:sync",
        "and group.assigned_generation != group.generation_id",
        "",
    ),
    Plant(
        "an assignment is accepted for another generation",
        "coterie.coordinator.groups.classic.sync:assignment_stored",
        "or group.generation_id != write.generation_id",
        "",
    ),
    Plant(
        "a member without an assignment gets a partition",
        "coterie.coordinator.groups.classic.sync:_log_assignment",
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
        "coterie.coordinator.groups.classic.sync:sync_timer_fired",
        "for member in late:",
        "for member in [each for each in late if each.group_instance_id is None]:",
    ),
    Plant(
        "the sync timer is not cancelled when all have synced",
        "coterie.coordinator.groups.classic.sync:sync",
        "step.cancel(TimerKind.SYNC)",
        "pass",
    ),
    # -- heartbeats, sessions, leaving -------------------------------------------------------------
    Plant(
        "a heartbeat does not move the deadline",
        "coterie.coordinator.groups.classic.heartbeat:heartbeat",
        "member.deadline_ms = now_ms + member.session_timeout_ms",
        "pass",
    ),
    Plant(
        "a commit does not restart the session",
        "coterie.coordinator.groups.classic.group:Group.commit_error",
        "member.deadline_ms = now_ms + member.session_timeout_ms",
        "pass",
    ),
    Plant(
        "a heartbeat of an old generation is accepted",
        "coterie.coordinator.groups.classic.heartbeat:heartbeat",
        "if request.generation_id != group.generation_id:",
        "if request.generation_id > group.generation_id:",
    ),
    Plant(
        "heartbeats do not report a rebalance",
        "coterie.coordinator.groups.classic.heartbeat:heartbeat",
        "_REBALANCING if state is GroupState.PREPARING_REBALANCE else _ALIVE",
        "_ALIVE",
    ),
    Plant(
        "a member with a delayed request expires",
        "coterie.coordinator.groups.classic.heartbeat:expire_session",
        "if not member.is_new and "
        "(member.delayed_join is not None or member.delayed_sync is not None):",
        "if False:",
    ),
    Plant(
        "an expiry does not start a rebalance",
        "coterie.coordinator.groups.classic.heartbeat:expire_session",
        "if state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):",
        "if state is GroupState.COMPLETING_REBALANCE:",
    ),
    Plant(
        "the timer of an extended session is not armed again",
        "coterie.coordinator.groups.sessions:has_session_left",
        "step.arm(kind, member.member_id, member.deadline_ms)",
        "pass",
    ),
    Plant(
        "an expired pending id does not complete the join phase",
        "coterie.coordinator.groups.classic.heartbeat:expire_pending",
        "_complete_if_all_joined(step)",
        "pass",
    ),
    Plant(
        "the session of a removed member is not cancelled",
        "coterie.coordinator.groups.classic.members:remove_member",
        "step.cancel(TimerKind.SESSION, member.member_id)",
        "pass",
    ),
    Plant(
        "the delayed join of a removed member is not answered",
        "coterie.coordinator.groups.classic.members:remove_member",
        "if join_to is not None:",
        "if False:",
    ),
    Plant(
        "a leave from Stable does not start a rebalance",
        "coterie.coordinator.groups.classic.leave:leave",
        "if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):",
        "if group.state is GroupState.COMPLETING_REBALANCE:",
    ),
    Plant(
        "a pending id that leaves keeps its timer",
        "coterie.coordinator.groups.classic.leave:_leave_one",
        "step.cancel(TimerKind.PENDING, member_id)",
        "pass",
    ),
    # -- static members ----------------------------------------------------------------------------
    Plant(
        "the delayed request of a replaced process is not fenced",
        "coterie.coordinator.groups.classic.static_member:_fence_delayed_requests",
        "if join_to is not None:",
        "if False:",
    ),
    Plant(
        "the sync of a replaced member is not awaited",
        "coterie.coordinator.groups.classic.group:Group.replace_static",
        "self.pending_syncs.add(new_id)",
        "pass",
    ),
    Plant(
        "a restarted static leader of an old version computes an assignment",
        "coterie.coordinator.groups.classic.static_member:replacement_stored",
        "if not write.can_skip_assignment:",
        "if False:",
    ),
    # -- offsets and groups ------------------------------------------------------------------------
    Plant(
        "a commit is accepted in CompletingRebalance",
        "coterie.coordinator.groups.classic.group:Group.commit_error",
        "if state is _COMPLETING_REBALANCE:",
        "if False:",
    ),
    Plant(
        "a group with members can be deleted",
        "coterie.coordinator.groups.classic.group:Group.delete_error",
        "if self.state is _EMPTY:",
        "if self.state is not _STABLE:",
    ),
    Plant(
        "the timers of a deleted group's pending ids are not cancelled",
        "coterie.coordinator.groups.classic.group_type:ClassicType.removed",
        "_cancel_member_timers(group, effects)",
        "[effects.cancel(TimerKind.SESSION, group.group_id, each) for each in group.members]",
    ),
    Plant(
        "offsets expire while their topic is subscribed",
        "coterie.coordinator.groups.classic.group:Group.expiry_base_ms",
        "and not self.is_subscribed(topic)",
        "",
    ),
    Plant(
        "the subscriptions of the members count, not of the generation",
        "coterie.coordinator.groups.classic.group:Group.subscribed_topics",
        "for metadata in self.subscriptions:",
        "for metadata in [m.protocols[0][1] for m in self.members.values()]:",
    ),
    Plant(
        "offsets of a deleted topic stay in some groups",
        "coterie.coordinator.groups.shard:GroupShard.delete_topic_offsets",
        "for group_id in groups:",
        "for group_id in list(groups)[1:]:",
    ),
    # -- the log -----------------------------------------------------------------------------------
    Plant(
        "a reply leaves before its records are durable",
        "coterie.coordinator.kernel.shard:Shard.settle",
        "operation.response, effects.response = effects.response, None",
        "pass",
    ),
    Plant(
        "a read does not wait for earlier appends",
        "coterie.coordinator.kernel.shard:Shard.settle",
        "elif effects.response is None or not self.unacknowledged or self.holds:",
        "elif True:",
    ),
    Plant(
        "delayed requests are not answered when an append fails",
        "coterie.coordinator.groups.shard:GroupShard.forget",
        "self.types.of(group).close(group, code, now_ms, effects)",
        "pass",
    ),
    Plant(
        "the groups of the partition stay when an append fails",
        "coterie.coordinator.kernel.shard:Shard.append_failed",
        "self._discard(translate_append_error(error), now_ms, effects, ShardState.FAILED)\n"
        "    self._begin_load()",
        "logged = self.logged\n"
        "    self._discard(translate_append_error(error), now_ms, effects, ShardState.FAILED)\n"
        "    self._begin_load()\n"
        "    self.logged = logged",
    ),
    Plant(
        "the requests that wait for a failed append are not answered",
        "coterie.coordinator.kernel.shard:Shard._discard",
        "if operation.response is not None:",
        "if False:",
    ),
    Plant(
        "a tombstone does not remove an offset",
        "coterie.coordinator.groups.replay:_remove_offset",
        fault=does_nothing,
    ),
    Plant(
        "a newer offset does not replace an older one",
        "coterie.coordinator.groups.replay:replay",
        "partitions[key.partition] = value",
        "partitions.setdefault(key.partition, value)",
    ),
    Plant(
        "a restart loses the assignments",
        "coterie.coordinator.groups.classic.group_record:restore",
        "member.assignment = logged.assignment",
        "pass",
    ),
    Plant(
        "a restart loses the leader",
        "coterie.coordinator.groups.classic.group_record:restore",
        "if value.leader in group.members:",
        "if False:",
    ),
    Plant(
        "members of a loaded group have no session timer",
        "coterie.coordinator.groups.classic.group_type:ClassicType.loaded",
        fault=does_nothing,
    ),
    Plant(
        "heartbeats are refused while loading",
        "coterie.coordinator.groups.service:GroupCoordinator.heartbeat",
        "return HEARTBEAT_RESPONSES[ErrorCode.NONE]",
        "return HEARTBEAT_RESPONSES[ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]",
    ),
    Plant(
        "the sweep timer is not armed again",
        "coterie.coordinator.groups.shard:GroupShard._arm_sweep",
        fault=does_nothing,
    ),
    # -- timers ------------------------------------------------------------------------------------
    Plant(
        "a cancelled timer stays in the wheel",
        "coterie.coordinator.kernel.timer_wheel:TimingWheel.cancel",
        "del slot.entries[key]",
        "pass",
    ),
    Plant(
        "a timer beyond the range of a level is lost",
        "coterie.coordinator.kernel.timer_wheel:TimingWheel._place",
        "if slot_ms < level.current_ms + level.interval_ms:",
        "if slot_ms < level.current_ms + 3 * level.interval_ms:",
    ),
    Plant(
        "timers of coarse levels fire one tick late",
        "coterie.coordinator.kernel.timer_wheel:TimingWheel._place",
        "number = slot_ms // level.tick_ms",
        "number = slot_ms // level.tick_ms + (level.tick_ms > TICK_MS)",
    ),
)

# Checks that miss this bug check nothing.
CANARY = Plant(
    "every heartbeat is refused",
    "coterie.coordinator.groups.classic.heartbeat:heartbeat",
    fault=answers(RESPONSES[ErrorCode.UNKNOWN_MEMBER_ID]),
)
