"""Retention, checkpoints, and the start and stop of background work, on a manual event loop."""

import errno

from coterie.server.logs.maintenance import DIRECTORY_CHECK_S
from coterie.storage.memory_filesystem import MemoryFileSystem
from tests.faulty_filesystem import FaultyFileSystem
from tests.unit.server.changed_now import set_broker_settings
from tests.unit.server.maintenance import (
    BACKOFF_MS,
    COMPACT,
    SEGMENT_BYTES,
    advance,
    fill,
    make_topic,
    newest_values,
    start_broker,
    until,
)
from tests.unit.server.manual import logged, loop_of, make_broker, open_log, run


class TestRetention:
    DELETE = {"retention.ms": "60000"}

    def test_retention_by_time(self) -> None:
        filesystem = MemoryFileSystem()
        broker = start_broker(filesystem=filesystem)
        log = make_topic(broker, overrides=self.DELETE)
        fill(log, broker)
        old_end = log.log_end_offset
        advance(broker, 29_000)
        assert log.log_start_offset == 0
        advance(broker, 61_000)
        fill(log, broker, rounds=1)
        advance(broker, 300_000)
        assert log.log_start_offset >= old_end
        line = logged(broker, "segments removed")[0]
        assert (line["topic"], line["reason"]) == ("t", "time")
        assert broker.maintenance.segments_removed == line["segments"] > 1
        assert broker.maintenance.bytes_removed == line["bytes"] > 0
        start = log.log_start_offset
        broker.maintenance.stop()
        broker._data.close()
        again = make_broker(filesystem=filesystem)
        assert open_log(again, "t").log_start_offset == start

    def test_retention_by_size(self) -> None:
        broker = start_broker()
        log = make_topic(broker, overrides={"retention.bytes": str(3 * SEGMENT_BYTES)})
        fill(log, broker)
        advance(broker, 31_000)
        assert log.size_bytes < 4 * SEGMENT_BYTES
        assert logged(broker, "segments removed")[0]["reason"] == "size"

    def test_interval_is_a_setting(self) -> None:
        settings = {"log.retention.check.interval.ms": "1000", "log.initial.task.delay.ms": "0"}
        broker = start_broker(settings)
        log = make_topic(broker, overrides={"retention.ms": "5000"})
        fill(log, broker)
        advance(broker, 4_500)
        assert log.log_start_offset == 0
        advance(broker, 2_000)
        assert log.log_start_offset == log.log_end_offset

    def test_compact_and_delete(self) -> None:
        broker = start_broker()
        overrides = {**COMPACT, "cleanup.policy": "compact,delete", "retention.ms": "400000"}
        log = make_topic(broker, overrides=overrides)
        newest = fill(log, broker)
        advance(broker, BACKOFF_MS + 5_000)
        assert broker.maintenance.cleaner.cleanings == 1
        assert newest_values(log) == newest
        advance(broker, 800_000)
        assert log.log_start_offset == log.log_end_offset

    def test_topic_that_is_only_compacted_has_no_retention(self) -> None:
        broker = start_broker()
        log = make_topic(broker, overrides={**COMPACT, "retention.ms": "1000"})
        newest = fill(log, broker)
        advance(broker, 700_000)
        assert newest_values(log) == newest

    def test_retention_during_a_cleaning_ends_it(self) -> None:
        settings = {
            "log.cleaner.io.max.bytes.per.second": "20000",
            "log.retention.check.interval.ms": "100",
            "log.initial.task.delay.ms": "0",
        }
        broker = start_broker(settings)
        overrides = {**COMPACT, "cleanup.policy": "compact,delete", "retention.ms": "16000"}
        log = make_topic(broker, overrides=overrides)
        fill(log, broker)
        until(broker, lambda: broker.maintenance.cleaner.busy)
        assert log.log_start_offset == 0
        advance(broker, 4_000)
        assert log.log_start_offset == log.log_end_offset
        assert not broker.maintenance.cleaner.busy
        assert broker.maintenance.cleaner.cleanings == 0
        assert logged(broker, "log not cleaned") == []
        set_broker_settings(broker, {"log.cleaner.io.max.bytes.per.second": "1e9"}, {})
        # The change has reset the segment size of the log to that of its settings.
        log.config = log.config._replace(segment_bytes=SEGMENT_BYTES)
        newest = fill(log, broker)
        advance(broker, 15_800)
        assert newest_values(log) == newest
        assert broker.maintenance.cleaner.cleanings == 1

    def test_log_whose_segments_cannot_be_removed_fails(self) -> None:
        faulty = FaultyFileSystem(MemoryFileSystem())
        broker = start_broker(filesystem=faulty)
        log = make_topic(broker, overrides=self.DELETE)
        fill(log, broker)
        advance(broker, 61_000)
        faulty.fail_at("remove", 1)
        advance(broker, 300_000)
        assert faulty.failed == 1
        (line,) = logged(broker, "log failed")
        assert "dmesg" in line["remedy"]
        assert log.failed


class TestCheckpoints:
    def test_recovery_points_are_written_every_minute(self) -> None:
        filesystem = MemoryFileSystem()
        broker = start_broker(filesystem=filesystem)
        log = make_topic(broker, overrides={})
        fill(log, broker, rounds=1)
        log.sync()
        assert broker._data.recovery_point("t", 0) == 0
        advance(broker, 61_000)
        assert broker._data.recovery_point("t", 0) == log.log_end_offset
        assert filesystem.exists("memory/recovery-point-offset-checkpoint")

    def test_nothing_is_written_after_the_work_was_stopped(self) -> None:
        """The directory may be another broker's by then."""
        filesystem = MemoryFileSystem()
        broker = start_broker(filesystem=filesystem)
        log = make_topic(broker, overrides={})
        fill(log, broker, rounds=1)
        log.sync()
        broker.maintenance._write_recovery_points()
        broker.maintenance.stop()
        advance(broker, 61_000)
        assert not filesystem.exists("memory/recovery-point-offset-checkpoint")

    def test_failed_checkpoint_is_logged_and_retried(self) -> None:
        faulty = FaultyFileSystem(MemoryFileSystem())
        broker = start_broker(filesystem=faulty)
        log = make_topic(broker, overrides={})
        for turn in (1, 2):
            fill(log, broker, rounds=1)
            log.sync()
            faulty.fail_at("create", 1, errno.ENOSPC)
            advance(broker, 60_000)
            assert faulty.failed == turn
            assert len(logged(broker, "recovery points not written")) == turn
        assert "make room" in logged(broker, "recovery points not written")[0]["remedy"]
        advance(broker, 60_000)
        assert broker._data.recovery_point("t", 0) == log.log_end_offset
        assert not broker.fatal.done()


def test_stop_of_the_broker_ends_background_work() -> None:
    broker = start_broker()
    loop = loop_of(broker)
    assert loop.timers >= 4
    advance(broker, int(DIRECTORY_CHECK_S * 5_000))
    assert not broker.fatal.done()
    run(broker, broker.stop())
    left = loop.timers
    broker.maintenance.stop()
    assert loop.timers == left
