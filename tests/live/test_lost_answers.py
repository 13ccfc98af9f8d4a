"""What clients do when an answer is lost after the broker did its work: they ask again.

So every request that changes something must bear being repeated: producing (KIP-98 sequence
numbers), joining, syncing, committing, leaving. Scenarios S175, S176, S178; trace T5.
"""

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.live import lossy_proxy
from tests.live.broker_process import Broker
from tests.live.deadlines import eventually
from tests.live.groups import GroupView, produce_rows
from tests.live.libraries import BY_NAME, Library, Message, Received, Sending
from tests.live.lossy_proxy import LossyProxy
from tests.live.members import Members, wait_all_read, wait_shared

MESSAGES = [Message(b"%d" % row, partition=0) for row in range(300)]


@pytest.fixture
def proxy(broker: Broker) -> Iterator[LossyProxy]:
    """A proxy in front of the broker, closed with the test."""
    opened = LossyProxy(broker.bootstrap)
    yield opened
    opened.close()


def produce_with_losses(
    broker: Broker, proxy: LossyProxy, library: Library, topic: str, *, idempotent: bool
) -> list[Received]:
    """Produce 300 messages while three Produce answers are lost; returns what the log then has."""
    proxy.lose(lossy_proxy.PRODUCE, count=3)
    # The losses hit the first three batches, whatever the batching of the library is.
    library.produce(proxy.bootstrap, topic, MESSAGES, Sending(idempotent=idempotent, linger_ms=0))
    assert proxy.lost()[lossy_proxy.PRODUCE] == 3
    (end,) = library.produce(broker.bootstrap, topic, [Message(b"end", partition=0)])
    return BY_NAME["confluent"].consume(broker.bootstrap, topic, 1, end)[:end]


def test_idempotent_producer_retry_is_stored_once(
    broker: Broker, proxy: LossyProxy, make_topic: Callable[..., str], library: Library
) -> None:
    """An idempotent producer repeats unanswered batches; each record is stored once, in order."""
    topic = make_topic()
    stored = produce_with_losses(broker, proxy, library, topic, idempotent=True)
    assert [record.value for record in stored] == [message.value for message in MESSAGES]


def test_retry_without_idempotence_is_stored_twice(
    broker: Broker, proxy: LossyProxy, make_topic: Callable[..., str]
) -> None:
    """The same losses without idempotence leave duplicates.

    This is what shows that the test above has something to find: the batches are really repeated.
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
def test_group_survives_a_lost_answer(
    broker: Broker,
    proxy: LossyProxy,
    make_topic: Callable[..., str],
    library: Library,
    api_key: int,
) -> None:
    """Two members; one answer of this API is lost to one of them: the group settles all the same.

    Every record is read, the last offsets are committed, and nobody else is left in the group.
    """
    topic = make_topic(partitions=4)
    group = GroupView(broker.bootstrap, topic)
    stored = produce_rows(broker.bootstrap, topic, 4, 80)
    # A member id whose answer was lost is waited for until its session would end, so keep it short.
    options = {"group": topic, "topic": topic, "session_timeout_ms": broker.short_session_ms}
    started = Members(proxy.bootstrap)
    try:
        proxy.lose(api_key)
        pair = [started.start(library.name, **options) for _ in range(2)]
        wait_shared(pair, topic, 4)
        wait_all_read(pair, stored)
        eventually(lambda: not proxy.still_to_lose(), "the answer was lost", told=proxy.lost)
        stored |= produce_rows(broker.bootstrap, topic, 4, 80)
        wait_all_read(pair, stored)
        eventually(
            lambda: group.offsets() == {(topic, partition): 40 for partition in range(4)},
            "all committed",
            told=group.offsets,
        )
        wait_shared(pair, topic, 4)
        eventually(
            lambda: group.member_ids() == {member.member_id for member in pair},
            "nobody else in the group",
            told=group.member_ids,
        )
        for member in pair:
            assert member.leave() == 0
        group.wait_state("EMPTY", members=0)
    finally:
        started.put_away()


def test_leaving_survives_a_lost_answer(
    broker: Broker, proxy: LossyProxy, make_topic: Callable[..., str], library: Library
) -> None:
    """A member whose LeaveGroup answer is lost ends all the same, and is out of the group."""
    topic = make_topic()
    started = Members(proxy.bootstrap)
    try:
        member = started.start(library.name, group=topic, topic=topic)
        wait_shared([member], topic, 1)
        proxy.lose(lossy_proxy.LEAVE_GROUP)
        assert member.leave() == 0
        assert proxy.lost()[lossy_proxy.LEAVE_GROUP] == 1
        GroupView(broker.bootstrap, topic).wait_state("EMPTY", members=0)
    finally:
        started.put_away()
