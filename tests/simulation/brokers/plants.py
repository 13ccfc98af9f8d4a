"""Bugs that the simulation of brokers must find, each within a minute."""

from tests.faults import answers, calling, does_nothing, given
from tests.planting import Plant

_ELECTIONS = "coterie.server.cluster.elections:"
_LEADERSHIP = "coterie.server.cluster.leadership:Leadership."
_RUNTIME = "coterie.server.coordinators.runtime:CoordinatorRuntime."
_CLASSIC = "coterie.coordinator.groups.classic.group_type:"
_CLUSTER = "coterie.server.brokers:Cluster."
_GROUPS = "coterie.coordinator.groups."
_CONSUMER = "coterie.coordinator.groups.consumer."

PLANTS = (
    Plant(
        "a claim keeps the epoch",
        f"{_ELECTIONS}leader_moved",
        "where.leader_epoch + 1",
        "where.leader_epoch",
    ),
    Plant(
        "the successor of a dead leader keeps its epoch",
        f"{_ELECTIONS}_stepped_down",
        "leader_epoch=where.leader_epoch + 1",
        "leader_epoch=where.leader_epoch",
    ),
    Plant(
        "an image has the version of the one before",
        "coterie.server.cluster.image:ClusterImage.with_placements",
        "self.version + 1",
        "self.version",
    ),
    Plant(
        "the coordinator is looked up in the own shards",
        "coterie.server.handlers.find_coordinator:_find",
        "node_id = image.coordinator(CoordinatorType(key_type), key)",
        "node_id = next(iter(image.nodes))",
    ),
    Plant(
        "two coordinators own one partition",
        "coterie.server.cluster.ownership:ownership",
        "if index not in led",
        "if False",
    ),
    Plant(
        "a dead broker is never detected",
        f"{_CLUSTER}_detect",
        fault=does_nothing,
    ),
    Plant(
        "a broker that comes back leads nothing that had no leader",
        f"{_ELECTIONS}node_joined",
        "if where.leader_id == NO_LEADER:",
        "if False:",
    ),
    Plant(
        "a broker that comes back is not in sync",
        f"{_ELECTIONS}node_joined",
        "isr = sorted({*where.isr, node_id})",
        "isr = where.isr",
    ),
    Plant(
        "the next coordinator does not load",
        f"{_RUNTIME}load_partition",
        "self._loading.schedule()",
        "pass",
    ),
    Plant(
        "a load does not wait for the disk",
        "coterie.server.coordinators.loading:Loading._advance",
        "flusher.commit and log.synced_offset < log.log_end_offset",
        "False",
    ),
    Plant(
        "records are acknowledged before they are on the disk",
        "coterie.server.coordinators.appends:Appends._acknowledge",
        "if flusher.commit:",
        "if False:",
    ),
    Plant(
        "a give-up forgets joins that wait",
        f"{_CLASSIC}ClassicType.close",
        "effects.reply(join_to, join_error(error, member.member_id))",
        "pass",
    ),
    Plant(
        "a give-up forgets syncs that wait",
        f"{_CLASSIC}ClassicType.close",
        "effects.reply(sync_to, sync_error(error))",
        "pass",
    ),
    Plant(
        "a loaded group does not know its static members",
        f"{_GROUPS}classic.group_record:restore",
        "logged.group_instance_id,",
        "None,",
    ),
    Plant(
        "a static member that comes back begins a rebalance",
        f"{_GROUPS}classic.static_member:replace_static_member",
        "if group.state is GroupState.STABLE and",
        "if False and",
    ),
    Plant(
        "the timers of a static member outlive its place",
        f"{_CONSUMER}heartbeat:_beat",
        fault=calling(f"{_CONSUMER}downgrade:cancel_timers", does_nothing),
    ),
    Plant(
        "an upgrade leaves the record of the classic group",
        f"{_CONSUMER}upgrade:upgrade",
        fault=calling(f"{_GROUPS}step:GroupStep.write", does_nothing),
    ),
    Plant(
        "the members of an upgraded group have no session",
        f"{_CONSUMER}upgrade:start_classic_sessions",
        fault=does_nothing,
    ),
    Plant(
        "a load forgets the offsets of open transactions",
        f"{_GROUPS}shard:GroupShard.replay_open",
        fault=does_nothing,
    ),
    Plant(
        "the offsets of an aborted transaction are committed",
        f"{_GROUPS}replay:replay_marker",
        fault=given(commit=True),
    ),
    Plant(
        "a deleted group with offsets has no tombstone of its own",
        f"{_GROUPS}admin:delete_group",
        "records += group.tombstones()",
        "records += [] if records else group.tombstones()",
    ),
    Plant(
        "OffsetDelete writes nothing",
        f"{_GROUPS}offsets:delete_offsets",
        "effects.operation = operation",
        "pass",
    ),
    Plant(
        "the deletion of a topic does not wait for dead coordinators",
        f"{_LEADERSHIP}is_led",
        fault=answers(value=True),
    ),
    Plant(
        "a late image names the controller as the leader of a new topic",
        "coterie.server.cluster.image:ClusterImage.placement",
        "if len(self.nodes) > 1:",
        "if False:",
    ),
    Plant(
        "timers of members are left after a give-up",
        f"{_CLASSIC}_cancel_member_timers",
        fault=does_nothing,
    ),
    Plant(
        "stale shards answer after a give-up",
        "coterie.coordinator.kernel.partitions:Partitions.unload",
        fault=lambda unload: lambda self, *_: self.new_effects(),
    ),
    Plant(
        "a move begins a rebalance",
        f"{_CLASSIC}ClassicType.loaded",
        "if len(group.members) > partition.config.group_max_size:",
        "if group.members:",
    ),
    Plant(
        "loaded members have no session",
        f"{_CLASSIC}ClassicType.loaded",
        "start_session(step, member, member.session_timeout_ms)",
        "pass",
    ),
    Plant(
        "markers are lost when the coordinator moves between the decision and the markers",
        "coterie.coordinator.transactions.shard:TransactionShard.loaded",
        "if transaction.is_ending:",
        "if False:",
    ),
    Plant(
        "a coordinator that has moved goes on with its markers",
        "coterie.server.transactions.markers:MarkerWriter.forget",
        fault=does_nothing,
    ),
    Plant(
        "a marker for a leader that is dead counts as written",
        "coterie.server.transactions.led_elsewhere:MarkersOfCluster.send_one",
        "answered(ErrorCode.NOT_LEADER_OR_FOLLOWER)",
        "answered(ErrorCode.NONE)",
    ),
    Plant(
        "partitions are not added to transactions at the coordinator",
        "coterie.server.transactions.led_elsewhere:UsesOfCluster.use_partitions",
        fault=answers(value=0),
    ),
    Plant(
        "the logs do not learn of new epochs",
        f"{_LEADERSHIP}_begin_epochs",
        fault=does_nothing,
    ),
    Plant(
        "clients are shown an older image after a newer one",
        f"{_LEADERSHIP}_show",
        "if member.image.version < image.version:",
        "if True:",
    ),
    Plant(
        "epochs are not stored",
        f"{_LEADERSHIP}_store",
        fault=does_nothing,
    ),
    Plant(
        "an epoch without records is unknown",
        "coterie.server.logs.partition:Partition.end_of_epoch",
        "latest < epoch < log.leader_epoch",
        "False",
    ),
    Plant(
        "an acknowledged record is appended again when it is sent again",
        "coterie.server.handlers.produce_partitions:_append_validated",
        "if stored is not None:",
        "if False:",
    ),
)
