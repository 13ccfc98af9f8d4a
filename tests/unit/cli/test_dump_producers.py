"""`coterie dump producers`, and the records of transactions in `coterie dump log`."""

import json
from pathlib import Path

from coterie.protocol.messages.transaction_records import (
    TRANSACTION_RECORDS,
    TransactionLogKey,
    TransactionLogTopic,
    TransactionLogValue,
)
from coterie.storage.aborted_transactions import TransactionIndex
from coterie.storage.open_files import OpenFiles
from coterie.storage.producer_snapshots import ProducerSnapshots
from coterie.storage.producer_state import CompletedTransaction, ProducerState
from coterie.storage.system_files import system_files
from tests.unit.cli.command import run
from tests.unit.cli.logs import TIME, batch, json_lines, segment

SNAPSHOT, INDEX = f"{12:020d}.snapshot", f"{0:020d}.txnindex"


def partition(tmp_path: Path) -> Path:
    """Return the directory of a partition with two producers and an aborted transaction."""
    directory = tmp_path / "orders-0"
    segment(directory, batch(0, (b"k", b"v")))
    state = ProducerState()
    state.add(7, 1, 0, 2, 4, TIME, TIME, is_transactional=False)
    state.add(8, 0, 0, 0, 9, TIME, TIME, is_transactional=True)
    ProducerSnapshots(system_files(), str(directory)).write_now(12, state)
    files = OpenFiles(system_files(), 4)
    index = TransactionIndex(files, str(directory / INDEX), 0)
    index.add(CompletedTransaction(8, 7, 8, 9))
    files.drop(index.path)
    return directory


def test_producers_and_aborted_transactions_as_text(tmp_path: Path) -> None:
    directory = partition(tmp_path)
    expected = [
        str(directory / INDEX),
        "  producer 8  aborted from 7 to 8  last stable offset 9",
        str(directory / SNAPSHOT),
        "  producer 7/1  2023-11-14 22:13:20.000  3 records up to offset 6, sequence 2",
        (
            "  producer 8/0  2023-11-14 22:13:20.000  1 record up to offset 9, sequence 0"
            "  open transaction from 9"
        ),
    ]
    for arguments in ([directory], [tmp_path, "--partition", "orders-*"]):
        result = run(None, "dump", "producers", *map(str, arguments))
        assert (result.exit_code, result.stdout.splitlines()) == (0, expected)


def test_producers_as_json(tmp_path: Path) -> None:
    directory = partition(tmp_path)
    result = run(None, "dump", "producers", str(directory / SNAPSHOT), "--json")
    first, second = map(json.loads, result.stdout.splitlines())
    assert first == {
        "kind": "producer",
        "topic": "orders",
        "partition": 0,
        "file": str(directory / SNAPSHOT),
        "producer_id": 7,
        "epoch": 1,
        "last_sequence": 2,
        "last_offset": 6,
        "offset_delta": 2,
        "timestamp_ms": TIME,
        "coordinator_epoch": -1,
        "current_txn_first_offset": -1,
    }
    assert second["current_txn_first_offset"] == 9


def test_damaged_files_of_producers_are_reported(tmp_path: Path) -> None:
    directory = partition(tmp_path)
    for name, data in ((INDEX, b"ab"), (SNAPSHOT, b"\0\1")):
        path = directory / name
        path.write_bytes(path.read_bytes() + data)
    result = run(None, "dump", "producers", str(directory), "--json")
    rows = map(json.loads, result.stdout.splitlines())
    damage = [(row["position"], row["reason"]) for row in rows if row["kind"] == "damage"]
    assert damage == [
        (34, "the last entry is incomplete"),
        (0, "its version, its length or its checksum is wrong"),
    ]
    assert result.exit_code == 1
    assert "2 files are damaged" in result.stderr


def test_records_of_transactions_are_decoded(tmp_path: Path) -> None:
    key = TransactionLogKey(transactional_id="tx")
    value = TransactionLogValue(
        producer_id=5,
        producer_epoch=2,
        transaction_timeout_ms=1000,
        transaction_status=2,
        transaction_partitions=[TransactionLogTopic(topic="t", partition_ids=[0, 3])],
        transaction_last_update_timestamp_ms=TIME,
        transaction_start_timestamp_ms=TIME,
    )
    encoded = TRANSACTION_RECORDS.encode_key(key)
    records = batch(0, (encoded, TRANSACTION_RECORDS.encode_value(value)), (encoded, None))
    path = segment(tmp_path / "__transaction_state-7", records)
    result = run(None, "dump", "log", str(path))
    assert result.stdout.splitlines()[1:] == [
        (
            "       0  2023-11-14 22:13:20.000  TransactionLog transactional_id=tx"
            "  producer_id=5 producer_epoch=2 transaction_timeout_ms=1000"
            " transaction_status=PrepareCommit transaction_partitions=t:0,3"
            " transaction_last_update_timestamp_ms=2023-11-14T22:13:20.000"
            " transaction_start_timestamp_ms=2023-11-14T22:13:20.000 client_transaction_version=0"
        ),
        "       1  2023-11-14 22:13:20.001  TransactionLog transactional_id=tx  tombstone",
    ]
    row, _ = json_lines(run(None, "dump", "log", str(path), "--json").stdout)
    assert (row["key"], row["group"]) == ({"transactional_id": "tx"}, None)
    assert row["value"]["transaction_status"] == "PrepareCommit"
