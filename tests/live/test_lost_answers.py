"""Clients repeat a request if its response is lost after the broker has processed it.

So every request that changes something must be repeatable: Produce (sequence numbers of KIP-98),
JoinGroup, SyncGroup, OffsetCommit, LeaveGroup. Scenarios S175, S176, S178.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import coterie.testing
from coterie.testing import CloseAfter
from tests.live.broker_process import FAST_GROUPS, OUR_SHORT_SESSION_MS, Broker
from tests.live.deadlines import eventually
from tests.live.groups import GroupView, produce_rows
from tests.live.libraries import BY_NAME, Library, Message, Received, Sending
from tests.live.members import Members, wait_all_read, wait_assigned

MESSAGES = [Message(b"%d" % row, partition=0) for row in range(300)]
# Faults are for members only, not for the clients with which a test looks at their group.
MEMBER = "member"


@pytest.fixture(scope="module")
def kafka() -> Iterator[coterie.testing.Broker]:
    """A broker that can lose responses."""
    with coterie.testing.Broker(config=FAST_GROUPS) as opened:
        yield opened


@pytest.fixture
def broker(kafka: coterie.testing.Broker) -> Broker:
    """The same broker, in the place of that of the other tests."""
    return Broker(kafka.bootstrap_servers, own=True, short_session_ms=OUR_SHORT_SESSION_MS)


def produce_with_losses(
    kafka: coterie.testing.Broker, library: Library, topic: str, *, idempotent: bool
) -> list[Received]:
    """Produce 300 messages while three Produce responses are lost; return the stored records."""
    bootstrap = kafka.bootstrap_servers
    # The first three batches are affected, however the library makes its batches.
    with kafka.fault(CloseAfter(), api="Produce", times=3) as lost:
        library.produce(bootstrap, topic, MESSAGES, Sending(idempotent=idempotent, linger_ms=0))
    lost.must_have_hit(3)
    (end,) = library.produce(bootstrap, topic, [Message(b"end", partition=0)])
    assert end is not None, "with acks=all there is an offset"
    return BY_NAME["confluent"].consume(bootstrap, topic, 1, end)[:end]


def test_idempotent_producer_retry_is_stored_once(
    kafka: coterie.testing.Broker, make_topic: Callable[..., str], library: Library
) -> None:
    """An idempotent producer repeats batches without response; each record is stored once."""
    topic = make_topic()
    stored = produce_with_losses(kafka, library, topic, idempotent=True)
    assert [record.value for record in stored] == [message.value for message in MESSAGES]


def test_retry_without_idempotence_is_stored_twice(
    kafka: coterie.testing.Broker, make_topic: Callable[..., str]
) -> None:
    """Without idempotence the same losses cause duplicates.

    This shows that the batches of the test above are in fact repeated.
    """
    topic = make_topic()
    stored = produce_with_losses(kafka, BY_NAME["confluent"], topic, idempotent=False)
    times = Counter(record.value for record in stored)
    assert set(times) == {message.value for message in MESSAGES}
    assert max(times.values()) > 1


@pytest.mark.parametrize(
    "api",
    [
        *("FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat"),
        *("OffsetFetch", "OffsetCommit", "Fetch"),
    ],
)
def test_group_recovers_from_a_lost_response(
    kafka: coterie.testing.Broker,
    broker: Broker,
    make_topic: Callable[..., str],
    library: Library,
    api: str,
) -> None:
    """Of two members one does not get a response of this API, and the group recovers.

    Every record is read, all offsets are committed, and the group has no other members.
    """
    topic = make_topic(partitions=4)
    group = GroupView(broker.bootstrap, topic)
    stored = produce_rows(broker.bootstrap, topic, 4, 80)
    # A rebalance waits for a member id whose response was lost until its session would end, so the
    # session is short.
    options: dict[str, Any] = {
        "group": topic,
        "topic": topic,
        "session_timeout_ms": broker.short_session_ms,
    }
    started = Members(broker.bootstrap)
    try:
        lost = kafka.fault(CloseAfter(), api=api, client_id=MEMBER, times=1)
        pair = [started.start(library.name, **options) for _ in range(2)]
        wait_assigned(pair, topic, 4)
        wait_all_read(pair, stored)
        eventually(lambda: lost.hits == 1, "the response was lost", evidence=lambda: lost)
        stored |= produce_rows(broker.bootstrap, topic, 4, 80)
        wait_all_read(pair, stored)
        eventually(
            lambda: group.offsets() == {(topic, partition): 40 for partition in range(4)},
            "all committed",
            evidence=group.offsets,
        )
        wait_assigned(pair, topic, 4)
        eventually(
            lambda: group.member_ids() == {member.member_id for member in pair},
            "no other members",
            evidence=group.member_ids,
        )
        for member in pair:
            assert member.leave() == 0
        group.wait_state("EMPTY", members=0)
    finally:
        started.close()


def test_leaving_with_a_lost_response(
    kafka: coterie.testing.Broker,
    broker: Broker,
    make_topic: Callable[..., str],
    library: Library,
) -> None:
    """A member that does not get the response to LeaveGroup ends, and has left the group."""
    topic = make_topic()
    started = Members(broker.bootstrap)
    try:
        member = started.start(library.name, group=topic, topic=topic)
        wait_assigned([member], topic, 1)
        with kafka.fault(CloseAfter(), api="LeaveGroup", client_id=MEMBER, times=1) as lost:
            assert member.leave() == 0
        lost.must_have_hit(1)
        GroupView(broker.bootstrap, topic).wait_state("EMPTY", members=0)
    finally:
        started.close()
