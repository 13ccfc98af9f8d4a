"""A partition of the group coordinator while too few replicas are in sync [cluster/waiting-groups].

What is written is in the log and in memory, but it is not acknowledged. An operation that waits for
too long is answered with an error and not undone: it counts when enough replicas are in sync again.
OffsetFetch sees the offsets from before.

Invariant: the operations that wait are in the order of the log, and so in that of their deadlines.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from coterie.coordinator.groups.config import GroupConfig
from coterie.coordinator.groups.group_type import GroupTypes
from coterie.coordinator.groups.partition_state import GroupCount, PartitionState
from coterie.coordinator.kernel.append_errors import translate_append_error
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.operation import NO_GROUP, Operation
from coterie.coordinator.kernel.shard import send_response
from coterie.coordinator.topic_image import TopicsImage
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.join_group import JoinGroupRequest

# The kind of the timer of the operations that wait. Its key has the number of the partition in
# place of the group.
LATE_TIMER = "late"
# So many are answered in one call, which takes a millisecond.
_ANSWERED_TOGETHER = 100


class HeldPartition(PartitionState):
    """A partition whose operations may wait for replicas.

    Attributes:
        types: the types of groups that are served.
    """

    def __init__(
        self,
        partition: int,
        config: GroupConfig,
        types: GroupTypes,
        new_uuid: Callable[[], str],
        max_groups: int,
        all_groups: GroupCount,
        topics: TopicsImage,
    ) -> None:
        """Start without groups, not held; see `PartitionState`."""
        logged = types.logged_state()
        super().__init__(partition, config, new_uuid, max_groups, all_groups, logged, topics)
        self.types = types
        # The operations that are not answered, and until when they wait.
        self._waiting: deque[tuple[int, Operation]] = deque()

    def hold(self, now_ms: int, effects: Effects[Any]) -> None:
        """See `Shard`."""
        if self.holds:
            return
        assert not self._waiting, f"partition {self.partition} has waited before it is held"
        super().hold(now_ms, effects)
        until_ms = now_ms + self.config.offsets_commit_timeout_ms
        self._waiting.extend((until_ms, operation) for operation in self.unacknowledged)
        self._arm_late(now_ms, effects)

    def held(self, operation: Operation, now_ms: int, effects: Effects[Any]) -> None:
        """See `Shard`. A new member gets its id at once, as in Kafka."""
        assert self.holds, f"partition {self.partition} acknowledges at once"
        if isinstance(operation.request, JoinGroupRequest):
            effects.response, operation.response = operation.response, None
        self._waiting.append((now_ms + self.config.offsets_commit_timeout_ms, operation))

    def _arm_late(self, now_ms: int, effects: Effects[Any]) -> None:
        assert self.holds, f"nothing is late in partition {self.partition}"
        # None that comes later waits for less.
        latest_ms = now_ms + self.config.offsets_commit_timeout_ms
        deadline_ms = self._waiting[0][0] if self._waiting else latest_ms
        effects.arm(LATE_TIMER, str(self.partition), "", deadline_ms)

    def answer_late(self, now_ms: int, effects: Effects[Any]) -> None:
        """Answer the operations that have waited for too long; of many some are left for now."""
        assert self.holds, f"partition {self.partition} acknowledges at once"
        waiting = self._waiting
        for _ in range(_ANSWERED_TOGETHER):
            if not waiting or waiting[0][0] > now_ms:
                break
            self._answer_late(waiting.popleft()[1], now_ms, effects)
        self._arm_late(now_ms, effects)

    def _answer_late(self, operation: Operation, now_ms: int, effects: Effects[Any]) -> None:
        if operation.key == NO_GROUP:
            # The coordinator of a transaction waits for its markers.
            return
        asked = operation.request is not None or operation.response is None
        assert asked, "only a request is answered"
        error = translate_append_error(ErrorCode.REQUEST_TIMED_OUT)
        completion, group = operation.completion, self.groups.get(operation.key or "")
        if completion is not None and group is not None and completion.group is group:
            part: Effects[Any] = Effects()
            self.types.of(group).late(self, group, completion, error, now_ms, part)
            effects.absorb(self.settle(part, now_ms))
        if operation.response is not None:
            response = self.error_response(operation.request, error, operation.version)
            send_response(operation.to, response, effects)
            operation.response = None

    def release(self, effects: Effects[Any]) -> None:
        """See `Shard`."""
        super().release(effects)
        self.forget_waiting(effects)

    def forget_waiting(self, effects: Effects[Any]) -> None:
        """Forget what has waited: it is acknowledged now, or the partition is given up."""
        self._waiting.clear()
        self.held_offsets = {}
        effects.cancel(LATE_TIMER, str(self.partition))

    def keep_offsets(self, group_id: str | None) -> None:
        """Keep the offsets of a group as they are before the first operation that waits."""
        assert self.holds, f"partition {self.partition} shows the present offsets"
        if group_id and group_id not in self.held_offsets:
            offsets = self.logged.offsets.get(group_id, {})
            self.held_offsets[group_id] = {name: dict(each) for name, each in offsets.items()}
