"""ShareFetch and ShareAcknowledge of many partitions, which are handled in slices."""

import random
from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStatePartition,
    InitializeStateTopic,
)
from coterie.protocol.messages.share_acknowledge import (
    ShareAcknowledgePartition,
    ShareAcknowledgeRequest,
    ShareAcknowledgeTopic,
)
from coterie.protocol.messages.share_fetch import ShareFetchPartition, ShareFetchTopic
from coterie.protocol.messages.share_session_parts import AcknowledgementBatch
from coterie.server.handlers import share_acknowledge
from coterie.server.share import fetching, looking
from tests.unit.server.manual import loop_of
from tests.unit.server.produced import batch, produce
from tests.unit.server.share_clients import GROUP, LOCK_MS, ShareMember, Sharing

ACCEPT, RELEASE, REJECT = 1, 2, 3
# More than are handled in one turn.
PARTITIONS = 70

# What is acknowledged, by partition: first and last offset, and the type.
Acknowledgements = dict[int, tuple[int, int, int]]
# By partition: error, error of the acknowledgement, and what was acquired.
Told = dict[int, tuple[int, int, list[tuple[int, int, int]]]]


class Many:
    """A share group that reads a topic of many partitions."""

    def __init__(self) -> None:
        self.sharing = Sharing()
        self.broker = self.sharing.broker
        self.client = self.sharing.client
        created = self.broker.controller.create("many", PARTITIONS, {})
        self.topic_id = created.topic_id
        self.client.loop.turn()
        asked = [
            InitializeStatePartition(partition=index, state_epoch=2, start_offset=0)
            for index in range(PARTITIONS)
        ]
        topics = [InitializeStateTopic(topic_id=self.topic_id, partitions=asked)]
        self.client.call(InitializeShareGroupStateRequest(group_id=GROUP, topics=topics), 0)

    def produce(self, index: int, records: int = 1) -> None:
        """Produce one batch to a partition."""
        data = batch(*[b"v"] * records)
        assert not produce(self.client, data, topic="many", partition=index).error_code

    def topics(self, acknowledged: Acknowledgements, count: int = PARTITIONS) -> list[Any]:
        """Return the part of a fetch that names the first partitions."""
        partitions = [
            ShareFetchPartition(partition_index=index, acknowledgement_batches=batches)
            for index, batches in _wire(acknowledged, count).items()
        ]
        return [ShareFetchTopic(topic_id=self.topic_id, partitions=partitions)]

    def acknowledge(self, member: ShareMember, acknowledged: Acknowledgements) -> dict[int, int]:
        """Acknowledge records; return the error of each partition."""
        partitions = [
            ShareAcknowledgePartition(partition_index=index, acknowledgement_batches=batches)
            for index, batches in _wire(acknowledged, PARTITIONS).items()
        ]
        request = ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=member.name,
            share_session_epoch=member.epoch,
            topics=[ShareAcknowledgeTopic(topic_id=self.topic_id, partitions=partitions)],
        )
        member.advance()
        answer = member.client.call(request, 2)
        assert not answer.error_code
        return {
            each.partition_index: each.error_code
            for topic in answer.responses
            for each in topic.partitions
        }


def _wire(acknowledged: Acknowledgements, count: int) -> dict[int, list[AcknowledgementBatch]]:
    return {
        index: [
            AcknowledgementBatch.of(first, last, [kind])
            for first, last, kind in [acknowledged[index]]
        ]
        if index in acknowledged
        else []
        for index in range(count)
    }


def told(response: Any) -> Told:
    """Return what a response says of each partition, in its order."""
    assert response.error_code == ErrorCode.NONE
    return {
        each.partition_index: (
            each.error_code,
            each.acknowledge_error_code,
            [_values(records) for records in each.acquired_records],
        )
        for topic in response.responses
        for each in topic.partitions
    }


def _values(records: Any) -> tuple[int, int, int]:
    return records.first_offset, records.last_offset, records.delivery_count


def _course(chance: random.Random) -> list[object]:
    """Return everything that two members are told while records are produced at random."""
    many = Many()
    members = [many.sharing.member(name) for name in ("one", "two")]
    seen: list[object] = []
    held: list[Acknowledgements] = [{}, {}]
    for round_ in range(6):
        for _ in range(chance.randrange(60)):
            many.produce(chance.randrange(PARTITIONS), chance.randint(1, 3))
        number = chance.randrange(2)
        member = members[number]
        is_apart = member.epoch > 0 and chance.random() < 0.3
        # What a fetch releases may be written, and so available, before a large one acquires.
        kinds = (ACCEPT, REJECT, RELEASE) if is_apart else (ACCEPT, REJECT)
        chosen = {
            index: (first, last, chance.choice(kinds))
            for index, (first, last, _) in held[number].items()
            if chance.random() < 0.8
        }
        if is_apart:
            seen.append(many.acknowledge(member, chosen))
            chosen = {}
        if not member.epoch:
            chosen = {}
        limits = {
            "max_records": chance.choice((0, 5, 500)),
            "max_wait_ms": chance.choice((0, 300)),
            "batch_size": 1,
        }
        request = member.fetch_request(topics=many.topics(chosen), **limits)
        if chance.random() < 0.2:
            request.topics[0].partitions[3].partition_index = PARTITIONS + 5
        member.advance()
        member.client.send(request, 2)
        member.client.loop.advance(300)
        ((_, response),) = member.client.answers()
        found = told(response)
        seen.append((round_, found))
        held[number] = {
            index: (records[0][0], records[-1][1], 0)
            for index, (_, _, records) in found.items()
            if records
        }
    return seen


@pytest.mark.parametrize("seed", range(4))
def test_answers_in_slices_are_those_of_one_turn(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_slices = _course(random.Random(seed))
    for module in (fetching, looking, share_acknowledge):
        monkeypatch.setattr(module, "HANDLED_AT_ONCE", 10 * PARTITIONS)
    assert _course(random.Random(seed)) == in_slices


def test_a_large_fetch_waits_and_is_woken_by_one_partition() -> None:
    many = Many()
    one = many.sharing.member("one")
    loaded = told(one.fetch(topics=many.topics({}), max_wait_ms=0))
    assert all(part == (0, 0, []) for part in loaded.values())
    one.client.send(one.fetch_request(topics=[], max_wait_ms=60_000), 2)
    one.advance()
    one.client.loop.advance(1_000)
    assert one.client.answers() == []
    many.produce(50)
    one.client.loop.turn()
    ((_, response),) = one.client.answers()
    assert told(response)[50] == (0, 0, [(0, 0, 1)])
    waiting = many.broker.topics.by_id[many.topic_id].partitions
    assert not any(each.watchers for each in waiting)


def test_records_that_come_during_a_large_look_are_found() -> None:
    """The partition was looked at before; the fetch looks at it once more."""
    many = Many()
    one = many.sharing.member("one")
    one.fetch(topics=many.topics({}))
    one.client.send(one.fetch_request(topics=[], max_wait_ms=60_000), 2)
    one.advance()
    loop = loop_of(many.broker)
    loop.turn_once()
    loop.turn_once()
    partition = many.broker.topics.by_id[many.topic_id].partitions[one.epoch - 1]
    assert partition.watchers, "it was looked at"
    assert one.client.answers() == []
    many.produce(partition.index)
    loop.turn()
    ((_, response),) = one.client.answers()
    assert told(response)[partition.index] == (0, 0, [(0, 0, 1)])


def test_a_connection_that_closes_during_a_large_look_leaves_nothing() -> None:
    many = Many()
    one, two = many.sharing.member("one"), many.sharing.member("two")
    one.fetch(topics=many.topics({}))
    two.fetch(topics=many.topics({}))
    for index in range(PARTITIONS):
        many.produce(index)
    one.client.send(one.fetch_request(topics=[]), 2)
    loop_of(many.broker).turn_once()
    one.client.transport.close()
    one.client.connection.connection_lost(None)
    loop_of(many.broker).turn()
    waiting = many.broker.topics.by_id[many.topic_id].partitions
    assert not any(each.watchers for each in waiting)
    found = told(two.fetch(topics=[], max_records=PARTITIONS, max_wait_ms=0))
    assert len(found) == PARTITIONS


def test_a_topic_that_is_deleted_during_a_large_look_is_told() -> None:
    many = Many()
    one = many.sharing.member("one")
    one.fetch(topics=many.topics({}))
    one.client.send(one.fetch_request(topics=[], max_wait_ms=60_000), 2)
    one.advance()
    loop_of(many.broker).turn_once()
    many.broker.delete_topic(many.broker.topics.by_name["many"])
    loop_of(many.broker).turn()
    ((_, response),) = one.client.answers()
    assert {part[0] for part in told(response).values()} == {ErrorCode.UNKNOWN_TOPIC_ID}


def test_a_large_session_that_ended_releases_before_its_member_is_back() -> None:
    many = Many()
    one = many.sharing.member("one")
    one.fetch(topics=many.topics({}))
    for index in range(PARTITIONS):
        many.produce(index)
    first = told(one.fetch(topics=[], max_records=500, batch_size=1))
    assert len(first) == PARTITIONS
    one.client.transport.close()
    one.client.connection.connection_lost(None)
    again = many.sharing.member("one")
    again.client.send(again.fetch_request(topics=many.topics({}), max_records=500), 2)
    loop_of(many.broker).advance(LOCK_MS - 1)
    ((_, response),) = again.client.answers()
    found = told(response)
    assert {tuple(part[2]) for part in found.values()} == {((0, 0, 2),)}
    assert len(found) == PARTITIONS
    again.epoch = 1
    accepted = dict.fromkeys(range(PARTITIONS), (0, 0, ACCEPT))
    assert set(many.acknowledge(again, accepted).values()) == {ErrorCode.NONE}
