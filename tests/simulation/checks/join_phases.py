"""The join phase: when it may end, who is in the generation, what the leader is sent.

The check keeps its own account of every group: protocols from the JoinGroup requests, the start and
the possible end of a phase from the events and timers.
"""

from typing import Any

from coterie.coordinator.groups.classic.group import Group, classic
from coterie.coordinator.groups.classic.member import Member
from coterie.coordinator.groups.classic.states import GroupState
from coterie.coordinator.groups.classic.timers import TimerKind
from coterie.coordinator.groups.service import GroupCoordinator
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.event import Event
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_protocol import decode_subscription
from coterie.protocol.messages.join_group import JoinGroupResponse
from tests.simulation.call import Call
from tests.simulation.checks.oracle import chosen_protocol
from tests.simulation.checks.violation import Violation, require
from tests.simulation.coverage import Coverage

Protocols = tuple[tuple[str, bytes], ...]


class JoinPhase:
    """The join phase of one group, as far as effects have shown it.

    Attributes:
        initial: the phase is an initial delay.
        began_ms: when it began.
        delay_ms: the length of an initial delay and of its extensions.
        latest_ms: the latest end of an initial delay.
        member_added: a member was added during the initial delay and has not extended it yet.
        join_deadline_ms, sync_deadline_ms: the armed timers.
        generation, assignments: from the last assignment of the leader.
    """

    def __init__(self) -> None:
        self.initial = False
        self.began_ms = 0
        self.delay_ms = 0
        self.latest_ms = 0
        self.member_added = False
        self.join_deadline_ms: int | None = None
        self.sync_deadline_ms: int | None = None
        self.generation = -1
        self.assignments: dict[str, bytes] = {}


class JoinPhases:
    """The join phases of all groups.

    Attributes:
        phases: by group.
        topics: what the last generation of a group subscribes to; None if that is unknown.
    """

    def __init__(self, coverage: Coverage) -> None:
        self.coverage = coverage
        self.phases: dict[str, JoinPhase] = {}
        self.topics: dict[str, frozenset[str] | None] = {}
        self._protocols_by_call: dict[int, Protocols] = {}
        self._protocols_by_member: dict[str, Protocols] = {}

    def admitted(self, call: Call) -> None:
        """Note a JoinGroup that was admitted: its member supports these protocols from now on."""
        protocols = tuple((each.name, each.metadata) for each in call.request.protocols)
        self._protocols_by_call[call.number] = protocols
        if call.request.member_id:
            self._protocols_by_member[call.request.member_id] = protocols

    def answered(self, call: Call, response: Any) -> None:
        """Check that the leader is sent the latest metadata of every member."""
        protocols = self._protocols_by_call.pop(call.number, None)
        if protocols is not None:
            self._protocols_by_member[response.member_id] = protocols
        if not call.delayed:
            # The response repeats the present generation and may have waited for the log, while its
            # member sent another JoinGroup.
            return
        for each in response.members:
            known = self._protocols_by_member.get(each.member_id)
            if known is None:
                continue  # the member was loaded from the log
            require(
                (response.protocol_name, each.metadata) in known,
                "[joining/join-responses]",
                f"the leader is sent {each}, the member joined with {known}",
            )

    def sent(self, call: Call) -> None:
        """Note which topics of an OffsetDelete are subscribed."""
        if call.api == "OffsetDelete":
            call.notes["topics"] = self.topics.get(call.request.group_id)

    def deleted(self, call: Call, response: Any) -> None:
        """Check that offsets of subscribed topics, and no others, are refused."""
        rule = "[offsets/delete]"
        topics = call.notes["topics"]
        for topic in response.topics:
            for each in topic.partitions:
                refused = each.error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                subscribed = topics is None or topic.name in topics
                require(subscribed or not refused, rule, f"{topic} is not subscribed: {call}")
                if call.expected == ErrorCode.NONE and call.notes.get("alive"):
                    require(refused or not subscribed, rule, f"{topic} is subscribed: {call}")

    def assigned(self, call: Call) -> None:
        """Note the assignment that a leader has sent."""
        phase = self.phases.setdefault(call.request.group_id, JoinPhase())
        phase.generation = call.request.generation_id
        phase.assignments = {each.member_id: each.assignment for each in call.request.assignments}

    def synced(self, call: Call, response: Any) -> None:
        """Check that a member gets what the leader has assigned to it, or empty bytes."""
        phase = self.phases.setdefault(call.request.group_id, JoinPhase())
        if call.delayed and phase.generation == call.request.generation_id:
            assigned = phase.assignments.get(call.request.member_id, b"")
            require(
                response.assignment == assigned,
                "[syncing/leader-assignment]",
                f"{assigned!r} was assigned, {response} was sent: {call}",
            )

    def loaded(self, group: Group) -> None:
        """Note a loaded group: the log has one protocol of each member."""
        self.phases.pop(group.group_id, None)
        self.topics[group.group_id] = _subscribed_topics(group)
        for member_id in group.members:
            self._protocols_by_member.pop(member_id, None)

    # -- effects -----------------------------------------------------------------------------------

    def happened(self, coordinator: GroupCoordinator, effects: Effects[Any], now_ms: int) -> None:
        """Check the events of one step, then note the timers that it armed or cancelled."""
        joined = {
            reply.message.member_id
            for reply in effects.replies
            if type(reply.message) is JoinGroupResponse
            and reply.message.error_code == ErrorCode.NONE
        }
        # The exception of [joining/initial-delay-expiry].
        expiry = any(
            event.name == "pending_member_expired"
            or (event.name == "member_removed" and event.fields["cause"] == "session expiry")
            for event in effects.events
        )
        for event in effects.events:
            if not event.group_id:
                continue
            self._count(event)
            phase = self.phases.setdefault(event.group_id, JoinPhase())
            if event.name == "rebalance_began":
                self._began(phase, coordinator, event)
            elif event.name in ("join_completed", "group_emptied"):
                group = classic(coordinator.group(event.group_id))
                self._check_end(phase, group, event, joined, expiry=expiry)
            elif event.name == "member_removed":
                self._check_removal(phase, event)
            elif event.name == "member_joined" and phase.initial:
                phase.member_added = True
        for timer in effects.timers:
            kind, group_id, _ = timer.key
            if kind is TimerKind.JOIN:
                phase = self.phases.setdefault(group_id, JoinPhase())
                before_ms = phase.join_deadline_ms
                if phase.initial and before_ms is not None and timer.deadline_ms is not None:
                    self._check_extension(phase, group_id, timer.deadline_ms, now_ms)
                phase.join_deadline_ms = timer.deadline_ms
            elif kind is TimerKind.SYNC:
                phase = self.phases.setdefault(group_id, JoinPhase())
                phase.sync_deadline_ms = timer.deadline_ms

    def _count(self, event: Event) -> None:
        count = self.coverage.count
        name, fields = event.name, event.fields
        if name == "rebalance_began":
            count("transition", f"{fields['previous_state']} -> PreparingRebalance")
            count("cause", fields["cause"])
        elif name == "join_completed":
            count("transition", "PreparingRebalance -> CompletingRebalance")
        elif name == "group_emptied":
            count("transition", "PreparingRebalance -> Empty")
        elif name == "generation_completed":
            count("transition", "CompletingRebalance -> Stable")
        elif name == "member_removed":
            count("removed", fields["cause"])
        else:
            count("event", name)

    def _began(self, phase: JoinPhase, coordinator: GroupCoordinator, event: Event) -> None:
        phase.initial = event.fields["previous_state"] == GroupState.EMPTY.value
        phase.began_ms = event.at_ms
        phase.join_deadline_ms = None
        phase.delay_ms = coordinator.config.group_initial_rebalance_delay_ms
        group = classic(coordinator.group(event.group_id))
        members = group.members.values() if group is not None else ()
        longest_ms = max((member.rebalance_timeout_ms for member in members), default=0)
        phase.latest_ms = event.at_ms + max(longest_ms, phase.delay_ms)

    def _check_extension(self, phase: JoinPhase, group_id: str, after_ms: int, now_ms: int) -> None:
        """Check that an initial delay is extended for a reason, in time, and not for too long."""
        rule = "[joining/initial-delay]"
        before_ms = phase.join_deadline_ms or 0
        self.coverage.count("completion", "initial delay extended")
        require(phase.member_added, rule, f"{group_id} waits although no member was added")
        phase.member_added = False
        require(before_ms <= now_ms, rule, f"{group_id} is extended at {now_ms}, not {before_ms}")
        limit_ms = min(now_ms + phase.delay_ms, phase.latest_ms)
        require(after_ms <= limit_ms, rule, f"{group_id} waits until {after_ms}, not {limit_ms}")

    def _check_end(
        self,
        phase: JoinPhase,
        group: Group | None,
        event: Event,
        joined: set[str],
        *,
        expiry: bool,
    ) -> None:
        """Check that a phase ends because every member has joined or because its time is up."""
        now_ms = event.at_ms
        deadline_ms = phase.join_deadline_ms
        timed_out = deadline_ms is not None and now_ms >= deadline_ms
        if phase.initial and not expiry:
            require(
                now_ms >= phase.began_ms + phase.delay_ms,
                "[joining/initial-delay]",
                f"the initial delay from {phase.began_ms} ends early at {now_ms}",
            )
        if phase.initial:
            self.coverage.count("completion", "initial delay")
        else:
            self.coverage.count("completion", "join timer" if timed_out else "all joined")
        phase.initial = False
        if event.name == "group_emptied":
            is_consumer = group is not None and group.protocol_type == "consumer"
            self.topics[event.group_id] = frozenset() if is_consumer else None
        if group is None or event.name != "join_completed":
            return
        if group.generation_id == event.fields["generation_id"]:
            self._check_generation(group, event, joined, timed_out=timed_out)

    def _check_generation(
        self, group: Group, event: Event, joined: set[str], *, timed_out: bool
    ) -> None:
        """Check the members, the leader and the protocol of a new generation."""
        members = group.members
        present = {member_id for member_id in members if member_id in joined}
        dynamic = {m.member_id for m in members.values() if m.group_instance_id is None}
        if not dynamic <= present:
            raise Violation(
                "[joining/join-timeout]",
                f"{sorted(dynamic - present)} have not joined again, but stay: {group}",
            )
        if not timed_out:
            rule = "[joining/join-completion]"
            absent = members.keys() - present
            require(not absent, rule, f"the phase ends without {absent}: {group}")
            require(not group.pending_joins, rule, f"the phase ends without pending ids: {group}")
        leader_present = group.leader in present
        require(leader_present, "[joining/leader-succession]", f"an absent leader leads: {group}")
        self.topics[group.group_id] = _subscribed_topics(group)
        candidates: list[Member] = list(members.values())
        chosen = chosen_protocol(candidates)
        require(
            chosen == event.fields["protocol_name"],
            "[joining/protocol-choice]",
            f"{chosen} has the most votes: {event}",
        )

    def _check_removal(self, phase: JoinPhase, event: Event) -> None:
        cause = event.fields["cause"]
        if cause == "sync timeout":
            due_ms, rule = phase.sync_deadline_ms, "[syncing/sync-timer]"
        elif cause == "rebalance timeout":
            due_ms, rule = phase.join_deadline_ms, "[joining/join-timeout]"
        else:
            return
        in_time = due_ms is not None and event.at_ms >= due_ms
        require(in_time, rule, f"{event} before the deadline {due_ms}")


def _subscribed_topics(group: Group) -> frozenset[str] | None:
    """Return what the members of a generation subscribe to; None for other protocol types."""
    if group.protocol_type != "consumer":
        return None
    name = group.protocol_name or ""
    return frozenset(
        topic
        for member in group.members.values()
        for topic in decode_subscription(member.metadata(name)).topics
    )
