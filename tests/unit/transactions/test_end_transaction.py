"""EndTxn: both tables of Kafka 4.3.1, for each state of an id.

Rules: [transactions/end].
"""

import pytest

from coterie.protocol.errors import ErrorCode
from tests.unit.transactions.coordinated import BAR, FOO, Coordinated

OK = 0
FENCED = ErrorCode.PRODUCER_FENCED
STATE = ErrorCode.INVALID_TXN_STATE
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS
OTHER = ErrorCode.INVALID_PRODUCER_ID_MAPPING
EPOCH = 4


def coordinated_in(state: str, version: int) -> tuple[Coordinated, int]:
    """Return a coordinator whose id is in a state, and the epoch of the id."""
    coordinated = Coordinated()
    for _ in range(EPOCH + 1):
        coordinated.init()
    if state != "Empty":
        coordinated.use(1000, EPOCH, FOO)
    if state.startswith("Prepare"):
        coordinated.writes_markers = False
    if state not in ("Empty", "Ongoing"):
        coordinated.end(1000, EPOCH, commit=state.endswith("Commit"), version=version)
    assert coordinated.state == state
    return coordinated, coordinated.transaction().epoch


@pytest.mark.parametrize(
    ("state", "on_commit", "on_abort"),
    [
        ("Empty", STATE, STATE),
        ("Ongoing", OK, OK),
        ("PrepareCommit", BUSY, BUSY),
        ("PrepareAbort", BUSY, BUSY),
        ("CompleteCommit", OK, STATE),
        ("CompleteAbort", STATE, OK),
    ],
)
def test_older_versions(state: str, on_commit: int, on_abort: int) -> None:
    """[transactions/end-older]"""
    for commit, expected in ((True, on_commit), (False, on_abort)):
        coordinated, epoch = coordinated_in(state, 4)
        assert epoch == EPOCH
        records = len(coordinated.log)
        response = coordinated.end(1000, epoch, commit=commit, version=4)
        assert response is not None
        assert response[0] == expected
        grows = state == "Ongoing"
        assert len(coordinated.log) == records + 2 * grows
        assert coordinated.transaction().epoch == EPOCH


@pytest.mark.parametrize(
    ("state", "commit", "abort", "commit_again", "abort_again"),
    [
        ("Empty", STATE, OK, FENCED, FENCED),
        ("Ongoing", OK, OK, FENCED, FENCED),
        ("PrepareCommit", BUSY, BUSY, BUSY, BUSY),
        ("PrepareAbort", BUSY, BUSY, BUSY, BUSY),
        ("CompleteCommit", STATE, OK, OK, STATE),
        ("CompleteAbort", STATE, OK, STATE, OK),
    ],
)
def test_newer_versions(
    state: str, commit: int, abort: int, commit_again: int, abort_again: int
) -> None:
    """[transactions/end-newer]"""
    for is_commit, again, expected in (
        (True, False, commit),
        (False, False, abort),
        (True, True, commit_again),
        (False, True, abort_again),
    ):
        coordinated, epoch = coordinated_in(state, 5)
        records = len(coordinated.log)
        response = coordinated.end(1000, epoch - again, commit=is_commit)
        assert response is not None
        assert response[0] == expected
        ends = expected == OK and not again
        assert len(coordinated.log) == records + 2 * ends
        if expected == OK:
            assert response[1:] == (1000, epoch + ends)
        else:
            assert response[1:] == (-1, -1)


def test_end_waits_for_its_markers() -> None:
    """[transactions/end]"""
    coordinated = Coordinated()
    coordinated.writes_markers = False
    coordinated.init()
    coordinated.use(1000, 0, FOO, BAR)
    assert coordinated.end(1000, 0) is None
    (markers,) = coordinated.markers
    assert (markers.commit, markers.producer_id, markers.producer_epoch) == (True, 1000, 1)
    assert (markers.partitions, markers.transaction_version) == ((FOO, BAR), 2)
    assert coordinated.last_reply() is None
    coordinated.write_markers()
    assert coordinated.last_reply().producer_epoch == 1
    assert coordinated.state == "CompleteCommit"
    assert coordinated.logged == [
        ("Empty", 0), ("Ongoing", 0), ("PrepareCommit", 1), ("CompleteCommit", 1)
    ]  # fmt: skip


def test_markers_are_asked_for_when_the_decision_is_durable() -> None:
    coordinated = Coordinated()
    coordinated.init()
    coordinated.is_slow = True
    coordinated.use_later(1000, 0, FOO)
    assert coordinated.end(1000, 0) is None
    assert (coordinated.markers, coordinated.written) == ([], [])
    coordinated.sync()
    assert len(coordinated.written) == 1


def test_end_is_answered_although_a_marker_cannot_be_written() -> None:
    """[transactions/end]"""
    coordinated = Coordinated()
    coordinated.writes_markers = False
    coordinated.init()
    coordinated.use(1000, 0, FOO)
    assert coordinated.end(1000, 0) is None
    coordinated.advance(999)
    assert coordinated.last_reply() is None
    coordinated.advance(1)
    assert coordinated.last_reply().producer_epoch == 1
    assert coordinated.state == "PrepareCommit"
    assert coordinated.use(1000, 1, FOO) == BUSY
    coordinated.write_markers()
    assert coordinated.use(1000, 1, FOO) == OK


def test_second_end_is_busy_and_brings_no_second_marker() -> None:
    coordinated = Coordinated()
    coordinated.writes_markers = False
    coordinated.init()
    coordinated.use(1000, 0, FOO)
    assert coordinated.end(1000, 0) is None
    assert coordinated.end(1000, 0) == (BUSY, -1, -1)
    assert len(coordinated.markers) == 1


def test_older_end_keeps_the_epoch_in_the_marker_and_after_it() -> None:
    coordinated = Coordinated()
    coordinated.init()
    for _ in range(2):
        coordinated.use(1000, 0, FOO)
        assert coordinated.end(1000, 0, version=4) == (OK, 1000, 0)
    assert [(each.producer_epoch, each.transaction_version) for each in coordinated.written] == [
        (0, 0), (0, 0)
    ]  # fmt: skip


def test_epoch_runs_out() -> None:
    """[transactions/epoch-exhaustion]"""
    coordinated = Coordinated()
    coordinated.init()
    coordinated.transaction().epoch = 32766
    coordinated.use(1000, 32766, FOO, level=2)
    assert coordinated.end(1000, 32766) == (OK, 1001, 0)
    (markers,) = coordinated.written
    assert (markers.producer_id, markers.producer_epoch) == (1000, 32767)
    # The answer may be lost: as an EndTxn, or as an InitProducerId.
    assert coordinated.end(1000, 32766) == (OK, 1001, 0)
    assert coordinated.end(1000, 32766, commit=False) == (STATE, -1, -1)
    assert coordinated.init(1000, 32766) == (OK, 1001, 0)
    assert coordinated.end(1000, 32766) == (OTHER, -1, -1)


def test_decision_survives_a_crash_before_its_markers() -> None:
    """[transactions/load]"""
    coordinated = Coordinated()
    coordinated.writes_markers = False
    coordinated.init()
    coordinated.transaction().epoch = 32766
    coordinated.use(1000, 32766, FOO, BAR)
    coordinated.end(1000, 32766)
    coordinated.restart()
    (markers,) = coordinated.markers
    assert (markers.producer_id, markers.producer_epoch, markers.commit) == (1000, 32767, True)
    assert markers.partitions == (FOO, BAR)
    coordinated.write_markers()
    assert coordinated.logged[-1] == ("CompleteCommit", 0)
    assert coordinated.end(1000, 32766) == (OK, 1001, 0)


def test_open_transaction_survives_a_crash() -> None:
    coordinated = Coordinated()
    coordinated.init()
    coordinated.use(1000, 0, FOO)
    coordinated.restart()
    assert coordinated.markers == []
    assert coordinated.end(1000, 0) == (OK, 1000, 1)


def test_lost_decision_is_an_error_and_the_transaction_stays_open() -> None:
    coordinated = Coordinated()
    coordinated.init()
    coordinated.use(1000, 0, FOO)
    coordinated.is_slow = True
    assert coordinated.end(1000, 0) is None
    coordinated.fail_append()
    assert coordinated.last_reply().error_code == ErrorCode.NOT_COORDINATOR
    coordinated.is_slow = False
    assert coordinated.state == "Ongoing"
    assert coordinated.end(1000, 0) == (OK, 1000, 1)


def test_late_word_of_markers_changes_nothing() -> None:
    coordinated = Coordinated()
    coordinated.init()
    coordinated.use(1000, 0, FOO)
    coordinated.end(1000, 0, version=4)
    coordinated.use(1000, 0, BAR)
    effects = coordinated.coordinator.markers_written(0, "payments", 1000, 0, coordinated.now_ms)
    assert (effects.quiet, coordinated.state) == (True, "Ongoing")


def test_ends_that_wait_are_forgotten_with_the_topic() -> None:
    coordinated = Coordinated()
    coordinated.writes_markers = False
    coordinated.init()
    coordinated.use(1000, 0, FOO)
    assert coordinated.end(1000, 0) is None
    coordinator = coordinated.coordinator
    coordinator.unload(0, None, coordinated.now_ms)
    coordinator.set_partitions(0)
    assert coordinator.next_deadline_ms() is None
    assert not coordinator.advance(coordinated.now_ms + 60_000).appends
