"""`coterie compact`: compaction of a data directory that no server uses."""

import json
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import Result

from coterie.cli import offline_compaction
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.storage.directory import DataDirectory
from coterie.storage.log_config import LogConfig
from coterie.storage.system_files import system_files
from documentation.reference.json_keys import keys_of
from tests.unit.cli.command import rows_of, run
from tests.unit.cli.logs import batch, commit, json_lines

TOPIC_ID = bytes(15) + b"\x07"


def opened(path: Path) -> DataDirectory:
    return DataDirectory.open(
        system_files(), str(path), node_id=1, cluster_id="c", directory_id="d", durable=False
    )


def filled(path: Path, *partitions: tuple[str, int], keys: int = 5, rounds: int = 20) -> Path:
    """Make a data directory whose partitions have two segments of commits of a few groups."""
    directory = opened(path)
    for topic, index in partitions:
        directory.create_partitions(topic, [index], TOPIC_ID)
        log = directory.open_log(topic, index, LogConfig(compacted=True))
        for n in range(rounds):
            log.append(batch(0, *(commit(f"g{key}", n) for key in range(keys))))
            if n == rounds - 2:
                log.roll()
    directory.close()
    return path


def settings(path: Path, **topics: dict[str, str]) -> None:
    stored = {"version": 1, "next_producer_id": 0, "broker": {}, "topics": topics}
    (path / "coterie-settings.json").write_text(json.dumps(stored))


def compact(path: Path, *options: str) -> Result:
    return run(None, "compact", str(path), *options)


def records(path: Path, name: str) -> list[tuple[int, str, int | None]]:
    """Return (offset, group, committed offset) of each record of a partition."""
    result = run(None, "dump", "log", str(path / name), "--values", "offsets", "--json")
    assert result.exit_code == 0
    return [
        (row["offset"], row["group"], row["value"] and row["value"]["offset"])
        for row in json_lines(result.stdout)
    ]


def segments(path: Path, name: str) -> list[str]:
    return sorted(entry.name for entry in (path / name).glob("*.log"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return filled(tmp_path / "data", (OFFSETS_TOPIC, 3))


def test_only_the_newest_record_of_each_key_is_kept(data: Path) -> None:
    result = compact(data)
    assert result.exit_code == 0
    assert result.stderr == ""
    title, line = result.stdout.splitlines()
    assert title.split()[:4] == ["TOPIC", "PARTITION", "STATE", "DIRTY-RATIO"]
    assert line.split()[:3] == [OFFSETS_TOPIC, "3", "compacted"]
    # The last five records are in the active segment, whose keys are not read.
    assert records(data, f"{OFFSETS_TOPIC}-3") == [
        *((90 + key, f"g{key}", 18) for key in range(5)),
        *((95 + key, f"g{key}", 19) for key in range(5)),
    ]


def test_active_segment_is_compacted_with_include_active(data: Path) -> None:
    (row,) = rows_of(compact(data, "--include-active", "--json"))
    assert (row["state"], row["records_read"], row["records_kept"]) == ("compacted", 100, 5)
    assert records(data, f"{OFFSETS_TOPIC}-3") == [(95 + key, f"g{key}", 19) for key in range(5)]
    assert segments(data, f"{OFFSETS_TOPIC}-3") == [f"{0:020d}.log", f"{100:020d}.log"]
    directory = opened(data)
    log = directory.open_log(OFFSETS_TOPIC, 3, LogConfig(compacted=True))
    assert log.append(batch(0, commit("g0", 20))) == 100
    assert directory.cleaner_offset(OFFSETS_TOPIC, 3) == 100
    directory.close()


def test_row_has_the_sizes_before_and_after(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # One compaction reads the clock twice, so that it lasts 2 ms.
    clock = SimpleNamespace(monotonic=iter((5.0, 5.002)).__next__, time_ns=time.time_ns)
    monkeypatch.setattr(offline_compaction, "time", clock)
    before = sum(entry.stat().st_size for entry in data.glob("*/*.log"))
    (row,) = rows_of(compact(data, "--include-active", "--json"))
    after = sum(entry.stat().st_size for entry in data.glob("*/*.log"))
    assert (row["topic"], row["partition"], row["error"]) == (OFFSETS_TOPIC, 3, None)
    assert (row["bytes_before"], row["bytes_after"]) == (before, after)
    assert after < before / 4
    assert (row["dirty_ratio"], row["rounds"]) == (1, 1)
    assert (row["seconds"], row["mb_per_s"]) == (0.002, round(before / 1_000_000 / 0.002, 1))


def test_keys_are_those_of_the_reference(data: Path) -> None:
    (row,) = rows_of(compact(data, "--json"))
    assert list(row) == keys_of("compact")


def test_compacted_partition_is_not_dirty(data: Path) -> None:
    assert compact(data).exit_code == 0
    result = compact(data, "--json")
    (row,) = rows_of(result)
    assert (row["state"], row["dirty_bytes"], row["segments_after"]) == ("not due", 0, 2)
    assert "Use --include-active to compact them too." in compact(data).stderr


def test_tombstones_are_removed_after_their_retention(tmp_path: Path) -> None:
    path = filled(tmp_path / "data", (OFFSETS_TOPIC, 0))
    directory = opened(path)
    log = directory.open_log(OFFSETS_TOPIC, 0, LogConfig(compacted=True))
    log.append(batch(0, commit("g0", None)))
    directory.close()
    options = ("--include-active", "--min-cleanable-ratio", "0", "--json")
    (row,) = rows_of(compact(path, *options))
    assert row["tombstones_kept"] == 1
    assert (100, "g0", None) in records(path, f"{OFFSETS_TOPIC}-0")
    # The first compaction set the delete horizon; the next one that has work obeys it.
    directory = opened(path)
    directory.open_log(OFFSETS_TOPIC, 0, LogConfig(compacted=True)).append(
        batch(0, commit("g1", 30))
    )
    directory.close()
    (row,) = rows_of(compact(path, *options, "--delete-retention-ms", "0"))
    assert row["state"] == "compacted"
    left = records(path, f"{OFFSETS_TOPIC}-0")
    assert (101, "g1", 30) in left


def test_dry_run_shows_what_is_dirty_and_compacts_nothing(data: Path) -> None:
    before = records(data, f"{OFFSETS_TOPIC}-3")
    (row,) = rows_of(compact(data, "--dry-run", "--json"))
    assert (row["state"], row["dirty_ratio"]) == ("due", 1)
    (with_active,) = rows_of(compact(data, "--dry-run", "--include-active", "--json"))
    assert with_active["dirty_bytes"] == row["bytes_before"] > row["dirty_bytes"]
    assert records(data, f"{OFFSETS_TOPIC}-3") == before
    assert len(segments(data, f"{OFFSETS_TOPIC}-3")) == 2
    assert "DIRTY-RATIO" in compact(data, "--dry-run").stdout


def test_policies_are_those_that_the_server_stored(tmp_path: Path) -> None:
    path = filled(
        tmp_path / "data", (OFFSETS_TOPIC, 0), ("tables", 0), ("tables", 1), ("events", 0)
    )
    settings(path, tables={"cleanup.policy": "compact,delete"}, events={"cleanup.policy": "delete"})
    rows = rows_of(compact(path, "--json"))
    assert [(row["topic"], row["partition"]) for row in rows] == [
        (OFFSETS_TOPIC, 0), ("tables", 0), ("tables", 1),
    ]  # fmt: skip
    assert {row["state"] for row in rows} == {"compacted"}
    assert len(records(path, "events-0")) == 100


def test_settings_of_the_topic_are_used(tmp_path: Path) -> None:
    path = filled(tmp_path / "data", ("tables", 0))
    half_clean = {"cleanup.policy": "compact", "min.compaction.lag.ms": str(2**62)}
    settings(path, tables=half_clean)
    (row,) = rows_of(compact(path, "--json"))
    assert row["state"] == "not due"
    settings(path, tables={"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1"})
    (row,) = rows_of(compact(path, "--json"))
    assert row["state"] == "compacted"


def test_partitions_can_be_named(tmp_path: Path) -> None:
    path = filled(tmp_path / "data", (OFFSETS_TOPIC, 0), (OFFSETS_TOPIC, 1))
    (row,) = rows_of(compact(path, "--partition", f"{OFFSETS_TOPIC}-1", "--json"))
    assert (row["partition"], row["state"]) == (1, "compacted")
    assert len(records(path, f"{OFFSETS_TOPIC}-0")) == 100


def test_topic_without_compact_policy_needs_force(tmp_path: Path) -> None:
    path = filled(tmp_path / "data", ("events", 0))
    result = compact(path, "--partition", "events-0")
    assert result.exit_code == 1
    assert "The cleanup.policy of events does not include compact" in result.stderr
    assert "--force" in result.stderr
    assert len(records(path, "events-0")) == 100
    (row,) = rows_of(compact(path, "--partition", "events-0", "--force", "--json"))
    assert (row["state"], row["records_kept"]) == ("compacted", 5)


def test_directory_in_use_is_refused(data: Path) -> None:
    held = opened(data)
    result = compact(data)
    assert result.exit_code == 1
    assert "is in use by a running server" in result.stderr
    assert "Stop the server first." in result.stderr
    held.close()
    assert compact(data).exit_code == 0


def test_damaged_partition_does_not_affect_the_others(tmp_path: Path) -> None:
    path = filled(tmp_path / "data", (OFFSETS_TOPIC, 0), (OFFSETS_TOPIC, 1))
    damaged = path / f"{OFFSETS_TOPIC}-0" / f"{0:020d}.log"
    data = bytearray(damaged.read_bytes())
    data[700] ^= 1
    damaged.write_bytes(data)
    result = compact(path, "--json")
    assert result.exit_code == 1
    broken, whole = rows_of(result)
    assert (broken["state"], whole["state"]) == ("failed", "compacted")
    assert f"{damaged}: damaged at byte " in broken["error"]
    assert f"Not compacted: {OFFSETS_TOPIC}-0: {damaged}: damaged at byte " in result.stderr
    assert damaged.read_bytes() == data


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["nowhere"], 1, "nowhere is not a data directory"),
        (["{}/" + OFFSETS_TOPIC + "-3"], 1, "is not a data directory: it has no meta.properties"),
        (["{}", "--partition", "x-9"], 1, "There is no partition x-9"),
        (["{}", "--force"], 2, "--force is only for partitions named with --partition"),
        (["{}", "--min-cleanable-ratio", "2"], 2, "is not in the range"),
        ([], 2, "Missing argument 'DIR'"),
    ],
)
def test_errors_name_the_cause(data: Path, arguments: list[str], code: int, error: str) -> None:
    result = run(None, "compact", *(argument.format(data) for argument in arguments))
    assert result.exit_code == code
    assert error in result.stderr
    assert sorted(entry.name for entry in data.parent.iterdir()) == ["data"]


def test_unreadable_settings_end_the_command(data: Path) -> None:
    (data / "coterie-settings.json").write_text("{")
    result = compact(data)
    assert result.exit_code == 1
    assert "coterie-settings.json can't be read" in result.stderr


def test_directory_without_compacted_topics(tmp_path: Path) -> None:
    path = filled(tmp_path / "data", ("events", 0))
    result = compact(path)
    assert (result.exit_code, result.stderr) == (
        0, "No partition in this directory has a cleanup.policy that includes compact.\n",
    )  # fmt: skip
