"""The runtime of the share coordinator: its topic, requests to it, and the length of its log.

`__share_group_state` is created when a client looks for a share coordinator, or when a share group
has its first member [share-partitions/state-placement].
"""

from collections.abc import Callable
from typing import Any

from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import ClientContext, RequestContext
from coterie.coordinator.share_state.pruning import Prune
from coterie.coordinator.share_state.requests import StateRequest, StateResult
from coterie.coordinator.share_state.service import ShareCoordinator
from coterie.protocol.topic_names import SHARE_GROUPS_TOPIC
from coterie.server.controller import Controller
from coterie.server.coordinators.created_topic import CreatedTopicRuntime
from coterie.server.coordinators.host import Host
from coterie.server.logs.partition import Partition
from coterie.storage.errors import OutOfHandles, StorageError

# The client of the coordinator when this broker itself asks.
_BROKER = ClientContext()


class _Answer:
    """Takes the answer to one request.

    Attributes:
        send: called with the answer.
    """

    __slots__ = ("send",)

    def __init__(self, send: Callable[[StateResult], None]) -> None:
        self.send = send


class ShareStateRuntime(CreatedTopicRuntime):
    """Runs the share coordinator on the event loop.

    Attributes:
        coordinator: the coordinator.
    """

    def __init__(
        self,
        host: Host,
        coordinator: ShareCoordinator,
        controller: Controller,
        codec: int,
        delete_records: Callable[[Partition, int], int],
    ) -> None:
        """Run `coordinator`, with the partitions of its topic if that exists.

        Args:
            host: the surroundings.
            coordinator: the coordinator.
            controller: creates the coordinator's topic.
            codec: the codec of the batches that are written.
            delete_records: deletes the records of a partition before an offset.
        """
        super().__init__(
            host,
            coordinator,
            controller,
            topic_name=SHARE_GROUPS_TOPIC,
            kind="share",
            codec=codec,
        )
        self.coordinator = coordinator
        self._delete_records = delete_records
        self.begin()

    def set_partitions(self, count: int) -> None:
        """See the base class."""
        self.coordinator.set_partitions(count)

    @property
    def state_partitions(self) -> int:
        """See the base class."""
        return self.coordinator.config.state_partitions

    def apply(self, effects: Effects[Any]) -> None:
        """See the base class; what is asked for is to prune a log."""
        super().apply(effects)
        for request in effects.requests:
            self._prune(request)

    def _prune(self, prune: Prune) -> None:
        """Delete what the coordinator does not need [share-partitions/state-pruning]."""
        index = prune.partition
        if not self._appends.owns(index):
            return
        partition = self._partitions[index]
        offset = self._appends.first_offset(index) + prune.position
        if offset <= partition.log.log_start_offset:
            return
        try:
            self._delete_records(partition, offset)
        except OutOfHandles as shortage:
            # The next time is soon enough.
            self._host.handles_short(shortage)
        except (StorageError, OSError) as error:
            self._fail(index, error)

    def ask(self, request: StateRequest, done: Callable[[StateResult], None]) -> None:
        """Ask the coordinator about a share partition.

        Args:
            request: the request.
            done: called with the answer, now or when what was written is durable.
        """
        context = RequestContext(_BROKER, 0, _Answer(done))
        effects = self.coordinator.handle(self._host.now_ms(), request, context)
        if not effects.quiet:
            self.apply(effects)
        if effects.response is not None:
            done(effects.response)

    def delete_topics(self, topic_ids: set[bytes]) -> None:
        """Delete the states of deleted topics."""
        effects = self.coordinator.delete_topics(topic_ids, self._host.now_ms())
        if not effects.quiet:
            self.apply(effects)
