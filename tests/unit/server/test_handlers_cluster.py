"""Versions, coordinators, the cluster and producer ids; the answers are those of Kafka 4.3.1.

Rules: [data-plane/producer-ids], [framing/served-versions], [topics/one-broker].
"""

from typing import Any

import pytest

from coterie.protocol.api_keys import SERVED_VERSIONS, TELEMETRY_APIS, ApiKey
from coterie.protocol.errors import DEFAULT_MESSAGES, ErrorCode
from coterie.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.protocol.messages.describe_cluster import DescribeClusterRequest
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.init_producer_id import InitProducerIdRequest
from tests.unit.server.manual import Client, make_broker


@pytest.fixture
def client() -> Client:
    return Client(make_broker())


class TestApiVersions:
    def test_served_versions_with_produce_from_zero(self, client: Client) -> None:
        for version in range(5):
            request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
            answer = client.call(request, version)
            ranges = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
            announced = {
                api: versions
                for api, versions in SERVED_VERSIONS.items()
                if api not in TELEMETRY_APIS
            }
            assert ranges == {**announced, ApiKey.PRODUCE: (0, 13)}

    @pytest.mark.parametrize("version", [5, 9, 32767, -1])
    def test_unknown_version_is_answered_in_version_0(self, client: Client, version: int) -> None:
        head = (18).to_bytes(2) + version.to_bytes(2, signed=True) + (77).to_bytes(4) + b"\0\1x"
        frame = head + b"the body of a newer version"
        client.connection.data_received(len(frame).to_bytes(4) + frame)
        (answer,) = client.transport.written
        assert answer[4:8] == (77).to_bytes(4)
        response = ApiVersionsResponse.decode(answer[8:], 0)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        (served,) = response.api_keys
        assert (served.api_key, served.min_version, served.max_version) == (18, 0, 4)
        assert not client.transport.closed


class TestFindCoordinator:
    @pytest.mark.parametrize(
        ("key_type", "version", "has_text"), [(2, 6, False), (2, 5, False), (9, 4, True)]
    )
    def test_other_coordinators_are_refused(
        self, client: Client, key_type: int, version: int, has_text: bool
    ) -> None:
        """[coordinator/find-coordinator]"""
        error = ErrorCode.INVALID_REQUEST
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"])
        (each,) = client.call(request, version).coordinators
        assert (each.error_code, each.node_id, each.host, each.port) == (error, -1, "", -1)
        assert bool(each.error_message) == has_text
        answer = client.call(FindCoordinatorRequest(key="x", key_type=key_type), 3)
        assert (answer.error_code, answer.error_message) == (error, DEFAULT_MESSAGES[error])

    def test_refusal_of_one_key_has_a_message(self, client: Client) -> None:
        answer = client.call(FindCoordinatorRequest(key="tx", key_type=1), 2)
        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert answer.error_message == "The coordinator is not available."
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=["tx"])
        (each,) = Client(make_broker()).call(request, 4).coordinators
        assert (each.error_code, each.error_message) == (answer.error_code, "")


class TestDescribeCluster:
    def test_one_broker(self, client: Client) -> None:
        request = DescribeClusterRequest(include_cluster_authorized_operations=True)
        for version in range(3):
            answer = client.call(request, version)
            assert answer.cluster_id == client.broker.image.cluster_id
            assert [(each.broker_id, each.port) for each in answer.brokers] == [(1, 9092)]
            assert answer.controller_id == 1
            assert answer.cluster_authorized_operations == 8096

    def test_the_broker_may_have_a_rack(self) -> None:
        client = Client(make_broker({"broker.rack": "r1"}))
        request = DescribeClusterRequest(include_cluster_authorized_operations=False)
        assert [each.rack for each in client.call(request, 2).brokers] == ["r1"]


class TestInitProducerId:
    def request_id(self, client: Client, version: int = 4, **fields: Any) -> tuple[int, int, int]:
        values = {"transactional_id": None, "transaction_timeout_ms": 1000, **fields}
        answer = client.call(InitProducerIdRequest(**values), version)
        return answer.error_code, answer.producer_id, answer.producer_epoch

    def test_ids_are_not_repeated(self, client: Client) -> None:
        assert [self.request_id(client)[1] for _ in range(3)] == [0, 1, 2]
        assert self.request_id(client, producer_id=1, producer_epoch=0) == (0, 3, 0)
