"""Following: every record counts once even if the process is killed; clusters over the wire.

Rules: [pipeline/manifest].
"""

import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow.dataset as ds
import pytest

from benchmarks_pipeline.logs import SegmentWriter
from coterie.processes import Child
from coterie.protocol.records import encode_batch
from coterie.protocol.topic_names import OFFSETS_TOPIC
from tests.live.broker_process import FAST_GROUPS, BrokerProcess
from tests.live.deadlines import eventually
from tests.pipeline.histories import NOW_MS, commit_key, commit_value, write_segments

R = TypeVar("R")

pytestmark = pytest.mark.slow
PARTITIONS = 2
# Set the variable for more kills.
KILLS = int(os.environ.get("COTERIE_TEST_KILLS", "3"))
# A busy machine needs long to start a process.
PATIENCE_S = 180.0


class Feeder(threading.Thread):
    """A thread that appends to a log all the time, and rolls segments."""

    def __init__(self, logs: Path) -> None:
        super().__init__(daemon=True)
        self.writers = [
            SegmentWriter(str(logs / f"{OFFSETS_TOPIC}-{number}"), 16 << 10)
            for number in range(PARTITIONS)
        ]
        self.done = threading.Event()
        self.put()

    def put(self) -> None:
        for writer in self.writers:
            offset = writer.next_offset
            pairs = [(commit_key(partition=each), commit_value(offset=offset)) for each in range(3)]
            writer.append(pairs, int(time.time() * 1000))
            writer.flush()

    def run(self) -> None:
        while not self.done.wait(0.02):
            self.put()
        for writer in self.writers:
            writer.close()


def start_following(logs: Path, output: Path, build_every_s: float = 3) -> Child:
    """Start the program of `following.py`."""
    command = [sys.executable, "-m", "tests.pipeline.following", str(logs), str(output)]
    # A killed process leaves its temporary files in this directory.
    scratch = logs.with_name("scratch")
    scratch.mkdir(exist_ok=True)
    log = scratch / f"{time.monotonic_ns()}.log"
    environment = os.environ | {"TMPDIR": str(scratch)}
    return Child("The follower", [*command, str(build_every_s)], log, environment)


def offsets_of(output: Path, table: str) -> list[tuple[int, int]]:
    """Return the places of the records that any reader of Parquet finds in a table."""
    found = ds.dataset(str(output / table), format="parquet").to_table(
        columns=["log_partition", "log_offset"]
    )
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


def rows_of(output: Path) -> list[dict[str, object]]:
    """Return all records in bronze, sorted by place."""
    found = ds.dataset(str(output / "log_records"), format="parquet").to_table()
    order = [("log_partition", "ascending"), ("log_offset", "ascending")]
    rows: list[dict[str, object]] = found.sort_by(order).to_pylist()
    return rows


@pytest.mark.timeout(900)
def test_every_record_counts_once_if_the_process_is_killed_at_random_times(tmp_path: Path) -> None:
    rng = random.Random(12)
    logs, output = tmp_path / "logs", tmp_path / "output"
    feeder = Feeder(logs)
    feeder.start()
    for _ in range(KILLS):
        follower = start_following(logs, output)
        follower.wait_for_line("appended", PATIENCE_S)
        time.sleep(rng.uniform(0.1, 5))
        assert follower.kill() == -signal.SIGKILL
    # A directory that was being written when a process was killed must be removed.
    (output / "log_records" / ".part=new-killed").mkdir()
    follower = start_following(logs, output)
    follower.wait_for_line("appended", PATIENCE_S)
    feeder.done.set()
    feeder.join()
    follower.signal(signal.SIGTERM)
    follower.wait_for_line("done", PATIENCE_S)
    assert follower.wait(PATIENCE_S) == 0
    expected = [
        (number, offset)
        for number, writer in enumerate(feeder.writers)
        for offset in range(writer.next_offset)
    ]
    assert offsets_of(output, "log_records") == expected
    # The last build has decoded all of it, once.
    assert offsets_of(output, "offset_commits") == expected
    manifest = json.loads((output / "manifest.json").read_text())
    for table, parts in manifest["tables"].items():
        assert sorted(parts) == sorted(os.listdir(output / table))
    (stored,) = manifest["inputs"].values()
    assert stored["next_offsets"][OFFSETS_TOPIC] == {
        str(number): writer.next_offset for number, writer in enumerate(feeder.writers)
    }


@pytest.mark.timeout(300)
def test_run_over_the_wire_has_lags_and_the_files_add_nothing(tmp_path: Path) -> None:
    from coterie.client.cluster import Cluster
    from coterie.client.topics import create_topic
    from coterie.pipeline.engine import LocalEngine
    from coterie.pipeline.jobs.replay import replay_groups
    from coterie.pipeline.jobs.run import run
    from coterie.pipeline.part_files import read_table
    from coterie.pipeline.replay_rows import summed
    from coterie.pipeline.store import Store
    from tests.pipeline.test_kafka_input import join_a_group, wait_for_journal

    server = BrokerProcess(tmp_path / "data", FAST_GROUPS | {"offsets.topic.num.partitions": "4"})
    server.start()
    try:
        with Cluster(server.bootstrap) as cluster:
            assert not create_topic(cluster, "paid", 3, 1).error
        join_a_group(server.bootstrap)
        wait_for_journal(server.data_dir, "readers")
        output = str(tmp_path / "output")
        run(LocalEngine(), ["kafka://" + server.bootstrap], output)
        store = Store.reading(output)
        rows = {table: store.rows(table) for table in ("log_records", "journal_records")}
        assert all(rows.values())
        assert store.rows("log_ends") == 2 * 3
        lags = read_table(store, "lag_1m").sort_by("partition").to_pylist()
        # The group may have committed in the minute before, whose log ends nobody has asked for.
        newest = max(row["window_start_ts"] for row in lags)
        shown = [(row["partition"], row["lag"]) for row in lags if row["window_start_ts"] == newest]
        assert shown == [(0, 0), (1, 0), (2, 0)]
        run(LocalEngine(), [str(server.data_dir)], output)
        assert {table: Store.reading(output).rows(table) for table in rows} == rows
    finally:
        server.kill()
    (replayed,) = (summed(row) for row in replay_groups(LocalEngine(), store, "sticky").to_pylist())
    assert (replayed["group"], replayed["problem"]) == ("readers", None)
    assert (replayed["rebalances"], replayed["moved"], replayed["needless"]) == (1, 0, 0)
    assert replayed["recorded_unowned_ms"] == replayed["unowned_ms"]
    assert not replay_groups(LocalEngine(), store, "range", groups=["unknown"]).num_rows


@pytest.mark.timeout(300)
def test_thread_reads_what_is_completed_cleaned_and_new(tmp_path: Path) -> None:
    from coterie.pipeline.jobs.live_store import LiveStore
    from tests.pipeline.test_tail import INPUT, tail_of

    batches = [
        encode_batch([(commit_key(), commit_value(offset=number))] * 2, 2 * number, NOW_MS)
        for number in range(60)
    ]
    logs, output = tmp_path / "logs", tmp_path / "out"
    first, second, third = (logs / f"{OFFSETS_TOPIC}-{number}" for number in range(3))
    # The first partition has a damaged batch and a torn end.
    bad = batches[3][:-1] + bytes([batches[3][-1] ^ 1])
    begun = [*batches[:3], bad, *batches[4:10]]
    write_segments(str(first), (0, [*begun, batches[10][:70]]))
    write_segments(str(second), (0, batches[:20]))
    with LiveStore.open(str(output)) as store:
        tail = tail_of(store, logs)

        def wait_for(positions: dict[int, int]) -> None:
            def are_reached() -> bool:
                tail.check()
                return store.position(INPUT) == positions

            eventually(are_reached, f"the positions {positions}", PATIENCE_S)

        tail.start()
        try:
            wait_for({0: 20, 1: 40})
            # The torn batch is completed, the second log rolled and compacted, and a third is new.
            write_segments(str(first), (0, [*begun, batches[10]]))
            write_segments(str(tmp_path / "cleaned"), (0, batches[:20:3]))
            for name in os.listdir(tmp_path / "cleaned"):
                os.replace(tmp_path / "cleaned" / name, second / name)
            write_segments(str(second), (40, batches[20:22]))
            write_segments(str(third), (80, batches[40:60]))
            wait_for({0: 22, 1: 44, 2: 120})
        finally:
            tail.stop()
    places = {0: [*range(6), *range(8, 22)], 1: range(44), 2: range(80, 120)}
    expected = [(number, offset) for number, offsets in places.items() for offset in offsets]
    assert offsets_of(output, "log_records") == expected
    assert offsets_of(output, "quarantine") == [(0, 6)]


@pytest.mark.timeout(300)
def test_command_prints_a_line_for_each_build_and_stops_within_seconds(tmp_path: Path) -> None:
    logs, output = tmp_path / "logs", tmp_path / "out"
    feeder = Feeder(logs)
    feeder.start()
    command = [sys.executable, "-m", "coterie", "pipeline", "run", "--follow"]
    options = ["--input", str(logs), "--output", str(output), "--build-every", "1"]
    child = Child("The run", [*command, *options, "--engine", "local"], tmp_path / "output")
    try:
        build = r"[\d,]+ new records, \d+ tables in \d+\.\d s, \d+\.\d s behind"
        for _ in range(3):
            child.wait_for_line(build, PATIENCE_S)
        # Three seconds on a quiet machine; it would go on for ever without the signal.
        assert child.end(limit_s=60) == 0
    finally:
        child.kill()
        feeder.done.set()
        feeder.join()
    assert "Followed for" in child.rest()
    assert offsets_of(output, "log_records")


def test_build_that_does_not_end_in_time_is_left_to_the_next_run(tmp_path: Path) -> None:
    from coterie.pipeline.engine import LocalEngine
    from coterie.pipeline.jobs.follow import Appended, FollowEvents, FollowOptions, follow
    from coterie.pipeline.jobs.run import run
    from coterie.pipeline.store import Store

    class SlowEngine(LocalEngine):
        """An engine whose tasks do not end once following is stopped."""

        def run(self, count: int, work: Callable[[int], R]) -> list[R]:
            assert not stop.is_set() or self._cancelled.wait(PATIENCE_S)
            return super().run(count, work)

    def stop_following(_: Appended) -> None:
        stop.set()

    logs, output = tmp_path / "logs", str(tmp_path / "out")
    stop = threading.Event()
    feeder = Feeder(logs)
    feeder.start()
    options = FollowOptions(last_build_s=0.1)
    events = FollowEvents(on_append=stop_following)
    report = follow(SlowEngine(), [str(logs)], output, stop=stop, options=options, events=events)
    feeder.done.set()
    feeder.join()
    assert report.last is None
    assert Store.reading(output).rows("log_records") > Store.reading(output).rows("offset_commits")
    run(LocalEngine(), [str(logs)], output)
    assert offsets_of(Path(output), "log_records") == offsets_of(Path(output), "offset_commits")


@pytest.mark.timeout(300)
def test_live_store_appends_during_a_build_and_merges_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow as pa

    from coterie.pipeline.jobs import live_store
    from coterie.pipeline.jobs.live_store import LiveStore
    from coterie.pipeline.part_files import keep_finished, read_table
    from coterie.pipeline.tables import TABLES

    schema = TABLES["log_ends"].schema

    def add(store: LiveStore, number: int) -> None:
        row = {
            "input": None,
            "topic": "paid",
            "partition": number,
            "at_ts": 0,
            "log_end_offset": number,
        }
        rows = pa.RecordBatch.from_pylist([row], schema)
        directory = store.write_rows("log_ends", [rows])
        store.append({"log_ends": directory}, {"c": {OFFSETS_TOPIC: {0: number}}}, {"run": 0})

    def partitions(path: str) -> list[int]:
        table = ds.dataset(path, format="parquet").to_table(columns=["partition"])
        return sorted(table.column("partition").to_pylist())

    path = str(tmp_path / "output")
    with LiveStore.open(path) as store:
        assert isinstance(store, LiveStore)
        add(store, 0)
        building = store.snapshot()
        add(store, 1)
        # The build does not contain the new part, whose number is higher than that of the build.
        assert read_table(building, "log_ends").num_rows == 1
        with building.new_parts(["lag_1m"]) as directories:
            keep_finished(directories, [])
        (built,) = building.parts("lag_1m")
        building.commit({}, {})
        assert [name > built for name in store.parts("log_ends")] == [False, True]
        assert store.parts("lag_1m") == [built]
        assert store.position("c") == {0: 1}
        monkeypatch.setattr(live_store, "MAX_PARTS", 4)
        assert store.merge("log_ends") == 0
        for number in range(2, 6):
            add(store, number)
        # Parts that were appended after the build began must be read by the next build.
        assert store.merge("log_ends") == 0
        building = store.snapshot()
        add(store, 6)
        building.commit({}, {})
        unseen = store.parts("log_ends")[-1]
        assert store.merge("log_ends") == 6
        merged, kept = store.parts("log_ends")
        assert merged < built
        assert kept == unseen
        assert partitions(f"{path}/log_ends") == list(range(7))
        # A merged part that is large enough is not merged again.
        monkeypatch.setattr(live_store, "MERGED_BYTES", 1)
        add(store, 7)
        store.snapshot().commit({}, {})
        assert store.merge("log_ends") == 0
        assert len(store.runs) == 1
    with LiveStore.open(path) as store:
        assert store.rows("log_ends") == 8
    assert partitions(f"{path}/log_ends") == list(range(8))
