"""What may be incomplete depends on the last stop: every truncation, every bit, every trust.

An open log always holds a prefix of the records that were written, and no other records. If only
the process died, or the last stop was clean, no complete batch may be missing: either all of
them are there, or the log is refused by file and position.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import pytest

from coterie.protocol.records import encode_batch, iterate_batches
from coterie.storage.errors import CorruptLog
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig
from coterie.storage.memory_filesystem import MemoryFileSystem
from coterie.storage.torn_tail import TailTrust
from tests.unit.storage.conftest import Place
from tests.unit.storage.test_log import NOW_MS, batch

CONFIG = LogConfig(index_interval_bytes=100)
CLEAN, PROCESS_DIED, POWER_LOST, UNSYNCED = TailTrust
EPOCHS = "leader-epoch-checkpoint"


class Corpus(NamedTuple):
    """A log of two segments and two epochs, and the ends of the batches in its last segment."""

    files: dict[str, bytes]
    older: str
    last: str
    ends: list[int]
    offsets: list[int]

    def open(
        self, changes: dict[str, bytes], trust: TailTrust, recovery_point: int = 0
    ) -> tuple[Log, Place]:
        filesystem = MemoryFileSystem()
        filesystem.make_directory("/data")
        place = Place(filesystem, "/data")
        for name, data in (self.files | changes).items():
            place.write(name, data)
        log = Log.open(filesystem, "/data", CONFIG, recovery_point=recovery_point, trust=trust)
        return log, place

    def whole(self, length: int) -> int:
        """Return how many batches of the last segment end by `length`."""
        return sum(end <= length for end in self.ends) - 1


@cache
def corpus() -> Corpus:
    filesystem = MemoryFileSystem()
    filesystem.make_directory("/data")
    place = Place(filesystem, "/data")
    log = Log.open(filesystem, "/data", CONFIG)
    log.append(batch(b"one") + batch(b"two"))
    log.roll()
    log.append(batch(b"three"))
    log.append(batch(b"four", b"four again") + batch(b"five", compression=1))
    log.leader_epoch = 2
    log.append(batch(b"six" * 6))
    log.append(batch(b"seven") + batch(b"eight") + batch(b"nine"))
    log.close()
    files = {name: place.read(name) for name in place.names()}
    older, last = (name for name in place.names() if name.endswith(".log"))
    placed = list(iterate_batches(files[last]))
    ends = [0] + [position + header.length_bytes for position, header in placed]
    offsets = [2] + [header.next_offset for _, header in placed]
    return Corpus(files, older, last, ends, offsets)


def without_epochs(data: bytes) -> bytes:
    """Return batches with epoch 0 in place of their leader epochs."""
    blank = bytearray(data)
    for position, _ in iterate_batches(data):
        blank[position + 12 : position + 16] = bytes(4)
    return bytes(blank)


def check_kept(
    changes: dict[str, bytes], trust: TailTrust, recovery_point: int, *, thorough: bool = True
) -> int | None:
    """Open a log, and check that it holds a prefix of the records, at least to the recovery point.

    Returns:
        The log's end; None if the log was refused.
    """
    known = corpus()
    try:
        log, place = known.open(changes, trust, recovery_point)
        data = b"".join(log.chunks())
    except CorruptLog:
        return None
    right = known.files[known.older] + known.files[known.last]
    assert right.startswith(data) or (
        trust is UNSYNCED and without_epochs(right).startswith(without_epochs(data))
    )
    assert log.log_end_offset >= recovery_point
    if not thorough:
        return log.log_end_offset
    # Another start finds the record that is appended next.
    end = log.append(batch(b"next"))
    again = Log.open(place.filesystem, "/data", CONFIG, trust=PROCESS_DIED)
    assert (again.log_end_offset, again.tail_cut) == (end + 1, None)
    assert b"".join(again.chunks())[: len(data)] == data
    return end


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_an_undamaged_log_opens_completely_under_every_trust() -> None:
    for trust in TailTrust:
        for recovery_point in (0, 5, corpus().offsets[-1]):
            assert check_kept({}, trust, recovery_point) == corpus().offsets[-1]


@pytest.mark.parametrize("trust", TailTrust)
def test_every_truncation_of_the_last_segment(trust: TailTrust) -> None:
    known = corpus()
    data = known.files[known.last]
    for recovery_point in (0, 4, known.offsets[-1]):
        for length in range(len(data)):
            end = check_kept({known.last: data[:length]}, trust, recovery_point)
            whole = known.whole(length)
            left = known.offsets[whole]
            is_torn = length > known.ends[whole]
            refused = left < recovery_point or (trust is CLEAN and is_torn)
            assert end == (None if refused else left), f"{length} bytes"


def check_flips(trust: TailTrust, recovery_point: int) -> None:
    known = corpus()
    data = known.files[known.last]
    for bit in range(8 * len(data)):
        changes = {known.last: flipped(data, bit)}
        end = check_kept(changes, trust, recovery_point, thorough=bit % 8 == 3)
        left = known.offsets[known.whole(bit // 8)]
        in_epoch = bit // 8 - known.ends[known.whole(bit // 8)] in range(12, 16)
        if trust in (CLEAN, PROCESS_DIED) or left < recovery_point:
            assert end is None or (in_epoch and trust is UNSYNCED), f"byte {bit // 8}"
        elif trust is POWER_LOST:
            assert end == left, f"byte {bit // 8}"
        else:
            assert end is None or end >= left


@pytest.mark.parametrize(
    ("trust", "recovery_point"), [(CLEAN, 4), (PROCESS_DIED, 0), (POWER_LOST, 4), (UNSYNCED, 4)]
)
def test_every_bit_flip_of_the_last_segment(trust: TailTrust, recovery_point: int) -> None:
    check_flips(trust, recovery_point)


def test_the_harness_notices_a_complete_batch_that_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """The canary: the checks above find a recovery that cuts damaged batches off."""
    monkeypatch.setattr("coterie.storage.segment.refusal", lambda *_, **__: None)
    with pytest.raises(AssertionError, match="byte 0"):
        check_flips(PROCESS_DIED, 0)


@pytest.mark.parametrize("trust", [CLEAN, PROCESS_DIED])
@pytest.mark.parametrize("extra", [b"\0", bytes(100), b"\xff" * 70, bytes(5000)])
def test_bytes_that_no_writer_wrote_are_damage(trust: TailTrust, extra: bytes) -> None:
    known = corpus()
    data = known.files[known.last]
    if len(extra) == 1:
        extra = struct.pack(">q", known.offsets[-1] + 1)
    with pytest.raises(CorruptLog, match=f"{known.last}: damaged at byte {len(data)}"):
        known.open({known.last: data + extra}, trust)
    log, _ = known.open({known.last: data + extra}, POWER_LOST)
    assert log.log_end_offset == known.offsets[-1]


def test_an_incomplete_write_of_several_batches_keeps_the_complete_ones() -> None:
    known = corpus()
    data, end = known.files[known.last], known.offsets[-1]
    more = encode_batch([(b"k", b"v" * 50)], end, NOW_MS, leader_epoch=2)
    more += encode_batch([(b"k", b"w" * 50)], end + 1, NOW_MS, leader_epoch=2)
    first = len(encode_batch([(b"k", b"v" * 50)], end, NOW_MS))
    for length in range(len(more)):
        log, place = known.open({known.last: data + more[:length]}, PROCESS_DIED)
        assert log.log_end_offset == end + (length >= first)
        assert (log.tail_cut is None) == (length in (0, first))
        assert len(place.read(known.last)) == len(data) + (first if length >= first else 0)


def change_length(data: bytes, position: int, to: int) -> bytes:
    return data[: position + 8] + struct.pack(">i", to) + data[position + 12 :]


@pytest.mark.parametrize("compacted", [False, True])
def test_a_length_that_reaches_behind_the_file_hides_no_batch(compacted: bool) -> None:
    known = corpus()
    data = known.files[known.last]
    for number, position in enumerate(known.ends[:-1]):
        damaged = change_length(data, position, 100_000)
        place = Place(MemoryFileSystem(), "/data")
        place.filesystem.make_directory("/data")
        for name, content in (known.files | {known.last: damaged}).items():
            place.write(name, content)
        with pytest.raises(CorruptLog) as caught:
            Log.open(
                place.filesystem,
                "/data",
                CONFIG._replace(compacted=compacted),
                trust=PROCESS_DIED,
            )
        assert caught.value.position == position
        assert place.read(known.last) == damaged, "the damaged bytes are kept"
        expected = "only its length is wrong" if number == 6 else "a complete batch follows"
        assert expected in str(caught.value)


# --- older segments -------------------------------------------------------------------------------


def test_an_incomplete_older_segment_is_cut_only_if_nothing_was_synced() -> None:
    known = corpus()
    data = known.files[known.older]
    first = next(iterate_batches(data))[1].length_bytes
    for length in (1, first - 1, first, first + 20, len(data) - 1):
        changes = {known.older: data[:length]}
        log, place = known.open(changes, UNSYNCED)
        assert log.log_end_offset == (1 if length >= first else 0)
        assert known.last not in place.names()
        assert log.tail_cut is not None
        assert log.tail_cut.bytes_cut == length % first + len(known.files[known.last])
        for trust in (CLEAN, PROCESS_DIED, POWER_LOST):
            with pytest.raises(CorruptLog, match=known.older):
                known.open(changes, trust)[0].read(0, 9999)
        with pytest.raises(CorruptLog, match=known.older):
            known.open(changes, UNSYNCED, 2)[0].read(0, 9999)


def test_missing_segments_in_the_middle_are_noticed_at_the_start(memory: Place) -> None:
    log = Log.open(memory.filesystem, memory.directory, CONFIG)
    for number in range(4):
        for value in range(20):
            log.append(batch(b"%d %d" % (number, value)))
        log.roll()
    log.close()
    names = [name for name in memory.names() if name.endswith(".log")]
    contents = {name: memory.read(name) for name in memory.names()}
    for missing in names[1:-1]:
        for name in contents:
            if name.startswith(missing[:20]):
                memory.filesystem.remove(f"/data/{name}")
        before = names[names.index(missing) - 1]
        with pytest.raises(
            CorruptLog, match=rf"{before}: .* before offset {int(missing[:20])} and"
        ):
            Log.open(memory.filesystem, memory.directory, CONFIG)
        for name, data in contents.items():
            memory.write(name, data)
    assert Log.open(memory.filesystem, memory.directory, CONFIG).log_end_offset == 80


# --- leader epochs --------------------------------------------------------------------------------


def test_lost_leader_epochs_are_rebuilt() -> None:
    known = corpus()
    right = known.files[EPOCHS]
    assert right.startswith(b"0\n2\n0 0\n2 6")
    for content in (b"", b"0\n2\n0 0\n", b"garbage", bytes(20)):
        for trust in TailTrust:
            log, place = known.open({EPOCHS: content}, trust)
            assert log.epochs.entries == [(0, 0), (2, 6)]
            assert log.leader_epoch == 2
            assert place.read(EPOCHS) == right


@pytest.mark.parametrize("is_ours", [True, False])
def test_every_bit_flip_of_the_leader_epochs_is_noticed_or_harmless(is_ours: bool) -> None:
    """With our checksum the file is made anew; Kafka's file is compared with the batches."""
    known = corpus()
    content = known.files[EPOCHS] if is_ours else b"0\n2\n0 0\n2 6\n"
    refused = 0
    for bit in range(8 * len(content)):
        changes = {EPOCHS: flipped(content, bit)}
        for trust in TailTrust:
            try:
                log, _ = known.open(changes, trust)
                list(log.chunks())
            except CorruptLog as error:
                refused += "epoch" in error.reason
                continue
            assert log.log_end_offset == known.offsets[-1] or trust in (POWER_LOST, UNSYNCED)
            if log.log_end_offset == known.offsets[-1]:
                answers = [log.epochs.end_offset(epoch, 99) for epoch in (0, 1, 2, 3)]
                assert answers == [(0, 6), (0, 6), (2, 99), (-1, -1)]
    assert refused == 0 if is_ours else refused > 10


def test_an_epoch_without_batches_is_dropped_from_the_file() -> None:
    # The process was killed after it wrote the epoch and before it appended the first batch.
    known = corpus()
    end = known.offsets[-1]
    log, place = known.open({EPOCHS: b"0\n3\n0 0\n2 6\n5 %d\n" % end}, PROCESS_DIED)
    assert log.leader_epoch == 2
    log.append(batch(b"of epoch 2"))
    again = Log.open(place.filesystem, "/data", CONFIG, trust=PROCESS_DIED)
    assert again.epochs.entries == [(0, 0), (2, 6)]
    assert again.log_end_offset == end + 1


# --- indexes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_every_bit_flip_of_an_index_changes_no_answer(suffix: str) -> None:
    files = _indexed()
    name = next(name for name in files if name.endswith(suffix))
    right = _answers(_opened(files))
    assert len(files[name]) > 30
    for bit in range(8 * len(files[name])):
        assert _answers(_opened(files | {name: flipped(files[name], bit)})) == right, f"bit {bit}"
    for length in range(len(files[name])):
        assert _answers(_opened(files | {name: files[name][:length]})) == right, f"{length} bytes"


@cache
def _indexed() -> dict[str, bytes]:
    place = Place(MemoryFileSystem(), "/data")
    place.filesystem.make_directory("/data")
    log = Log.open(place.filesystem, "/data", CONFIG)
    for number in range(12):
        log.append(batch(b"%d" % number, b"x", timestamp_ms=NOW_MS + 7 * number))
    log.roll()
    log.append(batch(b"last", timestamp_ms=NOW_MS + 1000))
    log.close()
    return {name: place.read(name) for name in place.names()}


def _opened(files: dict[str, bytes]) -> Callable[[], Log]:
    place = Place(MemoryFileSystem(), "/data")
    place.filesystem.make_directory("/data")
    for name, data in files.items():
        place.write(name, data)
    return lambda: Log.open(place.filesystem, "/data", CONFIG, trust=CLEAN)


def _answers(opened: Callable[[], Log]) -> list[object]:
    log = opened()
    answers: list[object] = [log.offset_for_timestamp(NOW_MS + at) for at in range(-1, 90, 7)]
    answers.append(log.max_timestamp())
    log = opened()
    return [*answers, *(log.read(offset, 1) for offset in range(log.log_end_offset))]
