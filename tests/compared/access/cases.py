"""Requests of each API, in each version, of clients that lack one right at a time.

A case is a request that names several resources. Its clients have all rights that it needs, all but
one, and all but those on the last resource of each list. `resources` says what is needed; here is
only what the requests contain.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.apis import request_class
from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.fields import Declaration
from coterie.protocol.resources import ResourceType, resources
from coterie.protocol.schema import fields_of
from coterie.security.acl import CLUSTER_NAME
from coterie.server.authorization.checks import LOGIN_IS_ENOUGH

# A right: operation, type and name of the resource.
Right = tuple[AclOperation, ResourceType, str]

TOPICS = ["t1", "absent", "t2"]
GROUPS = ["g1", "g-absent", "g2"]
IDS = ["x1", "x-absent", "x2"]
_TOPIC, _GROUP, _CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
_ID = ResourceType.TRANSACTIONAL_ID
_NAMES = {_TOPIC: TOPICS, _GROUP: GROUPS, _CLUSTER: [CLUSTER_NAME], _ID: IDS}
_ZERO = "zero"
_RECORDS = "[{values: [a], keys: [k], time: 1000}]"

_TXN_RECORDS = f"{_RECORDS[:-2]}, producer: 900, epoch: 0, transactional: true}}]"


def _topics(key: str = "name", **fields: Any) -> list[dict[str, Any]]:
    return [{key: name, "topic_id": _id_of(name), **fields} for name in TOPICS]


def _id_of(name: str) -> str:
    return "unknown" if "absent" in name else f"@{name}"


def _shared(**fields: Any) -> list[dict[str, Any]]:
    return [{"topic_id": "@t1", "partitions": [{"partition": -1, **fields}]}]


def _configs(kinds: list[tuple[int, str]], **fields: Any) -> list[dict[str, Any]]:
    return [{"resource_type": kind, "resource_name": name, **fields} for kind, name in kinds]


_CONFIGURED = [(2, "t1"), (2, "absent"), (32, "g1"), (4, "1"), (4, ""), (8, "1"), (16, "m")]
_FILTER = {
    "resource_type_filter": 2, "resource_name_filter": "none", "pattern_type_filter": 3,
    "principal_filter": "null", "host_filter": "null", "operation": 1, "permission_type": 1,
}  # fmt: skip
_MEMBER = {"generation_id": 5, "member_id": "m", "group_id": "g1"}
_PRODUCER = {"transactional_id": "x1", "producer_id": 900, "producer_epoch": 0}

# The fields of a request, for the newest version; others take those that they have.
REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("Produce", {
        "transactional_id": "null", "acks": -1, "timeout_ms": 1000,
        "topic_data": _topics(partition_data=[{"index": 0, "records": _RECORDS}]),
    }),
    ("Produce", {
        "transactional_id": "x1", "acks": -1, "timeout_ms": 1000,
        "topic_data": _topics(partition_data=[{"index": 0, "records": _TXN_RECORDS}]),
    }),
    ("Produce", {
        "transactional_id": "x1", "acks": -1, "timeout_ms": 1000,
        "topic_data": _topics(partition_data=[{"index": 0, "records": _RECORDS}]),
    }),
    ("Fetch", {
        "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 100, "session_epoch": -1,
        "topics": _topics("topic", partitions=[
            {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0,
             "partition_max_bytes": 0}
        ]),
    }),
    ("Fetch", {
        "replica_id": 1, "replica_state": {"replica_id": 1, "replica_epoch": -1},
        "max_wait_ms": 0, "min_bytes": 1, "max_bytes": 100, "session_epoch": -1,
        "topics": _topics("topic", partitions=[
            {"partition": 9, "current_leader_epoch": -1, "fetch_offset": 0,
             "partition_max_bytes": 0}
        ]),
    }),
    ("ListOffsets", {
        "replica_id": -1,
        "topics": _topics(partitions=[
            {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -2}
        ]),
    }),
    ("Metadata", {
        "topics": [{"name": name} for name in TOPICS], "allow_auto_topic_creation": "false",
        "include_cluster_authorized_operations": "true",
        "include_topic_authorized_operations": "true",
    }),
    ("Metadata", {
        "topics": "null", "allow_auto_topic_creation": "false",
        "include_cluster_authorized_operations": "true",
        "include_topic_authorized_operations": "true",
    }),
    ("OffsetCommit", {
        "group_id": "g1", "generation_id_or_member_epoch": -1, "member_id": "",
        "retention_time_ms": -1,
        "topics": _topics(partitions=[
            {"partition_index": 0, "committed_offset": 4, "committed_metadata": "m"}
        ]),
    }),
    ("OffsetFetch", {
        "group_id": "g1", "topics": _topics(partition_indexes=[0]),
        "groups": [
            {"group_id": name, "member_id": "null", "member_epoch": -1,
             "topics": _topics(partition_indexes=[0])}
            for name in GROUPS
        ],
    }),
    ("OffsetFetch", {
        "group_id": "g1", "topics": "null",
        "groups": [
            {"group_id": name, "member_id": "null", "member_epoch": -1, "topics": "null"}
            for name in GROUPS
        ],
    }),
    ("FindCoordinator", {"key": "g1", "key_type": 0, "coordinator_keys": GROUPS}),
    ("FindCoordinator", {"key": "x1", "key_type": 1, "coordinator_keys": IDS}),
    ("JoinGroup", {
        "group_id": "g1", "session_timeout_ms": 1, "rebalance_timeout_ms": 1, "member_id": "m",
        "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": "0x00"}],
    }),
    ("Heartbeat", _MEMBER),
    ("LeaveGroup", {**_MEMBER, "members": [{"member_id": "m"}]}),
    ("SyncGroup", {**_MEMBER, "protocol_type": "consumer", "protocol_name": "range"}),
    ("SyncGroup", _MEMBER),
    ("DescribeGroups", {"groups": GROUPS, "include_authorized_operations": "true"}),
    ("ListGroups", {}),
    ("CreateTopics", {
        "topics": [
            {"name": name, "num_partitions": 1, "replication_factor": 1}
            for name in ("t1", "new1", "new2", "a b")
        ],
        "timeout_ms": 5000, "validate_only": "true",
    }),
    ("DeleteTopics", {
        "topics": [
            {"name": "null", "topic_id": "unknown"}, {"name": "absent", "topic_id": _ZERO},
            {"name": "t8", "topic_id": _ZERO}, {"name": "null", "topic_id": "@t9"},
        ],
        "topic_names": ["absent"], "timeout_ms": 5000,
    }),
    ("DeleteRecords", {
        "topics": _topics(partitions=[{"partition_index": 0, "offset": 0}]), "timeout_ms": 1000,
    }),
    ("InitProducerId", {
        "transactional_id": "null", "transaction_timeout_ms": 1000, "producer_id": -1,
        "producer_epoch": -1,
    }),
    ("InitProducerId", {
        "transactional_id": "x1", "transaction_timeout_ms": 0, "producer_id": -1,
        "producer_epoch": -1,
    }),
    ("OffsetForLeaderEpoch", {
        "replica_id": -1,
        "topics": _topics("topic", partitions=[
            {"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}
        ]),
    }),
    ("AddPartitionsToTxn", {
        **_PRODUCER, "topics": [{"name": name, "partitions": [0]} for name in TOPICS],
        "transactions": [
            {**_PRODUCER, "verify_only": "true",
             "topics": [{"name": name, "partitions": [0]} for name in TOPICS]}
        ],
    }),
    ("AddPartitionsToTxn", {
        **_PRODUCER, "topics": [{"name": name, "partitions": [0]} for name in ("t1", "t2")],
        "transactions": [
            {**_PRODUCER, "verify_only": "false",
             "topics": [{"name": name, "partitions": [0]} for name in ("t1", "t2")]}
        ],
    }),
    ("AddOffsetsToTxn", {**_PRODUCER, "group_id": "g1"}),
    ("EndTxn", {**_PRODUCER, "committed": "true"}),
    ("WriteTxnMarkers", {
        "markers": [
            {"producer_id": 900, "producer_epoch": -1, "transaction_result": "true",
             "topics": [{"name": name, "partition_indexes": [0]} for name in TOPICS],
             "coordinator_epoch": 0}
        ],
    }),
    ("TxnOffsetCommit", {
        **_PRODUCER, "group_id": "g1", "generation_id": 7, "member_id": "m",
        "topics": [
            {"name": name, "partitions": [
                {"partition_index": 0, "committed_offset": 4, "committed_metadata": "m"}
            ]}
            for name in TOPICS
        ],
    }),
    ("DescribeAcls", _FILTER),
    ("CreateAcls", {
        "creations": [
            {"resource_type": 2, "resource_name": "", "resource_pattern_type": 3,
             "principal": "User:a", "host": "*", "operation": 3, "permission_type": 3}
        ],
    }),
    ("DeleteAcls", {"filters": [_FILTER, _FILTER]}),
    ("DescribeConfigs", {
        "resources": _configs(_CONFIGURED, configuration_keys=["retention.ms"]),
    }),
    ("AlterConfigs", {
        "resources": _configs([(2, "t1"), (2, "absent"), (32, "g1"), (16, "m")], configs=[]),
        "validate_only": "true",
    }),
    ("IncrementalAlterConfigs", {
        "resources": _configs(_CONFIGURED, configs=[]), "validate_only": "true",
    }),
    ("AlterReplicaLogDirs", {
        "dirs": [
            {"path": "/none", "topics": [{"name": "absent", "partitions": [0]}]},
        ],
    }),
    ("DescribeLogDirs", {"topics": []}),
    ("CreatePartitions", {
        "topics": [{"name": name, "count": 2, "assignments": "null"} for name in TOPICS],
        "timeout_ms": 5000, "validate_only": "true",
    }),
    ("DeleteGroups", {"groups_names": ["g-absent", "g-absent-2"]}),
    ("ElectLeaders", {
        "election_type": 0, "timeout_ms": 5000,
        "topic_partitions": [{"topic": name, "partitions": [0]} for name in TOPICS],
    }),
    ("AlterPartitionReassignments", {
        "timeout_ms": 5000,
        "topics": [{"name": "absent", "partitions": [{"partition_index": 0, "replicas": [1]}]}],
    }),
    ("ListPartitionReassignments", {"timeout_ms": 5000, "topics": "null"}),
    ("OffsetDelete", {
        "group_id": "g1",
        "topics": [{"name": name, "partitions": [{"partition_index": 3}]} for name in TOPICS],
    }),
    ("DescribeClientQuotas", {"components": [], "strict": "false"}),
    ("AlterClientQuotas", {
        "entries": [
            {"entity": [{"entity_type": "user", "entity_name": "u"}],
             "ops": [{"key": "producer_byte_rate", "value": 1, "remove": "false"}]}
        ],
        "validate_only": "true",
    }),
    ("DescribeUserScramCredentials", {"users": [{"name": "nobody"}]}),
    ("AlterUserScramCredentials", {
        "deletions": [{"name": "nobody", "mechanism": 1}], "upsertions": [],
    }),
    ("DescribeQuorum", {
        "topics": [{"topic_name": "absent", "partitions": [{"partition_index": 0}]}],
    }),
    ("UpdateFeatures", {
        "timeout_ms": 5000, "validate_only": "true",
        "feature_updates": [
            {"feature": "none", "max_version_level": 1, "allow_downgrade": "false",
             "upgrade_type": 1}
        ],
    }),
    ("DescribeCluster", {"include_cluster_authorized_operations": "true", "endpoint_type": 1}),
    ("DescribeProducers", {
        "topics": [{"name": name, "partition_indexes": [7]} for name in [*TOPICS, "a b"]],
    }),
    ("UnregisterBroker", {"broker_id": 99}),
    ("DescribeTransactions", {"transactional_ids": IDS}),
    ("ListTransactions", {"state_filters": [], "producer_id_filters": [], "duration_filter": -1}),
    ("ConsumerGroupHeartbeat", {
        "group_id": "g-absent", "member_id": "AAAAAAAAAAAAAAAAAAAAAA", "member_epoch": 3,
        "rebalance_timeout_ms": -1, "subscribed_topic_names": TOPICS,
    }),
    ("ConsumerGroupDescribe", {"group_ids": GROUPS, "include_authorized_operations": "true"}),
    ("ListConfigResources", {"resource_types": [2]}),
    ("DescribeTopicPartitions", {
        "topics": [{"name": name} for name in TOPICS], "response_partition_limit": 100,
    }),
    ("DescribeTopicPartitions", {"topics": [], "response_partition_limit": 100}),
    ("AddRaftVoter", {
        "cluster_id": "none", "timeout_ms": 5000, "voter_id": 9, "voter_directory_id": "unknown",
        "listeners": [],
    }),
    ("RemoveRaftVoter", {"cluster_id": "none", "voter_id": 9, "voter_directory_id": "unknown"}),
    ("ShareGroupHeartbeat", {
        "group_id": "g-absent", "member_id": "AAAAAAAAAAAAAAAAAAAAAA", "member_epoch": 3,
        "subscribed_topic_names": TOPICS,
    }),
    ("ShareGroupDescribe", {"group_ids": GROUPS, "include_authorized_operations": "true"}),
    # Without a session nobody is told more.
    ("ShareFetch", {
        "group_id": "g1", "member_id": "m", "share_session_epoch": 1, "max_wait_ms": 0,
        "min_bytes": 1, "max_bytes": 100, "max_records": 1, "batch_size": 1,
        "topics": [], "forgotten_topics_data": [],
    }),
    ("ShareAcknowledge", {
        "group_id": "g1", "member_id": "m", "share_session_epoch": 1, "topics": [],
    }),
    ("InitializeShareGroupState", {
        "group_id": "g1",
        "topics": _shared(state_epoch=1, start_offset=0),
    }),
    ("ReadShareGroupState", {"group_id": "g1", "topics": _shared(leader_epoch=0)}),
    ("WriteShareGroupState", {
        "group_id": "g1",
        "topics": _shared(
            state_epoch=1, leader_epoch=0, start_offset=0, delivery_complete_count=0,
            state_batches=[],
        ),
    }),
    ("DeleteShareGroupState", {"group_id": "g1", "topics": _shared()}),
    ("ReadShareGroupStateSummary", {"group_id": "g1", "topics": _shared(leader_epoch=0)}),
    # The group is created by the request after this one.
    ("DescribeShareGroupOffsets", {"groups": [
        {"group_id": "g-absent", "topics": "null"},
        {"group_id": "g2", "topics": [
            {"topic_name": name, "partitions": [0]} for name in TOPICS
        ]},
    ]}),
    ("AlterShareGroupOffsets", {"group_id": "g-absent", "topics": [
        {"topic_name": name, "partitions": [{"partition_index": 0, "start_offset": 0}]}
        for name in TOPICS
    ]}),
    ("DescribeShareGroupOffsets", {"groups": [
        {"group_id": "g-absent", "topics": "null"},
        {"group_id": "g1", "topics": [{"topic_name": "t1", "partitions": [0]}]},
    ]}),
    ("DeleteShareGroupOffsets", {"group_id": "g-absent", "topics": [
        {"topic_name": name} for name in TOPICS
    ]}),
    # Nobody is a member of the group, so nothing is created.
    ("StreamsGroupHeartbeat", {
        "group_id": "g-absent", "member_id": "m", "member_epoch": 3,
        "endpoint_information_epoch": 0, "topology": {"epoch": 0, "subtopologies": [{
            "subtopology_id": "0", "source_topics": TOPICS, "source_topic_regex": [],
            "state_changelog_topics": [], "repartition_sink_topics": [],
            "repartition_source_topics": [], "copartition_groups": [],
        }]},
    }),
    ("StreamsGroupDescribe", {"group_ids": GROUPS, "include_authorized_operations": "true"}),
]  # fmt: skip


# Unit tests are about these: nobody is refused before tokens are switched on.
_TOKENS = {ApiKey.CREATE_DELEGATION_TOKEN, ApiKey.DESCRIBE_DELEGATION_TOKEN}
# Versions that Kafka 4.3.1 has, where ours has more.
KAFKAS = {ApiKey.DELETE_GROUPS: (0, 2)}


class Case(NamedTuple):
    """A client with some rights, and its requests.

    Attributes:
        client: its name.
        rights: what it may do.
        lines: its requests, one for each version.
    """

    client: str
    rights: list[Right]
    lines: list[str]


def cases() -> Iterator[Case]:
    """Yield all cases."""
    number = 0
    for name, values in REQUESTS:
        api = _api(name)
        first, last = KAFKAS.get(api, SERVED_VERSIONS[api])
        for rights in _sets_of_rights(api):
            client = f"p{number}"
            number += 1
            yield Case(
                client,
                rights,
                [line(client, api, version, values) for version in range(first, last + 1)],
            )


def uncovered() -> set[ApiKey]:
    """Return the APIs that no case is about."""
    return SERVED_VERSIONS.keys() - LOGIN_IS_ENOUGH - _TOKENS - {_api(name) for name, _ in REQUESTS}


def _api(name: str) -> ApiKey:
    return next(each for each in ApiKey if each.kafka_name == name)


def _sets_of_rights(api: ApiKey) -> list[list[Right]]:
    """Return all rights, none, and all without one kind of them, or with it on one resource."""
    kinds = [
        (each.operation, each.type)
        for each in resources().get(api, ())
        if each.operation is not None
    ] + _OTHERS.get(api, [])
    full = [(operation, kind, name) for operation, kind in kinds for name in _NAMES[kind]]
    found = [full, []]
    for missing in kinds:
        left = [each for each in full if each[:2] != missing]
        found.append(left)
        if len(_NAMES[missing[1]]) > 1:
            found.append([*left, (*missing, _NAMES[missing[1]][0])])
    unique = []
    for each in found:
        if sorted(each) not in unique:
            unique.append(sorted(each))
    return unique


# Rights that may stand for others, or that answers depend on.
_OTHERS: dict[ApiKey, list[tuple[AclOperation, ResourceType]]] = {
    ApiKey.FETCH: [(AclOperation.CLUSTER_ACTION, _CLUSTER)],
    ApiKey.METADATA: [(AclOperation.DESCRIBE, _CLUSTER), (AclOperation.ALTER_CONFIGS, _TOPIC)],
    ApiKey.OFFSET_FOR_LEADER_EPOCH: [(AclOperation.CLUSTER_ACTION, _CLUSTER)],
    ApiKey.CREATE_TOPICS: [
        (AclOperation.CREATE, _CLUSTER), (AclOperation.DESCRIBE_CONFIGS, _TOPIC),
    ],
    ApiKey.DELETE_TOPICS: [
        (AclOperation.DESCRIBE, _TOPIC), (AclOperation.DELETE, _CLUSTER),
    ],
    ApiKey.INIT_PRODUCER_ID: [
        (AclOperation.IDEMPOTENT_WRITE, _CLUSTER), (AclOperation.WRITE, _TOPIC),
    ],
    ApiKey.ADD_PARTITIONS_TO_TXN: [(AclOperation.CLUSTER_ACTION, _CLUSTER)],
    ApiKey.WRITE_TXN_MARKERS: [(AclOperation.ALTER, _CLUSTER)],
    ApiKey.LIST_GROUPS: [(AclOperation.DESCRIBE, _GROUP)],
    ApiKey.DESCRIBE_CLUSTER: [
        (AclOperation.DESCRIBE, _CLUSTER), (AclOperation.ALTER_CONFIGS, _CLUSTER),
    ],
    ApiKey.DESCRIBE_GROUPS: [(AclOperation.DELETE, _GROUP)],
}  # fmt: skip


def line(client: str, api: ApiKey, version: int, values: dict[str, Any]) -> str:
    """Return the line of a request, with the fields that its version has."""
    fields = _fitting(request_class(api), values, version)
    text = " ".join(f"{name}={_text(value)}" for name, value in fields.items())
    return f"{client}> {api.kafka_name} v{version} {text}".rstrip()


def _fitting(cls: type[Declaration], values: dict[str, Any], version: int) -> dict[str, Any]:
    found = {}
    for field in fields_of(cls):
        if field.name in values and field.present(version):
            value, element = values[field.name], field.type.element
            if value == "null" and not field.nullable(version):
                continue
            struct = field.type.struct or (element.struct if element else None)
            if struct is not None and isinstance(value, list):
                value = [_fitting(struct, each, version) for each in value]
            elif struct is not None and isinstance(value, dict):
                value = _fitting(struct, value, version)
            found[field.name] = value
    return found


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {_text(each)}" for name, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_text, value)) + "]"
    text = str(value)
    needs_quotes = not text or (" " in text and not text.startswith("["))
    return f'"{text}"' if needs_quotes else text
