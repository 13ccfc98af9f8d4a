"""Consumer groups for unit tests: changing topics, heartbeats by keyword, a log to load again."""

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.coordinator.groups.config import (
    ConsumerGroupConfig,
    ConsumerSettings,
    ConsumerSettingsTable,
)
from coterie.coordinator.groups.consumer.group import ConsumerGroup
from coterie.coordinator.groups.recorded.records import RecordedGroups
from coterie.coordinator.kernel.effects import Effects
from coterie.coordinator.kernel.request import RequestContext
from coterie.coordinator.topic_image import TopicChange
from coterie.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatTopicPartitions,
)
from coterie.protocol.messages.log_records import (
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from coterie.protocol.messages.record_types import UnknownKey
from coterie.protocol.wire import Message
from tests.unit.coordinator.harness import UnitHarness

# The partitions of each topic id.
Owned = Mapping[bytes, Iterable[int]]

REBALANCE_MS = 300_000


def topic_id(name: str, life: int = 0) -> bytes:
    """Return the id of a topic; one that was deleted and created again has another life."""
    return name.encode()[:15].ljust(15, b".") + bytes([life])


class ConsumerHarness(UnitHarness):
    """A coordinator with topics, whose appends are acknowledged at once unless `holds` is set.

    Attributes:
        holds: whether appends stay pending.
        written: key and value of every record of an append, batch by batch.
    """

    def __init__(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        settings: ConsumerSettings | None = None,
        consumer: Mapping[str, Any] | None = None,
        **others: Any,
    ) -> None:
        self.holds = False
        self.written: list[list[tuple[Message, Message | None]]] = []
        own = ConsumerSettings(assignment_interval_ms=0) if settings is None else settings
        config = ConsumerGroupConfig(settings=ConsumerSettingsTable(own), **(consumer or {}))
        super().__init__(consumer=config, **others)
        for name, count in (topics or {}).items():
            self.create_topic(name, count)

    def consumer_group(self, group_id: str = "g") -> ConsumerGroup:
        """Return a consumer group that must exist."""
        group = self.coordinator.group(group_id)
        assert isinstance(group, ConsumerGroup), group
        return group

    # -- topics ------------------------------------------------------------------------------------

    def create_topic(self, name: str, count: int, life: int = 0) -> None:
        """Create a topic, or let one grow."""
        self.put_topic(name, topic_id(name, life), count)

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        before = self.topics.image.by_name[name]
        self.topics.remove(name)
        self.carry_out(self.coordinator.topics_changed([TopicChange(before, None)], self.now_ms))

    # -- requests ----------------------------------------------------------------------------------

    def handle(self, request: Message, context: RequestContext) -> Effects[Any]:
        """See `CoordinatorHarness`."""
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            return self.coordinator.consumer_group_heartbeat(self.now_ms, request, context)
        return super().handle(request, context)

    def carry_out(self, effects: Effects[Any], to: Any = None) -> None:
        """See `CoordinatorHarness`; appends are acknowledged at once unless `holds` is set."""
        self.written += [list(each.records) for each in effects.appends]
        super().carry_out(effects, to)
        if not self.holds:
            for partition in {each.partition for each in effects.appends}:
                self.store(partition)

    def beat(
        self,
        member_id: str,
        epoch: int,
        owned: Owned | None = None,
        *,
        group_id: str = "g",
        **fields: Any,
    ) -> Any:
        """Send a ConsumerGroupHeartbeat; return its response, if there is one yet."""
        if epoch == 0:
            fields = {"rebalance_timeout_ms": REBALANCE_MS, **fields}
            owned = {} if owned is None else owned
        request = ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id=member_id,
            member_epoch=epoch,
            topic_partitions=None if owned is None else told(owned),
            **fields,
        )
        return self.send(request, 1, f"beat {member_id}")

    def enter(self, member_id: str, *names: str, **fields: Any) -> Any:
        """Let a member join; return the response."""
        return self.beat(member_id, 0, subscribed_topic_names=list(names), **fields)

    def settle(self, *member_ids: str, group_id: str = "g") -> None:
        """Let members send heartbeats until each of them is where its target is."""
        group = self.consumer_group(group_id)
        for _ in range(10):
            for member_id in member_ids:
                member = group.members[member_id]
                answer = self.beat(member_id, member.epoch, member.assigned, group_id=group_id)
                assert not answer.error_code, answer
            if group.state_name == "Stable":
                return
        raise AssertionError(f"{group} does not come to rest")

    # -- the log -----------------------------------------------------------------------------------

    def load(self, *records: tuple[Message, Message | None] | tuple[bytes, bytes | None]) -> None:
        """Start a new coordinator from a log with these records."""
        self.logs[0].durable = [
            (
                key if isinstance(key, bytes) else encode_key(key),
                value if value is None or isinstance(value, bytes) else encode_value(value),
            )
            for key, value in records
        ]
        self.restart()

    def replayed(self) -> dict[str, dict[str, Any]]:
        """Return what the log says of each consumer group, pending records included."""
        records = RecordedGroups(ConsumerGroup)
        pairs = [*self.logs[0].durable]
        pairs += [pair for batch in self.logs[0].pending for pair in batch.pairs]
        for raw_key, raw_value in pairs:
            key = decode_key(raw_key)
            if type(key) in records.keys:
                assert not isinstance(key, UnknownKey)
                records.apply(key, decode_value(key, raw_value))
        return {group_id: image(group) for group_id, group in records.groups.items()}

    def live(self) -> dict[str, dict[str, Any]]:
        """Return what is in memory of each consumer group."""
        groups = self.coordinator.shards[0].groups
        return {
            group_id: image(group)
            for group_id, group in groups.items()
            if isinstance(group, ConsumerGroup)
        }


def image(group: ConsumerGroup) -> dict[str, Any]:
    """Return everything that follows from the records of a group."""
    members = {
        member_id: (
            member.subscription, member.names, member.current, member.epoch,
            member.previous_epoch, member.state, member.assigned, member.pending,
        )
        for member_id, member in group.members.items()
    }  # fmt: skip
    names = (
        "metadata", "has_old_metadata", "target_metadata", "static_members",
        "target_values", "regexes", "owners", "by_name", "by_regex", "protocols", "classic_count",
        "unlogged",

    )  # fmt: skip
    return {"members": members, **{name: _copy(getattr(group, name)) for name in names}}


def _copy(value: Any) -> Any:
    return {key: _copy(each) for key, each in value.items()} if isinstance(value, dict) else value


def told(owned: Owned) -> list[HeartbeatTopicPartitions]:
    """Return partitions as a heartbeat has them."""
    return [
        HeartbeatTopicPartitions(topic_id=each, partitions=sorted(indexes))
        for each, indexes in owned.items()
    ]


def assigned(response: Any) -> dict[bytes, list[int]] | None:
    """Return the assignment of a response; None if it has none."""
    if response.assignment is None:
        return None
    return {each.topic_id: each.partitions for each in response.assignment.topic_partitions}
