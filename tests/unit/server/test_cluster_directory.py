"""One data directory under one broker and under several."""

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsRequestTopic
from coterie.storage.filesystem import FileSystem
from coterie.storage.memory_filesystem import MemoryFileSystem
from tests.unit.server.cluster import ManualCluster
from tests.unit.server.cluster_requests import (
    commit,
    committed,
    coordinator,
    create,
    described,
    latest_offset,
    produced,
)
from tests.unit.server.manual import Client, make_broker


def closed(cluster: ManualCluster) -> None:
    cluster.complete(cluster.cluster.stop())


def written(filesystem: FileSystem, brokers: int) -> list[tuple[int, int, list[int]]]:
    """Produce and commit under several brokers; return leader, epoch and replicas afterwards."""
    cluster = ManualCluster(filesystem=filesystem, brokers=brokers)
    create(cluster.client(1), partitions=3)
    leader, _ = cluster.leads("t")
    assert produced(cluster.client(leader)) == ErrorCode.NONE
    cluster.cluster.kill(leader)
    cluster.loop.turn()
    cluster.complete(cluster.cluster.start_broker(leader))
    assert commit(cluster.client(coordinator(cluster)), 5) == [ErrorCode.NONE]
    found = [(where[0], where[1], where[2]) for where in described(cluster.client(1))]
    closed(cluster)
    return found


def test_cluster_comes_back_with_its_replicas_and_newer_epochs() -> None:
    filesystem = MemoryFileSystem()
    before = written(filesystem, 3)
    cluster = ManualCluster(filesystem=filesystem)
    after = described(cluster.client(1))
    for (_, epoch, replicas), now in zip(before, after, strict=True):
        assert now == (replicas[0], epoch + 1, replicas, replicas, [])
    assert latest_offset(cluster.client(cluster.leads("t")[0])) == (ErrorCode.NONE, 1)
    assert committed(cluster.client(coordinator(cluster)), "g") == [(ErrorCode.NONE, 5)]


def test_deletion_goes_on_in_the_coordinators_of_all_brokers() -> None:
    """The first of them that is there has no part in the partitions of the others."""
    filesystem = MemoryFileSystem()
    cluster = ManualCluster({"offsets.topic.num.partitions": "6"}, filesystem=filesystem)
    create(cluster.client(1))
    groups = [f"g{number}" for number in range(12)]
    for each in groups:
        assert commit(cluster.client(coordinator(cluster, each)), 5, each) == [ErrorCode.NONE]
    assert {coordinator(cluster, each) for each in groups} == {1, 2, 3}
    # A coordinator is dead and nobody knows it, so the deletion waits.
    cluster.cluster.kill(3, detect_ms=60_000)
    request = DeleteTopicsRequest(topics=[DeleteTopicsRequestTopic(name="t")], timeout_ms=60_000)
    client = cluster.client(1)
    client.send(request, 6)
    cluster.loop.turn()
    assert not client.answers()
    cluster.complete(cluster.cluster.abandon())
    again = ManualCluster({"offsets.topic.num.partitions": "6"}, filesystem=filesystem)
    again.loop.advance(100)
    create(again.client(1))
    for each in groups:
        after = again.client(coordinator(again, each))
        assert committed(after, each) == [(ErrorCode.NONE, -1)], each


def test_single_broker_leads_everything_in_no_older_epoch() -> None:
    filesystem = MemoryFileSystem()
    before = written(filesystem, 3)
    client = Client(make_broker({"offsets.topic.num.partitions": "6"}, filesystem=filesystem))
    assert described(client) == [(1, epoch, [1], [1], []) for _, epoch, _ in before]
    assert latest_offset(client) == (ErrorCode.NONE, 1)
    assert committed(client, "g") == [(ErrorCode.NONE, 5)]


def test_directory_of_a_single_broker_is_spread_over_several() -> None:
    filesystem = MemoryFileSystem()
    broker = make_broker({"offsets.topic.num.partitions": "6"}, filesystem=filesystem)
    client = Client(broker)
    create(client, factor=1, partitions=6)
    assert produced(client) == ErrorCode.NONE
    assert commit(client, 5) == [ErrorCode.NONE]
    broker._data.close()
    # There are fewer brokers than the default asks for.
    settings = {"default.replication.factor": "4"}
    cluster = ManualCluster(settings, filesystem=filesystem)
    found = described(cluster.client(1))
    assert sorted(leader for leader, *_ in found) == [1, 1, 2, 2, 3, 3]
    assert all(sorted(replicas) == [1, 2, 3] for _, _, replicas, *_ in found)
    assert latest_offset(cluster.client(cluster.leads("t")[0])) == (ErrorCode.NONE, 1)
    assert committed(cluster.client(coordinator(cluster)), "g") == [(ErrorCode.NONE, 5)]
    assert len(cluster.leadership.image.placements["__consumer_offsets"][0].replicas) == 3


def test_brokers_that_are_gone_are_left_out() -> None:
    filesystem = MemoryFileSystem()
    before = written(filesystem, 5)
    cluster = ManualCluster(filesystem=filesystem, brokers=2)
    for (_, _, replicas), now in zip(before, described(cluster.client(1)), strict=True):
        left = [each for each in replicas if each in (1, 2)]
        assert (now[2] == left) if left else (len(now[2]) == 1)
        assert now[0] in (1, 2)
