"""Transactions in a log: the last stable offset, transaction indexes, reads at READ_COMMITTED.

Rules: [data-plane/last-stable-offset], [data-plane/isolation], [data-plane/aborted-transactions],
[log/transaction-index].
"""

import random
import struct

import pytest

from coterie.storage.aborted_transactions import (
    AbortedTransaction,
    TransactionIndex,
    is_aborted,
    overlapping,
)
from coterie.storage.errors import CorruptLog, OffsetOutOfRange
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig
from coterie.storage.open_files import OpenFiles
from coterie.storage.torn_tail import TailTrust
from tests.record_batches import committed
from tests.unit.storage.conftest import Place
from tests.unit.storage.produced_batches import NOW_MS, end_transaction, produced

CONFIG = LogConfig(segment_bytes=400)
# Written by Kafka 4.3.1.
KAFKA = bytes.fromhex("00000000000000000005000000000000000300000000000000040000000000000005")
FIRST, SECOND = AbortedTransaction(5, 3, 4, 2), AbortedTransaction(6, 2, 9, 10)


def index_of(place: Place, data: bytes | None = None) -> TransactionIndex:
    if data is not None:
        place.write("0.txnindex", data)
    return TransactionIndex(OpenFiles(place.filesystem), f"{place.directory}/0.txnindex", 0)


def encoded(*transactions: AbortedTransaction) -> bytes:
    return b"".join(struct.pack(">hqqqq", 0, *each) for each in transactions)


class TestIndex:
    def test_entry_of_kafka_is_read_and_written(self, place: Place) -> None:
        expected = [AbortedTransaction(5, 3, 4, 5)]
        assert list(index_of(place, KAFKA).from_offset(0)) == expected
        index = index_of(place, b"")
        index.add(expected[0])
        assert place.read("0.txnindex") == KAFKA

    def test_file_appears_with_the_first_entry(self, place: Place) -> None:
        index = index_of(place)
        assert (len(index), place.names()) == (0, [])
        index.replace([])
        assert place.names() == []
        index.add(FIRST)
        index.add(SECOND)
        assert place.read("0.txnindex") == encoded(FIRST, SECOND)
        index.replace([])
        assert place.names() == []

    @pytest.mark.parametrize(
        ("offset", "end_offset", "found"),
        [
            (0, 2, ()), (0, 3, (1,)), (0, 4, (0, 1)), (4, 5, (0, 1)), (5, 9, (1,)), (10, 20, ()),
        ],
    )  # fmt: skip
    def test_transactions_that_overlap_a_read(
        self, place: Place, offset: int, end_offset: int, found: tuple[int, ...]
    ) -> None:
        index = index_of(place, encoded(FIRST, SECOND))
        expected = [(FIRST, SECOND)[number] for number in found]
        assert list(overlapping([index], offset, end_offset)) == expected

    def test_search_ends_where_everything_is_decided(self, place: Place) -> None:
        first = index_of(place, encoded(AbortedTransaction(5, 3, 4, 5)))
        damaged = TransactionIndex(OpenFiles(place.filesystem), f"{place.directory}/5.txnindex", 5)
        place.write("5.txnindex", b"x")
        assert len(list(overlapping([first, damaged], 0, 5))) == 1
        with pytest.raises(CorruptLog):
            list(overlapping([first, damaged], 0, 6))

    def test_batches_of_aborted_transactions(self, place: Place) -> None:
        index = index_of(place, encoded(FIRST, SECOND))
        aborted = [(pid, at) for pid in (5, 6) for at in range(12) if is_aborted([index], pid, at)]
        assert aborted == [(5, 3), (5, 4), *((6, at) for at in range(2, 10))]

    def test_entries_behind_the_end_of_a_log_are_removed(self, place: Place) -> None:
        index = index_of(place, encoded(FIRST, SECOND))
        index.repair([], 10)
        index.repair([], 9)
        assert place.read("0.txnindex") == encoded(FIRST)
        assert list(index.from_offset(0)) == [FIRST]

    @pytest.mark.parametrize("kept", [0, 1, 33, 34, 35, 67, 68])
    def test_torn_index_is_completed_by_what_was_found(self, place: Place, kept: int) -> None:
        index = index_of(place, encoded(FIRST, SECOND)[:kept])
        index.repair([FIRST, SECOND], 100)
        assert place.read("0.txnindex") == encoded(FIRST, SECOND)
        # What the file has counts: the transaction may have begun before what was read.
        later = FIRST._replace(first_offset=FIRST.last_offset)
        index.repair([later], 100)
        assert list(index.from_offset(0)) == [FIRST, SECOND]

    @pytest.mark.parametrize(
        "data",
        [
            encoded(FIRST, SECOND)[:-1],
            b"\0\1" + encoded(FIRST)[2:],
            encoded(SECOND, FIRST),
            encoded(AbortedTransaction(5, 4, 3, 5)),
            encoded(AbortedTransaction(5, -1, 3, 5)),
            encoded(AbortedTransaction(5, 1, 3, -5)),
        ],
    )
    def test_damage_is_detected(self, place: Place, data: bytes) -> None:
        with pytest.raises(CorruptLog, match=r"0\.txnindex"):
            list(index_of(place, data).from_offset(0))


def opened(place: Place, config: LogConfig = CONFIG) -> Log:
    return Log.open(
        place.filesystem, place.directory, config, now_ms=NOW_MS, trust=TailTrust.PROCESS_DIED
    )


class TestReadCommitted:
    def test_reads_end_at_the_last_stable_offset(self, place: Place) -> None:
        log = opened(place)
        log.append(produced(0), NOW_MS)
        log.append(produced(0, producer_id=1, transactional=True), NOW_MS)
        log.append(produced(1), NOW_MS)
        assert (log.last_stable_offset, committed(log, 0)) == (1, [0])
        for offset in (1, 2, 3):
            assert log.read_committed(offset, 100) == (b"", [])
        with pytest.raises(OffsetOutOfRange):
            log.read_committed(4, 100)
        end_transaction(log, producer_id=1, commit=True)
        assert (log.last_stable_offset, committed(log, 0)) == (4, [0, 1, 2])

    def test_first_batch_is_returned_whatever_the_limit(self, place: Place) -> None:
        log = opened(place)
        log.append(produced(0, records=9), NOW_MS)
        data, _ = log.read_committed(3, 1)
        assert len(data) == log.size_bytes

    def test_aborted_records_are_listed(self, place: Place) -> None:
        log = opened(place)
        log.append(produced(0, transactional=True), NOW_MS)
        end_transaction(log, commit=False)
        log.append(produced(1, transactional=True), NOW_MS)
        end_transaction(log, commit=True)
        _, aborted = log.read_committed(0, 1000)
        assert aborted == [AbortedTransaction(7, 0, 1, 2)]
        assert committed(log, 0) == [2]
        # The marker lies before the read: the client would drop the next transaction.
        assert log.read_committed(2, 1000)[1] == []

    def test_a_commit_and_an_empty_abort_have_no_entry(self, place: Place) -> None:
        log = opened(place)
        log.append(produced(0, transactional=True), NOW_MS)
        end_transaction(log, commit=True)
        end_transaction(log, commit=False)
        assert [name for name in place.names() if name.endswith(".txnindex")] == []

    def test_last_stable_offset_is_never_before_the_log_start(self, place: Place) -> None:
        log = opened(place)
        log.append(produced(0, transactional=True), NOW_MS)
        log.append(produced(1, transactional=True), NOW_MS)
        log.delete_records(1)
        assert log.last_stable_offset == 1
        log.delete_records(2)
        assert log.last_stable_offset == 2

    @pytest.mark.parametrize("seed", range(6))
    def test_every_read_returns_what_was_committed(self, memory: Place, seed: int) -> None:
        """Random transactions over many segments, read from everywhere, before and after a kill."""
        chance = random.Random(seed)
        log = opened(memory)
        sequences: dict[int, int] = {}
        # By producer: the offsets of the records of its open transaction.
        ongoing: dict[int, list[int]] = {}
        visible: set[int] = set()
        for _ in range(120):
            producer_id = chance.randrange(4)
            if producer_id in ongoing and chance.random() < 0.4:
                commit = chance.random() < 0.5
                end_transaction(log, producer_id=producer_id, commit=commit)
                offsets = ongoing.pop(producer_id)
                visible.update(offsets if commit else ())
            else:
                transactional = producer_id > 0
                records = chance.randint(1, 3)
                sequence = sequences.get(producer_id, 0)
                offset = log.append(
                    produced(
                        sequence,
                        producer_id=producer_id,
                        records=records,
                        transactional=transactional,
                    ),
                    NOW_MS,
                )
                sequences[producer_id] = sequence + records
                offsets = list(range(offset, offset + records))
                if transactional:
                    ongoing.setdefault(producer_id, []).extend(offsets)
                else:
                    visible.update(offsets)
        assert len(log.segments) > 5
        stable = min((offsets[0] for offsets in ongoing.values()), default=log.log_end_offset)
        for again in (log, opened(memory)):
            assert again.last_stable_offset == stable
            for start in range(0, again.log_end_offset, 7):
                for max_bytes in (1, 300, 1 << 20):
                    found = set(committed(again, start, max_bytes))
                    wanted = {each for each in visible if start <= each < stable}
                    assert {each for each in found if each >= start} == wanted


class TestRestart:
    def aborted(self, place: Place) -> Log:
        """A transaction over several segments, one of them cut off by the abort of another."""
        log = opened(place)
        for sequence in range(12):
            log.append(produced(sequence, producer_id=1, transactional=True), NOW_MS)
            if sequence % 3 == 2:
                log.append(produced(sequence // 3, producer_id=2, transactional=True), NOW_MS)
                end_transaction(log, producer_id=2, commit=False)
        end_transaction(log, producer_id=1, commit=False)
        return log

    def indexes(self, place: Place) -> dict[str, bytes]:
        return {name: place.read(name) for name in place.names() if name.endswith(".txnindex")}

    @pytest.mark.parametrize("damage", [None, b"", b"x" * 33, encoded(SECOND)])
    def test_index_of_the_last_segment_is_made_anew(
        self, memory: Place, damage: bytes | None
    ) -> None:
        self.aborted(memory)
        expected = self.indexes(memory)
        last = max(expected)
        if damage is None:
            memory.filesystem.remove(f"{memory.directory}/{last}")
        else:
            memory.write(last, damage)
        log = opened(memory)
        assert self.indexes(memory) == expected
        assert committed(log, 0) == []

    def test_indexes_are_made_anew_where_the_log_is_read(self, memory: Place) -> None:
        """As after a loss of power without syncs, and in a directory without snapshots."""
        self.aborted(memory)
        expected = self.indexes(memory)
        assert len(expected) > 2
        for name in memory.names():
            if name.endswith((".txnindex", ".snapshot")):
                memory.filesystem.remove(f"{memory.directory}/{name}")
        log = opened(memory)
        assert self.indexes(memory) == expected
        assert committed(log, 0) == []

    @pytest.mark.parametrize("trust", [TailTrust.CLEAN, TailTrust.PROCESS_DIED])
    def test_entries_before_an_older_snapshot_stay(self, memory: Place, trust: TailTrust) -> None:
        """The newest snapshot is damaged; the one before it lies within an older segment."""
        log = opened(memory, CONFIG._replace(segment_bytes=1 << 20))
        log.append(produced(0, transactional=True), NOW_MS)
        end_transaction(log, commit=False)
        log.close()
        log = opened(memory, CONFIG._replace(segment_bytes=1 << 20))
        log.append(produced(1, transactional=True), NOW_MS)
        end_transaction(log, commit=True)
        log.roll()
        log.append(produced(2), NOW_MS)
        log.close()
        for offset in (4, 5):
            memory.write(f"{offset:020d}.snapshot", b"")
        log = Log.open(memory.filesystem, memory.directory, CONFIG, now_ms=NOW_MS, trust=trust)
        assert committed(log, 0) == [2, 4]
        assert self.indexes(memory) == {
            f"{0:020d}.txnindex": encoded(AbortedTransaction(7, 0, 1, 2))
        }

    def test_marker_that_was_cut_off_has_no_entry(self, memory: Place) -> None:
        log = opened(memory)
        log.append(produced(0, transactional=True), NOW_MS)
        end_transaction(log, commit=False)
        log.close()
        name = f"{0:020d}.log"
        memory.write(name, memory.read(name)[:-10])
        log = Log.open(memory.filesystem, memory.directory, CONFIG, trust=TailTrust.POWER_LOST)
        assert (log.log_end_offset, log.last_stable_offset, self.indexes(memory)) == (1, 0, {})
        end_transaction(log, commit=True)
        assert committed(log, 0) == [0]

    def test_damaged_index_of_an_older_segment_is_reported(self, memory: Place) -> None:
        self.aborted(memory)
        name = min(self.indexes(memory))
        memory.write(name, self.indexes(memory)[name][:-1])
        log = opened(memory)
        assert log.read(0, 100)
        with pytest.raises(CorruptLog, match="txnindex"):
            log.read_committed(0, 100)
