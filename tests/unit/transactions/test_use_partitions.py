"""Adding partitions to a transaction, and verifying them."""

from coterie.protocol.errors import ErrorCode
from tests.unit.transactions.coordinated import BAR, FOO, Coordinated

NOT_THERE = ErrorCode.TRANSACTION_ABORTABLE


def test_first_partition_begins_the_transaction() -> None:
    coordinated = Coordinated()
    coordinated.init()
    assert coordinated.use(1000, 0, FOO) == 0
    assert coordinated.transaction().started_ms == coordinated.now_ms
    coordinated.advance(50)
    assert coordinated.use(1000, 0, BAR, FOO) == 0
    transaction = coordinated.transaction()
    assert (list(transaction.partitions), transaction.started_ms) == (
        [FOO, BAR],
        coordinated.now_ms - 50,
    )
    assert coordinated.logged == [("Empty", 0), ("Ongoing", 0), ("Ongoing", 0)]


def test_partition_that_is_there_is_not_written_again() -> None:
    coordinated = Coordinated()
    coordinated.init()
    coordinated.use(1000, 0, FOO, BAR)
    records = len(coordinated.log)
    assert coordinated.use(1000, 0, BAR) == 0
    assert len(coordinated.log) == records


def test_addition_of_nothing_begins_a_transaction() -> None:
    coordinated = Coordinated()
    coordinated.init()
    assert coordinated.use(1000, 0) == 0
    assert coordinated.state == "Ongoing"


def test_level_that_the_log_cannot_have() -> None:
    """[transactions/levels]"""
    coordinated = Coordinated(level=0)
    coordinated.init()
    unsupported = ErrorCode.UNSUPPORTED_VERSION
    assert coordinated.use(1000, 0, FOO, level=2) == unsupported
    assert coordinated.end(1000, 0, version=5, commit=False) == (unsupported, -1, -1)
    assert coordinated.use(1000, 0, FOO) == 0
    assert coordinated.use(1000, 0, FOO, level=2) == 0
    assert coordinated.end(1000, 0, version=5) == (unsupported, -1, -1)
    ended = coordinated.end(1000, 0, version=4)
    assert ended is not None
    assert ended[0] == 0


def test_while_the_transaction_is_being_ended() -> None:
    coordinated = Coordinated()
    coordinated.writes_markers = False
    coordinated.init()
    coordinated.use(1000, 0, FOO)
    coordinated.end(1000, 0, version=4)
    assert coordinated.use(1000, 0, FOO) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinated.use(999, 0, FOO) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinated.use(1000, 0, FOO, add=False) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert coordinated.use(999, 0, FOO, add=False) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_verification() -> None:
    coordinated = Coordinated()
    coordinated.init()
    assert coordinated.use(1000, 0, FOO, add=False) == NOT_THERE
    coordinated.use(1000, 0, FOO)
    assert coordinated.use(1000, 0, FOO, add=False) == 0
    assert coordinated.use(1000, 0, FOO, BAR, add=False) == NOT_THERE
    coordinated.end(1000, 0, version=4)
    assert coordinated.use(1000, 0, FOO, add=False) == NOT_THERE


def test_answers_wait_for_the_records_before_them() -> None:
    """[transactions/memory-first]"""
    coordinated = Coordinated()
    coordinated.init()
    coordinated.is_slow = True
    for partition in (FOO, BAR, FOO):
        assert coordinated.use_later(1000, 0, partition) is None
    coordinated.sync()
    assert list(coordinated.replies.values())[-3:] == [0, 0, 0]
    assert coordinated.logged[-2:] == [("Ongoing", 0), ("Ongoing", 0)]


def test_lost_addition_is_an_error() -> None:
    coordinated = Coordinated()
    coordinated.init()
    coordinated.is_slow = True
    assert coordinated.use_later(1000, 0, FOO) is None
    coordinated.fail_append()
    assert coordinated.last_reply() == ErrorCode.NOT_COORDINATOR
    coordinated.is_slow = False
    assert coordinated.use(1000, 0, FOO, add=False) == NOT_THERE


def test_transaction_that_does_not_fit_a_record_is_refused() -> None:
    coordinated = Coordinated()
    coordinated.init()
    many = [(f"{number:0249}", 0) for number in range(4_200)]
    assert coordinated.use(1000, 0, *many) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert coordinated.state == "Empty"
    assert coordinated.use(1000, 0, *many[:4_000]) == 0
    assert len(coordinated.log[-1][1] or b"") < 1_048_588
    assert coordinated.use(1000, 0, *many) == ErrorCode.UNKNOWN_SERVER_ERROR
