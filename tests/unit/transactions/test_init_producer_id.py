"""InitProducerId of a transactional id, with the answers of Kafka 4.3.1.

Rules: [transactions/epoch-exhaustion].
"""

import pytest

from coterie.coordinator.transactions.config import TransactionConfig
from coterie.protocol.errors import ErrorCode
from tests.unit.transactions.coordinated import FOO, TID, Coordinated

FENCED = (ErrorCode.PRODUCER_FENCED, -1, -1)


def exhausted(level: int = 2) -> tuple[Coordinated, int]:
    """Return a coordinator whose id has the last epoch, and the producer id."""
    coordinated = Coordinated(level)
    _, producer_id, _ = coordinated.init()
    coordinated.transaction().epoch = 32766
    return coordinated, producer_id


def test_each_producer_gets_the_next_epoch_also_after_a_restart() -> None:
    coordinated = Coordinated()
    assert coordinated.init() == (0, 1000, 0)
    assert coordinated.init() == (0, 1000, 1)
    coordinated.restart()
    assert coordinated.init() == (0, 1000, 2)
    assert coordinated.init(transactional_id="other") == (0, 1001, 0)
    assert coordinated.logged == [("Empty", 0), ("Empty", 1), ("Empty", 2), ("Empty", 0)]


def test_empty_id_is_refused() -> None:
    assert Coordinated().init(transactional_id="")[0] == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("level", "epoch_of_markers"), [(2, 2), (1, 2), (0, 2)])
def test_open_transaction_is_aborted_first(level: int, epoch_of_markers: int) -> None:
    coordinated = Coordinated(level)
    coordinated.init()
    coordinated.init()
    coordinated.use(1000, 1, FOO)
    assert coordinated.init() == (ErrorCode.CONCURRENT_TRANSACTIONS, -1, -1)
    (markers,) = coordinated.written
    assert (markers.commit, markers.producer_epoch) == (False, epoch_of_markers)
    assert markers.partitions == (FOO,)
    assert coordinated.init() == (0, 1000, 3)


def test_id_whose_transaction_is_being_ended_is_busy() -> None:
    coordinated = Coordinated()
    coordinated.writes_markers = False
    coordinated.init()
    coordinated.use(1000, 0, FOO)
    assert coordinated.end(1000, 0) is None
    for named in ((-1, -1), (1000, 1), (999, 7)):
        assert coordinated.init(*named)[0] == ErrorCode.CONCURRENT_TRANSACTIONS


def test_exhausted_epoch_brings_another_producer_id() -> None:
    coordinated, producer_id = exhausted()
    assert coordinated.init() == (0, producer_id + 1, 0)
    assert coordinated.init(producer_id, 32766) == FENCED
    assert coordinated.init(producer_id + 1, 0) == (0, producer_id + 1, 1)


def test_exhausted_producer_that_names_itself_may_repeat_that() -> None:
    coordinated, producer_id = exhausted()
    assert coordinated.init(producer_id, 32766) == (0, producer_id + 1, 0)
    assert coordinated.init(producer_id, 32766) == (0, producer_id + 1, 0)


def test_older_epoch_of_an_exhausted_producer_is_fenced() -> None:
    coordinated, producer_id = exhausted()
    assert coordinated.init(producer_id, 32765) == FENCED


@pytest.mark.parametrize("level", [0, 1])
def test_epoch_of_an_abort_belongs_to_no_producer(level: int) -> None:
    """Otherwise a client could leave an open transaction whose epoch cannot be raised."""
    coordinated, producer_id = exhausted(level)
    coordinated.use(producer_id, 32766, FOO)
    assert coordinated.init()[0] == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinated.transaction().epoch == 32767
    assert coordinated.use(producer_id, 32767, FOO) == ErrorCode.PRODUCER_FENCED
    coordinated.advance(600_000)
    assert coordinated.init() == (0, producer_id + 1, 0)


def test_last_epoch_is_given_out() -> None:
    coordinated = Coordinated()
    coordinated.init()
    coordinated.transaction().epoch = 32765
    assert coordinated.init() == (0, 1000, 32766)


def test_without_producer_ids_clients_come_again() -> None:
    coordinated = Coordinated()
    coordinated.has_ids = False
    assert coordinated.init()[0] == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert TID not in coordinated.shard.transactions
    coordinated.has_ids = True
    assert coordinated.init()[0] == 0


def test_new_timeout_counts() -> None:
    coordinated = Coordinated()
    coordinated.init(timeout_ms=5_000)
    coordinated.init(timeout_ms=7_000)
    assert coordinated.transaction().timeout_ms == 7_000
    assert coordinated.transaction().started_ms == -1


def test_number_of_ids_is_limited() -> None:
    """[transactions/id-limit]"""
    coordinated = Coordinated(config=TransactionConfig(max_ids=1))
    for name in ("one", "two"):
        assert coordinated.init(transactional_id=name)[0] == ErrorCode.NONE
    for _ in range(2):
        refused = coordinated.init(transactional_id="three")
        assert refused == (ErrorCode.POLICY_VIOLATION, -1, -1)
        assert coordinated.init(transactional_id="one")[0] == ErrorCode.NONE
        coordinated.restart()
