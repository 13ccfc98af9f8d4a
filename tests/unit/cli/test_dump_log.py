"""`coterie dump log`: records and batches as text and as JSON lines."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from coterie.cli.main import main
from coterie.protocol.records import Compression
from coterie.storage.directory import DataDirectory
from coterie.storage.system_files import system_files
from documentation.reference.json_keys import keys_of
from tests.unit.cli.command import run
from tests.unit.cli.logs import batch, commit, generation, json_lines, segment

ROOT = Path(__file__).parents[3]
SEGMENTS = ROOT / "tests" / "golden" / "segments"
KAFKA_RECORDS = ROOT / "tests" / "golden" / "group_records"


def dump(*arguments: object) -> str:
    """Return what is printed, for logs without damage."""
    result = run(None, "dump", "log", *map(str, arguments))
    assert (result.exit_code, result.stderr) == (0, "")
    return result.stdout


def test_group_and_its_offsets_as_text(tmp_path: Path) -> None:
    directory = tmp_path / "__consumer_offsets-7"
    tombstone = batch(2, commit("g", None))
    path = segment(directory, batch(0, generation("g"), commit("g", 42)), tombstone)
    assert dump(directory).splitlines() == [
        str(path),
        (
            "       0  2023-11-14 22:13:20.000  GroupMetadata group=g  protocol_type=consumer"
            " generation=5 protocol=range leader=m-1"
            " current_state_timestamp=2023-11-14T22:13:20.000 members=1"
        ),
        (
            "          member_id=m-1 client_id=c client_host=/10.0.0.1 rebalance_timeout=300000"
            " session_timeout=45000 subscription={topics=t} assignment={assigned_partitions=t:0,1}"
        ),
        (
            "       1  2023-11-14 22:13:20.001  OffsetCommit group=g topic=t partition=0  offset=42"
            " metadata=note commit_timestamp=2023-11-14T22:13:20.000"
            " topic_id=AAAAAAAAAAAAAAAAAAAAAA"
        ),
        "       2  2023-11-14 22:13:20.002  OffsetCommit group=g topic=t partition=0  tombstone",
    ]


def test_json_has_keys_and_values_by_field(tmp_path: Path) -> None:
    path = segment(tmp_path / "__consumer_offsets-7", batch(0, generation("g"), commit("g", 42)))
    group, offset = json_lines(dump(path, "--json"))
    assert group["key"] == {"group": "g"}
    assert (group["record_type"], group["record_name"]) == (2, "GroupMetadata")
    (member,) = group["value"]["members"]
    assert member["subscription"]["topics"] == ["t"]
    assert member["assignment"]["assigned_partitions"] == [{"topic": "t", "partitions": [0, 1]}]
    assert offset == {
        "kind": "record",
        "topic": "__consumer_offsets",
        "partition": 7,
        "file": str(path),
        "position": 0,
        "offset": 1,
        "timestamp": 1_700_000_000_001,
        "producer_id": -1,
        "transactional": False,
        "record_type": 1,
        "record_name": "OffsetCommit",
        "group": "g",
        "key": {"group": "g", "topic": "t", "partition": 0},
        "key_format": "fields",
        "value": {
            "offset": 42,
            "leader_epoch": -1,
            "metadata": "note",
            "commit_timestamp": 1_700_000_000_000,
            "expire_timestamp": -1,
            "topic_id": "AAAAAAAAAAAAAAAAAAAAAA",
        },
        "value_format": "fields",
        "value_version": 4,
        "headers": [],
        "error": None,
    }


def test_keys_are_those_of_the_reference(tmp_path: Path) -> None:
    path = segment(tmp_path / "t-0", batch(0, (b"k", b"v")), b"torn")
    record, damage = json_lines(dump(path, "--json"))
    assert list(record) == keys_of("dump log", "a `record`")
    assert list(damage) == keys_of("dump log", "`damage` or `torn_tail`")
    header, _ = json_lines(dump(path, "--json", "--batches"))
    assert list(header) == keys_of("dump log", "a `batch` (with `--batches`)")


@pytest.mark.parametrize("partition", [0, 1, 2])
def test_every_record_of_a_real_kafka_is_decoded(partition: int) -> None:
    """test_group_records compares the fields with the output of Kafka's own tool."""
    rows = json_lines(dump(KAFKA_RECORDS / f"{partition}.log", "--values", "offsets", "--json"))
    printed = (KAFKA_RECORDS / f"{partition}.txt").read_text(encoding="utf-8").splitlines()
    assert len(rows) == len(printed)
    for row, line in zip(rows, printed, strict=True):
        assert f"| offset: {row['offset']} CreateTime: {row['timestamp']} " in line
        assert row["error"] is None
        if "endTxnMarker" in line:
            kind = "COMMIT" if row["record_name"] == "CommitMarker" else "ABORT"
            epoch = row["value"]["coordinator_epoch"]
            assert line.endswith(f"endTxnMarker: {kind} coordinatorEpoch: {epoch}")
            continue
        assert f'key: {{"type":"{row["record_type"]}"' in line
        assert row["key_format"] == "fields"
        assert (row["value"] is None) == line.endswith("payload: <DELETE>")


def test_known_topic_ids_are_shown_as_names(tmp_path: Path) -> None:
    directory = tmp_path / "__consumer_offsets-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes((KAFKA_RECORDS / "0.log").read_bytes())
    assert "topic_partitions=dj5GiyxcTLi24_jzM5M8BA:0,1" in dump(directory)
    (tmp_path / "payments-0").mkdir()
    text = "version: 0\ntopic_id: dj5GiyxcTLi24_jzM5M8BA"
    (tmp_path / "payments-0" / "partition.metadata").write_text(text)
    assert "topic_partitions=payments:0,1" in dump(directory)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_ordinary_topics_are_text_with_every_codec(codec: str) -> None:
    lines = dump(SEGMENTS / codec).splitlines()
    assert len(lines) == 41
    assert lines[1].endswith("key-0  value-0  h1:first  h2:second")
    assert lines[40].endswith('key-39  "value-39 the quick brown fox jumps over the lazy dog the'
                              ' quick brown fox"  n:39')  # fmt: skip


def test_bytes_that_are_not_text_are_hexadecimal(tmp_path: Path) -> None:
    pairs = (b"\xff\x00", b"plain"), (None, "ü\t☃".encode()), (b"k", None), (b"", b"\x1b[31m")
    path = segment(tmp_path / "t-0", batch(0, *pairs))
    rows = json_lines(dump(path, "--json"))
    assert [(r["key"], r["key_format"], r["value"], r["value_format"]) for r in rows] == [
        ("ff00", "hex", "plain", "text"),
        (None, None, "ü\t☃", "text"),
        ("k", "text", None, None),
        ("", "text", "1b5b33316d", "hex"),
    ]
    text = dump(path)
    assert "\x1b" not in text
    assert [line[35:] for line in text.splitlines()[1:]] == [
        "hex ff00  plain", 'no key  "ü\\t☃"', "k  tombstone", '""  hex 1b5b33316d',
    ]  # fmt: skip


def test_values_raw_decodes_nothing(tmp_path: Path) -> None:
    key, value = commit("g", 42)
    assert value is not None
    path = segment(tmp_path / "__consumer_offsets-0", batch(0, (key, value)))
    (row,) = json_lines(dump(path, "--json", "--values", "raw"))
    assert (row["key"], row["value"]) == (key.hex(), value.hex())
    assert (row["key_format"], row["value_format"]) == ("hex", "hex")


def test_unknown_types_and_versions_stay_hexadecimal_and_are_no_damage(tmp_path: Path) -> None:
    key, value = commit("g", 42)
    assert value is not None
    path = segment(
        tmp_path / "__consumer_offsets-0",
        batch(0, (b"\x00\x63zz", b"\x00\x00new"), (key, b"\x00\x09" + value[2:])),
    )
    unknown, newer = json_lines(dump(path, "--json"))
    assert (unknown["record_type"], unknown["record_name"], unknown["error"]) == (99, None, None)
    assert unknown["value"] == "00006e6577"
    assert (newer["value_version"], newer["value_format"]) == (9, "hex")
    assert newer["error"] == "OffsetCommitValue has versions 0 to 4, not 9"
    assert "type 99 hex 00637a7a  hex 00006e6577" in dump(path)


def test_malformed_value_is_reported_as_damage(tmp_path: Path) -> None:
    key, value = commit("g", 42)
    assert value is not None
    path = segment(tmp_path / "__consumer_offsets-0", batch(0, (key, value[:-1]), commit("h", 1)))
    result = run(None, "dump", "log", str(path), "--json")
    broken, whole = json_lines(result.stdout)
    assert broken["error"].startswith("malformed: ")
    assert broken["value"] == value[:-1].hex()
    assert whole["value"]["offset"] == 1
    assert result.exit_code == 1
    assert "1 place is damaged." in result.stderr


def test_transactions_and_their_markers() -> None:
    rows = json_lines(dump(SEGMENTS / "txn", "--json"))
    assert [row["record_name"] for row in rows] == [None, None, "CommitMarker", None, "AbortMarker"]
    assert all(row["transactional"] and row["producer_id"] == 14 for row in rows)
    assert rows[2]["value"] == {"coordinator_epoch": 0}
    lines = dump(SEGMENTS / "txn").splitlines()
    assert lines[3].endswith("txn 14 CommitMarker coordinator_epoch=0")


def test_batches_instead_of_records() -> None:
    rows = json_lines(dump(SEGMENTS / "zstd", "--batches", "--json"))
    assert sum(row["count"] for row in rows) == 40
    assert {row["compression"] for row in rows} == {"zstd"}
    assert [row["position"] for row in rows[:2]] == [0, rows[0]["size"]]
    line = dump(SEGMENTS / "txn", "--batches").splitlines()[2]
    assert line.startswith("       2-2  ")
    assert line.endswith("producer 14/0 from sequence -1, transactional, control")


def test_segments_are_read_in_order() -> None:
    rows = json_lines(dump(SEGMENTS / "rolled", "--json"))
    assert [row["offset"] for row in rows] == list(range(120))
    assert len({row["file"] for row in rows}) == 4


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--from-offset", "110"], range(110, 120)),
        (["--to-offset", "3"], range(4)),
        (["--from-offset", "37", "--to-offset", "39"], range(37, 40)),
        (["--from-offset", "70", "--limit", "5"], range(70, 75)),
        (["--from-offset", "500"], range(0)),
    ],
)
def test_offsets_can_be_selected(options: list[str], expected: range) -> None:
    rows = json_lines(dump(SEGMENTS / "rolled", "--json", *options))
    assert [row["offset"] for row in rows] == list(expected)


def test_segments_before_from_offset_are_not_opened(tmp_path: Path) -> None:
    segment(tmp_path / "t-0", b"no log at all")
    segment(tmp_path / "t-0", batch(5, (b"k", b"v")), base_offset=5)
    assert len(json_lines(dump(tmp_path / "t-0", "--json", "--from-offset", "5"))) == 1


def test_data_directory_without_deleted_partitions_and_files(tmp_path: Path) -> None:
    for name in ("b-1", "a-10", "a-2", "__consumer_offsets-3", "c-0.0123-delete"):
        segment(tmp_path / name, batch(0, (b"k", b"v")))
    segment(tmp_path / "__cluster_metadata-0", batch(0, (b"k", b"v")))
    (tmp_path / "a-2" / f"{0:020d}.log.deleted").write_bytes(b"old")
    (tmp_path / "a-2" / f"{0:020d}.log.cleaned").write_bytes(b"half")

    def shown(*options: str) -> list[str]:
        rows = json_lines(dump(tmp_path, "--batches", "--json", *options))
        return [f"{row['topic']}-{row['partition']}" for row in rows]

    assert shown() == ["__consumer_offsets-3", "a-2", "a-10", "b-1"]
    assert shown("--partition", "a-2", "--partition", "b-1") == ["a-2", "b-1"]
    assert shown("--partition", "a-*") == ["a-2", "a-10"]
    assert shown("--partition", "__cluster_metadata-0") == ["__cluster_metadata-0"]


def test_one_group_can_be_selected(tmp_path: Path) -> None:
    offsets = [commit("g", 1), commit("other", 2), commit("g", None)]
    segment(tmp_path / "__consumer_offsets-0", batch(0, *offsets))
    segment(tmp_path / "t-0", batch(0, (b"k", b"v")))
    rows = json_lines(dump(tmp_path, "--group", "g", "--json"))
    assert [(row["group"], row["offset"]) for row in rows] == [("g", 0), ("g", 2)]
    rows = json_lines(dump(tmp_path, "--group", "g", "--group", "other", "--json", "--limit", "2"))
    assert [row["group"] for row in rows] == ["g", "other"]


def test_directory_in_use_is_read_and_not_changed(tmp_path: Path) -> None:
    path = str(tmp_path / "data")
    held = DataDirectory.open(
        system_files(), path, node_id=1, cluster_id="c", directory_id="d", durable=False
    )
    held.create_partitions("t", [0], bytes(15) + b"\x01")
    log = held.open_log("t", 0)
    log.append(batch(0, (b"k", b"v")))
    before = {entry.name: entry.stat().st_mtime_ns for entry in os.scandir(f"{path}/t-0")}
    assert len(json_lines(dump(path, "--json"))) == 1
    assert {e.name: e.stat().st_mtime_ns for e in os.scandir(f"{path}/t-0")} == before
    held.close()


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["nowhere"], 1, "nowhere does not exist."),
        (["{}/notes.txt"], 1, "is not the .log file of a segment."),
        (["{}/empty"], 1, "contains neither segments nor partition directories"),
        (["{}", "--partition", "x-0"], 1, "There is no partition x-0."),
        (["{}", "--batches", "--group", "g"], 2, "can't be used with --batches"),
        (["{}", "--from-offset", "5", "--to-offset", "4"], 2, "--to-offset 4 is before"),
        ([], 2, "Missing argument 'PATH...'"),
    ],
)
def test_errors_name_the_cause(tmp_path: Path, arguments: list[str], code: int, error: str) -> None:
    segment(tmp_path / "t-0", batch(0, (b"k", b"v")))
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("")
    result = run(None, "dump", "log", *(a.format(tmp_path) for a in arguments))
    assert result.exit_code == code
    assert error in result.stderr


def test_partitions_are_completed_from_the_directory(tmp_path: Path) -> None:
    for name in ("orders-0", "orders-1", "other-0"):
        segment(tmp_path / name, batch(0, (b"k", b"v")))
    completer = ShellComplete(main, {}, "coterie", "_COTERIE_COMPLETE")

    def complete(*words: str) -> list[str]:
        return [item.value for item in completer.get_completions(list(words[:-1]), words[-1])]

    options = ["dump", "log", str(tmp_path), "--partition", "ord"]
    assert complete(*options) == ["orders-0", "orders-1"]
    assert complete("dump", "log", "nowhere", "--partition", "") == []
    assert complete("dump", "log", str(tmp_path), "--va") == ["--values"]


def test_colours_appear_on_terminals_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = segment(tmp_path / "__consumer_offsets-0", batch(0, commit("g", 1)))
    assert "\x1b" not in dump(path)
    monkeypatch.setenv("FORCE_COLOR", "1")
    from click.testing import CliRunner

    result = CliRunner().invoke(main, ["dump", "log", str(path)], color=True)
    assert "\x1b[33mOffsetCommit" in result.stdout


def test_closed_pipe_is_no_traceback(tmp_path: Path) -> None:
    """`coterie dump log DIR | head -1` of a log that is larger than the pipe."""
    records = [(b"key-%d" % n, b"x" * 100) for n in range(3000)]
    path = segment(tmp_path / "t-0", batch(0, *records))
    program = f"'{sys.executable}' -c 'from coterie.cli.main import main; main()'"
    done = subprocess.run(
        f"{program} dump log {path} --json | head -1",
        shell=True, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert json.loads(done.stdout)["offset"] == 0
    assert done.stderr == ""


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_memory_does_not_grow_with_the_log(tmp_path: Path, codec: Compression) -> None:
    """A log of 80 MiB takes less than 24 MiB more than a log of one batch."""
    directory = tmp_path / "t-0"
    one = batch(0, *[(b"k", os.urandom(2000)) for _ in range(256)], compression=codec)
    path = segment(directory, one)
    small = _peak_kib(path)
    with path.open("ab") as file:
        for n in range(1, 160):
            file.write((256 * n).to_bytes(8, "big") + one[8:])
    assert path.stat().st_size > 80_000_000
    assert _peak_kib(path) - small < 24 << 10


def _peak_kib(path: Path) -> int:
    code = (
        "import resource, sys\nfrom coterie.cli.main import main\n"
        f"try: main(['dump', 'log', {str(path)!r}, '--batches'])\n"
        "finally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return int(done.stderr.split()[-1])
