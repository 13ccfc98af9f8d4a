"""The state of a group with epochs over time, and the history that follows from it.

It is a consumer group (KIP-848), or a streams group (KIP-1071), whose active tasks are given to
members like partitions [pipeline/streams-tasks].

A member that joins, leaves or changes its subscription makes the coordinator raise the group epoch,
which begins a rebalance. The coordinator computes a target assignment, and each member follows it
at its own pace. The rebalance ends when every member is stable in the newest epoch
[pipeline/epoch-rebalance].

`from_epochs.py` brings the records of the group log and the facts of the journal here, in order of
time.
"""

from collections.abc import Iterable

from coterie.assignors.model import TopicPartition
from coterie.pipeline.timeline.epoch_handovers import Handovers
from coterie.pipeline.timeline.epoch_state import (
    Removal,
    RunningRebalance,
    Step,
    Subscriber,
    Work,
    present_member,
    until_given_up,
)
from coterie.pipeline.timeline.holdings import (
    Holdings,
    fewest_moves,
    moved_partitions,
    partition_moves,
)
from coterie.pipeline.timeline.model import (
    CONSUMER,
    DOWNGRADE,
    STREAMS,
    UPGRADE,
    Copy,
    EpochBump,
    EpochMember,
    Epochs,
    Evidence,
    Generation,
    GroupHistory,
    Handover,
    Ownership,
    PartitionMove,
    Rebalance,
    RecordedMember,
    Trigger,
)
from coterie.pipeline.timeline.sessions import Sessions
from coterie.pipeline.timeline.tasks import Copies, as_tasks

# The words of the journal, where it has them.
JOIN = "join"
LEAVE = "leave or expiry"
SUBSCRIPTION = "subscription"
REGEX = "regular expression resolved"
TOPICS = "topics changed"
VALIDATED = "topology validated"
SETTINGS = "settings of the assignment changed"
REVOCATION_TIMEOUT = "revocation timeout"

STABLE, UNREVOKED = "Stable", ("UnrevokedPartitions", "UnrevokedTasks")
# The coordinator removes a member that does not give partitions up when this is over; its clock
# and that of the records differ by less.
_TIMEOUT_SLACK_MS = 2_000


class EpochTimeline:
    """The state of one group.

    Attributes:
        group_type: CONSUMER, or STREAMS.
        reads: of a streams group by subtopology the topics that its tasks read.
    """

    def __init__(self, group_id: str) -> None:
        """Begin without members."""
        self.group_id = group_id
        self.group_type = CONSUMER
        self.reads: dict[str, tuple[str, ...]] = {}
        self._holdings: Holdings = Holdings(group_id)
        self._sessions = Sessions(group_id)
        self._handovers = Handovers(group_id)
        self._copies = Copies(group_id)
        self._members: dict[str, Subscriber] = {}
        self._steps: dict[str, Step] = {}
        # The members that have not reached the epoch.
        self._unsettled: set[str] = set()
        # By member id the targets, those that do not count yet, and the keys of all members.
        self._targets: dict[str, frozenset[TopicPartition]] = {}
        self._new_targets: dict[str, frozenset[TopicPartition]] = {}
        self._target_copies: dict[str, frozenset[Copy]] = {}
        self._keys: dict[str, str] = {}
        self._target: dict[TopicPartition, str] = {}
        self._target_epoch: int | None = None
        self._regexes: dict[str, frozenset[str]] = {}
        self._epoch: int | None = None
        self._open: RunningRebalance | None = None
        # The changes since the last bump. The first of the same moment causes it.
        self._changes: list[tuple[int, Trigger]] = []
        self._joined: list[str] = []
        self._left: list[str] = []
        self._left_ms = 0
        # The owners before members left for which no epoch has been bumped yet.
        self._before_leaving: dict[TopicPartition, str] = {}
        self._bumps: list[EpochBump] = []
        self._rebalances: list[Rebalance] = []
        self._moves: list[PartitionMove] = []
        self._generations: list[Generation] = []

    # -- what happens ------------------------------------------------------------------------------

    def subscribed(self, now: Subscriber, at_ms: int) -> None:
        """A member joined, or its subscription is another one."""
        member = now.member
        known = self._members.get(member.member_id)
        self._members[member.member_id] = now
        self._keys[member.member_id] = member.key
        if known is None:
            self._unsettled.add(member.member_id)
        if known is None and member.key in self._left:
            self._restarted(member, at_ms)
        elif known is None:
            self._sessions.joined(member, at_ms)
            self._joined.append(member.key)
            self._changes.append((at_ms, _trigger(JOIN, member)))
        elif known.member.topics is not None and known.subscription != now.subscription:
            self._changes.append((at_ms, _trigger(SUBSCRIPTION, member)))

    def replaced(self, member: RecordedMember, at_ms: int, *, rebalances: bool) -> None:
        """A static member has another process."""
        old = next((each for each in self._members.values() if each.member.key == member.key), None)
        if old is not None:
            del self._members[old.member.member_id]
            self._unsettled.discard(old.member.member_id)
        self._members[member.member_id] = Subscriber(member)
        self._keys[member.member_id] = member.key
        self._sessions.replaced(member, at_ms, rebalances=rebalances)

    def removed(self, member_id: str, at_ms: int, removal: Removal | None) -> None:
        """A member was removed; without a removal it is not known why."""
        subscriber = self._members.pop(member_id, None)
        step = self._steps.pop(member_id, None)
        self._unsettled.discard(member_id)
        if subscriber is None:
            return
        member = subscriber.member
        how = removal or self._inferred_removal(member, step, at_ms)
        self._sessions.left(member.key, at_ms, *how)
        self._handovers.removed(member.key, at_ms, how.cause)
        self._changes.append((at_ms, _trigger(how.cause, member)))
        self._left.append(member.key)
        self._left_ms = at_ms
        if self._open is None:
            self._before_leaving.update(self._holdings.owners)
        self._holdings.lose_all(member.key, at_ms)
        self._copies.has(member.key, (), 0, at_ms)

    def resolved(self, regex: str, topics: Iterable[str] | None, at_ms: int) -> None:
        """A regular expression matches these topics now; None: it is not used any more."""
        if topics is None:
            self._regexes.pop(regex, None)
            return
        found = frozenset(topics)
        if found != self._regexes.get(regex, frozenset()):
            self._changes.append((at_ms, Trigger(REGEX)))
        self._regexes[regex] = found

    def bumped(
        self,
        epoch: int,
        at_ms: int,
        recorded: Trigger | None,
        members: int | None = None,
        otherwise: str = TOPICS,
    ) -> None:
        """The epoch rose.

        Args:
            epoch: the new epoch.
            at_ms: when.
            recorded: why, according to the journal; None if it does not say.
            members: the members after it; None if only those that are known can be counted.
            otherwise: why it rose if the journal does not say, and no member has changed.
        """
        trigger = recorded or self._inferred_trigger(at_ms, otherwise)
        evidence = Evidence.LOG if recorded is None else Evidence.JOURNAL
        count = len(self._members) if members is None else members
        bump = EpochBump(
            self.group_id, epoch, at_ms, trigger, count, None, None, None, None, None, evidence
        )
        self._bumps.append(bump)
        if self._open is None:
            self._open = RunningRebalance(bump, self._epoch)
            self._open.before = {**self._before_leaving, **self._holdings.owners}
            if trigger.member_key is not None:
                self._sessions.caused(trigger.member_key)
        else:
            self._open.skipped += 1
        # The members of a classic group come along when it becomes a consumer group.
        self._open.joined += [] if trigger.cause == UPGRADE else self._joined
        self._open.left += self._left
        self._changes, self._joined, self._left = [], [], []
        self._before_leaving = {}
        self._epoch = epoch
        self._unsettled = set(self._members)
        if not count:
            # The group is empty, so no member has to follow the epoch.
            self._holdings.forget_lost()
            self._close(at_ms)

    def initialized(self, partitions: int) -> None:
        """This many partitions have a share state; only share groups have any."""

    def shall_have(self, member_id: str, work: Work) -> None:
        """A member has another target; it counts as soon as the target as a whole does."""
        self._new_targets[member_id], self._target_copies[member_id] = work

    def targeted(self, epoch: int, at_ms: int) -> None:
        """A target was computed: the targets of members that have changed since the last one."""
        changes: dict[TopicPartition, str | None] = {}
        given: dict[TopicPartition, str] = {}
        for member_id, now in self._new_targets.items():
            key = self._keys.get(member_id)
            for partition in self._targets.get(member_id, frozenset()) - now:
                if self._target.get(partition) == key:
                    changes[partition] = None
            if member_id in self._members and key is not None:
                given |= dict.fromkeys(now, key)
                self._targets[member_id] = now
            else:
                self._targets.pop(member_id, None)
        here = {self._keys[member_id] for member_id in self._members}
        before = {each: self._target.get(each) for each in given}
        moved = sum(key in here and key != given[each] for each, key in before.items())
        changed = sum(member_id in self._members for member_id in self._new_targets)
        self._new_targets, self._target_epoch = {}, epoch
        for partition in changes.keys() - given.keys():
            del self._target[partition]
        self._target |= given
        self.computed(epoch, at_ms, self._requested_assignor(), changed, moved)
        self._handovers.targeted(epoch, at_ms, changes | given)

    def computed(
        self, epoch: int, at_ms: int, assignor: str | None, changed: int, moved: int
    ) -> None:
        """Note what is known of a target whose partitions may be unknown."""
        if self._bumps and self._bumps[-1].epoch == epoch:
            self._bumps[-1] = self._bumps[-1]._replace(
                target_ms=at_ms, assignor=assignor, changed_members=changed, moved_partitions=moved
            )

    def stepped(self, member_id: str, step: Step) -> None:
        """A member came closer to its target."""
        subscriber = self._members.get(member_id)
        if subscriber is None:
            return
        key, at_ms = subscriber.member.key, step.at_ms
        before = self._steps.get(member_id)
        for partition in before.assigned - step.assigned if before else ():
            if self._holdings.owners.get(partition) == key:
                self._holdings.lose(partition, at_ms)
        opened = self._open
        if opened is not None:
            opened.noticed.setdefault(key, at_ms - opened.bump.at_ms)
        for partition in sorted(step.assigned):
            if self._holdings.owners.get(partition) != key:
                # In the group's first epochs nobody had to give up anything.
                since = None
                if opened is not None and opened.from_epoch is not None:
                    since = opened.bump.at_ms
                gap_ms = self._holdings.take(partition, key, step.member_epoch, at_ms, since)
                if opened is not None:
                    opened.gaps[partition] = gap_ms
                    opened.unowned_ms += gap_ms or 0
        self._handovers.has(key, set(step.assigned), set(step.pending), at_ms)
        self._copies.has(key, step.copies | step.pending_copies, step.member_epoch, at_ms)
        same = before is not None and (before.member_epoch, before.state) == (
            step.member_epoch,
            step.state,
        )
        self._steps[member_id] = step._replace(at_ms=before.at_ms) if before and same else step
        self._settle(member_id, step)

    def _settle(self, member_id: str, step: Step) -> None:
        """End the rebalance if a member with this step was the last that had to follow."""
        if step.state == STABLE and not step.pending and step.member_epoch == self._epoch:
            self._unsettled.discard(member_id)
        else:
            self._unsettled.add(member_id)
        if self._open is not None and not self._unsettled:
            self._close(step.at_ms)

    def converged(self, epoch: int, at_ms: int) -> None:
        """All members have reached the target of an epoch, according to the journal."""
        if self._open is not None and self._bumps[-1].epoch <= epoch:
            self._close(at_ms)

    def ended(self, at_ms: int) -> None:
        """The group was deleted, or has become a classic one with the members that it had."""
        for key in self._left if self._left_ms == at_ms else ():
            self._sessions.converted(key, LEAVE, DOWNGRADE)
        for subscriber in self._members.values():
            self._sessions.left(subscriber.member.key, at_ms, DOWNGRADE)
        if self._open is not None:
            # A group that is deleted is empty, and in no rebalance.
            cut_off = self._rebalance(self._open, None, None)._replace(cut_off_by=DOWNGRADE)
            self._rebalances.append(cut_off)
        self._holdings.lose_everything(at_ms)
        self._handovers.ended(at_ms, LEAVE, DOWNGRADE)
        self._copies.lose_everything(at_ms)
        self._epoch = self._open = self._target_epoch = None
        self._members, self._steps, self._targets, self._regexes = {}, {}, {}, {}
        self._target, self._before_leaving = {}, {}
        self._changes, self._joined, self._left = [], [], []
        self._unsettled, self._new_targets, self._keys = set(), {}, {}
        self._target_copies = {}

    # -- the result --------------------------------------------------------------------------------

    def history(self) -> GroupHistory:
        """Return the history after all that happened, with a rebalance that has not ended."""
        rebalances = list(self._rebalances)
        if self._open is not None:
            rebalances.append(self._rebalance(self._open, None, None))
        handovers = self._handovers.all()
        return GroupHistory(
            self.group_id,
            self._generations,
            rebalances,
            self._moves,
            self._ownership(handovers),
            self._sessions.all(),
            Epochs(self._bumps, handovers, self._present_members()),
        )

    def _ownership(self, handovers: Iterable[Handover]) -> list[Ownership]:
        owned = until_given_up(self._holdings.intervals, handovers)
        owned += self._holdings.open_intervals()
        if self.group_type == STREAMS:
            owned = as_tasks(owned, self.reads)
        return owned + self._copies.intervals()

    def _present_members(self) -> list[EpochMember]:
        found = []
        for member_id, subscriber in sorted(self._members.items()):
            target = self._new_targets.get(member_id, self._targets.get(member_id))
            copies = self._target_copies.get(member_id, frozenset())
            member = present_member(
                self.group_id, subscriber, self._steps.get(member_id), target, copies
            )
            if self.group_type == STREAMS:
                read = sorted({topic for topics in self.reads.values() for topic in topics})
                member = member._replace(member=member.member._replace(topics=tuple(read)))
            found.append(
                member._replace(
                    group_epoch=self._epoch,
                    target_epoch=self._target_epoch,
                    group_type=self.group_type,
                )
            )
        return found

    # -- parts -------------------------------------------------------------------------------------

    def _restarted(self, member: RecordedMember, at_ms: int) -> None:
        """Undo the removal of a static member that is back at once [pipeline/static-restart]."""
        self._left.remove(member.key)
        self._changes = [each for each in self._changes if each[1].member_key != member.key]
        self._sessions.returned(member, at_ms)
        if self._rebalances:
            last = self._rebalances[-1]
            self._rebalances[-1] = last._replace(replaced=(*last.replaced, member.key))

    def _inferred_removal(self, member: RecordedMember, step: Step | None, at_ms: int) -> Removal:
        """Return why a member was removed, if the log shows it [pipeline/epoch-rebalance]."""
        timeout_ms = member.rebalance_timeout_ms
        asked_ms = self._handovers.pending_since(member.key)
        if (
            step is not None
            and step.state in UNREVOKED
            and timeout_ms is not None
            and asked_ms is not None
            and abs(at_ms - asked_ms - timeout_ms) <= _TIMEOUT_SLACK_MS
        ):
            return Removal(
                REVOCATION_TIMEOUT,
                f"had not given partitions up {(at_ms - asked_ms) / 1000:.1f} s after it was asked,"
                f" rebalance timeout {timeout_ms / 1000:g} s",
            )
        return Removal(LEAVE)

    def _inferred_trigger(self, at_ms: int, otherwise: str) -> Trigger:
        """Return why the epoch rose, as far as the log shows it [pipeline/epoch-rebalance]."""
        members = self._members.values()
        if self._epoch is None and members and all(each.is_classic for each in members):
            return Trigger(UPGRADE)
        # What the coordinator wrote together has one time; older changes raised no epoch.
        now = [trigger for changed_ms, trigger in self._changes if changed_ms == at_ms]
        if not now:
            return Trigger(otherwise)
        # A resolution is written with its own bump; a member with a new expression raises none.
        return now[-1] if now[-1].cause == REGEX else now[0]

    def _requested_assignor(self) -> str | None:
        """Return the assignor for which most members ask; None if nobody asks for one."""
        wanted = [each.server_assignor for each in self._members.values() if each.server_assignor]
        # Of equals `uniform` comes before `range` [consumer-groups/preferred-assignor].
        return max(sorted(set(wanted), reverse=True), key=wanted.count, default=None)

    def _close(self, at_ms: int) -> None:
        opened, self._open = self._open, None
        assert opened is not None, "a rebalance is closed once"
        assert self._epoch is not None, "a bump has opened it"
        self._bumps[-1] = self._bumps[-1]._replace(stable_ms=at_ms)
        generation = self._generation(opened, at_ms)
        self._rebalances.append(self._rebalance(opened, at_ms, generation))
        if generation.members:
            self._generations.append(generation)
        self._moves += partition_moves(
            self.group_id,
            (opened.from_epoch, self._epoch),
            opened.before,
            self._holdings.owners,
            opened.gaps,
            at_ms,
        )

    def _generation(self, opened: RunningRebalance, at_ms: int) -> Generation:
        """Return what the group has reached, in the form of a generation."""
        assert self._epoch is not None, "a bump has opened it"
        owned: dict[str, list[TopicPartition]] = {}
        for partition, key in sorted(self._holdings.owners.items()):
            owned.setdefault(key, []).append(partition)
        subscribed = {topic for each in self._members.values() for topic in self._topics_of(each)}
        # Topics whose names are not known are named by ids, and cannot be compared with these.
        known = all(partition.topic in subscribed for partition in self._holdings.owners)
        members = tuple(
            each.member._replace(
                topics=self._topics_of(each) if known and each.member.topics is not None else None,
                assigned=tuple(owned.get(each.member.key, ())),
                joined_after_ms=opened.noticed.get(each.member.key),
            )
            for each in self._members.values()
        )
        return Generation(
            self._epoch, at_ms, self.group_type, self._bumps[-1].assignor, None, members
        )

    def _topics_of(self, subscriber: Subscriber) -> tuple[str, ...]:
        if self.group_type == STREAMS:
            # Every member can have every task.
            return tuple(sorted(self.reads))
        matched = self._regexes.get(subscriber.regex or "", frozenset())
        return tuple(sorted({*(subscriber.member.topics or ()), *matched}))

    def _rebalance(
        self, opened: RunningRebalance, at_ms: int | None, generation: Generation | None
    ) -> Rebalance:
        bump, after = opened.bump, self._holdings.owners
        # Without steps only the journal's counts are known.
        since = self._bumps[-1 - opened.skipped :]
        targeted = sum(each.moved_partitions or 0 for each in since)
        moved_min = None
        if generation is not None and not opened.skipped:
            known = not generation.members or bool(self._steps)
            moved_min = fewest_moves(opened.before, generation) if known else None
        return Rebalance(
            group_id=self.group_id,
            protocol=None if at_ms is None else self._bumps[-1].assignor,
            from_generation=opened.from_epoch,
            to_generation=None if at_ms is None else self._epoch,
            generations=1,
            skipped_generations=opened.skipped,
            started_ms=bump.at_ms,
            completed_ms=at_ms,
            join_ms=None,
            sync_ms=None,
            initial_delay_ms=None,
            unowned_partition_ms=opened.unowned_ms if self._steps or not self._members else None,
            trigger=bump.trigger,
            joined=tuple(dict.fromkeys(opened.joined)),
            left=tuple(dict.fromkeys(opened.left)),
            replaced=(),
            members=self._bumps[-1].members or 0,
            partitions=len(after),
            moved=len(moved_partitions(opened.before, after)) if self._steps else targeted,
            moved_min=moved_min,
            evidence=bump.evidence,
            group_type=self.group_type,
        )


def _trigger(cause: str, member: RecordedMember) -> Trigger:
    return Trigger(cause, member.key, member.member_id, member.client_id, member.client_host)
