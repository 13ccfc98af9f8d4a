"""Conversations with groups of Coterie and of a running Kafka: answers and records compared.

What consumer groups and streams groups have in common. Both brokers have the same topic ids and
member ids, so that answers and records are equal.
"""

import socket
import time
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Iterator, Mapping
from itertools import zip_longest
from typing import Any, Protocol
from uuid import UUID, uuid4

from coterie.address import Address
from coterie.protocol.errors import ErrorCode
from coterie.protocol.java_hash import partition_for
from coterie.protocol.messages.consumer_group_records import CurrentTopicPartitions
from coterie.protocol.messages.consumer_protocol import decode_assignment
from coterie.protocol.messages.create_partitions import CreatePartitionsRequest
from coterie.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from coterie.protocol.messages.delete_topics import DeleteTopicsRequest
from coterie.protocol.messages.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.incremental_alter_configs import (
    SET,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from coterie.protocol.messages.join_group import JoinGroupRequest
from coterie.protocol.messages.log_records import GROUP_RECORDS
from coterie.protocol.messages.metadata import MetadataRequest
from coterie.protocol.messages.streams_group_records import (
    CurrentTasks,
    StreamsGroupMetadataValue,
)
from coterie.protocol.record_batch import read_header
from coterie.protocol.record_batch_layout import CONTROL
from coterie.protocol.records import decode_records
from coterie.protocol.schema import fields_of
from coterie.protocol.topic_names import OFFSETS_TOPIC
from coterie.protocol.wire import Struct
from coterie.server.config.keys import GROUP_RESOURCE
from tests.compared.transactions.__main__ import differences
from tests.compared.transactions.plain_values import batches
from tests.unit.server.running import RunningBroker, SocketClient

_PARTITIONS = 50
_TIMEOUT_S = 20
_LIMIT_BYTES = 1 << 24
SETTINGS = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": str(_PARTITIONS),
}
_NOW_SINCE_MS = time.time_ns() // 1_000_000 - 600_000
# The version of a resolved regular expression is that of the metadata of a broker.
_DELAYED = frozenset({"throttle_time_ms", "version"})
# An answer that comes later is not waited for longer.
_PATIENCE_S = 0.4
_PROPAGATION_S = 0.6
_CREATION_S = 0.1
_RESOLUTION_S = 0.3
_UUID_LENGTH = 36
_ID_LENGTH = 22
# Lists that have no order of their own.
_SETS = (
    *("assigned_partitions", "partitions_pending_revocation", "topic_partitions", "partitions"),
    *("initializing_topics", "initialized_topics", "deleting_topics"),
    *("subscribed_topic_names", "topics", "active_tasks", "standby_tasks", "warmup_tasks"),
    *("active_tasks_pending_revocation", "standby_tasks_pending_revocation"),
    *("partitions_by_user_endpoint", "active_partitions", "standby_partitions"),
)
_MISSING_INTERNAL_TOPICS = 3
# After these a coordinator has to learn of something.
_SPREAD = (
    CreateTopicsRequest,
    CreatePartitionsRequest,
    DeleteTopicsRequest,
    IncrementalAlterConfigsRequest,
)


class HasTopics(Protocol):
    """A conversation that knows the ids of its topics by name."""

    topic_ids: dict[str, bytes]


class GroupConversation(HasTopics, Protocol):
    """The requests of one conversation, one after the other.

    Attributes:
        name: the beginning of all names in it.
        groups: the groups.
        topics: the topics that exist at its start, with their partitions.
        topic_ids: the ids of the topics, by name.
        settings: those of single groups.
    """

    name: str
    groups: tuple[str, ...]
    topics: dict[str, int]
    settings: dict[str, dict[str, str]]

    def requests(self) -> Iterator[tuple[Any, int]]:
        """Yield each request with its version."""
        ...

    def learn(self, request: Any, answer: Any) -> None:
        """Learn from an answer of Kafka."""
        ...


class Side:
    """The connection to one broker."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.client = self._connect()

    def _connect(self) -> SocketClient:
        return SocketClient(socket.create_connection(self._address, timeout=_TIMEOUT_S))

    def call(self, request: Any, version: int) -> Any:
        """Return an answer; None if there is none for some time."""
        if isinstance(request, JoinGroupRequest) or type(request).__name__ == "SyncGroupRequest":
            self.client.socket.settimeout(_PATIENCE_S)
        try:
            return self.client.call(request, version)
        except TimeoutError:
            self.client.socket.close()
            self.client = self._connect()
            return None
        finally:
            self.client.socket.settimeout(_TIMEOUT_S)


def plain(value: Any, name: str = "") -> Any:
    """Return an answer as plain values."""
    if isinstance(value, Struct):
        fields: dict[str, Any] = {
            field.name: plain(getattr(value, field.name), field.name)
            for field in fields_of(type(value))
            if field.name not in _DELAYED
        }
        epochs = fields.get("assignment_epochs")
        if isinstance(value, CurrentTopicPartitions | CurrentTasks) and epochs is not None:
            pairs = sorted(zip(value.partitions, epochs, strict=True))
            fields["partitions"] = [index for index, _ in pairs]
            fields["assignment_epochs"] = [epoch for _, epoch in pairs]
        return fields
    if isinstance(value, list):
        found = [plain(each) for each in value]
        if name == "assignment_epochs":
            return found
        if name in _SETS:
            found.sort(key=str)
        return found
    if name == "assignment" and isinstance(value, bytes) and value:
        return plain(decode_assignment(value).assigned_partitions, "topics")
    if isinstance(value, int) and name != "metadata_hash" and value > _NOW_SINCE_MS:
        return "now"
    return value


def give_id(broker: RunningBroker, answer: Any) -> None:
    """Let our broker make up the member id that Kafka has made up."""
    member_id = getattr(answer, "member_id", None) or ""
    if len(member_id) < _ID_LENGTH:
        return
    text = member_id[-_UUID_LENGTH:]
    if len(member_id) == _ID_LENGTH:
        text = str(UUID(bytes=urlsafe_b64decode(f"{member_id}==")))
    for shard in broker.broker.coordinator.shards:
        shard.new_uuid = lambda: text


def give_topic_ids(broker: RunningBroker, conversation: HasTopics, answer: Any) -> None:
    """Let our broker make up the ids of topics that Kafka has made up."""
    for each in answer.topics:
        assert not each.error_code, each
        conversation.topic_ids[each.name] = each.topic_id
    left = [each.topic_id for each in answer.topics]
    # Internal topics of streams groups have ids of their own.
    broker.broker.environment.new_topic_id = (  # type: ignore[method-assign]
        lambda: left.pop(0) if left else uuid4().bytes
    )


def records(side: Side, group: str) -> Iterator[tuple[str, Any]]:
    """Yield the records of a group, batch by batch; those of one key type of a batch are sorted."""
    number, offset = partition_for(group, _PARTITIONS), 0
    hashes: dict[int, int] = {}
    while True:
        asked = FetchRequestPartition(
            partition=number, fetch_offset=offset, partition_max_bytes=_LIMIT_BYTES
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=_LIMIT_BYTES,
            topics=[FetchRequestTopic(topic=OFFSETS_TOPIC, partitions=[asked])],
        )
        answer = side.call(request, 11).responses[0].partitions[0]
        assert not answer.error_code, answer
        for batch in batches(answer.records or b""):
            header = read_header(batch, 0)
            offset = header.base_offset + header.last_offset_delta + 1
            if header.attributes & CONTROL:
                continue
            found = []
            for record in decode_records(batch, header, 0):
                assert record.key is not None
                key = GROUP_RECORDS.decode_key(record.key)
                plain_key = plain(key)
                if group not in plain_key.values():
                    continue
                value = GROUP_RECORDS.decode_value(key, record.value)  # type: ignore[arg-type]
                if isinstance(value, StreamsGroupMetadataValue):
                    # Internal topics have other ids: it matters when the hash changes.
                    value.metadata_hash = hashes.setdefault(value.metadata_hash, len(hashes))
                found.append((type(key).__name__, str(plain_key), plain(value)))
            run: list[tuple[str, str, Any]] = []
            for each in found:
                if run and run[-1][0] != each[0]:
                    yield from ((f"{k} {i}", v) for k, i, v in sorted(run, key=str))
                    run = []
                run.append(each)
            yield from ((f"{k} {i}", v) for k, i, v in sorted(run, key=str))
        if offset >= answer.high_watermark:
            return


def _answers(
    conversation: GroupConversation,
    sides: list[Side],
    broker: RunningBroker,
    request: Any,
    version: int,
) -> tuple[Any, Any]:
    """Send a request to both brokers, and wait for what follows from it in the background."""
    kafka = sides[0].call(request, version)
    give_id(broker, kafka)
    if isinstance(request, CreateTopicsRequest):
        give_topic_ids(broker, conversation, kafka)
    ours = sides[1].call(request, version)
    if getattr(request, "subscribed_topic_regex", None):
        time.sleep(_RESOLUTION_S)
    statuses = getattr(kafka, "status", None) or ()
    creates = any(each.status_code == _MISSING_INTERNAL_TOPICS for each in statuses)
    if creates:
        _wait_for_topics(conversation.name, sides)
    if creates or isinstance(request, _SPREAD):
        time.sleep(_PROPAGATION_S)
    return kafka, ours


def _wait_for_topics(name: str, sides: list[Side]) -> None:
    """Wait until both brokers have the same topics: they create some after an answer."""
    give_up_s = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < give_up_s:
        # Ours creates them a little later than it answers.
        time.sleep(_CREATION_S)
        one, other = (
            {
                topic.name
                for topic in side.call(MetadataRequest(topics=None), 9).topics
                if (topic.name or "").startswith(name)
            }
            for side in sides
        )
        if one == other:
            return


def compare(
    conversation: GroupConversation,
    sides: list[Side],
    broker: RunningBroker,
    *,
    verbose: bool,
    shown: int,
) -> tuple[int, int]:
    """Have one conversation with both brokers; return the numbers of requests and differences."""
    count = found = 0
    history = []
    for request, version in conversation.requests():
        count += 1
        kafka, ours = _answers(conversation, sides, broker, request, version)
        if kafka is not None:
            conversation.learn(request, kafka)
        left, right = plain(kafka), plain(ours)
        if type(request).__name__ in (
            "ConsumerGroupDescribeRequest",
            "StreamsGroupDescribeRequest",
        ):
            # Kafka answers as the partitions of the groups do.
            for each in (left, right):
                each["groups"].sort(key=lambda group: str(group["group_id"]))
        if type(request).__name__ == "ListGroupsRequest":
            for each in (left, right):
                each["groups"] = sorted(
                    (g for g in each["groups"] if g["group_id"].startswith(conversation.name)),
                    key=str,
                )
        history.append(f"{count} v{version} {request}\n        {left}")
        different = list(differences(left, right))
        if different:
            found += 1
            if found <= shown:
                if verbose:
                    print("\n".join(history[-30:-1]))
                print(f"{conversation.name} {count} v{version} {request}")
                print("".join(f"    {line}\n" for line in different[:6]), end="", flush=True)
            # What follows would differ, too.
            if verbose:
                for group in conversation.groups:
                    _compare_records(group, sides, [])
            return count, found
    for group in conversation.groups:
        told = [each for each in history if group in each] if verbose else []
        found += _compare_records(group, sides, told)
    return count, found


def _compare_records(group: str, sides: list[Side], history: list[str]) -> int:
    """Compare what both brokers have stored of a group; return the number of differences."""
    kafka_records, our_records = (list(records(side, group)) for side in sides)
    both = zip_longest(kafka_records, our_records)
    at = next((index for index, (one, other) in enumerate(both) if one != other), None)
    if at is None:
        return 0
    print("\n".join(history))
    print(f"record {at} of {group}")
    for name, found in (("Kafka", kafka_records), ("Coterie", our_records)):
        for each in found[max(0, at - 3) : at + 3]:
            print(f"    {name:8}{each}")
    return 1


def prepare(sides: list[Side], broker: RunningBroker, conversation: GroupConversation) -> None:
    """Create the topics with the same ids, and give groups their settings."""
    kafka, ours = sides
    request = CreateTopicsRequest(
        topics=[
            CreateTopicsRequestTopic(name=name, num_partitions=count, replication_factor=1)
            for name, count in conversation.topics.items()
        ],
        timeout_ms=10_000,
    )
    answer = kafka.call(request, 7)
    give_topic_ids(broker, conversation, answer)
    answer = ours.call(request, 7)
    for each in answer.topics:
        assert conversation.topic_ids[each.name] == each.topic_id, each
    for side in sides:
        altered = side.call(group_settings(conversation.settings), 1)
        assert not any(each.error_code for each in altered.responses), altered
    # The coordinator of Kafka learns of topics a little later than their creation is answered.
    time.sleep(_PROPAGATION_S)


def group_settings(settings: Mapping[str, Mapping[str, str]]) -> IncrementalAlterConfigsRequest:
    """Return the request that gives groups settings."""
    resources = [
        IncrementalAlterConfigsRequestResource(
            resource_type=GROUP_RESOURCE,
            resource_name=group,
            configs=[
                IncrementalAlterConfigsRequestConfig(name=name, config_operation=SET, value=value)
                for name, value in values.items()
            ],
        )
        for group, values in settings.items()
    ]
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=False)


def converse(
    kafka: Address,
    settings: Mapping[str, str],
    conversations: Iterable[GroupConversation],
    *,
    verbose: bool,
    shown: int,
) -> int:
    """Have conversations with a Kafka and with a broker of ours; return how many answers differ.

    Args:
        kafka: its address.
        settings: those of ours, which Kafka must have as well.
        conversations: each with a name of its own.
        verbose: whether what was said before a difference is printed.
        shown: how many differences of a conversation are printed.
    """
    requests = found = 0
    with RunningBroker({**SETTINGS, **settings}) as broker:
        sides = [Side(kafka), Side(broker.address)]
        for side in sides:
            find = FindCoordinatorRequest(key="any", key_type=0)
            while side.call(find, 3).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                time.sleep(0.05)
        for conversation in conversations:
            prepare(sides, broker, conversation)
            asked, different = compare(conversation, sides, broker, verbose=verbose, shown=shown)
            requests, found = requests + asked, found + different
    print(f"{requests} requests, {found} answers differ")
    return found
