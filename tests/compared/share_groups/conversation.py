"""Random conversations of members, producers and administrators about share groups, from a seed."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from coterie.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
)
from coterie.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest
from coterie.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from coterie.protocol.messages.share_fetch import ShareFetchRequest
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.compared.share_groups.administration import Administrator, alter_group, has_no_partition
from tests.compared.share_groups.parts import (
    MEMBER_CONNECTIONS,
    MEMBERS,
    Asked,
    Closing,
    Parked,
    Part,
    Pause,
    Plain,
)
from tests.compared.share_groups.readers import SHORT_MS, UNSTEADY, Partition, Readers
from tests.compared.transactions.coordinator_steps import End, InitProducer
from tests.compared.transactions.data_steps import DeleteRecords, Produce
from tests.compared.transactions.side import Who

_PROPAGATION_S = 0.6
LONG_LOCK_MS, SHORT_LOCK_MS = 3_600_000, 1_000
_EXPIRED_S = 1.3
# A transaction lives as long as a conversation, however long it takes.
_TRANSACTION_MS = 900_000


@dataclass
class Conversation:
    """The parts of one conversation.

    They are made one after the other: a request may say what members have learnt from the answers
    of Kafka, which are those of Coterie as long as nothing differs.

    Attributes:
        name: the beginning of all names in it.
        random: makes all choices.
        length: how many parts it has.
        topic_ids: the ids of the topics, by name.
        changes: how many parts change topics.
        writes: whether somebody else writes the states, too.
    """

    name: str
    random: random.Random
    length: int
    topic_ids: dict[str, bytes] = field(default_factory=dict)
    changes: float = 0.0
    writes: bool = False

    def __post_init__(self) -> None:
        self.topics = {f"{self.name}-a": 2, f"{self.name}-b": 1}
        self.groups = (f"{self.name}-g", f"{self.name}-h")
        self.producer = f"{self.name}-t"
        self.readers = Readers(self.random)
        self.administrator = Administrator(self.random)
        self.epochs: dict[tuple[str, str], int] = {}
        self.group_epochs: dict[str, int] = {}
        self.seen: list[Partition] = []
        self.appended: dict[tuple[str, int], int] = {}
        self.hollow: set[str] = set()
        self._number = 0

    def learn_topics(self) -> None:
        """Note the ids of topics that were created."""
        self.readers.partitions = [
            (self.topic_ids[name], index)
            for name, count in self.topics.items()
            for index in range(count)
        ]
        self.seen = list(dict.fromkeys([*self.seen, *self.readers.partitions]))

    def parts(self) -> Iterator[Part]:
        """Yield the parts."""
        yield from self._begin()
        kinds: dict[Callable[[], Iterator[Part]], int] = {
            self._fetch: 30,
            self._acknowledge: 26,
            self._heartbeat: 8,
            self._produce: 9,
            self._produce_in_transaction: 5,
            self._end: 3,
            self._describe: 3,
            self._describe_offsets: 6,
            self._offsets: 1,
            self._settings: 2,
            self._states: 3,
            self._delete_records: 1,
            self._delete_group: 1,
            self._close: 1,
            self._expire: 1,
            self._park: 2,
        }
        for _ in range(self.length):
            self._number += 1
            if self._maybe(self.changes):
                yield from self._topic_change()
                continue
            (kind,) = self.random.choices(list(kinds), list(kinds.values()))
            yield from kind()

    def _begin(self) -> Iterator[Part]:
        yield Asked(InitProducer(5, Who(self.producer), self.producer, timeout_ms=_TRANSACTION_MS))
        for group in self.groups:
            lock = str(LONG_LOCK_MS)
            yield alter_group(group, "share.record.lock.duration.ms", lock)
            if group == self.groups[0] or self._maybe(0.5):
                yield alter_group(group, "share.auto.offset.reset", "earliest")
            if self._maybe(0.4):
                yield alter_group(group, "share.isolation.level", "read_committed")
            request = ShareGroupHeartbeatRequest(
                group_id=group,
                member_id="m0",
                member_epoch=0,
                subscribed_topic_names=sorted(self.topics),
            )
            yield Asked(Plain(1, request), settles=group)
            yield Asked(Plain(1, request))

    # -- choices -----------------------------------------------------------------------------------

    def _maybe(self, share: float) -> bool:
        return self.random.random() < share

    def _group(self) -> str:
        if self._maybe(0.02):
            return f"{self.name}-x"
        return self.groups[0] if self._maybe(0.75) else self.groups[1]

    def _where(self) -> Partition:
        if self._maybe(0.03):
            return self.random.choice(((bytes(16), 0), (b"\7" * 16, 0), (b"\7" * 16, -1)))
        return self.random.choice(self.readers.partitions)

    def _named(self) -> tuple[str, int]:
        name = self.random.choice(list(self.topics))
        return name, self.random.randrange(self.topics[name])

    # -- members -----------------------------------------------------------------------------------

    def _fetch(self) -> Iterator[Part]:
        yield self.readers.fetch(self._group())

    def _acknowledge(self) -> Iterator[Part]:
        yield self.readers.acknowledge(self._group())

    def _heartbeat(self) -> Iterator[Part]:
        group, member = self._group(), self.random.choice(MEMBERS)
        epoch = self.epochs.get((group, member), 0)
        if self._maybe(0.15):
            epoch = self.random.choice(
                (0, -1, -1, -1, -2, epoch + 1, epoch - 1, epoch - 1, epoch - 2)
            )
        names: list[str] | None = None
        if epoch == 0 or self._maybe(0.15):
            known = [*self.topics, f"{self.name}-c", f"{self.name}-absent"]
            known = list(dict.fromkeys(known))
            names = self.random.sample(known, self.random.choice((1, 2, 2, 3)))
            if self._maybe(0.1):
                names = self.random.choice(([], None))
        request = ShareGroupHeartbeatRequest(
            group_id=group,
            member_id=member if self._maybe(0.97) else self.random.choice(("", " ", "m" * 37)),
            member_epoch=epoch,
            rack_id=self.random.choice((None,) * 20 + ("r1", "r2", " ")),
            subscribed_topic_names=names,
        )
        yield Asked(Plain(1, request), settles=group)
        if names is not None and self._maybe(0.5):
            request = ShareGroupHeartbeatRequest(
                group_id=group, member_id=member, member_epoch=self.epochs.get((group, member), 0)
            )
            yield Asked(Plain(1, request))

    def _close(self) -> Iterator[Part]:
        opened = [each.connection for each in self.readers.sessions.values()]
        connection = self.random.choice(opened or MEMBER_CONNECTIONS)
        self.readers.closed(connection)
        yield Closing(connection)

    def _expire(self) -> Iterator[Part]:
        """Let the locks of one fetch expire."""
        group = self.groups[0]
        yield alter_group(group, "share.record.lock.duration.ms", str(SHORT_LOCK_MS))
        yield self.readers.fetch(group)
        yield Pause(_EXPIRED_S)
        yield alter_group(group, "share.record.lock.duration.ms", str(LONG_LOCK_MS))

    def _park(self) -> Iterator[Part]:
        """Let a fetch of an open session wait for something."""
        key = next((each for each in self.readers.sessions), None)
        if key is None:
            return
        group, member = key
        fetch = self.readers.fetch(group, member)
        request: Any = fetch.step.request(None)  # type: ignore[arg-type]
        waits = request.share_session_epoch > 0 and request.max_records and not request.is_renew_ack
        if not waits or request.max_wait_ms > SHORT_MS:
            yield fetch
            return
        request.max_wait_ms, request.min_bytes, request.max_bytes = 400, 1, 1 << 20
        request.share_acquire_mode = 0 if fetch.step.version == 1 else request.share_acquire_mode
        session = self.readers.sessions[key]
        own = fetch._replace(connection=session.connection)
        others = [each for each in MEMBER_CONNECTIONS if each != own.connection]
        if self._maybe(0.3):
            connection = self.random.choice(others)
            self.readers.closed(connection)
            yield Parked(own, Closing(connection))
        else:
            yield Parked(own, self._produced())

    # -- producers ---------------------------------------------------------------------------------

    def _produced(self) -> Asked:
        count = self.random.choice((1, 1, 2, 5, 5, 10, 30))
        where = self._named()
        self.appended[where] = self.appended.get(where, 0) + count
        return Asked(Produce(9, None, None, (where,), False, "next", count, self._number))

    def _produce(self) -> Iterator[Part]:
        yield self._produced()

    def _produce_in_transaction(self) -> Iterator[Part]:
        count = self.random.choice((1, 2, 3, 5))
        name, index = self._named()
        self.readers.open.add((self.topic_ids[name], index))
        who, where = Who(self.producer), ((name, index),)
        yield Asked(Produce(12, who, self.producer, where, True, "next", count, self._number))

    def _end(self) -> Iterator[Part]:
        yield Asked(End(5, Who(self.producer), self._maybe(0.5)), rest_s=0.03)
        self.readers.open.clear()

    def _delete_records(self) -> Iterator[Part]:
        """Delete records that nobody has acquired.

        In Kafka those that somebody has hold the start offset until their locks end, though they
        are below it [share-partitions/log-start].
        """
        name, index = self._named()
        if self.readers.holds((self.topic_ids[name], index)):
            return
        self.readers.restless.add((self.topic_ids[name], index))
        yield Asked(DeleteRecords(2, name, index, self.random.randrange(4)), rest_s=0.03)

    # -- administrators ----------------------------------------------------------------------------

    def _describe(self) -> Iterator[Part]:
        if self._maybe(0.3):
            yield self.administrator.list_groups()
        else:
            groups = [self._group() for _ in range(self.random.choice((1, 2)))]
            yield self.administrator.describe(list(dict.fromkeys(groups)))

    def _describe_offsets(self) -> Iterator[Part]:
        topics = dict(self.topics)
        if self._maybe(0.1):
            topics[f"{self.name}-absent"] = 1
        yield self.administrator.describe_offsets(self._group(), topics)

    def _offsets(self) -> Iterator[Part]:
        """Change the offsets of a group, most often of one that its members have left."""
        group = self._group()
        if self._maybe(0.8):
            yield from self._leave(group)
        self.readers.unsteady[group] = UNSTEADY
        topics = dict(self.topics)
        if self._maybe(0.1):
            topics[f"{self.name}-absent"] = 1
        if self._maybe(0.7):
            asked = self.administrator.alter_offsets(group, topics, self.appended)
            if has_no_partition(asked, topics):
                self.hollow.add(group)
            yield asked
        else:
            yield self.administrator.delete_offsets(group, list(topics))
        yield self.administrator.describe_offsets(group, self.topics)

    def _leave(self, group: str) -> Iterator[Part]:
        for (name, member), epoch in list(self.epochs.items()):
            if name == group and epoch > 0:
                request = ShareGroupHeartbeatRequest(
                    group_id=group, member_id=member, member_epoch=-1
                )
                yield Asked(Plain(1, request))

    def _delete_group(self) -> Iterator[Part]:
        """Delete a group that Kafka can delete [share-groups/alter-offsets]."""
        group = self._group()
        if group in self.hollow:
            return
        if self._maybe(0.7):
            yield from self._leave(group)
        self.readers.unsteady[group] = UNSTEADY
        yield self.administrator.delete_group(group)

    def _settings(self) -> Iterator[Part]:
        group = self._group()
        is_reading = self.readers.is_reading(group)
        yield self.administrator.change_settings(group, is_reading=is_reading)

    def _states(self) -> Iterator[Part]:
        group, where = self._group(), self._where()
        kind = self.random.choice(("read", "summary", "summary", "write", "write", "new", "delete"))
        if kind == "read":
            yield self.administrator.read(group, where)
        elif kind == "summary" or not self.writes:
            yield self.administrator.summary(group, where)
        else:
            self.readers.unsteady[group] = UNSTEADY
            epoch = self.group_epochs.get(group, 1)
            # The offsets may be behind the end.
            self.readers.restless.add(where)
            if kind == "write":
                yield self.administrator.write(group, where, epoch)
            elif kind == "new":
                yield self.administrator.initialize(group, where, epoch)
            elif self._maybe(0.3):
                yield self.administrator.delete_state(group, where)
            yield self.administrator.read(group, where)

    def _topic_change(self) -> Iterator[Part]:
        """Create, grow or delete a topic; nobody has a session while one is deleted.

        Kafka would answer nothing but an error [share-partitions/fetch].
        """
        for group in self.groups:
            self.readers.unsteady[group] = UNSTEADY
        extra, first = f"{self.name}-c", f"{self.name}-a"
        if extra not in self.topics:
            self.topics[extra] = self.random.choice((1, 2))
            topic = CreateTopicsRequestTopic(
                name=extra, num_partitions=self.topics[extra], replication_factor=1
            )
            request: Any = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
            yield Asked(Plain(7, request), rest_s=_PROPAGATION_S)
        elif self._maybe(0.6) and self.topics[first] < 5:
            self.topics[first] += 1
            grown = CreatePartitionsRequestTopic(
                name=first, count=self.topics[first], assignments=None
            )
            request = CreatePartitionsRequest(
                topics=[grown], timeout_ms=10_000, validate_only=False
            )
            yield Asked(Plain(3, request), rest_s=_PROPAGATION_S)
        else:
            for connection in {each.connection for each in self.readers.sessions.values()}:
                self.readers.closed(connection)
                yield Closing(connection)
            del self.topics[extra]
            self.readers.gone = [(self.topic_ids[extra], 0)]
            request = DeleteTopicsRequest(topic_names=[extra], timeout_ms=10_000)
            yield Asked(Plain(5, request), rest_s=_PROPAGATION_S)
        self.learn_topics()

    # -- answers -----------------------------------------------------------------------------------

    def is_restless(self, request: ShareFetchRequest) -> bool:
        """Return whether Kafka may answer a fetch that waits although nothing can be acquired."""
        return self.readers.has_restless(self.readers.fetched(request))

    def learn(self, asked: Asked, request: Any, answer: Any) -> None:
        """Let a member learn from the answer of its broker."""
        if isinstance(request, ShareFetchRequest):
            self.readers.learn_fetch(asked, request, answer)
        elif isinstance(request, ShareAcknowledgeRequest):
            self.readers.learn_acknowledge(asked, request, answer)
        elif isinstance(request, ShareGroupHeartbeatRequest):
            key = (request.group_id, request.member_id)
            if not answer.error_code:
                self.epochs[key] = max(0, answer.member_epoch)
                known = self.group_epochs.get(request.group_id, 0)
                self.group_epochs[request.group_id] = max(known, answer.member_epoch)
            elif answer.error_code in (25, 110, 69):
                self.epochs[key] = 0
