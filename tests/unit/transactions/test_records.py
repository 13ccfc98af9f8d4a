"""The records of `__transaction_state`, with the bytes of Kafka's own serializer."""

import pytest

from coterie.coordinator.transactions.states import TransactionState
from coterie.coordinator.transactions.transaction import Transaction
from coterie.protocol.errors import MalformedFrame
from coterie.protocol.messages.transaction_records import (
    TRANSACTION_RECORDS,
    TransactionLogKey,
    TransactionLogValue,
    encode_old_value,
)
from tests.unit.transactions.coordinated import FOO, START_MS, TID, Coordinated

KEY = "000000066d792d74786e"
# state, epoch, producer id, previous id, next id, client's level, whether it has started
OLD = {
    "0000000000000000138800030000ea6000ffffffff0000018bcfe56800ffffffffffffffff": (
        "Empty", 3, 5000, -1, -1, 0, [],
    ),
    "0000000000000000138800030000ea6001000000020003666f6f00000002000000000000000200036261720000"
    "0001000000010000018bcfe568000000018bcfe56418": (
        "Ongoing", 3, 5000, -1, -1, 0, [("foo", 0), ("foo", 2), ("bar", 1)],
    ),
    "0000000000000000138800030000ea6004000000000000018bcfe568000000018bcfe56418": (
        "CompleteCommit", 3, 5000, -1, -1, 0, [],
    ),
}  # fmt: skip
NEW = {
    "0001000000000000138800030000ea6000000000018bcfe56800ffffffffffffffff0100080000000000001388": (
        "Empty", 3, 5000, -1, -1, 0, [],
    ),
    "0001000000000000138800030000ea60010304666f6f03000000000000000200046261720200000001000000"
    "018bcfe568000000018bcfe56418020008000000000000138802020002": (
        "Ongoing", 3, 5000, -1, -1, 2, [("foo", 0), ("foo", 2), ("bar", 1)],
    ),
    "000100000000000013887fff0000ea60020304666f6f03000000000000000200046261720200000001000000"
    "018bcfe568000000018bcfe5641803000800000000000013880108000000000000177002020002": (
        "PrepareCommit", 32767, 5000, -1, 6000, 2, [("foo", 0), ("foo", 2), ("bar", 1)],
    ),
    "0001000000000000177000000000ea6004010000018bcfe568000000018bcfe5641802000800000000000013"
    "8802020002": (
        "CompleteCommit", 0, 6000, 5000, -1, 2, [],
    ),
}  # fmt: skip


def restored(value: bytes) -> Transaction:
    key = TransactionLogKey(transactional_id="my-txn")
    decoded = TRANSACTION_RECORDS.decode_value(key, value)
    assert isinstance(decoded, TransactionLogValue)
    return Transaction.restored("my-txn", decoded)


@pytest.mark.parametrize("encoded", [*OLD, *NEW])
def test_values_are_those_of_kafka(encoded: str) -> None:
    """[transactions/log-records]"""
    transaction = restored(bytes.fromhex(encoded))
    assert (
        transaction.state.kafka_name,
        transaction.epoch,
        transaction.producer_id,
        transaction.previous_id,
        transaction.next_id,
        transaction.client_level,
        list(transaction.partitions),
    ) == {**OLD, **NEW}[encoded]
    assert (transaction.timeout_ms, transaction.updated_ms) == (60_000, 1_700_000_000_000)
    key, value = transaction.record()
    assert TRANSACTION_RECORDS.encode_key(key).hex() == KEY
    assert isinstance(value, TransactionLogValue)
    encode = encode_old_value if encoded in OLD else TRANSACTION_RECORDS.encode_value
    assert encode(value).hex() == encoded


@pytest.mark.parametrize(("level", "version"), [(0, 0), (1, 1), (2, 1)])
def test_level_of_the_server_decides_on_the_version(level: int, version: int) -> None:
    coordinated = Coordinated(level)
    coordinated.init()
    coordinated.use(1000, 0, FOO)
    assert [int.from_bytes((value or b"")[:2]) for _, value in coordinated.log] == [version] * 2
    coordinated.level = 2
    coordinated.end(1000, 0)
    coordinated.restart()
    assert coordinated.state == "CompleteCommit"


def test_records_that_are_not_understood_are_skipped() -> None:
    """[transactions/load]"""
    coordinated = Coordinated()
    coordinated.init()
    key, value = coordinated.log[0]
    assert value is not None
    coordinated.log += [
        (key[:4] + b"\0\1x", b"\0\7" + value[2:]),
        (b"\0\1\0\1y", b"\0\0"),
    ]
    coordinated.log[1] = (b"\0\0\0\1x", b"\0\7" + value[2:])
    coordinated.restart()
    assert list(coordinated.shard.transactions) == [TID]
    assert coordinated.shard.skipped_records == 2


def test_state_that_does_not_exist_is_damage() -> None:
    value = bytearray.fromhex(next(iter(OLD)))
    value[16] = 7
    with pytest.raises(MalformedFrame, match="7 is not the state"):
        restored(bytes(value))


def test_dead_id_with_a_value_does_not_exist() -> None:
    """Only other software writes such a record in place of a tombstone."""
    coordinated = Coordinated()
    coordinated.init()
    ((key, value),) = [pair for pair in coordinated.log if pair[1] is not None]
    assert value is not None
    decoded = TRANSACTION_RECORDS.decode_value(TransactionLogKey(transactional_id=TID), value)
    assert isinstance(decoded, TransactionLogValue)
    decoded.transaction_status = TransactionState.DEAD
    coordinated.log.append((key, TRANSACTION_RECORDS.encode_value(decoded)))
    coordinated.restart()
    assert coordinated.shard.transactions == {}
    assert coordinated.init()[0] == 0


def test_names_of_states() -> None:
    names = [each.kafka_name for each in TransactionState]
    assert names == [
        "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort",
        "Dead", "PrepareEpochFence",
    ]  # fmt: skip


def test_tombstone_of_an_expired_id() -> None:
    coordinated = Coordinated()
    coordinated.init()
    transaction = coordinated.transaction()
    assert transaction.tombstone() == (TransactionLogKey(transactional_id=TID), None)
    assert transaction.updated_ms == START_MS
