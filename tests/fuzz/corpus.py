"""The frames that fuzzing starts from: whole requests of every API and version.

There are requests that make sense to a broker with a topic `t` and a group `g`, so that handlers
and the coordinators run: some written out, some of every API with sensible values. And there are
requests with arbitrary values in every field.
"""

import random
from collections.abc import Iterator
from typing import Any

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey, declared_versions
from coterie.protocol.apis import request_class
from coterie.protocol.frames import encode_request
from coterie.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from coterie.protocol.messages.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
)
from coterie.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from coterie.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.codecs.instances import RandomValues, build, project
from tests.fuzz.sensible import sensible
from tests.unit.server.produced import batch, fetch_request, produce_request

# Arbitrary requests for each version: enough for most arrays and nullable fields to occur both
# empty and filled.
_ARBITRARY = 3
# Sensible requests for each API, of its newest version and of one other.
_SENSIBLE = 4
# Larger frames take longer without finding more.
_LONGEST_BYTES = 2_000

_MEANINGFUL: list[Any] = [
    produce_request(batch(b"one", b"two")),
    produce_request(batch(b"one", producer=(1, 0, 0))),
    fetch_request((0, 0), max_wait_ms=10),
    fetch_request((0, 0), (1, 5), topic="__consumer_offsets"),
    fetch_request((0, 0), (1, 0), session_epoch=0),
    fetch_request((0, 1), session_id=1, session_epoch=1),
    ListOffsetsRequest(
        replica_id=-1,
        topics=[
            ListOffsetsRequestTopic(
                name="t", partitions=[ListOffsetsRequestPartition(partition_index=0, timestamp=-1)]
            )
        ],
    ),
    MetadataRequest(topics=[MetadataRequestTopic(name="t")]),
    JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id="",
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\1\0\1t\0\0\0\0")],
    ),
    SyncGroupRequest(
        group_id="g",
        generation_id=1,
        member_id="m",
        protocol_type="consumer",
        protocol_name="range",
        assignments=[SyncGroupRequestAssignment(member_id="m", assignment=b"a")],
    ),
    HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
    OffsetCommitRequest(
        group_id="g",
        member_id="",
        topics=[
            OffsetCommitRequestTopic(
                name="t",
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=0, committed_offset=5, committed_metadata="x"
                    )
                ],
            )
        ],
    ),
    CreateTopicsRequest(
        topics=[CreateTopicsRequestTopic(name="n", num_partitions=2, replication_factor=1)]
    ),
]


def frames() -> list[bytes]:
    """Return the corpus, which is the same in every run."""
    return [*_meaningful(), *_sensible(), *_arbitrary()]


def _meaningful() -> Iterator[bytes]:
    for request in _MEANINGFUL:
        first, last = declared_versions(ApiKey(type(request).api_key))
        for version in range(first, last + 1):
            yield encode_request(request, version, 7, "fuzz")


def _sensible() -> Iterator[bytes]:
    for api in SERVED_VERSIONS:
        first, last = declared_versions(api)
        cls = request_class(api)
        chance = random.Random(cls.__name__)
        for _ in range(_SENSIBLE):
            for version in (last, chance.randint(first, last)):
                request = project(sensible(cls, chance), version)
                frame = encode_request(request, version, 7, "fuzz")
                if len(frame) <= _LONGEST_BYTES:
                    yield frame


def _arbitrary() -> Iterator[bytes]:
    for api in SERVED_VERSIONS:
        first, last = declared_versions(api)
        cls = request_class(api)
        for version in range(first, last + 1):
            for number in range(_ARBITRARY):
                values = RandomValues(("fuzz", cls.__name__, version, number))
                frame = encode_request(project(build(cls, values), version), version, 7, "fuzz")
                if len(frame) <= _LONGEST_BYTES:
                    yield frame
