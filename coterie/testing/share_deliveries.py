"""The deliveries of a share group that have ended, from the log of the share coordinator.

The log has what became of records [share-partitions/state-log]; what was pruned from it is missing
here. Everything here is for the thread of the brokers.
"""

from collections.abc import Mapping
from typing import NamedTuple

from coterie.coordinator.share_partition.states import ARCHIVED
from coterie.pipeline.timeline.deliveries import DeliveryReader
from coterie.protocol.topic_names import SHARE_GROUPS_TOPIC
from coterie.server.broker import Broker
from coterie.server.share.seen_records import offsets_text
from coterie.testing.members import Partition
from coterie.testing.records import partition_records


class EndedDelivery(NamedTuple):
    """Deliveries of records of a share group that ended together.

    Attributes:
        at_ms: when that was written, in epoch milliseconds.
        topic, partition: where they are.
        first_offset, last_offset: the records, both included.
        became: ACKNOWLEDGED; ARCHIVED: rejected, or delivered as often as is allowed; or AVAILABLE:
            released, or not acknowledged in time.
        delivery_count: how often they were delivered, with this time.
    """

    at_ms: int
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    became: str
    delivery_count: int

    def __str__(self) -> str:
        """Describe it: "orders-0 offset 4: ARCHIVED after delivery 5"."""
        where = f"{self.topic}-{self.partition} {offsets_text(self.first_offset, self.last_offset)}"
        return f"{where}: {self.became} after delivery {self.delivery_count}"


class DeliveryLog:
    """Reads the deliveries of a share group again and again, each time the new ones."""

    def __init__(self, group_id: str) -> None:
        """Begin with the first that the log has."""
        self._group_id = group_id
        # By partition of the topic: the next offset, and what was read before.
        self._read: dict[int, tuple[int, DeliveryReader]] = {}

    def read_on(self, server: Broker) -> list[EndedDelivery]:
        """Return the deliveries that have ended since the last call, in order."""
        topic = server.topics.find(SHARE_GROUPS_TOPIC)
        found = []
        for partition in [] if topic is None else topic.partitions:
            server.logs.opener.open_now(partition)
            log = partition.opened_log
            if log is None:
                continue
            offset, reader = self._read.get(partition.index, (0, DeliveryReader()))
            for record in partition_records(log, offset):
                found += reader.read(record.key, record.value, record.timestamp_ms)
            self._read[partition.index] = log.log_end_offset, reader
        named = []
        for each in sorted(found, key=lambda each: each.at_ms):
            read = server.topics.by_id.get(each.key.topic_id)
            if each.key.group_id == self._group_id and read is not None:
                named.append(EndedDelivery(each.at_ms, read.name, each.key.partition, *each[2:]))
        return named


class Archived:
    """Whether a share group has given some records up, asked again and again."""

    def __init__(self, group_id: str, offsets: Mapping[Partition, int]) -> None:
        """Wait for records by topic and partition."""
        self._log = DeliveryLog(group_id)
        self._waits = dict(offsets)

    def holds(self, server: Broker) -> bool:
        """Return whether all of them are archived now; that is final."""
        for each in self._log.read_on(server):
            offset = self._waits.get((each.topic, each.partition), -1)
            is_it = each.first_offset <= offset <= each.last_offset
            if is_it and each.became == ARCHIVED.name:
                del self._waits[each.topic, each.partition]
        return not self._waits
