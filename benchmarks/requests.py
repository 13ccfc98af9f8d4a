"""The requests of the load generator, in the versions agreed with one broker.

`Requests` picks for each API the best version that both sides have. An API without one raises
`NotServed` with the reason, which the tables show as "n/a". The versions are those of today's
clients, and the last inflexible ones for a broker that reads only those.

Encoding costs a few microseconds, so a steady load builds its requests before the measured time and
sends the same bytes again and again (`steady.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from coterie.client.errors import error_name
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import request_class, response_class
from coterie.protocol.errors import ErrorCode
from coterie.protocol.frames import decode_response_header, encode_request_header
from coterie.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
    encode_assignment,
    encode_subscription,
)
from coterie.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from coterie.protocol.messages.delete_groups import DeleteGroupsRequest
from coterie.protocol.messages.fetch import (
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
)
from coterie.protocol.messages.find_coordinator import FindCoordinatorRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupRequestMember
from coterie.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from coterie.protocol.messages.produce import (
    ProduceRequest,
    ProduceRequestPartition,
    ProduceRequestTopic,
)
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from coterie.protocol.wire import Message, Struct

CLIENT_ID = "bench"
PROTOCOL_TYPE = "consumer"
PROTOCOL_NAME = "range"

# Long enough that no member expires in a scenario without heartbeats, short enough that the groups
# that an aborted run leaves on a peer expire within a minute.
SESSION_TIMEOUT_MS = 60_000
REBALANCE_TIMEOUT_MS = 60_000
CREATE_TOPIC_TIMEOUT_MS = 10_000
PRODUCE_TIMEOUT_MS = 10_000
ALL_REPLICAS = -1

# The versions that the generator can use, the best one first.
VERSIONS: Mapping[ApiKey, tuple[int, ...]] = {
    ApiKey.PRODUCE: (9, 8),
    # Later ones name topics by id.
    ApiKey.FETCH: (12, 11),
    ApiKey.API_VERSIONS: (0,),
    ApiKey.METADATA: (9, 8, 2),
    ApiKey.CREATE_TOPICS: (5, 4),
    ApiKey.FIND_COORDINATOR: (4, 3, 2),
    ApiKey.JOIN_GROUP: (9, 7, 6, 5),
    ApiKey.SYNC_GROUP: (5, 4, 3),
    ApiKey.HEARTBEAT: (4, 3),
    ApiKey.LEAVE_GROUP: (5, 4, 1),
    ApiKey.OFFSET_COMMIT: (8, 7),
    ApiKey.OFFSET_FETCH: (7, 6, 5),
    ApiKey.DELETE_GROUPS: (2, 1),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (1, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: (1,),
    ApiKey.STREAMS_GROUP_HEARTBEAT: (0,),
    ApiKey.SHARE_FETCH: (2,),
    ApiKey.SHARE_ACKNOWLEDGE: (2,),
}
# The APIs whose versions are reported with the figures.
MEASURED = (
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.LEAVE_GROUP,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
)

Assignments = list[SyncGroupRequestAssignment]

_LENGTH_BYTES = 4


class NotServed(Exception):  # noqa: N818 - the name says what is wrong
    """The broker serves no version of an API that the generator can use; the message says which."""


class Refused(Exception):  # noqa: N818 - the name says what happened
    """The broker answered a request of the set-up or of a scenario with an error."""

    def __init__(self, api: ApiKey, code: int) -> None:
        super().__init__(f"{api.kafka_name} was answered {error_name(code)}")
        self.code = code


def first_error(message: Struct) -> int:
    """Return the first error code of a response that is not NONE, at any depth, or NONE."""
    for name in message.fields_:
        value = getattr(message, name)
        if name == "error_code":
            if value != ErrorCode.NONE:
                return int(value)
        elif isinstance(value, list):
            for element in value:
                if isinstance(element, Struct) and (code := first_error(element)):
                    return code
    return ErrorCode.NONE


class AgreedApi:
    """One API in the version agreed with a broker: requests to frames, frames to responses."""

    __slots__ = ("_decode", "_encode", "_flexible_header", "_header", "api", "version")

    def __init__(self, api: ApiKey, version: int) -> None:
        request_type, response_type = request_class(api), response_class(api)
        self.api = api
        self.version = version
        # Members of large groups encode and decode while they are measured, so everything that is
        # the same for all frames is computed once.
        self._header = encode_request_header(request_type, version, 0, CLIENT_ID)
        self._encode = request_type.encoder(version)
        self._decode = response_type.decoder(version)
        self._flexible_header = response_type.has_flexible_header(version)

    def frame(self, request: Message) -> bytes:
        """Return the frame of a request, with correlation id 0."""
        body = self._header + self._encode(request)
        return len(body).to_bytes(_LENGTH_BYTES, "big") + body

    def response(self, frame: bytes) -> Any:
        """Decode the response in a whole frame, length included; its type is the API's."""
        end = len(frame)
        _, body = decode_response_header(frame, _LENGTH_BYTES, end, flexible=self._flexible_header)
        return self._decode(frame, body, end)


class Requests:
    """Builds requests in the versions agreed with one broker.

    Args:
        served: the lowest and the highest version of each API key in the broker's ApiVersions
            response.
        inflexible: use no flexible version, whatever the broker announced.
    """

    def __init__(self, served: Mapping[int, tuple[int, int]], *, inflexible: bool = False) -> None:
        self._served = served
        self._inflexible = inflexible
        self._agreed: dict[ApiKey, AgreedApi] = {}
        self._protocols: dict[str, list[JoinGroupRequestProtocol]] = {}

    def agreed(self, api: ApiKey) -> AgreedApi:
        """Return an API in the best version that both sides have.

        Raises:
            NotServed: there is none.
        """
        agreed = self._agreed.get(api)
        if agreed is None:
            agreed = self._agreed[api] = AgreedApi(api, self._best_version(api))
        return agreed

    def at(self, api: ApiKey, version: int) -> AgreedApi:
        """Return an API in one version.

        Raises:
            NotServed: the broker does not have it.
        """
        first, last = self._served.get(api, (0, -1))
        if not first <= version <= last:
            raise NotServed(f"{api.kafka_name} v{version} is not served")
        return AgreedApi(api, version)

    def _best_version(self, api: ApiKey) -> int:
        if api not in self._served:
            raise NotServed(f"{api.kafka_name} is not served")
        first, last = self._served[api]
        for version in VERSIONS[api]:
            usable = not (self._inflexible and request_class(api).is_flexible(version))
            if usable and first <= version <= last:
                return version
        versions = " or v".join(map(str, VERSIONS[api]))
        raise NotServed(
            f"{api.kafka_name} v{versions} is not served (the broker has v{first}-{last})"
        )

    def serves(self, api: ApiKey) -> bool:
        """Return whether the broker serves a version of the API that the generator can use."""
        try:
            self.agreed(api)
        except NotServed:
            return False
        return True

    def versions(self) -> dict[str, int]:
        """Return the agreed versions of the measured APIs, for the report."""
        return {api.kafka_name: self.agreed(api).version for api in MEASURED if self.serves(api)}

    def find_coordinator(self, group: str) -> bytes:
        """Build a FindCoordinator request for a group."""
        agreed = self.agreed(ApiKey.FIND_COORDINATOR)
        if agreed.version >= 4:
            return agreed.frame(FindCoordinatorRequest(coordinator_keys=[group]))
        return agreed.frame(FindCoordinatorRequest(key=group))

    def create_topic(self, topic: str, partitions: int) -> bytes:
        """Build a CreateTopics request for one topic with one replica."""
        request = CreateTopicsRequest(
            topics=[
                CreateTopicsRequestTopic(
                    name=topic, num_partitions=partitions, replication_factor=1
                )
            ],
            timeout_ms=CREATE_TOPIC_TIMEOUT_MS,
        )
        return self.agreed(ApiKey.CREATE_TOPICS).frame(request)

    def metadata(self, topic: str) -> bytes:
        """Build a Metadata request for one topic, which also creates it where that is allowed."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        return self.agreed(ApiKey.METADATA).frame(request)

    def join_group(self, group: str, member_id: str, topic: str) -> bytes:
        """Build a JoinGroup of a consumer of one topic; the first one has an empty `member_id`."""
        protocols = self._protocols.get(topic)
        if protocols is None:
            metadata = encode_subscription(ConsumerProtocolSubscription(topics=[topic]), 0)
            protocol = JoinGroupRequestProtocol(name=PROTOCOL_NAME, metadata=metadata)
            protocols = self._protocols[topic] = [protocol]
        request = JoinGroupRequest.of(
            group,
            SESSION_TIMEOUT_MS,
            REBALANCE_TIMEOUT_MS,
            member_id,
            None,
            PROTOCOL_TYPE,
            protocols,
            None,
        )
        return self.agreed(ApiKey.JOIN_GROUP).frame(request)

    def sync_group(
        self, group: str, generation: int, member_id: str, assignments: Assignments
    ) -> bytes:
        """Build a SyncGroup; a follower sends no assignments."""
        request = SyncGroupRequest.of(
            group, generation, member_id, None, PROTOCOL_TYPE, PROTOCOL_NAME, assignments
        )
        return self.agreed(ApiKey.SYNC_GROUP).frame(request)

    def heartbeat(self, group: str, generation: int, member_id: str) -> bytes:
        """Build a Heartbeat of a dynamic member."""
        request = HeartbeatRequest.of(group, generation, member_id, None)
        return self.agreed(ApiKey.HEARTBEAT).frame(request)

    def leave_group(self, group: str, member_id: str) -> bytes:
        """Build a LeaveGroup of one member."""
        agreed = self.agreed(ApiKey.LEAVE_GROUP)
        if agreed.version < 3:
            return agreed.frame(LeaveGroupRequest(group_id=group, member_id=member_id))
        members = [LeaveGroupRequestMember(member_id=member_id)]
        return agreed.frame(LeaveGroupRequest(group_id=group, members=members))

    def delete_groups(self, groups: list[str]) -> bytes:
        """Build a DeleteGroups of empty groups."""
        return self.agreed(ApiKey.DELETE_GROUPS).frame(DeleteGroupsRequest(groups_names=groups))

    def offset_commit(
        self, group: str, generation: int, member_id: str, topic: str, offset: int
    ) -> bytes:
        """Build a commit of one offset of partition 0, without metadata, by a member."""
        partition = OffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
        )
        return self.agreed(ApiKey.OFFSET_COMMIT).frame(request)

    def offset_fetch(self, group: str, topic: str) -> bytes:
        """Build an OffsetFetch of partition 0."""
        topics = [OffsetFetchRequestTopic(name=topic, partition_indexes=[0])]
        request = OffsetFetchRequest(group_id=group, topics=topics)
        return self.agreed(ApiKey.OFFSET_FETCH).frame(request)

    def produce(self, topic: str, partition: int, batch: bytes) -> bytes:
        """Build a Produce of one batch, to be acknowledged by all replicas."""
        partitions = [ProduceRequestPartition(index=partition, records=batch)]
        request = ProduceRequest(
            acks=ALL_REPLICAS,
            timeout_ms=PRODUCE_TIMEOUT_MS,
            topic_data=[ProduceRequestTopic(name=topic, partition_data=partitions)],
        )
        return self.agreed(ApiKey.PRODUCE).frame(request)

    def fetch(self, topic: str, partition: int, max_bytes: int) -> bytes:
        """Build a Fetch of a partition from its start, without a session."""
        of_partition = FetchRequestPartition(
            partition=partition, fetch_offset=0, partition_max_bytes=max_bytes
        )
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=max_bytes,
            topics=[FetchRequestTopic(topic=topic, partitions=[of_partition])],
        )
        return self.agreed(ApiKey.FETCH).frame(request)

    def check(self, api: ApiKey, response: bytes) -> None:
        """Raise `Refused` if a response of an API has an error."""
        if code := first_error(self.agreed(api).response(response)):
            raise Refused(api, code)


def assignments(member_ids: Iterable[str], topic: str) -> Assignments:
    """Build what a leader sends in SyncGroup: one partition for each member, in their order."""
    return [
        SyncGroupRequestAssignment(
            member_id=member_id,
            assignment=encode_assignment(
                ConsumerProtocolAssignment(
                    assigned_partitions=[TopicPartition(topic=topic, partitions=[partition])]
                ),
                0,
            ),
        )
        for partition, member_id in enumerate(member_ids)
    ]
