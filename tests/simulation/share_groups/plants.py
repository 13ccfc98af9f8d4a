"""Bugs that the simulation of share groups must find, each within a minute."""

from tests.faults import answers, given
from tests.planting import Plant

_PARTITION = "coterie.coordinator.share_partition.partition:SharePartition."
_ACQUIRING = "coterie.coordinator.share_partition.acquisition:"
_LEADER = "coterie.server.share.leader:ShareLeader."
_PERSISTER = "coterie.server.share_state.persister:Persister."

PLANTS = (
    Plant(
        "a record that is held is given to others",
        "coterie.coordinator.share_partition.in_flight:InFlightState.can_be_acquired",
        "self.state is RecordState.AVAILABLE",
        "self.state in (RecordState.AVAILABLE, RecordState.ACQUIRED)",
    ),
    Plant(
        "a record whose acknowledgement is being written is given to others",
        "coterie.coordinator.share_partition.in_flight:InFlightState.can_be_acquired",
        "self.writing is None and self.state is RecordState.AVAILABLE",
        "self.state is RecordState.AVAILABLE or self.writing is not None",
    ),
    Plant(
        "a released record is available whatever the limit is",
        "coterie.coordinator.share_partition.states:released_state",
        "ARCHIVED if delivery_count >= delivery_limit else AVAILABLE",
        "AVAILABLE",
    ),
    Plant(
        "a delivery that ends without a decision does not count",
        f"{_PARTITION}release",
        "state.state is ACQUIRED and state.member_id == member_id",
        "state.state is ACQUIRED and state.member_id == member_id and not "
        "setattr(state, 'delivery_count', state.delivery_count - 1)",
    ),
    Plant(
        "an acknowledgement is answered before it is persisted",
        f"{_LEADER}_persist_transition",
        "if transition.write is None:",
        "if True:",
    ),
    Plant(
        "nothing waits behind a request that is tried again",
        f"{_PERSISTER}ask",
        "line = self._lines.get(request.key)",
        "line = None",
    ),
    Plant(
        "locks do not end",
        f"{_PARTITION}expire_locks",
        fault=answers(None),
    ),
    Plant(
        "a load forgets the updates behind a snapshot",
        "coterie.coordinator.share_state.reader:_Kept.__setitem__",
        "kept.append((key, value))",
        "pass",
    ),
    Plant(
        "the snapshots of other share partitions are pruned",
        "coterie.coordinator.share_state.pruning:Pruning.position",
        "min(self._positions.values(), default=self._written - 1)",
        "max(self._positions.values(), default=self._written - 1)",
    ),
    Plant(
        "the start offset moves over a record that is still being written",
        "coterie.coordinator.share_partition.in_flight:InFlightState.is_final",
        "self.writing is None and self.state in FINAL_STATES",
        "self.state in FINAL_STATES",
    ),
    Plant(
        "aborted records are given to a group that reads committed ones",
        f"{_ACQUIRING}acquire",
        fault=given(aborted=()),
    ),
    Plant(
        "records that were skipped between restored ones are not read",
        f"{_PARTITION}_restore",
        "self.unread.append((next_offset, first_offset - 1))",
        "pass",
    ),
)
