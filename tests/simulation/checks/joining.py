"""The join phase: when it may end, who is in the generation, what its leader is told (spec 4.5,
4.6).

Kept apart from the coordinator: what each joiner offered is taken from its request, when the phase
began and when it may end from the timers that were shown.
"""

from typing import Any

from coterie.coordinator.effects import Effects, Event, TimerKind
from coterie.coordinator.group import Group, GroupState, Member
from coterie.coordinator.service import GroupCoordinator
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_protocol import decode_subscription
from tests.simulation.call import Call
from tests.simulation.checks.oracle import chosen_protocol
from tests.simulation.checks.violation import Violation, require
from tests.simulation.reach import Reach

Offer = tuple[tuple[str, bytes], ...]


class Phase:
    """The join phase of one group, as far as its effects showed it."""

    def __init__(self) -> None:
        self.initial = False
        self.began_ms = 0
        self.delay_ms = 0
        self.latest_ms = 0
        self.arrived = False  # during an initial delay, and not answered by a slice yet
        self.join_deadline_ms: int | None = None
        self.sync_deadline_ms: int | None = None
        self.generation = -1
        self.assignments: dict[str, bytes] = {}


class Joining:
    """All groups."""

    def __init__(self, reach: Reach) -> None:
        self.reach = reach
        self.phases: dict[str, Phase] = {}
        self.offers: dict[int, Offer] = {}  # by call
        self.offered_by: dict[str, Offer] = {}  # by member id
        # What the last generation of a group subscribes to.
        self.topics: dict[str, frozenset[str] | None] = {}

    def offered(self, call: Call) -> None:
        """A JoinGroup that was admitted: what its member offers from now on."""
        offer = tuple((each.name, each.metadata) for each in call.request.protocols)
        self.offers[call.number] = offer
        if call.request.member_id:
            self.offered_by[call.request.member_id] = offer

    def answered(self, call: Call, answer: Any) -> None:
        """The leader is told what each member offered last, for the protocol most prefer."""
        offer = self.offers.pop(call.number, None)
        if offer is not None:
            self.offered_by[answer.member_id] = offer
        if not call.parked:
            return  # from memory, and perhaps held by the log while its member said something else
        for each in answer.members:
            known = self.offered_by.get(each.member_id)
            if known is None:
                continue  # loaded from the log
            require(
                (answer.protocol_name, each.metadata) in known,
                "told",
                f"the leader is told {each}, its member said {known}",
            )

    def sent(self, call: Call) -> None:
        """Note which topics of an OffsetDelete are in use."""
        if call.api == "OffsetDelete":
            call.notes["topics"] = self.topics.get(call.request.group_id)

    def deleted(self, call: Call, answer: Any) -> None:
        """Offsets of subscribed topics stay: GROUP_SUBSCRIBED_TO_TOPIC (spec section 11)."""
        topics = call.notes["topics"]
        for topic in answer.topics:
            for each in topic.partitions:
                refused = each.error_code == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
                used = topics is None or topic.name in topics
                require(used or not refused, "S112", f"{topic} is not used: {call}")
                if call.expected == ErrorCode.NONE and call.notes.get("alive"):
                    require(refused or not used, "S112", f"{topic} is in use: {call}")

    def assigned(self, call: Call) -> None:
        """The leader of a generation handed its assignment in."""
        phase = self.phases.setdefault(call.request.group_id, Phase())
        phase.generation = call.request.generation_id
        phase.assignments = {each.member_id: each.assignment for each in call.request.assignments}

    def confirmed(self, call: Call, answer: Any) -> None:
        """Each is told what the leader gave it, or nothing (S79)."""
        phase = self.phases.setdefault(call.request.group_id, Phase())
        member_id = call.request.member_id
        if call.parked and phase.generation == call.request.generation_id:
            given = phase.assignments.get(member_id, b"")
            require(
                answer.assignment == given, "S78", f"{given!r} was given, told {answer}: {call}"
            )

    def restarted(self, group: Group) -> None:
        """A group was loaded: of each member the log keeps one protocol."""
        self.phases.pop(group.group_id, None)
        self.topics[group.group_id] = _topics(group)
        for member_id in group.members:
            self.offered_by.pop(member_id, None)

    def happened(self, coordinator: GroupCoordinator, effects: Effects, now_ms: int) -> None:
        """Look at the events of one step, then take over the timers it set."""
        replied = {
            reply.message.member_id
            for reply in effects.replies
            if type(reply.message).__name__ == "JoinGroupResponse"
            and reply.message.error_code == ErrorCode.NONE
        }
        direct = any(
            event.name == "pending_member_expired"
            or (event.name == "member_removed" and event.fields["cause"] == "session expiry")
            for event in effects.events
        )
        for event in effects.events:
            if not event.group_id:
                continue
            self._count(event)
            phase = self.phases.setdefault(event.group_id, Phase())
            if event.name == "rebalance_began":
                self._began(phase, coordinator, event)
            elif event.name in ("join_completed", "group_emptied"):
                self._ended(phase, coordinator.group(event.group_id), event, replied, direct)
            elif event.name == "member_removed":
                self._removed(phase, event)
            elif event.name == "member_joined" and phase.initial:
                phase.arrived = True
        for timer in effects.timers:
            kind, group_id, _ = timer.key
            if kind is TimerKind.JOIN:
                phase = self.phases.setdefault(group_id, Phase())
                before = phase.join_deadline_ms
                if phase.initial and before is not None and timer.deadline_ms is not None:
                    self._slice(phase, group_id, before, timer.deadline_ms, now_ms)
                phase.join_deadline_ms = timer.deadline_ms
            elif kind is TimerKind.SYNC:
                phase = self.phases.setdefault(group_id, Phase())
                phase.sync_deadline_ms = timer.deadline_ms

    def _count(self, event: Event) -> None:
        count = self.reach.count
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

    def _began(self, phase: Phase, coordinator: GroupCoordinator, event: Event) -> None:
        phase.initial = event.fields["previous_state"] == GroupState.EMPTY.value
        phase.began_ms = event.at_ms
        phase.join_deadline_ms = None
        phase.delay_ms = coordinator.config.group_initial_rebalance_delay_ms
        group = coordinator.group(event.group_id)
        members = group.members.values() if group is not None else ()
        longest_ms = max((member.rebalance_timeout_ms for member in members), default=0)
        phase.latest_ms = event.at_ms + max(longest_ms, phase.delay_ms)

    def _slice(
        self, phase: Phase, group_id: str, before_ms: int, after_ms: int, now_ms: int
    ) -> None:
        self.reach.count("completion", "one more slice")
        require(phase.arrived, "S23", f"{group_id}: nobody came, yet it waits")
        phase.arrived = False
        require(before_ms <= now_ms, "S23", f"{group_id}: a slice before {before_ms} at {now_ms}")
        require(
            after_ms <= now_ms + phase.delay_ms,
            "S23",
            f"{group_id} waits to {after_ms} at {now_ms}",
        )
        require(after_ms <= phase.latest_ms, "S24", f"{group_id} waits longer than it may")

    def _ended(
        self, phase: Phase, group: Group | None, event: Event, replied: set[str], direct: bool
    ) -> None:
        """The phase ended because everybody is back, or because its time is up."""
        now_ms = event.at_ms
        deadline_ms = phase.join_deadline_ms
        timed = deadline_ms is not None and now_ms >= deadline_ms
        if phase.initial and not direct:
            require(
                now_ms >= phase.began_ms + phase.delay_ms,
                "S22",
                f"the initial delay from {phase.began_ms} is cut short at {now_ms}",
            )
        if phase.initial:
            self.reach.count("completion", "initial delay")
        else:
            self.reach.count("completion", "join timer" if timed else "all joined")
        phase.initial = False
        if event.name == "group_emptied":
            consumers = group is not None and group.protocol_type == "consumer"
            self.topics[event.group_id] = frozenset() if consumers else None
        if group is None or event.name != "join_completed":
            return
        if group.generation_id != event.fields["generation_id"]:
            return
        members = group.members
        told = {each for each in members if each in replied}
        dynamic = {m.member_id for m in members.values() if m.group_instance_id is None}
        if not dynamic <= told:
            raise Violation(
                "S29", f"{sorted(dynamic - told)} did not join again, but stay: {group}"
            )
        if not timed:
            require(
                told == members.keys(), "S26", f"{members.keys() - told} is waited for: {group}"
            )
            require(not group.pending_joins, "S26", f"pending ids are waited for: {group}")
        require(group.leader in told, "S48", f"the leader has not joined: {group}")
        self._voted(group, event)

    def _voted(self, group: Group, event: Event) -> None:
        self.topics[group.group_id] = _topics(group)
        members: list[Member] = list(group.members.values())
        chosen = chosen_protocol(members)
        require(chosen == event.fields["protocol_name"], "S45", f"{chosen} has most votes: {event}")

    def _removed(self, phase: Phase, event: Event) -> None:
        cause = event.fields["cause"]
        if cause == "sync timeout":
            due_ms = phase.sync_deadline_ms
            require(
                due_ms is not None and event.at_ms >= due_ms,
                "S82",
                f"{event} before its sync deadline {due_ms}",
            )
        if cause == "rebalance timeout":
            due_ms = phase.join_deadline_ms
            early = due_ms is None or event.at_ms < due_ms
            require(not early, "S29", f"{event} before the join deadline {due_ms}")


def _topics(group: Group) -> frozenset[str] | None:
    """What the members of a generation subscribe to; None for other types than consumers."""
    if group.protocol_type != "consumer":
        return None
    name = group.protocol_name or ""
    return frozenset(
        topic
        for member in group.members.values()
        for topic in decode_subscription(member.metadata(name)).topics
    )
