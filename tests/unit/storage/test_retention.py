"""Retention by time and size removes whole segments from the front [log/retention]."""

from coterie.storage.log import Log
from tests.unit.storage.conftest import Place
from tests.unit.storage.test_cleaner import NOW_MS, filled, left, opened, pair


def offsets(log: Log) -> list[int]:
    return [offset for offset, _ in left(log)]


def test_segments_whose_records_are_all_too_old_are_removed(place: Place) -> None:
    log = filled(place)
    pair(log, b"key", b"active", NOW_MS)
    # Segment n has timestamps NOW_MS + 1000 n.
    assert log.remove_expired(NOW_MS + 2000, 2000, -1) == []
    removed = log.remove_expired(NOW_MS + 2001, 1000, -1)
    assert [(each.base_offset, each.next_offset, each.reason) for each in removed] == [
        (0, 5, "time"), (5, 10, "time"),
    ]  # fmt: skip
    assert log.log_start_offset == 10
    assert offsets(log) == list(range(10, 21))
    log.close()
    assert offsets(opened(place)) == list(range(10, 21))


def test_a_young_segment_keeps_the_old_ones_behind_it(place: Place) -> None:
    log = opened(place)
    pair(log, b"key", b"young", NOW_MS)
    log.roll()
    pair(log, b"key", b"old", NOW_MS - 10_000)
    log.roll()
    assert log.remove_expired(NOW_MS + 1, 1000, -1) == []


def test_the_active_segment_is_rolled_if_every_record_is_too_old(place: Place) -> None:
    log = filled(place)
    pair(log, b"key", b"active", NOW_MS)
    assert len(log.remove_expired(NOW_MS + 100_000, 1000, -1)) == 5
    assert (log.log_start_offset, log.log_end_offset) == (21, 21)
    assert log.remove_expired(NOW_MS + 200_000, 0, 0) == []
    pair(log, b"key", b"again")
    assert offsets(log) == [21]


def test_size_removes_no_more_than_the_excess(place: Place) -> None:
    log = filled(place)
    size = log.segments[0].size
    assert log.remove_expired(NOW_MS, -1, 4 * size) == []
    assert log.remove_expired(NOW_MS, -1, 3 * size + 1) == []
    removed = log.remove_expired(NOW_MS, -1, 2 * size)
    assert [(each.base_offset, each.size_bytes, each.reason) for each in removed] == [
        (0, size, "size"), (5, size, "size"),
    ]  # fmt: skip
    assert offsets(log) == list(range(10, 20))


def test_time_is_applied_before_size(place: Place) -> None:
    log = filled(place)
    size = log.segments[0].size
    removed = log.remove_expired(NOW_MS + 1001, 1000, 2 * size)
    assert [each.reason for each in removed] == ["time", "size"]


def test_a_segment_without_timestamps_never_expires(place: Place) -> None:
    log = opened(place)
    pair(log, b"key", b"timeless", -1)
    log.roll()
    pair(log, b"key", b"active", NOW_MS)
    assert log.remove_expired(NOW_MS + 100, 1000, -1) == []
    assert offsets(log) == [0, 1]


def test_without_limits_nothing_is_removed(place: Place) -> None:
    log = filled(place)
    assert log.remove_expired(NOW_MS * 2, -1, -1) == []
