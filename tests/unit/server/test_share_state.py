"""The share coordinator of a broker: its topic, its APIs, and what restarts find."""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteStatePartition,
    DeleteStateTopic,
)
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStatePartition,
    InitializeStateTopic,
)
from coterie.protocol.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadStatePartition,
    ReadStateTopic,
)
from coterie.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadStateSummaryPartition,
    ReadStateSummaryTopic,
)
from coterie.protocol.messages.share_state_batch import ShareStateBatch
from coterie.protocol.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteStatePartition,
    WriteStateTopic,
)
from coterie.protocol.topic_names import SHARE_GROUPS_TOPIC
from coterie.server.broker import Broker
from coterie.storage.errors import OutOfHandles
from tests.unit.server.manual import Client, logged, make_broker, open_log, restarted

SETTINGS = {"share.coordinator.state.topic.num.partitions": "3"}
GROUP = "g:1"
KEY = f"{GROUP}:AAAAAAAAAAEAAAAAAAAAAg:2"


def find(client: Client, *keys: str, version: int = 6) -> list[ErrorCode]:
    """Return the errors of coordinators of share partitions."""
    request = FindCoordinatorRequest(key_type=2, coordinator_keys=list(keys))
    found = client.call(request, version).coordinators
    return [ErrorCode(each.error_code) for each in found]


def begun(broker: Broker) -> Client:
    """Return a client of a broker whose share coordinator is loaded."""
    client = Client(broker)
    if find(client, KEY) != [ErrorCode.NONE]:
        client.loop.turn()
        assert find(client, KEY) == [ErrorCode.NONE]
    return client


def initialize(client: Client, topic_id: bytes, *partitions: int) -> list[int]:
    """Begin the states of share partitions in epoch 2; return the errors."""
    asked = [
        InitializeStatePartition(partition=each, state_epoch=2, start_offset=-1)
        for each in partitions
    ]
    topics = [InitializeStateTopic(topic_id=topic_id, partitions=asked)]
    request = InitializeShareGroupStateRequest(group_id=GROUP, topics=topics)
    (result,) = client.call(request, 0).results
    return [each.error_code for each in result.partitions]


def write(client: Client, topic_id: bytes, states: tuple[int, int, int, int] = (0, 3, 2, 1)) -> int:
    """Write states of partition 0, that four records are acknowledged; return the error."""
    asked = WriteStatePartition(
        partition=0,
        state_epoch=2,
        leader_epoch=0,
        start_offset=0,
        delivery_complete_count=4,
        state_batches=[ShareStateBatch.of(*states)],
    )
    topics = [WriteStateTopic(topic_id=topic_id, partitions=[asked])]
    request = WriteShareGroupStateRequest(group_id=GROUP, topics=topics)
    ((result,),) = [each.partitions for each in client.call(request, 1).results]
    code: int = result.error_code
    return code


def read(client: Client, topic_id: bytes, partition: int = 0) -> tuple[int, int, int, list[Any]]:
    """Return error, state epoch, start offset and states of a share partition."""
    asked = ReadStatePartition(partition=partition, leader_epoch=0)
    topics = [ReadStateTopic(topic_id=topic_id, partitions=[asked])]
    request = ReadShareGroupStateRequest(group_id=GROUP, topics=topics)
    ((result,),) = [each.partitions for each in client.call(request, 0).results]
    states = [
        (each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
        for each in result.state_batches
    ]
    return result.error_code, result.state_epoch, result.start_offset, states


def test_topic_is_created_by_the_first_search_for_a_coordinator() -> None:
    """[share-partitions/state-placement]"""
    broker = make_broker(SETTINGS)
    client = Client(broker)
    malformed = ["g", "g:1", "g:x:1", "g:AAAAAAAAAAEAAAAAAAAAAg:x", ":AAAAAAAAAAEAAAAAAAAAAg:1"]
    assert find(client, *malformed) == [ErrorCode.INVALID_REQUEST] * 5
    client.loop.turn()
    assert not broker.share_state.exists
    assert find(client, KEY, version=5) == [ErrorCode.INVALID_REQUEST]
    wanted = [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.INVALID_REQUEST]
    assert find(client, KEY, "g") == wanted
    client.loop.turn()
    assert find(client, KEY, "g") == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    topic = broker.topics.by_name[SHARE_GROUPS_TOPIC]
    assert topic.partition_count == 3
    assert topic.config.overrides["cleanup.policy"] == "delete"
    assert topic.is_internal
    assert topic.is_own


@pytest.mark.parametrize(
    "states", [(0, 3, 1, 1), (0, 3, 3, 1), (3, 0, 2, 1), (-1, 3, 2, 1), (0, 3, 2, -1)]
)
def test_states_that_no_leader_writes_are_refused(states: tuple[int, int, int, int]) -> None:
    """[share-partitions/state-requests]"""
    client = begun(broker := make_broker(SETTINGS))
    topic_id = broker.controller.create("t", 1, {}).topic_id
    assert initialize(client, topic_id, 0) == [0]
    assert write(client, topic_id, states) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert read(client, topic_id)[3] == []


@pytest.mark.parametrize("killed", [False, True])
def test_states_survive_a_restart(killed: bool) -> None:
    """What was acknowledged is there after a stop and after a kill."""
    broker = make_broker(SETTINGS)
    client = begun(broker)
    topic_id = broker.controller.create("t", 2, {}).topic_id
    assert initialize(client, topic_id, 0, 1, 2) == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert write(client, topic_id) == ErrorCode.NONE
    found = (0, 2, 0, [(0, 3, 2, 1)])
    assert read(client, topic_id) == found
    client = begun(restarted(broker, killed=killed))
    assert read(client, topic_id) == found
    assert read(client, topic_id, 1) == (0, 2, -1, [])
    assert read(client, topic_id, -1)[0] == ErrorCode.INVALID_REQUEST


def test_summaries_and_deletions() -> None:
    """A summary has no states; a deletion leaves nothing, and succeeds again."""
    broker = make_broker(SETTINGS)
    client = begun(broker)
    topic_id = broker.controller.create("t", 2, {}).topic_id
    initialize(client, topic_id, 0)
    write(client, topic_id)
    asked = [ReadStateSummaryPartition(partition=each, leader_epoch=0) for each in (0, 1)]
    topics = [ReadStateSummaryTopic(topic_id=topic_id, partitions=asked)]
    request = ReadShareGroupStateSummaryRequest(group_id=GROUP, topics=topics)
    (result,) = client.call(request, 1).results
    assert [
        (each.error_code, each.state_epoch, each.start_offset, each.delivery_complete_count)
        for each in result.partitions
    ] == [(0, 2, 0, 4), (0, 0, -1, -1)]
    deleted = [DeleteStateTopic(topic_id=topic_id, partitions=[DeleteStatePartition(partition=0)])]
    for _ in range(2):
        answer = client.call(DeleteShareGroupStateRequest(group_id=GROUP, topics=deleted), 0)
        assert answer.results[0].partitions[0].error_code == ErrorCode.NONE
    assert read(client, topic_id)[0] == ErrorCode.INVALID_REQUEST
    assert client.call(DeleteShareGroupStateRequest(group_id="", topics=deleted), 0).results == []


def test_states_of_a_deleted_topic_are_gone() -> None:
    """Another topic of the same name has another id, and no state."""
    broker = make_broker(SETTINGS)
    client = begun(broker)
    topic = broker.controller.create("t", 1, {})
    initialize(client, topic.topic_id, 0)
    broker.delete_topic(topic)
    assert broker.share_state.coordinator.totals() == {"share_partitions": 0}
    client = begun(restarted(broker, killed=True))
    assert read(client, topic.topic_id)[0] == ErrorCode.INVALID_REQUEST


# One partition, whose log gets shorter every second.
PRUNED = {
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.cold.partition.snapshot.interval.ms": "1000",
    "share.coordinator.state.topic.prune.interval.ms": "1000",
}


@pytest.mark.parametrize("killed", [False, True])
def test_log_is_pruned_and_has_every_state(killed: bool) -> None:
    """[share-partitions/state-pruning]"""
    broker = make_broker(PRUNED)
    client = begun(broker)
    topic_id = broker.controller.create("t", 2, {}).topic_id
    initialize(client, topic_id, 0, 1)
    for _ in range(3):
        write(client, topic_id)
    log = open_log(broker, SHARE_GROUPS_TOPIC)
    client.loop.advance(999)
    assert (log.log_start_offset, log.log_end_offset) == (0, 5)
    # Partition 1, which has had no updates, keeps all of the log until its cold snapshot.
    client.loop.advance(1)
    assert (log.log_start_offset, log.log_end_offset) == (0, 7)
    client.loop.advance(1_000)
    assert (log.log_start_offset, log.log_end_offset) == (5, 7)
    client.loop.advance(10_000)
    assert (log.log_start_offset, log.log_end_offset) == (5, 7)
    client = begun(restarted(broker, killed=killed))
    assert read(client, topic_id, 0) == (0, 2, 0, [(0, 3, 2, 1)])
    assert read(client, topic_id, 1) == (0, 2, -1, [])


def test_what_was_loaded_is_pruned_after_new_snapshots() -> None:
    """A load finds snapshots, but not where they are [share-partitions/state-pruning]."""
    broker = make_broker(SETTINGS)
    client = begun(broker)
    topic_id = broker.controller.create("t", 1, {}).topic_id
    initialize(client, topic_id, 0)
    initialize(client, topic_id, 0)
    broker = restarted(broker, killed=True)
    client = begun(broker)
    # Only the partition of this share partition was written to.
    partitions = broker.topics.by_name[SHARE_GROUPS_TOPIC].partitions
    (log,) = [each.log for each in partitions if each.log.log_end_offset]
    write(client, topic_id)
    client.loop.advance(300_000)
    assert (log.log_start_offset, log.log_end_offset) == (0, 4)
    client.loop.advance(300_000)
    assert (log.log_start_offset, log.log_end_offset) == (3, 4)
    assert read(client, topic_id) == (0, 2, 0, [(0, 3, 2, 1)])


@pytest.mark.parametrize("shortage", [False, True])
def test_log_that_cannot_be_pruned(shortage: bool) -> None:
    """A shortage of file handles passes; anything else ends the partition."""
    broker = make_broker(PRUNED)
    client = begun(broker)
    topic_id = broker.controller.create("t", 1, {}).topic_id
    initialize(client, topic_id, 0)
    initialize(client, topic_id, 0)
    log = open_log(broker, SHARE_GROUPS_TOPIC)
    delete_records = broker.share_state._delete_records
    errors = [OutOfHandles("log", OSError()) if shortage else OSError("no disk")]

    def failing(*arguments: Any) -> int:
        if errors:
            raise errors.pop()
        return delete_records(*arguments)

    broker.share_state._delete_records = failing
    client.loop.advance(1_000)
    assert not errors
    assert log.log_start_offset == 0
    assert len(logged(broker, "share partition failed")) == (not shortage)
    client.loop.advance(1_000)
    assert log.log_start_offset == (2 if shortage else 0)
    wanted = ErrorCode.NONE if shortage else ErrorCode.NOT_COORDINATOR
    assert initialize(client, topic_id, 0) == [wanted]


def test_no_topic_is_no_coordinator() -> None:
    """Without the topic every request is refused."""
    client = Client(make_broker(SETTINGS))
    assert initialize(client, bytes([1] * 16), 0) == [ErrorCode.NOT_COORDINATOR]
