"""Everything that is read of a group at one time, and what is remembered from look to look.

`GroupMemory` has what is recorded of the group as far as it was read, and the
earlier looks that rates, trends and checks need. It belongs to one thread at a time.
"""

import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coterie.client import times
from coterie.client.cluster import Cluster, TopicPartition
from coterie.client.group_description import GroupDescription
from coterie.client.groups import TYPES, describe_groups, list_groups
from coterie.client.health.checks import Found, findings
from coterie.client.health.observation import CHECKED_TYPES, Look, look_at, observe
from coterie.client.progress import Sample
from coterie.client.software import Software
from coterie.console.model.series import Ends, Steps
from coterie.console.recent_past import INTERVAL_S, RecentPast
from coterie.pipeline.live.group_record import GroupRecord
from coterie.protocol.messages.journal_records import Fact, MemberJoined, StaticMemberReplaced
from coterie.server.present import Present, ReadPresent

# A list of all groups is asked for at most so often, while a group is none that can be described.
_LIST_S = 10.0
# Two looks that are nearer say little of rates: commits come in steps.
_RATE_S = 2.0
# Trends of more partitions would be most of what is sent.
MAX_TRENDS = 256

Points = list[list[int]]


class Seen(NamedTuple):
    """A group at one time.

    Attributes:
        at_ms: the time, in epoch milliseconds.
        group: its description.
        seen_ms: since when this state has been seen without a change.
        sample, before: its offsets now and some seconds before; None of a group without offsets, or
            at the first look.
        facts: what the journal says of it; None without a journal.
        logged: the last generation in the group log, and when it was completed; None if the log has
            none, as that of a consumer group, or if the group has changed since.
        commit_times: when each partition was committed last.
        software: the client libraries of its members.
        findings: what is wrong with it; None if it is not checked.
        lag_ages: by partition how old the oldest record is that is not read, as far as it is known.
        trends: by partition the lags until now; none if there are too many partitions.
        lag_trend: the lags of all partitions together until now.
        present: what only the broker itself tells of it; None if it does not.
    """

    at_ms: int
    group: GroupDescription
    seen_ms: int
    sample: Sample | None
    before: Sample | None
    facts: Sequence[Fact] | None
    logged: tuple[int, int] | None
    commit_times: Mapping[TopicPartition, int]
    software: Mapping[str, Software]
    findings: list[Found] | None
    lag_ages: Mapping[TopicPartition, int]
    trends: Mapping[TopicPartition, Points]
    lag_trend: Points
    present: Present | None = None


class GroupMemory:
    """What is known of a group from earlier looks.

    Attributes:
        recorded: what is recorded of it, as far as it was read.
    """

    def __init__(
        self, group_id: str, recent_past: RecentPast, present: ReadPresent | None = None
    ) -> None:
        """Know nothing yet.

        Args:
            group_id: the group.
            recent_past: what happened to all groups recently.
            present: returns what only the broker itself tells of a group; None if it does not.
        """
        self.group_id = group_id
        self._recent_past = recent_past
        self._present = present
        self.recorded = GroupRecord(group_id)
        self._looks: deque[Look] = deque()
        self._listed: tuple[float, GroupDescription | None] = float("-inf"), None
        self._ends: defaultdict[TopicPartition, Ends] = defaultdict(Ends)
        self._lags: defaultdict[TopicPartition, Steps] = defaultdict(Steps)
        self._lag = Steps()
        self._state: tuple[str, int] = "", 0

    # -- the present -------------------------------------------------------------------------------

    def look(self, cluster: Cluster) -> Seen | None:
        """Look at the group; None if it does not exist."""
        now_ms = times.now_ms()
        look = look_at(cluster, [self.group_id])
        group = look.groups.get(self.group_id) or self._other_group(cluster)
        if group is None:
            self._forget()
            return None
        if self._state[0] != group.state:
            self._state = group.state, now_ms
        has_offsets = group.type in TYPES
        before = self._looks[0] if self._looks else None
        is_checked = group.type in CHECKED_TYPES
        checked = self._check(cluster, look, before) if is_checked else None
        ages = self._note(look, now_ms) if has_offsets else {}
        with_trends = len(self._lags) <= MAX_TRENDS
        return Seen(
            now_ms,
            group,
            self._state[1],
            look.sample if has_offsets else None,
            None if before is None or _seconds(before, look) < _RATE_S else before.sample,
            None if self.recorded.facts is None else tuple(self.recorded.facts),
            self.recorded.log.last_generation(group.state),
            dict(self.recorded.log.commit_times),
            self._software(group),
            checked,
            ages,
            {each: lags.points for each, lags in self._lags.items()} if with_trends else {},
            self._lag.points,
            self.present(),
        )

    def present(self) -> Present | None:
        """Return what only the broker itself tells of the group."""
        return None if self._present is None else self._present(self.group_id)

    def describe(self, cluster: Cluster) -> GroupDescription | None:
        """Return the description of the group, whatever its type; None if it does not exist."""
        found = describe_groups(cluster, [self.group_id])[self.group_id]
        return found if found.exists else self._other_group(cluster)

    def _other_group(self, cluster: Cluster) -> GroupDescription | None:
        """Return the group if no request that this client knows describes it."""
        now_s = time.monotonic()
        if now_s - self._listed[0] >= _LIST_S:
            self._listed = now_s, self._listed_group(cluster)
        return self._listed[1]

    def _listed_group(self, cluster: Cluster) -> GroupDescription | None:
        """Return a group of a type whose members no request describes that this client knows."""
        for listed in list_groups(cluster):
            if listed.group_id == self.group_id and listed.type not in TYPES:
                return GroupDescription(
                    group_id=self.group_id,
                    exists=True,
                    type=listed.type,
                    state=listed.state,
                    protocol_type=listed.protocol_type,
                    protocol="",
                    coordinator=cluster.coordinators([self.group_id])[self.group_id],
                    members=[],
                )
        return None

    def _forget(self) -> None:
        """Forget the looks at a group that does not exist any more."""
        self._looks.clear()
        self._ends.clear()
        self._lags.clear()
        self._lag = Steps()
        self._state = "", 0

    def _note(self, look: Look, now_ms: int) -> dict[TopicPartition, int]:
        """Keep a look for the next ones; return how old the oldest unread records are.

        The oldest look of the last `INTERVAL_S` is the one that is compared with.
        """
        self._looks.append(look)
        while len(self._looks) > 1 and _seconds(self._looks[1], look) >= INTERVAL_S:
            self._looks.popleft()
        sample, ages = look.sample, {}
        known = []
        for partition, committed in sample.committed[self.group_id].items():
            lag, end = sample.lag(self.group_id, partition), sample.ends.get(partition)
            if lag is None or end is None:
                continue
            known.append(lag)
            self._lags[partition].add(now_ms, lag)
            self._ends[partition].add(now_ms, end)
            age_ms = self._ends[partition].age_ms(committed.offset, now_ms)
            if age_ms is not None:
                ages[partition] = age_ms
        if known:
            self._lag.add(now_ms, sum(known))
        return ages

    def _check(self, cluster: Cluster, look: Look, before: Look | None) -> list[Found]:
        """Return what `groups check` finds."""
        is_apart = before is not None and _seconds(before, look) >= INTERVAL_S
        past = self._recent_past.read(cluster)
        return findings(observe(self.group_id, before if is_apart else None, look, past))

    def _software(self, group: GroupDescription) -> dict[str, Software]:
        members = {each.member_id for each in group.members}
        return {
            each.member_id: Software(
                each.client_software_name, each.client_software_version, each.principal
            )
            for each in self.recorded.facts or ()
            if isinstance(each, MemberJoined | StaticMemberReplaced)
            and each.member_id in members
            and (each.client_software_name is not None or each.principal is not None)
        }


def _seconds(before: Look, look: Look) -> float:
    return look.sample.at_s - before.sample.at_s


def is_changed(one: GroupDescription | None, other: GroupDescription | None) -> bool:
    """Return whether a group looks different: its state, its members, or what they have."""
    if one is None or other is None:
        return one is not other
    return one._replace(coordinator=other.coordinator) != other
