"""Transactions in every state, left behind by one broker, and what must become of them in another.

done, aborted       have ended
prepared, dropped   are decided, and no marker was written
newer               is decided, too, with the newer protocol, in which the decision raises the epoch
returning           is open; its producer comes back and aborts it
continued           is open; its producer goes on and commits it
expiring            is open; its timeout aborts it
"""

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.interop.model import Failed, Surroundings
from tests.interop.requests import end_transaction, latest_offsets, transaction_of
from tests.interop.topics import CommittedReader

PARTITIONS = 2
# Settings of both brokers.
CONFIG = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000"}
# A transactional id with this in it gets no markers from the broker that leaves its transaction.
WITHOUT_MARKERS = "without-markers"
_LONG_MS, _SHORT_MS = 600_000, 20_000
_LIMIT_S = 60.0
# The offset that each group has committed before.
_OFFSET_BEFORE = 1
# Where EndTxn raises the epoch.
_NEWER, _OLDER = 5, 4


class LeftTransactions:
    """The transactions of one topic.

    Attributes:
        topic: the topic, which has two partitions.
    """

    def __init__(self, topic: str) -> None:
        self.topic = topic
        # Those of ended and open transactions stay until the broker has been killed: a producer
        # that is closed would abort its transaction.
        self._producers: list[Producer] = []

    def id(self, name: str) -> str:
        """Return the transactional id of one of the transactions."""
        is_cut = name in ("prepared", "dropped", "newer")
        return f"{WITHOUT_MARKERS if is_cut else 'usual'}-{name}-{self.topic}"

    def group(self, name: str) -> str:
        """Return the group whose offsets are part of a transaction."""
        return f"group-of-{name}-{self.topic}"

    # --- leaving them -----------------------------------------------------------------------------

    def end_some(self, bootstrap: str) -> None:
        """Commit one transaction and abort another."""
        names = ("done", "aborted", "prepared", "dropped", "newer", "returning", "continued")
        for name in names:
            before = TopicPartition(self.topic, 0, _OFFSET_BEFORE)
            consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": self.group(name)})
            consumer.commit(offsets=[before], asynchronous=False)
            consumer.close()
        self._begin(bootstrap, "done").commit_transaction(_LIMIT_S)
        self._begin(bootstrap, "aborted").abort_transaction(_LIMIT_S)

    def leave_others(self, bootstrap: str) -> None:
        """Leave transactions open and decided; the broker writes no markers for the decided."""
        for name in ("returning", "continued"):
            self._begin(bootstrap, name)
        for name in ("prepared", "dropped", "newer"):
            self._begin(bootstrap, name)
            version = _NEWER if name == "newer" else _OLDER
            end_transaction(bootstrap, self.id(name), commit=name != "dropped", version=version)
        self._begin(bootstrap, "expiring", timeout_ms=_SHORT_MS)
        self._check_states(
            bootstrap,
            done="CompleteCommit",
            aborted="CompleteAbort",
            prepared="PrepareCommit",
            dropped="PrepareAbort",
            newer="PrepareCommit",
            returning="Ongoing",
            continued="Ongoing",
            expiring="Ongoing",
        )

    def _begin(self, bootstrap: str, name: str, timeout_ms: int = _LONG_MS) -> Producer:
        """Begin a transaction with records in both partitions, and the offset of a group."""
        producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": self.id(name),
                "transaction.timeout.ms": timeout_ms,
                "log_level": 0,
            }
        )
        self._producers.append(producer)
        producer.init_transactions(_LIMIT_S)
        producer.begin_transaction()
        for number in range(3):
            for partition in range(PARTITIONS):
                value = _value(name, number)
                producer.produce(self.topic, value, key=b"k", partition=partition)
        if producer.flush(_LIMIT_S):
            raise Failed(f"records of {name} were not acknowledged")
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": self.group(name)})
        producer.send_offsets_to_transaction(
            [TopicPartition(self.topic, 0, _offset(name))],
            consumer.consumer_group_metadata(),
            _LIMIT_S,
        )
        consumer.close()
        return producer

    # --- ending them ------------------------------------------------------------------------------

    def end_all(self, around: Surroundings, bootstrap: str) -> None:
        """Check what another broker makes of the decided ones, and end the others.

        Raises:
            Failed: something is not as it must be.
        """
        self._wait_for_states(
            around,
            bootstrap,
            "the markers of decided transactions are written",
            prepared="CompleteCommit",
            dropped="CompleteAbort",
            newer="CompleteCommit",
        )
        self._check_states(bootstrap, returning="Ongoing", continued="Ongoing")
        for partition in range(PARTITIONS):
            end, stable = latest_offsets(bootstrap, self.topic, partition)
            if stable >= end:
                raise Failed(f"no transaction is open in partition {partition}")
        returning = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": self.id("returning")}
        )
        returning.init_transactions(_LIMIT_S)
        returning.begin_transaction()
        for partition in range(PARTITIONS):
            returning.produce(self.topic, b"after", key=b"k", partition=partition)
        returning.commit_transaction(_LIMIT_S)
        end_transaction(bootstrap, self.id("continued"), commit=True, version=_OLDER)
        self._wait_for_states(
            around,
            bootstrap,
            "a transaction is aborted after its timeout",
            expiring="CompleteAbort",
            continued="CompleteCommit",
        )
        self._check_records(bootstrap)
        self._check_offsets(bootstrap)

    def producer_ids(self, bootstrap: str) -> set[int]:
        """Return the producer ids of the transactions."""
        names = ("done", "aborted", "prepared", "dropped", "newer", "continued", "expiring")
        return {transaction_of(bootstrap, self.id(name)).producer_id for name in names}

    def _wait_for_states(
        self, around: Surroundings, bootstrap: str, what: str, **states: str
    ) -> None:
        around.until(
            lambda: all(
                transaction_of(bootstrap, self.id(name)).state == state
                for name, state in states.items()
            ),
            _LIMIT_S,
            what,
        )

    def _check_states(self, bootstrap: str, **states: str) -> None:
        for name, wanted in states.items():
            found = transaction_of(bootstrap, self.id(name))
            if found.state != wanted:
                raise Failed(f"the transaction {name} is {found} and not {wanted}")

    def _check_records(self, bootstrap: str) -> None:
        """Check what a reader of committed records gets."""
        committed = ("done", "prepared", "newer", "continued")
        wanted = sorted([*(_value(name, n) for name in committed for n in range(3)), b"after"])
        found: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        reader = CommittedReader(bootstrap, {self.topic: PARTITIONS})
        for message in reader.records(_LIMIT_S):
            if message is None:
                if all(len(values) >= len(wanted) for values in found):
                    break
                continue
            value, partition = message.value(), message.partition()
            assert isinstance(value, bytes)
            assert partition is not None
            found[partition].append(value)
        reader.close()
        for partition, values in enumerate(found):
            if sorted(values) != wanted:
                raise Failed(f"partition {partition} has {sorted(values)} and not {wanted}")
            end, stable = latest_offsets(bootstrap, self.topic, partition)
            if end != stable:
                raise Failed(f"a transaction is open in partition {partition}: {stable} of {end}")

    def _check_offsets(self, bootstrap: str) -> None:
        committed = {"done", "prepared", "newer", "continued"}
        for name in (*committed, "aborted", "dropped", "returning"):
            wanted = _offset(name) if name in committed else _OFFSET_BEFORE
            found = self._committed_offset(bootstrap, self.group(name))
            if found != wanted:
                raise Failed(f"the offset of the group of {name} is {found} and not {wanted}")

    def _committed_offset(self, bootstrap: str, group: str) -> int:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        (found,) = consumer.committed([TopicPartition(self.topic, 0)], _LIMIT_S)
        consumer.close()
        return int(found.offset)


def _value(name: str, number: int) -> bytes:
    return f"{name}-{number}".encode()


def _offset(name: str) -> int:
    return 10 + len(name)
