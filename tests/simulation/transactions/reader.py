"""A reader at isolation level READ_COMMITTED, which drops aborted records as clients do."""

from collections.abc import Generator
from typing import Any

from coterie.protocol.messages.fetch import FetchRequest
from coterie.protocol.records import decode_records, iterate_batches, read_marker
from tests.simulation.transactions.producers import PARTITIONS, TOPIC, Step
from tests.unit.server.produced import fetch_request

_ISOLATION = 1
VERSION = 12
_WAIT_MS = 50


class CommittedReader:
    """A reader of all partitions.

    Attributes:
        values: what it has read, in order, by partition.
    """

    def __init__(self) -> None:
        self.values: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        self._positions = [0] * PARTITIONS
        self._stable = [0] * PARTITIONS

    def steps(self) -> Generator[Step, Any, None]:
        """Read on and on."""
        while True:
            answer = yield self.request(*range(PARTITIONS)), VERSION
            if answer is not None:
                for found in answer.responses[0].partitions:
                    assert not found.error_code, found
                    self.take(found)

    def request(self, *indexes: int) -> FetchRequest:
        """Return a request for what follows in some partitions."""
        wanted = [(index, self._positions[index]) for index in indexes]
        return fetch_request(*wanted, topic=TOPIC, max_wait_ms=_WAIT_MS, isolation_level=_ISOLATION)

    def take(self, found: Any) -> None:
        """Take what a partition has answered, without an error."""
        index = found.partition_index
        assert found.last_stable_offset >= self._stable[index], "the last stable offset went back"
        self._stable[index] = found.last_stable_offset
        waiting = sorted(found.aborted_transactions, key=lambda each: each.first_offset)
        dropped: set[int] = set()
        for position, header in iterate_batches(found.records):
            assert header.next_offset <= found.last_stable_offset, "an open record was returned"
            while waiting and waiting[0].first_offset <= header.last_offset:
                dropped.add(waiting.pop(0).producer_id)
            records = decode_records(found.records, header, position)
            if header.is_control:
                marker = read_marker(records[0])
                if marker is not None and not marker.commit:
                    dropped.discard(header.producer_id)
            elif header.next_offset > self._positions[index] and header.producer_id not in dropped:
                self.values[index] += [each.value for each in records if each.value is not None]
            self._positions[index] = max(self._positions[index], header.next_offset)
