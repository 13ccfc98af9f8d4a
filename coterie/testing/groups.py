"""A view of one consumer group: its state, its history, and waits for what becomes of it.

The view keeps nothing. Each attribute is read from the broker that coordinates the group when it is
used, so two of them may belong to two moments; a wait checks its whole condition in one.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

from coterie.pipeline.timeline.model import Rebalance
from coterie.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupRequestMember,
    LeaveGroupResponse,
)
from coterie.server.broker import Broker
from coterie.server.present import MemberSession
from coterie.server.share.seen_records import SharePartition
from coterie.testing.bounds import check, check_all
from coterie.testing.errors import WrongUse
from coterie.testing.group_history import CoordinatorMove, RecordedGroup, recorded_group
from coterie.testing.in_charge import (
    NobodyInCharge,
    Running,
    any_server,
    coordinator,
    loaded_coordinator,
)
from coterie.testing.loopback import ask
from coterie.testing.members import Member, Partition
from coterie.testing.records import no_topic
from coterie.testing.seen_group import SeenGroup
from coterie.testing.share_deliveries import Archived, DeliveryLog, EndedDelivery
from coterie.testing.share_partitions import is_done
from coterie.testing.streams_tasks import Task, are_assigned
from coterie.testing.topics import alter_group, delete_group
from coterie.testing.waiting import DEFAULT_TIMEOUT_S, Waiting, until

T = TypeVar("T")

_REBALANCE_REASON = "the test asked for a rebalance"


class Group:
    """A view of a group; it may not exist yet."""

    def __init__(self, running: Running, group_id: str) -> None:
        """Look at a group; see `Views.group`."""
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
        return self._seen(lambda seen: seen.state)

    @property
    def generation(self) -> int:
        """Its generation, or its epoch if it is no classic group; -1 if it does not exist."""
        return self._seen(lambda seen: seen.generation)

    @property
    def members(self) -> tuple[Member, ...]:
        """Its members, in the order in which they joined."""
        return self._seen(lambda seen: seen.members)

    @property
    def sessions(self) -> tuple[MemberSession, ...]:
        """The sessions of its members, in the same order: how long each has been silent."""
        return self._seen(lambda seen: seen.sessions)

    @property
    def assignment(self) -> dict[Partition, Member]:
        """The member that each assigned partition belongs to."""
        return {partition: each for each in self.members for partition in each.assignment}

    @property
    def offsets(self) -> dict[Partition, int]:
        """Its committed offsets."""
        return self._seen(lambda seen: seen.offsets)

    @property
    def lag(self) -> dict[Partition, int]:
        """How many records follow each committed offset, or are not done in a share group."""
        return self._seen(lambda seen: seen.lag)

    @property
    def tasks(self) -> dict[str, Task]:
        """The tasks of a streams group by their names, such as "0_2", and who has them."""
        return self._seen(lambda seen: seen.tasks)

    @property
    def share_partitions(self) -> dict[Partition, SharePartition]:
        """The partitions that a share group reads: what is in flight, and who has locked what."""
        return self._seen(lambda seen: seen.share_partitions)

    @property
    def deliveries(self) -> list[EndedDelivery]:
        """Every delivery of a share group so far that has ended, and what became of the records."""
        return self._seen(lambda seen: DeliveryLog(self.group_id).read_on(seen.server))

    @property
    def settings(self) -> dict[str, str]:
        """The settings of this group itself; for others those of the broker count."""
        return self._seen(lambda seen: dict(seen.server.config.groups.get(self.group_id, {})))

    @property
    def history(self) -> list[Rebalance]:
        """Every rebalance so far: why it began, who caused it, how long it took, what moved."""
        return self._recorded().rebalances

    @property
    def moves(self) -> list[CoordinatorMove]:
        """Every move of its coordinator so far to another of several brokers."""
        return self._recorded().moves

    def history_lines(self) -> list[str]:
        """Return a line for each rebalance and each move of the coordinator so far, in order."""
        return self._recorded().lines()

    def stuck(self) -> str:
        """Describe why the group makes no progress: what it waits for, and until when."""
        return self._running.thread.call(self._pictured)

    # --- what becomes of it -----------------------------------------------------------------------

    def wait_stable(
        self, members: int | None = None, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> Waiting["Group"]:
        """Wait until the group is Stable; with `members`, until it has just so many."""
        check(members=members)

        def holds(seen: SeenGroup) -> bool:
            return seen.is_stable and members in (None, seen.member_count)

        wanted = "" if members is None else f" with {members} member{'s' * (members != 1)}"
        return self._wait(holds, f"group '{self.group_id}' is Stable{wanted}", timeout_s)

    def wait_empty(self, timeout_s: float = DEFAULT_TIMEOUT_S) -> Waiting["Group"]:
        """Wait until the group has no members, or does not exist."""

        def holds(seen: SeenGroup) -> bool:
            return seen.group is None or seen.group.is_empty

        return self._wait(holds, f"group '{self.group_id}' has no members", timeout_s)

    def wait_assigned(self, *topics: str, timeout_s: float = DEFAULT_TIMEOUT_S) -> Waiting["Group"]:
        """Wait until the group is Stable and every partition of the topics is assigned.

        Without topics all those count that the members subscribe to, or that the topology of a
        streams group reads.
        """

        def holds(seen: SeenGroup) -> bool:
            if not seen.is_stable:
                return False
            members = seen.members
            names = set(topics) or {name for each in members for name in each.topics or ()}
            assigned = {partition for each in members for partition in each.assignment}
            wanted = {each for name in names for each in seen.partitions(name)}
            return bool(wanted) and wanted <= assigned

        named = f" of {', '.join(topics)}" if topics else ""
        what = f"every partition{named} is assigned in group '{self.group_id}'"

        def with_topics() -> str:
            server = any_server(self._running)
            known = server.topics.by_name
            unknown = [f"\n{no_topic(server, each)}" for each in topics if each not in known]
            return self._pictured() + "".join(unknown)

        return self._wait(holds, what, timeout_s, with_topics)

    def wait_tasks(
        self, standbys: int = 0, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> Waiting["Group"]:
        """Wait until a streams group is Stable and all its tasks are assigned.

        Args:
            standbys: how many standby copies each task with state has then.
            timeout_s: the time limit.
        """
        check(standbys=standbys)

        def holds(seen: SeenGroup) -> bool:
            return seen.is_stable and are_assigned(seen.tasks, standbys)

        copies = f", with {standbys} standby cop{'y' if standbys == 1 else 'ies'}"
        what = f"every task of group '{self.group_id}' is assigned{copies if standbys else ''}"
        return self._wait(holds, what, timeout_s)

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

        def holds(seen: SeenGroup) -> bool:
            committed = seen.offsets
            if offsets is not None:
                return all(committed.get(key, -1) >= offset for key, offset in offsets.items())
            topics = {topic for topic, _ in committed}
            return bool(topics) and all(
                (end := seen.end(each)) is not None and committed.get(each, 0) >= end
                for name in topics
                for each in seen.partitions(name)
            )

        wanted = "everything" if offsets is None else str(dict(offsets))
        return self._wait(holds, f"group '{self.group_id}' has committed {wanted}", timeout_s)

    def wait_rebalanced(
        self, since_generation: int, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> Waiting["Group"]:
        """Wait until the group is Stable in a later generation or epoch than this."""
        check(since_generation=since_generation)

        def holds(seen: SeenGroup) -> bool:
            return seen.is_stable and seen.generation > since_generation

        what = f"group '{self.group_id}' is Stable in a generation after {since_generation}"
        return self._wait(holds, what, timeout_s)

    def wait_acquired(
        self, at_least: int = 1, timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> Waiting["Group"]:
        """Wait until members of a share group have so many records, which are locked then."""
        check(at_least=at_least)

        def holds(seen: SeenGroup) -> bool:
            found = seen.share_partitions.values()
            return sum(lock.record_count for each in found for lock in each.locks) >= at_least

        what = f"members of group '{self.group_id}' have {at_least} record{'s' * (at_least != 1)}"
        return self._wait(holds, what, timeout_s)

    def wait_acknowledged(
        self,
        offsets: Mapping[Partition, int] | None = None,
        *,
        timeout_s: float = DEFAULT_TIMEOUT_S,
    ) -> Waiting["Group"]:
        """Wait until all records of a share group below these offsets are acknowledged or archived.

        Args:
            offsets: by topic and partition; None for the ends of all partitions that it reads, so
                that nothing is left to do.
            timeout_s: the time limit.
        """
        check_all("offset", (offsets or {}).values())

        def holds(seen: SeenGroup) -> bool:
            found = seen.share_partitions
            if offsets is not None:
                return is_done(found, offsets)
            ends = {key: each.end_offset for key, each in found.items()}
            wanted = {key: end for key, end in ends.items() if end}
            return bool(wanted) and None not in ends.values() and is_done(found, wanted)

        wanted = "everything" if offsets is None else f"what is below {dict(offsets)}"
        what = f"group '{self.group_id}' has acknowledged {wanted}"
        return self._wait(holds, what, timeout_s)

    def wait_archived(
        self, offsets: Mapping[Partition, int], timeout_s: float = DEFAULT_TIMEOUT_S
    ) -> Waiting["Group"]:
        """Wait until a share group has given these records up: rejected, or delivered too often.

        Args:
            offsets: by topic and partition the offset of a record.
            timeout_s: the time limit.
        """
        check_all("offset", offsets.values())

        archived = Archived(self.group_id, offsets)
        what = f"group '{self.group_id}' has archived {dict(offsets)}"
        return self._wait(lambda seen: archived.holds(seen.server), what, timeout_s)

    # --- what a test does to it -------------------------------------------------------------------

    def configure(self, settings: Mapping[str, str]) -> None:
        """Set settings of this group, such as share.record.lock.duration.ms; others stay.

        It need not exist yet.

        Raises:
            WrongUse: there is no such setting, or it cannot have that value; the text is Kafka's.
        """

        async def alter() -> None:
            await alter_group(any_server(self._running), self.group_id, settings)

        self._running.thread.run(alter())

    def rebalance(self) -> None:
        """Begin a rebalance, as if the coordinator had a reason for one; do not wait for its end.

        Raises:
            WrongUse: the group has no members, or is in a rebalance already.
        """

        def begin(seen: SeenGroup) -> bool:
            groups, now_ms = seen.server.groups, seen.server.now_ms()
            began = groups.coordinator.begin_rebalance(self.group_id, _REBALANCE_REASON, now_ms)
            groups.apply(began)
            return bool(began.events)

        if not self._seen(begin):
            raise WrongUse(f"no rebalance can begin now\n{self.stuck()}")

    def delete(self) -> Waiting[None]:
        """Delete the group with its offsets.

        Raises:
            WrongUse: it has members, or does not exist.
        """

        async def delete() -> None:
            await delete_group(await self._coordinator(), self.group_id)

        return Waiting(self._running.thread, delete())

    def expel(self, member: Member | str, reason: str = "the test expelled it") -> Waiting[None]:
        """Remove a member, as an administrator would; its client notices and joins anew.

        Args:
            member: the member, its member id, its instance id or its client id.
            reason: kept in the history.

        Raises:
            WrongUse: there is no such member, several have that client id, or it is a share group
                or a streams group, from which nobody is removed.
        """
        found = member if isinstance(member, Member) else self._named(member)

        async def leave() -> None:
            seen = SeenGroup(await self._coordinator(), self.group_id)
            if seen.refuses_expulsion and seen.group is not None:
                raise WrongUse(
                    f"members of the {seen.group.group_type} group '{self.group_id}' can't be"
                    " removed: close the client, or put the clock forward past its session"
                )
            listed = LeaveGroupRequestMember(
                member_id=found.member_id, group_instance_id=found.instance_id, reason=reason
            )
            request = LeaveGroupRequest(group_id=self.group_id, members=[listed])
            response = await ask(seen.server, request, LeaveGroupResponse)
            error = response.error_code or response.members[0].error_code
            if error:
                raise WrongUse(f"{found.name} is no member any more\n{self._pictured()}")

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

    # --- in the thread of the brokers -------------------------------------------------------------

    async def _coordinator(self) -> Broker:
        return await loaded_coordinator(self._running, self.group_id)

    def _seen(self, read: Callable[[SeenGroup], T]) -> T:
        """Return what is read from the group, once its coordinator has loaded it."""

        async def reading() -> T:
            return read(SeenGroup(await self._coordinator(), self.group_id))

        return self._running.thread.run(reading())

    def _wait(
        self,
        holds: Callable[[SeenGroup], bool],
        what: str,
        timeout_s: float,
        pictured: Callable[[], str] | None = None,
    ) -> Waiting["Group"]:
        check(timeout_s=timeout_s)
        thread = self._running.thread

        def condition() -> "Group | None":
            try:
                server = coordinator(self._running, self.group_id)
            except NobodyInCharge:
                return None
            return self if holds(SeenGroup(server, self.group_id)) else None

        picture = pictured or self._pictured
        return Waiting(thread, until(thread, condition, what, timeout_s, picture))

    def _recorded(self) -> RecordedGroup:
        return self._running.thread.run(recorded_group(any_server(self._running), self.group_id))

    async def described(self, *, with_history: bool) -> str:
        """Return its picture, and below it a line for each rebalance; in the brokers' thread."""
        lines: list[str] = []
        if with_history:
            lines = (await recorded_group(any_server(self._running), self.group_id)).lines()
        return "\n".join([self._pictured(), *(f"  {each}" for each in lines)])

    def _pictured(self) -> str:
        try:
            server = coordinator(self._running, self.group_id)
        except NobodyInCharge as error:
            return str(error)
        return SeenGroup(server, self.group_id).pictured()
