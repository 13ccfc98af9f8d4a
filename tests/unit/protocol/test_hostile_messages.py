"""Malicious messages are refused, with their reason, before the memory they claim is allocated.

The limit is that no frame costs more than 8 MiB plus twice its own size [framing/element-limit].

Rules: [framing/trailing-bytes], [framing/malformed-frame].
"""

import tracemalloc
from collections.abc import Callable

import pytest

from coterie.protocol.errors import MalformedFrame
from coterie.protocol.fields import Declaration
from coterie.protocol.messages.fetch import FetchRequest
from coterie.protocol.messages.heartbeat import HeartbeatRequest
from coterie.protocol.messages.join_group import JoinGroupRequest
from coterie.protocol.messages.metadata import MetadataRequest, MetadataResponse
from coterie.protocol.messages.offset_commit import OffsetCommitRequest
from coterie.protocol.messages.offset_fetch import OffsetFetchRequest
from coterie.protocol.primitives import MAX_STRING_BYTES
from coterie.protocol.schema import FieldType, fields_of
from coterie.protocol.wire import REQUEST_ELEMENT_BUDGET, Message
from tests.codecs.catalogue import REQUESTS, pair_id
from tests.codecs.slow import uvarint

_MIB = 2**20
_MILLION = 1_000_000


def _peak_bytes(action: Callable[[], object]) -> int:
    """Return the peak memory of an action, in bytes."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _refused(cls: type[Message], data: bytes, version: int, reason: str) -> None:
    def decode() -> None:
        with pytest.raises(MalformedFrame, match=reason):
            cls.decode(data, version)

    decode()  # the first call compiles the codec
    assert _peak_bytes(decode) < 100_000 + 2 * len(data)


_MILLION_VARINT = uvarint(_MILLION + 1)
_MILLION_INT = _MILLION.to_bytes(4, "big")
_COMMIT_V2 = b"\x00\x01g\x00\x00\x00\x01\x00\x01m" + b"\xff" * 8
# A JoinGroup v0 that ends before the metadata of the first protocol.
_JOIN_V0 = bytes(10) + b"\x00\x00\x00\x01\x00\x00"
_COMMIT_V8 = b"\x02g\x00\x00\x00\x01\x02m\x00"


@pytest.mark.parametrize(
    ("cls", "version", "data", "reason"),
    [
        (MetadataRequest, 1, _MILLION_INT, r"topics claims 1000000 elements where 0 bytes"),
        (MetadataRequest, 9, _MILLION_VARINT + b"xx", r"topics claims 1000000 elements where 2"),
        (MetadataRequest, 0, b"\x7f\xff\xff\xff", r"topics claims 2147483647 elements"),
        (MetadataRequest, 9, b"\xff\xff\xff\xff\x0f", r"topics claims 4294967294 elements"),
        (OffsetCommitRequest, 2, _COMMIT_V2 + _MILLION_INT, r"topics claims 1000000 elements"),
        (
            OffsetCommitRequest,
            8,
            _COMMIT_V8 + b"\x02\x02t" + _MILLION_VARINT,
            r"topics\[\]\.partitions claims 1000000 elements where 0 bytes",
        ),
        (
            OffsetFetchRequest,
            8,
            b"\x02\x02g\x02\x02t" + _MILLION_VARINT + bytes(100),
            r"partition_indexes claims 1000000 elements where 100 bytes",
        ),
    ],
)
def test_counts_that_the_frame_cannot_hold_are_refused(
    cls: type[Message], version: int, data: bytes, reason: str
) -> None:
    _refused(cls, data, version, reason)


@pytest.mark.parametrize(
    ("cls", "version", "data", "reason"),
    [
        (MetadataRequest, 0, b"\xff\xff\xff\xff", r"topics is null"),
        (MetadataRequest, 1, b"\xff\xff\xff\xfe", r"topics claims -2 elements"),
        (HeartbeatRequest, 0, b"\xff\xff", r"group_id is null"),
        (HeartbeatRequest, 0, b"\xff\xfe", r"group_id claims -2 bytes"),
        (HeartbeatRequest, 4, b"\x00", r"group_id is null"),
        (HeartbeatRequest, 0, b"\x7f\xffabc", r"group_id claims 32767 bytes where 3 are left"),
        (HeartbeatRequest, 4, b"\x05abc", r"group_id claims 4 bytes where 3 are left"),
        (JoinGroupRequest, 0, _JOIN_V0 + b"\xff\xff\xff\xfe", r"metadata claims -2 bytes"),
        (JoinGroupRequest, 0, _JOIN_V0 + b"\x7f\xff\xff\xff", r"metadata claims 2147483647 bytes"),
        (HeartbeatRequest, 4, b"\x80\x80\x80\x80\x80\x01", r"more than five bytes"),
        (HeartbeatRequest, 4, b"\xff\xff\xff\xff\x7f", r"exceeds 32 bits"),
        (HeartbeatRequest, 0, b"\x00\x01\xff\x00\x00\x00\x01\x00\x00", r"invalid start byte"),
    ],
)
def test_invalid_lengths_are_refused(
    cls: type[Message], version: int, data: bytes, reason: str
) -> None:
    _refused(cls, data, version, reason)


def test_compact_strings_have_kafkas_limit_too() -> None:
    text = "x" * MAX_STRING_BYTES
    fits = HeartbeatRequest(group_id=text, generation_id=1, member_id="").encode(4)
    assert HeartbeatRequest.decode(fits, 4).group_id == text
    beyond = HeartbeatRequest(group_id=text + "x", generation_id=1, member_id="").encode(4)
    _refused(HeartbeatRequest, beyond, 4, r"group_id claims 32768 bytes, at most 32767")


def test_bytes_are_limited_only_by_the_frame() -> None:
    data = _JOIN_V0 + (100_000).to_bytes(4, "big") + bytes(100_000)
    assert len(JoinGroupRequest.decode(data, 0).protocols[0].metadata) == 100_000


_HEARTBEAT_V4 = b"\x02g\x00\x00\x00\x01\x02m\x00"


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        (uvarint(_MILLION) + b"\x05\x00" * 10, "1000000 tagged fields"),
        (uvarint(65) + b"\x05\x00" * 65, "65 tagged fields"),
        (b"\xff\xff\xff\xff\x0f", "4294967295 tagged fields"),
        (b"\x01\x05\xff\xff\xff\xff\x0f", "a tagged field ends at byte"),
        (b"\x01\x05\x02a", "a tagged field ends at byte"),
        (b"\x02\x05\x00", "index out of range"),
    ],
)
def test_too_many_or_too_large_tags_are_refused(tags: bytes, reason: str) -> None:
    _refused(HeartbeatRequest, _HEARTBEAT_V4 + tags, 4, reason)


def test_a_million_complete_tags_are_refused() -> None:
    _refused(
        HeartbeatRequest,
        _HEARTBEAT_V4 + uvarint(_MILLION) + b"\x05\x00" * _MILLION,
        4,
        "1000000 tagged fields",
    )


def test_sixty_four_unknown_tags_are_skipped() -> None:
    data = _HEARTBEAT_V4 + b"\x40" + b"\x05\x03abc" * 64
    assert HeartbeatRequest.decode(data, 4).member_id == "m"


@pytest.mark.parametrize(
    ("tag", "reason"),
    [
        (b"\x00\x7f\x02x", r"tag claims 127 bytes where"),  # exceeds the message
        (b"\x00\x05\x02xyzw", r"cluster_id has 3 bytes left over"),  # larger than its value
        (b"\x00\x01\x02x", r"cluster_id is cut off: 1 bytes"),  # smaller than its value
        (b"\x01\x02\x00\x00" + bytes(20), r"replica_state is cut off: 11 bytes"),
    ],
)
def test_a_known_tag_of_a_wrong_size_is_refused(tag: bytes, reason: str) -> None:
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[])
    data = request.encode(15)
    assert data[-1:] == b"\x00"
    with pytest.raises(MalformedFrame, match=reason):
        FetchRequest.decode(data[:-1] + b"\x01" + tag, 15)


def _commit(topics: int, partitions: int) -> bytes:
    """Return an OffsetCommit v2 of so many topics with so many partitions each."""
    partition = bytes(12) + b"\xff\xff"
    topic = b"\x00\x00" + partitions.to_bytes(4, "big") + partition * partitions
    return _COMMIT_V2 + topics.to_bytes(4, "big") + topic * topics


@pytest.mark.parametrize(
    ("topics", "partitions"), [(1, 20_000), (20_001, 0), (10_001, 1), (200, 100)]
)
def test_nested_arrays_share_one_element_limit(topics: int, partitions: int) -> None:
    data = _commit(topics, partitions)
    assert topics * partitions + topics > REQUEST_ELEMENT_BUDGET
    with pytest.raises(MalformedFrame, match="exceeds the elements one message may hold"):
        OffsetCommitRequest.decode(data, 2)
    assert _peak_bytes(lambda: _try_to_decode(OffsetCommitRequest, data, 2)) < 8 * _MIB + 2 * len(
        data
    )


def test_a_request_at_the_element_limit_is_decoded() -> None:
    assert len(OffsetCommitRequest.decode(_commit(100, 199), 2).topics) == 100


def test_responses_have_room_for_large_clusters() -> None:
    partition = bytes(10) + b"\x00\x00\x00\x00" * 2
    topic = b"\x00\x00\x00\x01t" + (25_000).to_bytes(4, "big") + partition * 25_000
    data = bytes(4) + b"\x00\x00\x00\x01" + topic
    (read,) = MetadataResponse.decode(data, 0).topics
    assert len(read.partitions) == 25_000


def _try_to_decode(cls: type[Message], data: bytes, version: int) -> None:
    try:
        cls.decode(data, version)
    except MalformedFrame:
        return


# The elements of a dense request. The full number shows the same, but takes ten times as long.
_DENSE = REQUEST_ELEMENT_BUDGET // 10


def _dense(cls: type[Message], version: int) -> bytes | None:
    """Return a request with many elements of the smallest encoding; None if it has no array.

    They are in the innermost of the first arrays, where objects are largest in memory.
    """
    flexible = cls.is_flexible(version)
    path = _first_arrays(cls, version)
    return _fill(cls, version, flexible, path) if path else None


def _first_arrays(cls: type[Declaration], version: int) -> list[str]:
    """Return the names of the first array of structures, of the first one in it, and so on."""
    arrays = [
        field
        for field in fields_of(cls)
        if field.present(version) and field.declared.tag is None and field.type.element is not None
    ]
    for field in arrays:
        assert field.type.element is not None
        inner = field.type.element.struct
        if inner is not None:
            return [field.name, *_nested_arrays(inner, version)]
    return [field.name for field in arrays[:1]]


def _nested_arrays(cls: type[Declaration], version: int) -> list[str]:
    path = _first_arrays(cls, version)
    elements = {field.name: field.type.element for field in fields_of(cls)}
    element = elements[path[0]] if path else None
    return path if element is not None and element.struct is not None else []


def _fill(cls: type[Declaration], version: int, flexible: bool, path: list[str]) -> bytes:
    out = b""
    for field in fields_of(cls):
        if not field.present(version) or field.declared.tag is not None:
            continue
        if path and field.name == path[0]:
            assert field.type.element is not None
            # All but the innermost array have one element.
            count = 1 if len(path) > 1 else _DENSE
            out += uvarint(count + 1) if flexible else count.to_bytes(4, "big")
            out += _smallest(field.type.element, version, flexible, path[1:]) * count
        elif field.type.struct is not None and field.nullable(version):
            out += b"\xff"
        else:
            out += _smallest(field.type, version, flexible, [])
    return out + (b"\x00" if flexible else b"")


def _smallest(kind: FieldType, version: int, flexible: bool, path: list[str]) -> bytes:
    if kind.struct is not None:
        return _fill(kind.struct, version, flexible, path)
    if kind.element is not None:
        return b"\x01" if flexible else bytes(4)
    assert kind.wire is not None
    if kind.wire.struct:
        return b"\x7f" * kind.wire.size  # numbers for which Python has no shared object
    if flexible:
        return b"\x01"
    return bytes(2 if kind.wire.kind == "string" else 4)


_WITHOUT_ARRAYS = {
    "AddOffsetsToTxnRequest",
    "ApiVersionsRequest",
    "DescribeAclsRequest",
    "DescribeClusterRequest",
    "EndTxnRequest",
    "ExpireDelegationTokenRequest",
    "GetTelemetrySubscriptionsRequest",
    "HeartbeatRequest",
    "InitProducerIdRequest",
    "PushTelemetryRequest",
    "RemoveRaftVoterRequest",
    "RenewDelegationTokenRequest",
    "SaslAuthenticateRequest",
    "SaslHandshakeRequest",
    "UnregisterBrokerRequest",
}


@pytest.mark.parametrize("cls", REQUESTS, ids=pair_id)
def test_the_densest_request_stays_within_the_limit(cls: type[Message]) -> None:
    version = cls.versions.last
    data = _dense(cls, version)
    if data is None:
        assert cls.__name__ in _WITHOUT_ARRAYS
        return
    cls.decode(data, version)
    peak = _peak_bytes(lambda: cls.decode(data, version))
    assert peak < 8 * _MIB * _DENSE // REQUEST_ELEMENT_BUDGET + 2 * len(data)
