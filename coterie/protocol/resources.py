"""What a request touches: for each API the resources, the fields that name them, and the place of
the error if one of them is refused [security/resources].

A row has the API ("." is the API above), the type of the resource, the ACL operation ("-" if that
on the cluster is enough), the fields that lead from the request to the names ("-" for the cluster,
which has none) and the lists that lead from the response to the error ("-" for the response
itself). The first row of an API is checked first. Alternatives of different versions are parted by
"|". `key[key_type=0]` is a name of this type if the field beside it has this value. A topic with an
id instead of a name is named by the id.
"""

from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.wire import ZERO_UUID


class ResourceType(IntEnum):
    """Kafka's codes of the types of resources. ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class Names(NamedTuple):
    """Where a request names resources.

    Attributes:
        path: the fields that lead to them: lists, and the name itself.
        field, value: the field beside the name that must have a value; "" for none.
    """

    path: tuple[str, ...]
    field: str = ""
    value: int = 0


class Touched(NamedTuple):
    """Resources that a request touches.

    Attributes:
        type: their type.
        operation: what it does to them; None if the operation on the cluster is enough.
        names: where it names them, in some version; none for the cluster.
        places: where responses have the error: the lists that lead to it; the first one that the
            version has.
    """

    type: ResourceType
    operation: AclOperation | None
    names: tuple[Names, ...]
    places: tuple[tuple[str, ...], ...]


_TABLE = """
Produce TRANSACTIONAL_ID WRITE transactional_id responses.partition_responses
. TOPIC WRITE topic_data.name responses.partition_responses
Fetch TOPIC READ topics.topic responses.partitions
ListOffsets TOPIC DESCRIBE topics.name topics.partitions
Metadata TOPIC DESCRIBE topics.name topics
OffsetCommit GROUP READ group_id topics.partitions
. TOPIC READ topics.name topics.partitions
OffsetFetch GROUP DESCRIBE group_id|groups.group_id groups|-|topics.partitions
. TOPIC DESCRIBE topics.name|groups.topics.name groups.topics.partitions|topics.partitions
FindCoordinator GROUP DESCRIBE key[key_type=0]|coordinator_keys[key_type=0] coordinators|-
. TRANSACTIONAL_ID DESCRIBE key[key_type=1]|coordinator_keys[key_type=1] coordinators|-
JoinGroup GROUP READ group_id -
Heartbeat GROUP READ group_id -
LeaveGroup GROUP READ group_id -
SyncGroup GROUP READ group_id -
DescribeGroups GROUP DESCRIBE groups groups
ListGroups CLUSTER DESCRIBE - -
CreateTopics TOPIC CREATE topics.name topics
DeleteTopics TOPIC DELETE topics.name|topic_names responses
DeleteRecords TOPIC DELETE topics.name topics.partitions
InitProducerId TRANSACTIONAL_ID WRITE transactional_id -
OffsetForLeaderEpoch TOPIC DESCRIBE topics.topic topics.partitions
AddPartitionsToTxn TRANSACTIONAL_ID WRITE transactional_id|transactions.transactional_id \
    -|results_by_topic.results_by_partition
. TOPIC WRITE topics.name|transactions.topics.name results_by_topic.results_by_partition
AddOffsetsToTxn TRANSACTIONAL_ID WRITE transactional_id -
. GROUP READ group_id -
EndTxn TRANSACTIONAL_ID WRITE transactional_id -
WriteTxnMarkers CLUSTER CLUSTER_ACTION - markers.topics.partitions
. TOPIC - markers.topics.name markers.topics.partitions
TxnOffsetCommit TRANSACTIONAL_ID WRITE transactional_id topics.partitions
. GROUP READ group_id topics.partitions
. TOPIC READ topics.name topics.partitions
DescribeAcls CLUSTER DESCRIBE - -
CreateAcls CLUSTER ALTER - results
DeleteAcls CLUSTER ALTER - filter_results
DescribeConfigs TOPIC DESCRIBE_CONFIGS resources.resource_name[resource_type=2] results
. GROUP DESCRIBE_CONFIGS resources.resource_name[resource_type=32] results
. CLUSTER DESCRIBE_CONFIGS - results
AlterConfigs TOPIC ALTER_CONFIGS resources.resource_name[resource_type=2] responses
. GROUP ALTER_CONFIGS resources.resource_name[resource_type=32] responses
. CLUSTER ALTER_CONFIGS - responses
AlterReplicaLogDirs CLUSTER ALTER - results.partitions
. TOPIC - dirs.topics.name results.partitions
DescribeLogDirs CLUSTER DESCRIBE - -|results
. TOPIC - topics.topic -|results
CreatePartitions TOPIC ALTER topics.name results
DeleteGroups GROUP DELETE groups_names results
ElectLeaders CLUSTER ALTER - -|replica_election_results.partition_result
. TOPIC - topic_partitions.topic replica_election_results.partition_result
IncrementalAlterConfigs TOPIC ALTER_CONFIGS resources.resource_name[resource_type=2] responses
. GROUP ALTER_CONFIGS resources.resource_name[resource_type=32] responses
. CLUSTER ALTER_CONFIGS - responses
AlterPartitionReassignments CLUSTER ALTER - -
. TOPIC - topics.name responses.partitions
ListPartitionReassignments CLUSTER DESCRIBE - -
. TOPIC - topics.name -
OffsetDelete GROUP DELETE group_id -
. TOPIC READ topics.name topics.partitions
DescribeClientQuotas CLUSTER DESCRIBE_CONFIGS - -
AlterClientQuotas CLUSTER ALTER_CONFIGS - entries
DescribeUserScramCredentials CLUSTER DESCRIBE - -
AlterUserScramCredentials CLUSTER ALTER - results
DescribeQuorum CLUSTER DESCRIBE - -
. TOPIC - topics.topic_name topics.partitions
UpdateFeatures CLUSTER ALTER - -
DescribeProducers TOPIC READ topics.name topics.partitions
UnregisterBroker CLUSTER ALTER - -
DescribeTransactions TRANSACTIONAL_ID DESCRIBE transactional_ids transaction_states
ListTransactions TRANSACTIONAL_ID DESCRIBE - -
ConsumerGroupHeartbeat GROUP READ group_id -
. TOPIC DESCRIBE subscribed_topic_names -
ConsumerGroupDescribe GROUP DESCRIBE group_ids groups
ShareGroupHeartbeat GROUP READ group_id -
. TOPIC DESCRIBE subscribed_topic_names -
ShareGroupDescribe GROUP DESCRIBE group_ids groups
ListConfigResources CLUSTER DESCRIBE_CONFIGS - -
DescribeTopicPartitions TOPIC DESCRIBE topics.name topics
ShareFetch GROUP READ group_id -
. TOPIC READ topics.topic_id responses.partitions
ShareAcknowledge GROUP READ group_id -
. TOPIC READ topics.topic_id responses.partitions
InitializeShareGroupState CLUSTER CLUSTER_ACTION - results.partitions
ReadShareGroupState CLUSTER CLUSTER_ACTION - results.partitions
WriteShareGroupState CLUSTER CLUSTER_ACTION - results.partitions
DeleteShareGroupState CLUSTER CLUSTER_ACTION - results.partitions
ReadShareGroupStateSummary CLUSTER CLUSTER_ACTION - results.partitions
StreamsGroupHeartbeat GROUP READ group_id -
. TOPIC DESCRIBE topology.subtopologies.source_topics -
StreamsGroupDescribe GROUP DESCRIBE group_ids groups
DescribeShareGroupOffsets GROUP DESCRIBE groups.group_id groups
. TOPIC DESCRIBE groups.topics.topic_name groups.topics.partitions
AlterShareGroupOffsets GROUP READ group_id -
. TOPIC READ topics.topic_name responses.partitions
DeleteShareGroupOffsets GROUP DELETE group_id -
. TOPIC READ topics.topic_name responses
AddRaftVoter CLUSTER ALTER - -
RemoveRaftVoter CLUSTER ALTER - -
"""


def _names(text: str) -> Names:
    path, _, condition = text.rstrip("]").partition("[")
    field, _, value = condition.partition("=")
    return Names(tuple(path.split(".")), field, int(value or 0))


@cache
def resources() -> dict[ApiKey, tuple[Touched, ...]]:
    """Return what each API touches. An API that is not there touches nothing: a login is enough.

    The table is read at the first use, because many brokers refuse nothing.
    """
    apis = {each.kafka_name: each for each in ApiKey}
    found: dict[ApiKey, tuple[Touched, ...]] = {}
    api = ApiKey.PRODUCE
    for line in _TABLE.split("\n")[1:-1]:
        name, kind, operation, names, places = line.split()
        api = api if name == "." else apis[name]
        touched = Touched(
            ResourceType[kind],
            None if operation == "-" else AclOperation[operation],
            () if names == "-" else tuple(map(_names, names.split("|"))),
            tuple(() if each == "-" else tuple(each.split(".")) for each in places.split("|")),
        )
        found[api] = (*found.get(api, ()), touched)
    return found


def groups_of(request: Any) -> set[str]:
    """Return the ids of the groups that a request names."""
    return {each for each in names_of(request, ResourceType.GROUP) if isinstance(each, str)}


def names_of(request: Any, kind: ResourceType) -> Iterator[str | bytes]:
    """Yield the names of the resources of a type that a request names; topics may have ids."""
    for touched in resources().get(request.api_key, ()):
        if touched.type is kind:
            for names in touched.names:
                yield from _named(request, names)


def _parts(value: Any) -> list[Any]:
    """Return the elements of a list, or the one structure; nothing for null."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _named(request: Any, names: Names) -> Iterator[str | bytes]:
    holders = [request]
    for field in names.path[:-1]:
        holders = [each for holder in holders for each in _parts(getattr(holder, field))]
    for holder in holders:
        if names.field and getattr(holder, names.field) != names.value:
            continue
        found = getattr(holder, names.path[-1])
        if isinstance(found, list):
            yield from found
        elif found:
            yield found
        elif (topic_id := getattr(holder, "topic_id", ZERO_UUID)) != ZERO_UUID:
            yield topic_id
