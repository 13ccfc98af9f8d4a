"""A broker in virtual time, members of a share group, and a disk that records what it does.

Members accept, release and reject records, in parts; locks and sessions end; updates become
snapshots, logs are pruned, and a share partition that nobody reads gets cold snapshots. The broker
is killed and stopped. The ledger says when each decision was sent and when it was durable, counted
in operations of the disk.
"""

from collections.abc import Callable
from typing import NamedTuple

from coterie.coordinator.share_partition.states import STATE_AFTER, AcknowledgeType, RecordState
from coterie.protocol.messages.incremental_alter_configs import (
    SET,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from coterie.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStatePartition,
    InitializeStateTopic,
)
from coterie.server.broker import Broker
from coterie.server.config.keys import GROUP_RESOURCE
from tests.crash.broker_run import BrokerRun, answer_to
from tests.crash.disk import Disk, Operation
from tests.unit.server.manual import Client
from tests.unit.server.produced import batch, produce_request
from tests.unit.server.share_clients import GROUP, LOCK_MS, ShareMember, acquired

TOPIC = "t"
PARTITIONS = 2
_LIMIT = 5
_WAIT_MS = 500
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "3",
    "share.coordinator.state.topic.prune.interval.ms": "1500",
    "share.coordinator.cold.partition.snapshot.interval.ms": "5000",
    "group.share.delivery.count.limit": str(_LIMIT),
}
_ACCEPT, _RELEASE, _REJECT = (
    AcknowledgeType.ACCEPT,
    AcknowledgeType.RELEASE,
    AcknowledgeType.REJECT,
)


class Decision(NamedTuple):
    """What has become of a record in the hands of a member.

    Attributes:
        offset: the record.
        deliveries: its delivery count.
        is_final: whether it is done; otherwise it is available again.
        asked, answered: how many operations the disk had done when it was sent, and when it was
            durable.
    """

    offset: int
    deliveries: int
    is_final: bool
    asked: int
    answered: int


class Story(NamedTuple):
    """A story that was recorded.

    Attributes:
        flush: whether the broker synced before it answered.
        base: the disk before it.
        operations: what was done on the disk.
        decisions: what has become of records.
        produced: how many operations the disk had done when each record was acknowledged.
        topic_id: the id of the topic.
        now_ms: when it ended.
    """

    flush: bool
    base: Disk
    operations: list[Operation]
    decisions: list[Decision]
    produced: list[int]
    topic_id: bytes
    now_ms: float


class Place(NamedTuple):
    """Where members are: what `ShareMember` needs to know."""

    broker: Broker
    topic_id: bytes


class Holder(ShareMember):
    """A member, and what it holds."""

    def __init__(self, place: Place, name: str) -> None:
        super().__init__(place, name, Client(place.broker))  # type: ignore[arg-type]  # it has both
        self.held: dict[int, int] = {}

    def take(self, most: int = 500) -> dict[int, int]:
        """Fetch; return the delivery counts of what was given."""
        request = self.fetch_request(max_records=most, max_wait_ms=_WAIT_MS, share_acquire_mode=1)
        self.advance()
        given = {
            offset: count
            for first, last, count in acquired(answer_to(self.client, request, 2))
            for offset in range(first, last + 1)
        }
        self.held |= given
        return given

    def tell(self, types: dict[int, int]) -> None:
        """Say what has become of records, in one request."""
        ranges = [(offset, offset, kind) for offset, kind in sorted(types.items())]
        request = self.fetch_request(*ranges, max_records=0)
        self.advance()
        (topic,) = answer_to(self.client, request, 2).responses
        assert not topic.partitions[0].acknowledge_error_code, topic
        for offset in types:
            del self.held[offset]


class _Run(BrokerRun):
    """A story while it runs."""

    def __init__(self, *, flush: bool) -> None:
        super().__init__(SETTINGS, flush=flush)
        self.decisions: list[Decision] = []
        self.produced: list[int] = []
        self.topic_id = self.broker.controller.create(TOPIC, PARTITIONS, {}).topic_id
        setting = IncrementalAlterConfigsRequestConfig(
            name="share.auto.offset.reset", config_operation=SET, value="earliest"
        )
        resource = IncrementalAlterConfigsRequestResource(
            resource_type=GROUP_RESOURCE, resource_name=GROUP, configs=[setting]
        )
        self.ask_all(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1)
        self.broker.share_state.create_topic()
        self.loop.advance(100)
        asked = [
            InitializeStatePartition(partition=each, state_epoch=1, start_offset=-1)
            for each in range(PARTITIONS)
        ]
        topics = [InitializeStateTopic(topic_id=self.topic_id, partitions=asked)]
        request = InitializeShareGroupStateRequest(group_id=GROUP, topics=topics)
        for result in self.ask_all(request, 0).results[0].partitions:
            assert not result.error_code, result

    def write(self, *batches: int) -> None:
        """Produce batches with so many records each."""
        for records in batches:
            request = produce_request(batch(*[b"v"] * records), TOPIC, 0)
            (found,) = self.ask_all(request, 9).responses[0].partition_responses
            assert not found.error_code, found
            self.produced += [self.done] * records

    def member(self, name: str) -> Holder:
        """Return a member with a connection of its own."""
        return Holder(Place(self.broker, self.topic_id), name)

    def tell(self, member: Holder, kind: AcknowledgeType, *offsets: int) -> None:
        """Let a member decide about records."""
        assert member.held.keys() >= set(offsets), f"{member.held} were given, not {offsets}"
        counts, asked = {each: member.held[each] for each in offsets}, self.done
        member.tell(dict.fromkeys(offsets, int(kind)))
        is_final = STATE_AFTER[kind] is not RecordState.AVAILABLE
        self._decided(counts, asked, is_final=is_final)

    def _decided(self, counts: dict[int, int], asked: int, *, is_final: bool) -> None:
        self.decisions += [
            Decision(offset, count, is_final or count >= _LIMIT, asked, self.done)
            for offset, count in counts.items()
        ]

    def wait_for_locks(self, *members: Holder) -> None:
        """Let all locks end."""
        asked = self.done
        self.loop.advance(LOCK_MS + 1)
        self._lost(asked, members)

    def leave(self, member: Holder) -> None:
        """End a member's session."""
        asked = self.done
        answer_to(member.client, member.fetch_request(share_session_epoch=-1), 2)
        self.loop.advance(100)
        self._lost(asked, [member])

    def _lost(self, asked: int, members: "tuple[Holder, ...] | list[Holder]") -> None:
        for member in members:
            self._decided(member.held, asked, is_final=False)
            member.held = {}


def decisions(run: _Run) -> None:
    """All decisions, over snapshots, pruning, a kill and a stop."""
    run.write(4, 1, 3)
    one, two = run.member("one"), run.member("two")
    one.take(3)
    two.take(3)
    run.tell(one, _ACCEPT, 0, 2)
    run.tell(two, _RELEASE, 3, 4)
    run.tell(one, _REJECT, 1)
    run.roll()
    run.write(2)
    one.take()
    run.tell(one, _ACCEPT, 4)
    run.tell(two, _RELEASE, 5)
    run.wait_for_locks(one, two)
    two.take(4)
    run.tell(two, _ACCEPT, 3)
    run.roll()
    run.die()
    one = run.member("one")
    one.take()
    run.tell(one, _ACCEPT, 6)
    run.leave(one)
    two = run.member("two")
    two.take(2)
    run.tell(two, _ACCEPT, 5)
    run.roll()
    run.stop()
    run.write(3)
    two = run.member("two")
    two.take()
    two.take()
    run.tell(two, _ACCEPT, *list(two.held)[:2])
    run.roll()


def repeated(run: _Run) -> None:
    """Records that are released until the limit, beside one that stays in the way."""
    run.write(1, 3)
    for number in range(_LIMIT):
        member = run.member(f"member-{number}")
        member.take()
        released = [each for each in member.held if each]
        if released:
            run.tell(member, _RELEASE, *released)
        run.leave(member)
        if number % 2:
            run.roll()
        if number == _LIMIT // 2:
            run.die()
    run.write(2)
    last = run.member("last")
    while last.take():
        run.tell(last, _ACCEPT, *last.held)
    run.roll()


STORIES: dict[str, Callable[[_Run], None]] = {
    story.__name__: story for story in (decisions, repeated)
}


def record_story(name: str, *, flush: bool) -> Story:
    """Run a story and return what it did."""
    run = _Run(flush=flush)
    base = run.filesystem.disk.copy()
    run.filesystem.operations.clear()
    STORIES[name](run)
    return Story(
        flush, base, run.filesystem.operations, run.decisions, run.produced, run.topic_id,
        run.loop.now_ms,
    )  # fmt: skip
