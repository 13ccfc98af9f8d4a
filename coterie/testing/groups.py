"""A view of one consumer group: its state, its history, and waits for what becomes of it.

The view keeps nothing. Each attribute is read from the coordinator when it is used, so two of them
may belong to two moments; a wait checks its whole condition in one.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from coterie.coordinator.groups.group_like import GroupLike
from coterie.coordinator.groups.offsets import fetch
from coterie.near_names import did_you_mean
from coterie.pipeline.timeline.combined import group_history
from coterie.pipeline.timeline.model import Rebalance
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.journal_records import decode_fact
from coterie.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
)
from coterie.protocol.topic_names import JOURNAL_TOPIC
from coterie.testing.bounds import check, check_all
from coterie.testing.errors import WrongUse
from coterie.testing.loopback import ask
from coterie.testing.members import Member, Partition, member_of, picture, rebalance_line
from coterie.testing.records import no_topic, opened_log, partition_records
from coterie.testing.runner import Runner
from coterie.testing.topics import delete_group
from coterie.testing.waiting import DEFAULT_TIMEOUT_S, Waiting, until

if TYPE_CHECKING:
    from coterie.server.broker import Broker

DEAD = "Dead"
_STABLE = "Stable"
_PAUSE_S = 0.001
_REBALANCE_REASON = "the test asked for a rebalance"
# The key of a fact is its type, the length of the group id, and the group id.
_FACT_TYPE_BYTES = 2


class _Here(NamedTuple):
    """A broker whose thread this is."""

    server: "Broker"

    @property
    def thread(self) -> Runner:
        """Raise an error: nothing waits for the broker in its own thread."""
        raise WrongUse("the broker's own thread cannot wait for the broker")


def pictured(server: "Broker", group_id: str) -> str:
    """Return the picture of a group, in the broker's thread."""
    return Group(_Here(server), group_id).pictured()


class Running(Protocol):
    """The parts of a broker of a test that a view needs."""

    @property
    def thread(self) -> Runner:
        """Where the broker runs."""

    @property
    def server(self) -> "Broker":
        """The broker; another one after a restart."""


class Group:
    """A view of a group; it may not exist yet."""

    def __init__(self, running: Running, group_id: str) -> None:
        """Look at a group; see `Broker.group`."""
        self.group_id = group_id
        self._running = running

    def __repr__(self) -> str:
        return f"Group({self.group_id!r})"

    # --- what is there ----------------------------------------------------------------------------

    @property
    def state(self) -> str:
        """Kafka's name of its state: Empty, PreparingRebalance, CompletingRebalance, Stable, Dead.

        A group that does not exist is Dead, as for DescribeGroups.
        """
        return self._running.thread.call(self._state)

    @property
    def generation(self) -> int:
        """Its generation; -1 if the group does not exist."""
        return self._running.thread.call(self._generation)

    @property
    def members(self) -> tuple[Member, ...]:
        """Its members, in the order in which they joined."""
        return self._running.thread.call(self._members)

    @property
    def assignment(self) -> dict[Partition, Member]:
        """The member that each assigned partition belongs to."""
        return {partition: each for each in self.members for partition in each.assignment}

    @property
    def offsets(self) -> dict[Partition, int]:
        """Its committed offsets."""
        return self._running.thread.call(self._offsets)

    @property
    def lag(self) -> dict[Partition, int]:
        """How many records follow each committed offset."""
        return self._running.thread.call(self._lag)

    @property
    def history(self) -> list[Rebalance]:
        """Every rebalance so far: why it began, who caused it, how long it took, what moved."""
        return self._running.thread.run(self._history())

    def history_lines(self) -> list[str]:
        """Return a line for each rebalance so far."""
        return [rebalance_line(each) for each in self.history]

    def stuck(self) -> str:
        """Describe why the group makes no progress: what it waits for, and until when."""
        return self._running.thread.call(self.pictured)

    # --- what becomes of it -----------------------------------------------------------------------

    def wait_stable(
        self, members: int | None = None, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> Waiting["Group"]:
        """Wait until the group is Stable; with `members`, until it has just so many."""
        check(members=members)

        def holds() -> "Group | None":
            group = self._find()
            is_stable = group is not None and group.state_name == _STABLE
            counts = members is None or (group is not None and group.member_count == members)
            return self if is_stable and counts else None

        wanted = "" if members is None else f" with {members} member{'s' * (members != 1)}"
        return self._wait(holds, f"group '{self.group_id}' is Stable{wanted}", timeout_s)

    def wait_empty(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> Waiting["Group"]:
        """Wait until the group has no members, or does not exist."""

        def holds() -> "Group | None":
            group = self._find()
            return self if group is None or group.is_empty else None

        return self._wait(holds, f"group '{self.group_id}' has no members", timeout_s)

    def wait_assigned(self, *topics: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> Waiting["Group"]:
        """Wait until the group is Stable and every partition of the topics is assigned.

        Without topics all those count that the members subscribe to.
        """

        def holds() -> "Group | None":
            group = self._find()
            if group is None or group.state_name != _STABLE:
                return None
            members = self._members()
            names = set(topics) or {name for each in members for name in each.topics or ()}
            assigned = {partition for each in members for partition in each.assignment}
            wanted = {each for name in names for each in self._partitions(name)}
            return self if wanted and wanted <= assigned else None

        named = f" of {', '.join(topics)}" if topics else ""
        what = f"every partition{named} is assigned in group '{self.group_id}'"

        def with_topics() -> str:
            known = self._running.server.topics.by_name
            unknown = [
                f"\n{no_topic(self._running.server, each)}" for each in topics if each not in known
            ]
            return self.pictured() + "".join(unknown)

        return self._wait(holds, what, timeout_s, with_topics)

    def wait_committed(
        self,
        offsets: Mapping[Partition, int] | None = None,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Waiting["Group"]:
        """Wait until these offsets, or larger ones, are committed.

        Args:
            offsets: by topic and partition; None for the ends of all partitions with records of the
                topics that the group has committed, so that nothing is left to read.
            timeout_s: the time limit.
        """
        check_all("offset", (offsets or {}).values())

        def holds() -> "Group | None":
            committed = self._offsets()
            if offsets is not None:
                done = all(committed.get(key, -1) >= offset for key, offset in offsets.items())
            else:
                topics = {topic for topic, _ in committed}
                done = bool(topics) and all(
                    (end := self._end(each)) is not None and committed.get(each, 0) >= end
                    for name in topics
                    for each in self._partitions(name)
                )
            return self if done else None

        wanted = "everything" if offsets is None else str(dict(offsets))
        return self._wait(holds, f"group '{self.group_id}' has committed {wanted}", timeout_s)

    def wait_rebalanced(
        self, since_generation: int, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> Waiting["Group"]:
        """Wait until the group is Stable in a later generation than `since_generation`."""
        check(since_generation=since_generation)

        def holds() -> "Group | None":
            group = self._find()
            if group is None or group.state_name != _STABLE:
                return None
            return self if group.logged_generation() > since_generation else None

        what = f"group '{self.group_id}' is Stable after generation {since_generation}"
        return self._wait(holds, what, timeout_s)

    # --- what a test does to it -------------------------------------------------------------------

    def rebalance(self) -> None:
        """Begin a rebalance, as if the coordinator had a reason for one; do not wait for its end.

        Raises:
            WrongUse: the group has no members, or is in a rebalance already.
        """

        def begin() -> bool:
            groups = self._running.server.groups
            now_ms = self._running.server.now_ms()
            began = groups.coordinator.begin_rebalance(self.group_id, _REBALANCE_REASON, now_ms)
            groups.apply(began)
            return bool(began.events)

        if not self._running.thread.call(begin):
            raise WrongUse(f"no rebalance can begin now\n{self.stuck()}")

    def delete(self) -> Waiting[None]:
        """Delete the group with its offsets.

        Raises:
            WrongUse: it has members, or does not exist.
        """
        return Waiting(self._running.thread, delete_group(self._running.server, self.group_id))

    def expel(self, member: Member | str, reason: str = "the test expelled it") -> Waiting[None]:
        """Remove a member, as an administrator would; its client notices and joins anew.

        Args:
            member: the member, its member id, its instance id or its client id.
            reason: kept in the history.

        Raises:
            WrongUse: there is no such member, or several have that client id.
        """
        found = member if isinstance(member, Member) else self._named(member)

        async def leave() -> None:
            listed = LeaveGroupRequestMember(
                member_id=found.member_id, group_instance_id=found.instance_id, reason=reason
            )
            request = LeaveGroupRequest(group_id=self.group_id, members=[listed])
            response = await ask(self._running.server, request, LeaveGroupResponse)
            error = response.error_code or response.members[0].error_code
            if error:
                raise WrongUse(f"{found.name} is no member any more\n{self.pictured()}")

        return Waiting(self._running.thread, leave())

    def _named(self, name: str) -> Member:
        members = self.members
        by_id = [each for each in members if name in (each.member_id, each.instance_id)]
        found = by_id or [each for each in members if each.client_id == name]
        if len(found) == 1:
            return found[0]
        known = ", ".join(each.name for each in members) or "nobody"
        count = "several members have" if found else "no member has"
        raise WrongUse(f"{count} the id '{name}' in group '{self.group_id}'; members: {known}")

    # --- in the broker's thread -------------------------------------------------------------------

    def _wait(
        self,
        holds: "Callable[[], Group | None]",
        what: str,
        timeout_s: float,
        pictured: Callable[[], str] | None = None,
    ) -> Waiting["Group"]:
        check(timeout_s=timeout_s)
        thread = self._running.thread
        return Waiting(thread, until(thread, holds, what, timeout_s, pictured or self.pictured))

    def _find(self) -> GroupLike | None:
        return self._running.server.coordinator.group(self.group_id)

    def _state(self) -> str:
        group = self._find()
        return DEAD if group is None else group.state_name

    def _generation(self) -> int:
        group = self._find()
        return -1 if group is None else group.logged_generation()

    def _members(self) -> tuple[Member, ...]:
        group = self._find()
        if group is None:
            return ()
        return tuple(member_of(each) for each in group.seen_members())

    def _offsets(self) -> dict[Partition, int]:
        coordinator = self._running.server.coordinator
        shard = coordinator.shards[coordinator.partition_for(self.group_id)]
        return {
            (topic.name, each.partition_index): each.committed_offset
            for topic in fetch(shard, self.group_id, None, stable=False)
            for each in topic.partitions
        }

    def _lag(self) -> dict[Partition, int]:
        return {
            partition: max(0, end - offset)
            for partition, offset in self._offsets().items()
            if (end := self._end(partition)) is not None
        }

    def _end(self, partition: Partition) -> int | None:
        """Return the end of a partition's log; None while it is being opened."""
        logs = self._running.server.logs
        found = logs.led(*partition)
        if isinstance(found, ErrorCode):
            return 0
        logs.opener.open_now(found)
        log = found.opened_log
        return None if log is None else log.log_end_offset

    def _partitions(self, topic: str) -> list[Partition]:
        found = self._running.server.topics.find(topic)
        count = 0 if found is None else len(found.partitions)
        return [(topic, index) for index in range(count)]

    async def _history(self) -> list[Rebalance]:
        server = self._running.server
        journal = server.groups.journal
        journal.write()
        while not journal.idle:  # noqa: ASYNC110 - its topic is being created, which takes a few turns
            await asyncio.sleep(_PAUSE_S)
        topic = server.topics.find(JOURNAL_TOPIC)
        group = self.group_id.encode()
        wanted = len(group).to_bytes(2, "big") + group
        facts = [
            decode_fact(record.key, record.value).fact
            for partition in ([] if topic is None else topic.partitions)
            for record in partition_records(await opened_log(server, partition))
            if record.key is not None and record.key[_FACT_TYPE_BYTES:] == wanted
        ]
        return group_history(self.group_id, facts, ()).rebalances

    async def described(self, *, with_history: bool) -> str:
        """Return its picture, and below it a line for each rebalance; in the broker's thread."""
        rebalances = await self._history() if with_history else []
        return "\n".join([self.pictured(), *(f"  {rebalance_line(each)}" for each in rebalances)])

    def pictured(self) -> str:
        """Return what `stuck` returns; in the broker's thread."""
        group = self._find()
        if group is None:
            groups = self._running.server.coordinator.groups()
            others = did_you_mean(self.group_id, (each.group_id for each in groups), "groups")
            text = f"group '{self.group_id}' does not exist: no client has joined or committed"
            return text + others
        return picture(group, self._lag(), self._running.server.now_ms())
