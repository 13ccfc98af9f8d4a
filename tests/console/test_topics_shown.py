"""How the console shows a record: its formats, what is cut, and the cursors of pages."""

import pytest

from coterie.client.batches import FetchedBatches, StoredBatch
from coterie.console.records.page import cursor_text, parsed_cursor
from coterie.console.records.reading import Read, transactions_of
from coterie.console.records.shown import PREVIEW_BYTES, Row, decoded, record_row
from coterie.protocol.control_records import encode_marker
from coterie.protocol.messages.journal_records import GroupExpired, encode_fact
from coterie.protocol.messages.share_state_records import (
    SHARE_STATE_RECORDS,
    ShareSnapshotKey,
    ShareSnapshotValue,
)
from coterie.protocol.record_batch_layout import TRANSACTIONAL
from coterie.protocol.records import Record, encode_batch, read_header
from coterie.protocol.topic_names import JOURNAL_TOPIC, SHARE_GROUPS_TOPIC
from coterie.server.network.http_errors import Refused

HEADER = read_header(encode_batch([(b"k", b"v")], 0, 1000))


def row(
    key: bytes | None,
    value: bytes | None,
    topic: str = "orders",
    limit_bytes: int | None = PREVIEW_BYTES,
) -> Row:
    return record_row(topic, Read(3, Record(7, 1000, key, value), HEADER, None), limit_bytes)


@pytest.mark.parametrize(
    ("data", "shown", "form"),
    [
        (b"caf\xc3\xa9", "café", "text"),
        (b"", "", "text"),
        (b"17", "17", "text"),
        (b' {"a": [1]}', ' {"a": [1]}', "json"),
        (b'{"a": ', '{"a": ', "text"),
        (b"[" * 100_000, "[" * 100_000, "text"),
        (b"\xff\x00", "ff00", "hex"),
        (b"bell\x07", "62656c6c07", "hex"),
        (b"<script>", "<script>", "text"),
    ],
)
def test_bytes_are_shown_so_that_none_is_lost(data: bytes, shown: str, form: str) -> None:
    assert decoded(data) == (shown, form)
    assert (bytes.fromhex(shown) if form == "hex" else shown.encode()) == data


def test_a_large_part_is_cut_between_characters_and_has_its_true_size() -> None:
    value = "ä".encode() * PREVIEW_BYTES
    found = row(None, b"x" + value)
    assert found["value"] == "x" + "ä" * (PREVIEW_BYTES // 2 - 1)
    assert (found["value_format"], found["value_cut"]) == ("text", True)
    assert found["value_size"] == found["size"] == len(value) + 1
    whole = row(None, b"x" + value, limit_bytes=None)
    assert whole["value"].encode() == b"x" + value
    assert not whole["value_cut"]


def test_a_null_is_no_empty_text() -> None:
    found = row(None, b"")
    assert (found["key"], found["key_format"]) == (None, None)
    assert (found["value"], found["value_format"]) == ("", "text")


def test_records_of_brokers_are_decoded() -> None:
    key = ShareSnapshotKey(group_id="g", topic_id=bytes(15) + b"\1", partition=2)
    value = ShareSnapshotValue(
        snapshot_epoch=1, state_epoch=2, leader_epoch=3, start_offset=4,
        create_timestamp=5, write_timestamp=6, state_batches=[],
    )  # fmt: skip
    found = row(
        SHARE_STATE_RECORDS.encode_key(key),
        SHARE_STATE_RECORDS.encode_value(value),
        SHARE_GROUPS_TOPIC,
    )
    assert found["record_name"] == "ShareSnapshot"
    assert (found["key"]["group_id"], found["value"]["start_offset"]) == ("g", 4)
    pair = encode_fact("orders", GroupExpired(at_ms=9, generation_id=4))
    found = row(*pair, JOURNAL_TOPIC)
    assert (found["record_name"], found["group"]) == ("GroupExpired", "orders")
    assert found["value"]["at_ms"] == 9
    damaged = row(b"\0\1\0", b"\0\0", JOURNAL_TOPIC)
    assert damaged["error"]
    assert damaged["value"] == "0000"


def test_transactions_end_as_their_markers_say() -> None:
    """Producer 1 commits, producer 2 aborts and then commits, producer 3 is open."""

    def records(producer_id: int, offset: int) -> bytes:
        return encode_batch(
            [(b"", b"v")], offset, 0, attributes=TRANSACTIONAL, producer_id=producer_id,
            producer_epoch=0, base_sequence=0,
        )  # fmt: skip

    parts = [
        records(1, 10),
        records(2, 11),
        encode_marker(12, 0, 1, 0, commit=True),
        records(3, 13),
        encode_marker(14, 0, 2, 0, commit=False),
        records(2, 15),
    ]
    data, batches = b"", []
    for part in parts:
        batches.append(StoredBatch(read_header(part), len(data)))
        data += part
    fetched = FetchedBatches(("t", 0), data, batches, 10, 16, 16, [(2, 9)])
    found = [transaction for _, transaction in transactions_of(fetched, 13)]
    assert found == ["committed", "aborted", "committed", "undecided", "aborted", "undecided"]
    found = [transaction for _, transaction in transactions_of(fetched, 16)]
    assert found == ["committed", "aborted", "committed", "committed", "aborted", "committed"]


def test_a_cursor_comes_back_as_it_was_given() -> None:
    positions = {0: 5, 12: (1 << 63) - 1, 3: 0}
    assert parsed_cursor(cursor_text(positions)) == positions


@pytest.mark.parametrize("text", ["", "0", "0-", "-1-2", "0-1.", "0-1,1-2", "0-" + "9" * 30, "٣-1"])
def test_another_text_is_no_cursor(text: str) -> None:
    with pytest.raises(Refused, match="cursor"):
        parsed_cursor(text)
