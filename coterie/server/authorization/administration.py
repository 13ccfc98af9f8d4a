"""Refusals of administrators' requests whose answers do not go along one list of the request."""

from collections.abc import Callable
from typing import Any

from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntity,
    AlterClientQuotasResponseEntry,
)
from coterie.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionReassignmentsResponsePartition,
    AlterPartitionReassignmentsResponseTopic,
)
from coterie.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirsResponsePartition,
    AlterReplicaLogDirsResponseTopic,
)
from coterie.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResponseResult,
)
from coterie.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResponseResult,
)
from coterie.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ElectLeadersResponsePartition,
    ElectLeadersResponseTopic,
)
from coterie.server.authorization.access import ClientAccess
from coterie.server.authorization.outcome import Check, Outcome, answered, text_of
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

_DENIED = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_TEXT = text_of(_DENIED)


def _unless(operation: AclOperation, answer: Callable[[Any], Any]) -> Check:
    """Return a check that refuses with an answer without a right on the cluster."""

    def check(
        _broker: Services, access: ClientAccess, request: Any, _connection: Exchange
    ) -> Outcome:
        return None if access.may_with_cluster(operation) else answered(answer(request))

    return check


def _alter_client_quotas(request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponseEntry(
                error_code=_DENIED,
                error_message=_TEXT,
                entity=[
                    AlterClientQuotasResponseEntity(
                        entity_type=each.entity_type, entity_name=each.entity_name
                    )
                    for each in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


def _alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest,
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(
        error_code=_DENIED,
        error_message=_TEXT,
        responses=[
            AlterPartitionReassignmentsResponseTopic(
                name=topic.name,
                partitions=[
                    AlterPartitionReassignmentsResponsePartition(
                        partition_index=each.partition_index,
                        error_code=_DENIED,
                        error_message=_TEXT,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _alter_replica_log_dirs(request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    return AlterReplicaLogDirsResponse(
        results=[
            AlterReplicaLogDirsResponseTopic(
                topic_name=topic.name,
                partitions=[
                    AlterReplicaLogDirsResponsePartition(partition_index=index, error_code=_DENIED)
                    for index in topic.partitions
                ],
            )
            for directory in request.dirs
            for topic in directory.topics
        ]
    )


def _alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest,
) -> AlterUserScramCredentialsResponse:
    named: list[Any] = [*request.deletions, *request.upsertions]
    users = dict.fromkeys(each.name for each in named)
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResponseResult(
                user=name, error_code=_DENIED, error_message=_TEXT
            )
            for name in users
        ]
    )


def _describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest,
) -> DescribeUserScramCredentialsResponse:
    # As in Kafka, where no user is named.
    return DescribeUserScramCredentialsResponse(
        error_code=_DENIED,
        error_message=None,
        results=[
            DescribeUserScramCredentialsResponseResult(
                user="", error_code=_DENIED, error_message=None, credential_infos=[]
            )
            for _ in request.users or ()
        ],
    )


def _elect_leaders(request: ElectLeadersRequest) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=_DENIED,
        replica_election_results=[
            ElectLeadersResponseTopic(
                topic=topic.topic,
                partition_result=[
                    ElectLeadersResponsePartition(
                        partition_id=index, error_code=_DENIED, error_message=_TEXT
                    )
                    for index in topic.partitions
                ],
            )
            for topic in request.topic_partitions or ()
        ],
    )


alter_client_quotas = _unless(AclOperation.ALTER_CONFIGS, _alter_client_quotas)
alter_partition_reassignments = _unless(AclOperation.ALTER, _alter_partition_reassignments)
alter_replica_log_dirs = _unless(AclOperation.ALTER, _alter_replica_log_dirs)
alter_user_scram_credentials = _unless(AclOperation.ALTER, _alter_user_scram_credentials)
describe_user_scram_credentials = _unless(AclOperation.DESCRIBE, _describe_user_scram_credentials)
elect_leaders = _unless(AclOperation.ALTER, _elect_leaders)
