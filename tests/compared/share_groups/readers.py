"""What members of share groups fetch and acknowledge, and what they know of their sessions."""

import random
from dataclasses import dataclass, field
from typing import Any

from coterie.protocol.messages.share_acknowledge import (
    ShareAcknowledgePartition,
    ShareAcknowledgeRequest,
    ShareAcknowledgeTopic,
)
from coterie.protocol.messages.share_fetch import (
    ShareFetchPartition,
    ShareFetchRequest,
    ShareFetchTopic,
    ShareForgottenTopic,
)
from coterie.protocol.messages.share_session_parts import AcknowledgementBatch
from tests.compared.share_groups.parts import (
    MEMBER_CONNECTIONS,
    MEMBERS,
    Asked,
    Plain,
    connections,
)

# Topic id and number.
Partition = tuple[bytes, int]
# A fetch that may begin to load share partitions waits until they are surely loaded. Of one alone
# it does not have to wait so long: without a least size it is answered when that is loaded.
_LOADED_MS, _ONE_LOADED_MS = 4_000, 5_000
# With 0 Kafka sometimes finds nothing: the end of the wait and the first look meet each other.
SHORT_MS = 25
MORE_THAN_THERE_IS = 1 << 30
RELEASED_S = 0.15
# After a change of states by others share partitions may have to be loaded at any time.
UNSTEADY = 1_000_000
_RELEASE, _RENEW = 2, 4
# Kafka has failed with a request; its epoch counts nevertheless.
_FAILED = -1
# This member asks for one partition. Where there are several there are no small limits: in which
# order several partitions come to be read after one another is a matter of a hash in Kafka, and it
# reads those at which it looks for the first time and the others separately, each with the limit.
SINGLE = "m0"
_NO_LIMIT_BYTES, _NO_LIMIT_RECORDS = 1 << 20, 100_000


@dataclass
class Session:
    """A share session as its member knows it.

    Attributes:
        epoch: of the next request.
        partitions: what it has.
        connection: which has opened it.
    """

    epoch: int
    partitions: set[Partition]
    connection: int


@dataclass
class Readers:
    """The members of some groups, as readers of partitions.

    Attributes:
        random: makes all choices.
        partitions: those that exist.
        sessions: by group and member.
        held: the offsets that a member has acquired, by group and partition.
        restless: of which records were deleted, or of which a group may begin behind the end: Kafka
            does not let a fetch wait for records of them.
        open: those with an open transaction: the high watermark is behind the end for groups that
            read what is committed.
        unsteady: for how many more fetches of a group share partitions may have to be loaded.
    """

    random: random.Random
    partitions: list[Partition] = field(default_factory=list)
    gone: list[Partition] = field(default_factory=list)
    sessions: dict[tuple[str, str], Session] = field(default_factory=dict)
    held: dict[tuple[str, Partition], dict[str, set[int]]] = field(default_factory=dict)
    restless: set[Partition] = field(default_factory=set)
    open: set[Partition] = field(default_factory=set)
    unsteady: dict[str, int] = field(default_factory=dict)

    def _maybe(self, share: float) -> bool:
        return self.random.random() < share

    # -- requests ----------------------------------------------------------------------------------

    def fetch(self, group: str, member: str | None = None) -> Asked:
        """Return a ShareFetch."""
        member = member or self.random.choice(MEMBERS)
        version = self.random.choice((1, 2, 2))
        session = self.sessions.get((group, member))
        epoch = self._epoch(session)
        added, acknowledged = self._wanted(group, member, epoch, version)
        opened = session is not None and epoch != 0
        known = session.partitions if session is not None and opened else set()
        fetched = {*added, *acknowledged, *known}
        loads = bool(added) or not opened or self.unsteady.get(group, 0) > 0
        loads = loads or not known.issuperset(acknowledged)
        if loads and len(fetched) > 1 and self.has_restless(fetched):
            # The answer does not wait until the others are loaded [share-partitions/log-start].
            epoch, added, acknowledged = 0, [self.random.choice(sorted(fetched))], {}
            fetched = set(added)
        connection = self._connection(group, member, epoch)
        request = ShareFetchRequest(
            group_id=group if self._maybe(0.995) else None,
            member_id=member if self._maybe(0.99) else self.random.choice(("", None, "m" * 37)),
            share_session_epoch=epoch,
            max_wait_ms=SHORT_MS,
            min_bytes=self.random.choice((1, 1, 1, 0)),
            max_bytes=self.random.choice((_NO_LIMIT_BYTES,) * 7 + (1, 150, 0)),
            max_records=self._max_records(acknowledged),
            batch_size=self.random.choice((500, 500, 1, 3)),
            topics=self._topics(added, acknowledged, ShareFetchTopic, ShareFetchPartition),
            forgotten_topics_data=self._forgotten(session),
        )
        if len(fetched) > 1:
            request.max_bytes = request.max_bytes and _NO_LIMIT_BYTES
            request.max_records = request.max_records and _NO_LIMIT_RECORDS
        if version > 1:
            request.share_acquire_mode = self.random.choice((0,) * 30 + (1,) * 20 + (2,))
            self._renew(request, acknowledged)
        if loads and not request.is_renew_ack:
            self.unsteady[group] = max(0, self.unsteady.get(group, 0) - 1)
            request.max_wait_ms, request.min_bytes = _LOADED_MS, MORE_THAN_THERE_IS
            if len(fetched) == 1:
                request.max_wait_ms, request.min_bytes = _ONE_LOADED_MS, 0
            request.max_bytes = MORE_THAN_THERE_IS
            request.max_records = request.max_records or MORE_THAN_THERE_IS
        rest_s = RELEASED_S if epoch == -1 else 0.0
        return Asked(Plain(version, request), connection, rest_s)

    def _wanted(
        self, group: str, member: str, epoch: int, version: int
    ) -> tuple[list[Partition], dict[Partition, list[AcknowledgementBatch]]]:
        """Return the partitions that a ShareFetch adds, and what it acknowledges."""
        session = self.sessions.get((group, member))
        if session is None or epoch == 0:
            added = self._some(member)
            is_acknowledging = self._maybe(0.04)
            known = added
        else:
            added = self._some(member) if self._maybe(0.1) and member != SINGLE else []
            is_acknowledging = not self.unsteady.get(group) and self._maybe(0.4)
            known = sorted(session.partitions) or self.partitions
        if not is_acknowledging:
            return added, {}
        return added, self._acknowledged(group, member, known, version)

    def fetched(self, request: ShareFetchRequest) -> set[Partition]:
        """Return the partitions of a ShareFetch, and those of its session."""
        named = {(t.topic_id, p.partition_index) for t in request.topics for p in t.partitions}
        session = self.sessions.get((request.group_id or "", request.member_id or ""))
        if session is None or request.share_session_epoch == 0:
            return named
        return named | session.partitions

    def has_restless(self, partitions: set[Partition]) -> bool:
        """Return whether Kafka may answer a fetch at once although nothing can be acquired."""
        return not partitions.isdisjoint(self.restless | self.open)

    def _renew(self, request: Any, acknowledged: dict[Partition, list[Any]]) -> None:
        types = [t for each in acknowledged.values() for b in each for t in b.acknowledge_types]
        if _RENEW in types and self._maybe(0.9):
            request.is_renew_ack = True
            if isinstance(request, ShareFetchRequest) and self._maybe(0.9):
                request.min_bytes = request.max_bytes = request.max_records = 0

    def acknowledge(self, group: str) -> Asked:
        """Return a ShareAcknowledge."""
        member = self.random.choice(MEMBERS)
        version = self.random.choice((1, 2, 2))
        session = self.sessions.get((group, member))
        epoch = self._epoch(session)
        known = sorted(session.partitions) if session is not None else self.partitions
        if self._maybe(0.05):
            known = [*self.partitions, *self.gone, (b"\7" * 16, 0)]
        acknowledged = self._acknowledged(
            group, member, known or self.partitions, version, may_reach_below=True
        )
        request = ShareAcknowledgeRequest(
            group_id=group if self._maybe(0.995) else None,
            member_id=member if self._maybe(0.99) else self.random.choice(("", None, "m" * 37)),
            share_session_epoch=epoch,
            topics=self._topics([], acknowledged, ShareAcknowledgeTopic, ShareAcknowledgePartition),
        )
        if version > 1:
            self._renew(request, acknowledged)
        rest_s = RELEASED_S if epoch == -1 else 0.0
        return Asked(Plain(version, request), self._connection(group, member, epoch), rest_s)

    def _connection(self, group: str, member: str, epoch: int) -> int:
        if epoch and self._maybe(0.05):
            return self.random.choice(MEMBER_CONNECTIONS)
        return connections(group, member)[self._maybe(0.1)]

    def _epoch(self, session: Session | None) -> int:
        if session is None:
            return 0 if self._maybe(0.93) else self.random.choice((1, 2, -1))
        if self._maybe(0.12):
            return self.random.choice((0, 0, -1, -1, session.epoch + 1, session.epoch - 1, -2))
        return session.epoch

    def _max_records(self, acknowledged: dict[Partition, list[Any]]) -> int:
        types = {t for each in acknowledged.values() for b in each for t in b.acknowledge_types}
        if _RELEASE in types:
            # When what is released can be acquired is a matter of time.
            return 0
        return self.random.choice((500, 500, 500, 1, 2, 3, 7, 20, 0))

    def _some(self, member: str) -> list[Partition]:
        if member == SINGLE:
            return [self.random.choice(self.partitions)]
        found = self.random.sample(self.partitions, min(len(self.partitions), 1 + self._maybe(0.3)))
        if self._maybe(0.05):
            found.append((self.partitions[0][0], 9))
        return found

    def _forgotten(self, session: Session | None) -> list[ShareForgottenTopic]:
        if session is None or not session.partitions or not self._maybe(0.06):
            return []
        topic_id, index = self.random.choice(sorted(session.partitions))
        return [ShareForgottenTopic(topic_id=topic_id, partitions=[index])]

    @staticmethod
    def _topics(
        added: list[Partition],
        acknowledged: dict[Partition, list[AcknowledgementBatch]],
        topic_kind: Any,
        kind: Any,
    ) -> list[Any]:
        topics: dict[bytes, list[Any]] = {}
        for topic_id, index in dict.fromkeys([*added, *acknowledged]):
            part = kind(
                partition_index=index,
                acknowledgement_batches=acknowledged.get((topic_id, index), []),
            )
            topics.setdefault(topic_id, []).append(part)
        return [topic_kind(topic_id=each, partitions=parts) for each, parts in topics.items()]

    # -- acknowledgements --------------------------------------------------------------------------

    def _acknowledged(
        self,
        group: str,
        member: str,
        known: list[Partition],
        version: int,
        *,
        may_reach_below: bool = False,
    ) -> dict[Partition, list[AcknowledgementBatch]]:
        """Return acknowledgements, most of them of what the member holds.

        Only those of one partition in a request that does nothing else may reach below what the
        member holds: Kafka may fail, with all that the request does
        [share-partitions/acknowledgement].
        """
        mine = [each for each in known if self.held.get((group, each), {}).get(member)]
        chosen = self.random.sample(mine, min(len(mine), 1 + self._maybe(0.3)))
        if not chosen or self._maybe(0.05):
            chosen = [self.random.choice(known)]
        below = may_reach_below and len(chosen) == 1
        return {
            each: self._batches(self._offsets(group, each, member), version, below)
            for each in chosen
        }

    def _offsets(self, group: str, partition: Partition, member: str) -> list[int]:
        holders = self.held.get((group, partition), {})
        if self._maybe(0.07):
            return sorted(set().union(*holders.values())) if holders else [0]
        return sorted(holders.get(member, ())) or [0]

    def _batches(
        self, offsets: list[int], version: int, may_reach_below: bool
    ) -> list[AcknowledgementBatch]:
        runs: list[tuple[int, int]] = []
        for offset in offsets:
            if runs and runs[-1][1] == offset - 1:
                runs[-1] = (runs[-1][0], offset)
            else:
                runs.append((offset, offset))
        chosen = sorted(self.random.sample(runs, min(len(runs), self.random.choice((1, 1, 2, 3)))))
        batches = []
        for first, last in chosen:
            if self._maybe(0.4):
                first = self.random.randint(first, last)
                last = self.random.randint(first, last)
            if may_reach_below and self._maybe(0.08):
                first = max(0, first - self.random.choice((1, 3)))
            if self._maybe(0.04):
                last += self.random.choice((1, 2, 30))
            if self._maybe(0.02):
                first, last = last + 1, first
            batches.append(AcknowledgementBatch.of(first, last, self._types(first, last, version)))
        if self._maybe(0.04) and batches:
            again = self.random.choice(batches)
            batches.append(again)
        if self._maybe(0.03):
            batches.reverse()
        if self._maybe(0.02):
            return []
        return batches

    def _types(self, first: int, last: int, version: int) -> list[int]:
        kinds = [1] * 10 + [2] * 8 + [3] * 4 + [0] * 2 + ([_RENEW] if version > 1 else [])
        count = last - first + 1 if self._maybe(0.3) else 1
        types = [self.random.choice(kinds) for _ in range(max(1, count))]
        if self._maybe(0.02):
            types[0] = self.random.choice((4, 5, -1))
        if self._maybe(0.02):
            types.append(1)
        if self._maybe(0.01):
            types = []
        return types

    # -- answers -----------------------------------------------------------------------------------

    def learn_fetch(self, asked: Asked, request: ShareFetchRequest, answer: Any) -> None:
        """Learn from the answer to a ShareFetch."""
        key = (request.group_id or "", request.member_id or "")
        if request.member_id not in MEMBERS or request.group_id is None:
            return
        epoch = request.share_session_epoch
        wanted = {(t.topic_id, p.partition_index) for t in request.topics for p in t.partitions}
        if answer.error_code == 0 or (
            answer.error_code == _FAILED and request.share_acquire_mode == 2
        ):
            self._go_on(key, epoch, wanted, asked.connection)
            session = self.sessions.get(key)
            # A request that opens a session forgets nothing.
            for topic in request.forgotten_topics_data if epoch else ():
                for index in topic.partitions:
                    if session is not None:
                        session.partitions.discard((topic.topic_id, index))
        elif answer.error_code == 122:
            self.sessions.pop(key, None)
        if answer.error_code:
            return
        for topic in answer.responses:
            for part in topic.partitions:
                where = (topic.topic_id, part.partition_index)
                if part.error_code or part.acknowledge_error_code in (6, 3, 69, -1):
                    self.unsteady[key[0]] = UNSTEADY
                if not part.acknowledge_error_code:
                    self._drop_acknowledged(request, key, where)
                held = self.held.setdefault((key[0], where), {}).setdefault(key[1], set())
                for each in part.acquired_records:
                    held.update(range(each.first_offset, each.last_offset + 1))

    def learn_acknowledge(
        self, asked: Asked, request: ShareAcknowledgeRequest, answer: Any
    ) -> None:
        """Learn from the answer to a ShareAcknowledge."""
        key = (request.group_id or "", request.member_id or "")
        if request.member_id not in MEMBERS or request.group_id is None:
            return
        if answer.error_code in (0, _FAILED):
            self._go_on(key, request.share_session_epoch, set(), asked.connection)
        elif answer.error_code == 122:
            self.sessions.pop(key, None)
        for topic in answer.responses:
            for part in topic.partitions:
                if part.error_code in (6, 3, 69, -1):
                    self.unsteady[key[0]] = UNSTEADY
                if not part.error_code:
                    self._drop_acknowledged(request, key, (topic.topic_id, part.partition_index))

    def _go_on(
        self, key: tuple[str, str], epoch: int, wanted: set[Partition], connection: int
    ) -> None:
        if epoch == -1:
            self._end(key)
        elif epoch == 0:
            self.sessions[key] = Session(1, wanted, connection)
        elif key in self.sessions:
            self.sessions[key].epoch += 1
            self.sessions[key].partitions |= wanted

    def _end(self, key: tuple[str, str]) -> None:
        self.sessions.pop(key, None)
        for (group, _), holders in self.held.items():
            if group == key[0]:
                holders.pop(key[1], None)

    def _drop_acknowledged(self, request: Any, key: tuple[str, str], where: Partition) -> None:
        held = self.held.get((key[0], where), {}).get(key[1], set())
        for topic in request.topics:
            for part in topic.partitions:
                if (topic.topic_id, part.partition_index) != where or self._maybe(0.05):
                    continue
                for batch in part.acknowledgement_batches:
                    if batch.acknowledge_types != [_RENEW]:
                        held.difference_update(range(batch.first_offset, batch.last_offset + 1))

    def holds(self, partition: Partition) -> bool:
        """Return whether somebody may have acquired records of a partition."""
        return any(
            offsets
            for (_, held), holders in self.held.items()
            if held == partition
            for offsets in holders.values()
        )

    def is_reading(self, group: str) -> bool:
        """Return whether a member of a group may have acquired records."""
        return any(
            offsets
            for (name, _), holders in self.held.items()
            if name == group
            for offsets in holders.values()
        )

    def closed(self, connection: int) -> None:
        """Forget the sessions of a connection."""
        for key in [k for k, each in self.sessions.items() if each.connection == connection]:
            self._end(key)
