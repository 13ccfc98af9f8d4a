"""What leaders of share partitions persist while their share coordinator comes and goes."""

from collections.abc import Callable
from typing import Any, cast

from coterie.coordinator.share_state.requests import ShareKey, StateResult, Write
from coterie.protocol.errors import ErrorCode
from coterie.server.share_state.persister import Persister
from coterie.server.share_state.runtime import ShareStateRuntime
from tests.unit.server.manual import Client, restarted
from tests.unit.server.manual_loop import ManualLoop
from tests.unit.server.share_clients import GROUP, LOCK_MS, ShareMember, Sharing, acquired

ACCEPT = 1
_FIRST_PAUSE_MS = 1_000
_LAST_PAUSE_MS = 8_000
_ALL_PAUSES_MS = 15_000


class Coordinated(Sharing):
    """A share group whose coordinator is given up and taken over."""

    @property
    def key(self) -> ShareKey:
        return ShareKey(GROUP, self.topic_id, 0)

    @property
    def index(self) -> int:
        return self.broker.share_state.coordinator.partition_for(self.key)

    @property
    def persisted_start(self) -> int:
        shard = self.broker.share_state.coordinator.shards[self.index]
        return shard.states[self.key].start_offset

    def give_up(self) -> None:
        self.broker.share_state.unload_partition(self.index)

    def take_over(self) -> None:
        runtime = self.broker.share_state
        runtime.load_partition(self.index, runtime.epoch(self.index) + 1)
        self.client.loop.turn()

    def holders(self, *names: str) -> list[ShareMember]:
        """Return members of which each holds the next record."""
        members = [self.member(name) for name in names]
        for number, each in enumerate(members):
            given = each.acquire(max_wait_ms=500, max_records=1)
            assert given == [(number, number, 1)]
        return members

    def given_after_a_kill(self) -> list[tuple[int, int, int]]:
        """Kill the broker, and return what its successor gives to a member."""
        self.broker.share.stop()
        self.broker = restarted(self.broker, killed=True)
        self.client = Client(self.broker)
        self.set_group(auto_offset_reset="earliest")
        self.produce(1)
        return self.member("another").acquire(max_wait_ms=500)


def send_accept(member: ShareMember, offset: int, **fields: int) -> None:
    """Accept a record, and do not wait for the answer."""
    request = member.fetch_request((offset, offset, ACCEPT), max_records=0, **fields)
    member.advance()
    member.client.send(request, 2)


def test_write_that_is_tried_again_does_not_follow_later_ones() -> None:
    """[share-partitions/persister-retries] The persisted start offset would go back with it."""
    sharing = Coordinated(1, 1, 1)
    one, two, three = sharing.holders("one", "two", "three")
    sharing.give_up()
    send_accept(two, 1)
    sharing.take_over()
    for member, offset in ((one, 0), (three, 2)):
        send_accept(member, offset)
        sharing.client.loop.turn()
    sharing.client.loop.advance(_FIRST_PAUSE_MS)
    assert [len(each.client.answers()) for each in (one, two, three)] == [1, 1, 1]
    assert sharing.given_after_a_kill() == [(3, 3, 1)]


class Slow:
    """A runtime of a coordinator that answers when a test says so."""

    exists = True

    def __init__(self) -> None:
        self.asked: list[tuple[Any, Callable[[StateResult], None]]] = []

    def ask(self, request: Any, done: Callable[[StateResult], None]) -> None:
        self.asked.append((request, done))


def test_late_write_that_is_tried_again_does_not_take_the_start_offset_back() -> None:
    """The one behind it was under way when it was late, and has succeeded."""
    loop, slow, results = ManualLoop(), Slow(), list[StateResult]()
    persister = Persister(loop.as_loop(), cast("ShareStateRuntime", slow), None)
    for start in (4, 7):
        write = Write(ShareKey(GROUP, b"t" * 16, 0), 1, 1, start, 0, [])
        persister.ask(write, results.append)
    (_, first), (_, second) = slow.asked
    first(StateResult(ErrorCode.COORDINATOR_NOT_AVAILABLE))
    second(StateResult())
    loop.advance(_FIRST_PAUSE_MS)
    again, third = slow.asked[2]
    assert again.start_offset == 7
    third(StateResult())
    assert results == [StateResult(), StateResult()]
    assert not persister._lines


def test_load_waits_for_the_writes_before_it() -> None:
    """The session of the member ends while its acknowledgement is tried again."""
    sharing = Coordinated(1)
    (one,) = sharing.holders("one")
    sharing.give_up()
    send_accept(one, 0, share_session_epoch=-1)
    sharing.client.loop.turn()
    sharing.take_over()
    two = sharing.member("two")
    two.client.send(two.fetch_request(max_wait_ms=5_000), 2)
    sharing.client.loop.advance(_FIRST_PAUSE_MS)
    assert len(one.client.answers()) == 1, "the record is accepted"
    sharing.client.loop.advance(5_000)
    ((_, response),) = two.client.answers()
    assert acquired(response) == []


def test_requests_that_wait_are_given_up_soon_after_the_first() -> None:
    """What has found no coordinator behind another counts as tried."""
    sharing = Coordinated(1, 1)
    one, two = sharing.holders("one", "two")
    sharing.give_up()
    send_accept(one, 0)
    sharing.client.loop.advance(1)
    send_accept(two, 1)
    for member, passed_ms in ((one, _ALL_PAUSES_MS), (two, _LAST_PAUSE_MS)):
        sharing.client.loop.advance(passed_ms)
        ((_, response),) = member.client.answers()
        (part,) = response.responses[0].partitions
        assert part.acknowledge_error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_broker_that_stops_in_order_releases_what_its_members_hold() -> None:
    """[share-partitions/locks] The delivery counts; nothing is left that ends later."""
    sharing = Coordinated(2)
    one, two = sharing.member("one"), sharing.member("two")
    assert one.acquire(max_wait_ms=500) == [(0, 1, 1)]
    two.client.send(two.fetch_request(max_wait_ms=60_000), 2)
    broker = sharing.broker
    broker.begin_leaving()
    sharing.client.loop.turn()
    broker.give_up()
    ((_, response),) = two.client.answers()
    assert acquired(response) == []
    sharing.client.loop.advance(LOCK_MS)
    sharing.broker = restarted(broker, killed=False)
    sharing.set_group(auto_offset_reset="earliest")
    three = ShareMember(sharing, "three", Client(sharing.broker))
    assert three.acquire(max_wait_ms=500) == [(0, 1, 2)]
