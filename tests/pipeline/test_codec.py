"""The bulk decoder returns exactly the rows of the plain one, for everything that a log can contain
[pipeline/quarantine].

Rules: [pipeline/unknown-is-null], [group-log/record-types].
"""

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.protocol.control_records import encode_marker
from coterie.protocol.messages.log_records import (
    GroupMetadataKey,
    GroupMetadataMember,
    GroupMetadataValue,
    encode_key,
)
from coterie.protocol.record_batch_layout import HAS_DELETE_HORIZON
from coterie.protocol.records import Compression, Record, encode_batch, encode_records, read_header
from tests.pipeline.histories import (
    NOW_MS,
    commit_key,
    commit_value,
    plain_rows,
    reasons,
    rows,
    write_segments,
)

GOLDEN = Path(__file__).parent.parent / "golden" / "segments"
VIEWS = ("raw", "commits", "groups", "consumer_epochs")

texts = st.text(max_size=12) | st.sampled_from(["", "grüße", "注文", "a" * 130, "🦆", "é" * 70])
sizes = st.integers(0, 1 << 31) | st.integers(-5, 5) | st.sampled_from([(1 << 63) - 1, -(1 << 63)])
times = st.integers(-1, 1 << 43) | st.sampled_from([-1, 0, 253_402_300_800_000, (1 << 63) - 1])
commit_pairs = st.tuples(
    st.builds(commit_key, texts, texts, st.integers(-(1 << 31), (1 << 31) - 1)),
    st.none()
    | st.builds(
        commit_value,
        st.integers(0, 4),
        offset=sizes,
        leader_epoch=st.integers(-1, 9),
        metadata=texts,
        commit_timestamp=times,
        expire_timestamp=times,
        topic_id=st.sampled_from([bytes(16), bytes(range(16)), b"\xff" * 16]),
    ),
)
members: st.SearchStrategy[dict[str, Any]] = st.builds(
    dict,
    member_id=texts,
    group_instance_id=st.none() | texts,
    client_id=texts,
    client_host=texts,
    rebalance_timeout=st.integers(-1, 9),
    session_timeout=st.integers(0, 9),
    subscription=st.binary(max_size=9) | st.just(bytes.fromhex("0001000000010003666f6f00000000")),
    assignment=st.binary(max_size=9)
    | st.just(bytes.fromhex("0000000000010003666f6f0000000200000001000000020000")),
)


def group_value(version: int, members: list[dict[str, Any]], kind: str) -> bytes:
    absent = {"group_instance_id"} if version < 3 else set()
    absent |= {"rebalance_timeout"} if version < 1 else set()
    kept = [
        GroupMetadataMember(**{name: each[name] for name in each.keys() - absent})
        for each in members
    ]
    value = GroupMetadataValue(
        protocol_type=kind,
        generation=4,
        protocol="range",
        leader=None,
        current_state_timestamp=NOW_MS if version >= 2 else -1,
        members=kept,
    )
    return version.to_bytes(2) + GroupMetadataValue.encoder(version)(value)


group_pairs = st.tuples(
    st.builds(lambda group: encode_key(GroupMetadataKey(group=group)), texts),
    st.none()
    | st.builds(
        group_value,
        st.integers(0, 4),
        st.lists(members, max_size=2),
        st.sampled_from(["consumer", "connect", ""]),
    ),
)
other_pairs = st.sampled_from(
    [(bytes.fromhex("00030003677270"), None), (b"\0\x09", b"x"), (b"", b"")]
)
pairs = st.one_of(commit_pairs, commit_pairs, group_pairs, other_pairs)


@st.composite
def batches(draw: st.DrawFn) -> list[bytes]:
    """Draw a log of batches of every kind, in the order of offsets, with gaps."""
    log = []
    offset = draw(st.integers(0, 1000))
    for _ in range(draw(st.integers(1, 5))):
        offset += draw(st.integers(0, 2))
        kind = draw(st.sampled_from(["plain", "plain", "records", "marker"]))
        if kind == "marker":
            log.append(encode_marker(offset, NOW_MS, 5, 0, commit=draw(st.booleans())))
            offset += 1
            continue
        chosen = draw(st.lists(pairs, min_size=1, max_size=6))
        if kind == "plain":
            log.append(encode_batch(chosen, offset, NOW_MS))
            offset += len(chosen)
            continue
        records = []
        for key, value in chosen:
            headers = draw(st.sampled_from([(), (), (("h", b"v"), ("h", None))]))
            null_key = draw(st.integers(0, 9)) == 0
            at = NOW_MS + draw(st.integers(-(1 << 40), 1 << 40))
            records.append(Record(offset, at, None if null_key else key, value, headers))
            offset += draw(st.integers(1, 300))
        log.append(
            encode_records(
                records,
                compression=draw(st.sampled_from(list(Compression))),
                producer_id=draw(st.sampled_from([-1, 7])),
                transactional=draw(st.booleans()),
                log_append_time_ms=draw(st.sampled_from([None, NOW_MS])),
            )
        )
    return log


@settings(max_examples=120, deadline=None)
@given(log=batches(), chunk_bytes=st.sampled_from([64, 300, 4 << 20]))
def test_bulk_decoder_equals_plain_decoder(
    tmp_path_factory: pytest.TempPathFactory, log: list[bytes], chunk_bytes: int
) -> None:
    directory = str(tmp_path_factory.mktemp("log"))
    base = read_header(log[0]).base_offset
    write_segments(directory, (base, log))
    for view in VIEWS:
        expected = plain_rows(b"".join(log), view, base)
        assert rows(directory, view, base, chunk_bytes=chunk_bytes) == expected


@pytest.mark.parametrize("name", ["none", "gzip", "snappy", "lz4", "zstd", "txn", "offsets"])
def test_segments_of_kafka_are_decoded(name: str) -> None:
    log = (GOLDEN / name / f"{0:020d}.log").read_bytes()
    for view in VIEWS:
        found = rows(str(GOLDEN / name), view)
        assert found == plain_rows(log, view)
    assert len(rows(str(GOLDEN / name), "raw")) in (5, 13, 40)
    assert set(reasons(str(GOLDEN / name))) <= {"unknown_type"}


def test_markers_and_headers_of_kafka_are_decoded() -> None:
    markers = rows(str(GOLDEN / "offsets"), "markers")
    assert [marker["is_commit"] for marker in markers] == [True, False]
    codecs = {row["compression"] for row in rows(str(GOLDEN / "zstd"), "batches")}
    assert codecs == {4}
    assert len(rows(str(GOLDEN / "rolled"), "raw")) == 120


@pytest.mark.parametrize("version", range(5))
def test_every_version_of_a_commit_is_decoded(tmp_path: Path, version: int) -> None:
    value = commit_value(
        version, offset=100, leader_epoch=7, metadata="m", expire_timestamp=NOW_MS + 1000,
        topic_id=bytes(7) + b"\1" + bytes(7) + b"\2",
    )  # fmt: skip
    write_segments(str(tmp_path), (0, [encode_batch([(commit_key(), value)], 0, NOW_MS)]))
    (row,) = rows(str(tmp_path), "commits")
    assert (row["committed_offset"], row["metadata"], row["value_version"]) == (100, "m", version)
    assert row["leader_epoch"] == (7 if version >= 3 else None)
    assert row["topic_id"] == ("AAAAAAAAAAEAAAAAAAAAAg" if version == 4 else None)
    assert (row["expire_ts"] is not None) == (version == 1)


def test_long_batch_among_short_ones_is_decoded(tmp_path: Path) -> None:
    rng = random.Random(3)
    log, offset = [], 0
    for count in [1] * 200 + [10_000] + [1] * 200 + [130] * 60:
        chosen = [
            (
                commit_key(partition=rng.randrange(99)),
                commit_value(metadata="x" * rng.randrange(80)),
            )
            for each in range(count)
        ]
        log.append(encode_batch(chosen, offset, NOW_MS + offset))
        offset += count
    write_segments(str(tmp_path), (0, log))
    assert rows(str(tmp_path), "commits") == plain_rows(b"".join(log), "commits")
    assert rows(str(tmp_path), "commits", chunk_bytes=8192) == plain_rows(b"".join(log), "commits")


def test_cleaned_batch_with_delete_horizon_is_decoded(tmp_path: Path) -> None:
    horizon = NOW_MS + 86_400_000
    chosen = [(commit_key(), commit_value()), (commit_key(), None)]
    cleaned = encode_batch(chosen, 5, horizon, attributes=HAS_DELETE_HORIZON)
    write_segments(str(tmp_path), (5, [cleaned]))
    assert rows(str(tmp_path), "commits") == plain_rows(cleaned, "commits", 5)
    (row,) = rows(str(tmp_path), "batches")
    assert row["has_delete_horizon"]
    assert row["base_ts"].timestamp() * 1000 == horizon


def test_adjacent_ranges_have_the_rows_of_the_whole_log(tmp_path: Path) -> None:
    log = [
        encode_batch([(commit_key(), commit_value(offset=n))] * 3, n * 3, NOW_MS) for n in range(40)
    ]
    write_segments(str(tmp_path), (0, log[:15]), (45, log[15:30]), (90, log[30:]))
    whole = rows(str(tmp_path), "commits")
    assert len(whole) == 120
    for cut in (0, 1, 44, 45, 46, 61, 90, 119, 120):
        left = rows(str(tmp_path), "commits", 0, end_offset=cut)
        right = rows(str(tmp_path), "commits", cut, chunk_bytes=200)
        assert left + right == whole
