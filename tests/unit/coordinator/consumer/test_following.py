"""A heartbeat that takes its member to a newer target: the short way does what the long one does.

A member whose requests come from an equal client that is another object takes the long way.
"""

import random
from typing import Any

import pytest

from coterie.coordinator.groups.consumer.following import follow
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import ClientContext
from coterie.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from coterie.protocol.messages.log_records import encode_key, encode_value
from tests.unit.coordinator.clients import Clients
from tests.unit.coordinator.consumer.harness import ConsumerHarness

MEMBERS = 6
STEPS = 120


class _Harness(ConsumerHarness):
    """A coordinator whose events and records are kept as text and bytes."""

    def __init__(self, *, kept: bool) -> None:
        self.seen: list[Any] = []
        super().__init__({"foo": 7, "bar": 5})
        self.client = Clients(kept=kept)  # type: ignore[assignment]  # has what `send` needs

    def carry_out(self, effects: Effects[Any], to: Any = None) -> None:
        self.seen += [repr(event) for event in effects.events]
        self.seen += [
            (encode_key(key), value and encode_value(value))
            for append in effects.appends
            for key, value in append.records
        ]
        super().carry_out(effects, to)


def _run(seed: int, *, kept: bool) -> list[Any]:
    """Let members join, change, report, leave and wait at random; return all that was seen."""
    chance, harness = random.Random(seed), _Harness(kept=kept)
    epochs: dict[str, int] = {}
    owned: dict[str, Any] = {}
    partitions = 7
    for _ in range(STEPS):
        name, roll = f"m{chance.randrange(MEMBERS)}", chance.random()
        static: dict[str, Any] = {"instance_id": name} if name in ("m0", "m1") else {}
        if name not in epochs:
            answer = harness.enter(name, *chance.sample(["foo", "bar"], 1 + (roll < 0.7)), **static)
        elif roll < 0.06:
            answer = harness.beat(name, -1, **static)
        elif roll < 0.1:
            answer = harness.beat(name, epochs[name], subscribed_topic_names=["bar"], **static)
        elif roll < 0.5:
            answer = harness.beat(name, epochs[name], **static)
        else:
            answer = harness.beat(name, epochs[name], owned[name], **static)
        harness.seen.append(repr(answer))
        epochs[name] = answer.member_epoch
        if answer.error_code or answer.member_epoch < 0:
            del epochs[name]
        elif answer.assignment is not None:
            owned[name] = {
                each.topic_id: each.partitions for each in answer.assignment.topic_partitions
            }
        if chance.random() < 0.1:
            harness.wait(chance.choice([10, 5_000, 20_000]))
        if chance.random() < 0.02:
            partitions += 1
            harness.create_topic("foo", partitions)
        harness.seen.append([(each, m.deadline_ms, m.changed_ms)
                             for each, m in _members(harness).items()])  # fmt: skip
    assert harness.replayed() == harness.live()
    return harness.seen


def _members(harness: ConsumerHarness) -> dict[str, Any]:
    group = harness.coordinator.group("g")
    return {} if group is None else harness.consumer_group().members


@pytest.mark.parametrize("seed", range(8))
def test_both_ways_do_the_same(seed: int) -> None:
    assert _run(seed, kept=True) == _run(seed, kept=False)


def _at_rest() -> tuple[_Harness, ClientContext, ConsumerGroupHeartbeatRequest]:
    """Return a group with a new target, and the heartbeat of a member that keeps its partitions."""
    harness = _Harness(kept=True)
    harness.enter("m1", "foo")
    harness.enter("m2", "bar")
    harness.settle("m1", "m2")
    group = harness.consumer_group()
    before = group.members["m1"].assigned
    harness.enter("m3", "bar")
    member = group.members["m1"]
    assert member.epoch < group.target_epoch
    assert member.assigned == before
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m1", member_epoch=member.epoch)
    return harness, harness.client._replace(client_id="beat m1"), request


def test_a_member_that_keeps_its_partitions_takes_the_short_way() -> None:
    harness, client, request = _at_rest()
    shard = harness.coordinator.shards[0]
    effects = follow(shard, harness.now_ms, request, client)
    assert effects is not None
    assert effects.operation is not None
    assert len(effects.operation.records) == 1
    assert follow(shard, harness.now_ms, request, client) is None


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("subscribed_topic_names", ["foo"]),
        ("subscribed_topic_regex", "f.*"),
        ("server_assignor", "range"),
        ("rack_id", "r"),
        ("rebalance_timeout_ms", 1_000),
        ("instance_id", "i"),
        ("member_epoch", 0),
        ("member_id", "m4"),
        ("group_id", "h"),
    ],
)
def test_a_heartbeat_that_says_more_takes_the_long_way(field: str, value: Any) -> None:
    harness, client, request = _at_rest()
    setattr(request, field, value)
    assert follow(harness.coordinator.shards[0], harness.now_ms, request, client) is None
