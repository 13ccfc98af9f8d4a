"""What the members of share groups were told of each record, and what must hold of it.

H1  a record is given to nobody while a member holds it under a lock that is certainly valid
H2  a record is given to nobody after a good answer has said that it is done
H3  a record is given to members no more often than the limit of deliveries allows
H4  the delivery counts of a record grow; after a crash they go back to what was persisted at most
H5  who holds records under valid locks may acknowledge them
H6  at the end each record was acknowledged, or was delivered as often as the limit allows
H7  a group that reads committed records is given none of an aborted transaction

A member knows when it has asked and when it was answered, so a lock is certainly valid for its
duration from the moment of the request on. It ends with the session, and when another broker leads
the partition.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from coterie.coordinator.share_partition.states import AcknowledgeType
from coterie.protocol.errors import ErrorCode
from tests.simulation.checks.violation import require
from tests.simulation.share_groups.settings import ChangingSetting

if TYPE_CHECKING:
    from tests.simulation.brokers.lines import Line

# Topic and number of a partition.
Place = tuple[str, int]
# What was refused has changed nothing, but for renewed locks.
REFUSALS = (ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST)
_FINAL = (AcknowledgeType.ACCEPT, AcknowledgeType.REJECT, AcknowledgeType.GAP)


class Moment(NamedTuple):
    """When and where a request was sent.

    Attributes:
        sent_ms: the time.
        epoch: the leader epoch of the partition.
        line: the connection.
    """

    sent_ms: float
    epoch: int
    line: "Line"


@dataclass
class Grant:
    """A record in the hands of a member.

    Attributes:
        member: its name.
        count: the delivery count that it was told.
        asked: the request.
        until_ms: the lock is valid at least so long.
    """

    member: str
    count: int
    asked: Moment
    until_ms: float


@dataclass
class Known:
    """What is known of a record in a group.

    Attributes:
        grant: who has it; None if nobody has it for certain.
        count: the latest delivery count.
        epoch: the leader epoch of that; -1 if counts may have gone back since.
        seen: when each delivery count was told last.
        floor, floor_ms: a delivery count that is persisted, and since when.
        since_ms: when it was delivered last.
        lost: how many answers of its partition were lost before that.
        done_ms: since when it is done, by a good answer.
        may_be_done: whether it may be.
    """

    grant: Grant | None = None
    count: int = 0
    epoch: int = -1
    seen: dict[int, float] = field(default_factory=dict)
    floor: int = 0
    floor_ms: float = 0.0
    since_ms: float = 0.0
    lost: int = 0
    done_ms: float = inf
    may_be_done: bool = False

    def before(self, count: int) -> float:
        """Return when it was given to somebody last with a smaller delivery count."""
        return max((at_ms for each, at_ms in self.seen.items() if each < count), default=0.0)


class ShareLedger:
    """One group.

    Attributes:
        group_id: the group.
        is_committed: whether it reads committed records.
        limit, lock_ms: the limit of deliveries, and how long locks last.
        log_starts: below them records may have been deleted.
        counted: how often things have occurred.
    """

    def __init__(
        self,
        group_id: str,
        *,
        is_committed: bool,
        limit: int,
        lock_ms: int,
        now_ms: Callable[[], float],
        epoch: Callable[[Place], int],
    ) -> None:
        """Know of no record.

        Args:
            group_id: the group.
            is_committed: whether it reads committed records.
            limit: the limit of deliveries.
            lock_ms: how long locks last.
            now_ms: returns the time.
            epoch: returns the present leader epoch of a partition.
        """
        self.group_id = group_id
        self.is_committed = is_committed
        self.limit = ChangingSetting(limit)
        self.lock_ms = ChangingSetting(lock_ms)
        self.log_starts: dict[Place, int] = {}
        self.counted: Counter[str] = Counter()
        self._now_ms = now_ms
        self._epoch = epoch
        self._records: dict[Place, dict[int, Known]] = {}
        # How many answers of fetches of each partition were lost.
        self._lost: Counter[Place] = Counter()

    def _known(self, place: Place, offset: int) -> Known:
        return self._records.setdefault(place, {}).setdefault(offset, Known())

    def moment(self, place: Place, line: "Line") -> Moment:
        """Return the moment of a request about a partition that is sent now."""
        return Moment(self._now_ms(), self._epoch(place), line)

    def _is_certain(self, place: Place, grant: Grant | None) -> bool:
        """Whether a member holds a record now, for certain."""
        if grant is None or self._now_ms() >= grant.until_ms:
            return False
        asked = grant.asked
        return asked.line.is_usable and not asked.line.closed and asked.epoch == self._epoch(place)

    # --- deliveries -------------------------------------------------------------------------------

    def delivered(
        self, member: str, place: Place, first: int, last: int, count: int, asked: Moment
    ) -> None:
        """Note that a member was given records (H1 to H4)."""
        now_ms = self._now_ms()
        lock_ms = min(self.lock_ms.within(asked.sent_ms, now_ms))
        is_same_leader = asked.epoch == self._epoch(place)
        # An answer waits until the acknowledgements of its request are persisted.
        is_late = now_ms >= asked.sent_ms + lock_ms
        for offset in range(first, last + 1):
            known = self._known(place, offset)
            what = f"{offset} of {place} in {self.group_id}, given to {member} ({count})"
            was_done = known.done_ms < asked.sent_ms
            require(not was_done, "H2", f"{what}, is done: {known}")
            if is_same_leader and not is_late and self._is_certain(place, known.grant):
                require(False, "H1", f"{what}, is with {known.grant}")
            limit = max(self.limit.within(known.before(count), now_ms))
            require(count <= limit, "H3", f"{what}, has the limit {limit}")
            was_persisted = known.floor_ms < asked.sent_ms and count <= known.floor
            require(not was_persisted, "H4", f"{what}, was persisted: {known}")
            if is_same_leader and known.epoch == asked.epoch and known.since_ms < asked.sent_ms:
                require(count > known.count, "H4", f"{what}, was delivered: {known}")
            if known.seen:
                self.counted["delivered again"] += 1
            if count == limit:
                self.counted["last attempt"] += 1
            known.seen[count] = now_ms
            if is_late:
                self.counted["late answer"] += 1
                continue
            known.grant = Grant(member, count, asked, asked.sent_ms + lock_ms)
            known.count, known.epoch, known.since_ms = count, asked.epoch, now_ms
            known.lost = self._lost[place]

    def lost(self, places: Iterable[Place]) -> None:
        """Note that the answer to a fetch was lost: somebody may have been given records."""
        for place in places:
            self._lost[place] += 1

    def ended(self, member: str, places: Iterable[Place], *, forgets: bool = False) -> None:
        """Note that a member's session ends, or forgets partitions.

        Args:
            member: the member.
            places: the partitions.
            forgets: whether what it holds is not released, so that counts go back when its leader
                forgets the partition.
        """
        for place in places:
            for known in self._records.get(place, {}).values():
                if known.grant is not None and known.grant.member == member:
                    known.grant = None
                    if forgets:
                        known.epoch = -1

    def deleted(self, place: Place, offset: int) -> None:
        """Note that the records before an offset may be deleted."""
        self.log_starts[place] = max(offset, self.log_starts.get(place, 0))

    # --- acknowledgements -------------------------------------------------------------------------

    def acknowledging(
        self, member: str, place: Place, types: dict[int, int], asked: Moment
    ) -> "Acknowledgement":
        """Note that a member acknowledges records; what it does not renew it holds no longer."""
        return Acknowledgement(self, member, place, types, asked)

    def taken(self, each: "Acknowledgement", error: int | None) -> None:
        """Note the answer to an acknowledgement; None if it was lost (H5)."""
        certain = [
            grant is not None and self._is_certain(each.place, grant) and
            grant.asked.epoch == each.asked.epoch and grant.asked.line is each.asked.line
            for grant in each.grants.values()
        ]  # fmt: skip
        if error in REFUSALS:
            what = f"{each.types} of {each.place} by {each.member} in {self.group_id}"
            require(not all(certain), "H5", f"{what} is refused with {error}")
            self.counted["refused"] += 1
            for offset, grant in each.grants.items():
                known = self._known(each.place, offset)
                if known.grant is None and grant is not None and grant.count == known.count:
                    known.grant = grant
            return
        for (offset, kind), is_certain in zip(each.types.items(), certain, strict=True):
            known, grant = self._known(each.place, offset), each.grants[offset]
            if kind == AcknowledgeType.RENEW:
                self._renewed(known, grant, each.asked, is_good=error == 0 and is_certain)
            elif kind in _FINAL:
                known.may_be_done = True
                if error == 0:
                    known.done_ms = min(known.done_ms, self._now_ms())
            else:
                self._released(known, grant, each.asked, is_good=error == 0 and is_certain)
        self.counted["acknowledged" if error == 0 else f"not acknowledged: {error}"] += 1

    def _renewed(self, known: Known, grant: Grant | None, asked: Moment, *, is_good: bool) -> None:
        if is_good and grant is not None and known.grant is grant:
            now_ms = self._now_ms()
            grant.until_ms = asked.sent_ms + min(self.lock_ms.within(asked.sent_ms, now_ms))
            self.counted["renewed"] += 1

    def _released(self, known: Known, grant: Grant | None, asked: Moment, *, is_good: bool) -> None:
        limits = self.limit.within(asked.sent_ms, self._now_ms())
        if grant is None or grant.count >= min(limits):
            known.may_be_done = True
        if is_good and grant is not None:
            if grant.count > known.floor:
                known.floor, known.floor_ms = grant.count, self._now_ms()
            if grant.count >= max(limits):
                known.done_ms = min(known.done_ms, self._now_ms())
                self.counted["archived by a release"] += 1

    # --- the end ----------------------------------------------------------------------------------

    def check_end(self, place: Place, offsets: set[int], aborted: set[int]) -> None:
        """Check what the log of a partition has (H6, H7).

        Args:
            place: the partition.
            offsets: its records, but for markers.
            aborted: those of aborted transactions.
        """
        now_ms = self._now_ms()
        if self.is_committed:
            given = [each for each in aborted if self._known(place, each).seen]
            require(not given, "H7", f"{given} of {place} were given to {self.group_id}")
            offsets = offsets - aborted
        for offset in sorted(offsets):
            known = self._known(place, offset)
            is_done = known.done_ms < inf
            if is_done or known.may_be_done or offset < self.log_starts.get(place, 0):
                self.counted["done" if is_done else "perhaps done"] += 1
                continue
            # Each lost answer may have been a delivery.
            count = known.count + self._lost[place] - known.lost
            limit = min(self.limit.within(known.since_ms, now_ms))
            what = f"{offset} of {place} in {self.group_id} is lost: {known}"
            require(count >= limit, "H6", what)
            self.counted["delivered too often"] += 1

    def records(self) -> Iterator[Known]:
        """Yield what is known of each record."""
        for records in self._records.values():
            yield from records.values()


class Acknowledgement:
    """Acknowledgements of one partition in one request.

    Attributes:
        member, place, asked: who has asked what and when.
        types: the types by offset.
        grants: what the member held for certain.
    """

    def __init__(
        self, ledger: ShareLedger, member: str, place: Place, types: dict[int, int], asked: Moment
    ) -> None:
        self.member, self.place, self.types, self.asked = member, place, types, asked
        self.grants: dict[int, Grant | None] = {}
        for offset, kind in types.items():
            known = ledger._known(place, offset)
            grant = known.grant
            is_mine = grant is not None and grant.member == member
            self.grants[offset] = grant if is_mine else None
            if is_mine and kind != AcknowledgeType.RENEW:
                known.grant = None
