"""A second coordinator for the runtime: counters, in a topic of their own.

Its log is replayed record by record in the order of the log, because a record adds to a counter
instead of replacing its value; so it reads its log in another way than the group coordinator.
"""

from collections import Counter, deque
from collections.abc import Iterator
from typing import NamedTuple

from coterie.coordinator.kernel.append import Append, BatchForm, Pair, Record
from coterie.coordinator.kernel.effects import Effects, Reply
from coterie.coordinator.kernel.machine import OpenRecord
from coterie.coordinator.kernel.request import RequestContext
from coterie.protocol.errors import ErrorCode, MalformedFrame
from coterie.protocol.record_batch_layout import TRANSACTIONAL
from coterie.protocol.records import decode_records, iterate_batches
from coterie.protocol.wire import Int64, Message, String, message

TOPIC = "__counters"


@message(versions=(0, 0), flexible=None)
class CounterKey(Message):
    """A counter."""

    name: String


@message(versions=(0, 0), flexible=None)
class CounterValue(Message):
    """What is added to it."""

    added: Int64


class Add(NamedTuple):
    """A request to add to a counter, for `lifetime_ms` if that is not 0.

    With a producer it is an operation of that producer.
    """

    name: str
    added: int
    lifetime_ms: int = 0
    producer_id: int = -1


class Answer(NamedTuple):
    """The response: an error, or the new total of the counter."""

    error: ErrorCode
    total: int = 0


CounterEffects = Effects[Answer]


class PlainReader:
    """Keeps every record of a log, in order."""

    def __init__(self) -> None:
        self.skipped: Counter[int] = Counter()
        self._pairs: list[Pair] = []

    @property
    def records(self) -> int:
        return len(self._pairs)

    def add_batches(self, data: bytes) -> None:
        for position, header in iterate_batches(data):
            for record in decode_records(data, header, position):
                assert record.key is not None
                self._pairs.append((record.key, record.value))

    def open_records(self) -> Iterator[OpenRecord]:
        return iter(())

    def survivors(self) -> Iterator[Pair]:
        return iter(self._pairs)


class _Partition:
    """The counters of one partition; `counts` is None unless it is served."""

    def __init__(self) -> None:
        self.epoch = -1
        self.loading = False
        self.counts: dict[str, int] | None = None
        self.loaded: dict[str, int] = {}
        self.waiting: deque[tuple[object, Answer]] = deque()


class CounterMachine:
    """The coordinator of counters."""

    def __init__(self, partitions: int) -> None:
        self.partitions = [_Partition() for _ in range(partitions)]
        self.deadlines: dict[str, int] = {}

    def partition_for(self, name: str) -> int:
        return len(name) % len(self.partitions)

    def count(self, name: str) -> int | None:
        counts = self.partitions[self.partition_for(name)].counts
        return None if counts is None else counts.get(name, 0)

    def add(self, now_ms: int, request: Add, context: RequestContext) -> CounterEffects:
        index = self.partition_for(request.name)
        partition = self.partitions[index]
        if partition.counts is None:
            loading = partition.loading
            error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if loading else ErrorCode.NOT_COORDINATOR
            return CounterEffects(Answer(error))
        effects = CounterEffects()
        self._write(index, request, context.to, effects)
        if request.lifetime_ms:
            self.deadlines[request.name] = now_ms + request.lifetime_ms
            effects.moves_deadline = True
        return effects

    def _write(self, index: int, request: Add, to: object, effects: CounterEffects) -> None:
        partition = self.partitions[index]
        assert partition.counts is not None
        name, added = request.name, request.added
        count = partition.counts[name] = partition.counts.get(name, 0) + added
        form = None
        if request.producer_id >= 0:
            form = BatchForm(TRANSACTIONAL, request.producer_id, 0)
        record: Record = (CounterKey(name=name), CounterValue(added=added))
        effects.append(Append(index, [record], form))
        partition.waiting.append((to, Answer(ErrorCode.NONE, count)))

    # -- what the runtime calls --------------------------------------------------------------------

    def epoch(self, partition: int) -> int:
        return self.partitions[partition].epoch

    def begin_load(self, partition: int, epoch: int) -> bool:
        state = self.partitions[partition]
        if epoch <= state.epoch:
            return False
        state.epoch = epoch
        if state.loading or state.counts is not None:
            return False
        self._begin(state)
        return True

    def _begin(self, state: _Partition) -> None:
        state.loading, state.counts, state.loaded = True, None, {}

    def replay_open(self, partition: int, record: OpenRecord) -> None:
        raise AssertionError(f"{record} of partition {partition}: there are no transactions")

    def reader(self) -> PlainReader:
        return PlainReader()

    def replay(self, partition: int, key: bytes | None, value: bytes | None) -> None:
        if key is None or value is None:
            raise MalformedFrame("counters have keys and values")
        loaded = self.partitions[partition].loaded
        name = CounterKey.decode(key, 0).name
        loaded[name] = loaded.get(name, 0) + CounterValue.decode(value, 0).added

    def finish_load(self, partition: int, now_ms: int, skipped_records: int = 0) -> CounterEffects:
        assert now_ms > 0
        assert not skipped_records
        state = self.partitions[partition]
        state.loading, state.counts = False, state.loaded
        return CounterEffects()

    def unload(self, partition: int, epoch: int | None, now_ms: int) -> CounterEffects:
        assert now_ms > 0
        state = self.partitions[partition]
        if epoch is not None:
            state.epoch = epoch
        return self._discard(state, ErrorCode.NOT_COORDINATOR)

    def fail(self, partition: int, now_ms: int) -> CounterEffects:
        return self.unload(partition, None, now_ms)

    def _discard(self, state: _Partition, error: ErrorCode) -> CounterEffects:
        effects = CounterEffects()
        effects.replies = [Reply(to, Answer(error)) for to, _ in state.waiting if to is not None]
        state.waiting.clear()
        state.loading, state.counts = False, None
        return effects

    def encode(self, records: list[Record]) -> list[Pair]:
        pairs: list[Pair] = []
        for key, value in records:
            assert value is not None
            pairs.append((key.encode(0), value.encode(0)))
        return pairs

    def appended(self, written: list[tuple[int, int]], now_ms: int) -> CounterEffects:
        assert now_ms > 0
        effects = CounterEffects()
        for partition, operations in written:
            waiting = self.partitions[partition].waiting
            for _ in range(operations):
                to, answer = waiting.popleft()
                if to is not None:
                    effects.reply(to, answer)
        return effects

    def hold(self, _partition: int, now_ms: int) -> CounterEffects:
        assert now_ms > 0
        return CounterEffects()

    def release(self, _partition: int) -> CounterEffects:
        return CounterEffects()

    def append_failed(self, partition: int, error: ErrorCode, now_ms: int) -> CounterEffects:
        assert now_ms > 0
        state = self.partitions[partition]
        effects = self._discard(state, error)
        self._begin(state)
        return effects

    def next_deadline_ms(self) -> int | None:
        return min(self.deadlines.values(), default=None)

    def advance(self, now_ms: int) -> CounterEffects:
        """Take what was added for a time away again."""
        effects = CounterEffects()
        for name, deadline_ms in list(self.deadlines.items()):
            if deadline_ms <= now_ms:
                del self.deadlines[name]
                count = self.count(name)
                if count is not None:
                    self._write(self.partition_for(name), Add(name, -count), None, effects)
        return effects

    def totals(self) -> dict[str, int]:
        return {"counters": sum(len(each.counts or ()) for each in self.partitions)}
