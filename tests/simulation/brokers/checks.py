"""What must hold of the brokers after every turn of the event loop.

K1   a partition has one owner in an epoch, which is its leader; epochs only grow
K2   in a log, epochs do not fall behind each other, and offsets have no gaps
K3   groups, offsets of groups and topics that were deleted stay so
K5   no client is shown an offset that is not in the log, and with `--flush commit` on the disk
K9   clients are shown no older image after a newer one
K10  what was given up has left nothing: no state, no record to write, no timer
K12  image, log and batches have one epoch
"""

from collections.abc import Iterator
from typing import Any

from coterie.coordinator.kernel.shard_state import ShardState
from coterie.protocol.messages.log_records import OffsetCommitKey, decode_key, decode_value
from coterie.protocol.record_batch import BatchHeader
from coterie.protocol.records import decode_records, iterate_batches, read_marker
from coterie.protocol.topic_names import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from coterie.server.broker import Broker
from coterie.server.brokers import Cluster
from coterie.server.cluster.image import NO_LEADER, ClusterImage, Placement
from coterie.server.coordinators.runtime import CoordinatorRuntime
from coterie.server.logs.partition import Partition
from coterie.storage.log import Log
from tests.simulation.brokers.disk import Disk
from tests.simulation.brokers.ledger import Leaders
from tests.simulation.brokers.records import TOPIC as RECORDS
from tests.simulation.checks.violation import Violation, require

_SERVED = (ShardState.ACTIVE, ShardState.LOADING)

# What brokers own, and what they have given up, is looked at after each change of the image, and
# again after so many turns; what brokers have left that do not run any more, after more of them.
_LOOKS_EVERY = 20
_LOOKS_BACK_EVERY = 200


class _Read:
    """What was read of a log.

    Attributes:
        log: the log; another one takes its place when its end is cut off. None before it is open.
        end_offset: what was read.
        batch_epoch: the epoch of the newest batch.
        epoch: the epoch of the partition when it was looked at before.
    """

    def __init__(self) -> None:
        self.log: Log | None = None
        self.end_offset = 0
        self.batch_epoch = -1
        self.epoch = -1

    def has_all_of(self, log: Log | None) -> bool:
        """Whether there is nothing new to read in a log."""
        return log is self.log and (log is None or log.log_end_offset == self.end_offset)


class Checks:
    """The checks of one run.

    Attributes:
        leaders: the leader of each partition in each epoch, as the cluster has decided.
        values: the records of the topic that is cut, by partition and offset.
        deleted_groups, deleted_offsets, deleted_topics: what was deleted, by group, by group,
            topic and partition, and by topic.
    """

    def __init__(self, disk: Disk) -> None:
        """Know nothing yet; the disk says what is synced."""
        self.leaders: Leaders = {}
        self.values: dict[tuple[int, int], bytes | None] = {}
        self.deleted_groups: set[str] = set()
        self.deleted_offsets: set[tuple[str, str, int]] = set()
        self.deleted_topics: set[str] = set()
        self._newest: dict[tuple[str, int], int] = {}
        self._owners: dict[tuple[str, int, int], Broker] = {}
        self._logs: dict[tuple[str, int], _Read] = {}
        # The turn in which each offset was appended, by group and offset.
        self._commits: dict[tuple[str, int], int] = {}
        # The offsets of open transactions, by the partition and the producer id.
        self._pending: dict[tuple[int, int], list[tuple[str, int]]] = {}
        self._seen: ClusterImage | None = None
        self._partitions: list[tuple[Partition, _Read]] = []
        # The version of the image that each broker has shown.
        self._versions: dict[Broker, int] = {}
        self._disk = disk

    def restarted(self) -> None:
        """All brokers were killed and started again: the logs are other objects, of new epochs.

        With `--flush commit` a log is synced when it is opened.
        """
        self._seen = None
        self._disk.synced(self._disk.turn)
        for read in self._logs.values():
            read.epoch = -1

    def run(self, cluster: Cluster, ended: list[Broker]) -> None:
        """Check everything.

        Args:
            cluster: the brokers that run.
            ended: those that ran before.

        Raises:
            Violation: something does not hold.
        """
        image = cluster.leadership.image
        changed = image is not self._seen
        if changed:
            self._check_image(image)
            self._seen = image
            self._partitions = [
                (each, self._logs.setdefault((topic.name, each.index), _Read()))
                for topic in cluster.shared.topics.all()
                for each in topic.partitions
            ]
        for partition, read in self._partitions:
            if changed or not read.has_all_of(partition.opened_log):
                self._check_partition(partition, read, image)
        self._disk.turn += 1
        for broker in cluster.brokers.values():
            self._check_shown(broker)
        if changed or not self._disk.turn % _LOOKS_EVERY:
            self._check_owners(cluster, image)
            again = self.deleted_topics & image.placements.keys()
            require(not again, "K3", f"{again} were deleted and are there")
            for broker in cluster.brokers.values():
                _check_nothing_is_left(broker)
                self._check_deleted(broker)
        if not self._disk.turn % _LOOKS_BACK_EVERY:
            for broker in ended:
                _check_nothing_is_left(broker)

    def _check_shown(self, broker: Broker) -> None:
        """Check that clients of a broker are shown no older image than before (K9)."""
        version = broker.image.version
        before = self._versions.get(broker, -1)
        if version < before:
            raise Violation("K9", f"{broker.node_id} shows image {version} after {before}")
        self._versions[broker] = version

    # --- K1 ---------------------------------------------------------------------------------------

    def _check_image(self, image: ClusterImage) -> None:
        for topic, placed in image.placements.items():
            for index, where in enumerate(placed):
                self._check_placement(topic, index, where)

    def _check_placement(self, topic: str, index: int, where: Placement) -> None:
        epoch, leader_id = where.leader_epoch, where.leader_id
        newest = self._newest.get((topic, index), -1)
        require(epoch >= newest, "K1", f"{topic}-{index} goes from epoch {newest} to {epoch}")
        self._newest[topic, index] = epoch
        before = self.leaders.setdefault((topic, index, epoch), leader_id)
        text = f"{before} and {leader_id} lead {topic}-{index} in epoch {epoch}"
        require(before == leader_id, "K1", text)
        in_sync = leader_id == NO_LEADER or leader_id in where.isr
        require(in_sync, "K1", f"{leader_id} leads {topic}-{index} and is not in {where.isr}")

    def _check_owners(self, cluster: Cluster, image: ClusterImage) -> None:
        for node_id, broker in cluster.brokers.items():
            for topic, runtime in _runtimes(broker):
                placed = image.placements.get(topic, ())
                for index, epoch in runtime.owned():
                    where = placed[index]
                    if runtime.is_loading(index):
                        # A broker that starts learns the epoch when it opens the log.
                        epoch = where.leader_epoch
                    is_leader = (where.leader_id, where.leader_epoch) == (node_id, epoch)
                    text = f"{node_id} owns {topic}-{index} in epoch {epoch}, not as {where}"
                    require(is_leader, "K1", text)
                    # A broker that comes back is another owner.
                    before = self._owners.setdefault((topic, index, epoch), broker)
                    require(before is broker, "K1", f"a broker before it and {text}")

    # --- K2, K12 ----------------------------------------------------------------------------------

    def _check_partition(self, partition: Partition, read: _Read, image: ClusterImage) -> None:
        placed = image.placements.get(partition.topic.name, ())
        if partition.index < len(placed):
            decided = placed[partition.index].leader_epoch
            if partition.leader_epoch != decided:
                text = f"{partition} is in epoch {partition.leader_epoch}, not in {decided}"
                raise Violation("K12", text)
            if partition.opened_log is not None:
                self._check_log(partition, read, partition.opened_log)

    def _check_log(self, partition: Partition, read: _Read, log: Log) -> None:
        name, index = partition.topic.name, partition.index
        if read.log is not log:
            # It was opened anew, with the same records or with fewer.
            read.log, read.batch_epoch = log, -1
            read.end_offset = min(read.end_offset, log.log_end_offset)
        if log.log_end_offset == read.end_offset:
            read.epoch = partition.leader_epoch
            return
        for header, data, position in _batches(log, read.end_offset):
            dense = header.base_offset == read.end_offset
            require(dense, "K2", f"{partition} goes from {read.end_offset} to {header.base_offset}")
            epoch = header.leader_epoch
            text = f"{partition} has a batch of epoch {epoch} behind one of {read.batch_epoch}"
            require(epoch >= read.batch_epoch, "K2", text)
            within = read.epoch <= epoch <= partition.leader_epoch
            text = f"{partition} got a batch of epoch {epoch} in {partition.leader_epoch}"
            require(within, "K12", text)
            read.end_offset, read.batch_epoch = header.next_offset, epoch
            if name == RECORDS:
                for each in decode_records(data, header, position):
                    self.values[index, each.offset] = each.value
            elif name == OFFSETS_TOPIC:
                self._note_commits(index, header, data, position)
        read.epoch = partition.leader_epoch

    def _note_commits(self, index: int, header: BatchHeader, data: bytes, position: int) -> None:
        """Note the offsets of a batch; those of a transaction are committed with its marker."""
        of_producer = (index, header.producer_id)
        for each in decode_records(data, header, position):
            if header.is_control:
                marker, offsets = read_marker(each), self._pending.pop(of_producer, [])
                if marker is not None and marker.commit:
                    for committed in offsets:
                        self._commits.setdefault(committed, self._disk.turn)
                continue
            assert each.key is not None, "records of the topic have keys"
            key = decode_key(each.key)
            if isinstance(key, OffsetCommitKey) and each.value is not None:
                value: Any = decode_value(key, each.value)
                if header.is_transactional:
                    offsets = self._pending.setdefault(of_producer, [])
                    offsets.append((key.group, value.offset))
                else:
                    self._commits.setdefault((key.group, value.offset), self._disk.turn)

    def cut(self, index: int, end_offset: int) -> None:
        """Forget the records that an unclean election has taken away."""
        for each in [at for at in self.values if at[0] == index and at[1] >= end_offset]:
            del self.values[each]

    # --- K3 ---------------------------------------------------------------------------------------

    def _check_deleted(self, broker: Broker) -> None:
        """Check that groups and offsets that were deleted are not at a coordinator."""
        for shard in broker.groups.coordinator.shards:
            if shard.state is ShardState.ACTIVE:
                offsets = shard.logged.offsets
                groups = self.deleted_groups & (shard.groups.keys() | offsets.keys())
                require(not groups, "K3", f"{groups} were deleted and are at {broker.node_id}")
                for group_id, topic, index in self.deleted_offsets:
                    found = offsets.get(group_id, {}).get(topic, {}).get(index)
                    text = f"{broker.node_id} has the deleted offset {found} of {group_id}"
                    require(found is None, "K3", text)

    def check_topics_left_nothing(self, broker: Broker) -> None:
        """Check that no group has an offset of a topic that was deleted."""
        for shard in broker.groups.coordinator.shards:
            left = self.deleted_topics & shard.logged.groups_by_topic.keys()
            require(not left, "K3", f"{broker.node_id} has offsets of {left}, which were deleted")

    # --- K5 ---------------------------------------------------------------------------------------

    def shown(self, group_id: str, value: int, *, flushes: bool) -> None:
        """Note that a client was shown a committed offset."""
        turn = self._commits.get((group_id, value))
        if turn is None:
            require(False, "K5", f"{value} of {group_id} is not in the log")
        elif flushes:
            is_durable = turn <= self._disk.synced_turn
            require(is_durable, "K5", f"{value} of {group_id} is not on the disk")


def _batches(log: Log, offset: int) -> Iterator[tuple[BatchHeader, bytes, int]]:
    """Yield the batches from an offset on: header, the bytes and where the batch begins."""
    for data in log.chunks(offset):
        for position, header in iterate_batches(data):
            if header.base_offset >= offset:
                yield header, data, position


def _runtimes(broker: Broker) -> tuple[tuple[str, CoordinatorRuntime], ...]:
    return (OFFSETS_TOPIC, broker.groups), (TRANSACTIONS_TOPIC, broker.transaction_runtime)


# --- K10 ------------------------------------------------------------------------------------------


def _check_nothing_is_left(broker: Broker) -> None:
    """Check what a broker has of partitions that it does not own."""
    for topic, runtime in _runtimes(broker):
        owned = {each.partition for each in runtime.owned()}
        shards = runtime._machine.shards  # type: ignore[attr-defined]  # both coordinators have it
        for shard in shards:
            if shard.partition not in owned:
                blank = shard.is_blank and not shard.unacknowledged
                text = f"{broker.node_id} has {shard.state} of {topic}-{shard.partition}"
                require(blank and shard.state not in _SERVED, "K10", text)
        queued = runtime._appends._queued.keys() - owned
        require(not queued, "K10", f"{broker.node_id} has records for {topic}-{queued}")
    coordinator = broker.groups.coordinator
    owned = {each.partition for each in broker.groups.owned()}
    for kind, name, _ in coordinator.purgatory._wheel._entry_of:
        index = int(name) if kind == "expiry" else coordinator.partition_for(name)
        text = f"{broker.node_id} has a timer {kind} of {name} in {index}"
        require(index in owned, "K10", text)
    transactions = broker.transaction_runtime
    owned = {each.partition for each in transactions.owned()}
    ending: list[object] = [each for each in transactions._ending if each[0] not in owned]
    ending += [each for each in broker.markers._wanted if each.log_partition not in owned]
    require(not ending, "K10", f"{broker.node_id} is ending {ending}")
