"""Our codecs against those of kafka-python, kio and aiokafka, byte for byte.

For every message and version of a peer: it decodes our bytes to the same values, and encodes the
same values to our bytes.
"""

from functools import cache
from typing import Any

import pytest

from coterie.protocol.api_keys import OLDEST_VERSIONS, SERVED_VERSIONS, ApiKey
from coterie.protocol.authorized_operations import AUTHORIZED_OPERATIONS_OMITTED
from coterie.protocol.wire import (
    ZERO_UUID,
    Int16,
    Int32,
    Message,
    String,
    message,
    since,
)
from tests.codecs.catalogue import MESSAGES, pair_id, pairs, versions_of
from tests.codecs.instances import RandomValues, build, project
from tests.codecs.peers import Peer
from tests.codecs.peers.aiokafka_codec import Aiokafka
from tests.codecs.peers.kafka_python import KafkaPython
from tests.codecs.peers.kio_codec import Kio

_INSTANCES = 10
_PEERS = {peer.name: peer for peer in (KafkaPython, Kio, Aiokafka)}

# Versions that no codec on PyPI has yet. DeleteGroups v3 is new in Kafka 4.4; log records are
# compared with bytes of Kafka's own serializer in tests/unit/protocol/test_log_records.py.
_WITHOUT_PEER = {
    # Equal to version 1, which has peers.
    "AlterReplicaLogDirsRequest": [0],
    "AlterReplicaLogDirsResponse": [0],
    "DescribeLogDirsRequest": [0],
    "DescribeLogDirsResponse": [0],
    "CreateDelegationTokenRequest": [0],
    "CreateDelegationTokenResponse": [0],
    "DescribeDelegationTokenRequest": [0],
    "DescribeDelegationTokenResponse": [0],
    "ExpireDelegationTokenRequest": [0],
    "ExpireDelegationTokenResponse": [0],
    "RenewDelegationTokenRequest": [0],
    "RenewDelegationTokenResponse": [0],
    "WriteTxnMarkersRequest": [0],
    "WriteTxnMarkersResponse": [0],
    "DeleteGroupsRequest": [3],
    "DeleteGroupsResponse": [3],
    "GroupMetadataKey": [0],
    "GroupMetadataValue": [0, 1, 2, 3, 4],
    "OffsetCommitKey": [0],
    "OffsetCommitValue": [0, 1, 2, 3, 4],
    # Asked for by followers only, at that time; compared with Kafka 2.8.2.
    "OffsetForLeaderEpochRequest": [0, 1],
    "OffsetForLeaderEpochResponse": [0, 1],
    # Log records, compared with Kafka's own bytes in tests/unit/transactions/test_records.py.
    "TransactionLogKey": [0],
    "TransactionLogValue": [0, 1],
}
# Only kio has these; our answers to them were compared with those of Kafka 4.3.1.
_ONE_PEER = (
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    # Compared with Kafka's bytes in tests/unit/protocol/test_share_messages.py, too.
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ApiKey.SHARE_GROUP_HEARTBEAT,
    ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.SHARE_FETCH,
    ApiKey.SHARE_ACKNOWLEDGE,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    ApiKey.STREAMS_GROUP_DESCRIBE,
)


@cache
def _peer(name: str) -> Peer:
    return _PEERS[name]()


def _compare(peer: Peer, cls: type[Message], version: int) -> None:
    for number in range(_INSTANCES):
        full = build(cls, RandomValues((cls.__name__, number)))
        ours = peer.adapt(project(full, version), version)
        data = ours.encode(version)
        assert peer.decode(cls, data, version) == ours, f"v{version}"
        assert peer.encode(ours, version).hex() == data.hex(), f"v{version}"


@pytest.mark.parametrize("name", _PEERS)
@pytest.mark.parametrize("cls", MESSAGES, ids=pair_id)
def test_bytes_and_values_agree(cls: type[Message], name: str) -> None:
    peer = _peer(name)
    for version in versions_of(cls):
        if peer.supports(cls, version):
            _compare(peer, cls, version)


@pytest.mark.parametrize("cls", MESSAGES, ids=pair_id)
def test_nulls_and_defaults_are_those_of_kafkas_schemas(cls: type[Message]) -> None:
    peer = _peer(KafkaPython.name)
    assert isinstance(peer, KafkaPython)
    for version in versions_of(cls):
        if not peer.supports(cls, version):
            continue
        for path, ours, theirs in peer.fields(cls, version):
            nullable = theirs.nullable_for_version_q(version)
            assert ours.nullable(version) == nullable, f"{path} v{version}"
            if not ours.required:
                assert ours.default == _default(theirs), f"{path} v{version}"


def _default(theirs: Any) -> Any:
    """Return kafka-python's default of a field as our declarations express it.

    A nullable string without a default is null here, but "" in Kafka's generator.
    """
    if theirs._type_str == "string" and theirs._nullable_versions and "default" not in theirs._json:
        return None
    if theirs._type_str == "bitfield":
        return AUTHORIZED_OPERATIONS_OMITTED
    if theirs._type_str == "uuid":
        return ZERO_UUID
    return theirs.default


def test_all_but_the_newest_versions_have_at_least_two_peers() -> None:
    peers = [_peer(name) for name in _PEERS]
    without: dict[str, list[int]] = {}
    for cls, version in pairs(MESSAGES):
        known = sum(peer.supports(cls, version) for peer in peers)
        if known == 1 and cls.api_key not in _ONE_PEER:
            # Not all clients can speak what Kafka 4 has removed.
            assert cls.api_key in OLDEST_VERSIONS, f"{cls.__name__} v{version} has only one peer"
            assert version < SERVED_VERSIONS[ApiKey(cls.api_key)][0]
        if not known:
            without.setdefault(cls.__name__, []).append(version)
    print("versions without a peer:", without)
    # No client library has log records or Connect's payloads. tests/unit/protocol compares them
    # with Kafka's own bytes; those of the journal are our own.
    records = {
        cls.__name__
        for cls in MESSAGES
        if cls.__module__.endswith(
            (
                "_group_records",
                "_state_records",
                "_facts",
                "journal_records",
                "security_records",
                "connect_protocol",
            )
        )
    }
    others = {name: versions for name, versions in without.items() if name not in records}
    assert others == _WITHOUT_PEER


@message(api_key=ApiKey.HEARTBEAT, flexible=4)
class HeartbeatRequest(Message):
    """A Heartbeat with two fields exchanged."""

    group_id: String
    member_id: String
    generation_id: Int32
    group_instance_id: String | None = since(3, default=None)


@message(api_key=ApiKey.HEARTBEAT, flexible=3)
class HeartbeatResponse(Message):
    """A Heartbeat that is flexible one version too early."""

    throttle_time_ms: Int32 = since(1, default=0)
    error_code: Int16


@pytest.mark.parametrize("name", _PEERS)
@pytest.mark.parametrize(("cls", "version"), [(HeartbeatRequest, 1), (HeartbeatResponse, 3)])
def test_a_wrong_declaration_is_noticed(name: str, cls: type[Message], version: int) -> None:
    peer = _peer(name)
    if not peer.supports(cls, version):
        assert name == "aiokafka"
        return
    with pytest.raises((AssertionError, ValueError, TypeError)):
        _compare(peer, cls, version)
