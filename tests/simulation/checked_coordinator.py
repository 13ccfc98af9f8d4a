"""The coordinator under test with its log and every check around it.

The caller sets the time, sends calls and decides when appends are acknowledged or fail. Every
method ends with checks of the groups that it concerned; `check_everything` runs the slower ones.
"""

import hashlib
from collections.abc import Callable, Hashable
from random import Random
from typing import Any, NamedTuple

from coterie.conformance.harness import START_MS, Batch, CoordinatorHarness
from coterie.coordinator.groups.classic.group import Group, classic
from coterie.coordinator.groups.classic.member import Member
from coterie.coordinator.groups.classic.members import Removal
from coterie.coordinator.groups.classic.rebalance import Cause
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.groups.classic.timers import TimerKind
from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.groups.service import GroupCoordinator
from coterie.coordinator.groups.shard import SWEEP_TIMER, GroupShard
from coterie.coordinator.kernel.append import Append
from coterie.coordinator.kernel.append_errors import translate_append_error
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.shard_state import ShardState
from coterie.coordinator.kernel.timers import TimerKey
from coterie.coordinator.topic_image import deletion
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.join_group import JoinGroupRequest
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    decode_value,
    encode_key,
    group_of,
)
from tests.simulation.call import Call
from tests.simulation.checks import oracle, structure
from tests.simulation.checks.join_phases import JoinPhases
from tests.simulation.checks.lost_batches import LostBatches
from tests.simulation.checks.membership import Membership
from tests.simulation.checks.offsets import CommittedOffsets
from tests.simulation.checks.open_requests import OpenRequests
from tests.simulation.checks.violation import Violation, require
from tests.simulation.coverage import Coverage
from tests.simulation.log import compact, newest, newest_durable
from tests.simulation.traced_purgatory import TracedPurgatory

# The slow checks run once in so many steps.
SLOW_CHECKS_EVERY = 64

_DURABLE = "[coordinator/durable-responses]"
_SYNC_TIMER = "[syncing/sync-timer]"


class _DelayedBefore(NamedTuple):
    """The delayed requests of the sender, as they were before its new request."""

    join: Any = None
    sync: Any = None


class CheckedCoordinator(CoordinatorHarness):
    """A coordinator, its log and its checks.

    Attributes:
        coverage: what has occurred so far.
        outbox: the responses that the caller has not taken yet.
        appended: the batches that the caller has not seen yet, with their partitions.
        calls: the requests without a response, by number.
        steps: how many steps were checked.
    """

    def __init__(
        self, config: GroupConfig, longest_append_ms: int, start_ms: int = START_MS
    ) -> None:
        """Create a coordinator that serves every partition.

        Args:
            config: its settings.
            longest_append_ms: how long an append may stay pending.
            start_ms: the start of virtual time.
        """
        self.coverage = Coverage()
        self.outbox: list[tuple[Call, Any]] = []
        self.appended: list[tuple[int, Batch]] = []
        self.calls: dict[int, Call] = {}
        self.steps = 0
        self.membership = Membership()
        self.offsets = CommittedOffsets()
        self.join_phases = JoinPhases(self.coverage)
        self._digest = hashlib.blake2b(digest_size=16)
        self._epochs: list[int] = []
        self._longest_append_ms = longest_append_ms
        # The request whose effects are being carried out.
        self._current: Call | None = None
        # Groups by partition, as they were before the sweep that is being carried out.
        self._before_sweep: dict[int, dict[str, Group]] = {}
        super().__init__(config, start_ms)

    @property
    def digest(self) -> str:
        """The hash of everything that has happened so far."""
        return self._digest.hexdigest()

    def trace(self, *values: object) -> None:
        """Add a step to the hash."""
        self._digest.update(repr((self.now_ms, *values)).encode())

    def new_coordinator(self) -> GroupCoordinator:
        """Return a coordinator whose timers are traced and counted when they fire."""
        coordinator = super().new_coordinator()
        coordinator.purgatory = TracedPurgatory(self.now_ms, self._timer_fired)
        return coordinator

    def _timer_fired(self, key: TimerKey) -> None:
        self.coverage.count("timer", str(key[0]))
        self.trace("due", str(key[0]), key[1:])

    def load_all(self) -> None:
        """Load every partition in its first epoch."""
        if not self._epochs:
            delay_ms = self.config.group_initial_rebalance_delay_ms
            self.requests = OpenRequests(self.logs, self._longest_append_ms, delay_ms)
            self.lost_batches = LostBatches(
                self.requests, self.membership, self.offsets, self.join_phases
            )
        self._epochs = [0] * len(self.logs)
        for partition in range(len(self.logs)):
            self.load(partition)

    # -- requests ----------------------------------------------------------------------------------

    def send(self, call: Call) -> None:
        """Pass a request to the coordinator and check what follows."""
        coordinator = self.coordinator
        self.calls[call.number] = call
        group_ids = call.group_ids()
        partitions = sorted({coordinator.partition_for(each) for each in group_ids})
        call.expected = oracle.expected(coordinator, call)
        self.requests.sent(call, partitions)
        self.membership.sent(call)
        self.offsets.sent(call)
        self.join_phases.sent(call)
        group = classic(coordinator.group(group_ids[0])) if len(group_ids) == 1 else None
        call.notes["alive"] = group is not None and group.state is not GroupState.EMPTY
        before = self._note_sender(call, group)
        self.trace("send", call.number, call.api, call.version, call.request.encode(call.version))
        effects = self.handle(call.request, call.context())
        if call.api == "Heartbeat":
            alone = effects.quiet and effects.response is not None
            require(alone, "[coordinator/reads-wait]", f"{effects!r}: {call}")
        self._note_delayed(call, before, effects)
        if call.api == "OffsetCommit":
            self.membership.commits(call, self.now_ms)
        self.carry_out(effects, call.number)
        for group_id in group_ids:
            self._check_group(group_id)
        self._finish_step()

    def _note_sender(self, call: Call, group: Group | None) -> _DelayedBefore:
        """Note what the checks need of the sender; return its delayed requests."""
        request = call.request
        if type(request) is JoinGroupRequest:
            self._note_join(call, group)
        member_id = getattr(request, "member_id", "")
        member = group.members.get(member_id) if group is not None else None
        if member is None:
            return _DelayedBefore()
        call.notes["session_ms"] = member.session_timeout_ms
        return _DelayedBefore(member.delayed_join, member.delayed_sync)

    def _note_join(self, call: Call, group: Group | None) -> None:
        request = call.request
        longest_ms = max(request.rebalance_timeout_ms, request.session_timeout_ms)
        if request.rebalance_timeout_ms >= 0:
            longest_ms = request.rebalance_timeout_ms
        self.requests.longest_rebalance_ms = max(self.requests.longest_rebalance_ms, longest_ms)
        if (
            group is not None
            and group.state is GroupState.STABLE
            and not request.member_id
            and request.group_instance_id in group.static_members
        ):
            call.notes["replaces"] = group.generation_id

    def _note_delayed(self, call: Call, before: _DelayedBefore, effects: Effects[Any]) -> None:
        """Note whether the request is delayed and which earlier one it supersedes."""
        call.delayed = call.expected == oracle.DELAYED
        if not call.delayed:
            return
        earlier = {"JoinGroup": before.join, "SyncGroup": before.sync}.get(call.api)
        if earlier is not None and earlier not in {reply.to for reply in effects.replies}:
            self.requests.superseded(self.calls[earlier])
            self.coverage.count("request", "superseded")
        require(effects.response is None, "error-codes", f"not delayed: {call}")
        if call.api == "JoinGroup":
            self.join_phases.admitted(call)
        if call.api == "SyncGroup" and effects.appends:
            self.join_phases.assigned(call)

    # -- time and the log --------------------------------------------------------------------------

    def advance(self) -> None:
        """Fire the timers that are due and check what they did."""
        coordinator = self.coordinator
        sweeps = self._due_sweeps()
        late = self._late_syncs()
        self._before_sweep = {shard.partition: structure.groups_of(shard) for shard in sweeps}
        effects = coordinator.advance(self.now_ms)
        self.carry_out(effects)
        self._before_sweep = {}
        for event in effects.events:
            if event.fields.get("cause") == Cause.SYNC_TIMEOUT.value:
                stayed = late.get(event.group_id, set()) & self.members(event.group_id).keys()
                require(not stayed, _SYNC_TIMER, f"{stayed} have not synced, but stay: {event}")
        # Of sweeps that are due at the same time, one is made in each call.
        left = self._due_sweeps()
        for shard in (each for each in sweeps if each not in left):
            self.offsets.check_overdue(shard, self.join_phases.topics, self.config, self.now_ms)
        for group in structure.classic_groups(coordinator.groups()):
            structure.check_group(coordinator, group, self.now_ms)
        self._finish_step()

    def _late_syncs(self) -> dict[str, set[str]]:
        """Return by group the members that have not synced, if the sync timer is due."""
        deadline_ms = self.coordinator.purgatory.deadline_ms
        late = {}
        for group in structure.classic_groups(self.coordinator.groups()):
            due_ms = deadline_ms((TimerKind.SYNC, group.group_id, ""))
            if due_ms is not None and due_ms <= self.now_ms:
                late[group.group_id] = set(group.pending_syncs)
        return late

    def _due_sweeps(self) -> list[GroupShard]:
        deadline_ms = self.coordinator.purgatory.deadline_ms
        due = []
        for shard in self.coordinator.shards:
            due_ms = deadline_ms((SWEEP_TIMER, str(shard.partition), ""))
            if due_ms is not None and due_ms <= self.now_ms:
                due.append(shard)
        return due

    def acknowledge(self, partition: int, count: int) -> None:
        """Make the oldest batches of a partition durable."""
        self.trace("acknowledge", partition, count)
        self.coverage.count("log", "acknowledged", count)
        super().acknowledge(partition, count)
        self._check_partition(partition)

    def fail_appends(self, partition: int, error: ErrorCode) -> None:
        """Fail all pending batches of a partition, which is then loaded again."""
        self.trace("fail", partition, error)
        self.coverage.count("log", "failed")
        shard = self.coordinator.shards[partition]
        for group in structure.groups_of(shard).values():
            self.coverage.count("transition", f"{group.state.value} -> Dead")
        self.lost_batches.lost(self.logs[partition].take_pending(), translate_append_error(error))
        epoch = shard.epoch
        effects = self.coordinator.append_failed(partition, error, self.now_ms)
        rule = "[coordinator/failed-append]"
        require(not effects.appends, rule, f"appends to a discarded partition: {effects!r}")
        require(shard.epoch == epoch, rule, f"epoch {shard.epoch} after {epoch}")
        self.carry_out(effects)
        require(not shard.groups and not shard.unacknowledged, rule, f"{shard} is not empty")
        self.replay_log(partition)
        self.finish_load(partition)

    def delete_topics(self, topics: list[tuple[str, bytes]]) -> None:
        """Delete topics and check that their offsets are deleted [offsets/topic-deletion]."""
        self.trace("topics", topics)
        changes = [deletion(name, topic_id) for name, topic_id in topics]
        self.carry_out(self.coordinator.topics_changed(changes, self.now_ms))
        names = {name for name, _ in topics}
        for shard in self.coordinator.shards:
            if shard.state is not ShardState.ACTIVE:
                continue  # its log may have offsets of topics that do not exist any more
            for group_topics in shard.logged.offsets.values():
                left = names & group_topics.keys()
                require(not left, "[offsets/topic-deletion]", f"offsets of {left} are left")
        self._finish_step()

    def compact(self, partition: int, rng: Random) -> None:
        """Compact a part of a partition's log, which must not change its newest records."""
        log = self.logs[partition]
        before = newest(log)
        compact(log, rng)
        require(newest(log) == before, "simulation", "the simulated cleaner is wrong")
        self.coverage.count("log", "compaction")

    # -- restarts and moves ------------------------------------------------------------------------

    def crash(self, survivors: Callable[[int], int], max_size: int) -> None:
        """Crash and start again.

        Args:
            survivors: gets the number of pending batches of a partition and returns how many of
                them, oldest first, are durable.
            max_size: `group.max.size` from now on.
        """
        self.config = self.config._replace(group_max_size=max_size)
        self.trace("restart")
        self.coverage.count("log", "restart")
        for log in self.logs:
            durable = survivors(len(log.pending))
            if log.pending:
                self.coverage.count("log", "torn restart")
            log.acknowledge(durable)
            self.lost_batches.lost(log.take_pending(), ErrorCode.NOT_COORDINATOR)
        self.requests.open.clear()
        self.requests.excused.clear()
        self.restart()

    def unload(self, partition: int, survivors: Callable[[int], int]) -> None:
        """Move a partition away; `survivors` is as in `crash`."""
        self.trace("unload", partition)
        self.coverage.count("log", "move")
        log = self.logs[partition]
        shard = self.coordinator.shards[partition]
        for group in structure.groups_of(shard).values():
            self.coverage.count("transition", f"{group.state.value} -> Dead")
        durable = survivors(len(log.pending))
        numbers = {batch.number for batch in log.pending}
        log.acknowledge(durable)
        # The former coordinator does not know which records became durable and reports all as lost.
        self.requests.lost(numbers, ErrorCode.NOT_COORDINATOR)
        self.lost_batches.lost(log.take_pending(), ErrorCode.NOT_COORDINATOR)
        effects = self.coordinator.unload(partition, None, self.now_ms)
        rule = "[coordinator/unload]"
        require(not effects.appends, rule, f"appends to an unloaded partition: {effects!r}")
        self.carry_out(effects)
        require(not shard.groups and not shard.unacknowledged, rule, f"{shard} is not empty")

    def load_next_epoch(self, partition: int) -> None:
        """Begin to load a partition in a new epoch; its requests are refused until the end."""
        self._epochs[partition] += 1
        epoch = self._epochs[partition]
        rule = "[coordinator/epochs]"
        require(self.begin_load(partition, epoch), rule, f"{partition} refuses epoch {epoch}")
        again = self.coordinator.begin_load(partition, epoch)
        require(not again, rule, f"{partition} loads epoch {epoch} twice")

    def finish_load(self, partition: int) -> None:
        """Serve a partition and check what was loaded."""
        self.trace("load", partition)
        effects = self.coordinator.finish_load(partition, self.now_ms)
        shard = self.coordinator.shards[partition]
        for group_id in list(self.membership.views):
            if self.coordinator.partition_for(group_id) == partition and (
                group_id not in shard.groups
            ):
                self.lost_batches.vanished(group_id)
        for group in structure.groups_of(shard).values():
            members = {m.member_id: m.group_instance_id for m in group.members.values()}
            self.membership.loaded(group.group_id, group.generation_id, members)
            self.join_phases.loaded(group)
        self.carry_out(effects)
        self._check_partition(partition)

    def load(self, partition: int) -> None:
        """Load a partition in a new epoch."""
        self.load_next_epoch(partition)
        self.finish_load(partition)

    # -- effects -----------------------------------------------------------------------------------

    def carry_out(self, effects: Effects[Any], to: Hashable = None) -> None:
        """Check the events; then carry the effects out with their checks."""
        # A group's events come before its tombstone: one step may have both.
        for event in effects.events:
            self.trace(event)
            if event.group_id:
                expired = event.fields.get("cause") == Removal.SESSION_EXPIRY.value
                waiting = self._waiting_members(event.group_id) if expired else set()
                self.membership.happened(event, waiting)
        self.join_phases.happened(self.coordinator, effects, self.now_ms)
        self._current = self.calls[to] if isinstance(to, int) else None
        super().carry_out(effects, to)

    def deliver_responses(self, effects: Effects[Any], to: Any) -> None:
        """Trace the timers, then deliver the responses."""
        for timer in effects.timers:
            self.trace(str(timer.key[0]), timer.key[1:], timer.deadline_ms)
        for reply in effects.replies:
            self.deliver(reply.to, reply.message)
        if effects.response is not None:
            self.deliver(to, effects.response)

    def _waiting_members(self, group_id: str) -> set[str]:
        return {
            call.request.member_id
            for call in self.requests.open.values()
            if call.delayed and call.request.group_id == group_id
        }

    def append(self, append: Append) -> Batch:
        """Check the records of an append and add them to the log."""
        rule = "[coordinator/durable-responses]"
        partition = append.partition
        require(append.records, rule, "an append without records")
        batch = super().append(append)
        self.trace("append", partition, batch)
        if self._current is not None:
            self._current.batches.append((partition, batch.number))
        group_id = group_of(append.records[0][0])
        group = self._before_sweep.get(partition, {}).get(group_id)
        if group is not None and all(value is None for _, value in append.records):
            topics = self.join_phases.topics.get(group_id)
            self.offsets.expired(append, group, topics, self.config, self.now_ms)
        self.offsets.appended(batch.number, append)
        for key, value in append.records:
            require(self.coordinator.partition_for(group_of(key)) == partition, rule, f"{key}")
            require(group_of(key) == group_id, rule, f"several groups in {append}")
            self.lost_batches.appended(batch.number, (key, value))
        self.appended.append((partition, batch))
        return batch

    def deliver(self, to: Any, message: Any) -> None:
        """Check a response and put it into the outbox."""
        call: Call = self.calls[to]
        self.trace("answer", call.number, message.encode(call.version))
        self.requests.answered(call, message)
        self.membership.answered(call, message, self.now_ms)
        self.offsets.answered(call, message)
        if call.api == "SyncGroup" and message.error_code == ErrorCode.NONE:
            self._check_assignment(call, message)
            self.join_phases.synced(call, message)
        if call.api == "JoinGroup" and message.error_code == ErrorCode.NONE:
            self.join_phases.answered(call, message)
        if call.api == "OffsetDelete" and not call.early:
            self.join_phases.deleted(call, message)
        self._count_codes(call, message)
        del self.calls[call.number]
        self.outbox.append((call, message))

    def _count_codes(self, call: Call, message: Any) -> None:
        if call.api == "OffsetFetch":
            codes: Any = oracle.fetch_codes(message)
        elif call.api in ("OffsetCommit", "OffsetDelete") and message.topics:
            codes = [each.error_code for topic in message.topics for each in topic.partitions]
        else:
            codes = oracle.codes_of(call, message)
        for code in codes if type(codes) is list else [codes]:
            if type(code) is str:
                code = ErrorCode.GROUP_ID_NOT_FOUND if code == "Dead" else ErrorCode.NONE
            self.coverage.count(call.api, ErrorCode(code).name)

    def _check_assignment(self, call: Call, message: Any) -> None:
        """Check that the assignment in a SyncGroup response is durable."""
        request = call.request
        if call.notes["incarnation"] != self.membership.of(request.group_id).incarnation:
            return  # the group was deleted while the response waited for the log
        log = self.logs[self.coordinator.partition_for(request.group_id)]
        key = GroupMetadataKey(group=request.group_id)
        value = decode_value(key, newest_durable(log, encode_key(key)))
        if value is None or value.generation < request.generation_id:
            raise Violation(_DURABLE, f"generation {request.generation_id} is not durable: {call}")
        if value.generation == request.generation_id:
            logged = {each.member_id: each.assignment for each in value.members}
            # Another member id may have taken the place of this one in the log.
            assignment = logged.get(request.member_id, message.assignment)
            require(
                assignment == message.assignment,
                _DURABLE,
                f"{assignment!r} is in the log, not {message}",
            )

    # -- checks ------------------------------------------------------------------------------------

    def _check_group(self, group_id: str) -> None:
        group = classic(self.coordinator.group(group_id))
        if group is not None:
            structure.check_group(self.coordinator, group, self.now_ms)

    def _check_partition(self, partition: int) -> None:
        for group in structure.groups_of(self.coordinator.shards[partition]).values():
            structure.check_group(self.coordinator, group, self.now_ms)
        self._finish_step()

    def _finish_step(self) -> None:
        self.steps += 1
        if self.steps % SLOW_CHECKS_EVERY == 0:
            self.check_everything()

    def check_everything(self) -> None:
        """Run the slow checks: all timers, all delayed requests, memory against the log."""
        coordinator = self.coordinator
        structure.check_timers(coordinator)
        self.requests.check(self.now_ms, structure.waiting(coordinator))
        counted = sum(len(shard.groups) for shard in coordinator.shards)
        count = coordinator.shards[0].all_groups.groups
        require(count == counted, "[coordinator/group-limit]", f"{count} groups, not {counted}")
        for shard, log in zip(coordinator.shards, self.logs, strict=True):
            if shard.state is ShardState.ACTIVE:
                structure.check_logged(shard, newest(log))
                structure.check_restorable(shard)

    def members(self, group_id: str) -> dict[str, Member]:
        """Return the members of a group, empty if it does not exist."""
        group = classic(self.coordinator.group(group_id))
        return {} if group is None else group.members
