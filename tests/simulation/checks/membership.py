"""What members are told, kept apart from the coordinator: generations, owners, leaders, sessions
(I1, I3, I4).

Fed with requests when they are sent and with answers when they leave. What a member was told before
a restart counts for as long as the log keeps it: a generation is kept once an assignment of it was
answered, whatever else was said is not (spec T12).
"""

from typing import Any

from coterie.coordinator.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from coterie.coordinator.effects import Event
from coterie.protocol.errors import ErrorCode
from tests.simulation.call import Call
from tests.simulation.checks.violation import Violation, require

_SUCCESS = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
# Removals that a member's own silence explains, and those somebody asked for.
_BY_TIME = ("session expiry", "rebalance timeout", "sync timeout")


class Shadow:
    """One group as its members see it."""

    def __init__(self) -> None:
        self.incarnation = 0  # a deleted group that is made again starts anew
        self.generation = 0  # of the last join phase that ended
        self.told = 0  # the largest that a JoinGroup answer named
        self.synced = 0  # the largest that a SyncGroup answer confirmed
        self.rosters: dict[int, tuple[str, frozenset[str]]] = {}
        self.owners: dict[tuple[int, int, bytes], str] = {}
        self.gone: set[str] = set()
        self.fenced: set[str] = set()
        self.sessions: dict[str, int] = {}
        self.told_members: set[str] = set()
        self.instances: dict[str, str] = {}
        self.instance_of: dict[str, str] = {}


class Membership:
    """All groups."""

    def __init__(self) -> None:
        self.shadows: dict[str, Shadow] = {}
        self.incarnations = 0

    def of(self, group_id: str) -> Shadow:
        """The shadow of a group."""
        shadow = self.shadows.get(group_id)
        if shadow is None:
            shadow = self.shadows[group_id] = Shadow()
        return shadow

    # -- requests ----------------------------------------------------------------------------------

    def sent(self, call: Call) -> None:
        """Note what the sender is, by what was told before."""
        if call.api not in ("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit"):
            return
        request = call.request
        shadow = self.of(request.group_id)
        call.notes["incarnation"] = shadow.incarnation
        stale = ""
        if request.member_id in shadow.gone:
            stale = "its member is gone"
        elif request.member_id in shadow.fenced:
            stale = "its instance has another member id"
        elif call.api in ("SyncGroup", "Heartbeat"):
            if request.generation_id < shadow.told:
                stale = f"generation {shadow.told} was told"
        elif call.api == "OffsetCommit" and (
            0 <= request.generation_id_or_member_epoch < shadow.told
        ):
            stale = f"generation {shadow.told} was told"
        call.notes["stale"] = stale

    def commits(self, call: Call, now_ms: int) -> None:
        """A member's commit that is accepted keeps it alive, from when it was sent (S91)."""
        if call.expected == ErrorCode.NONE and call.request.generation_id_or_member_epoch >= 0:
            self._lives(call, call.request.member_id, now_ms)

    # -- answers -----------------------------------------------------------------------------------

    def answered(self, call: Call, message: Any, now_ms: int) -> None:
        """Look at an answer as it leaves."""
        if call.early:
            return
        if call.notes.get("stale") and self._succeeded(call, message):
            raise Violation("I4", f"succeeds, but {call.notes['stale']}: {call}")
        if call.api == "JoinGroup" and message.error_code == ErrorCode.NONE:
            self._joined(call, message)
        elif call.api == "SyncGroup" and message.error_code == ErrorCode.NONE:
            self._synced(call, message)
        elif call.api == "Heartbeat" and message.error_code in _SUCCESS:
            self._lives(call, call.request.member_id, now_ms)
        if call.parked and message.error_code == ErrorCode.NONE:
            self._lives(
                call,
                message.member_id if call.api == "JoinGroup" else call.request.member_id,
                now_ms,
            )

    def _succeeded(self, call: Call, message: Any) -> bool:
        if call.api == "OffsetCommit":
            if call.request.generation_id_or_member_epoch < 0:
                return False
            codes = [each.error_code for topic in message.topics for each in topic.partitions]
            return ErrorCode.NONE in codes
        return message.error_code in _SUCCESS

    def _joined(self, call: Call, answer: Any) -> None:
        shadow = self.of(call.request.group_id)
        member_id = answer.member_id
        # An answer from memory may be held by the log while its member goes or is replaced.
        now = call.parked
        require(member_id and answer.leader, "I3", f"no member or leader in {answer}")
        require(answer.generation_id >= 1, "I3", f"generation {answer.generation_id} of {answer}")
        require(
            not (now and member_id in shadow.gone), "I4", f"a member that is gone joins: {answer}"
        )
        leads = member_id == answer.leader
        require(
            leads == bool(answer.members),
            "told",
            f"the members are for the leader {answer.leader} only, not for {member_id}: {answer}",
        )
        require(
            not answer.skip_assignment or (leads and call.version >= 9), "told", f"skips: {answer}"
        )
        instance = call.request.group_instance_id
        if instance is not None and now:
            self._instance(shadow, instance, member_id)
        if call.notes.get("incarnation") != shadow.incarnation:
            return
        shadow.told = max(shadow.told, answer.generation_id)
        if leads:
            self._roster(shadow, answer)

    def _instance(self, shadow: Shadow, instance: str, member_id: str) -> None:
        before = shadow.instances.get(instance)
        if before is not None and before != member_id:
            require(member_id not in shadow.fenced, "I4", f"{member_id} was fenced, and is back")
            shadow.fenced.add(before)
        shadow.instances[instance] = member_id
        shadow.instance_of[member_id] = instance

    def _roster(self, shadow: Shadow, answer: Any) -> None:
        """The leader's list is the membership of a generation: one generation, one membership."""
        names = {
            each.member_id: each.group_instance_id or each.member_id for each in answer.members
        }
        require(answer.member_id in names, "told", f"a leader not among its members: {answer}")
        roster = (names[answer.member_id], frozenset(names.values()))
        before = shadow.rosters.setdefault(answer.generation_id, roster)
        require(
            before == roster,
            "I3",
            f"generation {answer.generation_id} of {roster}, before of {before}",
        )

    def _synced(self, call: Call, answer: Any) -> None:
        shadow = self.of(call.request.group_id)
        generation = call.request.generation_id
        member_id = call.request.member_id
        owner = shadow.instance_of.get(member_id, member_id)
        for partition in answer.assignment.split(b","):
            if partition in (b"", b"-"):
                continue
            key = (call.notes["incarnation"], generation, partition)
            before = shadow.owners.setdefault(key, owner)
            require(
                before == owner,
                "I1",
                f"{partition!r} in generation {generation} for {owner}, given to {before} before",
            )
        if call.notes["incarnation"] == shadow.incarnation:
            shadow.synced = max(shadow.synced, generation)

    def _lives(self, call: Call, member_id: str, now_ms: int) -> None:
        """A member shows that it lives, or is told something: its session starts anew."""
        shadow = self.of(call.request.group_id)
        if call.api == "JoinGroup":
            session_ms = call.request.session_timeout_ms
        else:
            session_ms = call.notes.get("session_ms")
        if session_ms is not None:
            shadow.sessions[member_id] = now_ms + session_ms
            shadow.told_members.add(member_id)

    # -- events ------------------------------------------------------------------------------------

    def happened(self, event: Event, waiting: set[str]) -> None:
        """What the coordinator says has happened to a group.

        Args:
            event: what.
            waiting: members with a request that waits.
        """
        name, fields = event.name, event.fields
        shadow = self.of(event.group_id)
        if name in ("join_completed", "group_emptied"):
            require(
                fields["generation_id"] == shadow.generation + 1,
                "I3",
                f"{name} of {event.group_id}: {fields['generation_id']} after {shadow.generation}",
            )
            shadow.generation = fields["generation_id"]
        elif name == "member_joined":
            require(fields["member_id"] not in shadow.gone, "I4", f"back from the dead: {event}")
            # It cannot heartbeat before it knows its generation (spec section 4.3).
            shadow.sessions[fields["member_id"]] = event.at_ms + NEW_MEMBER_JOIN_TIMEOUT_MS
            instance = fields["group_instance_id"]
            if instance is not None:
                shadow.instance_of[fields["member_id"]] = instance
        elif name == "static_member_replaced":
            shadow.instance_of[fields["member_id"]] = fields["group_instance_id"]
        elif name == "member_removed":
            self._removed(shadow, event, waiting)

    def _removed(self, shadow: Shadow, event: Event, waiting: set[str]) -> None:
        member_id = event.fields["member_id"]
        cause = event.fields["cause"]
        shadow.gone.add(member_id)
        if cause == "session expiry":
            until_ms = shadow.sessions.get(member_id, 0)
            require(
                event.at_ms >= until_ms,
                "S90",
                f"{member_id} expired at {event.at_ms}, it may live to {until_ms}",
            )
            waits = member_id in waiting and member_id in shadow.told_members
            require(not waits, "S90", f"{member_id} expired while its request waits")
        if cause == "rebalance timeout":
            require(
                event.fields["group_instance_id"] is None,
                "S70",
                f"a static member does not go at the join deadline: {event}",
            )
        if cause in _BY_TIME:
            require(member_id not in shadow.fenced, "I4", f"removed, but replaced before: {event}")

    # -- deletion and restart ----------------------------------------------------------------------

    def deleted(self, group_id: str) -> Shadow:
        """A group's tombstone was written: whoever uses its id again starts anew. Returns the old
        shadow, for `undeleted`.
        """
        before = self.of(group_id)
        after = self.shadows[group_id] = Shadow()
        self.incarnations += 1
        after.incarnation = self.incarnations
        after.owners = before.owners
        return before

    def undeleted(self, group_id: str, before: Shadow) -> None:
        """That tombstone was lost: the group is what it was."""
        self.shadows[group_id] = before

    def restarted(self, group_id: str, generation: int, members: dict[str, str | None]) -> None:
        """A group was loaded from its log.

        Args:
            group_id: which.
            generation: that of its last record; 0 without one.
            members: id to instance of each.
        """
        shadow = self.of(group_id)
        require(
            generation >= shadow.synced,
            "I3",
            f"{group_id} is back in generation {generation}, {shadow.synced} was confirmed",
        )
        shadow.generation = shadow.told = generation
        shadow.rosters = {g: roster for g, roster in shadow.rosters.items() if g <= generation}
        shadow.gone.clear()
        shadow.fenced.clear()
        shadow.sessions.clear()
        shadow.told_members = set(members)
        shadow.instances = {i: m for m, i in members.items() if i is not None}
        shadow.instance_of.update({m: i for m, i in members.items() if i is not None})
