"""Data directories of Kafka 2.6, 2.8 and 4.3, compared with what these brokers reported."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from coterie.pipeline.segments import find_partitions
from coterie.protocol.messages.journal_records import FACTS, encode_fact
from coterie.protocol.records import encode_batch
from coterie.protocol.topic_names import OFFSETS_TOPIC
from tests.pipeline.histories import NOW_MS, plain_rows, reasons, rows, write_segments

DIRECTORIES = Path(__file__).parent.parent / "golden" / "directories"
NAMES = sorted(path.name.removesuffix(".tar.gz") for path in DIRECTORIES.glob("*.tar.gz"))


@pytest.mark.parametrize("name", NAMES)
def test_decoded_log_agrees_with_the_broker(tmp_path: Path, name: str) -> None:
    with tarfile.open(DIRECTORIES / f"{name}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    reported = json.loads((DIRECTORIES / f"{name}.json").read_text())
    directories = find_partitions(str(tmp_path), OFFSETS_TOPIC)
    assert len(directories) == 4
    found: dict[str, list[dict[str, Any]]] = {}
    for directory in directories.values():
        for view in ("raw", "commits", "groups", "consumer_epochs"):
            expected = []
            for path in sorted(Path(directory).glob("*.log")):
                expected += plain_rows(path.read_bytes(), view, int(path.stem))
            decoded = rows(directory, view)
            assert decoded == expected
            found.setdefault(view, []).extend(decoded)
        found.setdefault("markers", []).extend(rows(directory, "markers"))
        assert reasons(directory) == []
    outcome = {
        (row["producer_id"], row["log_partition"]): row["is_commit"] for row in found["markers"]
    }
    assert outcome, "the history has transactions"
    newest: dict[tuple[str, str, int], tuple[int, str] | None] = {}
    for row in found["commits"]:
        if not row["is_transactional"]:
            key = (row["group_id"], row["topic"], row["partition"])
            value = (row["committed_offset"], row["metadata"])
            newest[key] = None if row["is_tombstone"] else value
    for group, state in reported["groups"].items():
        if group == "transactional":
            continue
        for topic, partition, offset, metadata in state["offsets"]:
            assert newest[group, topic, partition] == (offset, metadata)
    generations = {row["group_id"]: row for row in found["groups"]}
    members = generations["orders-app"]["members"]
    assigned = {
        member["client_id"]: [[each["topic"], each["partition"]] for each in member["assigned"]]
        for member in members
    }
    expected_members = reported["groups"]["orders-app"]["members"]
    if "killed" in name:
        assert assigned == {each["client_id"]: each["assignment"] for each in expected_members}
    assert generations["static-app"]["members"][0]["member_key"] == "s-1"
    if "4.3" in name:
        kinds = {row["kind"] for row in found["consumer_epochs"] if row["group_id"] == "new-style"}
        assert kinds >= {"group", "member", "target", "target_member", "current_member"}


def test_every_fact_of_the_journal_has_a_row_with_all_fields(tmp_path: Path) -> None:
    pairs = []
    for _, _, fact_class in FACTS:
        values: dict[str, Any] = {}
        for field, kind in fact_class.__annotations__.items():
            text = str(kind)
            number = NOW_MS if field in ("at_ms", "began_ms", "last_heard_ms") else 5
            values[field] = (
                []
                if "list[" in text
                else "x"
                if "'string'" in text
                else True
                if "[bool" in text
                else number
            )
        pairs.append(encode_fact("orders", fact_class(**values)))
    pairs.append((b"\0\x7f\0\x01g", b"\0\0later"))
    write_segments(str(tmp_path), (0, [encode_batch(pairs, 0, NOW_MS)]))
    found = rows(str(tmp_path), "journal")
    assert [row["event"] for row in found] == [name for _, name, _ in FACTS]
    assert [row["record_type"] for row in found] == [kind for kind, _, _ in FACTS]
    assert {row["group_id"] for row in found} == {"orders"}
    assert all(row["at_ts"].timestamp() * 1000 == NOW_MS for row in found)
    assert reasons(str(tmp_path), "journal") == ["unknown_type"]
    # Every field of every fact has a column.
    renamed = {
        "at_ms": "at_ts", "began_ms": "began_ts", "last_heard_ms": "last_heard_ts",
        "partition": "offsets_partition", "topics": "expired",
    }  # fmt: skip
    for row, (_, name, fact_class) in zip(found, FACTS, strict=True):
        # Other facts are about partitions of the group log.
        columns = renamed | ({"partition": "partition"} if name == "deliveries_failed" else {})
        for field in fact_class.__annotations__:
            assert row[columns.get(field, field)] is not None, f"{name}.{field}"
