"""Generations, owners, leaders and sessions, as the clients see them.

The check keeps its own account of every group from requests and responses. After a restart it
counts only what the log keeps: a generation once a response had an assignment of it
[group-log/logged-changes].
"""

from typing import Any

from coterie.coordinator.groups.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from coterie.coordinator.kernel.event import Event
from coterie.protocol.errors import ErrorCode
from tests.simulation.call import Call
from tests.simulation.checks.violation import Violation, require

# The rule that most of the checks here concern.
_GENERATION = "[joining/generation]"

_SUCCESS = (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
# The causes of removals by a timer.
_TIMEOUTS = ("session expiry", "rebalance timeout", "sync timeout")


class ClientView:
    """One group as its clients see it.

    Attributes:
        incarnation: a deleted group that is created again has another one.
        generation: of the last join phase that ended.
        joined_generation: the largest generation in a JoinGroup response.
        synced_generation: the largest generation of a SyncGroup response.
        rosters: leader and members of each generation; static members by their instance id.
        owners: the owner of each (incarnation, generation, partition).
        removed: the ids of removed members.
        fenced: the member ids that were replaced.
        sessions: by member id, the time until which it may not expire.
        answered_members: the members that know their generation.
        instances: by instance id, its member id.
        instance_of: by member id, its instance id.
    """

    def __init__(self) -> None:
        self.incarnation = 0
        self.generation = 0
        self.joined_generation = 0
        self.synced_generation = 0
        self.rosters: dict[int, tuple[str, frozenset[str]]] = {}
        self.owners: dict[tuple[int, int, bytes], str] = {}
        self.removed: set[str] = set()
        self.fenced: set[str] = set()
        self.sessions: dict[str, int] = {}
        self.answered_members: set[str] = set()
        self.instances: dict[str, str] = {}
        self.instance_of: dict[str, str] = {}


class Membership:
    """The views of all groups."""

    def __init__(self) -> None:
        self.views: dict[str, ClientView] = {}
        self.incarnations = 0

    def of(self, group_id: str) -> ClientView:
        """Return the view of a group."""
        view = self.views.get(group_id)
        if view is None:
            view = self.views[group_id] = ClientView()
        return view

    # -- requests ----------------------------------------------------------------------------------

    def sent(self, call: Call) -> None:
        """Note why the request must fail, if it comes from a removed, replaced or late client."""
        if call.api not in ("JoinGroup", "SyncGroup", "Heartbeat", "OffsetCommit"):
            return
        request = call.request
        view = self.of(request.group_id)
        call.notes["incarnation"] = view.incarnation
        stale = ""
        if request.member_id in view.removed:
            stale = "its member was removed"
        elif request.member_id in view.fenced:
            stale = "its instance has another member id now"
        elif call.api in ("SyncGroup", "Heartbeat"):
            if request.generation_id < view.joined_generation:
                stale = f"generation {view.joined_generation} has begun"
        elif call.api == "OffsetCommit" and (
            0 <= request.generation_id_or_member_epoch < view.joined_generation
        ):
            stale = f"generation {view.joined_generation} has begun"
        call.notes["stale"] = stale

    def commits(self, call: Call, now_ms: int) -> None:
        """Extend the session of a member whose commit is accepted [sessions/session-start]."""
        if call.expected == ErrorCode.NONE and call.request.generation_id_or_member_epoch >= 0:
            self._extend_session(call, call.request.member_id, now_ms)

    # -- responses ---------------------------------------------------------------------------------

    def answered(self, call: Call, message: Any, now_ms: int) -> None:
        """Check a response that leaves the coordinator."""
        if call.early:
            return
        if call.notes.get("stale") and self._succeeded(call, message):
            raise Violation("fencing", f"succeeds although {call.notes['stale']}: {call}")
        if call.api == "JoinGroup" and message.error_code == ErrorCode.NONE:
            self._joined(call, message)
        elif call.api == "SyncGroup" and message.error_code == ErrorCode.NONE:
            self._synced(call, message)
        elif call.api == "Heartbeat" and message.error_code in _SUCCESS:
            self._extend_session(call, call.request.member_id, now_ms)
        if call.delayed and message.error_code == ErrorCode.NONE:
            self._extend_session(
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

    def _joined(self, call: Call, response: Any) -> None:
        view = self.of(call.request.group_id)
        member_id = response.member_id
        require(member_id and response.leader, _GENERATION, f"no member or leader in {response}")
        require(response.generation_id >= 1, _GENERATION, f"no generation in {response}")
        # A response that repeats the present generation may wait for the log, and in the meantime
        # its member may be removed or replaced.
        require(
            not call.delayed or member_id not in view.removed,
            "fencing",
            f"a removed member joins: {response}",
        )
        leads = member_id == response.leader
        require(
            leads == bool(response.members),
            "[joining/join-responses]",
            f"only the leader {response.leader} gets the members, not {member_id}: {response}",
        )
        require(
            not response.skip_assignment or (leads and call.version >= 9),
            "[static-membership/replaced-leader]",
            f"{response}",
        )
        instance = call.request.group_instance_id
        if instance is not None and call.delayed:
            self._note_instance(view, instance, member_id)
        if call.notes.get("incarnation") != view.incarnation:
            return
        view.joined_generation = max(view.joined_generation, response.generation_id)
        if leads:
            self._check_roster(view, response)

    def _note_instance(self, view: ClientView, instance: str, member_id: str) -> None:
        before = view.instances.get(instance)
        if before is not None and before != member_id:
            require(member_id not in view.fenced, "fencing", f"{member_id} is back")
            view.fenced.add(before)
        view.instances[instance] = member_id
        view.instance_of[member_id] = instance

    def _check_roster(self, view: ClientView, response: Any) -> None:
        """Check that a generation has one leader and one set of members."""
        names = {
            each.member_id: each.group_instance_id or each.member_id for each in response.members
        }
        require(
            response.member_id in names,
            "[joining/join-responses]",
            f"the leader is not among the members: {response}",
        )
        roster = (names[response.member_id], frozenset(names.values()))
        before = view.rosters.setdefault(response.generation_id, roster)
        require(
            before == roster,
            _GENERATION,
            f"generation {response.generation_id} has {roster} and had {before}",
        )

    def _synced(self, call: Call, response: Any) -> None:
        view = self.of(call.request.group_id)
        generation = call.request.generation_id
        member_id = call.request.member_id
        owner = view.instance_of.get(member_id, member_id)
        for partition in response.assignment.split(b","):
            if partition in (b"", b"-"):
                continue
            key = (call.notes["incarnation"], generation, partition)
            before = view.owners.setdefault(key, owner)
            require(
                before == owner,
                "one-owner",
                f"{partition!r} of generation {generation} belongs to {before} and to {owner}",
            )
        if call.notes["incarnation"] == view.incarnation:
            view.synced_generation = max(view.synced_generation, generation)

    def _extend_session(self, call: Call, member_id: str, now_ms: int) -> None:
        """Restart the session of a member [sessions/session-start]."""
        view = self.of(call.request.group_id)
        if call.api == "JoinGroup":
            session_ms = call.request.session_timeout_ms
        else:
            session_ms = call.notes.get("session_ms")
        if session_ms is not None:
            view.sessions[member_id] = now_ms + session_ms
            view.answered_members.add(member_id)

    # -- events ------------------------------------------------------------------------------------

    def happened(self, event: Event, waiting: set[str]) -> None:
        """Check an event of a group.

        Args:
            event: the event.
            waiting: the members with a delayed request.
        """
        name, fields = event.name, event.fields
        view = self.of(event.group_id)
        if name in ("join_completed", "group_emptied"):
            require(
                fields["generation_id"] == view.generation + 1,
                _GENERATION,
                f"{name} of {event.group_id}: {fields['generation_id']} after {view.generation}",
            )
            view.generation = fields["generation_id"]
        elif name == "member_joined":
            require(fields["member_id"] not in view.removed, "fencing", f"joins again: {event}")
            # It has this time for its first join [joining/new-member-timeout].
            view.sessions[fields["member_id"]] = event.at_ms + NEW_MEMBER_JOIN_TIMEOUT_MS
            instance = fields["group_instance_id"]
            if instance is not None:
                view.instance_of[fields["member_id"]] = instance
        elif name == "static_member_replaced":
            view.instance_of[fields["member_id"]] = fields["group_instance_id"]
        elif name == "member_removed":
            self._removed(view, event, waiting)

    def _removed(self, view: ClientView, event: Event, waiting: set[str]) -> None:
        member_id = event.fields["member_id"]
        cause = event.fields["cause"]
        view.removed.add(member_id)
        if cause == "session expiry":
            until_ms = view.sessions.get(member_id, 0)
            require(
                event.at_ms >= until_ms,
                "[sessions/session-timeout]",
                f"{member_id} expired at {event.at_ms}, before {until_ms}",
            )
            waits = member_id in waiting and member_id in view.answered_members
            require(
                not waits,
                "[sessions/session-start]",
                f"{member_id} expired while it has a delayed request",
            )
        if cause == "rebalance timeout":
            require(
                event.fields["group_instance_id"] is None,
                "[static-membership/kept-at-join-timeout]",
                f"{event}",
            )
        if cause in _TIMEOUTS:
            require(member_id not in view.fenced, "fencing", f"the member was replaced: {event}")

    # -- deletion and restart ----------------------------------------------------------------------

    def deleted(self, group_id: str) -> ClientView:
        """Start a new view of a deleted group and return the old one, for `restored`."""
        before = self.of(group_id)
        after = self.views[group_id] = ClientView()
        self.incarnations += 1
        after.incarnation = self.incarnations
        after.owners = before.owners
        return before

    def restored(self, group_id: str, before: ClientView) -> None:
        """Return to the old view: the tombstone was lost."""
        self.views[group_id] = before

    def loaded(self, group_id: str, generation: int, members: dict[str, str | None]) -> None:
        """Check a group that was loaded from its log.

        Args:
            group_id: the group.
            generation: of its last record; 0 without one.
            members: instance id by member id.
        """
        view = self.of(group_id)
        require(
            generation >= view.synced_generation,
            "[coordinator/durable-responses]",
            f"{group_id} is in {generation}, clients have synced in {view.synced_generation}",
        )
        view.generation = view.joined_generation = generation
        view.rosters = {g: roster for g, roster in view.rosters.items() if g <= generation}
        view.removed.clear()
        view.fenced.clear()
        view.sessions.clear()
        view.answered_members = set(members)
        view.instances = {i: m for m, i in members.items() if i is not None}
        view.instance_of.update({m: i for m, i in members.items() if i is not None})
