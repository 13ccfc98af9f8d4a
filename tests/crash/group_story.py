"""Stories of consumer groups (KIP-848) on a broker in virtual time, whose disk is recorded.

Members of both protocols come and go, commit with their epochs and within a transaction; topics are
created, grow and are deleted, groups are deleted, too. Segments are rolled every few requests and
compacted at once, tombstones are removed soon. The broker is killed and stopped.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from coterie.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
)
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from coterie.protocol.messages.end_txn import EndTxnRequest
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest
from coterie.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.crash.broker_run import ROLL_MS, BrokerRun
from tests.crash.disk import Disk, Operation
from tests.crash.group_members import (
    LEAVE_FOR_A_WHILE,
    ClassicStoryMember,
    Commit,
    Ledger,
    StoryMember,
    settle,
)

PARTITIONS = 3
SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.min.assignment.interval.ms": "0",
    "log.cleaner.backoff.ms": "250",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.cleaner.delete.retention.ms": "1500",
}
_TRANSACTIONAL_ID = "a"
_TIMEOUT_MS = 60_000
# An offset that no group has.
NO_OFFSET = -1
_LATER_MS = 20


class Story(NamedTuple):
    """A story that was recorded.

    Attributes:
        flush: whether the broker syncs before it answers.
        base: the disk before it.
        operations: what was done on the disk.
        ledger: what clients know.
        now_ms: when it ended.
    """

    flush: bool
    base: Disk
    operations: list[Operation]
    ledger: Ledger
    now_ms: float


class GroupRun(BrokerRun):
    """A story while it runs."""

    def __init__(self, *, flush: bool) -> None:
        """Start a broker with the topic "t"."""
        super().__init__(SETTINGS, flush=flush)
        self.ledger = Ledger()
        self.broker.controller.create("t", PARTITIONS, {})
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[_TRANSACTIONAL_ID])
        self.ask_all(request, 4)
        self.loop.advance(ROLL_MS)

    def pause(self) -> None:
        """See `Broker`."""
        self.loop.advance(_LATER_MS)

    def member(self, group_id: str, name: str, *topics: str, **fields: Any) -> StoryMember:
        """Let a member of the consumer protocol join."""
        names = list(topics) or None
        found = StoryMember(
            self, self.ledger, group_id, name, subscribed_topic_names=names, **fields
        )
        return found.join()

    def classic(self, group_id: str, **counts: int) -> StoryMember:
        """Let a member of the classic protocol join; topics have so many partitions."""
        return ClassicStoryMember(self, self.ledger, group_id, "", topics=counts).join()

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic."""
        self.broker.controller.create(name, partitions, {})
        self.loop.turn()

    def grow_topic(self, name: str, partitions: int) -> None:
        """Add partitions to a topic."""
        topic = CreatePartitionsRequestTopic(name=name, count=partitions)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False)
        (found,) = self.ask_all(request, 3).results
        assert not found.error_code, found

    def delete_topic(self, name: str) -> None:
        """Delete a topic, with the offsets of every group for it."""
        asked = self.done
        topics = [DeleteTopicsRequestTopic(name=name)]
        (found,) = self.ask_all(DeleteTopicsRequest(topics=topics, timeout_ms=1000), 6).responses
        assert not found.error_code, found
        for key in self.ledger.commits:
            if key[1] == name:
                # The offsets go later, without an answer.
                self.ledger.commit(key, Commit(asked, None, NO_OFFSET))

    def delete_group(self, group_id: str) -> None:
        """Delete a group without members, with its offsets."""
        life = self.ledger.life(group_id)
        asked = self.done
        life.deleted.append(asked)
        (found,) = self.ask_all(DeleteGroupsRequest(groups_names=[group_id]), 2).results
        assert not found.error_code, found
        life.deleted.append(self.done)
        for key in self.ledger.commits:
            if key[0] == group_id:
                self.ledger.commit(key, Commit(asked, self.done, NO_OFFSET))

    def commit_in_transaction(
        self, member: StoryMember, partition: int, offset: int, *, commit: bool
    ) -> None:
        """Commit an offset of the topic "t" in a transaction, with the epoch of a member."""
        request = InitProducerIdRequest(
            transactional_id=_TRANSACTIONAL_ID, transaction_timeout_ms=_TIMEOUT_MS
        )
        producer = self.ask(request, 5)
        fields = {
            "transactional_id": _TRANSACTIONAL_ID,
            "producer_id": producer.producer_id,
            "producer_epoch": producer.producer_epoch,
        }
        each = TxnOffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        offsets = TxnOffsetCommitRequest(
            group_id=member.group_id,
            generation_id=member.epoch,
            member_id=member.member_id,
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[each])],
            **fields,
        )
        (found,) = self.ask_all(offsets, 5).topics[0].partitions
        assert not found.error_code, found
        asked = self.done
        self.ask(EndTxnRequest(committed=commit, **fields), 5)
        if commit:
            key = member.group_id, "t", partition
            self.ledger.commit(key, Commit(asked, self.done, offset))


def members(run: GroupRun) -> None:
    """Members of the consumer protocol come and go, over a kill and a stop."""
    one = run.member("g", "one", "t")
    one.commit("t", 0, 5)
    two = run.member("g", "two", "t")
    settle([one, two])
    one.commit("t", 1, 6)
    run.roll()
    static = run.member("g", "three", "t", instance_id="i")
    settle([one, two, static])
    static.commit("t", 2, 7)
    two.leave()
    run.die()
    one.beat()
    static.beat()
    run.roll()
    static.leave(LEAVE_FOR_A_WHILE)
    again = run.member("g", "four", "t", instance_id="i")
    settle([one, again])
    run.commit_in_transaction(one, 0, 8, commit=True)
    one.leave()
    again.beat()
    run.commit_in_transaction(again, 1, 9, commit=False)
    run.stop()
    again.beat()
    again.leave()
    run.delete_group("g")
    run.roll()
    last = run.member("g", "five", "t")
    last.commit("t", 0, 1)
    last.beat()


def topics(run: GroupRun) -> None:
    """Topics come, grow and go, under names and under a regular expression."""
    run.create_topic("u", 2)
    one = run.member("g", "one", "t", "u")
    pattern = run.member("g", "two", subscribed_topic_regex="u.*")
    run.loop.advance(100)
    settle([one, pattern])
    one.commit("u", 0, 3)
    one.commit("t", 0, 4)
    run.grow_topic("t", PARTITIONS + 1)
    settle([one, pattern])
    run.roll()
    run.delete_topic("u")
    settle([one, pattern])
    run.die()
    settle([one, pattern])
    run.create_topic("u", 1)
    run.loop.advance(100)
    settle([one, pattern])
    run.roll()
    one.commit("t", 0, 5)
    pattern.leave()
    settle([one])
    one.commit("u", 0, 1)


def migration(run: GroupRun) -> None:
    """A group of classic members is upgraded, downgraded and upgraded again."""
    old = run.classic("g", t=PARTITIONS)
    old.commit("t", 0, 1)
    one = run.member("g", "one", "t")
    settle([old, one])
    one.commit("t", 1, 2)
    run.roll()
    run.die()
    settle([old, one])
    two = run.member("g", "two", "t")
    settle([old, one, two])
    one.leave()
    two.leave()
    old.join()
    old.commit("t", 2, 3)
    run.roll()
    run.stop()
    old.beat()
    three = run.member("g", "three", "t")
    settle([old, three])
    late = run.classic("g", t=PARTITIONS)
    settle([old, late, three])
    late.leave()
    old.leave()
    settle([three])
    run.commit_in_transaction(three, 0, 9, commit=True)
    run.roll()
    three.leave()
    # A classic group takes the place of a consumer group without members, and begins anew.
    run.ledger.life("g").deleted.append(run.done)
    fresh = run.classic("g", t=PARTITIONS)
    fresh.commit("t", 1, 4)


STORIES: dict[str, Callable[[GroupRun], None]] = {
    story.__name__: story for story in (members, topics, migration)
}


def record_story(name: str, *, flush: bool) -> Story:
    """Run a story and return what it did."""
    run = GroupRun(flush=flush)
    base = run.filesystem.disk.copy()
    run.filesystem.operations.clear()
    STORIES[name](run)
    return Story(flush, base, run.filesystem.operations, run.ledger, run.loop.now_ms)
