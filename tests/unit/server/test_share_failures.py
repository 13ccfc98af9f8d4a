"""The facts about deliveries that have failed [journal/deliveries]."""

from typing import cast

from coterie.coordinator.share_partition.in_flight import Transition
from coterie.coordinator.share_partition.partition import MemberRecords, SharePartition
from coterie.coordinator.share_partition.states import ARCHIVED, AVAILABLE, StateBatch
from coterie.protocol.messages.share_facts import LOCK_TIMEOUT, FailedDelivery
from coterie.server.logs.partition import Partition
from coterie.server.share.failures import deliveries_failed
from tests.unit.coordinator.test_share_partition import LOCK_MS, RELEASE, fetch, log, say


class _Topic:
    name = "orders"


class _Partition:
    topic = _Topic()
    index = 3


def test_who_held_the_records_is_known_when_their_lock_ends() -> None:
    partition = SharePartition(0, 0)
    fetch(partition, log(2))
    fetch(partition, log(2, 1), member="two")
    failed: list[MemberRecords] = []
    partition.expire_locks(LOCK_MS, 5, failed)
    assert sorted(failed) == [
        ("one", StateBatch(0, 1, AVAILABLE, 1)),
        ("two", StateBatch(2, 2, AVAILABLE, 1)),
    ]


def test_a_release_at_the_limit_gives_records_up_and_no_other_does() -> None:
    for limit, given_up in ((5, []), (1, [StateBatch(0, 1, ARCHIVED, 1)])):
        partition = SharePartition(0, 0)
        fetch(partition, log(2))
        result = say(partition, 0, 1, RELEASE, limit=limit)
        assert isinstance(result, Transition)
        assert result.given_up == given_up


def test_neighbours_of_a_member_are_one_delivery_and_there_are_not_more_than_a_hundred() -> None:
    failed = [("b", StateBatch(n, n, AVAILABLE, 1)) for n in (1, 0)]
    failed += [("a", StateBatch(2, 2, ARCHIVED, 5))]
    fact = deliveries_failed(cast("Partition", _Partition()), LOCK_TIMEOUT, failed, 7)
    assert (fact.at_ms, fact.topic, fact.partition, fact.cause) == (7, "orders", 3, LOCK_TIMEOUT)
    last, first = fact.deliveries
    assert (last.member_id, last.first_offset, last.given_up) == ("a", 2, True)
    assert first == FailedDelivery(
        member_id="b", first_offset=0, last_offset=1, delivery_count=1, given_up=False
    )
    many = [("a", StateBatch(2 * n, 2 * n, AVAILABLE, 1)) for n in range(101)]
    fact = deliveries_failed(cast("Partition", _Partition()), LOCK_TIMEOUT, many, 7)
    assert len(fact.deliveries) == 100
