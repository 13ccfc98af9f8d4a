"""Timeouts of transactions, and the expiry of ids.

Rules: [transactions/epoch-exhaustion].
"""

import pytest

from coterie.coordinator.transactions.config import TransactionConfig
from coterie.protocol.errors import ErrorCode
from tests.unit.transactions.coordinated import FOO, TID, Coordinated

CONFIG = TransactionConfig(abort_interval_ms=500, id_expiration_ms=1_000, expiry_interval_ms=500)


def timed_out(level: int, epoch: int = 0) -> Coordinated:
    """Return a coordinator that has aborted a transaction with a timeout of 1,500 ms."""
    coordinated = Coordinated(level, CONFIG._replace(id_expiration_ms=10**9))
    coordinated.init(timeout_ms=1_500)
    coordinated.transaction().epoch = epoch
    coordinated.use(1000, epoch, FOO)
    coordinated.advance(1_500)
    assert coordinated.state == "Ongoing"
    coordinated.advance(600)
    assert coordinated.state == "CompleteAbort"
    return coordinated


@pytest.mark.parametrize("level", [0, 1, 2])
def test_transaction_past_its_timeout_is_aborted_under_the_next_epoch(level: int) -> None:
    """[transactions/timeout]"""
    coordinated = timed_out(level)
    (markers,) = coordinated.written
    assert (markers.commit, markers.producer_epoch, markers.transaction_version) == (
        False, 1, 2 if level == 2 else 0
    )  # fmt: skip
    assert coordinated.logged[-2:] == [("PrepareAbort", 1), ("CompleteAbort", 1)]
    assert coordinated.use(1000, 0, FOO) == ErrorCode.PRODUCER_FENCED
    assert coordinated.end(1000, 0, version=1) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1, -1)
    assert coordinated.end(1000, 0, version=4) == (ErrorCode.PRODUCER_FENCED, -1, -1)
    assert coordinated.end(1000, 0) == (ErrorCode.INVALID_TXN_STATE, -1, -1)
    assert coordinated.end(1000, 0, commit=False) == (0, 1000, 1)


def test_producer_continues_after_the_timeout_at_level_2_only() -> None:
    assert timed_out(2).init(1000, 0) == (0, 1000, 1)
    assert timed_out(2).init() == (0, 1000, 2)
    for level in (0, 1):
        assert timed_out(level).init(1000, 0)[0] == ErrorCode.PRODUCER_FENCED
        assert timed_out(level).init() == (0, 1000, 2)


def test_timeout_in_the_last_epoch_brings_another_producer_id() -> None:
    coordinated = timed_out(2, epoch=32766)
    (markers,) = coordinated.written
    assert (markers.producer_id, markers.producer_epoch) == (1000, 32767)
    assert coordinated.end(1000, 32766, commit=False) == (0, 1001, 0)


def test_greatest_timeout_never_passes() -> None:
    config = CONFIG._replace(max_timeout_ms=2**31 - 1, id_expiration_ms=10**12)
    coordinated = Coordinated(config=config)
    coordinated.init(timeout_ms=2**31 - 1)
    coordinated.use(1000, 0, FOO)
    coordinated.now_ms += 2**32
    coordinated.advance(10_000)
    assert coordinated.state == "Ongoing"


def test_time_of_an_open_transaction_runs_on_over_a_restart() -> None:
    coordinated = Coordinated(config=CONFIG)
    coordinated.init(timeout_ms=1_500)
    coordinated.use(1000, 0, FOO)
    coordinated.advance(1_400)
    coordinated.restart()
    assert coordinated.state == "Ongoing"
    coordinated.advance(600)
    assert coordinated.state == "CompleteAbort"


def test_without_a_producer_id_the_timeout_is_tried_again() -> None:
    coordinated = Coordinated(config=CONFIG)
    coordinated.init(timeout_ms=100)
    coordinated.transaction().epoch = 32766
    coordinated.use(1000, 32766, FOO)
    coordinated.has_ids = False
    coordinated.advance(2_000)
    assert coordinated.state == "Ongoing"
    coordinated.has_ids = True
    coordinated.advance(500)
    assert coordinated.state == "CompleteAbort"


def test_unused_id_is_forgotten() -> None:
    """[transactions/timeout]"""
    coordinated = Coordinated(config=CONFIG)
    coordinated.init()
    coordinated.init(transactional_id="open")
    coordinated.use(1001, 0, FOO, transactional_id="open")
    coordinated.advance(900)
    assert TID in coordinated.shard.transactions
    coordinated.advance(200)
    assert list(coordinated.shard.transactions) == ["open"]
    assert coordinated.logged[-1] == ("tombstone", 0)
    unknown = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert coordinated.end(1000, 0) == (unknown, -1, -1)
    coordinated.restart()
    assert TID not in coordinated.shard.transactions
    assert coordinated.init() == (0, 1002, 0)


def test_without_ids_there_is_no_timer() -> None:
    coordinated = Coordinated(config=CONFIG)
    assert coordinated.coordinator.next_deadline_ms() is None
    coordinated.init()
    assert coordinated.coordinator.next_deadline_ms() is not None


def test_many_transactions_that_time_out_at_once_are_aborted_a_few_at_a_time() -> None:
    coordinated = Coordinated(config=CONFIG)
    for number in range(40):
        transactional_id = f"t{number}"
        coordinated.init(timeout_ms=1_500, transactional_id=transactional_id)
        coordinated.use(1000 + number, 0, FOO, transactional_id=transactional_id)
    aborted, end_ms = [], coordinated.now_ms + 3_000
    while (deadline_ms := coordinated.coordinator.next_deadline_ms() or 0) < end_ms:
        coordinated.now_ms = max(deadline_ms, coordinated.now_ms)
        effects = coordinated.coordinator.advance(coordinated.now_ms)
        aborted.append(len(effects.appends))
        coordinated._apply(effects)
    assert [count for count in aborted if count] == [16, 16, 8]
