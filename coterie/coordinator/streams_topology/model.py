"""What a topology becomes once its topics are known [streams-groups/validation]."""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple


class InvalidTopology(Exception):  # noqa: N818 - a refusal is an answer, not a failure of the server
    """A topology that no topic can make valid; it is answered with STREAMS_INVALID_TOPOLOGY.

    Attributes:
        message: Kafka's text.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class StatusCode(IntEnum):
    """Why a topology has no tasks, as Kafka numbers it in the status of a heartbeat's answer."""

    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3


class TopologyStatus(NamedTuple):
    """Why a topology has no tasks.

    Attributes:
        code: the reason.
        detail: Kafka's text.
    """

    code: StatusCode
    detail: str


class InternalTopic(NamedTuple):
    """A topic that the application needs and does not create itself.

    Attributes:
        name: its name.
        partitions: how many it has or shall have.
        replication_factor: as the topology specifies it; 0 or -1 is the broker's default.
        configs: its settings.
    """

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


class ConfiguredSubtopology(NamedTuple):
    """A subtopology with its tasks.

    Attributes:
        tasks: how many tasks it has, numbered from 0.
        source_topics: the topics that it reads and the application does not write.
        repartition_sources: the repartition topics that it reads, by name.
        changelogs: the changelog topics of its state, by name.
    """

    tasks: int
    source_topics: tuple[str, ...]
    repartition_sources: Mapping[str, InternalTopic]
    changelogs: Mapping[str, InternalTopic]

    @property
    def stateful(self) -> bool:
        """Return whether its tasks have state, so that a standby can keep a copy."""
        return bool(self.changelogs)


class ConfiguredTopology(NamedTuple):
    """A topology with its tasks, as far as the topics that exist allow.

    Attributes:
        epoch: that of the topology.
        subtopologies: by their ids in ascending order; empty with the statuses 1 and 2.
        internal_topics_to_create: the internal topics that do not exist; the replication factor is
            -1 for the broker's default.
        status: why there are no tasks; None if the topology is ready.
    """

    epoch: int
    subtopologies: Mapping[str, ConfiguredSubtopology]
    internal_topics_to_create: tuple[InternalTopic, ...]
    status: TopologyStatus | None

    @property
    def is_ready(self) -> bool:
        """Return whether the tasks can be assigned."""
        return self.status is None
