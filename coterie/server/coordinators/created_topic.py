"""The runtime of a coordinator whose topic is created when it is needed first.

Without the topic the coordinator has no partition, and every request gets NOT_COORDINATOR.
"""

from abc import abstractmethod
from typing import Any

from coterie.coordinator.kernel.partitions import Partitions
from coterie.server.controller import Controller
from coterie.server.coordinators.host import Host
from coterie.server.coordinators.runtime import CoordinatorRuntime
from coterie.server.logs.partition import Partition
from coterie.server.metadata.topic_changes import Change
from coterie.server.metadata.topic_rules import TopicRefused


class CreatedTopicRuntime(CoordinatorRuntime):
    """Runs a coordinator, and creates its topic.

    Attributes:
        topic_name: the name of the topic.
    """

    def __init__(
        self,
        host: Host,
        machine: Partitions[Any],
        controller: Controller,
        *,
        topic_name: str,
        kind: str,
        codec: int,
    ) -> None:
        """Run `machine`, whose partitions are taken over by `begin`.

        Args:
            host: the surroundings.
            machine: the coordinator.
            controller: creates the topic.
            topic_name: its name.
            kind, codec: see the base class.
        """
        # A coordinator is more than its partitions; each kind has all that a machine has.
        super().__init__(
            host,
            machine,  # type: ignore[arg-type]
            kind=kind,
            codec=codec,
            failed=_partition_failed,
        )
        self.topic_name = topic_name
        self._controller = controller
        self._is_creating = False
        self._shards = machine

    @abstractmethod
    def set_partitions(self, count: int) -> None:
        """Let the coordinator have so many partitions; 0 without a topic."""

    @property
    @abstractmethod
    def state_partitions(self) -> int:
        """How many partitions a new topic gets."""

    @property
    def exists(self) -> bool:
        """Whether the coordinator's topic exists."""
        return bool(self._shards.shards)

    def begin(self) -> None:
        """Coordinate the partitions of the topic, if it exists; they are loaded later."""
        topic = self._controller.topics.by_name.get(self.topic_name)
        if topic is not None:
            self.take_over(topic.partitions)

    def take_over(self, partitions: list[Partition]) -> None:
        """Coordinate what is in these partitions, which are loaded later."""
        self.set_partitions(len(partitions))
        super().take_over(partitions)

    def create_topic(self) -> None:
        """Begin to create the coordinator's topic, or to coordinate it if a client created it."""
        if not self.exists and not self._is_creating:
            self._is_creating = True
            self._controller.changes.submit(self._creation(), self._created)

    def _creation(self) -> Change[None]:
        topic = self._controller.topics.by_name.get(self.topic_name)
        if topic is None:
            count = self.state_partitions
            topic = yield from self._controller.creation(self.topic_name, count, {})
        self.take_over(topic.partitions)
        self.schedule_load()

    def _created(self, _result: None, failure: Exception | None) -> None:
        self._is_creating = False
        # A refusal is logged where it arises, and the next client tries again.
        if failure is not None and not isinstance(failure, TopicRefused):
            raise failure

    def topic_deleted(self) -> None:
        """Forget everything, because the coordinator's topic was deleted."""
        for index in range(len(self._shards.shards)):
            self.unload_partition(index)
        self.set_partitions(0)


def _partition_failed(_index: int) -> None:
    """Do nothing: the other partitions are served, and the cause is in the log."""
