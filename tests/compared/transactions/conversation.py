"""Random conversations of several producers, readers and groups, from a seed."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from coterie.protocol.messages.list_offsets import LATEST_TIMESTAMP, MAX_TIMESTAMP
from tests.compared.transactions.coordinator_steps import (
    AddOffsets,
    AddPartitions,
    DescribeTransactions,
    End,
    InitProducer,
    ListTransactions,
)
from tests.compared.transactions.data_steps import (
    DeleteRecords,
    DescribeProducers,
    EpochEnd,
    Fetch,
    ListOffsets,
    Produce,
    WriteMarkers,
)
from tests.compared.transactions.group_steps import (
    Commit,
    CommitInTransaction,
    DeleteGroup,
    DeleteOffsets,
    FetchOffsets,
)
from tests.compared.transactions.parts import BOTH, NEW, OLD, Part, Timeout, WaitingFetch
from tests.compared.transactions.plain_values import RECORD_MS
from tests.compared.transactions.side import Side, Who
from tests.compared.transactions.step import Partitions, Step

_PRODUCERS = 3
_OTHERS = ("older", "newer", "previous", "stranger")
_LONG = "m" * 5000
_SHORT_MS = 400
# A few requests later the epochs of an id are used up.
_LAST_EPOCHS = 32_763


@dataclass
class Conversation:
    """The steps of one conversation, and what has to be there before them.

    Attributes:
        name: the beginning of all names in it.
        level: the level of `transaction.version`.
        random: makes all choices.
        length: how many parts it has.
        is_worn: whether the first id is about to use up its epochs.
    """

    name: str
    level: int
    random: random.Random
    length: int
    is_worn: bool = False

    def __post_init__(self) -> None:
        self.topics = {f"{self.name}-a": 2, f"{self.name}-b": 1}
        self.partitions: Partitions = tuple(
            (topic, number) for topic, count in self.topics.items() for number in range(count)
        )
        self.groups = (f"{self.name}-g", f"{self.name}-m")
        self.ids = tuple(f"{self.name}-{number}" for number in range(_PRODUCERS))
        self.idempotent = f"{self.name}-idempotent"
        styles = [OLD] if self.level == 0 else [OLD, NEW, NEW, BOTH]
        self.styles = {each: self.random.choice(styles) for each in self.ids}
        self._number = 0
        self._has_deleted = False

    def prepare(self, side: Side) -> None:
        """Create topics, and let the member of the second group join."""
        side.create_topics(self.topics)
        side.join(self.groups[1])
        if self.is_worn:
            side.wear_out(self.ids[0], _LAST_EPOCHS)

    def steps(self) -> Iterator[Part]:
        """Return the steps."""
        for each in self.ids:
            yield InitProducer(self._version(0, 5), Who(each), each)
        yield InitProducer(3, Who(self.idempotent), None)
        kinds: dict[Callable[[], Part], int] = {
            self._init: 7,
            self._add: 9,
            self._verify: 3,
            self._add_offsets: 5,
            self._produce: 26,
            self._plain: 5,
            self._commit_in_transaction: 11,
            self._end: 16,
            self._markers: 3,
            self._fetch: 12,
            self._list: 6,
            self._fetch_offsets: 9,
            self._producers: 4,
            self._describe: 4,
            self._list_transactions: 2,
            self._delete_records: 2,
            self._commit: 4,
            self._delete: 1,
            self._epoch_end: 1,
            self._waiting: 2,
            self._timeout: 1,
        }
        for _ in range(self.length):
            self._number += 1
            (kind,) = self.random.choices(list(kinds), list(kinds.values()))
            yield kind()

    # -- choices -----------------------------------------------------------------------------------

    def _version(self, first: int, last: int) -> int:
        return self.random.randint(first, last)

    def _maybe(self, share: float) -> bool:
        return self.random.random() < share

    def _who(self, rightly: float = 0.9) -> Who:
        name = self.random.choice(self.ids)
        return Who(name) if self._maybe(rightly) else Who(name, self.random.choice(_OTHERS))

    def _is_exhausting(self, who: Who) -> bool:
        """Return whether Kafka would fail if a producer named an older epoch than its last one.

        [transactions/epoch-exhaustion]
        """
        return self.is_worn and who.name == self.ids[0]

    def _some(self, odd: float = 0.05, *, internal: bool = False) -> Partitions:
        if self._maybe(odd):
            others = [("absent", 0), (self.partitions[0][0], 9)]
            # What is in it depends on the other conversations.
            others += [("__consumer_offsets", 1)] if internal else []
            other = self.random.choice(others)
            return (self.random.choice(self.partitions), other)
        return tuple(sorted(self.random.sample(self.partitions, self._version(1, 2))))

    # -- the coordinator ---------------------------------------------------------------------------

    def _init(self) -> Part:
        who = self._who(0.8)
        names = self.random.choice(("nothing", "nothing", "both", "both", "both", "id", "epoch"))
        if self._is_exhausting(who):
            names = "nothing"
        version = self._version(3, 5) if names != "nothing" else self._version(0, 5)
        timeout = self.random.choice((60_000,) * 8 + (0, 900_001))
        asked = who.name if self._maybe(0.95) else self.random.choice(("", f"{who.name}-new"))
        if asked != who.name:
            return InitProducer(version, Who(asked), asked, timeout, "nothing")
        return InitProducer(version, who, asked, timeout, names)

    def _add(self) -> Part:
        who = self._who()
        if not self.styles[who.name].adds and self._maybe(0.8):
            return self._produce()
        if self._maybe(0.15):
            return self._verify()
        return AddPartitions(self._version(0, 3), (who,), self._some(internal=True))

    def _verify(self) -> Part:
        whos = {who.name: who for who in (self._who(), self._who())}
        return AddPartitions(
            self._version(4, 5),
            tuple(whos.values()),
            self._some(internal=True),
            # At level 0 Kafka would answer CONCURRENT_TRANSACTIONS from then on.
            verify=self.level == 0 or self._maybe(0.7),
        )

    def _add_offsets(self) -> Part:
        who = self._who()
        if not self.styles[who.name].adds and self._maybe(0.8):
            return self._commit_in_transaction()
        return AddOffsets(self._version(0, 4), who, self.random.choice(self.groups))

    def _end(self) -> Part:
        who = self._who()
        return End(self._version(*self.styles[who.name].end), who, self._maybe(0.6))

    def _describe(self) -> Part:
        odd = self.random.choice(((), ("",), ("unknown",)))
        return DescribeTransactions(0, (*self.ids, *odd))

    def _list_transactions(self) -> Part:
        states = self.random.choice(
            ((), ("Ongoing",), ("Empty", "CompleteCommit"), ("Foo",), ("Foo", "Ongoing"))
        )
        pattern = self.random.choice((None, "", f"{self.name}.*", f"{self.ids[0]}", "("))
        duration = self.random.choice((-1, 0, 3_600_000))
        whos = tuple(Who(each) for each in self.ids)
        return ListTransactions(self._version(0, 2), whos, states, pattern, duration)

    def _timeout(self) -> Part:
        name = self.random.choice(self.ids)
        who, style = Who(name), self.styles[name]
        last: list[Step] = [
            Produce(self._version(*style.produce), who, name, self._some(), True, number=-1),
            End(self._version(*style.end), who, self._maybe(0.5)),
            InitProducer(
                self._version(3, 5),
                who,
                name,
                names="nothing" if self._is_exhausting(who) else "both",
            ),
            InitProducer(self._version(0, 5), who, name),
        ]
        first: list[Step] = [
            End(self._version(*style.end), who, True),
            InitProducer(self._version(0, 5), who, name, _SHORT_MS),
        ]
        partition = self.random.choice(self.partitions)
        if style.adds:
            first.append(AddPartitions(self._version(0, 3), (who,), (partition,)))
        first.append(
            Produce(
                self._version(*style.produce), who, name, (partition,), True, number=self._number
            )
        )
        return Timeout(tuple(first), name, tuple(last))

    # -- partitions --------------------------------------------------------------------------------

    def _produce(self) -> Part:
        who = self._who(0.94)
        version = self._version(*self.styles[who.name].produce)
        transactional_id = who.name if self._maybe(0.97) else None
        sequences = ("next",) * 18 + ("repeated", "repeated", "gap", "zero")
        return Produce(
            version,
            who,
            transactional_id,
            self._some(0.02),
            is_transactional=True,
            sequence=self.random.choice(sequences),
            count=self._version(1, 3),
            number=self._number,
            acks=self.random.choice((-1, -1, 1)),
        )

    def _plain(self) -> Part:
        who = None if self._maybe(0.5) else Who(self.idempotent)
        sequences = ("next",) * 6 + ("repeated", "gap")
        return Produce(
            self._version(3, 13),
            who,
            None,
            self._some(0.02),
            is_transactional=False,
            sequence=self.random.choice(sequences),
            number=self._number,
        )

    def _markers(self) -> Part:
        """Return a marker.

        One of a later epoch or coordinator than the coordinator's would stop a transaction of Kafka
        for ever, so only a producer without transactions gets them.
        """
        who, epochs = self._who(0.7), (0, 0, -1)
        if self._maybe(0.3):
            who, epochs = Who(self.idempotent, self.random.choice(("current", "newer"))), (0, 1, 2)
        elif who.which == "newer":
            who = Who(who.name)
        return WriteMarkers(
            self._version(1, 2),
            who,
            self._some(0.1),
            self._maybe(0.5),
            coordinator_epoch=self.random.choice(epochs),
            level=self.random.choice((0, 1, 2)),
        )

    def _fetch(self) -> Part:
        offset = self.random.choice((0, 0, 0, *range(20), -1, 10_000))
        return Fetch(
            self._version(4, 18), self._some(), offset, self.random.choice((0, 1, 1, 1, 2))
        )

    def _list(self) -> Part:
        timestamp = self.random.choice(
            (-1, -1, -1, -2, -3, -4, RECORD_MS + self._version(0, self._number))
        )
        if timestamp == MAX_TIMESTAMP and self._has_deleted:
            # Kafka may return a record that was deleted [data-plane/list-offsets].
            timestamp = LATEST_TIMESTAMP
        return ListOffsets(
            self._version(2, 11), self._some(), timestamp, self.random.choice((0, 1, 1, 2))
        )

    def _producers(self) -> Part:
        return DescribeProducers(0, self._some())

    def _delete_records(self) -> Part:
        topic, number = self.random.choice(self.partitions)
        self._has_deleted = True
        return DeleteRecords(self._version(0, 2), topic, number, self._version(-2, 15))

    def _epoch_end(self) -> Part:
        topic, number = self.random.choice(self.partitions)
        return EpochEnd(self._version(2, 4), topic, number, self._version(-1, 1))

    def _waiting(self) -> Part:
        partition = self.random.choice(self.partitions)
        fetch = Fetch(self._version(4, 18), (partition,), -1, 1, max_wait_ms=300)
        meanwhile = self._end() if self._maybe(0.8) else self._produce()
        assert isinstance(meanwhile, Step)
        return WaitingFetch(fetch, meanwhile)

    # -- groups ------------------------------------------------------------------------------------

    def _commit_in_transaction(self) -> Part:
        who = self._who()
        group = self.random.choice(self.groups)
        in_group = group == self.groups[1]
        generation, member = self.random.choice(
            ((-1, ""), (-1, ""), (-1, ""), (1, "member"), (2, "member"), (1, "other"), (3, ""))
            if in_group
            else ((-1, ""),) * 8 + ((3, ""), (-1, "other"))
        )
        return CommitInTransaction(
            self._version(*self.styles[who.name].commit_offsets),
            who,
            group,
            self._some(0.04, internal=True),
            offset=self._version(0, 1000),
            # A group none of whose offsets could be stored exists in Kafka until a restart.
            metadata=self.random.choice(("", "x", "note", None, _LONG if in_group else "long")),
            generation=generation,
            member=member,
            instance=None if self._maybe(0.95) else "instance",
        )

    def _commit(self) -> Part:
        group = self.random.choice(self.groups)
        is_member = group == self.groups[1]
        version = self._version(2, 10)
        return Commit(
            version, group, self._some(0.04, internal=True), self._version(0, 1000), is_member
        )

    def _fetch_offsets(self) -> Part:
        version = self._version(1, 10)
        of_all = version > 1 and self._maybe(0.3)
        partitions = None if of_all else self._some(0.04, internal=True)
        return FetchOffsets(
            version, self.random.choice(self.groups), partitions, stable=self._maybe(0.6)
        )

    def _delete(self) -> Part:
        group = self.random.choice(self.groups)
        if self._maybe(0.3):
            return DeleteGroup(self._version(0, 2), group)
        return DeleteOffsets(0, group, self._some())
