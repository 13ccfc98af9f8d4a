"""Record batches that a replay sends where the recording has no payloads."""

import pytest

from coterie.conversation.batches import batch_headers
from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from coterie.protocol.record_batch import iterate_batches
from coterie.protocol.record_batch_layout import position_of
from coterie.recording.batches import rebuilt
from tests.unit.server.produced import batch


def request_of(records: bytes) -> ProduceRequest:
    partition = ProduceRequestPartition(index=0, records=records)
    topic = ProduceRequestTopic(name="t", partition_data=[partition])
    return ProduceRequest(acks=-1, timeout_ms=1, topic_data=[topic])


def rebuilt_records(headers: bytes) -> bytes:
    request = request_of(headers)
    rebuilt(request)
    records = request.topic_data[0].partition_data[0].records
    assert records is not None
    return records


def test_a_batch_has_as_many_records_as_before() -> None:
    headers = batch_headers(batch(b"one", b"two"))
    ((_, header),) = iterate_batches(rebuilt_records(headers))
    assert header.record_count == 2


@pytest.mark.parametrize("count", [0, -1, 2**31 - 1])
def test_a_header_with_an_impossible_count_is_sent_as_it_was(count: int) -> None:
    damaged = bytearray(batch_headers(batch(b"one")))
    at = position_of("record_count")
    damaged[at : at + 4] = count.to_bytes(4, signed=True)
    assert rebuilt_records(bytes(damaged)) == damaged


def test_the_other_batches_of_a_request_are_rebuilt() -> None:
    headers = batch_headers(batch(b"one"))
    damaged = bytearray(headers)
    at = position_of("record_count")
    damaged[at : at + 4] = bytes(4)
    assert rebuilt_records(headers + damaged) == rebuilt_records(headers) + damaged
