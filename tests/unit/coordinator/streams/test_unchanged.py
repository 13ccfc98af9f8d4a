"""Heartbeats of streams groups that change nothing: the short way does what the long one does."""

import random
from typing import Any

import pytest

from coterie.coordinator.groups.config import StreamsSettings
from coterie.coordinator.groups.recorded.heartbeat import unchanged
from coterie.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from coterie.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsHeartbeatEndpoint,
)
from tests.unit.coordinator.clients import Clients
from tests.unit.coordinator.streams.harness import StreamsHarness

# All that a heartbeat may say besides its epoch, and that no member at rest says.
NEWS: dict[str, Any] = {
    "active_tasks": [],
    "standby_tasks": [],
    "warmup_tasks": [],
    "rebalance_timeout_ms": 1_000,
    "process_id": "p2",
    "rack_id": "r",
    "instance_id": "i",
    "client_tags": [],
    "task_offsets": [],
    "task_end_offsets": [],
    "user_endpoint": StreamsHeartbeatEndpoint(host="h", port=1),
    "shutdown_application": True,
    "endpoint_information_epoch": 7,
}


class _Member:
    """What a client knows of itself: its epoch, its tasks and the epoch of the endpoints."""

    def __init__(self) -> None:
        self.epoch, self.endpoints = 0, -1
        self.tasks: Any = None

    def take(self, answer: Any) -> None:
        self.epoch = 0 if answer.error_code else max(0, answer.member_epoch)
        self.endpoints = -1 if answer.error_code else answer.endpoint_information_epoch
        if answer.active_tasks is not None:
            self.tasks = answer.active_tasks


def _beat(chance: random.Random, harness: StreamsHarness, name: str, member: _Member) -> Any:
    roll, fields = chance.random(), {"endpoint_information_epoch": member.endpoints}
    if not member.epoch:
        if name != "m1":
            fields["user_endpoint"] = StreamsHeartbeatEndpoint(host=name, port=1)  # type: ignore[assignment]
        return harness.stream(name, 0, **fields)
    if roll < 0.03:
        return harness.stream(name, -1)
    fields["shutdown_application"] = roll > 0.99
    tasks, member.tasks = member.tasks, None
    return harness.stream(name, member.epoch, *(() if tasks is None else (tasks,)), **fields)


def _beats(seed: int, *, kept: bool) -> list[Any]:
    """Let members join, stay, change and leave at random; return what they were answered."""
    chance, harness = random.Random(seed), StreamsHarness(interval_ms=500)
    harness.client = Clients(kept=kept)  # type: ignore[assignment]  # has what `send` needs
    members: dict[str, _Member] = {}
    seen: list[Any] = []
    for _ in range(200):
        name = f"m{chance.randrange(3)}"
        member = members.setdefault(name, _Member())
        answer = _beat(chance, harness, name, member)
        member.take(answer)
        roll = chance.random()
        if roll < 0.15:
            harness.wait(chance.choice([10, 5_000, 40_000]))
        elif roll < 0.17:
            harness.create_topic("in", harness.topics.image.by_name["in"].partitions + 1)
        elif roll < 0.19:
            harness.create_topic(f"other-{len(seen)}", 1)
        elif roll < 0.2:
            harness.settings.own["g"] = StreamsSettings(
                initial_rebalance_delay_ms=0, num_standby_replicas=chance.randrange(2)
            )
        present = harness.coordinator.group("g")
        assert present is not None
        sessions = [
            (each.member_id, each.deadline_ms) for each in harness.streams_group.members.values()
        ]
        seen += [repr(answer), sessions]
    return [*seen, harness.written]


@pytest.mark.parametrize("seed", range(3))
def test_the_short_way_of_a_heartbeat_does_what_the_long_one_does(seed: int) -> None:
    """[streams-groups/heartbeat-order]"""
    assert _beats(seed, kept=True) == _beats(seed, kept=False)


@pytest.fixture
def at_rest() -> StreamsHarness:
    """A group of one member that has sent a heartbeat without news."""
    harness = StreamsHarness()
    harness.client = Clients(kept=True)  # type: ignore[assignment]  # has what `send` needs
    harness.stream("m1", 0)
    harness.stream("m1", 2)
    return harness


def _unchanged(harness: StreamsHarness, **fields: Any) -> Any:
    request = StreamsGroupHeartbeatRequest(
        **{
            "group_id": "g",
            "member_id": "m1",
            "member_epoch": 2,
            "endpoint_information_epoch": 0,
            **fields,
        }
    )
    client = harness.client._replace(client_id="beat m1")
    return unchanged(harness.coordinator.shards[0], harness.now_ms, request, client)


def test_a_heartbeat_at_rest_takes_the_short_way(at_rest: StreamsHarness) -> None:
    assert _unchanged(at_rest) is None, "it does not know the endpoints"
    at_rest.stream("m1", 2, endpoint_information_epoch=0)
    at_rest.wait(5_000)
    answer = _unchanged(at_rest)
    assert (answer.member_epoch, answer.active_tasks, answer.status) == (2, None, [])
    assert at_rest.streams_group.members["m1"].deadline_ms == at_rest.now_ms + 45_000


@pytest.mark.parametrize("field", NEWS)
def test_news_take_the_long_way(at_rest: StreamsHarness, field: str) -> None:
    at_rest.stream("m1", 2, endpoint_information_epoch=0)
    assert _unchanged(at_rest) is not None
    assert _unchanged(at_rest, **{field: NEWS[field]}) is None


def test_a_heartbeat_of_another_type_is_not_answered(at_rest: StreamsHarness) -> None:
    at_rest.stream("m1", 2, endpoint_information_epoch=0)
    request = ShareGroupHeartbeatRequest(group_id="g", member_id="m1", member_epoch=2)
    client = at_rest.client._replace(client_id="beat m1")
    assert unchanged(at_rest.coordinator.shards[0], at_rest.now_ms, request, client) is None


def test_changes_end_the_short_way(at_rest: StreamsHarness) -> None:
    """A change of other topics is looked at once."""
    at_rest.stream("m1", 2, endpoint_information_epoch=0)
    at_rest.create_topic("another", 1)
    assert _unchanged(at_rest) is None
    at_rest.stream("m1", 2, endpoint_information_epoch=0)
    assert _unchanged(at_rest) is not None
    at_rest.settings.own["g"] = StreamsSettings(initial_rebalance_delay_ms=0)
    assert _unchanged(at_rest) is None
    at_rest.stream("m1", 2, endpoint_information_epoch=0)
    assert _unchanged(at_rest) is not None
    at_rest.streams_group.shutdown_by = "m2"
    assert _unchanged(at_rest) is None
