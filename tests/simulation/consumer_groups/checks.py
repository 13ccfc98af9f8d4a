"""What must hold of every consumer group after every event."""

from collections import Counter
from typing import Any

from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.member import ConsumerMember
from coterie.coordinator.groups.consumer.states import STATIC_LEAVE_EPOCH, MemberState
from coterie.coordinator.groups.consumer.timers import TimerKind
from tests.simulation.checks.violation import Violation, require
from tests.simulation.consumer_groups.checked import CheckedGroups
from tests.simulation.consumer_groups.processes import Process
from tests.unit.coordinator.consumer.harness import image

_UNREVOKED = MemberState.UNREVOKED_PARTITIONS
# The timers of a group that has not changed are checked after so many events.
_TIMERS_EVERY = 10


class Checks:
    """The checks of one run, which remember the epochs that they have seen."""

    def __init__(self, harness: CheckedGroups) -> None:
        self._harness = harness
        self._events = 0
        self._epochs: dict[str, tuple[int, int]] = {}
        self._member_epochs: dict[tuple[str, str], int] = {}

    def rolled_back(self) -> None:
        """Forget the epochs that were in memory only: appends were lost."""
        self._epochs.clear()
        self._member_epochs.clear()

    def run(self, processes: list[Process]) -> None:
        """Check every group.

        Raises:
            Violation: something does not hold.
        """
        harness = self._harness
        live = {
            group.group_id: group
            for group in harness.coordinator.groups()
            if isinstance(group, ConsumerGroup)
        }
        for group_id in [each for each in harness.answered if each not in live]:
            del harness.answered[group_id]
        for group_id in [each for each in self._epochs if each not in live]:
            del self._epochs[group_id]
            for key in [each for each in self._member_epochs if each[0] == group_id]:
                del self._member_epochs[key]
        self._events += 1
        changed, harness.changed = harness.changed, set()
        for group in live.values():
            if group.group_id in changed:
                self._check_records(group)
            # Most events change nothing.
            if group.group_id in changed or not self._events % _TIMERS_EVERY:
                for member in group.members.values():
                    self._check_timers(group, member)
        logged = harness.records.groups.keys()
        if logged != live.keys():
            raise Violation("log", f"the log has {set(logged)}, memory {set(live)}")
        for process in processes:
            its_group = live.get(process.group_id)
            if its_group is not None:
                _check_process(its_group, process)
            elif process.client is not None and process.client.uses_classic:
                process.client.owns_as_told = False

    def _check_records(self, group: ConsumerGroup) -> None:
        self._check_owners(group)
        self._check_counts(group)
        self._check_epochs(group)
        for member in group.members.values():
            self._check_member(group, member)
        self._check_log(group)

    # -- the parts ---------------------------------------------------------------------------------

    def _check_owners(self, group: ConsumerGroup) -> None:
        """A partition belongs to one member; that member is there."""
        owners: dict[bytes, dict[int, str]] = {}
        for member in group.members.values():
            for part in (member.assigned, member.pending):
                for topic_id, partitions in part.items():
                    for index in partitions:
                        other = owners.setdefault(topic_id, {}).setdefault(index, member.member_id)
                        if other != member.member_id:
                            raise Violation(
                                "one-owner", f"{other} and {member} own {index} of {topic_id!r}"
                            )
        require(owners == group.owners, "one-owner", f"{group.owners} instead of {owners}")

    def _check_counts(self, group: ConsumerGroup) -> None:
        members = group.members.values()
        found = {
            "by_name": Counter(name for each in members for name in each.names),
            "by_regex": Counter(each.regex for each in members if each.regex),
            "protocols": Counter(
                protocol.name
                for each in members
                if each.classic is not None
                for protocol in each.classic.supported_protocols
            ),
        }
        for name, counts in found.items():
            is_right = counts == getattr(group, name)
            require(is_right, "counts", f"{name} of {group}")
        left = group.regexes.keys() - group.by_regex.keys()
        require(not left, "counts", f"{left} of {group}, to which nobody subscribes")
        statics = {each.instance_id: each.member_id for each in members if each.instance_id}
        require(statics == group.static_members, "counts", f"static members of {group}")
        classic = sum(each.classic is not None for each in members)
        require(classic == group.classic_count, "counts", f"classic members of {group}")

    def _check_epochs(self, group: ConsumerGroup) -> None:
        """Epochs ascend, and what a member was told is not taken back."""
        group_id = group.group_id
        require(group.target_epoch <= group.epoch, "epochs", f"the target of {group} is ahead")
        now = group.epoch, group.target_epoch
        before = self._epochs.get(group_id, (0, 0))
        is_later = now[0] >= before[0] and now[1] >= before[1]
        require(is_later, "epochs", f"{group} after the epochs {before}")
        self._epochs[group_id] = now
        told = self._harness.answered.get(group_id, 0)
        require(group.epoch >= told, "epochs", f"{group} although a member was told {told}")

    def _check_member(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        epoch, state = member.epoch, member.state
        key = group.group_id, member.member_id
        away = epoch == STATIC_LEAVE_EPOCH
        require(away or 0 <= epoch <= group.target_epoch, "epochs", f"{member} of {group}")
        before = self._member_epochs.get(key, 0)
        require(away or epoch >= before, "epochs", f"{member} of {group} was at {before}")
        self._member_epochs[key] = epoch
        if away:
            require(not member.pending, "states", f"{member} is away and has {member.pending}")
        else:
            gives_up = bool(member.pending)
            require(gives_up == (state is _UNREVOKED), "states", f"{member}: {member.pending}")
            received = [at for each in member.assigned.values() for at in each.values()]
            require(max(received, default=0) <= epoch, "epochs", f"{member}: {member.assigned}")
        if state is not _UNREVOKED and epoch == group.target_epoch:
            target = group.target(member.member_id)
            for topic_id, partitions in member.assigned.items():
                within = partitions.keys() <= set(target.get(topic_id, ()))
                require(within, "states", f"{member} has {partitions} beside its target {target}")

    def _check_timers(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Every member has a session that ends, and what is waited for has an end, too."""
        deadline_ms, now_ms = self._harness.coordinator.purgatory.deadline_ms, self._harness.now_ms
        group_id, member_id = group.group_id, member.member_id

        def of(kind: TimerKind) -> int | None:
            return deadline_ms((kind, group_id, member_id))

        session_ms = of(TimerKind.SESSION)
        rule = "timers"
        if session_ms is None or session_ms != member.armed_ms:
            raise Violation(rule, f"the session timer of {member} is {session_ms}")
        require(session_ms <= member.deadline_ms, rule, f"the session of {member} ends late")
        gives_up = member.state is _UNREVOKED and member.classic is None
        revocation_ms = of(TimerKind.REVOCATION)
        if gives_up and member.epoch != STATIC_LEAVE_EPOCH:
            latest_ms = now_ms + member.rebalance_timeout_ms
            is_armed = revocation_ms is not None and revocation_ms <= latest_ms
            require(is_armed, rule, f"{member} may take for ever to give up {member.pending}")
        elif not gives_up:
            require(member.revocation is None, rule, f"{member} is waited for")
        for awaits, kind in (
            (member.awaits_join, TimerKind.REJOIN),
            (member.awaits_sync, TimerKind.RESYNC),
        ):
            require(not awaits or of(kind) is not None, rule, f"{kind} of {member} is missing")
        if member.classic is not None and now_ms > member.deadline_ms:
            raise Violation(rule, f"the session of {member} is over")

    def _check_log(self, group: ConsumerGroup) -> None:
        logged = self._harness.records.groups.get(group.group_id)
        if logged is None:
            raise Violation("log", f"{group} is not in the log")
        both = group.group_id in self._harness.classic
        require(not both, "log", f"{group} is a classic group in the log, too")
        live, read = image(group), image(logged)
        for name, value in live.items():
            require(
                value == read[name], "log", f"{name} of {group}: {value}, {read[name]} in the log"
            )


def _check_process(group: ConsumerGroup, process: Process) -> None:
    """A process owns nothing that its group might give to another member."""
    client = process.client
    member: Any = None if client is None else group.members.get(client.member_id)
    if client is None:
        return
    if member is None and client.uses_classic:
        # It was removed. A JoinGroup with any member id is accepted [consumer-groups/classic-join],
        # and what it says that it owns does not count.
        client.owns_as_told = False
    if member is None or not client.owns_as_told:
        return
    for topic_id, index in client.owned:
        if topic_id not in group.topics.by_id:
            continue
        knows = index in member.assigned.get(topic_id, ()) or index in member.pending.get(
            topic_id, ()
        )
        if not knows:
            raise Violation("one-owner", f"{client} owns {index} of {topic_id!r}, not {member}")
