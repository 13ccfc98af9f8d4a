"""The image of the cluster: what the clients of each listener are given, and kept encodings.

Rules: [topics/endpoint-of-a-listener].
"""

from coterie.address import Address
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.describe_cluster import DescribeClusterRequest
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.server.cluster.image import ClusterImage, CoordinatorType, Endpoint, Node
from tests.unit.server.manual import Client, make_broker


def test_image_is_replaced_and_never_changed() -> None:
    first = ClusterImage("id", [Node(3, {"A": Address("a", 1)}, "rack")])
    second = first.advertising(3, "B", Address("b", 2))
    third = second.advertising(3, "A", Address("c", 3))
    assert (first.version, second.version, third.version) == (0, 1, 2)
    assert list(first.endpoints("A")) == [Endpoint(3, "a", 1, "rack")]
    assert list(first.endpoints("B")) == []
    assert list(second.endpoints("B")) == [Endpoint(3, "b", 2, "rack")]
    assert (second.endpoint(3, "A"), third.endpoint(3, "A")) == (
        Endpoint(3, "a", 1, "rack"), Endpoint(3, "c", 3, "rack"),
    )  # fmt: skip
    assert (third.cluster_id, third.controller_id) == ("id", 3)


def test_groups_and_transactions_have_a_coordinator() -> None:
    image = ClusterImage("id", [Node(3, {})])
    found = {kind: image.coordinator(kind, "key") for kind in CoordinatorType}
    assert found == {
        CoordinatorType.GROUP: 3, CoordinatorType.TRANSACTION: 3, CoordinatorType.SHARE: 3,
    }  # fmt: skip


def test_clients_are_given_the_address_of_their_listener() -> None:
    broker = make_broker()
    broker.advertise("OTHER", Address("other", 7))
    for listener, address in (("PLAINTEXT", ("127.0.0.1", 9092)), ("OTHER", ("other", 7))):
        client = Client(broker, listener=listener)
        for request, version in (
            (MetadataRequest(topics=[]), 9),
            (DescribeClusterRequest(include_cluster_authorized_operations=False), 0),
        ):
            (found,) = client.call(request, version).brokers
            assert (found.host, found.port) == address
        (found,) = client.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators
        assert (found.host, found.port) == address
        found = client.call(FindCoordinatorRequest(key="g"), 3)
        assert (found.host, found.port) == address


def test_listener_without_an_address_has_no_coordinator() -> None:
    client = Client(make_broker(), listener="OTHER")
    assert client.call(MetadataRequest(topics=[]), 9).brokers == []
    (found,) = client.call(FindCoordinatorRequest(coordinator_keys=["g"]), 4).coordinators
    assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (found.node_id, found.host, found.port) == (-1, "", -1)


def test_kept_descriptions_of_topics_belong_to_a_version_of_the_image() -> None:
    broker = make_broker()
    client = Client(broker)
    topic = broker.controller.create("t", 1, {})
    before = client.call(MetadataRequest(topics=None), 9)
    (kept,) = topic.images
    client.call(MetadataRequest(topics=None), 9)
    assert list(topic.images) == [kept]
    broker.advertise("PLAINTEXT", Address("new", 1))
    after = client.call(MetadataRequest(topics=None), 9)
    assert len(topic.images) == 2
    assert after.topics == before.topics
