"""Compaction on a manual event loop: what is cleaned and when, at which pace, and failures."""

import contextlib
import errno
import threading
from typing import Any

import pytest

from coterie.server.broker import Broker
from coterie.storage.cleaner import Cleaning
from coterie.storage.errors import StorageError
from coterie.storage.memory_filesystem import MemoryFileSystem
from coterie.storage.swap import PendingDisk
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.server.changed_now import set_broker_settings, set_overrides
from tests.unit.server.maintenance import (
    BACKOFF_MS,
    COMPACT,
    PATIENCE_S,
    SEGMENT_BYTES,
    advance,
    files_of,
    fill,
    make_topic,
    newest_values,
    records,
    start_broker,
    until,
)
from tests.unit.server.manual import Client, logged, loop_of, make_broker, open_log
from tests.unit.server.produced import batch, produce


class TestCompaction:
    def test_newest_value_of_each_key_is_kept(self) -> None:
        broker = start_broker()
        log = make_topic(broker)
        newest = fill(log, broker)
        end, before, size_bytes = log.log_end_offset, records(log), log.size_bytes
        advance(broker, BACKOFF_MS + 2_000)
        assert newest_values(log) == newest
        assert records(log) < before / 3
        assert log.size_bytes < size_bytes / 2
        assert log.log_end_offset == end
        (line,) = logged(broker, "log cleaned")
        assert (line["topic"], line["partition"]) == ("t", 0)
        assert line["bytes_after"] < line["bytes_before"]
        # Up to the active segment, which is never cleaned.
        assert line["to_offset"] == log.segments[-1].base_offset
        assert broker._data.cleaner_offset("t", 0) == line["to_offset"]
        cleaner = broker.maintenance.cleaner
        assert cleaner.cleanings == 1
        assert cleaner.bytes_read > cleaner.bytes_written > 0
        assert cleaner.records_kept == line["records"] > 0
        assert cleaner.max_dirty_ratio < 0.5

    def test_next_cleaning_begins_where_the_last_one_ended(self) -> None:
        broker = start_broker()
        log = make_topic(broker)
        fill(log, broker)
        advance(broker, BACKOFF_MS * 3)
        assert broker.maintenance.cleaner.cleanings == 1
        newest = fill(log, broker)
        advance(broker, BACKOFF_MS * 2)
        assert broker.maintenance.cleaner.cleanings == 2
        assert newest_values(log) == newest

    def test_appends_between_two_slices_are_kept(self) -> None:
        broker = start_broker()
        log = make_topic(broker)
        newest = fill(log, broker, rounds=200)
        until(broker, lambda: broker.maintenance.cleaner.busy)
        slices = 0
        while broker.maintenance.cleaner.busy:
            newest |= fill(log, broker, rounds=1, keys=12)
            slices += 1
            advance(broker, 1)
        assert slices > 5
        assert newest_values(log) == newest

    def test_log_with_the_largest_dirty_share_is_cleaned_first(self) -> None:
        broker = start_broker()
        for name, rounds in (("half", 40), ("dirty", 40), ("clean", 40)):
            fill(make_topic(broker, name), broker, rounds)
        for name, share in (("half", 0.5), ("clean", 0.8)):
            log = broker.topics.by_name[name].partitions[0].log
            offset = log.segments[int(len(log.segments) * share)].base_offset
            broker._data.set_cleaner_offset(name, 0, offset)
        advance(broker, BACKOFF_MS + 5_000)
        assert [line["topic"] for line in logged(broker, "log cleaned")] == [
            "dirty",
            "half",
            "clean",
        ]

    def test_log_below_its_dirty_ratio_is_not_cleaned(self) -> None:
        broker = start_broker()
        overrides = {**COMPACT, "min.cleanable.dirty.ratio": "1"}
        log = make_topic(broker, overrides=overrides)
        fill(log, broker)
        broker._data.set_cleaner_offset("t", 0, log.segments[2].base_offset)
        advance(broker, BACKOFF_MS * 2)
        assert broker.maintenance.cleaner.cleanings == 0
        set_overrides(broker, broker.topics.by_name["t"], COMPACT)
        advance(broker, BACKOFF_MS + 2_000)
        assert broker.maintenance.cleaner.cleanings == 1

    def test_settings_of_the_broker_are_defaults_of_topics(self) -> None:
        settings = {"log.cleanup.policy": "compact", "log.cleaner.backoff.ms": "100"}
        broker = start_broker(settings)
        log = make_topic(broker, overrides={})
        fill(log, broker)
        broker._data.set_cleaner_offset("t", 0, log.segments[2].base_offset)
        set_broker_settings(broker, {"log.cleaner.min.cleanable.ratio": "1"}, {})
        advance(broker, 5_000)
        assert broker.maintenance.cleaner.cleanings == 0
        set_broker_settings(broker, {}, {})
        advance(broker, 5_000)
        assert broker.maintenance.cleaner.cleanings == 1

    def test_topic_that_is_not_compacted_is_not_cleaned(self) -> None:
        broker = start_broker()
        log = make_topic(broker, overrides={})
        fill(log, broker)
        before = records(log)
        advance(broker, BACKOFF_MS * 2)
        assert records(log) == before

    def test_cleaner_can_be_disabled(self) -> None:
        broker = start_broker({"log.cleaner.enable": "false"})
        fill(make_topic(broker), broker)
        advance(broker, BACKOFF_MS * 3)
        assert broker.maintenance.cleaner.cleanings == 0

    def test_partition_is_not_cleaned_while_it_is_loaded(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broker = start_broker({"log.cleaner.min.cleanable.ratio": "0.01"})
        partition = broker.topics.by_name["__consumer_offsets"].partitions[1]
        partition.log.config = partition.log.config._replace(segment_bytes=SEGMENT_BYTES)
        fill(partition.log, broker)
        loading = {1}
        monkeypatch.setattr(broker.groups, "is_loading", lambda index: index in loading)
        advance(broker, BACKOFF_MS * 2)
        assert broker.maintenance.cleaner.cleanings == 0
        loading.clear()
        until(broker, lambda: broker.maintenance.cleaner.busy)
        # A load that begins during a cleaning pauses it.
        loading.add(1)
        size_bytes = partition.log.size_bytes
        advance(broker, BACKOFF_MS * 2)
        assert broker.maintenance.cleaner.busy
        assert partition.log.size_bytes == size_bytes
        loading.clear()
        advance(broker, 1_000)
        assert broker.maintenance.cleaner.cleanings == 1
        assert partition.log.size_bytes < size_bytes

    def test_active_segment_is_rolled_after_max_compaction_lag(self) -> None:
        broker = start_broker()
        overrides = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "1",
            "max.compaction.lag.ms": "60000",
        }
        log = make_topic(broker, overrides=overrides)
        newest = fill(log, broker, rounds=2)
        advance(broker, 40_000)
        assert (len(log.segments), broker.maintenance.cleaner.cleanings) == (1, 0)
        advance(broker, 40_000)
        assert broker.maintenance.cleaner.cleanings == 1
        assert newest_values(log) == newest
        assert records(log) == len(newest)

    def test_closed_log_is_opened_and_cleaned_if_it_has_records(self) -> None:
        filesystem = MemoryFileSystem()
        broker = make_broker(filesystem=filesystem)
        log = make_topic(broker, partitions=2)
        newest = fill(log, broker)
        log.roll()
        broker._data.close()
        again = start_broker(filesystem=filesystem)
        used, unused = again.topics.by_name["t"].partitions
        advance(again, 5_000)
        assert again.maintenance.cleaner.cleanings == 1
        assert newest_values(used.log) == newest
        assert unused.opened_log is None


class TestPace:
    def test_cleaning_takes_at_most_a_quarter_of_the_time(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broker = start_broker()
        fill(make_topic(broker), broker, rounds=100)
        clock = [0.0]

        def tick() -> float:
            clock[0] += 0.0002
            return clock[0]

        monkeypatch.setattr(broker.maintenance.cleaner, "_slice_clock_s", tick)
        rests: list[tuple[float, float]] = []
        later = broker.loop.call_later

        def call_later(delay_s: float, call: Any, *arguments: Any) -> Any:
            if getattr(call, "__name__", "") == "_slice":
                rests.append((clock[0] - slices[-1], delay_s))
            return later(delay_s, call, *arguments)

        slices: list[float] = []
        cleaner = broker.maintenance.cleaner
        slice_ = cleaner._slice

        def _slice() -> None:
            slices.append(clock[0])
            slice_()

        monkeypatch.setattr(cleaner, "_slice", _slice)
        monkeypatch.setattr(broker.loop, "call_later", call_later)
        advance(broker, BACKOFF_MS + 5_000)
        assert cleaner.cleanings == 1
        assert len(rests) > 3
        for took_s, rest_s in rests:
            # Less than three times: the clock ticks once more after the slice was measured.
            assert rest_s >= 2 * took_s
            assert took_s <= 0.0012

    def test_bytes_a_second_are_limited(self) -> None:
        rate = 20_000
        broker = start_broker({"log.cleaner.io.max.bytes.per.second": str(rate)})
        log = make_topic(broker)
        fill(log, broker, rounds=50)
        size_bytes = log.size_bytes
        cleaner = broker.maintenance.cleaner
        until(broker, lambda: cleaner.busy)
        began_ms = broker.now_ms()
        until(broker, lambda: not cleaner.busy)
        took_s = (broker.now_ms() - began_ms) / 1000
        assert cleaner.cleanings == 1
        # Every dirty byte is read twice: for the map and for the copy.
        assert took_s > 1.5 * size_bytes / rate
        assert took_s < 4 * size_bytes / rate


class TestDeletion:
    @pytest.mark.parametrize("waits", [False, True])
    def test_topic_may_be_deleted_during_its_cleaning(
        self, monkeypatch: pytest.MonkeyPatch, *, waits: bool
    ) -> None:
        broker = start_broker()
        fill(make_topic(broker, "deleted"), broker, rounds=100)
        other = make_topic(broker, "other")
        newest = fill(other, broker)
        cleaner = broker.maintenance.cleaner
        loop = loop_of(broker)
        go_on = threading.Event()
        run_pending = PendingDisk.run

        def slowly(pending: PendingDisk) -> None:
            assert go_on.wait(PATIENCE_S)
            run_pending(pending)

        monkeypatch.setattr(PendingDisk, "run", slowly)
        while not cleaner.busy or (waits and cleaner._workers.idle):
            loop.advance(1)
        assert (not cleaner._workers.idle) == waits
        threading.Timer(0.05, go_on.set).start()
        broker.delete_topic(broker.topics.by_name["deleted"])
        assert not broker._data.files.filesystem.exists("memory/deleted-0")
        again = make_topic(broker, "deleted")
        kept = fill(again, broker, rounds=2)
        advance(broker, BACKOFF_MS * 2)
        assert newest_values(other) == newest
        assert newest_values(again) == kept
        assert "other" in [line["topic"] for line in logged(broker, "log cleaned")]
        assert logged(broker, "log not cleaned") == []

    def test_stop_abandons_the_cleaning_in_progress(self) -> None:
        broker = start_broker()
        log = make_topic(broker)
        newest = fill(log, broker, rounds=100)
        until(broker, lambda: broker.maintenance.cleaner.busy)
        loop = loop_of(broker)
        timers = loop.timers
        broker.maintenance.stop()
        assert loop.timers == timers - 4
        assert not any("cleaned" in name or "swap" in name for name in files_of(broker, "t-0"))
        assert newest_values(log) == newest
        advance(broker, BACKOFF_MS * 2)
        assert broker.maintenance.cleaner.cleanings == 0


class TestFailures:
    def test_cleaning_is_retried_after_a_full_disk(self) -> None:
        faulty = FaultyFileSystem(MemoryFileSystem())
        broker = start_broker(filesystem=faulty)
        log = make_topic(broker)
        newest = fill(log, broker)
        cleaner = broker.maintenance.cleaner
        partition = broker.topics.by_name["t"].partitions[0]
        for attempt in (1, 2):
            faulty.fail_at("create", 1, errno.ENOSPC)
            until(broker, lambda: faulty.failed == attempt)  # noqa: B023 - used before the next turn
            advance(broker, 10)
            line = logged(broker, "log not cleaned")[-1]
            assert line["topic"] == "t"
            assert "No space left" in line["cause"] or "ENOSPC" in line["cause"]
            assert "make room" in line["remedy"]
            assert line["retry_in_s"] == 60 * attempt
            assert cleaner.uncleanable[partition].attempts == attempt
            assert not log.failed
            assert produce(Client(broker), batch(b"v", key=b"new")).error_code == 0
            newest[b"new"] = b"v"
        assert cleaner.cleanings == 0
        advance(broker, 140_000)
        assert cleaner.cleanings == 1
        assert cleaner.uncleanable == {}
        assert newest_values(log) == newest

    def damaged(self, *names: str) -> tuple[Broker, str]:
        """Start a broker with these topics, the first one damaged; return the damaged file."""
        filesystem = MemoryFileSystem()
        before = make_broker(filesystem=filesystem)
        logs = [make_topic(before, name) for name in names]
        for log in logs:
            fill(log, before)
        before._data.close()
        broken = logs[0].segments[0].path
        filesystem.open(broken).write(700, b"\xff" * 8)
        return start_broker(filesystem=filesystem), broken

    def test_cleaning_is_not_retried_after_damage(self) -> None:
        broker, broken = self.damaged("t")
        advance(broker, BACKOFF_MS * 4)
        (line,) = logged(broker, "log not cleaned")
        assert line["file"] == broken
        assert 0 < line["position"] <= 700
        assert line["retry_in_s"] is None
        assert "copy" in line["remedy"]
        assert len(broker.maintenance.cleaner.uncleanable) == 1
        # Appends do not depend on the damaged segment.
        assert produce(Client(broker), batch(b"v")).error_code == 0

    def test_damaged_log_does_not_stop_the_cleaning_of_others(self) -> None:
        broker, _ = self.damaged("bad", "good")
        advance(broker, BACKOFF_MS)
        assert [line["topic"] for line in logged(broker, "log cleaned")] == ["good"]

    def test_error_in_the_cleaner_is_logged_with_its_traceback(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broker = start_broker()
        fill(make_topic(broker), broker)

        def wrong(_cleaning: Cleaning, *_: object) -> None:
            raise ZeroDivisionError("our mistake")

        monkeypatch.setattr(Cleaning, "_clean_group", wrong)
        advance(broker, BACKOFF_MS * 2)
        (line,) = logged(broker, "log not cleaned")
        assert isinstance(line["exc_info"], ZeroDivisionError)
        assert produce(Client(broker), batch(b"v")).error_code == 0

    @pytest.mark.parametrize("kind", ["writing", "read", "open", "create", "rename", "sync"])
    def test_no_failed_call_loses_a_record(self, kind: str) -> None:
        """Each call fails in turn; all records are there afterwards, and after a restart."""
        n = 0
        while True:
            n += 1
            faulty = FaultyFileSystem(MemoryFileSystem())
            broker = start_broker(filesystem=faulty)
            log = make_topic(broker)
            newest = fill(log, broker, rounds=8)
            calls = faulty.calls[kind]
            faulty.fail_at(kind, n)
            advance(broker, BACKOFF_MS + 2_000)
            failed, last = faulty.failed, faulty.calls[kind] - calls
            faulty.fail_at("", 0)
            if not log.failed:
                assert newest_values(log) == newest, f"{kind} {n}"
            broker.maintenance.stop()
            if not failed:
                assert last < n
                break
            with contextlib.suppress(OSError, StorageError):
                broker._data.close()
            again = make_broker(filesystem=faulty)
            assert newest_values(open_log(again, "t")) == newest
        assert n > 2 or kind in ("rename", "sync", "create"), "canary: calls have failed"


def test_idle_producers_are_forgotten() -> None:
    """[data-plane/producer-expiration]"""
    broker = start_broker(
        {
            "producer.id.expiration.ms": "60000",
            "producer.id.expiration.check.interval.ms": "5000",
        }
    )
    client = Client(broker)
    broker.controller.create("t", 1, {})
    for producer_id in range(1200):
        produce(client, batch(b"a", producer=(producer_id, 0, 0)))
    log = broker.topics.by_name["t"].partitions[0].log
    advance(broker, 40_000)
    produce(client, batch(b"b", producer=(7, 0, 1)))
    assert len(log.producers) == 1200
    advance(broker, 25_000)
    assert [entry.producer_id for entry in log.producers] == [7]
    assert produce(client, batch(b"c", producer=(8, 0, 55))).error_code == 0
