"""A tail reads without Spark; if it is killed at any step, every record counts once.

A step is a call that changes the disk. The harness runs one process after the other: process n dies
in its step n, and each appends what the log has got since the last one. So the next process finds
everything that was left half done. Planted bugs show that the harness notices errors.

Rules: [pipeline/segment-files], [pipeline/quarantine].
"""

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

import threading

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks_pipeline.logs import SegmentWriter
from coterie.pipeline.jobs import follow_tail, live_store
from coterie.pipeline.jobs.follow_tail import Tail
from coterie.pipeline.jobs.live_store import LiveStore
from coterie.pipeline.ranges import WholeEnd, whole_end
from coterie.pipeline.store import Store
from coterie.protocol.records import encode_batch
from coterie.protocol.topic_names import OFFSETS_TOPIC
from tests.faults import Function, calling, given
from tests.pipeline.histories import NOW_MS, commit_key, commit_value, write_segments
from tests.planting import Plant, planted

PARTITIONS = 2
INPUT = "a-cluster"
Places = list[tuple[int, int]]

_STORE = "coterie.pipeline.jobs.live_store:LiveStore"
_TAIL = "coterie.pipeline.jobs.follow_tail:Tail"


def _but_the_last(merged: Function) -> Function:
    """Merge all parts but the last."""
    return lambda store, table, names: merged(store, table, names[:-1])


PLANTS = [
    Plant(
        "rows count without their positions",
        f"{_STORE}._commit",
        fault=calling("coterie.pipeline.store:Store.commit", given(positions={})),
        kinds=(),
    ),
    Plant(
        "positions count before their rows",
        f"{_STORE}.append",
        "for table, directory in directories.items():",
        "self._commit(positions, about)\n        for table, directory in directories.items():",
        (),
    ),
    Plant(
        "leftovers of a killed process stay",
        "coterie.pipeline.store:Store._remove_leftovers",
        "if name not in known and",
        "if not known and",
        (),
    ),
    Plant(
        "a merged part stays",
        "coterie.pipeline.store:Store.commit",
        "for directory in replaced:",
        "for directory in replaced[1:]:",
        (),
    ),
    Plant(
        "a merge forgets its last part",
        f"{_STORE}._merged",
        fault=_but_the_last,
        kinds=(),
    ),
    Plant(
        "positions go one record too far",
        f"{_TAIL}._write",
        "each.log_partition: each.end_offset for",
        "each.log_partition: each.end_offset + 1 for",
        (),
    ),
]


class Killed(BaseException):
    """The end of a process, which like SIGKILL no handler of exceptions stops."""


@contextmanager
def killed_at(step: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Die in the step with this number."""
    steps = itertools.count()

    def dying(call: Callable[..., Any], half: Callable[..., Any] | None) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            if next(steps) == step:
                if half is not None:
                    half(*arguments)
                raise Killed
            return call(*arguments, **options)

        return run

    def half_a_file(_rows: pa.Table, path: str) -> None:
        Path(path).write_bytes(b"PAR1")

    with monkeypatch.context() as patch:
        for name in ("mkdir", "makedirs", "rename", "replace", "remove", "rmdir", "unlink"):
            patch.setattr(os, name, dying(getattr(os, name), None))
        patch.setattr(pq, "write_table", dying(pq.write_table, half_a_file))
        yield


class Logs:
    """A data directory that grows."""

    def __init__(self, path: Path, partitions: int = PARTITIONS) -> None:
        self.path = path
        self.writers = [
            SegmentWriter(str(path / f"{OFFSETS_TOPIC}-{number}"), 2000)
            for number in range(partitions)
        ]

    def grow(self) -> None:
        for writer in self.writers:
            offset = writer.next_offset
            pairs = [(commit_key(partition=each), commit_value(offset=offset)) for each in range(3)]
            writer.append(pairs, NOW_MS + offset)
            writer.flush()

    def close(self) -> None:
        for writer in self.writers:
            writer.close()

    @property
    def places(self) -> Places:
        return [
            (number, offset)
            for number, writer in enumerate(self.writers)
            for offset in range(writer.next_offset)
        ]


def tail_of(store: Store, data: Path, **options: Any) -> Tail:
    live = cast("LiveStore", store)

    def append(
        source: str,
        topic: str,
        directories: dict[str, str],
        positions: dict[int, int],
        rows: int,
        about: dict[str, Any] | None = None,
    ) -> None:
        assert rows or "quarantine" in directories
        live.append(directories, {source: {topic: positions}}, {"run": 0})

    lock = options.pop("lock") if "lock" in options else threading.Lock()
    return Tail(live, append, (INPUT, str(data), OFFSETS_TOPIC), lock, 100, **options)


def places_of(output: Path, table: str = "log_records") -> Places:
    """Return the places of the records that any reader of Parquet finds in a table."""
    found = ds.dataset(str(output / table), format="parquet").to_table(
        columns=["log_partition", "log_offset"]
    )
    return sorted(zip(*(column.to_pylist() for column in found.columns), strict=True))


def check(store: LiveStore, output: Path) -> None:
    """Check that the rows are those up to the positions."""
    found = places_of(output) if store.parts("log_records") else []
    assert len(found) == len(set(found)), "a record counts twice"
    positions = store.position(INPUT)
    read = [(number, each) for number, end in positions.items() for each in range(end)]
    assert found == sorted(read), "a record is missing"


def _one_process(logs: Logs, output: Path) -> None:
    """Append twice, with a build in between that finds nothing to do, and merge."""
    with LiveStore.open(str(output)) as opened:
        store = cast("LiveStore", opened)
        check(store, output)
        tail = tail_of(store, logs.path)
        tail.append_new()
        building = store.snapshot()
        logs.grow()
        tail.append_new()
        building.commit({}, {})
        store.merge("log_records")


def follow_and_be_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run processes until one is not killed, and return how many were killed."""
    monkeypatch.setattr(live_store, "MAX_PARTS", 2)
    output = tmp_path / "output"
    with closing(Logs(tmp_path / "logs")) as logs:
        for step in itertools.count():
            logs.grow()
            try:
                with killed_at(step, monkeypatch):
                    _one_process(logs, output)
            except Killed:
                continue
            assert places_of(output) == logs.places, "a record is missing"
            return step
    raise AssertionError("not reached")


def test_every_record_counts_once_if_processes_are_killed_at_every_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert follow_and_be_killed(tmp_path, monkeypatch) > 20


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.name)
def test_harness_notices_a_planted_bug(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Plant
) -> None:
    with planted(plant), pytest.raises((AssertionError, pa.ArrowInvalid)):
        follow_and_be_killed(tmp_path, monkeypatch)


def test_damaged_torn_and_cleaned_log_is_followed(tmp_path: Path) -> None:
    """A damaged batch goes to quarantine, a torn end is read when it is complete, and the records
    that compaction left are read.
    """
    pairs = [(commit_key(partition=each), commit_value()) for each in range(2)]
    batches = [encode_batch(pairs, 2 * number, NOW_MS + number) for number in range(40)]
    directory = tmp_path / "logs" / f"{OFFSETS_TOPIC}-0"
    bad = bytearray(batches[3])
    bad[-1] ^= 1
    first = [*batches[:3], bytes(bad), *batches[4:10], batches[10][:70]]
    write_segments(str(directory), (0, first))
    output = tmp_path / "output"
    with LiveStore.open(str(output)) as store:
        tail = tail_of(store, tmp_path / "logs")
        tail.append_new()
        tail.append_new()
        valid = [offset for offset in range(20) if offset not in (6, 7)]
        assert places_of(output) == [(0, offset) for offset in valid]
        assert places_of(output, "quarantine") == [(0, 6)]
        assert len(store.parts("log_records")) == 1
        # The torn batch is completed, the log rolled and compacted, with fewer records before it
        # and a gap behind it. A new file often gets the inode of one that was removed.
        os.remove(directory / f"{0:020d}.log")
        write_segments(str(directory), (20, batches[10:20]))
        write_segments(str(directory), (0, batches[:10:3]))
        tail.append_new()
        write_segments(str(directory), (20, batches[10:20:4]), (60, batches[30:35]))
        tail.append_new()
    expected = [*valid, *range(20, 40), *range(60, 70)]
    assert places_of(output) == [(0, offset) for offset in expected]


def test_partition_in_two_directories_of_a_cluster_is_read_once(tmp_path: Path) -> None:
    """Records come from the replica that is ahead, and the other one adds none."""
    output = tmp_path / "output"
    with (
        closing(Logs(tmp_path / "behind", 1)) as behind,
        closing(Logs(tmp_path / "ahead", 1)) as ahead,
        LiveStore.open(str(output)) as store,
    ):
        lock = threading.Lock()
        tails = [tail_of(store, each.path, lock=lock) for each in (behind, ahead)]
        for number in range(30):
            ahead.grow()
            # The follower is behind for a while, and then ahead.
            for _ in range(0 if number < 9 else 2):
                behind.grow()
            for tail in tails:
                tail.append_new()
            most = max(ahead, behind, key=lambda logs: logs.writers[0].next_offset)
            assert places_of(output) == most.places


def test_much_log_is_written_in_slices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "output"
    with (
        closing(Logs(tmp_path / "logs")) as logs,
        LiveStore.open(str(output)) as store,
    ):
        for _ in range(60):
            logs.grow()
        tail = tail_of(store, logs.path)
        monkeypatch.setattr(follow_tail, "_SLICE_BYTES", 2500)
        tail.append_new()
        assert places_of(output) == logs.places
        assert len(store.parts("log_records")) > 4
        # Records that were read before do not count again.
        logs.grow()
        tail.append_new()
        assert places_of(output) == logs.places


def test_log_is_read_to_its_end_although_a_segment_is_removed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = itertools.count()

    def interrupted(*given: Any) -> WholeEnd:
        whole = whole_end(*given)
        return whole._replace(offset=3, size_bytes=1, hint=None) if next(calls) == 0 else whole

    monkeypatch.setattr(follow_tail, "whole_end", interrupted)
    with (
        closing(Logs(tmp_path / "logs", 1)) as logs,
        LiveStore.open(str(tmp_path / "output")) as store,
    ):
        logs.grow()
        logs.grow()
        tail_of(store, logs.path).append_new()
        assert places_of(tmp_path / "output") == logs.places
