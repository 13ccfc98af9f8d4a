"""Checkpoints, and the leader epochs that are stored in one of them."""

from contextlib import nullcontext

import pytest

from coterie.storage.checkpoints import (
    checkpoint_text,
    read_checkpoint,
    read_file,
    replace_file,
)
from coterie.storage.errors import CorruptLog
from coterie.storage.leader_epochs import LeaderEpochs
from coterie.storage.offset_checkpoints import OffsetCheckpoints
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.storage.conftest import Place


def test_a_checkpoint_reads_back(place: Place) -> None:
    entries = [("orders", 0, 17), ("a.b_c-d", 12, 1 << 40)]
    place.write("c-checkpoint", checkpoint_text("/data/c-checkpoint", entries).encode())
    assert place.read_plain("c-checkpoint") == b"0\n2\norders 0 17\na.b_c-d 12 %d\n" % (1 << 40)
    path = f"{place.directory}/c-checkpoint"
    fields = [["orders", "0", "17"], ["a.b_c-d", "12", str(1 << 40)]]
    assert read_checkpoint(place.filesystem, path, 3) == (fields, True)
    assert read_checkpoint(place.filesystem, f"{place.directory}/none", 3) == ([], True)
    assert checkpoint_text("c", []) == "0\n0\n"
    place.write("c-checkpoint", b"")  # as Kafka makes it
    assert read_checkpoint(place.filesystem, path, 3) == ([], True)
    place.write("c-checkpoint", b"0\n1\norders 0 17\n")  # as Kafka writes it
    assert read_checkpoint(place.filesystem, path, 3) == ([["orders", "0", "17"]], False)


@pytest.mark.parametrize(
    "text",
    [
        b"0", b"1\n0\n", b"0\n2\na 0 5\n", b"0\n1\na 0\n", b"0\n1\na b 5\n", b"0\n1\na 0 x\n",
        b"0\nx\n", b"\xff\xfe", b"0\n0\nleft over 1\n",
    ],
)  # fmt: skip
def test_malformed_checkpoints_are_damage(memory: Place, text: bytes) -> None:
    memory.write("c", text)
    with pytest.raises(CorruptLog, match="/data/c"):
        read_checkpoint(memory.filesystem, "/data/c", 3)


@pytest.mark.parametrize("entry", [b"orders 0 -5", b"orders -1 5"])
def test_negative_numbers_are_damage(memory: Place, entry: bytes) -> None:
    memory.write("c", b"0\n1\n" + entry + b"\n")
    offsets = OffsetCheckpoints(memory.filesystem, "/data/c", durable=False, lock=nullcontext())
    with pytest.raises(CorruptLog, match="is not an entry"):
        offsets.load(needed=True)
    offsets.load(needed=False)
    assert offsets.get(("orders", 0)) == 0


def test_a_file_is_replaced_whole_or_not_at_all(memory: Place) -> None:
    memory.write("c", b"old")
    filesystem = FaultyFileSystem(memory.filesystem)
    # Create, write, sync, rename: the old file exists until the last of them.
    for failing in range(1, 5):
        filesystem.fail_at("writing", failing)
        with pytest.raises(OSError, match="EIO"):
            replace_file(filesystem, "/data/c", "new text", durable=True)
        assert memory.read("c") == b"old"
    filesystem.fail_at("writing", 6)
    replace_file(filesystem, "/data/c", "new text", durable=True)
    assert read_file(memory.filesystem, "/data/c") == "new text"
    assert memory.names() == ["c"]
    assert filesystem.calls["sync_directory"] == 1


def test_what_a_failed_attempt_wrote_is_removed_first(memory: Place) -> None:
    """Written over without a sync, it could come back by a loss of power."""
    filesystem = FaultyFileSystem(memory.filesystem)
    filesystem.fail_at("rename", 1)
    with pytest.raises(OSError, match="EIO"):
        replace_file(filesystem, "/data/c", "first", durable=False)
    assert memory.names() == ["c.tmp"]
    replace_file(filesystem, "/data/c", "second", durable=False)
    assert filesystem.calls["remove"] == 1
    assert read_file(memory.filesystem, "/data/c") == "second"


def epochs(place: Place, *entries: tuple[int, int]) -> LeaderEpochs:
    known = LeaderEpochs(place.filesystem, place.directory, durable=False)
    for epoch, start in entries:
        known.start(epoch, start)
    return known


def test_epochs_are_written_as_kafka_does(place: Place) -> None:
    epochs(place, (0, 0), (3, 17))
    assert place.read_plain("leader-epoch-checkpoint") == b"0\n2\n0 0\n3 17\n"


@pytest.mark.parametrize(
    ("epoch", "answer"),
    [
        (-1, (-1, -1)),
        (0, (0, 5)),
        (1, (1, 9)),
        (2, (1, 9)),
        (3, (1, 9)),
        (4, (4, 30)),
        (5, (-1, -1)),
    ],
)
def test_end_offset_of_an_epoch(memory: Place, epoch: int, answer: tuple[int, int]) -> None:
    assert epochs(memory, (1, 5), (4, 9)).end_offset(epoch, 30) == answer


def test_without_epochs_there_is_no_end_offset(memory: Place) -> None:
    assert epochs(memory).end_offset(0, 10) == (-1, -1)
    # As in Kafka 4.3.1.
    assert epochs(memory).end_offset(-2, 0) == (-2, 0)


def test_epochs_outside_of_the_log_are_dropped(memory: Place) -> None:
    epochs(memory, (0, 0), (1, 5), (2, 9))
    for start, end, expected in (
        (7, 30, [(1, 7), (2, 9)]),
        (9, 30, [(2, 9)]),
        (20, 30, [(2, 20)]),
        (0, 9, [(0, 0), (1, 5)]),
    ):
        known = epochs(memory)
        assert known.read()
        known.settle(start, end)
        assert (known.entries, known.latest) == (expected, expected[-1][0])
    # Batches of epoch 1 may follow at offset 9 now, so the file must not name another epoch there.
    assert memory.read_plain("leader-epoch-checkpoint") == b"0\n2\n0 0\n1 5\n"


@pytest.mark.parametrize(
    "text", [b"", b"0\n1\n0", b"0\n2\n1 0\n0 5\n", b"0\n2\n0 5\n1 5\n", b"0\n1\n-3 0\n", b"\xff"]
)
def test_entries_that_do_not_ascend_are_not_read(memory: Place, text: bytes) -> None:
    memory.write("leader-epoch-checkpoint", text)
    known = epochs(memory)
    assert not known.read()
    assert known.entries == []


def test_a_batch_must_have_the_epoch_of_the_file(memory: Place) -> None:
    known = epochs(memory, (2, 5), (4, 9))
    assert known.until(2, 5) == known.until(2, 8) == 9
    assert known.until(4, 9) == known.until(4, 100)
    for epoch, offset in ((1, 5), (3, 5), (4, 8), (2, 9), (5, 100), (-1, 6)):
        assert known.until(epoch, offset) is None, (epoch, offset)
    # Before the first entry are batches from before the log's start was moved, or of old Kafkas.
    assert known.until(1, 3) == known.until(2, 3) == known.until(-1, 3) == 5
    assert known.until(3, 3) is None


def test_epochs_are_learned_from_batches_in_order(memory: Place) -> None:
    known = epochs(memory)
    known.learning = True
    for epoch, offset, right in (
        (-1, 0, True), (1, 2, True), (1, 3, True), (0, 4, False), (3, 5, True), (1, 6, False),
    ):  # fmt: skip
        assert (known.until(epoch, offset) is not None) == right, (epoch, offset)
    known.settle(0, 9)
    assert known.entries == [(1, 2), (3, 5)]
    assert memory.read_plain("leader-epoch-checkpoint") == b"0\n2\n1 2\n3 5\n"
    assert known.until(7, 9) is None


def test_epochs_before_the_start_are_dropped_from_the_file(memory: Place) -> None:
    known = epochs(memory, (0, 0), (1, 5), (2, 9))
    known.truncate_before(4)
    assert known.entries == [(0, 0), (1, 5), (2, 9)]
    known.truncate_before(6)
    assert known.entries == [(1, 6), (2, 9)]
    assert memory.read_plain("leader-epoch-checkpoint") == b"0\n2\n1 6\n2 9\n"


def test_an_epoch_without_batches_is_replaced(memory: Place) -> None:
    assert epochs(memory, (0, 0), (1, 5), (2, 5)).entries == [(0, 0), (2, 5)]


def test_a_learned_epoch_replaces_one_without_batches(memory: Place) -> None:
    """A loss of power may bring back an old file, whose epoch began where a later one has."""
    epochs(memory, (0, 0))
    known = epochs(memory)
    assert known.read()
    known.learning = True
    assert known.until(1, 0) is not None
    known.settle(0, 5)
    assert known.entries == [(1, 0)]
    assert memory.read_plain("leader-epoch-checkpoint") == b"0\n1\n1 0\n"
