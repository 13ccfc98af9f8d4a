"""Large groups become consumer groups and classic ones in steps, and may change between them.

[consumer-groups/large-upgrade] [consumer-groups/large-downgrade]
"""

from collections.abc import Callable
from typing import Any

import pytest

from coterie.coordinator.groups.classic.group import Group
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.consumer.step import records_of
from coterie.coordinator.kernel.shard_state import ShardState
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.unit.coordinator.consumer.harness import REBALANCE_MS, ConsumerHarness

MEMBERS = 110
TIMER = ("downgrade", "g", "")


def subscription(*topics: str) -> tuple[tuple[str, bytes], ...]:
    return (("range", encode_subscription(ConsumerProtocolSubscription(topics=list(topics)), 1)),)


def part(*indexes: int, user_data: bytes | None = None) -> bytes:
    partitions = TopicPartition(topic="foo", partitions=list(indexes))
    return encode_assignment(
        ConsumerProtocolAssignment(assigned_partitions=[partitions], user_data=user_data), 1
    )


class Conversions(ConsumerHarness):
    """A Stable classic group of c0, c1, ..., of which each has one partition."""

    def __init__(self, members: int = MEMBERS) -> None:
        super().__init__({"foo": MEMBERS}, group_initial_rebalance_delay_ms=10)
        self.names = [f"c{number}" for number in range(members)]
        for name in self.names:
            self.rejoin(name)
        self.wait(1_000)
        self.assign()

    def rejoin(self, name: str, *topics: str) -> None:
        member_id = self.id_of(name) if name in self.responses else ""
        self.join(
            name,
            member_id,
            protocols=subscription(*(topics or ("foo",))),
            session_ms=300_000,
            rebalance_ms=300_000,
        )

    def assign(self, **assignments: bytes) -> None:
        """Let the leader assign a partition to each member, and all sync."""
        group = self.group()
        parts = {
            self.id_of(name): assignments.get(name, part(index))
            for index, name in enumerate(self.names)
        }
        for name in self.names:
            member_id = self.id_of(name)
            leads = member_id == group.leader
            self.sync(f"sync {name}", member_id, group.generation_id, parts if leads else None)

    def joiner(self) -> ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m1",
            member_epoch=0,
            rebalance_timeout_ms=REBALANCE_MS,
            subscribed_topic_names=["foo"],
            topic_partitions=[],
        )

    def upgrade(self) -> Any:
        """Let m1 join without steps before."""
        return self.send(self.joiner(), 1, "beat m1")

    def conversions(self) -> dict[str, Any]:
        """Return what is under way."""
        return records_of(self.coordinator.shards[0]).conversions

    def mixed(self) -> ConsumerGroup:
        """Upgrade the group, and let everybody come to rest."""
        assert not self.upgrade().error_code
        self.wait(0)
        group = self.consumer_group()
        for _ in range(4):
            for name in self.names:
                self.rejoin(name)
                self.sync(f"sync {name}", self.id_of(name), self.responses[name].generation_id)
            self.settle_if_needed()
        assert group.state_name == "Stable", group
        return group

    def settle_if_needed(self) -> None:
        member = self.consumer_group().members["m1"]
        self.beat("m1", member.epoch, member.assigned)
        self.wait(0)


def commits(harness: Conversions) -> None:
    member_id = harness.id_of("c1")
    harness.commit(
        "commit", 7, topic="foo", member_id=member_id, generation_id=harness.group().generation_id
    )
    assert not harness.responses["commit"].topics[0].partitions[0].error_code


def heartbeats(harness: Conversions) -> None:
    for name in harness.names:
        assert not harness.heartbeat(harness.id_of(name), harness.group().generation_id)


def leaves(harness: Conversions) -> None:
    harness.leave("leave", harness.id_of("c1"))
    harness.names.remove("c1")


def joins(harness: Conversions) -> None:
    harness.names.append("c-new")
    harness.rejoin("c-new")


def rejoins_with_another_topic(harness: Conversions) -> None:
    harness.create_topic("bar", 3)
    harness.rejoin("c2", "foo", "bar")


def rebalances(harness: Conversions) -> None:
    for name in harness.names:
        harness.rejoin(name, "foo")
    harness.wait(1_000)
    harness.assign(c1=part(5), c5=part(1))


def grows(harness: Conversions) -> None:
    harness.create_topic("foo", MEMBERS + 5)


def is_made_anew(harness: Conversions) -> None:
    harness.delete_topic("foo")
    harness.create_topic("foo", MEMBERS, life=1)


def is_loaded_again(harness: Conversions) -> None:
    harness.restart()


def is_unloaded(harness: Conversions) -> None:
    harness.carry_out(harness.coordinator.unload(0, None, harness.now_ms))


def empties(harness: Conversions) -> None:
    harness.leave("leave", *map(harness.id_of, harness.names))


def empties_and_is_deleted(harness: Conversions) -> None:
    empties(harness)
    harness.send(DeleteGroupsRequest(groups_names=["g"]), 2, "delete")
    assert harness.coordinator.group("g") is None


def is_upgraded_by_another(harness: Conversions) -> None:
    harness.enter("m0", "foo")


def has_an_assignment_twice(harness: Conversions) -> None:
    rebalances(harness)
    for name in harness.names:
        harness.rejoin(name)
    harness.wait(1_000)
    harness.assign(c1=part(3))


def has_a_custom_assignor(harness: Conversions) -> None:
    for name in harness.names:
        harness.rejoin(name)
    harness.wait(1_000)
    harness.assign(c90=part(90, user_data=b"mine"))


MEANWHILE = [
    commits, heartbeats, leaves, joins, rejoins_with_another_topic, rebalances, grows, is_made_anew,
    is_loaded_again, is_unloaded, empties, empties_and_is_deleted, is_upgraded_by_another,
    has_an_assignment_twice, has_a_custom_assignor,
]  # fmt: skip


@pytest.mark.parametrize("event", MEANWHILE)
@pytest.mark.parametrize("steps_before", [1, 60, 1_000])
def test_upgrade_in_steps_comes_to_the_same_as_one_at_once(
    event: Callable[[Conversions], None], steps_before: int
) -> None:
    at_once, in_steps = Conversions(), Conversions()
    steps = in_steps.coordinator.conversion_steps(in_steps.joiner())
    assert steps is not None
    taken = sum(1 for _ in zip(range(steps_before), steps, strict=False))
    assert taken == min(steps_before, MEMBERS)
    event(in_steps)
    event(at_once)
    for _ in steps:
        pass
    answers = [harness.upgrade() for harness in (at_once, in_steps)]
    assert answers[0] == answers[1]
    assert at_once.written == in_steps.written
    assert at_once.live() == in_steps.live() == in_steps.replayed()
    if in_steps.coordinator.shards[0].state is ShardState.ACTIVE:
        assert not in_steps.conversions()
    for harness in (at_once, in_steps):
        harness.wait(0)
    assert at_once.written == in_steps.written


def test_steps_convert_each_member_once() -> None:
    harness = Conversions()
    steps = harness.coordinator.conversion_steps(harness.joiner())
    assert steps is not None
    assert sum(1 for _ in steps) == MEMBERS
    group = harness.coordinator.group("g")
    assert isinstance(group, Group), "the steps change nothing"
    again = harness.coordinator.conversion_steps(harness.joiner())
    assert again is not None
    assert sum(1 for _ in again) == 0
    rejoins_with_another_topic(harness)
    again = harness.coordinator.conversion_steps(harness.joiner())
    assert again is not None
    assert sum(1 for _ in again) == MEMBERS, "there is another topic"


def test_only_a_join_into_a_large_group_has_steps() -> None:
    harness = Conversions()
    request = harness.joiner()
    request.member_epoch = 3
    assert harness.coordinator.conversion_steps(request) is None
    request.member_epoch, request.group_id = 0, "absent"
    assert harness.coordinator.conversion_steps(request) is None
    harness.upgrade()
    assert harness.coordinator.conversion_steps(harness.joiner()) is None


def test_upgraded_group_whose_joiner_is_refused_stays_a_classic_one() -> None:
    harness = Conversions()
    steps = harness.coordinator.conversion_steps(harness.joiner())
    assert steps is not None
    for _ in steps:
        pass
    before, written = harness.group(), len(harness.written)
    request = harness.joiner()
    request.subscribed_topic_names = [f"{number:05}{'n' * 200}" for number in range(6_000)]
    answer = harness.send(request, 1, "beat m1")
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert harness.group() is before
    assert len(harness.written) == written
    assert not harness.upgrade().error_code
    assert harness.live() == harness.replayed()


# -- the downgrade ---------------------------------------------------------------------------------


def test_group_that_is_large_with_the_member_that_leaves_becomes_a_classic_one_later() -> None:
    """Of 101 members 100 are left, who would have been converted at once."""
    harness = Conversions(100)
    harness.mixed()
    harness.beat("m1", -1)
    assert not harness.responses["beat m1"].error_code
    assert harness.consumer_group().downgrade is not None
    harness.wait(0)
    assert isinstance(harness.coordinator.group("g"), Group)
    assert harness.live() == harness.replayed()


class Downgrading(Conversions):
    """A mixed group at rest that the only member of the consumer protocol has just left."""

    def __init__(self, parts: int = 1) -> None:
        super().__init__()
        self.epoch = self.mixed().epoch
        self.beat("m1", -1)
        for _ in range(parts):
            self.advance()
        assert self.is_downgrading

    @property
    def is_downgrading(self) -> bool:
        group = self.coordinator.group("g")
        return isinstance(group, ConsumerGroup) and group.downgrade is not None

    def is_served_as_classic(self) -> None:
        """Check that the group becomes a classic one, and rebalances to a new generation."""
        self.wait(0)
        group = self.group()
        assert group.state.value == "PreparingRebalance"
        assert self.live() == self.replayed() == {}
        assert group.members.keys() == {self.id_of(name) for name in self.names}
        assert self.coordinator.purgatory.deadline_ms(TIMER) is None
        for name in self.names:
            self.rejoin(name)
        self.wait(1_000)
        assert group.generation_id > self.epoch
        self.assign()
        assert group.state.value == "Stable"


def test_group_stays_a_consumer_group_until_its_members_are_converted() -> None:
    harness = Downgrading()
    group = harness.consumer_group()
    assert (group.epoch, group.target_epoch) == (harness.epoch + 1, harness.epoch)
    assert not harness.heartbeat(harness.id_of("c1"), harness.epoch)
    harness.wait(0)
    # The members know their generation, and are asked to rejoin.
    assert harness.group().generation_id == harness.epoch
    assert harness.heartbeat(harness.id_of("c1"), harness.epoch) == ErrorCode.REBALANCE_IN_PROGRESS
    harness.is_served_as_classic()


def commits_meanwhile(harness: Downgrading) -> None:
    harness.commit(
        "commit", 7, topic="foo", member_id=harness.id_of("c1"), generation_id=harness.epoch
    )
    assert not harness.responses["commit"].topics[0].partitions[0].error_code


def heartbeats_meanwhile(harness: Downgrading) -> None:
    for name in harness.names:
        assert not harness.heartbeat(harness.id_of(name), harness.epoch)


def joins_meanwhile(harness: Downgrading) -> None:
    harness.names.append("c-new")
    harness.rejoin("c-new")
    assert not harness.responses["c-new"].error_code


def rejoins_meanwhile(harness: Downgrading) -> None:
    harness.create_topic("bar", 3)
    harness.rejoin("c2", "foo", "bar")
    harness.rejoin("c100", "foo", "bar")


def loses_an_append(harness: Downgrading) -> None:
    before = harness.responses["c1"]
    harness.holds = True
    harness.rejoin("c1", "foo", "lost")
    harness.lose()
    harness.holds = False
    assert harness.responses["c1"].error_code
    harness.responses["c1"] = before


@pytest.mark.parametrize(
    "event",
    [
        commits_meanwhile, heartbeats_meanwhile, leaves, joins_meanwhile, rejoins_meanwhile, grows,
        is_made_anew, is_loaded_again, loses_an_append,
    ],
)  # fmt: skip
@pytest.mark.parametrize("parts", [0, 1])
def test_group_that_changes_meanwhile_becomes_a_classic_one(
    event: Callable[[Downgrading], None], parts: int
) -> None:
    harness = Downgrading(parts)
    event(harness)
    harness.is_served_as_classic()


def test_member_that_expires_meanwhile_is_no_member_of_the_classic_group() -> None:
    harness = Downgrading(0)
    harness.now_ms += 299_000
    for name in harness.names[2:]:
        harness.heartbeat(harness.id_of(name), harness.epoch)
    harness.now_ms += 2_000
    # A part, which is as much as other timers together, and the sessions.
    harness.advance()
    harness.advance()
    assert harness.is_downgrading
    del harness.names[:2]
    harness.is_served_as_classic()


def test_commit_meanwhile_is_kept() -> None:
    harness = Downgrading()
    commits_meanwhile(harness)
    harness.wait(0)
    assert harness.fetch("fetch") == {("foo", 0): 7}


def test_member_of_the_consumer_protocol_that_joins_meanwhile_ends_it() -> None:
    harness = Downgrading()
    assert not harness.enter("m2", "foo").error_code
    harness.wait(0)
    assert not harness.is_downgrading
    assert "m2" in harness.consumer_group().members
    assert harness.live() == harness.replayed()
    harness.beat("m2", -1)
    harness.is_served_as_classic()


def test_last_members_that_leave_meanwhile_end_it() -> None:
    harness = Downgrading()
    empties(harness)
    harness.wait(0)
    assert not harness.is_downgrading
    assert harness.consumer_group().state_name == "Empty"
    assert harness.live() == harness.replayed()


def test_group_that_is_deleted_meanwhile_ends_it() -> None:
    harness = Downgrading()
    empties_and_is_deleted(harness)
    assert harness.coordinator.purgatory.deadline_ms(TIMER) is None


def test_partition_that_is_given_up_meanwhile_ends_it() -> None:
    harness = Downgrading()
    group = harness.consumer_group()
    is_unloaded(harness)
    assert group.downgrade is None
    assert harness.coordinator.purgatory.deadline_ms(TIMER) is None


def test_group_whose_record_is_larger_than_a_batch_stays_a_consumer_group() -> None:
    harness = Conversions()
    harness.mixed()
    for number, name in enumerate(harness.names):
        # A tenth of a batch of names that fits the records of a member, and not that of a group.
        harness.rejoin(name, "foo", *(f"{each:03}-{number:03}{'n' * 200}" for each in range(60)))
    before = harness.consumer_group()
    harness.beat("m1", -1)
    harness.wait(0)
    assert harness.consumer_group() is before
    assert before.downgrade is None
    assert before.members.keys() == {harness.id_of(name) for name in harness.names}
    assert harness.live() == harness.replayed()
    assert harness.heartbeat(harness.id_of("c1"), 1) != ErrorCode.UNKNOWN_MEMBER_ID
