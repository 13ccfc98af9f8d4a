"""Access rules of a cluster: list, add and remove them [client/acls]."""

from collections.abc import Sequence

from coterie.client.cluster import Cluster
from coterie.client.connection import Deadline
from coterie.client.errors import Refused
from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_acls import (
    CreateAclsRequest,
    CreateAclsRequestCreation,
    CreateAclsResponse,
)
from coterie.protocol.messages.delete_acls import (
    DeleteAclsRequest,
    DeleteAclsRequestFilter,
    DeleteAclsResponse,
)
from coterie.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from coterie.protocol.resources import ResourceType
from coterie.security.acl import Acl, AclFilter, PatternType, Permission

# The filter that every rule fits.
EVERYTHING = AclFilter(
    ResourceType.ANY, None, PatternType.ANY, None, None, AclOperation.ANY, Permission.ANY
)


def list_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """Return the rules that fit a filter, in the order of their resources and principals.

    Raises:
        ClientError: the cluster cannot be asked or refuses the request.
    """
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
    )
    response = cluster.call_any(request, DescribeAclsResponse)
    if response.error_code:
        raise Refused(response.error_code, "Listing access rules", response.error_message)
    return sorted(
        Acl(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for resource in response.resources
        for each in resource.acls
    )


def add_acls(cluster: Cluster, acls: Sequence[Acl]) -> None:
    """Add rules; those that are there already stay as they are.

    Raises:
        ClientError: the cluster cannot be asked or refuses one of them.
    """
    creations = [
        CreateAclsRequestCreation(
            resource_type=each.resource_type,
            resource_name=each.name,
            resource_pattern_type=each.pattern_type,
            principal=each.principal,
            host=each.host,
            operation=each.operation,
            permission_type=each.permission,
        )
        for each in acls
    ]
    response = cluster.controller().call(
        CreateAclsRequest(creations=creations), CreateAclsResponse, Deadline(cluster.timeout_s)
    )
    for acl, result in zip(acls, response.results, strict=True):
        if result.error_code:
            what = f"The rule for {acl.principal} was not added"
            raise Refused(ErrorCode(result.error_code), what, result.error_message)


def remove_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """Remove the rules that fit a filter, and return them.

    Raises:
        ClientError: the cluster cannot be asked or refuses the request.
    """
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsRequestFilter(
                resource_type_filter=wanted.resource_type,
                resource_name_filter=wanted.name,
                pattern_type_filter=wanted.pattern_type,
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=wanted.operation,
                permission_type=wanted.permission,
            )
        ]
    )
    response = cluster.controller().call(request, DeleteAclsResponse, Deadline(cluster.timeout_s))
    (result,) = response.filter_results
    if result.error_code:
        raise Refused(result.error_code, "The rules were not removed", result.error_message)
    return sorted(
        Acl(
            each.resource_type,
            each.resource_name,
            each.pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for each in result.matching_acls
    )
