"""The coordinator under test, between its clients and its log, with every check around it.

Its driver says what time it is, sends calls and decides what becomes of appends.
"""

import hashlib
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from coterie.coordinator.answers import translate
from coterie.coordinator.config import GroupConfig
from coterie.coordinator.effects import Append, Effects, TimerKey, TimerKind
from coterie.coordinator.group import Group, GroupState, Member
from coterie.coordinator.members import Removal
from coterie.coordinator.rebalance import Cause
from coterie.coordinator.service import GroupCoordinator
from coterie.coordinator.shard import Shard, ShardState
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.join_group import JoinGroupRequest
from coterie.protocol.messages.log_records import GroupMetadataKey, decode_value, encode_key
from tests.simulation.call import Call
from tests.simulation.checks import oracle, structure
from tests.simulation.checks.committed import Committed
from tests.simulation.checks.joining import Joining
from tests.simulation.checks.ledger import Ledger
from tests.simulation.checks.losses import Losses
from tests.simulation.checks.membership import Membership
from tests.simulation.checks.violation import Violation, require
from tests.simulation.log import Batch, PartitionLog, encode_pairs
from tests.simulation.reach import Reach

# Steps between two looks at everything; single groups are looked at after every step of theirs.
DEAR_EVERY = 64


class Subject:
    """A coordinator, its log, its checks."""

    def __init__(self, config: GroupConfig, longest_append_ms: int, start_ms: int) -> None:
        self.config = config
        self.now_ms = start_ms
        self.logs = [PartitionLog() for _ in range(config.offsets_topic_num_partitions)]
        self.reach = Reach()
        self.outbox: list[tuple[Call, Any]] = []
        self.calls: dict[int, Call] = {}
        self.ledger = Ledger(self.logs, longest_append_ms, config.group_initial_rebalance_delay_ms)
        self.membership = Membership()
        self.committed = Committed()
        self.joining = Joining(self.reach)
        self.losses = Losses(self.ledger, self.membership, self.committed, self.joining)
        self.steps = 0
        self.appends: list[tuple[int, Batch]] = []  # made since the driver last looked
        self._digest = hashlib.blake2b(digest_size=16)
        self._batches = 0
        self._ids = 0
        self._epochs = [0] * len(self.logs)
        self.coordinator = self._new_coordinator()
        for partition in range(len(self.logs)):
            self.load(partition)

    @property
    def digest(self) -> str:
        """Of everything that happened so far."""
        return self._digest.hexdigest()

    def trace(self, *what: object) -> None:
        """Note a step."""
        self._digest.update(repr((self.now_ms, *what)).encode())

    def _new_coordinator(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(self.config, self._new_id, self.now_ms)
        purgatory = coordinator.purgatory
        due = purgatory.due

        def counted(now_ms: int) -> Iterator[TimerKey]:
            for key in due(now_ms):
                self.reach.count("timer", key[0].value)
                self.trace("due", key[0].value, key[1:])
                yield key

        purgatory.due = counted  # type: ignore[method-assign]
        return coordinator

    def _new_id(self) -> str:
        self._ids += 1
        return f"{self._ids:x}"

    # -- requests ----------------------------------------------------------------------------------

    def send(self, call: Call) -> None:
        """Carry a request out."""
        coordinator = self.coordinator
        self.calls[call.number] = call
        group_ids = call.group_ids()
        partitions = sorted({coordinator.partition_for(each) for each in group_ids})
        call.expected = oracle.expected(coordinator, call)
        self.ledger.sent(call, partitions)
        self.membership.sent(call)
        self.committed.sent(call)
        self.joining.sent(call)
        group = coordinator.group(group_ids[0]) if len(group_ids) == 1 else None
        call.notes["alive"] = group is not None and group.state is not GroupState.EMPTY
        asking = self._before(call, group)
        self.trace("send", call.number, call.api, call.version, call.request.encode(call.version))
        method = getattr(coordinator, call.method)
        if call.api == "Heartbeat":
            effects = method(self.now_ms, call.request)
            require(effects.quiet and effects.answer is not None, "quiet", f"{effects!r}: {call}")
        else:
            effects = method(self.now_ms, call.request, call.context())
        self._after(call, asking, effects)
        if call.api == "OffsetCommit":
            self.membership.commits(call, self.now_ms)
        self._absorb(effects, call)
        for group_id in group_ids:
            self._look_at(group_id)
        self._stepped()

    def _before(self, call: Call, group: Group | None) -> tuple[Any, Any, Any]:
        """Who of the group asks, and which requests of theirs wait by now."""
        request = call.request
        if type(request) is JoinGroupRequest:
            self._note_join(call, group)
        member_id = getattr(request, "member_id", "")
        member = group.members.get(member_id) if group is not None else None
        if member is None:
            return None, None, None
        call.notes["session_ms"] = member.session_timeout_ms
        return member, member.delayed_join, member.delayed_sync

    def _note_join(self, call: Call, group: Group | None) -> None:
        request = call.request
        longest = max(request.rebalance_timeout_ms, request.session_timeout_ms)
        if request.rebalance_timeout_ms >= 0:
            longest = request.rebalance_timeout_ms
        self.ledger.longest_rebalance_ms = max(self.ledger.longest_rebalance_ms, longest)
        if (
            group is not None
            and group.state is GroupState.STABLE
            and not request.member_id
            and request.group_instance_id in group.static_members
        ):
            call.notes["replaces"] = group.generation_id

    def _after(self, call: Call, asking: tuple[Any, Any, Any], effects: Effects) -> None:
        """A request waits: it took the place of the one its member waited with before."""
        _, join, sync = asking
        replied = {reply.to for reply in effects.replies}
        before = {"JoinGroup": join, "SyncGroup": sync}.get(call.api)
        if call.expected == oracle.PARKS and before is not None and before not in replied:
            self.ledger.orphaned(self.calls[before])
            self.reach.count("ledger", "orphaned")
        call.parked = call.expected == oracle.PARKS
        if call.parked:
            require(effects.answer is None, "tables", f"answered instead of parked: {call}")
        if call.api == "JoinGroup" and call.parked:
            self.joining.offered(call)
        if call.api == "SyncGroup" and call.parked and effects.appends:
            self.joining.assigned(call)

    # -- time and the log --------------------------------------------------------------------------

    def advance(self) -> None:
        """Let the timers fire that are due now."""
        coordinator = self.coordinator
        sweeps = self._sweeping()
        before = {shard.partition: dict(shard.groups) for shard in sweeps}
        late = self._late_syncs()
        effects = coordinator.advance(self.now_ms)
        self._absorb(effects, None, before)
        for event in effects.events:
            if event.fields.get("cause") == Cause.SYNC_TIMEOUT.value:
                stayed = late.get(event.group_id, set()) & self.members(event.group_id).keys()
                require(not stayed, "S82", f"{stayed} have not synced, and stay: {event}")
        for shard in sweeps:
            self.committed.overdue(shard, self.joining.topics, self.config, self.now_ms)
        for group in coordinator.groups():
            structure.check_group(coordinator, group, self.now_ms)
        self._stepped()

    def _late_syncs(self) -> dict[str, set[str]]:
        """By group, who has not synced by the end of its sync phase."""
        deadline_ms = self.coordinator.purgatory.deadline_ms
        late = {}
        for group in self.coordinator.groups():
            due_ms = deadline_ms((TimerKind.SYNC, group.group_id, ""))
            if due_ms is not None and due_ms <= self.now_ms:
                late[group.group_id] = set(group.pending_syncs)
        return late

    def _sweeping(self) -> list[Shard]:
        deadline_ms = self.coordinator.purgatory.deadline_ms
        found = []
        for shard in self.coordinator.shards:
            due_ms = deadline_ms((TimerKind.EXPIRY, str(shard.partition), ""))
            if due_ms is not None and due_ms <= self.now_ms:
                found.append(shard)
        return found

    def acknowledge(self, partition: int, count: int) -> None:
        """The oldest appends of a partition are durable."""
        self.trace("acknowledge", partition, count)
        self.reach.count("log", "acknowledged", count)
        self.logs[partition].acknowledge(count)
        self._absorb(self.coordinator.appended(partition, count, self.now_ms), None)
        self._look_at_all(partition)

    def fail_append(self, partition: int, error: ErrorCode) -> None:
        """Every append of a partition that is on its way fails."""
        self.trace("fail", partition, error)
        self.reach.count("log", "failed")
        lost = self.logs[partition].lose()
        self.losses.lost(lost, translate(error))
        self.losses.failed(lost)
        shard = self.coordinator.shards[partition]
        before = list(shard.groups)
        effects = self.coordinator.append_failed(partition, error, self.now_ms)
        for group_id in before:
            if group_id not in shard.groups:
                self.losses.vanished(group_id)
        self.losses.undone(shard, lost)
        self._absorb(effects, None)
        self._look_at_all(partition)

    def topics_deleted(self, topics: list[tuple[str, bytes]]) -> None:
        """Topics are gone, and with them their offsets."""
        self.trace("topics", topics)
        effects = self.coordinator.topics_deleted(topics, self.now_ms)
        self._absorb(effects, None)
        names = {name for name, _ in topics}
        for shard in self.coordinator.shards:
            if shard.state is not ShardState.ACTIVE:
                continue  # what it loads may name topics that are gone by now
            for group_topics in shard.logged.offsets.values():
                require(not names & group_topics.keys(), "S119", f"offsets of {names} are left")
        self._stepped()

    def restart(self, keep: Callable[[int], int], max_size: int) -> None:
        """The process dies; of each partition's pending batches the first `keep(count)` survive.

        It comes back with another `group.max.size`.
        """
        self.config = self.config._replace(group_max_size=max_size)
        self.trace("restart")
        self.reach.count("log", "restart")
        for log in self.logs:
            survivors = keep(len(log.pending))
            if len(log.pending) > 0:
                self.reach.count("log", "torn restart")
            log.acknowledge(survivors)
            self.losses.lost(log.lose(), ErrorCode.NOT_COORDINATOR)
        self.ledger.open.clear()
        self.ledger.excused.clear()
        self.losses.restarted()
        self._epochs = [0] * len(self.logs)
        self.coordinator = self._new_coordinator()
        for partition in range(len(self.logs)):
            self.load(partition)

    def unload(self, partition: int, keep: Callable[[int], int]) -> None:
        """A partition moves away; what was on its way may have become durable."""
        self.trace("unload", partition)
        self.reach.count("log", "move")
        log = self.logs[partition]
        shard = self.coordinator.shards[partition]
        for group in shard.groups.values():
            self.reach.count("transition", f"{group.state.value} -> Dead")
        survivors = keep(len(log.pending))
        told = {batch.number for batch in log.pending}
        log.acknowledge(survivors)
        # Answered as lost even where the record made it into the log: the old leader can't know.
        self.ledger.lost(told, ErrorCode.NOT_COORDINATOR)
        self.losses.lost(log.lose(), ErrorCode.NOT_COORDINATOR)
        effects = self.coordinator.unload(partition, None, self.now_ms)
        require(not effects.appends, "unload", f"appends of a partition that is gone: {effects!r}")
        self._absorb(effects, None)
        require(not shard.groups and not shard.unacknowledged, "unload", f"{shard} is not empty")

    def begin_load(self, partition: int) -> None:
        """The partition comes back; until `finish_load` its requests are refused."""
        self._epochs[partition] += 1
        epoch = self._epochs[partition]
        require(self.coordinator.begin_load(partition, epoch), "load", f"{partition} at {epoch}")
        require(not self.coordinator.begin_load(partition, epoch), "load", "an old epoch is taken")
        for key, value in self.logs[partition].durable:
            self.coordinator.replay(partition, key, value)

    def finish_load(self, partition: int) -> None:
        """The log is read to its end."""
        self.trace("load", partition)
        effects = self.coordinator.finish_load(partition, self.now_ms)
        shard = self.coordinator.shards[partition]
        for group_id in list(self.membership.shadows):
            if self.coordinator.partition_for(group_id) == partition and (
                group_id not in shard.groups
            ):
                self.losses.vanished(group_id)
        for group in shard.groups.values():
            self.losses.behind.discard(group.group_id)
            members = {m.member_id: m.group_instance_id for m in group.members.values()}
            self.membership.restarted(group.group_id, group.generation_id, members)
            self.joining.restarted(group)
        self._absorb(effects, None)
        self._look_at_all(partition)

    def load(self, partition: int) -> None:
        """Take a partition over at once."""
        self.begin_load(partition)
        self.finish_load(partition)

    def compact(self, partition: int, rng: Random) -> None:
        """The cleaner runs over a partition; what the log adds up to stays the same."""
        log = self.logs[partition]
        before = log.newest()
        log.compact(rng)
        require(log.newest() == before, "log", "the simulated cleaner is wrong")
        self.reach.count("log", "compaction")

    # -- effects -----------------------------------------------------------------------------------

    def _absorb(
        self, effects: Effects, call: Call | None, swept: dict[int, dict[str, Group]] | None = None
    ) -> None:
        """Carry effects out: tell, append, answer. What happened to a group comes before its
        tombstone: one moment may hold both.
        """
        for event in effects.events:
            self.trace(event)
            if event.group_id:
                expired = event.fields.get("cause") == Removal.SESSION_EXPIRY.value
                waiting = self._waiting_members(event.group_id) if expired else set()
                self.membership.happened(event, waiting)
        self.joining.happened(self.coordinator, effects, self.now_ms)
        for append in effects.appends:
            self._append(append, call, swept)
        for timer in effects.timers:
            self.trace(timer.key[0].value, timer.key[1:], timer.deadline_ms)
        for reply in effects.replies:
            self._answer(self.calls[reply.to], reply.message)
        if effects.answer is not None:
            assert call is not None
            self._answer(call, effects.answer)

    def _waiting_members(self, group_id: str) -> set[str]:
        return {
            call.request.member_id
            for call in self.ledger.open.values()
            if call.parked and call.request.group_id == group_id
        }

    def _append(
        self, append: Append, call: Call | None, swept: dict[int, dict[str, Group]] | None
    ) -> None:
        require(append.records, "log", "an append without records")
        self._batches += 1
        batch = Batch(self._batches, encode_pairs(append.records))
        partition = append.partition
        self.trace("append", partition, batch)
        if call is not None:
            call.batches.append((partition, batch.number))
        group_id = append.records[0][0].group
        group = swept.get(partition, {}).get(group_id) if swept else None
        if group is not None and all(value is None for _, value in append.records):
            topics = self.joining.topics.get(group_id)
            self.committed.expired(append, group, topics, self.config, self.now_ms)
        self.committed.appended(batch.number, append)
        for key, value in append.records:
            require(self.coordinator.partition_for(key.group) == partition, "log", f"{key}")
            require(key.group == group_id, "log", f"two groups in one operation: {append}")
            self.losses.appended(batch.number, (key, value))
        self.logs[partition].append(batch)
        self.appends.append((partition, batch))

    def _answer(self, call: Call, message: Any) -> None:
        self.trace("answer", call.number, message.encode(call.version))
        self.ledger.answered(call, message)
        self.membership.answered(call, message, self.now_ms)
        self.committed.answered(call, message)
        if call.api == "SyncGroup" and message.error_code == ErrorCode.NONE:
            self._confirmed(call, message)
            self.joining.confirmed(call, message)
        if call.api == "JoinGroup" and message.error_code == ErrorCode.NONE:
            self.joining.answered(call, message)
        if call.api == "OffsetDelete" and not call.early:
            self.joining.deleted(call, message)
        self._count_codes(call, message)
        del self.calls[call.number]
        self.outbox.append((call, message))

    def _count_codes(self, call: Call, message: Any) -> None:
        if call.api == "OffsetFetch":
            found = oracle.fetch_codes(message)
        elif call.api in ("OffsetCommit", "OffsetDelete") and message.topics:
            found = [each.error_code for topic in message.topics for each in topic.partitions]
        else:
            found = oracle.seen(call, message)
        for code in found if type(found) is list else [found]:
            if type(code) is str:
                code = ErrorCode.GROUP_ID_NOT_FOUND if code == "Dead" else ErrorCode.NONE
            self.reach.count(call.api, ErrorCode(code).name)

    def _confirmed(self, call: Call, message: Any) -> None:
        """What a SyncGroup hands out stands in the log (I12)."""
        request = call.request
        if call.notes["incarnation"] != self.membership.of(request.group_id).incarnation:
            return  # its group was deleted while the answer was held
        log = self.logs[self.coordinator.partition_for(request.group_id)]
        key = GroupMetadataKey(group=request.group_id)
        value = decode_value(key, log.newest_durable(encode_key(key)))
        if value is None or value.generation < request.generation_id:
            raise Violation("I12", f"generation {request.generation_id} is not durable: {call}")
        if value.generation == request.generation_id:
            given = {each.member_id: each.assignment for each in value.members}
            # Its id may have been replaced in the log since.
            said = given.get(request.member_id, message.assignment)
            require(said == message.assignment, "I12", f"{said!r} is in the log, told {message}")

    # -- looking -----------------------------------------------------------------------------------

    def _look_at(self, group_id: str) -> None:
        group = self.coordinator.group(group_id)
        if group is not None:
            structure.check_group(self.coordinator, group, self.now_ms)

    def _look_at_all(self, partition: int) -> None:
        shard = self.coordinator.shards[partition]
        for group in shard.groups.values():
            structure.check_group(self.coordinator, group, self.now_ms)
        self._stepped()

    def _stepped(self) -> None:
        self.steps += 1
        if self.steps % DEAR_EVERY == 0:
            self.look_at_everything()

    def look_at_everything(self) -> None:
        """The dear checks: timers, requests that wait, memory against the log."""
        coordinator = self.coordinator
        structure.check_timers(coordinator)
        self.ledger.check(self.now_ms, structure.waiting(coordinator))
        for shard, log in zip(coordinator.shards, self.logs, strict=True):
            if shard.state is ShardState.ACTIVE:
                structure.check_logged(shard, log.newest())
                structure.check_restorable(shard, self.losses.behind)

    def members(self, group_id: str) -> dict[str, Member]:
        """The members of a group, to compare with what clients believe."""
        group = self.coordinator.group(group_id)
        return {} if group is None else group.members
