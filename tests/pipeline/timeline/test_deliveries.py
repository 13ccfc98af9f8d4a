"""Deliveries of share groups from the records of their states."""

import gzip
import json
from pathlib import Path
from typing import Any

from coterie.coordinator.share_partition.states import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    RecordState,
    StateBatch,
)
from coterie.coordinator.share_state.requests import ShareKey
from coterie.coordinator.share_state.share_state import ShareState, tombstone
from coterie.pipeline.timeline.deliveries import DeliveryReader
from coterie.pipeline.timeline.share_partitions import story_of
from coterie.protocol.messages.share_state_records import SHARE_STATE_RECORDS, ShareUpdateValue
from coterie.protocol.record_batch import read_header
from coterie.protocol.records import decode_records
from coterie.protocol.wire import Message
from tests.compared.transactions.plain_values import batches

# When, first and last offset, what became of them, the number of deliveries.
Ended = tuple[int, int, int, str, int]

GOLDEN = Path(__file__).parents[2] / "golden" / "share_states"
KEY = ShareKey("billing", bytes(15) + b"\x01", 0)


class Writer:
    """Writes the records of a share partition as the share coordinator does, and reads them."""

    def __init__(self) -> None:
        self.state = ShareState(0, 2, 0, 1000)
        self.reader = DeliveryReader()
        self.read(self.state.snapshot(KEY, 1000), 1000)

    def read(self, record: tuple[Message, Message | None], at_ms: int) -> list[Ended]:
        key, value = record
        encoded = None if value is None else SHARE_STATE_RECORDS.encode_value(value)
        found = self.reader.read(SHARE_STATE_RECORDS.encode_key(key), encoded, at_ms)
        assert {each.key for each in found} <= {KEY}
        return [(each.at_ms, *each[2:]) for each in found]

    def write(
        self, at_ms: int, *batches: tuple[int, int, RecordState, int], merged: bool = False
    ) -> list[Ended]:
        """Write what became of records, as an update or merged into a snapshot."""
        key, value = self.state.update(KEY, 0, 0, 0, [StateBatch(*each) for each in batches])
        assert isinstance(value, ShareUpdateValue)
        before = self.state.copy()
        self.state.take_update(value)
        if not merged:
            return self.read((key, value), at_ms)
        before.take_update(value)
        record = before.next_snapshot(KEY, at_ms)
        self.state.snapshot_epoch += 1
        return self.read(record, at_ms)


def test_each_update_ends_deliveries() -> None:
    writer = Writer()
    assert writer.write(1, (0, 4, AVAILABLE, 1)) == [(1, 0, 4, "AVAILABLE", 1)]
    assert writer.write(2, (0, 2, ACKNOWLEDGED, 2), (3, 4, ARCHIVED, 2)) == [
        (2, 0, 2, "ACKNOWLEDGED", 2),
        (2, 3, 4, "ARCHIVED", 2),
    ]


def test_a_snapshot_has_ended_what_was_not_written_before() -> None:
    writer = Writer()
    writer.write(1, (0, 2, ACKNOWLEDGED, 1), (6, 6, ACKNOWLEDGED, 1), (8, 9, AVAILABLE, 1))
    # Merged with its neighbours, 3-5 and 7 are new, and 8 and 9 have another state.
    found = writer.write(
        2, (3, 5, ACKNOWLEDGED, 1), (7, 7, ACKNOWLEDGED, 1), (8, 9, ARCHIVED, 2), merged=True
    )
    assert found == [
        (2, 3, 5, "ACKNOWLEDGED", 1),
        (2, 7, 7, "ACKNOWLEDGED", 1),
        (2, 8, 9, "ARCHIVED", 2),
    ]
    # A snapshot because nothing was written for long says nothing new.
    assert writer.read(writer.state.next_snapshot(KEY, 3), 3) == []


def test_what_cannot_be_known_is_left_out() -> None:
    writer = Writer()
    writer.write(1, (0, 0, AVAILABLE, 1))
    late = DeliveryReader()
    writer.reader = late
    # The snapshot before this update was deleted.
    assert writer.write(2, (0, 0, AVAILABLE, 2)) == []
    # The first snapshot has states of any time.
    assert writer.write(3, (0, 0, AVAILABLE, 3), merged=True) == []
    assert writer.write(4, (0, 0, ARCHIVED, 4)) == [(4, 0, 0, "ARCHIVED", 4)]
    # A new state, by an administrator, says nothing of deliveries.
    altered = ShareState(5, 9, 100, 5)
    assert writer.read(altered.snapshot(KEY, 5), 5) == []
    assert writer.read(tombstone(KEY), 6) == []
    assert late.states == {}
    assert late.read(b"\x00\x63", b"", 7) == late.read(None, b"", 7) == []
    assert late.skipped == 2


def test_start_offsets_and_what_is_done_with_behind_them() -> None:
    """[pipeline/share-progress] A state that begins anew without an offset has none."""
    first, anew = ShareState(0, 2, 0, 1000), ShareState(1, 5, -1, 4000)
    records = [first.snapshot(KEY, 1000)]
    for batch in (StateBatch(2, 5, ACKNOWLEDGED, 1), StateBatch(0, 1, ARCHIVED, 1)):
        records.append(first.update(KEY, 0, 0, -1, [batch]))
        update = records[-1][1]
        assert isinstance(update, ShareUpdateValue)
        first.take_update(update)
    records.append(anew.snapshot(KEY, 4000))
    story = story_of(
        (
            (
                SHARE_STATE_RECORDS.encode_key(key),
                None if value is None else SHARE_STATE_RECORDS.encode_value(value),
                1000 * number,
                number,
            )
            for number, (key, value) in enumerate(records)
        ),
        {},
    )
    (partition,) = story.partitions.values()
    assert [each.offset for each in partition.starts] == [0, 6, None]
    assert [tuple(each) for each in partition.completed] == [(1000, 4), (2000, 0)]


def by_offset(states: list[Any], start_offset: int) -> dict[int, tuple[int, int]]:
    return {
        offset: (int(state), count)
        for first_offset, last_offset, state, count in states
        for offset in range(max(first_offset, start_offset), last_offset + 1)
    }


def test_the_log_of_a_kafka_says_what_it_has_answered() -> None:
    """The state of each share partition at the end, which a real broker was asked for."""
    reader = DeliveryReader()
    for batch in batches(gzip.decompress((GOLDEN / "kafka-4.3.1.log.gz").read_bytes())):
        header = read_header(batch, 0)
        for record in decode_records(batch, header, 0):
            reader.read(record.key, record.value, header.max_timestamp_ms)
    assert not reader.skipped
    found = json.loads((GOLDEN / "kafka-4.3.1.json").read_text())
    assert {type(each[3]) for each in found} == {list, type(None)}
    for group_id, topic_id, partition, answered in found:
        state = reader.states.get(ShareKey(group_id, bytes.fromhex(topic_id), partition))
        if answered is None:
            assert state is None
            continue
        assert state is not None
        assert [state.state_epoch, state.start_offset] == answered[:2]
        start_offset = state.start_offset
        assert by_offset(state.batches, start_offset) == by_offset(answered[2], start_offset)
