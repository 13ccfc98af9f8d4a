"""The topics of a Metadata response, encoded, and kept with each topic until it changes.

Clients ask for all topics every few minutes, and a broker may have thousands of them. An encoding
is valid for one version of the cluster's image and one of the request, and for the authorized
operations.
"""

from collections.abc import Generator, Iterable
from typing import Any, cast

from coterie.protocol.authorized_operations import (
    AUTHORIZED_OPERATIONS_OMITTED,
    CLUSTER_OPERATIONS,
    TOPIC_OPERATIONS,
)
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from coterie.protocol.spliced import EncodedArray, elements_encoder, splicing_encoder
from coterie.protocol.wire import ZERO_UUID
from coterie.server.logs.partition import Partition, Topic
from coterie.server.services import Services

# How many encodings of a topic are kept. The clients of one broker use few versions.
_KEPT_IMAGES = 4
# How many partitions are encoded in one step: about a millisecond.
_PARTITIONS_A_STEP = 256


class Visibility:
    """What the client of a Metadata request may see and create: everything."""

    def may_list(self, _name: str) -> bool:
        """Return whether a topic is listed among all topics."""
        return True

    def may_describe(self, _name: str) -> bool:
        """Return whether a topic that was asked for is described."""
        return True

    def may_create(self, _name: str) -> bool:
        """Return whether a topic that does not exist may be created."""
        return True

    def topic_operations(self, _name: str) -> int:
        """Return the authorized operations of a topic."""
        return TOPIC_OPERATIONS

    def cluster_operations(self) -> int:
        """Return the authorized operations of the cluster."""
        return CLUSTER_OPERATIONS


EVERYTHING = Visibility()


class TopicDescriptions:
    """The topics of one response."""

    def __init__(
        self,
        broker: Services,
        version: int,
        visibility: Visibility = EVERYTHING,
        *,
        with_operations: bool,
    ) -> None:
        """Start without topics.

        Args:
            broker: the broker.
            version: the version of the request.
            visibility: what the client may see.
            with_operations: whether the authorized operations are returned.
        """
        self._topics = broker.topics
        self._image = broker.image
        self._version = version
        self._visibility = visibility
        self._with_operations = with_operations
        self._array = EncodedArray()
        self._encode_partitions = elements_encoder(
            MetadataResponse, version, MetadataResponseTopic, "partitions"
        )
        self._encode_topic = splicing_encoder(
            MetadataResponse, version, MetadataResponseTopic, "partitions"
        )

    @property
    def encoded(self) -> list[MetadataResponseTopic]:
        """The topics for the response, which the route of Metadata splices."""
        return cast("list[MetadataResponseTopic]", self._array)

    def add_all(self, topics: Iterable[Topic]) -> Generator[None, None, None]:
        """Add topics that exist, in steps."""
        by_name, may_list = self._topics.by_name, self._visibility.may_list
        for number, topic in enumerate(topics):
            if by_name.get(topic.name) is topic and may_list(topic.name):
                image = topic.images.get(self._format(topic.name))
                if image is not None:
                    self._array.add(image)
                    if number % _PARTITIONS_A_STEP == 0:
                        yield
                else:
                    yield from self.add(topic)
                    yield

    def add(self, topic: Topic) -> Generator[None, None, None]:
        """Add a topic, in steps if it has many partitions."""
        key = self._format(topic.name)
        image = topic.images.get(key)
        if image is not None:
            self._array.add(image)
            return
        partitions = EncodedArray()
        before = topic.images
        for first in range(0, len(topic.partitions), _PARTITIONS_A_STEP):
            if first:
                yield
            part = topic.partitions[first : first + _PARTITIONS_A_STEP]
            described = [self._partition(each) for each in part]
            partitions.add(self._encode_partitions(described), len(part))
        image = self._encode_topic(
            MetadataResponseTopic(
                error_code=ErrorCode.NONE,
                name=topic.name,
                topic_id=topic.topic_id,
                is_internal=topic.is_internal,
                partitions=cast("Any", partitions),
                topic_authorized_operations=key[2],
            )
        )
        self._array.add(image)
        if topic.images is before:
            if len(before) >= _KEPT_IMAGES:
                before.clear()
            before[key] = image

    def _format(self, name: str) -> tuple[int, int, int]:
        """Return what the encoding of a topic depends on, besides the topic."""
        return self._image.version, self._version, self._operations(name)

    def _operations(self, name: str) -> int:
        if not self._with_operations:
            return AUTHORIZED_OPERATIONS_OMITTED
        return self._visibility.topic_operations(name)

    def add_missing(self, name: str, error: ErrorCode, *, is_internal: bool) -> None:
        """Add the error for a topic that does not exist; what may be done to it is shown."""
        operations = self._operations(name)
        self.add_error(name, ZERO_UUID, error, is_internal=is_internal, operations=operations)

    def add_error(
        self,
        name: str | None,
        topic_id: bytes,
        error: ErrorCode,
        *,
        is_internal: bool = False,
        operations: int = AUTHORIZED_OPERATIONS_OMITTED,
    ) -> None:
        """Add the error for a topic that does not exist or is not described."""
        self._array.add(
            self._encode_topic(
                MetadataResponseTopic(
                    error_code=error,
                    name=name,
                    topic_id=topic_id,
                    is_internal=is_internal,
                    partitions=cast("Any", EncodedArray()),
                    topic_authorized_operations=operations,
                )
            )
        )

    def _partition(self, partition: Partition) -> MetadataResponsePartition:
        """Describe a partition."""
        where = self._image.placement(partition)
        online = where.leader_id >= 0
        return MetadataResponsePartition(
            error_code=ErrorCode.NONE if online else ErrorCode.LEADER_NOT_AVAILABLE,
            partition_index=partition.index,
            leader_id=where.leader_id,
            leader_epoch=where.leader_epoch,
            replica_nodes=where.replicas,
            isr_nodes=where.isr,
            offline_replicas=where.offline,
        )
