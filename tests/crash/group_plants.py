"""Planted bugs about the records of consumer groups, which crashes of their stories must find."""

from tests.planting import Plant

_CONSUMER = "coterie.coordinator.groups.consumer."
_SERVER = "coterie.server.coordinators."

PLANTS = (
    Plant(
        "an epoch is told before its record is synced",
        f"{_SERVER}appends:Appends._acknowledge",
        "if not flusher.commit:\n        flusher.appended(log)",
        "if self._kind == 'group':",
        ("power:members:commit",),
    ),
    Plant(
        "a heartbeat is answered before its records are written",
        "coterie.coordinator.kernel.shard:Shard.settle",
        "operation.response, effects.response = effects.response, None",
        "operation.response = None",
        ("death:members:never",),
    ),
    Plant(
        "the records of one operation are several batches",
        f"{_SERVER}appends:Appends._write_partition",
        "self._write_batch(ownership, index, batch, now_ms)",
        "[self._write_batch(ownership, index, _Batch([each], 0, batch.form), now_ms)"
        " for each in batch.pairs]",
        ("death:members:never",),
    ),
    Plant(
        "the epoch of a group rises in memory only",
        f"{_CONSUMER}epochs:_write_epoch",
        "step.set(\n        ConsumerGroupMetadataKey",
        "group.apply(\n        ConsumerGroupMetadataKey",
        ("death:members:commit",),
    ),
    Plant(
        "what a member owns is in memory only",
        f"{_CONSUMER}members:reconcile_member",
        "step.set(key, current_value(*reconciled, member))",
        "group.apply(key, current_value(*reconciled, member))",
        ("death:members:commit",),
    ),
    Plant(
        "a departed member keeps its records",
        f"{_CONSUMER}members:remove_members",
        "step.remove(group.member_tombstones(member_id))",
        "[group.apply(key, None) for key in group.member_tombstones(member_id)]",
        ("death:members:commit",),
    ),
    Plant(
        "the target of a static successor is in memory only",
        f"{_CONSUMER}static_member:replace_member",
        "step.set(\n        ConsumerGroupTargetAssignmentMemberKey",
        "group.apply(\n        ConsumerGroupTargetAssignmentMemberKey",
        ("death:members:commit",),
    ),
    Plant(
        "the previous epoch of a member is not loaded",
        f"{_CONSUMER}records:current_value",
        "epoch,\n        previous_epoch,\n",
        "epoch,\n        epoch,\n",
        ("death:members:commit",),
    ),
    Plant(
        "a group without members is not loaded",
        f"{_CONSUMER}group_state:ConsumerGroupState.is_blank",
        "self.metadata is None and self.target_metadata is None",
        "True",
        ("death:members:commit",),
    ),
    Plant(
        "a deleted group leaves its epoch",
        f"{_CONSUMER}group_state:ConsumerGroupState.keys",
        "yield ConsumerGroupMetadataKey(group_id=group_id)",
        "pass",
        ("death:members:commit",),
    ),
    Plant(
        "what a regular expression matches is in memory only",
        f"{_CONSUMER}regexes:resolve_some",
        "step.set(_key(group.group_id, regex), match.value, match.encoded)",
        "group.apply(_key(group.group_id, regex), match.value)",
        ("death:topics:commit",),
    ),
    Plant(
        "the partitions that a member gives up are free after a load",
        f"{_CONSUMER}group_state:ConsumerGroupState._set_current",
        "self._occupy(member.pending, member)",
        "pass",
        ("death:members:commit",),
    ),
    Plant(
        "an upgrade leaves the record of the classic group",
        f"{_CONSUMER}upgrade:upgrade",
        "step.write(group_tombstone(group_id))",
        "pass",
        ("death:migration:commit",),
    ),
    Plant(
        "a downgrade leaves the target epoch",
        f"{_CONSUMER}group_state:ConsumerGroupState.keys",
        "yield ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)",
        "pass",
        ("death:migration:commit",),
    ),
    Plant(
        "a downgraded group begins anew",
        f"{_CONSUMER}downgrade:downgrade",
        "group.epoch if generation is None else generation",
        "1",
        ("death:migration:commit",),
    ),
    Plant(
        "an upgraded group begins anew",
        f"{_CONSUMER}upgrade:upgrade",
        "before.generation_id\n",
        "1\n",
        ("death:migration:commit",),
    ),
)
