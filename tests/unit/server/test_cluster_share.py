"""Share groups in a cluster: leaders of share partitions and share coordinators that move."""

from typing import Any

import pytest

from coterie.coordinator.share_state.requests import ShareKey
from coterie.coordinator.share_state.service import coordinator_key
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeStatePartition,
    InitializeStateTopic,
)
from coterie.server.cluster.image import CoordinatorType
from tests.unit.server.cluster import ManualCluster
from tests.unit.server.cluster_requests import create
from tests.unit.server.produced import batch, produce
from tests.unit.server.share_clients import GROUP, GROUP_RESOURCE, LOCK_MS, ShareMember, acquired

ACCEPT, RELEASE = 1, 2
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


class SharedCluster:
    """Three brokers, and a share group that reads a partition from its start.

    Attributes:
        cluster: the brokers.
        topic_id: the id of the topic.
    """

    def __init__(self) -> None:
        self.cluster = ManualCluster({"share.coordinator.state.topic.num.partitions": "3"})
        client = self.cluster.client(1)
        create(client)
        shared = self.cluster.cluster.shared
        self.topic_id = shared.topics.by_name["t"].topic_id
        values = {"share.auto.offset.reset": "earliest"}
        shared.config.set_resources(GROUP_RESOURCE, {GROUP: values})
        finding = FindCoordinatorRequest(key_type=2, coordinator_keys=[coordinator_key(self.key)])
        client.call(finding, 6)
        self.cluster.loop.turn()
        asked = InitializeStatePartition(partition=0, state_epoch=1, start_offset=-1)
        topics = [InitializeStateTopic(topic_id=self.topic_id, partitions=[asked])]
        request = InitializeShareGroupStateRequest(group_id=GROUP, topics=topics)
        (result,) = self.cluster.client(self.coordinator).call(request, 0).results
        assert result.partitions[0].error_code == ErrorCode.NONE

    @property
    def key(self) -> ShareKey:
        """The share partition."""
        return ShareKey(GROUP, self.topic_id, 0)

    @property
    def coordinator(self) -> int:
        """The broker that keeps its state."""
        key = coordinator_key(self.key)
        found = self.cluster.leadership.image.coordinator(CoordinatorType.SHARE, key)
        assert found is not None
        return found

    @property
    def leader(self) -> int:
        """The broker that leads the partition."""
        return self.cluster.leads("t")[0]

    def other(self, *node_ids: int) -> int:
        """Return a broker that is none of these."""
        return next(each for each in (1, 2, 3) if each not in node_ids)

    def produce(self, *values: bytes) -> None:
        """Produce one batch."""
        answer = produce(self.cluster.client(self.leader), batch(*values))
        assert answer.error_code == ErrorCode.NONE

    def member(self, name: str, node_id: int) -> ShareMember:
        """Return a member that is connected to a broker."""
        return ShareMember(self, name, self.cluster.client(node_id))  # type: ignore[arg-type]

    def move_leader(self, to: int) -> None:
        """Let another broker lead the partition."""
        self.cluster.cluster.move("t", 0, to)
        self.cluster.loop.turn()

    def move_coordinator(self, to: int) -> None:
        """Let another broker keep the state."""
        key = coordinator_key(self.key)
        self.cluster.cluster.move_coordinator(CoordinatorType.SHARE, key, to)


def lone(response: Any) -> Any:
    """Return the only partition of a response."""
    ((part,),) = [each.partitions for each in response.responses]
    return part


def assert_names_leader(sharing: SharedCluster, response: Any) -> None:
    """The response says which broker leads, and where it is."""
    leader, epoch = sharing.cluster.leads("t")
    hint = lone(response).current_leader
    assert (hint.leader_id, hint.leader_epoch) == (leader, epoch)
    (endpoint,) = response.node_endpoints
    assert (endpoint.node_id, endpoint.host, endpoint.port) == (leader, "127.0.0.1", 9000 + leader)


def test_a_fetch_at_the_former_leader_names_the_new_one() -> None:
    sharing = SharedCluster()
    sharing.produce(b"a", b"b")
    before, after = sharing.leader, sharing.other(sharing.leader)
    one = sharing.member("one", before)
    assert one.acquire(max_wait_ms=500) == [(0, 1, 1)]
    sharing.move_leader(after)
    response = one.fetch((0, 0, ACCEPT))
    part = lone(response)
    assert (part.error_code, part.acknowledge_error_code) == (NOT_LEADER, NOT_LEADER)
    assert_names_leader(sharing, response)
    assert one.acknowledge((0, 1, ACCEPT))[0] == NOT_LEADER


def test_an_acknowledgement_at_the_former_leader_names_the_new_one() -> None:
    sharing = SharedCluster()
    sharing.produce(b"a")
    one = sharing.member("one", sharing.leader)
    assert one.acquire(max_wait_ms=500) == [(0, 0, 1)]
    sharing.move_leader(sharing.other(sharing.leader))
    response = one.acknowledged((0, 0, ACCEPT))
    part = lone(response)
    assert (part.error_code, part.error_message) == (NOT_LEADER, None)
    assert_names_leader(sharing, response)


def test_a_fetch_that_waits_is_told_of_the_move() -> None:
    sharing = SharedCluster()
    one = sharing.member("one", sharing.leader)
    one.client.send(one.fetch_request(max_wait_ms=60_000), 2)
    one.client.loop.advance(10)
    assert one.client.answers() == []
    sharing.move_leader(sharing.other(sharing.leader))
    ((_, response),) = one.client.answers()
    assert lone(response).error_code == NOT_LEADER
    assert_names_leader(sharing, response)


def test_the_new_leader_goes_on_with_what_is_persisted() -> None:
    """What is accepted is done, a released record keeps its count, a lock was never persisted."""
    sharing = SharedCluster()
    sharing.produce(b"accepted", b"released", b"held")
    before, after = sharing.leader, sharing.other(sharing.leader)
    one = sharing.member("one", before)
    assert one.acquire(max_wait_ms=500) == [(0, 2, 1)]
    assert one.acknowledge((0, 0, ACCEPT), (1, 1, RELEASE)) == (0, None)
    sharing.move_leader(after)
    two = sharing.member("two", after)
    assert two.acquire(max_wait_ms=500) == [(1, 1, 2), (2, 2, 1)]
    assert two.acknowledge((1, 2, ACCEPT)) == (0, None)


def test_the_former_leader_forgets_the_share_partition() -> None:
    """Its locks do not end there any more, and it writes nothing."""
    sharing = SharedCluster()
    sharing.produce(b"a")
    before, after = sharing.leader, sharing.other(sharing.leader)
    one = sharing.member("one", before)
    assert one.acquire(max_wait_ms=500) == [(0, 0, 1)]
    sharing.move_leader(after)
    assert sharing.cluster.cluster.brokers[before].share.known(sharing.key) is None
    two = sharing.member("two", after)
    assert two.acquire(max_wait_ms=500) == [(0, 0, 1)]
    sharing.cluster.loop.advance(LOCK_MS)
    assert two.acquire(max_wait_ms=500) == [(0, 0, 2)]


def test_a_leader_that_leads_again_loads_anew() -> None:
    sharing = SharedCluster()
    sharing.produce(b"a", b"b")
    first, second = sharing.leader, sharing.other(sharing.leader)
    one = sharing.member("one", first)
    assert one.acquire(max_wait_ms=500) == [(0, 1, 1)]
    sharing.move_leader(second)
    two = sharing.member("two", second)
    assert two.acquire(max_wait_ms=500) == [(0, 1, 1)]
    assert two.acknowledge((0, 0, ACCEPT)) == (0, None)
    sharing.move_leader(first)
    assert one.acquire(max_wait_ms=500) == [(1, 1, 1)]
    assert one.acknowledge((0, 0, ACCEPT)) == (0, None), "below the start offset"
    assert one.acknowledge((1, 1, ACCEPT)) == (0, None)


@pytest.mark.parametrize("rounds", [1, 4])
def test_a_coordinator_that_moves_loses_nothing(rounds: int) -> None:
    sharing = SharedCluster()
    for number in range(rounds):
        first = 2 * number
        sharing.produce(b"a", b"b")
        one = sharing.member(f"m{number}", sharing.leader)
        # The record that the member before has released comes first.
        again = [(first - 1, first - 1, 2)] if number else []
        assert one.acquire(max_wait_ms=500) == [*again, (first, first + 1, 1)]
        done = [(first - 1, first, ACCEPT)] if number else [(first, first, ACCEPT)]
        assert one.acknowledge(*done, (first + 1, first + 1, RELEASE)) == (0, None)
        sharing.move_coordinator(sharing.other(sharing.coordinator))
        sharing.cluster.loop.turn()
        sharing.move_leader(sharing.other(sharing.leader))
    last = sharing.member("last", sharing.leader)
    end = 2 * rounds - 1
    assert last.acquire(max_wait_ms=500) == [(end, end, 2)]


def test_an_acknowledgement_waits_for_a_coordinator_that_moves() -> None:
    """It is written by the next one, and answered without an error."""
    sharing = SharedCluster()
    sharing.produce(b"a", b"b")
    one = sharing.member("one", sharing.leader)
    assert one.acquire(max_wait_ms=500) == [(0, 1, 1)]
    request = one.fetch_request((0, 0, ACCEPT), max_records=0, min_bytes=0)
    one.advance()
    sharing.move_coordinator(sharing.other(sharing.coordinator))
    one.client.send(request, 2)
    sharing.cluster.loop.advance(10_000)
    ((_, response),) = one.client.answers()
    assert lone(response).acknowledge_error_code == ErrorCode.NONE
    sharing.move_leader(sharing.other(sharing.leader))
    two = sharing.member("two", sharing.leader)
    assert acquired(two.fetch(max_wait_ms=500)) == [(1, 1, 1)]


def test_a_coordinator_that_is_killed_loses_nothing() -> None:
    sharing = SharedCluster()
    sharing.produce(b"a", b"b")
    if sharing.coordinator == sharing.leader:
        sharing.move_leader(sharing.other(sharing.leader))
    one = sharing.member("one", sharing.leader)
    assert one.acquire(max_wait_ms=500) == [(0, 1, 1)]
    assert one.acknowledge((0, 0, ACCEPT)) == (0, None)
    sharing.cluster.cluster.kill(sharing.coordinator)
    sharing.cluster.loop.advance(10_000)
    assert one.acknowledge((1, 1, RELEASE)) == (0, None)
    assert one.acquire(max_wait_ms=500) == [(1, 1, 2)]
