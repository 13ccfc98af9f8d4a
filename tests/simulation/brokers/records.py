"""Producers and readers of records, which follow the leaders of their partitions.

A producer repeats what has no answer, and is written once all the same. A reader checks the epochs
of what it has read (KIP-320), so it notices when the end of a log was cut off.
"""

from collections.abc import Generator
from itertools import count
from typing import TYPE_CHECKING, Any

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest
from coterie.protocol.records import decode_records, iterate_batches
from tests.simulation.brokers.clients import MOVED, Ask, Steps
from tests.simulation.checks.violation import require
from tests.simulation.transactions.producers import PARTITIONS
from tests.simulation.transactions.reader import VERSION, CommittedReader
from tests.unit.server.produced import batch, fetch_request, produce_request

if TYPE_CHECKING:
    from tests.simulation.brokers.world import World

TOPIC = "records"
_INIT_VERSION, _PRODUCE_VERSIONS = 4, (9, 12)
_WAITS_MS = (0, 40, 400)
# After these an idempotent producer begins again: the log has lost what it has written.
_FORGOTTEN = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID)


def producer(world: "World", name: str) -> Steps:
    """Write records, one after the other, each once."""
    numbers = count()
    while True:
        producer_id = yield from _producer_id(world, name)
        sequences = dict.fromkeys(range(PARTITIONS), 0)
        goes_on = True
        while goes_on:
            index, value = world.chance.randrange(PARTITIONS), f"{name}-{next(numbers)}".encode()
            data = batch(value, producer=(producer_id, 0, sequences[index]))
            error, offset = yield from _write(world, index, data)
            if error in _FORGOTTEN and world.cuts:
                goes_on = False
            else:
                # A repeated batch of which the log does not know the offset any more.
                known = error in (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
                require(known, "K3", f"{name} is answered {error}")
                sequences[index] += 1
                if not error:
                    world.ledger.produced(index, offset, value)
            yield world.pause_ms()


def _producer_id(world: "World", name: str) -> Generator[Any, Any, int]:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    while True:
        answer = yield Ask(request, _INIT_VERSION)
        if answer is not None and not answer.error_code:
            world.ledger.took_producer_id(name, answer.producer_id)
            return int(answer.producer_id)
        yield None


def _write(world: "World", index: int, data: bytes) -> Generator[Any, Any, tuple[int, int]]:
    """Write a batch until it is acknowledged; return the error and the offset."""
    request = produce_request(data, TOPIC, index)
    while True:
        answer = yield Ask(request, world.chance.choice(_PRODUCE_VERSIONS))
        if answer is not None:
            (found,) = answer.responses[0].partition_responses
            if found.error_code not in MOVED:
                return found.error_code, found.base_offset
        yield None


class Follower:
    """A reader of one partition that keeps what it has read.

    Attributes:
        values: the value at each offset.
    """

    def __init__(self, index: int) -> None:
        self.values: dict[int, bytes | None] = {}
        self._index = index
        self._position = 0
        # The epoch of each record.
        self._epochs: dict[int, int] = {}

    def steps(self, world: "World", name: str) -> Steps:
        """Read on and on."""
        while True:
            request = fetch_request(
                (self._index, self._position),
                topic=TOPIC,
                max_wait_ms=world.chance.choice(_WAITS_MS),
                last_fetched_epoch=self._epochs.get(self._position - 1, -1),
            )
            answer = yield Ask(request, VERSION, world.chance.random() < 0.2)
            if answer is None:
                yield None
                continue
            (found,) = answer.responses[0].partitions
            if found.error_code:
                refused = found.error_code in MOVED
                require(refused, "K3", f"{name} is answered {found.error_code}")
                yield None
            elif found.diverging_epoch is not None and found.diverging_epoch.end_offset >= 0:
                require(world.cuts, "K12", f"{name} is told of {found.diverging_epoch}")
                self._cut(found.diverging_epoch.end_offset)
            else:
                self._take(found.records)
                if not found.records:
                    yield world.pause_ms()

    def _cut(self, end_offset: int) -> None:
        for at in range(end_offset, self._position):
            del self.values[at], self._epochs[at]
        self._position = min(self._position, end_offset)

    def _take(self, data: bytes | None) -> None:
        for position, header in iterate_batches(data or b""):
            if header.next_offset <= self._position:
                continue
            for each in decode_records(data or b"", header, position):
                self.values[each.offset] = each.value
                self._epochs[each.offset] = header.leader_epoch
            self._position = header.next_offset


class RoutedReader(CommittedReader):
    """A reader at READ_COMMITTED of all partitions of the topic of transactions, one by one."""

    def routed_steps(self, world: "World") -> Steps:
        """Read on and on, each partition at its leader."""
        while True:
            index = world.chance.randrange(PARTITIONS)
            answer = yield Ask(self.request(index), VERSION)
            if answer is None:
                yield None
                continue
            (found,) = answer.responses[0].partitions
            if found.error_code:
                refused = found.error_code in MOVED
                require(refused, "K3", f"a reader is answered {found.error_code}")
                yield None
            else:
                self.take(found)
                if not found.records:
                    # The other partitions may have more.
                    yield world.chance.randint(5, 60)
