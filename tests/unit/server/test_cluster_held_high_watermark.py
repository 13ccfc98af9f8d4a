"""High watermarks of partitions with fewer replicas in sync than must be (KIP-966)."""

from typing import Any

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_records import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
)
from coterie.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from coterie.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from tests.unit.server.cluster import ManualCluster
from tests.unit.server.cluster_requests import create, latest_offset, others, produced
from tests.unit.server.manual import Client

OK = ErrorCode.NONE


def held() -> tuple[ManualCluster, Client, list[int]]:
    """Return a cluster in which broker 1 is alone, and consumers see one record of three."""
    cluster = ManualCluster({"min.insync.replicas": "2"})
    create(cluster.client(1))
    leader, _ = cluster.leads("t")
    gone = others(cluster, leader)
    client = cluster.client(leader)
    assert produced(client) == OK
    for each in gone:
        cluster.cluster.kill(each)
    assert [produced(client), produced(client)] == [OK, OK]
    return cluster, client, gone


def read(client: Client, offset: int, isolation: int = 0) -> tuple[int, int, int, int]:
    """Fetch at once; return the error, high watermark, last stable offset and number of bytes."""
    (_, answer) = sent(client, offset, isolation)
    (found,) = answer.responses[0].partitions
    return (found.error_code, found.high_watermark, found.last_stable_offset, len(found.records))


def sent(client: Client, offset: int, isolation: int = 0, max_wait_ms: int = 0) -> tuple[int, Any]:
    partition = FetchRequestPartition(
        partition=0, fetch_offset=offset, partition_max_bytes=1000, last_fetched_epoch=-1
    )
    request = FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, max_bytes=1000, isolation_level=isolation,
        topics=[FetchRequestTopic(topic="t", partitions=[partition])],
    )  # fmt: skip
    number = client.send(request, 12)
    client.loop.turn()
    answers = client.answers()
    return answers[0] if answers else (number, None)


def offset_of(client: Client, time: int, replica: int = -1) -> int:
    asked = ListOffsetsRequestPartition(partition_index=0, timestamp=time)
    topic = ListOffsetsRequestTopic(name="t", partitions=[asked])
    request = ListOffsetsRequest(replica_id=replica, topics=[topic])
    (found,) = client.call(request, 7).topics[0].partitions
    assert found.error_code == OK
    return int(found.offset)


def deleted(client: Client, offset: int) -> tuple[int, int]:
    partition = DeleteRecordsRequestPartition(partition_index=0, offset=offset)
    topic = DeleteRecordsRequestTopic(name="t", partitions=[partition])
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=1000)
    (found,) = client.call(request, 2).topics[0].partitions
    return found.error_code, found.low_watermark


def test_consumers_do_not_see_what_is_behind_it() -> None:
    _, client, _ = held()
    error, high, stable, size = read(client, 0)
    assert (error, high, stable) == (OK, 1, 1)
    assert size > 0
    assert read(client, 0, isolation=1) == (OK, 1, 1, size)
    assert read(client, 1) == read(client, 3) == (OK, 1, 1, 0)
    assert read(client, 4)[0] == ErrorCode.OFFSET_OUT_OF_RANGE
    assert latest_offset(client) == (OK, 1)


def test_times_behind_it_are_not_found() -> None:
    _, client, _ = held()
    assert offset_of(client, 0) == 0
    assert offset_of(client, -3) == 0
    assert offset_of(client, -1, replica=-2) == 3


def test_records_are_deleted_up_to_it() -> None:
    _, client, _ = held()
    assert deleted(client, 2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert deleted(client, -1) == (OK, 1)


def test_waiting_fetch_is_answered_when_a_replica_is_back() -> None:
    cluster, client, gone = held()
    assert sent(client, 1, max_wait_ms=5000)[1] is None
    assert produced(cluster.client(client.broker.node_id)) == OK
    cluster.loop.advance(1000)
    assert client.answers() == []
    cluster.complete(cluster.cluster.start_broker(gone[0]))
    cluster.loop.turn()
    ((_, answer),) = client.answers()
    (found,) = answer.responses[0].partitions
    assert (found.high_watermark, latest_offset(client)) == (4, (OK, 4))
    assert found.records


def test_setting_releases_and_holds_it() -> None:
    _, client, _ = held()
    for value, latest in (("1", 3), ("2", 4)):
        change = IncrementalAlterConfigsRequestConfig(
            name="min.insync.replicas", config_operation=0, value=value
        )
        topic = IncrementalAlterConfigsRequestResource(
            resource_type=2, resource_name="t", configs=[change]
        )
        request = IncrementalAlterConfigsRequest(resources=[topic], validate_only=False)
        client.send(request, 1)
        client.loop.advance(10)
        assert [each.error_code for each in client.answers()[0][1].responses] == [OK]
        assert latest_offset(client) == (OK, latest)
        assert produced(client) == OK
    assert latest_offset(client) == (OK, 4)


def test_log_that_is_cut_before_it_ends_there() -> None:
    cluster, client, _ = held()
    cluster.complete(cluster.cluster.cut("t", 0, 0))
    assert latest_offset(client) == (OK, 0)
    assert produced(client) == OK
    assert latest_offset(client) == (OK, 0)
