"""The topics of a Metadata response, encoded, and kept with each topic until it changes.

Clients ask for all topics every few minutes, and a broker may have thousands of them. An encoding
is valid for one version of the cluster's image and one of the request, with or without the
authorized operations.
"""

from collections.abc import Generator, Iterable
from typing import Any, cast

from coterie.protocol.authorized_operations import AUTHORIZED_OPERATIONS_OMITTED, TOPIC_OPERATIONS
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from coterie.protocol.spliced import EncodedArray, elements_encoder, splicing_encoder
from coterie.server.logs.partition import Partition, Topic
from coterie.server.services import Services

# How many encodings of a topic are kept. The clients of one broker use few versions.
_KEPT_IMAGES = 4
# How many partitions are encoded in one step: about a millisecond.
_PARTITIONS_A_STEP = 256


class TopicDescriptions:
    """The topics of one response."""

    def __init__(self, broker: Services, version: int, *, with_operations: bool) -> None:
        """Start without topics.

        Args:
            broker: the broker.
            version: the version of the request.
            with_operations: whether the authorized operations are returned.
        """
        self._topics = broker.topics
        self._image = broker.image
        self._format = self._image.version, version, with_operations
        self._operations = TOPIC_OPERATIONS if with_operations else AUTHORIZED_OPERATIONS_OMITTED
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
        by_name = self._topics.by_name
        for number, topic in enumerate(topics):
            if by_name.get(topic.name) is topic:
                image = topic.images.get(self._format)
                if image is not None:
                    self._array.add(image)
                    if number % _PARTITIONS_A_STEP == 0:
                        yield
                else:
                    yield from self.add(topic)
                    yield

    def add(self, topic: Topic) -> Generator[None, None, None]:
        """Add a topic, in steps if it has many partitions."""
        image = topic.images.get(self._format)
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
                topic_authorized_operations=self._operations,
            )
        )
        self._array.add(image)
        if topic.images is before:
            if len(before) >= _KEPT_IMAGES:
                before.clear()
            before[self._format] = image

    def add_error(
        self, name: str | None, topic_id: bytes, error: ErrorCode, *, is_internal: bool = False
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
