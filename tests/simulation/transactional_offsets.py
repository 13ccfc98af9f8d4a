"""Offsets of transactions in virtual time: producers, zombies, crashes, lost appends, compaction.

One partition of `__consumer_offsets` is simulated with a transaction coordinator that writes each
marker until it is durable. After every step memory is compared with a model that applies the log in
order and keeps the log offset of each commit, as Kafka does. Every commit has an offset of its own,
so a fetched offset identifies its transaction.
"""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from coterie.conformance.harness import CoordinatorHarness, Pair, ProducerPair
from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.groups.pending_offsets import TransactionEnd
from coterie.coordinator.kernel.request import ClientContext, RequestContext
from coterie.coordinator.topic_image import deletion
from coterie.protocol.control_records import Marker
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.log_records import OffsetCommitKey, decode_key, decode_value
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from coterie.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
)
from coterie.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from coterie.protocol.wire import Message
from tests.simulation.checks.violation import require

GROUPS = ("g0", "g1", "g2")
TOPICS = ("t0", "t1")
INDEXES = (0, 1)
PRODUCERS = 4
RETENTION_MS = 60_000
SWEEP_MS = 20_000

# Group, topic, partition.
Place = tuple[str, str, int]


class LogState:
    """What a log adds up to, by the rules of Kafka.

    Attributes:
        committed: by place, log offset and committed offset.
        pending: by producer id, then by place: the same of open transactions.
        epochs: the largest epoch of each producer.
    """

    def __init__(self, pairs: list[Pair]) -> None:
        self.committed: dict[Place, tuple[int, int]] = {}
        self.pending: dict[int, dict[Place, tuple[int, int]]] = {}
        self.epochs: dict[int, int] = {}
        for at, pair in enumerate(pairs):
            self._apply(at, pair)

    def _apply(self, at: int, pair: Pair) -> None:
        form = pair.form if type(pair) is ProducerPair else None
        if form is not None:
            assert type(pair) is ProducerPair
            known = self.epochs.get(form.producer_id, -1)
            rule = "[offsets/transactional-checks]"
            require(form.producer_epoch >= known, rule, f"{form} behind epoch {known}")
            self.epochs[form.producer_id] = form.producer_epoch
            marker = pair.marker
            if marker is not None:
                for place, found in self.pending.pop(form.producer_id, {}).items():
                    if marker.commit and self.committed.get(place, (-1, -1)) < found:
                        self.committed[place] = found
                return
        key = decode_key(pair[0])
        if not isinstance(key, OffsetCommitKey):
            return
        place = (key.group, key.topic, key.partition)
        value = decode_value(key, pair[1])
        if value is None:
            self.committed.pop(place, None)
            for places in self.pending.values():
                places.pop(place, None)
        elif form is not None:
            self.pending.setdefault(form.producer_id, {})[place] = (at, value.offset)
        else:
            self.committed[place] = (at, value.offset)

    def is_pending(self, place: Place) -> bool:
        return any(place in places for places in self.pending.values())


class Producer:
    """A transactional producer and its coordinator.

    Attributes:
        producer_id, epoch: of the open or next transaction.
        transaction: the number of the open one; None without.
        decision: whether it is committed; None before EndTxn.
        waiting: whether a marker is on its way.
    """

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = 0
        self.transaction: int | None = None
        self.decision: bool | None = None
        self.waiting = False


class Sent(NamedTuple):
    """A request or marker without an answer."""

    number: int
    request: Message | None = None
    producer: Producer | None = None


class TransactionWorld(CoordinatorHarness):
    """One run."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.coverage: Counter[str] = Counter()
        self.producers = [Producer(100 + number) for number in range(PRODUCERS)]
        # By committed offset: its transaction; None for plain commits.
        self.transaction_of: dict[int, int | None] = {}
        # The transactions that their coordinator has committed.
        self.committed: set[int] = set()
        # Of fetches: what they must show, as the log was when they were sent.
        self.expected: dict[int, LogState] = {}
        self._numbers = 0
        self._offsets = 0
        self._epoch = 0
        super().__init__(
            GroupConfig(
                offsets_topic_num_partitions=1,
                offsets_retention_ms=RETENTION_MS,
                offsets_retention_check_interval_ms=SWEEP_MS,
            )
        )

    # -- steps -------------------------------------------------------------------------------------

    def run(self, steps: int) -> None:
        """Do random steps, then end every transaction, and check that all of them have ended."""
        actions = (
            *[self._commit_in_transaction] * 6,
            *[self._commit] * 3,
            *[self._fetch] * 4,
            *[self._end_transaction] * 3,
            *[self._acknowledge] * 6,
            self._lose_appends,
            self._crash,
            self._move,
            self._compact,
            self._pass_time,
            self._delete,
        )
        for _ in range(steps):
            self.rng.choice(actions)()
            self._check()
        for producer in self.producers:
            if producer.transaction is not None and producer.decision is None:
                self._decide(producer)
        while any(producer.transaction is not None for producer in self.producers):
            self._write_markers()
            self._acknowledge_all()
        self._fetch()
        self._check()
        pending = self.coordinator.shards[0].logged.pending
        require(not pending.by_group, "[offsets/marker]", f"{pending.by_group} are pending")

    def _send(self, request: Message, version: int) -> None:
        self._numbers += 1
        sent = Sent(self._numbers, request)
        if isinstance(request, OffsetFetchRequest):
            self.expected[sent.number] = self._log_state()
        context = RequestContext(ClientContext(), version, sent)
        if isinstance(request, TxnOffsetCommitRequest):
            # What is written may be in the log, or not yet: only what is durable is sure.
            durable = LogState(self.logs[0].durable)
            logged_epoch = durable.epochs.get(request.producer_id, -1)
            effects: Any = self.coordinator.txn_offset_commit(
                self.now_ms, request, context, logged_epoch
            )
        else:
            effects = self.handle(request, context)
        self.carry_out(effects, sent)

    def _places(self) -> dict[str, list[int]]:
        topics = self.rng.sample(TOPICS, self.rng.randint(1, 2))
        return {topic: self.rng.sample(INDEXES, self.rng.randint(1, 2)) for topic in topics}

    def _next_offset(self, transaction: int | None) -> int:
        self._offsets += 1
        self.transaction_of[self._offsets] = transaction
        return self._offsets

    def _commit_in_transaction(self) -> None:
        producer = self.rng.choice(self.producers)
        epoch, transaction = producer.epoch, producer.transaction
        has_marker = producer.decision is None or producer.waiting
        is_zombie = epoch > 0 and has_marker and self.rng.random() < 0.15
        if is_zombie:
            # A delayed request of the transaction before, which has ended.
            epoch -= 1
            transaction = -1
        elif producer.decision is not None:
            return
        elif transaction is None:
            self._numbers += 1
            transaction = producer.transaction = self._numbers
        offset = self._next_offset(transaction)
        request = TxnOffsetCommitRequest(
            transactional_id=f"tid-{producer.producer_id}",
            group_id=self.rng.choice(GROUPS),
            producer_id=producer.producer_id,
            producer_epoch=epoch,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_metadata=None
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in self._places().items()
            ],
        )
        self.coverage["zombie" if is_zombie else "commit in a transaction"] += 1
        self._send(request, 5)

    def _commit(self) -> None:
        offset = self._next_offset(None)
        request = OffsetCommitRequest(
            group_id=self.rng.choice(GROUPS),
            member_id="",
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset, committed_metadata=None
                        )
                        for index in indexes
                    ],
                )
                for topic, indexes in self._places().items()
            ],
        )
        self._send(request, 8)

    def _fetch(self) -> None:
        topics = None
        if self.rng.random() < 0.5:
            topics = [
                OffsetFetchRequestTopic(name=topic, partition_indexes=list(INDEXES))
                for topic in TOPICS
            ]
        groups = [OffsetFetchRequestGroup(group_id=group, topics=topics) for group in GROUPS]
        stable = self.rng.random() < 0.5
        self._send(OffsetFetchRequest(groups=groups, require_stable=stable), 8)

    def _delete(self) -> None:
        group, topic = self.rng.choice(GROUPS), self.rng.choice(TOPICS)
        kind = self.rng.randrange(3)
        if kind == 0:
            self._send(DeleteGroupsRequest(groups_names=[group]), 2)
        elif kind == 1:
            partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in INDEXES]
            topics = [OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
            self._send(OffsetDeleteRequest(group_id=group, topics=topics), 0)
            self._check_deleted(lambda place: place[:2] == (group, topic))
        else:
            change = deletion(topic, bytes(16))
            self.carry_out(self.coordinator.topics_changed([change], self.now_ms))
            self._check_deleted(lambda place: place[1] == topic)

    def _check_deleted(self, is_deleted: Callable[[Place], bool]) -> None:
        state = self._log_state()
        places = [*state.committed, *(place for each in state.pending.values() for place in each)]
        left = [place for place in places if is_deleted(place)]
        require(not left, "[offsets/delete-pending]", f"{left} are left")

    # -- transactions ------------------------------------------------------------------------------

    def _end_transaction(self) -> None:
        producer = self.rng.choice(self.producers)
        if producer.transaction is not None and producer.decision is None:
            self._decide(producer)
        self._write_markers()

    def _decide(self, producer: Producer) -> None:
        assert producer.transaction is not None
        producer.decision = self.rng.random() < 0.6
        producer.epoch += 1
        if producer.decision:
            self.committed.add(producer.transaction)

    def _write_markers(self) -> None:
        for producer in self.producers:
            if producer.decision is None or producer.waiting:
                continue
            producer.waiting = True
            end = TransactionEnd(producer.producer_id, producer.epoch, Marker(producer.decision, 0))
            self._numbers += 1
            self.end_transaction(0, end, Sent(self._numbers, producer=producer))

    # -- the log and time --------------------------------------------------------------------------

    def _acknowledge(self) -> None:
        pending = len(self.logs[0].pending)
        if pending:
            self.acknowledge(0, self.rng.randint(1, pending))

    def _acknowledge_all(self) -> None:
        if self.logs[0].pending:
            self.acknowledge(0, len(self.logs[0].pending))

    def _lose_appends(self) -> None:
        if self.logs[0].pending:
            self.coverage["lost appends"] += 1
            self.fail_appends(0, ErrorCode.NOT_ENOUGH_REPLICAS)

    def _crash(self) -> None:
        self.coverage["crash"] += 1
        self.logs[0].acknowledge(self.rng.randint(0, len(self.logs[0].pending)))
        for producer in self.producers:
            producer.waiting = False
        self._epoch = 0
        self.restart()

    def _move(self) -> None:
        self.logs[0].acknowledge(self.rng.randint(0, len(self.logs[0].pending)))
        self.logs[0].take_pending()
        self.carry_out(self.coordinator.unload(0, None, self.now_ms))
        self._write_markers()
        self._epoch += 1
        assert self.begin_load(0, self._epoch)
        self.finish_load(0)

    def _compact(self) -> None:
        """Keep the newest record of each key of the part in which no transaction is open."""
        durable = self.logs[0].durable
        fates = _fates(durable)
        end = next((at for at, fate in enumerate(fates) if fate is None), len(durable))
        newest = {
            pair[0]: at for at, pair in enumerate(durable[:end]) if fates[at] and _has_key(pair)
        }
        self.logs[0].durable = [
            pair
            for at, pair in enumerate(durable)
            if at >= end or not _has_key(pair) or newest.get(pair[0]) == at
        ]

    def _pass_time(self) -> None:
        before = self._log_state()
        self.wait(self.rng.choice((1, 1_000, RETENTION_MS)))
        after = self._log_state()
        for place in before.committed:
            kept = not before.is_pending(place) or place in after.committed
            require(kept, "[offsets/expiry]", f"{place} has expired")

    # -- checks ------------------------------------------------------------------------------------

    def deliver(self, to: Sent | None, message: Any) -> None:
        """Check an answer."""
        if to is None:
            return
        if to.producer is not None:
            producer = to.producer
            producer.waiting = False
            if message == ErrorCode.NONE:
                producer.transaction = producer.decision = None
        elif isinstance(to.request, OffsetFetchRequest):
            self._check_fetched(to.request, message, self.expected.pop(to.number))
        elif isinstance(to.request, TxnOffsetCommitRequest):
            self._check_acknowledged(to.request, message)

    def _check_acknowledged(self, request: TxnOffsetCommitRequest, message: Any) -> None:
        (code,) = {each.error_code for topic in message.topics for each in topic.partitions}
        self.coverage[ErrorCode(code).name] += 1
        offset = request.topics[0].partitions[0].committed_offset
        if self.transaction_of[offset] == -1:
            require(code != ErrorCode.NONE, "[offsets/transactional-checks]", f"{request} accepted")

    def _check_fetched(self, request: OffsetFetchRequest, message: Any, expected: LogState) -> None:
        for group in message.groups:
            if group.error_code:
                continue
            shown: dict[Place, tuple[int, int]] = {
                (group.group_id, topic.name, each.partition_index): (
                    each.committed_offset,
                    each.error_code,
                )
                for topic in group.topics
                for each in topic.partitions
            }
            asked = request.groups[0].topics
            places = [
                (group.group_id, topic, index)
                for topic in TOPICS
                for index in INDEXES
                if asked is not None or (group.group_id, topic, index) in expected.committed
            ]
            wanted = {}
            for place in places:
                if request.require_stable and expected.is_pending(place):
                    wanted[place] = (-1, int(ErrorCode.UNSTABLE_OFFSET_COMMIT))
                    self.coverage["unstable"] += 1
                else:
                    wanted[place] = (expected.committed.get(place, (-1, -1))[1], 0)
            require(shown == wanted, "[offsets/require-stable]", f"{shown}, expected {wanted}")
            for offset, _ in shown.values():
                transaction = self.transaction_of.get(offset)
                if transaction is not None:
                    is_fine = transaction in self.committed
                    require(is_fine, "[offsets/pending]", f"{offset} of an open or aborted one")

    def _log_state(self) -> LogState:
        log = self.logs[0]
        pairs = [*log.durable, *(pair for batch in log.pending for pair in batch.pairs)]
        return LogState(pairs)

    def _check(self) -> None:
        """Compare memory with the log."""
        expected = self._log_state()
        shard = self.coordinator.shards[0]
        logged = shard.logged
        committed = {
            (group, topic, index): value.offset
            for group, topics in logged.offsets.items()
            for topic, partitions in topics.items()
            for index, value in partitions.items()
        }
        rule = "[group-log/replay]"
        wanted = {place: offset for place, (_, offset) in expected.committed.items()}
        require(committed == wanted, rule, f"{committed} committed, {wanted} in the log")
        pending = {
            producer: {place: each.value.offset for place, each in transaction.offsets.items()}
            for producer, transaction in logged.pending.transactions.items()
            if transaction.offsets
        }
        in_log = {
            producer: {place: offset for place, (_, offset) in places.items()}
            for producer, places in expected.pending.items()
            if places
        }
        require(pending == in_log, rule, f"{pending} pending, {in_log} in the log")
        for group in {
            place[0] for place in (*committed, *(p for o in pending.values() for p in o))
        }:
            require(group in shard.groups, rule, f"{group} has offsets and does not exist")


def _has_key(pair: Pair) -> bool:
    """Return whether compaction compares the key of a record: not that of a marker."""
    return type(pair) is not ProducerPair or pair.marker is None


def _fates(pairs: list[Pair]) -> list[bool | None]:
    """Return for each record whether it counts: not if it was aborted; None if that is open."""
    fates: list[bool | None] = [True] * len(pairs)
    still_open: dict[int, list[int]] = {}
    for at, pair in enumerate(pairs):
        if type(pair) is not ProducerPair:
            continue
        marker = pair.marker
        if marker is None:
            fates[at] = None
            still_open.setdefault(pair.form.producer_id, []).append(at)
        else:
            for each in still_open.pop(pair.form.producer_id, []):
                fates[each] = marker.commit
    return fates
