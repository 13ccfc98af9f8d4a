"""The machine of streams groups (KIP-1071), on the coordinator of Coterie.

An instance of Kafka Streams with one thread is a member, and a task is one partition of a topic:
the topology has a subtopology for each topic, without state, so a task needs nothing restored. The
coordinator assigns tasks as it assigns partitions of a consumer group; what differs is its
assignor, and that the first assignment of an empty group waits for more members.
"""

from typing import Any

from coterie.assignors.model import TopicPartition
from coterie.conversation.streams_member import StreamsMember
from coterie.coordinator.groups.config import (
    StreamsGroupConfig,
    StreamsSettings,
    StreamsSettingsTable,
)
from coterie.lab.environment import Environment
from coterie.lab.machines.consumer_group import EpochGroup, HeartbeatReader, coordinated_settings
from coterie.lab.machines.coordinator_host import GROUP, GroupHost
from coterie.lab.machines.group_member import MemberSettings, Versions
from coterie.lab.pods import Participant, Pod
from coterie.protocol.wire import Message

_DEFAULTS = StreamsSettings()
_VERSIONS = Versions(join=0, sync=0, heartbeat=0, leave=0, commit=9, fetch=9)
# Kafka Streams commits each 30 s.
_SETTINGS = MemberSettings("streams", (), _VERSIONS, commit_ms=30_000)


class StreamsMachine(EpochGroup):
    """A streams group and its coordinator.

    Attributes:
        settings: the configuration of its members.
    """

    def __init__(self, environment: Environment) -> None:
        parameters = environment.parameters
        delay_ms = parameters.initial_delay_ms
        chosen = _DEFAULTS._replace(
            session_timeout_ms=parameters.session_ms or _DEFAULTS.session_timeout_ms,
            heartbeat_interval_ms=parameters.heartbeat_ms or _DEFAULTS.heartbeat_interval_ms,
        )
        if delay_ms >= 0:
            chosen = chosen._replace(initial_rebalance_delay_ms=delay_ms)
        super().__init__(environment, StreamsGroupConfig(settings=StreamsSettingsTable(chosen)))
        self.settings = coordinated_settings(_SETTINGS, chosen, parameters)

    def participant(self, pod: Pod) -> Participant:
        """Return an instance."""
        return StreamsInstance(self.host, pod, self.settings, sorted(self.topic_ids))


class StreamsInstance(HeartbeatReader, StreamsMember):
    """An instance of Kafka Streams in a pod."""

    def __init__(
        self, host: GroupHost, pod: Pod, settings: MemberSettings, names: list[str]
    ) -> None:
        super().__init__(
            GROUP, f"{pod.identity} id", names=names, rebalance_ms=settings.rebalance_ms
        )
        self._begin(host, pod, settings)

    def next_beat(self) -> tuple[Message, bool]:
        """Return its next heartbeat; see `HeartbeatReader`."""
        request = self.heartbeat_request(self._owned)
        return request, request.active_tasks is not None

    def last_beat(self) -> Message:
        """Return the heartbeat with which it leaves; see `HeartbeatReader`."""
        return self.leave_request()

    def wanted_of(self, response: Any) -> frozenset[TopicPartition] | None:
        """Take an answer; see `HeartbeatReader`."""
        return self.take(response)
