"""Planted bugs about the log of share groups, which crashes of their stories must find.

A text is replaced where one step of a function is left out or takes a wrong value.
"""

from tests.crash.group_plants import acknowledges_at_once
from tests.faults import calling, does_nothing
from tests.planting import Plant

_STATE = "coterie.coordinator.share_state.share_state:ShareState."
_READER = "coterie.coordinator.share_state.reader:ShareStateReader."
_PRUNING = "coterie.coordinator.share_state.pruning:Pruning."

PLANTS = (
    Plant(
        "decisions about records are not synced",
        "coterie.server.coordinators.appends:Appends._acknowledge",
        fault=acknowledges_at_once("share"),
        kinds=("power:decisions:commit",),
    ),
    Plant(
        "decisions about records are not persisted",
        "coterie.server.share.leader:ShareLeader._persist_transition",
        "if transition.write is None:",
        "if True:",
        ("death:decisions:never",),
    ),
    Plant(
        "the end of a lock is not persisted",
        "coterie.server.share.leader:ShareLeader._timer_fired",
        fault=calling("coterie.server.share.leader:ShareLeader._persist", does_nothing),
        kinds=("death:decisions:never",),
    ),
    Plant(
        "a load forgets the updates behind a snapshot",
        f"{_READER}_add",
        "kept.append((key, value))",
        "pass",
        ("death:decisions:never",),
    ),
    Plant(
        "a snapshot has no states of records",
        f"{_STATE}copy",
        "list(self.batches)",
        "[]",
        ("death:decisions:never",),
    ),
    Plant(
        "a snapshot forgets the start offset",
        f"{_STATE}snapshot",
        "start_offset=self.start_offset",
        "start_offset=-1",
        ("death:decisions:never",),
    ),
    Plant(
        "the snapshots of other share partitions are pruned",
        f"{_PRUNING}position",
        "min(self._positions.values(), default=self._written - 1)",
        "max(self._positions.values(), default=self._written - 1)",
        ("death:decisions:never",),
    ),
    Plant(
        "the latest snapshot is pruned with the updates behind it",
        f"{_PRUNING}position",
        "min(self._positions.values(), default=self._written - 1)",
        "self._written - 1",
        ("death:decisions:never",),
    ),
    Plant(
        "an update takes the place of those before it",
        "coterie.coordinator.share_state.share_state:ShareState.add_update",
        "self.batches += from_wire(value.state_batches)",
        "self.batches = from_wire(value.state_batches)",
        ("death:decisions:never",),
    ),
    Plant(
        "what a load restores is available, whatever it was",
        "coterie.coordinator.share_partition.partition:SharePartition._restore",
        "batch.state, batch.delivery_count",
        "type(batch.state)(0), batch.delivery_count",
        ("death:decisions:never",),
    ),
    Plant(
        "what a load restores was never delivered",
        "coterie.coordinator.share_partition.partition:SharePartition._restore",
        "batch.state, batch.delivery_count",
        "batch.state, 0",
        ("death:repeated:never",),
    ),
    Plant(
        "ranges between restored states are not read again",
        "coterie.coordinator.share_partition.partition:SharePartition._restore",
        "self.unread.append((next_offset, first_offset - 1))",
        "pass",
        ("death:decisions:never",),
    ),
)
