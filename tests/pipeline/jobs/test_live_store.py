"""A directory to which one thread appends while others read: what they see is committed."""

import threading
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

import pyarrow as pa

from coterie.pipeline.jobs.live_store import LiveStore
from coterie.pipeline.store import Store
from coterie.pipeline.tables import TABLES
from coterie.protocol.topic_names import OFFSETS_TOPIC

INPUT = "a-cluster"
TABLE = "log_ends"
PATIENCE_S = 60.0


class Reader(threading.Thread):
    """Reads everything once, from within a commit of another thread.

    It stands in the place of the store's lock, so it notices that it has to wait there. So the
    commit goes on as soon as the reader has read or waits, and no time is measured.
    """

    def __init__(self, store: LiveStore) -> None:
        super().__init__()
        self.store = store
        self.lock = store._lock
        self.has_read_or_waits = threading.Event()
        self.seen: tuple[int, int, int, dict[int, int], dict[str, Any]] | None = None

    def run(self) -> None:
        try:
            rows = self.store.rows(TABLE)
            parts = len(self.store.parts(TABLE))
            files = len(self.store.files(TABLE))
            self.seen = rows, parts, files, self.store.position(INPUT), self.store.about(INPUT)
        finally:
            self.has_read_or_waits.set()

    def __enter__(self) -> None:
        if threading.current_thread() is self:
            self.has_read_or_waits.set()
        self.lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.lock.release()


def test_another_thread_sees_rows_only_with_their_positions_and_what_is_about_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Store.commit
    readers = []

    def read_in_the_middle(store: LiveStore, *arguments: Any) -> None:
        reader = Reader(store)
        monkeypatch.setattr(store, "_lock", reader)
        readers.append(reader)
        reader.start()
        assert reader.has_read_or_waits.wait(PATIENCE_S)
        commit(store, *arguments)
        monkeypatch.setattr(store, "_lock", reader.lock)

    monkeypatch.setattr(Store, "commit", read_in_the_middle)
    row = {"input": INPUT, "topic": "paid", "partition": 0, "at_ts": 0, "log_end_offset": 1}
    rows = pa.RecordBatch.from_pylist([row], TABLES[TABLE].schema)
    with LiveStore.open(str(tmp_path / "out")) as store:
        assert isinstance(store, LiveStore)
        for number in range(1, 4):
            directory = store.write_rows(TABLE, [rows])
            positions = {INPUT: {OFFSETS_TOPIC: {0: number}}}
            store.append({TABLE: directory}, positions, {"run": 0}, {INPUT: {"read": number}})
            readers[-1].join(PATIENCE_S)
    assert [reader.seen for reader in readers] == [
        (number, number, number, {0: number}, {"read": number}) for number in range(1, 4)
    ]
