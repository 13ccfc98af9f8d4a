"""Access rules of a cluster: list, add and remove them [client/quotas]."""

from collections.abc import Sequence

from coterie.client.cluster import Cluster
from coterie.client.errors import Refused
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_acls import CreateAclsResponse
from coterie.protocol.messages.delete_acls import DeleteAclsResponse
from coterie.protocol.messages.describe_acls import DescribeAclsResponse
from coterie.security.acl import Acl, AclFilter
from coterie.security.acl_messages import (
    acl_of,
    creation_request,
    deletion_request,
    described_acls,
    description_request,
)


def list_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """Return the rules that fit a filter, in the order of their resources and principals.

    Raises:
        ClientError: the cluster cannot be asked or refuses the request.
    """
    response = cluster.call_any(description_request(wanted), DescribeAclsResponse)
    if response.error_code:
        raise Refused(response.error_code, "Listing access rules", response.error_message)
    return sorted(described_acls(response))


def add_acls(cluster: Cluster, acls: Sequence[Acl]) -> None:
    """Add rules; those that are there already stay as they are.

    Raises:
        ClientError: the cluster cannot be asked or refuses one of them.
    """
    response = cluster.call_controller(creation_request(acls), CreateAclsResponse)
    for acl, result in zip(acls, response.results, strict=True):
        if result.error_code:
            what = f"The rule for {acl.principal} was not added"
            raise Refused(ErrorCode(result.error_code), what, result.error_message)


def remove_acls(cluster: Cluster, wanted: AclFilter) -> list[Acl]:
    """Remove the rules that fit a filter, and return them.

    Raises:
        ClientError: the cluster cannot be asked or refuses the request.
    """
    response = cluster.call_controller(deletion_request([wanted]), DeleteAclsResponse)
    (result,) = response.filter_results
    if result.error_code:
        raise Refused(result.error_code, "The rules were not removed", result.error_message)
    return sorted(map(acl_of, result.matching_acls))
