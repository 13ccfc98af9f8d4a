"""Snapshots of the producers: their format, when they are written, what a start does with them.

Rules: [data-plane/producer-expiration], [recovery/producer-snapshots].
"""

import errno

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.record_batch_layout import TRANSACTIONAL
from coterie.storage.errors import CorruptLog, LogFailed, OutOfHandles
from coterie.storage.log import Log
from coterie.storage.log_config import LogConfig
from coterie.storage.memory_filesystem import MemoryFileSystem
from coterie.storage.producer_loading import LEAST_MEMORY_MS
from coterie.storage.producer_snapshots import (
    ProducerSnapshots,
    decode_snapshot,
    encode_snapshot,
)
from coterie.storage.producer_state import ProducerEntry, ProducerState
from coterie.storage.torn_tail import TailTrust
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.storage.conftest import Place
from tests.unit.storage.produced_batches import (
    DAY_MS,
    NOW_MS,
    append,
    end_transaction,
    header,
    produced,
)

# Two batches fill a segment.
SMALL = LogConfig(segment_bytes=200, producer_expiration_ms=DAY_MS)
DURABLE = SMALL._replace(flush=True)


def opened(
    place: Place, config: LogConfig = SMALL, *, now_ms: int = NOW_MS, **known: object
) -> Log:
    return Log.open(place.filesystem, place.directory, config, now_ms=now_ms, **known)  # type: ignore[arg-type]


def restarted(log: Log, place: Place, *, killed: bool, now_ms: int = NOW_MS) -> Log:
    """Open a log again that was closed, or left as it was."""
    start = log.log_start_offset
    trust = TailTrust.PROCESS_DIED
    if not killed:
        log.close()
        trust = TailTrust.CLEAN
    return opened(place, log.config, now_ms=now_ms, log_start_offset=start, trust=trust)


def snapshots_in(place: Place) -> list[int]:
    return [int(name.partition(".")[0]) for name in place.names() if name.endswith(".snapshot")]


def retried(log: Log, sequence: int, **batch: int) -> tuple[ErrorCode, int | None]:
    """Return how a batch is answered that may be a retry: the error, and the stored offset."""
    error, stored = log.producers.check(header(sequence=sequence, **batch))
    return error, None if stored is None else stored.base_offset


class TestFormat:
    # Written by Kafka 4.3.1: a producer of which only a marker is known.
    KAFKA = bytes.fromhex(
        "0001dd55e5a300000001"
        "00000000000000060005ffffffffffffffffffffffff00000000000001a201b2a6e000000000ffffffffffffffff"
    )

    def test_snapshot_of_kafka_is_read_and_written(self) -> None:
        entries = decode_snapshot(self.KAFKA)
        assert entries is not None
        state = ProducerState()
        assert state.restore(entries, 7, 0, NOW_MS)
        assert state.get(6) == ProducerEntry(6, 5, -1, -1, 0, 1795324815072, 0, -1)
        assert encode_snapshot(state) == self.KAFKA

    def test_last_batches_and_open_transactions_survive(self) -> None:
        state = ProducerState()
        append(state, header(producer_id=9, attributes=TRANSACTIONAL, base_offset=5), NOW_MS)
        append(state, header(producer_id=7, attributes=TRANSACTIONAL, base_offset=6), NOW_MS)
        append(
            state,
            header(producer_id=9, sequence=1, records=3, attributes=TRANSACTIONAL, base_offset=7),
            NOW_MS,
        )
        read, entries = ProducerState(), decode_snapshot(encode_snapshot(state))
        assert entries is not None
        assert read.restore(entries, 10, 0, NOW_MS)
        assert read.first_unstable_offset == 5
        error, stored = read.check(header(producer_id=9, sequence=1, records=3))
        assert error is ErrorCode.NONE
        assert stored is not None
        assert stored.base_offset == 7
        older = read.check(header(producer_id=9))
        assert older == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None)

    def test_empty_state_has_a_snapshot(self) -> None:
        assert decode_snapshot(encode_snapshot(ProducerState())) == b""

    @pytest.mark.parametrize("position", range(10))
    def test_flipped_bit_is_detected(self, position: int) -> None:
        damaged = bytearray(self.KAFKA)
        damaged[position] ^= 1
        assert decode_snapshot(bytes(damaged)) is None

    @pytest.mark.parametrize("length", range(len(KAFKA)))
    def test_cut_file_is_detected(self, length: int) -> None:
        assert decode_snapshot(self.KAFKA[:length]) is None

    @pytest.mark.parametrize("offset", [5, 9])
    def test_snapshot_of_a_later_offset_is_refused(self, offset: int) -> None:
        state = ProducerState()
        append(state, header(attributes=TRANSACTIONAL, base_offset=4, records=6), NOW_MS)
        assert not ProducerState().restore(bytes(state.entries), offset, 0, NOW_MS)
        assert ProducerState().restore(bytes(state.entries), 10, 0, NOW_MS)


class TestWriting:
    def test_a_snapshot_is_written_at_each_roll_and_at_the_end(self, place: Place) -> None:
        log = opened(place)
        for sequence in range(7):
            log.append(produced(sequence), NOW_MS)
        assert snapshots_in(place) == [2, 4, 6]
        log.close()
        assert snapshots_in(place) == [2, 4, 6, 7]

    def test_log_without_producers_has_snapshots_too(self, place: Place) -> None:
        log = opened(place)
        for _ in range(3):
            log.append(produced(-1, producer_id=-1, epoch=-1), NOW_MS)
        assert snapshots_in(place) == [2]
        assert place.read("00000000000000000002.snapshot") == encode_snapshot(ProducerState())

    def test_snapshots_go_with_their_segments(self, place: Place) -> None:
        log = opened(place)
        for sequence in range(7):
            log.append(produced(sequence), NOW_MS)
        log.delete_records(5)
        assert snapshots_in(place) == [4, 6]
        log.delete_records(7)
        # The newest one is not synced in this mode, and a loss of power may take it.
        assert snapshots_in(place) == [6, 7]
        log.append(produced(7), NOW_MS)
        log.close()
        assert snapshots_in(place) == [6, 7, 8]

    def test_segments_are_not_removed_without_a_snapshot(self, memory: Place) -> None:
        """A snapshot that could not be written at the roll is written before."""
        faulty = FaultyFileSystem(memory.filesystem)
        log = opened(memory._replace(filesystem=faulty))
        log.append(produced(0), NOW_MS)
        log.append(produced(1), NOW_MS)
        calls = faulty.calls["create"]
        log.append(produced(2), NOW_MS)
        assert snapshots_in(memory) == [2]
        for n in range(1, faulty.calls["create"] - calls + 1):
            place = Place(MemoryFileSystem(), "/data")
            place.filesystem.make_directory("/data")
            faulty = FaultyFileSystem(place.filesystem)
            log = opened(place._replace(filesystem=faulty))
            log.append(produced(0), NOW_MS)
            log.append(produced(1), NOW_MS)
            faulty.fail_at("create", n, errno.EMFILE)
            try:
                log.append(produced(2), NOW_MS)
            except OutOfHandles:
                log.append(produced(2), NOW_MS)
            log.delete_records(2)
            assert max(snapshots_in(place)) >= 2

    def test_newest_snapshot_is_durable_before_segments_are_removed(self, memory: Place) -> None:
        filesystem = FaultyFileSystem(memory.filesystem)
        log = opened(memory._replace(filesystem=filesystem), DURABLE)
        for sequence in range(3):
            log.append(produced(sequence), NOW_MS)
        log.sync()
        filesystem.fail_at("sync", 1)
        with pytest.raises(LogFailed, match="EIO"):
            log.delete_records(2)
        assert filesystem.failed_path.endswith("02.snapshot")
        assert "00000000000000000000.log" in memory.names()

    def test_snapshot_within_the_last_segment_is_not_relied_on(self, memory: Place) -> None:
        """A loss of power makes it unusable, so the one before that segment is synced."""
        log = opened(memory, DURABLE)
        for sequence in range(3):
            log.append(produced(sequence), NOW_MS)
        log.sync()
        filesystem = FaultyFileSystem(memory.filesystem)
        log = restarted(log, memory._replace(filesystem=filesystem), killed=True)
        assert snapshots_in(memory) == [2, 3]
        filesystem.fail_at("sync", 1)
        with pytest.raises(LogFailed, match="EIO"):
            log.delete_records(2)
        assert filesystem.failed_path.endswith("02.snapshot")

    def test_segment_is_begun_if_no_snapshot_can_be_relied_on(self, memory: Place) -> None:
        log = opened(memory, DURABLE)
        for sequence in range(3):
            log.append(produced(sequence), NOW_MS)
        memory.write(f"{2:020d}.snapshot", b"damaged")
        log.delete_records(2)
        assert snapshots_in(memory) == [3]
        log = opened(memory, DURABLE, log_start_offset=2)
        assert retried(log, 2) == (ErrorCode.NONE, 2)

    def test_durable_snapshot_stays_until_a_later_one_is_durable(self, memory: Place) -> None:
        # Three batches fill a segment.
        log = opened(memory, DURABLE._replace(segment_bytes=250))
        for sequence in range(5):
            log.append(produced(sequence), NOW_MS)
        log = restarted(log, memory, killed=True)
        for sequence in range(5, 7):
            log.append(produced(sequence), NOW_MS)
        assert snapshots_in(memory) == [3, 5, 6]
        # As if its write had failed. So the one before it has to be synced.
        memory.write(f"{6:020d}.snapshot", b"damaged")
        log.delete_records(3)
        assert snapshots_in(memory) == [3, 5]
        log = restarted(log, memory, killed=False)
        log.append(produced(7), NOW_MS)
        log = restarted(log, memory, killed=False)
        assert snapshots_in(memory) == [3, 5, 7, 8]


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
class TestRestart:
    def test_last_batch_of_each_producer_is_known(self, place: Place, killed: bool) -> None:
        log = opened(place)
        for sequence in range(7):
            log.append(produced(sequence), NOW_MS)
        log.append(produced(0, producer_id=8), NOW_MS)
        log = restarted(log, place, killed=killed)
        assert retried(log, 6) == (ErrorCode.NONE, 6)
        assert retried(log, 7) == (ErrorCode.NONE, None)
        assert retried(log, 9) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, None)
        assert retried(log, 0, producer_id=8) == (ErrorCode.NONE, 7)

    def test_only_the_last_segment_is_read(self, memory: Place, killed: bool) -> None:
        log = opened(memory)
        for sequence in range(9):
            log.append(produced(sequence), NOW_MS)
        # Damage that nobody reads does no harm.
        for name in memory.names():
            if name.endswith(".log") and name < f"{8:020d}":
                memory.write(name, memory.read(name)[:-20] + bytes(20))
        log = restarted(log, memory, killed=killed)
        assert retried(log, 8) == (ErrorCode.NONE, 8)

    def test_old_timestamps_do_not_matter(self, place: Place, killed: bool) -> None:
        """Kafka forgets this producer when it starts, and stores the retry a second time."""
        log = opened(place)
        log.append(produced(0, timestamp_ms=NOW_MS - 3 * DAY_MS), NOW_MS)
        log = restarted(log, place, killed=killed)
        assert retried(log, 0) == (ErrorCode.NONE, 0)
        assert log.producers.expire(NOW_MS + LEAST_MEMORY_MS - 1, DAY_MS, 10) == 0
        assert log.producers.expire(NOW_MS + LEAST_MEMORY_MS, DAY_MS, 10) == 1

    def test_time_since_the_last_batch_goes_on(self, place: Place, killed: bool) -> None:
        log = opened(place)
        log.append(produced(0, timestamp_ms=NOW_MS - DAY_MS // 2), NOW_MS - DAY_MS // 2)
        log = restarted(log, place, killed=killed)
        assert log.producers.expire(NOW_MS + DAY_MS // 2 - 1, DAY_MS, 10) == 0
        assert log.producers.expire(NOW_MS + DAY_MS // 2, DAY_MS, 10) == 1

    @pytest.mark.parametrize("before", [1, 2, 3])
    def test_deleted_records_are_recognized(self, place: Place, killed: bool, before: int) -> None:
        """Kafka forgets them when everything is deleted and it is stopped in order."""
        log = opened(place)
        for sequence in range(3):
            log.append(produced(sequence), NOW_MS)
        log.delete_records(before)
        log = restarted(log, place, killed=killed)
        assert log.log_start_offset == before
        assert retried(log, 2) == (ErrorCode.NONE, 2)
        assert retried(log, 3) == (ErrorCode.NONE, None)

    def test_expired_segments_are_recognized(self, place: Place, killed: bool) -> None:
        log = opened(place)
        for sequence in range(3):
            log.append(produced(sequence), NOW_MS)
        assert log.remove_expired(NOW_MS + DAY_MS, 1000, -1)
        assert log.log_start_offset == 3
        log = restarted(log, place, killed=killed)
        assert retried(log, 2) == (ErrorCode.NONE, 2)

    def test_open_transaction_goes_on(self, place: Place, killed: bool) -> None:
        log = opened(place)
        for sequence in range(3):
            log.append(produced(sequence, transactional=True), NOW_MS)
        log = restarted(log, place, killed=killed)
        assert log.last_stable_offset == 0
        end_transaction(log, commit=True)
        assert log.last_stable_offset == 4

    def test_second_restart_finds_as_much(self, place: Place, killed: bool) -> None:
        log = opened(place)
        for sequence in range(5):
            log.append(produced(sequence), NOW_MS)
        for _ in range(2):
            log = restarted(log, place, killed=killed)
            assert retried(log, 4) == (ErrorCode.NONE, 4)
        assert snapshots_in(place) == [2, 4, 5]


class TestLostSnapshots:
    def filled(self, place: Place, config: LogConfig = SMALL) -> Log:
        log = opened(place, config)
        for sequence in range(7):
            log.append(produced(sequence, producer_id=sequence % 3), NOW_MS)
        return log

    @pytest.mark.parametrize("lost", [(6,), (4, 6), (2, 4, 6)])
    @pytest.mark.parametrize("damage", [None, b"", bytes(10), b"\0\1" + bytes(54)])
    def test_an_older_one_or_the_log_is_read_instead(
        self, memory: Place, lost: tuple[int, ...], damage: bytes | None
    ) -> None:
        expected = {entry.producer_id: entry for entry in self.filled(memory).producers}
        for offset in lost:
            name = f"{offset:020d}.snapshot"
            if damage is None:
                memory.filesystem.remove(f"{memory.directory}/{name}")
            else:
                memory.write(name, damage)
        log = opened(memory, trust=TailTrust.PROCESS_DIED)
        assert {entry.producer_id: entry for entry in log.producers} == expected
        # Damaged ones are removed; the state that was found has one for the next start.
        assert snapshots_in(memory) == [*(each for each in (2, 4, 6) if each not in lost), 7]

    def test_directory_of_an_older_version_is_read_once(self, memory: Place) -> None:
        expected = list(self.filled(memory).producers)
        for offset in snapshots_in(memory):
            memory.filesystem.remove(f"{memory.directory}/{offset:020d}.snapshot")
        assert list(opened(memory).producers) == expected
        assert snapshots_in(memory) == [7]

    def test_snapshot_ahead_of_the_log_is_not_used(self, memory: Place) -> None:
        self.filled(memory).close()
        # A loss of power without syncs: the last segment never reached the disk.
        for name in memory.names():
            if name.startswith(f"{6:020d}") and not name.endswith("snapshot"):
                memory.filesystem.remove(f"{memory.directory}/{name}")
        memory.write(f"{4:020d}.log", memory.read(f"{4:020d}.log")[:-10])
        log = opened(memory, trust=TailTrust.POWER_LOST_UNSYNCED)
        assert log.log_end_offset == 5
        assert snapshots_in(memory) == [5]
        assert [entry.last_offset for entry in log.producers] == [3, 4, 2]
        # The records at the offsets of the lost ones are others.
        log.append(produced(0, producer_id=70, records=3), NOW_MS)
        log = restarted(log, memory, killed=True)
        assert sorted(entry.last_offset for entry in log.producers) == [2, 3, 4, 7]

    def test_snapshot_is_ahead_of_an_older_segment_that_is_cut(self, memory: Place) -> None:
        """Older segments are scanned because the epochs cannot be read, and one of them is torn."""
        self.filled(memory)
        memory.write("leader-epoch-checkpoint", b"unreadable")
        memory.write(f"{2:020d}.log", memory.read(f"{2:020d}.log")[:-10])
        log = opened(memory, trust=TailTrust.PROCESS_DIED)
        assert log.log_end_offset == 3
        assert {entry.producer_id: entry.last_offset for entry in log.producers} == {
            0: 0,
            1: 1,
            2: 2,
        }
        assert snapshots_in(memory)[-1] == 3

    def test_damage_in_an_older_segment_that_must_be_read(self, memory: Place) -> None:
        self.filled(memory)
        for offset in snapshots_in(memory):
            memory.filesystem.remove(f"{memory.directory}/{offset:020d}.snapshot")
        memory.write(f"{2:020d}.log", memory.read(f"{2:020d}.log")[:-1] + b"x")
        log = opened(memory)
        with pytest.raises(CorruptLog, match="checksum"):
            _ = log.producers
        # Everything else can be read, and written.
        assert log.read(5, 100)
        log.append(produced(-1, producer_id=-1, epoch=-1), NOW_MS)
        log.close()
        assert snapshots_in(memory) == []

    @pytest.mark.parametrize("kind", ["create", "write"])
    def test_full_disk_costs_the_snapshot_only(self, memory: Place, kind: str) -> None:
        filesystem = FaultyFileSystem(memory.filesystem)
        log = opened(memory._replace(filesystem=filesystem))
        log.append(produced(0), NOW_MS)
        filesystem.fail_at(kind, 1)
        snapshots = ProducerSnapshots(filesystem, memory.directory)
        assert not snapshots.write(1, log.producers)
        assert snapshots.offsets == []
        assert snapshots.write(1, log.producers)
        assert snapshots.offsets == [1]
