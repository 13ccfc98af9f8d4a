"""The records of a share group, written as the coordinators do, into a data directory of a test."""

from coterie.coordinator.share_partition.states import RecordState, StateBatch
from coterie.coordinator.share_state.requests import ShareKey
from coterie.coordinator.share_state.share_state import ShareState
from coterie.protocol.java_hash import partition_for
from coterie.protocol.messages import log_records
from coterie.protocol.messages import share_group_records as records
from coterie.protocol.messages.share_facts import DeliveriesFailed, FailedDelivery
from coterie.protocol.messages.share_state_records import SHARE_STATE_RECORDS, ShareUpdateValue
from coterie.protocol.topic_names import SHARE_GROUPS_TOPIC
from coterie.protocol.wire import Message
from tests.pipeline.jobs.written import Directory

TOPIC_ID = bytes(15) + b"\x07"


class SharedGroup:
    """A share group that reads one topic."""

    def __init__(self, data: Directory, group_id: str, topic: str = "a") -> None:
        self.data, self.group_id, self.topic = data, group_id, topic
        self.epoch = 1
        self.states: dict[int, ShareState] = {}
        self._members: dict[str, list[int]] = {}

    def begin(self, at_ms: int, partitions: int, start_offset: int = 0) -> None:
        """Initialize the states of partitions, and record that."""
        for number in range(partitions):
            state = self.states[number] = ShareState(0, self.epoch, start_offset, at_ms)
            self._persist(number, *state.snapshot(self._key(number), at_ms), at_ms)
        topic = records.ShareStateTopicPartitions(
            topic_id=TOPIC_ID, topic_name=self.topic, partitions=list(range(partitions))
        )
        value = records.ShareGroupStatePartitionMetadataValue(
            initializing_topics=[], initialized_topics=[topic], deleting_topics=[]
        )
        key = records.ShareGroupStatePartitionMetadataKey(group_id=self.group_id)
        self._record(key, value, at_ms)

    def members(self, at_ms: int, **assigned: list[int]) -> None:
        """Let these members have partitions, in the next epoch; those not named have left."""
        group_id = self.group_id
        self.epoch += 1
        known = self._members
        for name in assigned.keys() - known.keys():
            value = records.ShareGroupMemberMetadataValue(
                rack_id=None,
                client_id=f"client-{name}",
                client_host="/h",
                subscribed_topic_names=[self.topic],
            )
            key = records.ShareGroupMemberMetadataKey(group_id=group_id, member_id=name)
            self._record(key, value, at_ms)
        for name in known.keys() - assigned.keys():
            for of in (
                records.ShareGroupCurrentMemberAssignmentKey,
                records.ShareGroupTargetAssignmentMemberKey,
                records.ShareGroupMemberMetadataKey,
            ):
                self._record(of(group_id=group_id, member_id=name), None, at_ms)
        self._record(
            records.ShareGroupMetadataKey(group_id=group_id),
            records.ShareGroupMetadataValue(epoch=self.epoch, metadata_hash=1),
            at_ms,
        )
        for name, numbers in assigned.items():
            topics = [records.ShareTopicPartitions(topic_id=TOPIC_ID, partitions=numbers)]
            target = records.ShareGroupTargetAssignmentMemberKey(group_id=group_id, member_id=name)
            self._record(
                target,
                records.ShareGroupTargetAssignmentMemberValue(topic_partitions=topics),
                at_ms,
            )
        self._record(
            records.ShareGroupTargetAssignmentMetadataKey(group_id=group_id),
            records.ShareGroupTargetAssignmentMetadataValue(
                assignment_epoch=self.epoch, assignment_timestamp=at_ms
            ),
            at_ms,
        )
        for number, (name, numbers) in enumerate(assigned.items(), 1):
            current = records.ShareGroupCurrentMemberAssignmentKey(
                group_id=group_id, member_id=name
            )
            self._record(
                current,
                records.ShareGroupCurrentMemberAssignmentValue(
                    member_epoch=self.epoch,
                    previous_member_epoch=self.epoch - 1,
                    state=0,
                    assigned_partitions=[
                        records.ShareTopicPartitions(topic_id=TOPIC_ID, partitions=numbers)
                    ],
                ),
                at_ms + 1_000 * number,
            )
        self._members = assigned

    def ended(
        self, at_ms: int, partition: int, *batches: tuple[int, int, RecordState, int]
    ) -> None:
        """Persist what became of records."""
        state = self.states[partition]
        start = state.start_offset
        found = [StateBatch(*each) for each in batches]
        key, value = state.update(self._key(partition), 0, start, 0, found)
        assert isinstance(value, ShareUpdateValue)
        state.take_update(value)
        self._persist(partition, key, value, at_ms)

    def failed(self, at_ms: int, partition: int, cause: str, *deliveries: FailedDelivery) -> None:
        """Record deliveries that failed in the journal."""
        fact = DeliveriesFailed(
            at_ms=at_ms,
            topic=self.topic,
            partition=partition,
            cause=cause,
            deliveries=list(deliveries),
        )
        self.data.facts(self.group_id, fact)

    def _key(self, partition: int) -> ShareKey:
        return ShareKey(self.group_id, TOPIC_ID, partition)

    def _persist(self, partition: int, key: Message, value: Message | None, at_ms: int) -> None:
        home = partition_for(f"{self.group_id}:{partition}", self.data.log_partitions)
        encoded = None if value is None else SHARE_STATE_RECORDS.encode_value(value)
        name = f"{SHARE_GROUPS_TOPIC}-{home}"
        self.data.append(name, SHARE_STATE_RECORDS.encode_key(key), encoded, at_ms)

    def _record(self, key: Message, value: Message | None, at_ms: int) -> None:
        encoded = None if value is None else log_records.encode_value(value)
        home = self.data.home(self.group_id)
        self.data.append(home, log_records.encode_key(key), encoded, at_ms)
