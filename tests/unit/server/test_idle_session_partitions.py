"""Partitions of a fetch session without news watch their logs [data-plane/fetch-sessions]."""

from collections.abc import Callable
from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.fetch import FetchRequestForgottenTopic, FetchResponsePartition
from coterie.server.logs.fetch_sessions import EVICTION_MS, FetchSession
from coterie.server.logs.partition import Partition
from tests.unit.server.manual import Client, make_broker
from tests.unit.server.produced import batch, fetch_request, produce

PARTITIONS = 4
VERSION = 12


class IdleSession:
    """A session of one topic whose partitions are all idle."""

    def __init__(self) -> None:
        self.client = Client(make_broker())
        broker = self.client.broker
        self.topic = broker.controller.create("t", PARTITIONS, {})
        for index in range(PARTITIONS):
            produce(self.client, batch(b"a", b"b"), partition=index)
        asked = fetch_request(*((index, 2) for index in range(PARTITIONS)), session_epoch=0)
        self.session_id = self.client.call(asked, VERSION).session_id
        self.epoch = 0
        assert self.fetch() == []
        assert self.active == [], "all are idle"

    @property
    def session(self) -> FetchSession:
        return self.client.broker.fetch_sessions._sessions[self.session_id]

    @property
    def active(self) -> list[int]:
        return [each.wanted.partition_index for each in self.session.to_read()]

    def partition(self, index: int) -> Partition:
        return self.topic.partitions[index]

    def request(self, *partitions: tuple[int, int], **fields: Any) -> Any:
        self.epoch += 1
        return fetch_request(
            *partitions, session_id=self.session_id, session_epoch=self.epoch, **fields
        )

    def fetch(self, *partitions: tuple[int, int], **fields: Any) -> list[FetchResponsePartition]:
        return parts(self.client.call(self.request(*partitions, **fields), VERSION))

    def watched(self) -> list[int]:
        return [each.index for each in self.topic.partitions if each.watchers]


def parts(answer: Any) -> list[FetchResponsePartition]:
    assert answer.error_code == ErrorCode.NONE
    return [each for topic in answer.responses for each in topic.partitions]


@pytest.fixture
def idle() -> IdleSession:
    return IdleSession()


def test_append_makes_only_its_partition_active(idle: IdleSession) -> None:
    produce(idle.client, batch(b"c"), partition=2)
    assert idle.active == [2]
    assert idle.watched() == [0, 1, 3]
    (found,) = idle.fetch()
    assert (found.partition_index, found.high_watermark) == (2, 3)
    assert idle.fetch((2, 3)) == []
    assert idle.watched() == [0, 1, 2, 3]


def _delete_records(idle: IdleSession) -> None:
    idle.client.broker.logs.delete_records(idle.partition(1), 1)


def _lead(idle: IdleSession) -> None:
    idle.partition(1).lead(7)


def _fail(idle: IdleSession) -> None:
    idle.partition(1).fail(OSError("lost"))


@pytest.mark.parametrize("change", [_delete_records, _lead, _fail])
def test_other_changes_make_a_partition_active(
    idle: IdleSession, change: Callable[[IdleSession], None]
) -> None:
    change(idle)
    assert idle.active == [1]


def test_deleted_topic_is_reported(idle: IdleSession) -> None:
    idle.client.broker.delete_topic(idle.topic)
    idle.client.loop.turn()
    errors = {each.error_code for each in idle.fetch()}
    assert errors == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert idle.watched() == []


def test_wait_counts_the_appends_to_idle_partitions(idle: IdleSession) -> None:
    one = batch(b"c")
    idle.client.send(
        idle.request(max_wait_ms=1_000, min_bytes=3 * len(one)),
        VERSION,
    )
    for index in (1, 1, 3):
        assert not idle.client.transport.written
        produce(Client(idle.client.broker), one, partition=index)
        idle.client.loop.turn()
    ((_, answer),) = idle.client.answers()
    assert [(each.partition_index, len(each.records or b"")) for each in parts(answer)] == [
        (1, 2 * len(one)),
        (3, len(one)),
    ]
    assert idle.watched() == [0, 2]


def test_wait_ends_when_the_topic_is_deleted(idle: IdleSession) -> None:
    idle.client.send(idle.request(max_wait_ms=1_000), VERSION)
    idle.client.broker.delete_topic(idle.topic)
    idle.client.loop.turn()
    ((_, answer),) = idle.client.answers()
    # Answered as soon as the first partition is gone; an error is news every time.
    assert [each.partition_index for each in parts(answer)] == [0]
    assert len(idle.fetch()) == PARTITIONS
    assert idle.watched() == []


def test_active_partitions_are_read_in_their_order(idle: IdleSession) -> None:
    for index in (3, 0, 1):
        produce(idle.client, batch(b"c"), partition=index)
    assert [each.partition_index for each in idle.fetch()] == [0, 1, 3]
    # Those that returned records are read after all others.
    produce(idle.client, batch(b"c"), partition=2)
    assert [each.partition_index for each in idle.fetch()] == [2, 0, 1, 3]


def test_partition_that_is_named_again_is_active(idle: IdleSession) -> None:
    (found,) = idle.fetch((1, 0))
    assert found.records
    assert idle.watched() == [0, 2, 3]


def test_forgotten_partition_watches_no_more(idle: IdleSession) -> None:
    forgotten = [FetchRequestForgottenTopic(topic="t", partitions=[1, 3])]
    assert idle.fetch(forgotten_topics_data=forgotten) == []
    assert idle.watched() == [0, 2]
    produce(idle.client, batch(b"c"), partition=1)
    assert idle.fetch() == []


def test_closed_session_watches_no_more(idle: IdleSession) -> None:
    idle.client.broker.fetch_sessions.close(idle.session_id)
    assert idle.watched() == []


def test_request_that_waits_for_a_session_that_ends_leaves_no_watcher(idle: IdleSession) -> None:
    idle.client.send(idle.request(max_wait_ms=EVICTION_MS), VERSION)
    idle.client.broker.fetch_sessions.close(idle.session_id)
    idle.client.loop.advance(EVICTION_MS)
    idle.client.loop.turn()
    assert len(idle.client.answers()) == 1
    assert idle.watched() == []
