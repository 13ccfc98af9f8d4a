"""What the simulation of brokers has found, each as a story of its own."""

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochRequestPartition,
    OffsetForLeaderEpochRequestTopic,
)
from coterie.server.brokers import UnknownNode
from tests.unit.server.cluster import ManualCluster
from tests.unit.server.cluster_requests import create, produced
from tests.unit.server.manual import Client
from tests.unit.server.produced import fetch_request


def end_of_epoch(client: Client, epoch: int) -> tuple[int, int, int]:
    """Return the error, the epoch and the offset at which an epoch of the topic ended."""
    asked = OffsetForLeaderEpochRequestPartition(partition=0, leader_epoch=epoch)
    topic = OffsetForLeaderEpochRequestTopic(topic="t", partitions=[asked])
    (found,) = client.call(OffsetForLeaderEpochRequest(topics=[topic]), 4).topics[0].partitions
    return found.error_code, found.leader_epoch, found.end_offset


@pytest.mark.parametrize(("end", "epoch"), [(1, 0), (0, 1)])
def test_epoch_whose_records_are_all_cut_off_ends_at_the_cut(end: int, epoch: int) -> None:
    """[cluster/unclean-election]"""
    cluster = ManualCluster()
    create(cluster.client(1))
    leader, _ = cluster.leads("t")
    produced(cluster.client(leader))
    to = leader % 3 + 1
    cluster.cluster.move("t", 0, to)
    produced(cluster.client(to))
    cluster.complete(cluster.cluster.cut("t", 0, end))
    leader, _ = cluster.leads("t")
    client = cluster.client(leader)
    assert end_of_epoch(client, 1) == (ErrorCode.NONE, epoch, end)
    request = fetch_request((0, 2), last_fetched_epoch=1)
    (found,) = client.call(request, 12).responses[0].partitions
    assert found.error_code == ErrorCode.NONE
    assert (found.diverging_epoch.epoch, found.diverging_epoch.end_offset) == (epoch, end)


def test_nothing_moves_to_a_broker_that_the_others_take_for_dead() -> None:
    cluster = ManualCluster()
    create(cluster.client(1))
    leader, _ = cluster.leads("t")
    away = leader % 3 + 1
    cluster.cluster.detect(away)
    with pytest.raises(UnknownNode, match="take it for dead"):
        cluster.cluster.move("t", 0, away)
    cluster.cluster.rejoin(away)
    cluster.cluster.move("t", 0, away)
    assert cluster.leads("t")[0] == away
