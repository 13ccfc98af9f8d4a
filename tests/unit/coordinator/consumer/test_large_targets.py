"""The target of a large group is computed in parts, and the group may change between them.

[consumer-groups/large-target]
"""

from collections.abc import Callable

import pytest

from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.kernel.shard_state import ShardState
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.consumer_group_facts import TargetComputed
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolSubscription,
    encode_subscription,
)
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from tests.unit.coordinator.consumer.harness import ConsumerHarness, topic_id
from tests.unit.coordinator.harness import assert_fields

FOO = topic_id("foo")
TIMER = ("target", "g", "")
RANGE = ("range", encode_subscription(ConsumerProtocolSubscription(topics=["foo"]), 1))
# More than is computed with a heartbeat, in several parts.
MANY = 45_000


class LargeGroup(ConsumerHarness):
    """Members m1, m2 and s1, a static one, at rest; then m3 joins, and a first part is computed."""

    def __init__(self, count: int = MANY) -> None:
        super().__init__({"foo": 6})
        self.clients = ["m1", "m2", "s1"]
        self.enter("m1", "foo")
        self.enter("m2", "foo")
        self.enter("s1", "foo", instance_id="i1")
        self.settle(*self.clients)
        self.create_topic("foo", count)

    def begin(self) -> "LargeGroup":
        """Let the topic's growth need a target, and compute a part of it."""
        self.rest()
        self.enter("m3", "foo")
        self.clients.append("m3")
        self.advance()
        assert self.is_computing, "it takes several parts"
        return self

    @property
    def is_computing(self) -> bool:
        return self.consumer_group().computation is not None

    def rest(self) -> ConsumerGroup:
        """Let the members heartbeat until the group is at rest, and check it."""
        group = self.consumer_group()
        for _ in range(10):
            for member_id in self.clients:
                member = group.members[member_id]
                answer = self.beat(member_id, member.epoch, member.assigned)
                assert not answer.error_code, answer
                self.wait(0)
            if group.state_name == "Stable":
                break
        assert group.state_name == "Stable", group
        owned = [(at, index) for each in group.members.values()
                 for at, indexes in each.assigned.items() for index in indexes]  # fmt: skip
        everything = [
            (topic.topic_id, index)
            for topic in (self.topics.image.by_name[name] for name in group.subscribed_topics())
            for index in range(topic.partitions)
        ]
        assert sorted(owned) == sorted(everything)
        assert self.live() == self.replayed()
        return group


def test_member_that_joins_a_large_group_has_nothing_until_the_last_part() -> None:
    harness = LargeGroup()
    harness.rest()
    epoch = harness.consumer_group().epoch
    answer = harness.enter("m3", "foo")
    assert (answer.member_epoch, answer.assignment.topic_partitions) == (epoch, [])
    assert harness.consumer_group().state_name == "Assigning"
    waits = harness.consumer_group().waits_for(harness.now_ms)
    assert waits == "the computation of the assignment"
    parts = 0
    while harness.is_computing:
        # Everybody else goes on undisturbed.
        assert harness.beat("m1", epoch).member_epoch == epoch
        harness.advance()
        parts += 1
    assert 3 <= parts <= 20
    assert harness.consumer_group().target_epoch == epoch + 1
    assert harness.live() == harness.replayed()
    harness.clients.append("m3")
    group = harness.rest()
    assert {len(each.assigned[FOO]) for each in group.members.values()} == {MANY // 4}


def test_small_group_has_its_target_with_the_heartbeat() -> None:
    harness = LargeGroup(19_990)
    harness.beat("m1", harness.consumer_group().epoch)
    assert not harness.is_computing
    assert harness.consumer_group().target_epoch == harness.consumer_group().epoch


def leaves(harness: LargeGroup) -> None:
    harness.beat("m2", -1)
    harness.clients.remove("m2")


def joins(harness: LargeGroup) -> None:
    harness.enter("m4", "foo")
    harness.clients.append("m4")


def expires(harness: LargeGroup) -> None:
    harness.clients.remove("m2")
    # The event loop is late: the next part and the session are due together.
    harness.now_ms += 45_000
    group = harness.consumer_group()
    for member_id in harness.clients:
        harness.beat(member_id, group.members[member_id].epoch)
    harness.advance()  # the part, which is as much as other timers together
    harness.advance()
    assert "m2" not in group.members
    assert harness.is_computing


def replaces(harness: LargeGroup) -> None:
    harness.beat("s1", -2, instance_id="i1")
    harness.enter("s2", "foo", instance_id="i1")
    harness.clients[harness.clients.index("s1")] = "s2"


def returns(harness: LargeGroup) -> None:
    harness.beat("s1", -2, instance_id="i1")
    harness.enter("s1", "foo", instance_id="i1")


def subscribes(harness: LargeGroup) -> None:
    harness.create_topic("bar", 4)
    member = harness.consumer_group().members["m1"]
    harness.beat("m1", member.epoch, subscribed_topic_names=["bar"])


def grows(harness: LargeGroup) -> None:
    harness.create_topic("foo", MANY + 10)


def is_made_anew(harness: LargeGroup) -> None:
    harness.delete_topic("foo")
    harness.create_topic("foo", 7, life=1)


def is_loaded_again(harness: LargeGroup) -> None:
    harness.restart()
    assert not harness.is_computing


def loses_an_append(harness: LargeGroup) -> None:
    harness.holds = True
    harness.enter("m4", "foo")
    harness.lose()
    harness.holds = False
    assert not harness.is_computing


@pytest.mark.parametrize(
    "event",
    [
        leaves, joins, expires, replaces, returns, subscribes, grows, is_made_anew, is_loaded_again,
        loses_an_append,
    ],
)  # fmt: skip
def test_group_that_changes_meanwhile_comes_to_rest(event: Callable[[LargeGroup], None]) -> None:
    harness = LargeGroup().begin()
    event(harness)
    harness.wait(0)
    assert harness.live() == harness.replayed()
    harness.rest()


def test_target_is_of_the_epoch_at_which_its_computation_began() -> None:
    harness = LargeGroup().begin()
    began = harness.consumer_group().epoch
    leaves(harness)
    joins(harness)
    harness.events.clear()
    harness.wait(0)
    group = harness.consumer_group()
    assert (group.epoch, group.target_epoch) == (began + 2, began)
    assert sorted(group.target_values) == ["m1", "m3", "s1"]
    (fact,) = [each.fact for each in harness.events if isinstance(each.fact, TargetComputed)]
    assert_fields(fact, epoch=began, member_count=4, changed_members=3, assignor="uniform")


def test_successor_of_a_static_member_gets_the_target_of_its_place() -> None:
    harness = LargeGroup().begin()
    replaces(harness)
    before = harness.consumer_group().target_values["s2"]
    harness.wait(0)
    after = harness.consumer_group().target_values["s2"]
    assert len(before.topic_partitions[0].partitions) == MANY // 3
    assert len(after.topic_partitions[0].partitions) == MANY // 4


def test_last_member_that_leaves_ends_the_computation() -> None:
    harness = LargeGroup().begin()
    for member_id in harness.clients:
        harness.beat(member_id, -1)
    target_epoch = harness.consumer_group().target_epoch
    harness.wait(0)
    assert not harness.is_computing
    assert harness.consumer_group().target_epoch == target_epoch
    assert harness.consumer_group().state_name == "Empty"


def test_group_that_is_deleted_ends_the_computation() -> None:
    harness = LargeGroup().begin()
    for member_id in harness.clients:
        harness.beat(member_id, -1)
    assert harness.is_computing
    harness.send(DeleteGroupsRequest(groups_names=["g"]), 2, "delete")
    assert harness.coordinator.group("g") is None
    assert harness.coordinator.purgatory.deadline_ms(TIMER) is None


def test_group_that_becomes_a_classic_one_ends_the_computation() -> None:
    harness = LargeGroup().begin()
    harness.join("c1", protocols=(RANGE,), session_ms=300_000)
    assert harness.is_computing
    for member_id in harness.clients:
        harness.beat(member_id, -1)
    group = harness.coordinator.group("g")
    assert group is not None
    assert group.group_type == "classic"
    assert harness.coordinator.purgatory.deadline_ms(TIMER) is None
    harness.wait(0)
    assert harness.coordinator.group("g") is group


def test_classic_group_that_is_upgraded_gets_its_target_in_parts() -> None:
    harness = ConsumerHarness({"foo": MANY})
    harness.join("c1", protocols=(RANGE,), session_ms=300_000)
    harness.wait(3_000)
    harness.sync("sync c1", harness.id_of("c1"), 1)
    harness.enter("m1", "foo")
    group = harness.consumer_group()
    assert group.computation is not None
    assert group.target_values.keys() == {harness.id_of("c1")}
    harness.wait(0)
    assert group.target_values.keys() == {harness.id_of("c1"), "m1"}
    assert harness.live() == harness.replayed()


def test_partition_that_is_given_up_ends_the_computation() -> None:
    harness = LargeGroup().begin()
    group = harness.consumer_group()
    harness.carry_out(harness.coordinator.unload(0, None, harness.now_ms))
    assert harness.coordinator.shards[0].state is ShardState.CLOSED
    assert group.computation is None
    assert harness.coordinator.purgatory.deadline_ms(TIMER) is None


def test_target_that_is_larger_than_a_batch_refuses_the_heartbeats_that_need_it() -> None:
    harness = ConsumerHarness({"foo": 1})
    for member_id in ("m1", "m2", "m3"):
        harness.enter(member_id, "foo")
    harness.settle("m1", "m2", "m3")
    harness.create_topic("foo", 300_000)
    group = harness.consumer_group()
    epoch = group.epoch
    assert not harness.beat("m1", epoch).error_code
    harness.wait(0)
    assert (group.epoch, group.target_epoch) == (epoch + 1, epoch)
    assert harness.live() == harness.replayed()
    assert harness.beat("m2", epoch).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.computation is None
    # A change of the group is worth another attempt.
    harness.delete_topic("foo")
    harness.create_topic("foo", 30_000, life=1)
    assert not harness.beat("m2", epoch).error_code
    harness.wait(0)
    assert group.target_epoch == group.epoch == epoch + 2
