"""The broker under check: what it serves, how it is set, and the topics that checks need.

Administration goes over one connection, on which any number of requests may be under way.
"""

import asyncio
import struct
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from coterie.address import Address
from coterie.client.security import PLAINTEXT, Security
from coterie.conformance.over_tcp.connection import Arrival, CheckConnection, Inbox, RefusedError
from coterie.conformance.over_tcp.group_settings import GroupSettings
from coterie.conformance.over_tcp.secured import Secured, read_secured
from coterie.conformance.transcript import ResponseError
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.frames import decode_response, encode_request
from coterie.protocol.java_hash import partition_for
from coterie.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsRequestAssignment,
    CreatePartitionsRequestTopic,
    CreatePartitionsResponse,
)
from coterie.protocol.messages.create_topics import (
    CreateTopicsRequest,
    CreateTopicsRequestAssignment,
    CreateTopicsRequestConfig,
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
from coterie.protocol.messages.describe_groups import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from coterie.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from coterie.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
)
from coterie.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from coterie.protocol.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from coterie.protocol.wire import Message

M = TypeVar("M", bound=Message)

CLIENT_ID = "coterie-check"
VERSION_OF_CLIENT = "1"
TRANSACTION_LEVEL = "transaction.version"
GROUP_LEVEL = "group.version"
# How long one answer of the broker may take, and how long a change may take to be seen.
ANSWER_LIMIT_S = 15.0
_POLL_S = 0.02
# So many groups are in nearly all of the 50 partitions that brokers have by default.
_PROBES = 200
_NOT_LOADED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
# Requests that create topics at once: old brokers need a quarter of a second for each topic, and
# answer a hundred requests later than a client waits.
_CREATIONS_AT_ONCE = 8
_BROKER_RESOURCE = 4
# The time that stands for the end of a log, and the newest version that all brokers have.
_END = -1
_LIST_OFFSETS_VERSION = 5
_TRANSACTION = 1
# By the setting of the broker: the setting of a topic, and Kafka's default. Checks of records rely
# on these.
_TOPIC_DEFAULTS = {
    "compression.type": ("compression.type", "producer"),
    "log.cleanup.policy": ("cleanup.policy", "delete"),
    "log.message.timestamp.type": ("message.timestamp.type", "CreateTime"),
    "log.message.timestamp.after.max.ms": ("message.timestamp.after.max.ms", "3600000"),
    "log.message.timestamp.before.max.ms": (
        "message.timestamp.before.max.ms",
        "9223372036854775807",
    ),
    "message.max.bytes": ("max.message.bytes", "1048588"),
}


class TopicSpec(NamedTuple):
    """A topic that a check needs.

    Attributes:
        name: on the broker.
        partitions: how many.
        configs: its settings.
        replicas: of each partition, if there are several brokers.
    """

    name: str
    partitions: int = 1
    configs: tuple[tuple[str, str], ...] = ()
    replicas: int = 1


class Target:
    """One broker, at one address.

    Attributes:
        address: where it listens.
        security: how connections to it are secured.
        node_id: its number in the cluster; -1 if the cluster's list does not have the address.
        versions: the first and the last version of each API that it announces.
        settings: its settings by name; empty if it does not report them. The levels of the features
            `transaction.version` and `group.version` are among them; a broker that does not report
            one has 0.
        cluster: its brokers, by node id.
        secured: what it offers besides, if `security` has a login; else None.
    """

    def __init__(self, address: Address, security: Security = PLAINTEXT) -> None:
        """Describe a broker; `open` connects."""
        self.address = address
        self.security = security
        self.node_id = -1
        self.versions: dict[int, tuple[int, int]] = {}
        self.settings: dict[str, str] = {}
        self.cluster: dict[int, Address] = {}
        self.secured: Secured | None = None
        self._inbox: Inbox = asyncio.Queue()
        self._connection: CheckConnection | None = None
        self._numbers = 0
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._reader: asyncio.Task[None] | None = None
        self._creations = asyncio.Semaphore(_CREATIONS_AT_ONCE)
        self.group_settings = GroupSettings(self)
        # The leader of each partition of the coordinators' topics; none with a single broker.
        self._coordinators: dict[str, list[int]] = {}

    # -- requests ----------------------------------------------------------------------------------

    async def open(self) -> None:
        """Connect, and ask for versions, brokers and settings.

        Raises:
            OSError, TimeoutError, ValueError: nothing like a Kafka broker answers.
        """
        async with asyncio.timeout(ANSWER_LIMIT_S):
            self._connection = await CheckConnection.open(
                CLIENT_ID, self.address, self._inbox, self.security
            )
        self._reader = asyncio.create_task(self._read())
        served = await self.call(ApiVersionsRequest(), ApiVersionsResponse, 0)
        self.versions = {
            each.api_key: (each.min_version, each.max_version) for each in served.api_keys
        }
        described = await self.call(MetadataRequest(topics=[]), MetadataResponse, 1)
        self.cluster = {each.node_id: Address(each.host, each.port) for each in described.brokers}
        same = [node for node, address in self.cluster.items() if address == self.address]
        alone = list(self.cluster) if len(self.cluster) == 1 else []
        self.node_id = (same or alone or [-1])[0]
        await self._read_settings()
        await self._read_features()
        if self.security.mechanism:
            self.secured = await read_secured(self)
        if len(self.cluster) > 1:
            await self._read_coordinators()

    async def _read(self) -> None:
        while True:
            arrival: Arrival = await self._inbox.get()
            if arrival.frame is None:
                for waiting in self._waiting.values():
                    if not waiting.done():
                        waiting.set_exception(ConnectionError("the broker closed the connection"))
                self._waiting.clear()
                return
            (number,) = struct.unpack_from(">i", arrival.frame)
            answered = self._waiting.pop(number, None)
            if answered is not None and not answered.done():
                answered.set_result(arrival.frame)

    async def call(self, request: Message, response: type[M], highest: int = 32767) -> M:
        """Return the response to a request, in the highest version that both sides have.

        Raises:
            RefusedError: the broker does not serve the API.
            ConnectionError, TimeoutError: it closed the connection or did not answer in time.
        """
        version = self._version(request, highest)
        if self._connection is None or not self._connection.is_open:
            await self._reopen()
        assert self._connection is not None
        self._numbers += 1
        number = self._numbers
        answered: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answered
        self._connection.send(encode_request(request, version, number, CLIENT_ID))
        try:
            async with asyncio.timeout(ANSWER_LIMIT_S):
                frame = await answered
        finally:
            self._waiting.pop(number, None)
        return decode_response(response, frame, version)[1]

    async def _reopen(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
        self._inbox = asyncio.Queue()
        self._connection = await CheckConnection.open(
            CLIENT_ID, self.address, self._inbox, self.security
        )
        self._reader = asyncio.create_task(self._read())

    def _version(self, request: Message, highest: int) -> int:
        assert request.api_key is not None, request
        low, high = type(request).versions
        if not self.versions:
            return min(high, highest)
        first, last = self.versions.get(request.api_key, (0, -1))
        version = min(high, highest, last)
        if version < max(low, first):
            name = ApiKey(request.api_key).kafka_name
            raise RefusedError(f"the broker does not serve {name} {low} to {min(high, highest)}")
        return version

    def serves(self, api: ApiKey, version: int) -> bool:
        """Return whether the broker announces a version of an API."""
        first, last = self.versions.get(api, (0, -1))
        return first <= version <= last

    async def close(self) -> None:
        """Close the connection."""
        if self._reader is not None:
            self._reader.cancel()
        if self._connection is not None:
            self._connection.close()

    # -- the cluster -------------------------------------------------------------------------------

    async def _read_settings(self) -> None:
        """Read the settings; a broker that does not report them keeps an empty list."""
        node = self.node_id if self.node_id >= 0 else next(iter(self.cluster), 0)
        resource = DescribeConfigsRequestResource(
            resource_type=_BROKER_RESOURCE, resource_name=str(node), configuration_keys=None
        )
        try:
            answer = await self.call(
                DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse
            )
        except RefusedError:
            return
        for result in answer.results:
            for config in result.configs:
                if config.value is not None:
                    self.settings[config.name] = config.value

    async def _read_features(self) -> None:
        """Read the levels of the transaction protocol, where a request states none, and groups."""
        request = ApiVersionsRequest(
            client_software_name=CLIENT_ID, client_software_version=VERSION_OF_CLIENT
        )
        served = await self.call(request, ApiVersionsResponse)
        levels = {each.name: each.max_version_level for each in served.finalized_features}
        for name in (TRANSACTION_LEVEL, GROUP_LEVEL):
            self.settings[name] = str(levels.get(name, 0))

    async def _read_coordinators(self) -> None:
        """Learn which broker of a cluster coordinates which groups and transactional ids."""
        self._coordinators.clear()
        for name in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            described = await self.topic(name)
            leaders = {each.partition_index: each.leader_id for each in described.partitions}
            if leaders:
                self._coordinators[name] = [leaders[index] for index in sorted(leaders)]

    def coordinates(self, group_id: str) -> bool:
        """Return whether this broker coordinates a group."""
        return self._is_led_here(OFFSETS_TOPIC, group_id)

    def has_transactions(self, transactional_id: str) -> bool:
        """Return whether this broker coordinates a transactional id."""
        return self._is_led_here(TRANSACTIONS_TOPIC, transactional_id)

    def is_elsewhere(self, name: str) -> bool:
        """Return whether other brokers coordinate both the group and the id of a name."""
        return not (self.coordinates(name) or self.has_transactions(name))

    def _is_led_here(self, topic: str, key: str) -> bool:
        leaders = self._coordinators.get(topic)
        return leaders is None or leaders[partition_for(key, len(leaders))] == self.node_id

    async def wait_for_coordinator(self, group_id: str) -> str:
        """Wait until the coordinator of groups is in service; return the error that stays."""
        error = ""
        for _ in range(int(ANSWER_LIMIT_S / _POLL_S / 10)):
            request = FindCoordinatorRequest(key=group_id, coordinator_keys=[group_id])
            answer = await self.call(request, FindCoordinatorResponse)
            code = answer.coordinators[0].error_code if answer.coordinators else answer.error_code
            if code == ErrorCode.NONE and await self._has_loaded(group_id):
                if len(self.cluster) > 1:
                    await self._wait_for_transactions(group_id)
                    await self._read_coordinators()
                return ""
            error = "" if code == ErrorCode.NONE else ErrorCode(code).name
            if code not in (ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE):
                return error
            await asyncio.sleep(_POLL_S * 10)
        return error

    async def _wait_for_transactions(self, key: str) -> None:
        """Wait until the topic of the transaction coordinators exists, if the broker has one."""
        if not self.serves(ApiKey.FIND_COORDINATOR, 1):
            return
        request = FindCoordinatorRequest(key=key, coordinator_keys=[key], key_type=_TRANSACTION)
        for _ in range(int(ANSWER_LIMIT_S / _POLL_S / 10)):
            answer = await self.call(request, FindCoordinatorResponse)
            found = answer.coordinators[0] if answer.coordinators else answer
            if found.error_code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
                return
            await asyncio.sleep(_POLL_S * 10)

    async def _has_loaded(self, group_id: str) -> bool:
        """Return whether the partitions of the coordinator are in service, as far as is seen.

        A broker that has just created the topic of its groups names itself a little before. In a
        cluster other brokers have some of the partitions.
        """
        if len(self.cluster) > 1 or not self.serves(ApiKey.DESCRIBE_GROUPS, 0):
            return True
        groups = [f"{group_id}{number}" for number in range(_PROBES)]
        answer = await self.call(DescribeGroupsRequest(groups=groups), DescribeGroupsResponse, 5)
        return all(each.error_code not in _NOT_LOADED for each in answer.groups)

    # -- topics ------------------------------------------------------------------------------------

    async def topic(self, name: str) -> MetadataResponseTopic:
        """Return what the broker says about one topic."""
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False
        )
        return (await self.call(request, MetadataResponse)).topics[0]

    async def create_topics(self, specs: Sequence[TopicSpec]) -> dict[str, bytes]:
        """Create topics, wait until they can be used, and return their ids.

        Raises:
            RefusedError: the broker does not create one of them.
        """
        request = CreateTopicsRequest(
            topics=[self._new_topic(spec) for spec in specs],
            timeout_ms=int(ANSWER_LIMIT_S * 1000),
            validate_only=False,
        )
        async with self._creations:
            answer = await self.call(request, CreateTopicsResponse)
            for each in answer.topics:
                if each.error_code != ErrorCode.NONE:
                    error = ErrorCode(each.error_code).name
                    raise RefusedError(f"the broker refuses to create topics: {error}")
            return {spec.name: await self._wait_for_topic(spec) for spec in specs}

    def _new_topic(self, spec: TopicSpec) -> CreateTopicsRequestTopic:
        texts = self._kafkas_defaults() | dict(spec.configs)
        configs = [CreateTopicsRequestConfig(name=name, value=text) for name, text in texts.items()]
        if len(self.cluster) > 1 and self.node_id >= 0:
            # The broker under check shall lead every partition.
            others = [node for node in self.cluster if node != self.node_id]
            replicas = [self.node_id, *others][: spec.replicas]
            assignments = [
                CreateTopicsRequestAssignment(partition_index=index, broker_ids=replicas)
                for index in range(spec.partitions)
            ]
            return CreateTopicsRequestTopic(
                name=spec.name, num_partitions=-1, replication_factor=-1,
                assignments=assignments, configs=configs,
            )  # fmt: skip
        return CreateTopicsRequestTopic(
            name=spec.name, num_partitions=spec.partitions, replication_factor=1, configs=configs
        )

    def _kafkas_defaults(self) -> dict[str, str]:
        """Return the settings of topics for which this broker has another default than Kafka."""
        return {
            name: default
            for setting, (name, default) in _TOPIC_DEFAULTS.items()
            if self.settings.get(setting, default) != default
        }

    async def _wait_for_topic(self, spec: TopicSpec) -> bytes:
        for _ in range(int(ANSWER_LIMIT_S / _POLL_S)):
            described = await self.topic(spec.name)
            if (
                described.error_code == ErrorCode.NONE
                and len(described.partitions) == spec.partitions
                and all(each.leader_id >= 0 for each in described.partitions)
                and await self._has_logs(spec)
            ):
                return described.topic_id
            await asyncio.sleep(_POLL_S)
        raise ResponseError(f"topic {spec.name} was created but does not appear")

    async def _has_logs(self, spec: TopicSpec) -> bool:
        """Return whether the partitions are in use; a broker may list a topic a little earlier."""
        partitions = [
            ListOffsetsRequestPartition(partition_index=index, timestamp=_END)
            for index in range(spec.partitions)
        ]
        topic = ListOffsetsRequestTopic(name=spec.name, partitions=partitions)
        request = ListOffsetsRequest(replica_id=-1, topics=[topic])
        answer = await self.call(request, ListOffsetsResponse, _LIST_OFFSETS_VERSION)
        errors = {each.error_code for found in answer.topics for each in found.partitions}
        return errors == {ErrorCode.NONE}

    async def grow_topic(self, spec: TopicSpec) -> None:
        """Give a topic more partitions, and wait until they can be used."""
        assignments = None
        if len(self.cluster) > 1 and self.node_id >= 0:
            present = len((await self.topic(spec.name)).partitions)
            here = CreatePartitionsRequestAssignment(broker_ids=[self.node_id])
            assignments = [here] * (spec.partitions - present)
        topic = CreatePartitionsRequestTopic(
            name=spec.name, count=spec.partitions, assignments=assignments
        )
        request = CreatePartitionsRequest(
            topics=[topic], timeout_ms=int(ANSWER_LIMIT_S * 1000), validate_only=False
        )
        answer = await self.call(request, CreatePartitionsResponse)
        error = ErrorCode(answer.results[0].error_code)
        if error is not ErrorCode.NONE:
            raise RefusedError(f"the broker refuses to create partitions: {error.name}")
        await self._wait_for_topic(spec)

    async def delete_topics(self, names: Sequence[str]) -> dict[str, int]:
        """Delete topics and return the error of each."""
        request = DeleteTopicsRequest(
            topics=[DeleteTopicsRequestTopic(name=name) for name in names],
            topic_names=list(names),
            timeout_ms=int(ANSWER_LIMIT_S * 1000),
        )
        answer = await self.call(request, DeleteTopicsResponse)
        return {each.name or "": each.error_code for each in answer.responses}

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until the broker has forgotten it."""
        await self.delete_topics([name])
        for _ in range(int(ANSWER_LIMIT_S / _POLL_S)):
            if (await self.topic(name)).error_code != ErrorCode.NONE:
                return
            await asyncio.sleep(_POLL_S)
