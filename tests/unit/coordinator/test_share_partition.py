"""Share partitions: what was seen on Kafka 4.3.1, by example [share-partitions/acquisition]."""

import random
from typing import Any

import pytest

from coterie.coordinator.share_partition.acknowledgement import (
    AcknowledgedBatch,
    Refusal,
    acknowledge,
    shape_error,
)
from coterie.coordinator.share_partition.acquisition import Acquisition, LogBatch, acquire
from coterie.coordinator.share_partition.in_flight import Transition
from coterie.coordinator.share_partition.partition import SharePartition
from coterie.coordinator.share_partition.states import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    AcknowledgeType,
    StateBatch,
)
from coterie.protocol.errors import ErrorCode

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
LOCK_MS = 30_000
DEFAULTS = {
    "max_records": 500, "batch_size": 500, "by_records": False, "max_in_flight": 2000,
    "delivery_limit": 5, "lock_deadline_ms": LOCK_MS,
}  # fmt: skip
Entries = list[tuple[int, int, int]]


def log(*records: int) -> list[LogBatch]:
    """Return a log of batches with so many records each."""
    batches, base = [], 0
    for count in records:
        batches.append(LogBatch(base, base + count - 1))
        base += count
    return batches


def fetch(
    partition: SharePartition, batches: list[LogBatch], member: str = "one", **asked: Any
) -> Entries:
    """Read from the next offset to the end of a log; return (first, last, count)."""
    offset = partition.next_fetch_offset()
    read = [each for each in batches if each.last_offset >= offset]
    aborted = asked.pop("aborted", ())
    acquisition = Acquisition(member, **(DEFAULTS | asked))
    acquired = acquire(partition, acquisition, offset, read, aborted)
    return [(first, last, count) for first, last, count in acquired]


def say(
    partition: SharePartition, first: int, last: int, *types: int, limit: int = 5
) -> Transition | Refusal:
    """Acknowledge as member one, without a write."""
    batch = AcknowledgedBatch(first, last, types)
    return acknowledge(partition, "one", [batch], limit, LOCK_MS)


def done(partition: SharePartition, result: Transition | Refusal) -> Transition:
    """Note that what was acknowledged is persisted."""
    assert isinstance(result, Transition), result
    partition.complete(result)
    return result


def test_whole_batches_of_the_log() -> None:
    """Batch-optimised, one record of a batch brings the others."""
    partition = SharePartition(0, 0)
    assert fetch(partition, log(5, 5), max_records=1) == [(0, 4, 1)]
    assert fetch(partition, log(5, 5), "two", max_records=1) == [(5, 9, 1)]
    assert fetch(partition, log(5, 5)) == []


@pytest.mark.parametrize(
    ("batches", "asked", "entries"),
    [
        (log(5, 5, 5), {"max_records": 10, "batch_size": 3}, [(0, 4, 1), (5, 9, 1)]),
        (log(1, 1, 1, 1, 1, 1), {"max_records": 5, "batch_size": 1},
         [(0, 0, 1), (1, 1, 1), (2, 2, 1), (3, 3, 1), (4, 4, 1)]),
        (log(30, 30, 30, 30, 30), {"max_in_flight": 100}, [(0, 119, 1)]),
        (log(*[1] * 300), {"max_in_flight": 100}, [(0, 99, 1)]),
    ],
)  # fmt: skip
def test_entries_of_an_answer(
    batches: list[LogBatch], asked: dict[str, Any], entries: Entries
) -> None:
    """The sizes of entries, and what the limit of records in flight leaves."""
    assert fetch(SharePartition(0, 0), batches, **asked) == entries


def test_exact_number_of_records() -> None:
    """Record-limited, the rest of a batch waits for the next fetch."""
    partition = SharePartition(0, 0)
    taken = [fetch(partition, log(5), max_records=2, by_records=True) for _ in range(4)]
    assert taken == [[(0, 1, 1)], [(2, 3, 1)], [(4, 4, 1)], []]


def test_records_in_flight_are_limited() -> None:
    """Ten accepted at the front make room for ten more; a higher limit does so at once."""
    partition, batches = SharePartition(0, 0), log(*[1] * 300)
    fetch(partition, batches, max_in_flight=100)
    assert not partition.can_acquire(100)
    done(partition, say(partition, 0, 9, ACCEPT))
    assert fetch(partition, batches, max_in_flight=100) == [(100, 109, 1)]
    assert fetch(partition, batches, max_in_flight=150) == [(110, 159, 1)]


def test_suspects_travel_in_ever_smaller_parts() -> None:
    """Ten records that are never accepted: 10, 10, 10, 5, 5, then one by one."""
    partition, batches = SharePartition(0, 0), log(10)
    for count in (1, 2, 3):
        assert fetch(partition, batches) == [(0, 9, count)]
        done(partition, say(partition, 0, 9, RELEASE))
    assert fetch(partition, batches) == [(0, 4, 4)]
    # The release is being written, as it is for a client that sends it with its next fetch.
    releasing = say(partition, 0, 4, RELEASE)
    assert fetch(partition, batches) == [(5, 9, 4)]
    done(partition, releasing)
    done(partition, say(partition, 5, 9, RELEASE))
    for offset in range(10):
        assert fetch(partition, batches) == [(offset, offset, 5)]
        done(partition, say(partition, offset, offset, RELEASE))
        assert partition.start_offset == offset + 1
    assert fetch(partition, batches) == []


def test_two_attempts_have_no_suspects() -> None:
    """With a limit of 2 the last attempt is not isolated."""
    partition = SharePartition(0, 0)
    assert fetch(partition, log(4), delivery_limit=2) == [(0, 3, 1)]
    done(partition, say(partition, 0, 3, RELEASE, limit=2))
    assert fetch(partition, log(4), delivery_limit=2) == [(0, 3, 2)]
    done(partition, say(partition, 0, 3, RELEASE, limit=2))
    assert partition.start_offset == 4


def test_lower_limit_counts_at_once() -> None:
    """What was delivered often enough is delivered once more, and archived by its release."""
    partition = SharePartition(0, 0)
    for count in (1, 2):
        assert fetch(partition, log(1)) == [(0, 0, count)]
        done(partition, say(partition, 0, 0, RELEASE))
    assert fetch(partition, log(1), delivery_limit=2) == [(0, 0, 3)]
    transition = done(partition, say(partition, 0, 0, RELEASE, limit=2))
    assert transition.write is not None
    assert transition.write.batches == [StateBatch(0, 0, ARCHIVED, 3)]


def test_written_start_offset_is_one_write_behind() -> None:
    """A write carries the start offset before it moved it, and counts what is done behind it."""
    partition = SharePartition(0, 0)
    fetch(partition, log(10))
    first = done(partition, say(partition, 2, 3, ACCEPT))
    assert first.write is not None
    assert first.write[:2] == (0, 2)
    second = done(partition, say(partition, 0, 1, ACCEPT))
    assert second.write is not None
    assert second.write == (0, 4, [StateBatch(0, 1, ACKNOWLEDGED, 1)])
    assert partition.start_offset == 4


@pytest.mark.parametrize(
    ("first", "last", "error", "message"),
    [
        (2, 3, ErrorCode.INVALID_RECORD_STATE, "The offset cannot be acknowledged."),
        (5, 9, ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record"),
        (5, 6, ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record"),
        (20, 20, ErrorCode.INVALID_REQUEST, "Batch record not found. The first offset"),
        (9, 12, ErrorCode.INVALID_REQUEST, "Batch record not found. The last offset"),
    ],
)
def test_refusals(first: int, last: int, error: ErrorCode, message: str) -> None:
    """Each reason to refuse an acknowledgement has its own text."""
    partition = SharePartition(0, 0)
    fetch(partition, log(5, 5), max_records=5)
    fetch(partition, log(5, 5), "two", max_records=5)
    done(partition, say(partition, 3, 3, ACCEPT))
    refusal = say(partition, first, last, ACCEPT)
    assert isinstance(refusal, Refusal)
    assert refusal.error is error
    assert refusal.message is not None
    assert refusal.message.startswith(message)


def test_acknowledgements_of_a_request_are_all_or_nothing() -> None:
    """The second batch is refused, so the first is acquired again."""
    partition = SharePartition(0, 0)
    fetch(partition, log(5))
    batches = [AcknowledgedBatch(0, 2, [ACCEPT]), AcknowledgedBatch(2, 4, [ACCEPT])]
    assert isinstance(acknowledge(partition, "one", batches, 5, LOCK_MS), Refusal)
    assert partition.delivery_complete_count == 0
    done(partition, say(partition, 0, 4, ACCEPT))
    assert partition.start_offset == 5
    assert isinstance(done(partition, say(partition, 0, 4, ACCEPT)), Transition), "it is done"


@pytest.mark.parametrize(
    ("batches", "may_renew"),
    [
        ([(4, 3, [1])], False),
        ([(0, 3, [1]), (2, 5, [1])], False),
        ([(0, 3, [])], False),
        ([(0, 3, [1, 1])], False),
        ([(0, 0, [5])], True),
        ([(0, 0, [4])], False),
        ([(0, 0, [-1])], False),
    ],
)
def test_shapes_that_make_no_sense(
    batches: list[tuple[int, int, list[int]]], may_renew: bool
) -> None:
    """Ranges and types are checked before the records in flight."""
    given = [AcknowledgedBatch(*each) for each in batches]
    assert shape_error(given, may_renew=may_renew) is ErrorCode.INVALID_REQUEST
    good = [AcknowledgedBatch(0, 1, [1, 4]), AcknowledgedBatch(1, 2, [0])]
    assert shape_error(good, may_renew=True) is ErrorCode.NONE


def test_locks_expire_at_their_deadline() -> None:
    """A record is available again exactly then; its count is written."""
    partition = SharePartition(0, 0)
    fetch(partition, log(2))
    assert partition.expire_locks(LOCK_MS - 1, 5) is None
    write = partition.expire_locks(LOCK_MS, 5)
    assert write == (0, 0, [StateBatch(0, 1, AVAILABLE, 1)])
    assert isinstance(say(partition, 0, 1, ACCEPT), Refusal)
    assert fetch(partition, log(2)) == [(0, 1, 2)]


def test_renewal_keeps_the_lock_and_the_count() -> None:
    """A renewed record is held for the whole duration again; nothing is written."""
    partition = SharePartition(0, 0)
    fetch(partition, log(2))
    batch = AcknowledgedBatch(0, 1, [AcknowledgeType.RENEW, ACCEPT])
    result = acknowledge(partition, "one", [batch], 5, 2 * LOCK_MS)
    assert done(partition, result).write == (0, 1, [StateBatch(1, 1, ACKNOWLEDGED, 1)])
    assert partition.expire_locks(LOCK_MS, 5) is None
    assert partition.next_deadline_ms() is not None
    assert done(partition, say(partition, 0, 0, ACCEPT)).write == (
        0, 2, [StateBatch(0, 0, ACKNOWLEDGED, 1)],
    )  # fmt: skip


def test_lock_expires_while_an_acknowledgement_is_written() -> None:
    """The write counts if it succeeds; if not, the record is as after the end of its lock."""
    for succeeds in (True, False):
        partition = SharePartition(0, 0)
        fetch(partition, log(2))
        result = say(partition, 0, 1, ACCEPT)
        assert isinstance(result, Transition)
        assert partition.expire_locks(LOCK_MS, 5) is None
        if succeeds:
            partition.complete(result)
            assert partition.start_offset == 2
        else:
            partition.undo(result, 5)
            assert fetch(partition, log(2)) == [(0, 1, 2)]


def test_end_of_a_session_releases_and_counts() -> None:
    """What a member held comes back with the next count."""
    partition = SharePartition(0, 0)
    fetch(partition, log(3))
    transition = partition.release("one", 5)
    assert fetch(partition, log(3), "two") == [], "the release is being written"
    done(partition, transition)
    assert fetch(partition, log(3), "two") == [(0, 2, 2)]


def test_aborted_records_are_archived_and_cut_out() -> None:
    """A group that reads committed records does not get those of aborted transactions."""
    partition = SharePartition(0, 0)
    aborted = [LogBatch(2, 3)]
    assert fetch(partition, log(2, 2, 2), aborted=aborted) == [(0, 1, 1), (4, 5, 1)]
    assert partition.delivery_complete_count == 2
    other = SharePartition(0, 0)
    assert fetch(other, log(2), aborted=[LogBatch(0, 1)]) == []
    assert (other.start_offset, other.next_fetch_offset()) == (0, 2)


def test_start_offset_does_not_move_before_a_lock_ends() -> None:
    """The timer of locks may come before the first of them ends; then nothing is written."""
    partition = SharePartition(0, 0)
    assert fetch(partition, log(2, 2), aborted=[LogBatch(0, 1)]) == [(2, 3, 1)]
    assert partition.expire_locks(LOCK_MS - 1, 5) is None
    assert partition.start_offset == 0
    write = partition.expire_locks(LOCK_MS, 5)
    assert write is not None
    assert (write.start_offset, partition.start_offset) == (0, 2)


def test_aborted_records_do_not_reach_the_limit() -> None:
    """The start offset moves over them without a write where they would stop the group."""
    partition = SharePartition(0, 0)
    aborted = [LogBatch(0, 1), LogBatch(2, 3)]
    assert fetch(partition, log(2, 2, 2), aborted=aborted, max_in_flight=4) == []
    assert partition.start_offset == 4
    assert fetch(partition, log(2, 2, 2), max_in_flight=4) == [(4, 5, 1)]


def test_log_start_moves_over_records_in_flight() -> None:
    """What is gone is done; what a member says about it is taken without an effect."""
    partition, batches = SharePartition(0, 0), log(5, 5)
    fetch(partition, batches, max_records=5)
    pending = say(partition, 0, 4, ACCEPT)
    fetch(partition, batches, max_records=5)
    partition.move_log_start(3)
    assert partition.start_offset == 3
    partition.move_log_start(7)
    assert (partition.start_offset, partition.end_offset) == (7, 9)
    done(partition, pending)
    assert done(partition, say(partition, 0, 4, ACCEPT)).write is None
    assert done(partition, say(partition, 5, 9, ACCEPT)).write is not None
    assert partition.start_offset == 10
    partition.move_log_start(20)
    assert partition.next_fetch_offset() == 20


def test_log_start_moves_the_start_offset_no_further() -> None:
    """Records behind it that are done count with the next write, as in Kafka."""
    partition, batches = SharePartition(0, 0), log(5, 5)
    fetch(partition, batches, max_records=5)
    done(partition, say(partition, 0, 1, RELEASE, REJECT))
    partition.move_log_start(1)
    assert (partition.start_offset, partition.next_fetch_offset()) == (1, 5)
    done(partition, say(partition, 4, 4, ACCEPT))
    assert partition.start_offset == 2


def test_compacted_batches_are_archived() -> None:
    """A batch that is gone from the log does not hold the start offset."""
    partition = SharePartition(0, 0)
    fetch(partition, log(2, 2), max_records=4, batch_size=2)
    done(partition, say(partition, 0, 3, RELEASE))
    assert fetch(partition, [LogBatch(2, 3)]) == [(2, 3, 2)]
    assert partition.start_offset == 2


def test_restored_ranges_and_what_is_between() -> None:
    """Final records are skipped, others keep their counts, gaps are read with count 1."""
    restored = [
        StateBatch(0, 2, ACKNOWLEDGED, 1), StateBatch(5, 6, AVAILABLE, 2),
        StateBatch(9, 9, ARCHIVED, 5), StateBatch(12, 12, AVAILABLE, 1),
    ]  # fmt: skip
    partition = SharePartition(0, 0, restored)
    assert (partition.start_offset, partition.end_offset) == (3, 12)
    assert partition.next_fetch_offset() == 3
    assert fetch(partition, log(15), batch_size=100) == [
        (3, 4, 1), (5, 6, 3), (7, 8, 1), (10, 11, 1), (12, 12, 2), (13, 14, 1),
    ]  # fmt: skip
    one_by_one = SharePartition(0, 0, restored)
    taken = [fetch(one_by_one, log(15), max_records=1, by_records=True) for _ in range(11)]
    offsets = [entry[0] for entries in taken for entry in entries]
    assert offsets == [3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14]


def test_good_and_bad_records_in_one_batch() -> None:
    """Accepted records stay accepted; the bad one is isolated and archived."""
    partition, batches = SharePartition(0, 0), log(3)
    fetch(partition, batches)
    done(partition, say(partition, 0, 2, ACCEPT, RELEASE, ACCEPT))
    for count in (2, 3, 4, 5):
        assert fetch(partition, batches) == [(1, 1, count)]
        done(partition, say(partition, 1, 1, RELEASE if count < 5 else REJECT))
    assert partition.start_offset == 3


@pytest.mark.parametrize("seed", range(40))
def test_what_is_behind_the_last_wanted_offset_changes_nothing(seed: int) -> None:
    """A fetch that reads no further acquires what one acquires that reads the whole log."""
    chance = random.Random(seed)
    batches = log(*(chance.randrange(1, 9) for _ in range(40)))
    whole, limited = SharePartition(0, 0), SharePartition(0, 0)
    for _ in range(60):
        asked: dict[str, Any] = {
            "max_records": chance.choice([1, 2, 5, 20]),
            "batch_size": chance.choice([1, 4, 50]),
            "by_records": chance.random() < 0.5,
            "max_in_flight": chance.choice([10, 50]),
        }
        last = limited.last_wanted(limited.next_fetch_offset(), asked["max_records"])
        part = [each for each in batches if each.base_offset <= last]
        taken = fetch(whole, batches, **asked)
        assert fetch(limited, part, **asked) == taken
        for first, end, _ in taken:
            middle = chance.randint(first, end)
            kind = chance.choice([ACCEPT, RELEASE, REJECT])
            for partition in (whole, limited):
                transition = say(partition, first, middle, kind)
                assert isinstance(transition, Transition)
                partition.complete(transition)
        if chance.random() < 0.3:
            for partition in (whole, limited):
                partition.expire_locks(LOCK_MS, 5)
        states = [[repr(each.states) for each in share.batches] for share in (whole, limited)]
        assert states[0] == states[1]
        assert (whole.start_offset, whole.end_offset) == (limited.start_offset, limited.end_offset)
