"""A log that is read in bulk gives the same state as one that is read record by record.

Rules: [group-log/unknown-types], [group-log/replay], [group-log/transactions].
"""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coterie.coordinator.kernel.loading import NO_KEY, NewestRecords
from coterie.protocol.control_records import encode_marker
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.log_records import (
    GROUP_RECORDS,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from coterie.protocol.messages.record_types import UnknownValueVersion
from coterie.protocol.newest_records import PairLayouts
from coterie.protocol.records import Compression, Record, encode_records

START_MS = 1_700_000_000_000
Pair = tuple[bytes | None, bytes | None]


def offset_key(group: str, partition: int = 0) -> bytes:
    return encode_key(OffsetCommitKey(group=group, topic="t", partition=partition))


def offset_value(offset: int, metadata: str = "") -> bytes:
    value = OffsetCommitValue(offset=offset, metadata=metadata, commit_timestamp=START_MS)
    return encode_value(value)


def batch_of(
    pairs: Sequence[Pair],
    offset: int = 0,
    *,
    producer: int = -1,
    compression: Compression = Compression.NONE,
) -> bytes:
    """Return one batch; with a producer it is part of a transaction."""
    records = [
        Record(offset + number, START_MS, key, value, ())
        for number, (key, value) in enumerate(pairs)
    ]
    return encode_records(
        records, compression=compression, producer_id=producer, transactional=producer >= 0
    )


def survivors(*batches: bytes) -> dict[bytes, bytes]:
    newest = NewestRecords(GROUP_RECORDS)
    for batch in batches:
        newest.add_batches(batch)
    return dict(newest.survivors())


# -- any log ---------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """One batch of a log.

    Attributes:
        producer: -1 outside of transactions.
        commit: of a marker, which has no pairs; None for other batches.
    """

    pairs: list[Pair]
    producer: int = -1
    commit: bool | None = None
    compression: Compression = Compression.NONE


GROUP = encode_key(GroupMetadataKey(group="g"))
keys = st.one_of(
    # Lengths of one and of two bytes, and layouts that occur again.
    st.builds(offset_key, st.sampled_from(["g", "h", "x" * 40, "y" * 70]), st.integers(0, 1)),
    st.builds(lambda key: b"\0\0" + key[2:], st.builds(offset_key, st.sampled_from(["g", "h"]))),
    st.sampled_from([GROUP, b"\0\x05\0\x01g", b"\0\x63rest", b"\xff\xff", None]),
)
values = st.one_of(
    st.none(),
    st.builds(offset_value, st.integers(0, 9), st.sampled_from(["", "m", "m" * 50, "m" * 9000])),
    st.sampled_from([b"", b"v", b"some other bytes"]),
)
pairs = st.lists(st.tuples(keys, values), min_size=1, max_size=5)
producers = st.integers(0, 2)
batches = st.lists(
    st.one_of(
        pairs.map(Batch),
        st.tuples(pairs, st.sampled_from(list(Compression))).map(
            lambda drawn: Batch(drawn[0], compression=drawn[1])
        ),
        st.tuples(pairs, producers).map(lambda drawn: Batch(*drawn)),
        st.tuples(producers, st.booleans()).map(lambda drawn: Batch([], *drawn)),
    ),
    max_size=12,
)


# The types of the records that a load keeps; the first one becomes the second.
STORED_TYPES = tuple(number.to_bytes(2) for number in GROUP_RECORDS.by_number)


def encoded(log: list[Batch]) -> list[bytes]:
    """Return the log as bytes, batch by batch."""
    found, offset = [], 0
    for batch in log:
        if batch.commit is not None:
            data = encode_marker(offset, START_MS, batch.producer, 0, commit=batch.commit)
            offset += 1
        else:
            data = batch_of(
                batch.pairs, offset, producer=batch.producer, compression=batch.compression
            )
            offset += len(batch.pairs)
        found.append(data)
    return found


def reference(log: list[Batch]) -> tuple[dict[bytes, bytes], int]:
    """Return the values that survive, and the number of skipped records.

    Of the records that count, the one with the largest offset decides for its key.
    """
    applied: list[tuple[int, Pair]] = []
    open_: dict[int, list[tuple[int, Pair]]] = {}
    offset = 0
    for batch in log:
        if batch.commit is not None:
            ended = open_.pop(batch.producer, [])
            applied += ended if batch.commit else []
            offset += 1
            continue
        to = applied if batch.producer < 0 else open_.setdefault(batch.producer, [])
        for pair in batch.pairs:
            to.append((offset, pair))
            offset += 1
    newest: dict[bytes, bytes | None] = {}
    for _, (key, value) in sorted(applied, key=lambda each: each[0]):
        if key is not None and key[:2] in STORED_TYPES:
            newest[b"\0\1" + key[2:] if key[:2] == b"\0\0" else key] = value
    all_keys = [key for batch in log for key, _ in batch.pairs]
    skipped = sum(key is None or key[:2] not in STORED_TYPES for key in all_keys)
    return {key: value for key, value in newest.items() if value is not None}, skipped


@given(batches, st.booleans())
@example([Batch([(GROUP, b"a")], 1), Batch([(GROUP, b"b")]), Batch([], 1, commit=True)], True)
@example([Batch([(GROUP, b"v")]), Batch([(GROUP, None)], 1), Batch([(GROUP, b"v")]),
          Batch([], 1, commit=True)], False)  # fmt: skip
@example([Batch([(GROUP, b"one")], 1), Batch([(GROUP, b"two")], 2), Batch([], 2, commit=True),
          Batch([], 1, commit=True)], False)  # fmt: skip
@example([Batch([(GROUP, b"one")], 1), Batch([(GROUP, b"two")], 2), Batch([], 1, commit=True),
          Batch([], 2, commit=True)], False)  # fmt: skip
@example([Batch([(GROUP, b"one")], 1), Batch([(GROUP, b"two"), (GROUP, None)]),
          Batch([], 1, commit=True)], False)  # fmt: skip
@example([Batch([(GROUP, b"one")]), Batch([(GROUP, None)], 1), Batch([(GROUP, b"two")], 2),
          Batch([], 1, commit=True), Batch([], 2, commit=True)], False)  # fmt: skip
@example([Batch([(GROUP, b"one")]), Batch([(GROUP, b"two")], 1), Batch([(GROUP, None)], 2),
          Batch([], 2, commit=True), Batch([], 1, commit=True)], False)  # fmt: skip
@example([Batch([(GROUP, b"")]), Batch([(GROUP, None)], 2), Batch([(GROUP, None)], 0),
          Batch([], 2, commit=True)], False)  # fmt: skip
def test_bulk_reading_leaves_what_plain_reading_leaves(log: list[Batch], in_one: bool) -> None:
    data = encoded(log)
    newest = NewestRecords(GROUP_RECORDS)
    for each in [b"".join(data)] if in_one else data:
        newest.add_batches(each)
    expected, skipped = reference(log)
    assert newest.skipped.total() == skipped
    assert newest.records == sum(max(len(batch.pairs), batch.commit is not None) for batch in log)
    assert dict(newest.survivors()) == expected


@given(st.lists(pairs, min_size=1, max_size=6), st.data())
def test_damaged_bytes_are_read_as_plain_reading_reads_them(
    log: list[list[Pair]], data: st.DataObject
) -> None:
    """Neither checks checksums. A layout learned from intact records must not hide the damage."""
    whole = b"".join(batch_of(each) for each in log)
    layouts = PairLayouts(frozenset({b"\0\1", b"\0\2"}))
    for _ in layouts.take_newest(whole, {}):
        pass
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(whole) - 1))
        damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    assert _read_in_bulk(bytes(damaged), layouts) == _read_plainly(bytes(damaged))


def test_changed_bit_in_a_run_is_read_as_plain_reading_reads_it() -> None:
    """Batches of one record with the same layout are read together; a changed bit ends the run."""
    whole = b"".join(batch_of([(offset_key("g", n), offset_value(n))]) for n in range(4))
    layouts = PairLayouts(frozenset({b"\0\1"}))
    for _ in layouts.take_newest(whole, {}):
        pass
    readable = 0
    for at in range(len(whole)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[at] ^= 1 << bit
            plain = _read_plainly(bytes(changed))
            assert _read_in_bulk(bytes(changed), layouts) == plain, (at, bit)
            readable += plain is not None
    assert 0 < readable < 8 * len(whole)


def test_keys_of_other_types_end_a_run() -> None:
    key = offset_key("g")
    run = [batch_of([(key, offset_value(n))]) for n in range(4)]
    for prefix, expected in ((b"\0\0", offset_value(9)), (b"\0\x09", offset_value(3))):
        newest = NewestRecords(GROUP_RECORDS)
        other = batch_of([(prefix + key[2:], offset_value(9))])
        newest.add_batches(b"".join([*run, other]))
        assert newest.records == 5
        assert newest.skipped.total() == (prefix == b"\0\x09")
        assert dict(newest.survivors()) == {key: expected}


def _read_in_bulk(buffer: bytes, layouts: PairLayouts) -> dict[bytes | None, bytes | None] | None:
    """Return the last value of each key; None if the bytes are refused."""
    newest: dict[bytes, bytes] = {}
    found: dict[bytes | None, bytes | None] = {}
    try:
        for _, pairs in layouts.take_newest(buffer, newest):
            found.update(newest.items())
            newest.clear()
            found.update(pairs)
    except MalformedFrame:
        return None
    found.update(newest.items())
    return found


def _read_plainly(buffer: bytes) -> dict[bytes | None, bytes | None] | None:
    """Read as `_read_in_bulk` does, without any layout."""
    return _read_in_bulk(buffer, PairLayouts(frozenset()))


# -- memory and time ------------------------------------------------------------------------------


def test_memory_is_bounded_by_live_keys_and_open_transactions() -> None:
    newest = NewestRecords(GROUP_RECORDS)
    for number in range(300):
        key, value = offset_key(f"g{number % 3}"), offset_value(number)
        unknown = b"\0\x09" + number.to_bytes(4)
        newest.add_batches(batch_of([(key, value), (unknown, b"\0\0not kept")]))
        producer = 7 + number % 5
        newest.add_batches(batch_of([(key, value)], producer=producer))
        if number % 2:
            newest.add_batches(encode_marker(0, START_MS, producer, 0, commit=bool(number % 4)))
        newest.add_batches(batch_of([(offset_key(f"removed {number}"), value)]))
        newest.add_batches(batch_of([(offset_key(f"removed {number}"), None)]))
    assert len(newest) == 3
    assert newest.skipped == {9: 300}
    assert sum(len(each) for each in newest._open_transactions.values()) <= 5 * 3
    assert len(newest._committed) <= 3
    assert len(list(newest.survivors())) == 3
    assert len(newest) == 0


def test_only_the_first_record_of_a_layout_is_parsed() -> None:
    log = [batch_of([(offset_key("g", n), offset_value(n))]) for n in range(100)]
    newest: dict[bytes, bytes] = {}
    close = list(PairLayouts(frozenset({b"\0\1"})).take_newest(b"".join(log), newest))
    assert [found for _, found in close] == [[(offset_key("g"), offset_value(0))]]
    assert len(newest) == 99


def test_log_with_more_layouts_than_are_kept_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.protocol.layouts._BUDGET", 15)
    log = [
        batch_of([(offset_key("g" * n), offset_value(n))]) for n in [*range(1, 30), *range(1, 30)]
    ]
    assert survivors(*log) == {offset_key("g" * n): offset_value(n) for n in range(1, 30)}


# -- what is decoded ------------------------------------------------------------------------------


def test_unknown_value_version_matters_only_if_it_survives() -> None:
    """The cleaner may or may not have removed the older record; the log must load either way."""
    unknown, known = b"\0\x09later", offset_value(5)
    overwritten = survivors(
        batch_of([(GROUP, b"\0\x09later"), (offset_key("g"), unknown)]),
        batch_of([(GROUP, None), (offset_key("g"), known)]),
    )
    assert overwritten == {offset_key("g"): known}
    ((key, value),) = survivors(batch_of([(offset_key("g"), unknown)])).items()
    decoded = decode_key(key)
    assert isinstance(decoded, OffsetCommitKey)
    with pytest.raises(UnknownValueVersion):
        decode_value(decoded, value)


def test_legacy_and_present_type_of_an_offset_are_one_key() -> None:
    legacy = b"\0\0" + offset_key("g")[2:]
    first, second = offset_value(1), offset_value(2)
    assert survivors(batch_of([(legacy, first), (offset_key("g"), second)])) == {
        offset_key("g"): second
    }
    assert survivors(batch_of([(offset_key("g"), second), (legacy, first)])) == {
        offset_key("g"): first
    }
    assert survivors(batch_of([(offset_key("g"), second), (legacy, None)])) == {}


def test_transaction_without_a_marker_does_not_count() -> None:
    pair = (offset_key("g"), offset_value(1))
    assert survivors(batch_of([pair], producer=1)) == {}


def test_key_without_room_for_its_type_is_refused() -> None:
    with pytest.raises(MalformedFrame, match="a record key of 1 bytes"):
        survivors(batch_of([(b"\0", b"value")]))


def test_records_without_a_key_are_counted() -> None:
    newest = NewestRecords(GROUP_RECORDS)
    newest.add_batches(batch_of([(None, b"value"), (None, None)]))
    assert newest.skipped == {NO_KEY: 2}


def test_length_with_more_bytes_than_needed_is_read() -> None:
    """A layout learned from such a record holds only for such records."""
    key, value = offset_key("g"), b"12345"
    body = b"\0\0\0" + bytes([2 * len(key)]) + key + b"\x8a\x00" + value + b"\0"
    record = bytes([2 * len(body)]) + body
    template = batch_of([(key, value)])
    batch = bytearray(template[:61] + record)
    batch[8:12] = (len(batch) - 12).to_bytes(4)
    plain = batch_of([(key, b"123456")])
    assert survivors(bytes(batch) * 2) == {key: value}
    # A batch of the same size whose length field is shorter.
    assert survivors(bytes(batch), plain) == {key: b"123456"}


def test_group_record_survives_among_offsets() -> None:
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol=None, leader=None, members=[]
    )
    log = [(GROUP, encode_value(value)), (offset_key("g"), offset_value(1))]
    assert list(survivors(batch_of(log))) == [GROUP, offset_key("g")]
