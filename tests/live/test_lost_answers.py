"""Clients repeat a request if its response is lost after the broker has processed it.

So every request that changes something must be repeatable: Produce (sequence numbers of KIP-98),
JoinGroup, SyncGroup, OffsetCommit, LeaveGroup. Scenarios S175, S176, S178.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.live import lossy_proxy
from tests.live.broker_process import Broker
from tests.live.deadlines import eventually
from tests.live.groups import GroupView, produce_rows
from tests.live.libraries import BY_NAME, Library, Message, Received, Sending
from tests.live.lossy_proxy import LossyProxy
from tests.live.members import Members, wait_all_read, wait_assigned

MESSAGES = [Message(b"%d" % row, partition=0) for row in range(300)]


@pytest.fixture
def proxy(broker: Broker) -> Iterator[LossyProxy]:
    """A proxy in front of the broker, which is closed with the test."""
    opened = LossyProxy(broker.bootstrap)
    yield opened
    opened.close()


def produce_with_losses(
    broker: Broker, proxy: LossyProxy, library: Library, topic: str, *, idempotent: bool
) -> list[Received]:
    """Produce 300 messages while three Produce responses are lost; return the stored records."""
    proxy.lose(lossy_proxy.PRODUCE, count=3)
    # The first three batches are affected, however the library makes its batches.
    library.produce(proxy.bootstrap, topic, MESSAGES, Sending(idempotent=idempotent, linger_ms=0))
    assert proxy.lost()[lossy_proxy.PRODUCE] == 3
    (end,) = library.produce(broker.bootstrap, topic, [Message(b"end", partition=0)])
    assert end is not None, "with acks=all there is an offset"
    return BY_NAME["confluent"].consume(broker.bootstrap, topic, 1, end)[:end]


def test_idempotent_producer_retry_is_stored_once(
    broker: Broker, proxy: LossyProxy, make_topic: Callable[..., str], library: Library
) -> None:
    """An idempotent producer repeats batches without response; each record is stored once."""
    topic = make_topic()
    stored = produce_with_losses(broker, proxy, library, topic, idempotent=True)
    assert [record.value for record in stored] == [message.value for message in MESSAGES]


def test_retry_without_idempotence_is_stored_twice(
    broker: Broker, proxy: LossyProxy, make_topic: Callable[..., str]
) -> None:
    """Without idempotence the same losses cause duplicates.

    This shows that the batches of the test above are in fact repeated.
    """
    topic = make_topic()
    stored = produce_with_losses(broker, proxy, BY_NAME["confluent"], topic, idempotent=False)
    times = Counter(record.value for record in stored)
    assert set(times) == {message.value for message in MESSAGES}
    assert max(times.values()) > 1


@pytest.mark.parametrize(
    "api_key",
    [
        lossy_proxy.FIND_COORDINATOR,
        lossy_proxy.JOIN_GROUP,
        lossy_proxy.SYNC_GROUP,
        lossy_proxy.HEARTBEAT,
        lossy_proxy.OFFSET_FETCH,
        lossy_proxy.OFFSET_COMMIT,
        lossy_proxy.FETCH,
    ],
    ids=["find", "join", "sync", "heartbeat", "offset-fetch", "commit", "fetch"],
)
def test_group_recovers_from_a_lost_response(
    broker: Broker,
    proxy: LossyProxy,
    make_topic: Callable[..., str],
    library: Library,
    api_key: int,
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
    started = Members(proxy.bootstrap)
    try:
        proxy.lose(api_key)
        pair = [started.start(library.name, **options) for _ in range(2)]
        wait_assigned(pair, topic, 4)
        wait_all_read(pair, stored)
        eventually(lambda: not proxy.still_to_lose(), "the response was lost", evidence=proxy.lost)
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
    broker: Broker, proxy: LossyProxy, make_topic: Callable[..., str], library: Library
) -> None:
    """A member that does not get the response to LeaveGroup ends, and has left the group."""
    topic = make_topic()
    started = Members(proxy.bootstrap)
    try:
        member = started.start(library.name, group=topic, topic=topic)
        wait_assigned([member], topic, 1)
        proxy.lose(lossy_proxy.LEAVE_GROUP)
        assert member.leave() == 0
        assert proxy.lost()[lossy_proxy.LEAVE_GROUP] == 1
        GroupView(broker.bootstrap, topic).wait_state("EMPTY", members=0)
    finally:
        started.close()
