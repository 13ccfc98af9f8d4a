"""A log gathered in bulk adds up to what it adds up to record by record, whatever is in it."""

from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coterie.coordinator.loading import NO_KEY, NewestRecords
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    UnknownValueVersion,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from coterie.protocol.newest_records import PairLayouts
from coterie.protocol.records import (
    Compression,
    Record,
    encode_marker,
    encode_records,
)

START_MS = 1_700_000_000_000
Pair = tuple[bytes | None, bytes | None]


def offset_key(group: str, partition: int = 0) -> bytes:
    return encode_key(OffsetCommitKey(group=group, topic="t", partition=partition))


def offset_value(offset: int, metadata: str = "") -> bytes:
    value = OffsetCommitValue(offset=offset, metadata=metadata, commit_timestamp=START_MS)
    return encode_value(value)


def batch_of(
    pairs: list[Pair],
    offset: int = 0,
    *,
    producer: int = -1,
    compression: Compression = Compression.NONE,
) -> bytes:
    """One batch; of a transaction if it has a producer."""
    records = [
        Record(offset + number, START_MS, key, value, ())
        for number, (key, value) in enumerate(pairs)
    ]
    return encode_records(
        records, compression=compression, producer_id=producer, transactional=producer >= 0
    )


def left(*batches: bytes) -> dict[bytes, bytes]:
    newest = NewestRecords()
    for batch in batches:
        newest.absorb(batch)
    return dict(newest.survivors())


# -- any log ---------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """One batch of a log; `producer` -1: no transaction; a marker has `commit` and no pairs."""

    pairs: list[Pair]
    producer: int = -1
    commit: bool | None = None
    compression: Compression = Compression.NONE


GROUP = encode_key(GroupMetadataKey(group="g"))
keys = st.one_of(
    # Long and short texts: lengths of one and of two bytes, shapes that are met again.
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


def encoded(log: list[Batch]) -> list[bytes]:
    """The log as bytes, a batch an entry."""
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
    """The record of the greatest offset decides for its key, of those that count; how many were
    skipped.
    """
    counting: list[tuple[int, Pair]] = []
    open_: dict[int, list[tuple[int, Pair]]] = {}
    offset = 0
    for batch in log:
        if batch.commit is not None:
            ended = open_.pop(batch.producer, [])
            counting += ended if batch.commit else []
            offset += 1
            continue
        to = counting if batch.producer < 0 else open_.setdefault(batch.producer, [])
        for pair in batch.pairs:
            to.append((offset, pair))
            offset += 1
    newest: dict[bytes, bytes | None] = {}
    for _, (key, value) in sorted(counting, key=lambda each: each[0]):
        if key is not None and key[:2] in (b"\0\0", b"\0\1", b"\0\2"):
            newest[b"\0\1" + key[2:] if key[:2] == b"\0\0" else key] = value
    every = [key for batch in log for key, _ in batch.pairs]
    skipped = sum(key is None or key[:2] not in (b"\0\0", b"\0\1", b"\0\2") for key in every)
    return {key: value for key, value in newest.items() if value is not None}, skipped


@given(batches, st.booleans())
@example([Batch([(GROUP, b"a")], 1), Batch([(GROUP, b"b")]), Batch([], 1, commit=True)], True)
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
def test_what_is_left_is_what_a_plain_reading_leaves(log: list[Batch], in_one: bool) -> None:
    data = encoded(log)
    newest = NewestRecords()
    for each in [b"".join(data)] if in_one else data:
        newest.absorb(each)
    expected, skipped = reference(log)
    assert newest.skipped.total() == skipped
    assert newest.records == sum(max(len(batch.pairs), batch.commit is not None) for batch in log)
    assert dict(newest.survivors()) == expected


@given(st.lists(pairs, min_size=1, max_size=6), st.data())
def test_damaged_bytes_are_refused_where_the_plain_reading_refuses_them(
    log: list[list[Pair]], data: st.DataObject
) -> None:
    """Or read alike: neither looks at checksums. A shape learnt from whole records decides nothing
    that the record itself does not say.
    """
    whole = b"".join(batch_of(each) for each in log)
    layouts = PairLayouts(frozenset({b"\0\1", b"\0\2"}))
    for _ in layouts.take_newest(whole, {}):
        pass
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(0, 2))):
        at = data.draw(st.integers(0, len(whole) - 1))
        damaged[at] ^= 1 << data.draw(st.integers(0, 7))
    damaged = damaged[: data.draw(st.integers(0, len(damaged)))]
    outcomes = []
    for read in (_plainly, lambda buffer: _in_bulk(buffer, layouts)):
        try:
            outcomes.append(read(bytes(damaged)))
        except MalformedFrame:
            outcomes.append(None)
    assert outcomes[0] == outcomes[1]


def test_any_changed_bit_of_a_run_is_read_as_the_plain_reading_reads_it() -> None:
    """Batches of one record that look alike are taken together, as long as they do."""
    whole = b"".join(batch_of([(offset_key("g", n), offset_value(n))]) for n in range(4))
    layouts = PairLayouts(frozenset({b"\0\1"}))
    for _ in layouts.take_newest(whole, {}):
        pass
    read = 0
    for at in range(len(whole)):
        for bit in range(8):
            changed = bytearray(whole)
            changed[at] ^= 1 << bit
            outcomes = []
            for how in (_plainly, lambda buffer: _in_bulk(buffer, layouts)):
                try:
                    outcomes.append(how(bytes(changed)))
                except MalformedFrame:
                    outcomes.append(None)
            assert outcomes[0] == outcomes[1], (at, bit)
            read += outcomes[0] is not None
    assert 0 < read < 8 * len(whole)


def test_keys_of_other_types_end_a_run() -> None:
    key = offset_key("g")
    run = [batch_of([(key, offset_value(n))]) for n in range(4)]
    for prefix, expected in ((b"\0\0", offset_value(9)), (b"\0\5", offset_value(3))):
        newest = NewestRecords()
        other = batch_of([(prefix + key[2:], offset_value(9))])
        newest.absorb(b"".join([*run, other]))
        assert newest.records == 5
        assert newest.skipped.total() == (prefix == b"\0\5")
        assert dict(newest.survivors()) == {key: expected}


def _plainly(buffer: bytes) -> dict[bytes | None, bytes | None]:
    """Read as `_in_bulk` does, without any layout."""
    layouts = PairLayouts(frozenset())
    return {key: value for _, found in layouts.take_newest(buffer, {}) for key, value in found}


def _in_bulk(buffer: bytes, layouts: PairLayouts) -> dict[bytes | None, bytes | None]:
    newest: dict[bytes, bytes] = {}
    for _, found in layouts.take_newest(buffer, newest):
        newest.update(found)  # type: ignore[arg-type]  # tombstones and null keys too
    return newest  # type: ignore[return-value]


# -- what it costs ---------------------------------------------------------------------------------


def test_memory_is_that_of_the_keys_alive_and_transactions_open() -> None:
    newest = NewestRecords()
    for number in range(300):
        key, value = offset_key(f"g{number % 3}"), offset_value(number)
        unknown = b"\0\x05" + number.to_bytes(4)
        newest.absorb(batch_of([(key, value), (unknown, b"\0\0kept nowhere")]))
        producer = 7 + number % 5
        newest.absorb(batch_of([(key, value)], producer=producer))
        if number % 2:
            newest.absorb(encode_marker(0, START_MS, producer, 0, commit=bool(number % 4)))
        newest.absorb(batch_of([(offset_key(f"dead {number}"), value)]))
        newest.absorb(batch_of([(offset_key(f"dead {number}"), None)]))
    assert len(newest) == 3
    assert newest.skipped == {5: 300}
    assert sum(len(each) for each in newest._open.values()) <= 5 * 3
    assert len(newest._committed) <= 3
    assert len(list(newest.survivors())) == 3
    assert len(newest) == 0


def test_few_records_of_a_shape_are_looked_at_closely() -> None:
    log = [batch_of([(offset_key("g", n), offset_value(n))]) for n in range(100)]
    newest: dict[bytes, bytes] = {}
    close = list(PairLayouts(frozenset({b"\0\1"})).take_newest(b"".join(log), newest))
    assert [found for _, found in close] == [[(offset_key("g"), offset_value(0))]]
    assert len(newest) == 99


def test_a_log_of_many_shapes_is_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coterie.protocol.layouts._BUDGET", 15)
    log = [
        batch_of([(offset_key("g" * n), offset_value(n))]) for n in [*range(1, 30), *range(1, 30)]
    ]
    assert left(*log) == {offset_key("g" * n): offset_value(n) for n in range(1, 30)}


# -- what is looked at -----------------------------------------------------------------------------


def test_an_unknown_value_version_matters_only_where_it_survives() -> None:
    """The cleaner may have removed the older record: the log must load either way."""
    unknown, known = b"\0\x09later", offset_value(5)
    overwritten = left(
        batch_of([(GROUP, b"\0\x09later"), (offset_key("g"), unknown)]),
        batch_of([(GROUP, None), (offset_key("g"), known)]),
    )
    assert overwritten == {offset_key("g"): known}
    ((key, value),) = left(batch_of([(offset_key("g"), unknown)])).items()
    decoded = decode_key(key)
    assert isinstance(decoded, OffsetCommitKey)
    with pytest.raises(UnknownValueVersion):
        decode_value(decoded, value)


def test_the_old_and_the_new_type_of_an_offset_are_one_key() -> None:
    legacy = b"\0\0" + offset_key("g")[2:]
    first, second = offset_value(1), offset_value(2)
    assert left(batch_of([(legacy, first), (offset_key("g"), second)])) == {offset_key("g"): second}
    assert left(batch_of([(offset_key("g"), second), (legacy, first)])) == {offset_key("g"): first}
    assert left(batch_of([(offset_key("g"), second), (legacy, None)])) == {}


def test_a_transaction_without_a_marker_does_not_count() -> None:
    pair = (offset_key("g"), offset_value(1))
    assert left(batch_of([pair], producer=1)) == {}


def test_a_key_without_room_for_its_type_is_refused() -> None:
    with pytest.raises(MalformedFrame, match="a record key of 1 bytes"):
        left(batch_of([(b"\0", b"value")]))


def test_records_without_a_key_are_counted() -> None:
    newest = NewestRecords()
    newest.absorb(batch_of([(None, b"value"), (None, None)]))
    assert newest.skipped == {NO_KEY: 2}


def test_a_length_that_takes_more_bytes_than_it_needs_is_read() -> None:
    """Other writers may; shapes learnt from such a record hold for such records."""
    key, value = offset_key("g"), b"12345"
    body = b"\0\0\0" + bytes([2 * len(key)]) + key + b"\x8a\x00" + value + b"\0"
    record = bytes([2 * len(body)]) + body
    template = batch_of([(key, value)])
    batch = bytearray(template[:61] + record)
    batch[8:12] = (len(batch) - 12).to_bytes(4)
    plain = batch_of([(key, b"123456")])
    assert left(bytes(batch) * 2) == {key: value}
    # As long as the other, but with the shorter length.
    assert left(bytes(batch), plain) == {key: b"123456"}


def test_a_generation_survives_beside_offsets() -> None:
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol=None, leader=None, members=[]
    )
    log = [(GROUP, encode_value(value)), (offset_key("g"), offset_value(1))]
    assert list(left(batch_of(log))) == [GROUP, offset_key("g")]
