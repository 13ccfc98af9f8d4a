"""The verbs of the hunt, in the order in which they are run.

First those that bring a new server to its limits, then every API with its largest request, then
many small requests at once, and last what deletes.
"""

import time
from collections.abc import Iterator
from typing import Any

from coterie.coordinator.groups.share.offsets import MAX_CHANGED
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import ErrorCode
from tests.soak.turns.answers import Answers
from tests.soak.turns.batches import batches
from tests.soak.turns.consumers import consumers
from tests.soak.turns.filling import filling
from tests.soak.turns.many import many
from tests.soak.turns.requests import (
    frame,
    has_arrays,
    is_nested,
    largest,
    names_partitions,
    newest,
)
from tests.soak.turns.session import Session, Verb, no_answers
from tests.soak.turns.shares import shares
from tests.soak.turns.transactions import transactions

# These are verbs of their own, or delete, which comes last.
_APART = {
    ApiKey.CREATE_TOPICS,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.ALTER_CLIENT_QUOTAS,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DELETE_RECORDS,
    ApiKey.OFFSET_DELETE,
    ApiKey.DELETE_GROUPS,
    ApiKey.DELETE_TOPICS,
}
# In an order in which each finds what it is about.
_SHARE_STATE = (
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
)
_NOT_READY = {ErrorCode.NOT_COORDINATOR.name, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.name}
# Where the newest version would be refused.
_VERSIONS = {
    # A member gets its id with the first answer.
    ApiKey.JOIN_GROUP: 3,
}
_BROKER = 1
_TOPIC_RESOURCES = 2
_SCRAM_SHA_256 = 1
_NO_SUCH_TOPIC = b"no such topic id"
_SHARE_KEY_TYPE, _SHARE_KEY = 2, "shared:AAAAAAAAAAAAAAAAAAAAAQ:0"
_MOST_LOADING_S = 60.0
_SHARE_MEMBER = {"group_id": "shared", "member_id": "AAAAAAAAAAAAAAAAAAAAAQ"}
# What most of an answer is, where it is an error; each with the reason why it cannot be otherwise.
_EXPECTED: dict[str, ErrorCode] = {
    # A request has twice as many names as there can be topics.
    "Metadata, wide": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "DescribeConfigs, wide": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "DescribeTopicPartitions, wide": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    # All groups but one are classic.
    "ConsumerGroupDescribe, wide": ErrorCode.GROUP_ID_NOT_FOUND,
    "ShareGroupDescribe, wide": ErrorCode.GROUP_ID_NOT_FOUND,
    "StreamsGroupDescribe, wide": ErrorCode.GROUP_ID_NOT_FOUND,
    # It lists tasks, and those who do are members that list all of their roles.
    "StreamsGroupHeartbeat, wide": ErrorCode.INVALID_REQUEST,
    "StreamsGroupHeartbeat, deep": ErrorCode.INVALID_REQUEST,
    # No topic has the id, and so no share partition is initialised.
    "DeleteShareGroupState, wide": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "DeleteShareGroupState, deep": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "InitializeShareGroupState, wide": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "InitializeShareGroupState, deep": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "ReadShareGroupState, wide": ErrorCode.INVALID_REQUEST,
    "ReadShareGroupState, deep": ErrorCode.INVALID_REQUEST,
    "ReadShareGroupStateSummary, wide": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "ReadShareGroupStateSummary, deep": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "WriteShareGroupState, wide": ErrorCode.INVALID_REQUEST,
    "WriteShareGroupState, deep": ErrorCode.INVALID_REQUEST,
    # It has no session.
    "ShareAcknowledge, wide": ErrorCode.SHARE_SESSION_NOT_FOUND,
    "ShareAcknowledge, deep": ErrorCode.SHARE_SESSION_NOT_FOUND,
    # No group has so many members, and it is not told which of them are unknown.
    "LeaveGroup, wide": ErrorCode.UNKNOWN_MEMBER_ID,
    # The broker has no authorizer and no tokens.
    "CreateAcls, wide": ErrorCode.SECURITY_DISABLED,
    "DeleteAcls, wide": ErrorCode.SECURITY_DISABLED,
    "CreateDelegationToken, wide": ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    "DescribeDelegationToken, wide": ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    # There are fewer settings, users, components and features than a request may name.
    "AlterConfigs, deep": ErrorCode.INVALID_REQUEST,
    "IncrementalAlterConfigs, deep": ErrorCode.INVALID_REQUEST,
    "DescribeClientQuotas, wide": ErrorCode.INVALID_REQUEST,
    "DescribeUserScramCredentials, wide": ErrorCode.RESOURCE_NOT_FOUND,
    "AlterUserScramCredentials, wide": ErrorCode.RESOURCE_NOT_FOUND,
    "UpdateFeatures, wide": ErrorCode.INVALID_UPDATE_VERSION,
    # The only replica leads already.
    "ElectLeaders, wide": ErrorCode.ELECTION_NOT_NEEDED,
    "ElectLeaders, deep": ErrorCode.ELECTION_NOT_NEEDED,
    # The quorum has one partition and one voter.
    "DescribeQuorum, wide": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "DescribeQuorum, deep": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    # There is no such group.
    "AlterShareGroupOffsets, wide": ErrorCode.GROUP_ID_NOT_FOUND,
    "AlterShareGroupOffsets, deep": ErrorCode.GROUP_ID_NOT_FOUND,
    "DeleteShareGroupOffsets, wide": ErrorCode.GROUP_ID_NOT_FOUND,
    "AddRaftVoter, wide": ErrorCode.INVALID_REQUEST,
}


def _expected(session: Session, name: str) -> ErrorCode:
    """Return what most of the answer of a verb is."""
    # One request changes a limited number of them, because it is one operation.
    if "ShareGroupOffsets" in name and session.sizes.elements > MAX_CHANGED:
        return ErrorCode.POLICY_VIOLATION
    return _EXPECTED.get(name, ErrorCode.NONE)


def _values(session: Session, api: ApiKey) -> dict[str, Any]:
    """Return fields of the largest request of an API, so that it does what it asks for."""
    match api:
        case ApiKey.JOIN_GROUP:
            # A member of g0 would refuse later commits.
            return {"group_id": "joined"}
        case ApiKey.CONSUMER_GROUP_HEARTBEAT:
            # It joins a group, and subscribes to every topic by name.
            return {"group_id": "modern", "member_id": "m", "topic_partitions": []}
        case ApiKey.SHARE_GROUP_HEARTBEAT:
            return {"group_id": "shared", "member_id": "m"}
        case ApiKey.SHARE_FETCH:
            # It opens a session.
            opening = {"share_session_epoch": 0, "acknowledgement_batches": []}
            return {**_SHARE_MEMBER, **opening, "topic_id": _NO_SUCH_TOPIC}
        case ApiKey.SHARE_ACKNOWLEDGE:
            return {**_SHARE_MEMBER, "share_session_epoch": 1, "topic_id": _NO_SUCH_TOPIC}
        case ApiKey.ALTER_REPLICA_LOG_DIRS:
            return {"path": str(session.data_dir.absolute())}
        case ApiKey.ALTER_PARTITION_REASSIGNMENTS:
            return {"replicas": [_BROKER]}
        case ApiKey.ALTER_USER_SCRAM_CREDENTIALS:
            return {"mechanism": _SCRAM_SHA_256}
        case ApiKey.LIST_CONFIG_RESOURCES:
            return {"resource_types": [_TOPIC_RESOURCES] * session.sizes.elements}
    return {"topic_id": _NO_SUCH_TOPIC} if api in _SHARE_STATE else {}


def verbs(session: Session) -> Iterator[Verb]:
    """Yield all verbs for one server."""
    yield from filling(session)
    for api in SERVED_VERSIONS:
        if api not in _APART and api not in _SHARE_STATE and has_arrays(api):
            yield from _largest(session, api)
    yield from _share_states(session)
    yield from shares(session)
    yield from _without_bounds(session)
    yield from _quotas(session)
    yield from many(session)
    yield from consumers(session)
    yield from transactions(session)
    yield from batches(session)
    yield from _deleting(session)


def _largest(session: Session, api: ApiKey) -> Iterator[Verb]:
    """Yield the largest requests of an API, in one or two shapes."""
    elements, values = session.sizes.elements, _values(session, api)
    version = _VERSIONS.get(api)
    for shape in ("wide", "deep") if is_nested(api) else ("wide",):
        deep = shape == "deep"
        count = elements
        if deep and names_partitions(api):
            # Of as many partitions as there are.
            count = min(elements, session.sizes.wide + 1)
        name = f"{api.kafka_name}, {shape}"
        yield session.verb(
            name,
            api,
            lambda deep=deep, count=count: [  # type: ignore[misc]
                largest(api, deep=deep, elements=count, version=version, values=values)
            ],
            version=version,
            expected=_expected(session, name),
        )


def _share_states(session: Session) -> Iterator[Verb]:
    """Yield the largest requests of the share coordinator, once their partitions are loaded."""
    finding = ApiKey.FIND_COORDINATOR
    # Their topic is created for the first one that looks for a coordinator.
    sought = {"key_type": _SHARE_KEY_TYPE, "coordinator_keys": [_SHARE_KEY]}
    session.exchange(finding, newest(finding), [frame(finding, newest(finding), **sought)])
    reading = list(_largest(session, ApiKey.READ_SHARE_GROUP_STATE))
    deadline_s = time.monotonic() + _MOST_LOADING_S
    while any(_NOT_READY & verb.run().codes().keys() for verb in reading):
        assert time.monotonic() < deadline_s, "the share coordinator does not load its partitions"
        time.sleep(0.05)
    for api in _SHARE_STATE:
        yield from _largest(session, api)


def _without_bounds(session: Session) -> Iterator[Verb]:
    """Yield requests of a few bytes for all that there is."""
    for api, fields in (
        (ApiKey.METADATA, {"topics": None}),
        (ApiKey.LIST_GROUPS, {}),
        (ApiKey.LIST_TRANSACTIONS, {}),
        (ApiKey.DESCRIBE_LOG_DIRS, {"topics": None}),
        (ApiKey.DESCRIBE_CLUSTER, {}),
        (ApiKey.DESCRIBE_CLIENT_QUOTAS, {}),
        (ApiKey.LIST_CONFIG_RESOURCES, {}),
        (ApiKey.LIST_PARTITION_REASSIGNMENTS, {"topics": None, "timeout_ms": 1_000}),
        (ApiKey.ELECT_LEADERS, {"topic_partitions": None}),
    ):
        yield _small(session, api, f"{api.kafka_name} of all", fields)
    groups = [
        {"group_id": f"g{number}", "topics": None} for number in range(session.sizes.elements)
    ]
    yield _small(session, ApiKey.OFFSET_FETCH, "OffsetFetch of all offsets", {"groups": groups})


def _small(session: Session, api: ApiKey, name: str, fields: dict[str, Any]) -> Verb:
    return session.verb(
        name,
        api,
        lambda: [frame(api, newest(api), **fields)],
        expected=_expected(session, name),
    )


def _quotas(session: Session) -> Iterator[Verb]:
    """Yield changes of quotas, and large answers while there are some: they are then counted."""
    api = ApiKey.ALTER_CLIENT_QUOTAS

    def request(*, remove: bool) -> list[bytes]:
        change = {"key": "request_percentage", "value": 1e6, "remove": remove}
        entries = [
            {"entity": [{"entity_type": "user", "entity_name": f"user{number}"}], "ops": [change]}
            for number in range(session.sizes.elements // 3)
        ]
        return [frame(api, newest(api), entries=entries)]

    yield session.verb("AlterClientQuotas, wide", api, lambda: request(remove=False))
    for asked, fields in ((ApiKey.METADATA, {"topics": None}), (ApiKey.DESCRIBE_CLIENT_QUOTAS, {})):
        name = f"{asked.kafka_name} of all, with quotas"
        yield _small(session, asked, name, fields)
    asked = ApiKey.DESCRIBE_CONFIGS
    yield session.verb(
        "DescribeConfigs, wide, with quotas",
        asked,
        lambda: [largest(asked, elements=session.sizes.elements)],
        expected=_EXPECTED["DescribeConfigs, wide"],
    )
    yield session.verb("AlterClientQuotas, removal", api, lambda: request(remove=True))


def _deleting(session: Session) -> Iterator[Verb]:
    """Yield what deletes, and the creation of partitions where others were deleted."""
    for api in (ApiKey.DELETE_RECORDS, ApiKey.OFFSET_DELETE, ApiKey.DELETE_GROUPS):
        yield from _largest(session, api)
    half = session.sizes.topics // 2
    api = ApiKey.DELETE_TOPICS
    yield session.verb(
        "DeleteTopics of half of them", api, lambda: [largest(api, elements=half, first=half)]
    )
    creating = ApiKey.CREATE_PARTITIONS
    yield session.verb(
        "CreatePartitions, wide", creating, lambda: [largest(creating, elements=half)]
    )
    yield session.verb("DeleteTopics of the other half", api, lambda: [largest(api, elements=half)])
    yield Verb(
        f"{session.sizes.connections:,} connections closed at once", lambda: _disconnect(session)
    )


def _disconnect(session: Session) -> Answers:
    session.close()
    return no_answers()
