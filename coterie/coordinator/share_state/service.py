"""The share coordinator as a whole: one method for all requests, in front of the shards.

It is pure: the time is an argument, and everything to write or send is returned.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any

from coterie.coordinator.kernel.append import Pair, Record
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.partitions import Partitions
from coterie.coordinator.kernel.request import RequestContext
from coterie.coordinator.kernel.shard_state import ACTIVE, availability_error
from coterie.coordinator.share_state.config import ShareStateConfig
from coterie.coordinator.share_state.reader import ShareStateReader
from coterie.coordinator.share_state.requests import (
    ShareKey,
    StateRequest,
    StateResult,
    unavailable,
)
from coterie.coordinator.share_state.shard import ShareStateShard
from coterie.coordinator.topic_image import TopicsImage
from coterie.protocol.errors import ErrorCode
from coterie.protocol.java_hash import partition_for
from coterie.protocol.messages.share_state_records import SHARE_STATE_RECORDS

_TOPIC_ID_BYTES = 16
_NEGATIVE_PARTITION = StateResult(
    ErrorCode.INVALID_REQUEST, "The partition id cannot be a negative number."
)


def coordinator_key(key: ShareKey) -> str:
    """Return the key by which FindCoordinator knows a share partition.

    Source: [share-partitions/state-placement].
    """
    topic_id = urlsafe_b64encode(key.topic_id).decode().rstrip("=")
    return f"{key.group_id}:{topic_id}:{key.partition}"


def is_coordinator_key(key: str) -> bool:
    """Return whether a key is one of a share partition; group ids may have colons."""
    parts = key.rsplit(":", 2)
    if len(parts) != 3 or not parts[0]:
        return False
    _, topic_id, partition = parts
    try:
        decoded = urlsafe_b64decode(topic_id + "=" * (-len(topic_id) % 4))
        return len(decoded) == _TOPIC_ID_BYTES and int(partition) >= 0
    except ValueError:
        return False


class ShareCoordinator(Partitions[ShareStateShard]):
    """All partitions of `__share_group_state` that this broker coordinates.

    Attributes:
        config: the settings.
        shards: the partitions by number; none before the topic exists.
    """

    def __init__(self, config: ShareStateConfig, topics: TopicsImage) -> None:
        """Start without partitions.

        Args:
            config: the settings.
            topics: the topics of the cluster.
        """
        super().__init__()
        self.config = config
        self._topics = topics

    def set_partitions(self, count: int) -> None:
        """Coordinate so many partitions from now on, none of which is loaded; 0 without a topic."""
        assert count >= 0, "a number of partitions is not negative"
        assert not any(shard.states for shard in self.shards), "the topic is another one"
        self.shards = [ShareStateShard(each, self.config, self._topics) for each in range(count)]

    def partition_for(self, key: ShareKey) -> int:
        """Return the `__share_group_state` partition of a share partition."""
        return partition_for(coordinator_key(key), len(self.shards))

    # -- requests ----------------------------------------------------------------------------------

    def handle(
        self, now_ms: int, request: StateRequest, context: RequestContext
    ) -> Effects[StateResult]:
        """Handle a request about one share partition [share-partitions/state-requests]."""
        key = request.key
        if not self.shards:
            return Effects(unavailable(request, ErrorCode.NOT_COORDINATOR))
        shard = self.shards[self.partition_for(key)]
        if shard.state is not ACTIVE:
            return Effects(unavailable(request, availability_error(shard.state)))
        if key.partition < 0:
            return Effects(_NEGATIVE_PARTITION)
        effects = shard.handle(now_ms, request)
        return shard.settle(effects, now_ms, request, context.to, context.version)

    def delete_topics(self, topic_ids: set[bytes], now_ms: int) -> Effects[Any]:
        """Delete the states of topics that were deleted; a partition that is loading follows."""
        effects: Effects[Any] = Effects()
        for shard in self.shards:
            if shard.state is ACTIVE:
                shard.forget_topics(topic_ids.__contains__, now_ms, effects)
        return effects

    # -- the log -----------------------------------------------------------------------------------

    def reader(self) -> ShareStateReader:
        """Return a reader for the log of a partition."""
        return ShareStateReader()

    def encode(self, records: list[Record]) -> list[Pair]:
        """Return keys and values of records as bytes."""
        types = SHARE_STATE_RECORDS
        return [
            (types.encode_key(key), None if value is None else types.encode_value(value))
            for key, value in records
        ]

    def totals(self) -> dict[str, int]:
        """Return the number of share partitions."""
        return {"share_partitions": sum(len(each.states) for each in self.shards)}

    # -- time --------------------------------------------------------------------------------------

    def next_deadline_ms(self) -> int | None:
        """Return when a write is late, or a log may get shorter; None if nothing waits."""
        times = [shard.late_ms() for shard in self.shards if shard.holds]
        times += [shard.pruning.next_ms() for shard in self.shards]
        return min((each for each in times if each is not None), default=None)

    def advance(self, now_ms: int) -> Effects[Any]:
        """Answer writes that have waited for too long, and keep the logs short.

        Source: [share-partitions/late-writes] [share-partitions/state-pruning].
        """
        effects: Effects[Any] = Effects()
        for shard in self.shards:
            if shard.holds:
                shard.answer_late(now_ms, effects)
            shard.shorten_log(now_ms, effects)
        return effects
