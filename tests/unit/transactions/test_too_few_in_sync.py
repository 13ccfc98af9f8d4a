"""A coordinator whose log has too few replicas in sync: requests are refused and change nothing."""

import pytest

from coterie.coordinator.transactions.transaction import Transaction
from coterie.protocol.errors import ErrorCode
from tests.unit.transactions.coordinated import FOO, TID, Coordinated

NOT_AVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE


def fields(transaction: Transaction) -> dict[str, object]:
    return {name: getattr(transaction, name) for name in Transaction.__slots__}


def test_draft_has_every_field_of_its_own() -> None:
    transaction = Transaction(TID, 7, 1000)
    transaction.raise_epoch(last_epoch=-1)
    transaction.add([FOO], 2, 2000)
    transaction.previous_id, transaction.next_id = 8, 9
    transaction.timeout_ms, transaction.last_epoch = 5, 4
    draft = transaction.draft()
    assert fields(draft) == fields(transaction)
    draft.partitions.clear()
    assert transaction.partitions


@pytest.mark.parametrize("level", [0, 2])
def test_requests_are_refused_in_each_state(level: int) -> None:
    world = Coordinated(level)
    _, producer_id, epoch = world.init()
    for in_transaction in (False, True):
        if in_transaction:
            world.release()
            assert world.use(producer_id, epoch, FOO) == ErrorCode.NONE
        before, written = fields(world.transaction()), len(world.log)
        world.hold()
        assert world.init() == (NOT_AVAILABLE, -1, -1)
        assert world.init(producer_id, epoch) == (NOT_AVAILABLE, -1, -1)
        known = ErrorCode.NONE if in_transaction else NOT_AVAILABLE
        assert world.use(producer_id, epoch, FOO) == known
        assert world.use(producer_id, epoch, ("other", 3)) == NOT_AVAILABLE
        assert fields(world.transaction()) == before
        assert len(world.log) == written
