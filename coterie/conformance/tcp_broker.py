"""The administration of a running broker: topics for the transcripts, versions, settings.

Many runs use it at once, so one lock guards all its requests.
"""

import threading
import time

from coterie.address import Address
from coterie.client.cluster import Cluster
from coterie.client.connection import Deadline
from coterie.client.errors import VersionUnsupported
from coterie.conformance.transcript import TranscriptError
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    CreateTopicsResponse,
)
from coterie.protocol.messages.delete_topics import (
    DeleteTopicsRequest,
    DeleteTopicsRequestTopic,
    DeleteTopicsResponse,
)
from coterie.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    DescribeConfigsResponse,
)
from coterie.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from coterie.protocol.wire import Message

# The transcripts commit to partitions 0 to 3.
_PARTITIONS = 4
_BROKER_RESOURCE = 4
_TIMEOUT_MS = 10_000
_METADATA_LIMIT_S = 5.0
# So many groups that each of the 50 partitions of `__consumer_offsets` has some of them.
_PROBED_GROUPS = 500
# Up to this version an unknown group is not an error.
_DESCRIBE_WITHOUT_NOT_FOUND = 5


class TcpBroker:
    """One broker, at one address."""

    def __init__(self, address: str) -> None:
        """Connect and wait until the broker has created and loaded `__consumer_offsets`.

        Args:
            address: host:port.
        """
        self.address: Address = Address.parse(address)
        self._cluster = Cluster(address)
        self._lock = threading.Lock()
        self._topic_ids: dict[str, bytes] = {}
        self._settings: dict[str, str | None] = {}
        self._wait_for_partitions()

    def _wait_for_partitions(self) -> None:
        """Describe groups until every partition of `__consumer_offsets` is served."""
        self._cluster.call_coordinators(
            [f"coterie-conformance-{number}" for number in range(_PROBED_GROUPS)],
            lambda groups: DescribeGroupsRequest(groups=groups),
            DescribeGroupsResponse,
            lambda answer: {group.group_id: (group.error_code, None) for group in answer.groups},
            highest=_DESCRIBE_WITHOUT_NOT_FOUND,
        )

    def topic_id(self, topic: str) -> bytes:
        """Return the id of a topic, which is created if it does not exist."""
        with self._lock:
            if topic not in self._topic_ids:
                self._topic_ids[topic] = self._created(topic)
            return self._topic_ids[topic]

    def _created(self, topic: str) -> bytes:
        new_topic = CreateTopicsRequestTopic(
            name=topic, num_partitions=_PARTITIONS, replication_factor=1
        )
        request = CreateTopicsRequest(
            topics=[new_topic], timeout_ms=_TIMEOUT_MS, validate_only=False
        )
        answer = self._cluster.call_any(request, CreateTopicsResponse)
        error = answer.topics[0].error_code
        if error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            raise TranscriptError(f"topic {topic} cannot be created: {ErrorCode(error).name}")
        end_s = time.monotonic() + _METADATA_LIMIT_S
        while time.monotonic() < end_s:
            described = self._cluster.metadata([topic]).topics[0]
            if not described.error_code and len(described.partitions) == _PARTITIONS:
                return described.topic_id
            time.sleep(0.05)
        raise TranscriptError(f"topic {topic} was created but does not appear")

    def delete_topic(self, topic: str) -> None:
        """Delete a topic and wait until the metadata no longer has it."""
        with self._lock:
            self._topic_ids.pop(topic, None)
            request = DeleteTopicsRequest(
                topics=[DeleteTopicsRequestTopic(name=topic)],
                topic_names=[topic],
                timeout_ms=_TIMEOUT_MS,
            )
            self._cluster.call_any(request, DeleteTopicsResponse)
            end_s = time.monotonic() + _METADATA_LIMIT_S
            while time.monotonic() < end_s:
                if self._cluster.metadata([topic]).topics[0].error_code:
                    return
                time.sleep(0.05)

    def serves(self, request_type: type[Message], version: int) -> bool:
        """Return whether the broker serves this version of a request."""
        with self._lock:
            connection = self._cluster.any_broker(Deadline(_METADATA_LIMIT_S))
        try:
            return connection.version_for(request_type, version) == version
        except VersionUnsupported:
            return False

    def setting(self, name: str) -> str | None:
        """Return the value of a broker setting; None if the broker does not report it."""
        with self._lock:
            if name not in self._settings:
                self._settings[name] = self._described(name)
            return self._settings[name]

    def _described(self, name: str) -> str | None:
        node = self._cluster.brokers()[0]
        resource = DescribeConfigsRequestResource(
            resource_type=_BROKER_RESOURCE,
            resource_name=str(node.node_id),
            configuration_keys=[name],
        )
        request = DescribeConfigsRequest(resources=[resource])
        answer = self._cluster.call_node(node, request, DescribeConfigsResponse)
        configs = answer.results[0].configs
        return configs[0].value if configs else None

    def close(self) -> None:
        """Close the connections."""
        self._cluster.close()
