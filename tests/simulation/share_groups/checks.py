"""What must hold of leaders and share coordinators.

H8   answers have errors that clients can pass over, and one for each acknowledged partition
H9   the records of an answer cover what was acquired
H10  start offsets never move back, neither that of a leader nor a persisted one
H11  what a leader has in memory agrees with itself: counts, locks, members
H12  the log of a share coordinator makes the states that it has in memory
H13  a leader that loads a share partition knows no more and no less than the one before
"""

from typing import Any

from coterie.coordinator.kernel.shard_state import ShardState
from coterie.coordinator.share_partition.partition import SharePartition
from coterie.coordinator.share_partition.states import ACQUIRED, FINAL_STATES
from coterie.coordinator.share_state.requests import ShareKey
from coterie.coordinator.share_state.service import ShareCoordinator
from coterie.coordinator.share_state.share_state import ShareState
from coterie.protocol.topic_names import SHARE_GROUPS_TOPIC
from coterie.server.brokers import Cluster
from tests.simulation.checks.violation import require

# Leaders are looked at after so many turns.
_LOOKS_EVERY = 10


class ShareChecks:
    """The checks of one run."""

    def __init__(self) -> None:
        self._turn = 0
        self._starts: dict[tuple[int, ShareKey], tuple[Any, int]] = {}
        self._persisted: dict[ShareKey, int] = {}

    def run(self, cluster: Cluster) -> None:
        """Check everything that holds after each turn (H10, H11)."""
        self._turn += 1
        if self._turn % _LOOKS_EVERY:
            return
        for node_id, broker in cluster.brokers.items():
            for key, loaded in broker.share._loaded.items():
                if loaded.share is not None:
                    self._check_leader(node_id, key, loaded.share)
            for shard in broker.share_state.coordinator.shards:
                if shard.state is ShardState.ACTIVE:
                    for key, state in shard.states.items():
                        self._check_persisted(key, state)

    def _check_leader(self, node_id: int, key: ShareKey, share: SharePartition) -> None:
        same, start = self._starts.get((node_id, key), (None, 0))
        if same is share:
            moved_back = share.start_offset < start
            require(not moved_back, "H10", f"{key} goes from {start} to {share.start_offset}")
        self._starts[node_id, key] = share, share.start_offset
        check_share(key, share)

    def _check_persisted(self, key: ShareKey, state: ShareState) -> None:
        before = self._persisted.get(key, -1)
        moved_back = state.start_offset < before
        require(not moved_back, "H10", f"{key} is persisted {state.start_offset} after {before}")
        self._persisted[key] = state.start_offset

    def check_replay(self, cluster: Cluster) -> None:
        """Load each log of a share coordinator anew, and compare what that makes (H12)."""
        for broker in cluster.brokers.values():
            coordinator = broker.share_state.coordinator
            for shard in coordinator.shards:
                if shard.state is not ShardState.ACTIVE or shard.unacknowledged:
                    continue
                topic = cluster.shared.topics.by_name[SHARE_GROUPS_TOPIC]
                log = topic.partitions[shard.partition].log
                again = ShareCoordinator(coordinator.config, coordinator._topics)
                again.set_partitions(len(coordinator.shards))
                reader, loaded = again.reader(), again.shards[shard.partition]
                for data in log.chunks(log.log_start_offset):
                    reader.add_batches(data)
                for pair in reader.survivors():
                    loaded.replay(*pair)
                loaded.merge_replayed()
                for key in shard.states.keys() | loaded.states.keys():
                    here, there = _fields(shard.states.get(key)), _fields(loaded.states.get(key))
                    text = f"{key} is {here} in memory and {there} in the log"
                    require(here == there, "H12", text)


def _fields(state: ShareState | None) -> dict[str, Any] | None:
    if state is None:
        return None
    return {each: getattr(state, each) for each in ShareState.__slots__}


def check_share(key: ShareKey, share: SharePartition) -> None:
    """Check that the memory of a leader agrees with itself (H11)."""
    final = 0
    for batch in share.batches:
        for state in batch.states:
            records = state.last_offset - max(state.first_offset, share.start_offset) + 1
            if state.state in FINAL_STATES:
                final += max(0, records)
            is_held = state.state is ACQUIRED
            require(is_held == bool(state.member_id), "H11", f"{key}: {state} of {state.member_id}")
            deadline_ms = share.locks.deadline_ms(state.first_offset)
            locked = deadline_ms is not None
            is_locked = locked == (is_held or (state.writing is not None and not
                                               state.lock_expired))  # fmt: skip
            require(is_locked, "H11", f"{key}: {state} has the lock {deadline_ms}")
    text = f"{key}: {share.delivery_complete_count} are done and not {final}"
    require(share.delivery_complete_count == final, "H11", text)


def check_load(cluster: Cluster) -> None:
    """Compare what each leader knows with what it would load (H13)."""
    for broker in cluster.brokers.values():
        for key, loaded in broker.share._loaded.items():
            if loaded.share is not None:
                for state_broker in cluster.brokers.values():
                    for shard in state_broker.share_state.coordinator.shards:
                        state = shard.states.get(key)
                        if shard.state is ShardState.ACTIVE and state is not None:
                            _compare(key, loaded.share, state)


def _compare(key: ShareKey, share: SharePartition, state: ShareState) -> None:
    again = SharePartition(max(0, state.start_offset), 0, list(state.batches))
    ahead = again.start_offset > share.start_offset
    require(not ahead, "H13", f"{key} begins at {share.start_offset} and loads {again}")
    for batch in again.batches:
        for restored in batch.states:
            first = max(restored.first_offset, share.start_offset)
            for offset in range(first, restored.last_offset + 1):
                known = share.batches.state_at(offset)
                text = f"{offset} of {key} is {known} and loads as {restored}"
                require(known is not None and known.delivery_count >= restored.delivery_count,
                        "H13", text)  # fmt: skip
                is_final = known is not None and known.state in FINAL_STATES
                require(is_final or restored.state not in FINAL_STATES, "H13", text)
