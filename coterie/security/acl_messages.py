"""Rules and filters as requests about them have them, and back."""

from collections.abc import Iterable
from typing import Any

from coterie.protocol.messages.create_acls import CreateAclsRequest, CreateAclsRequestCreation
from coterie.protocol.messages.delete_acls import DeleteAclsRequest, DeleteAclsRequestFilter
from coterie.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from coterie.security.acl import Acl, AclFilter


def creation_request(acls: Iterable[Acl]) -> CreateAclsRequest:
    """Return the request that adds rules."""
    return CreateAclsRequest(creations=[CreateAclsRequestCreation.of(*acl) for acl in acls])


def deletion_request(filters: Iterable[AclFilter]) -> DeleteAclsRequest:
    """Return the request that removes the rules that fit filters."""
    return DeleteAclsRequest(filters=[DeleteAclsRequestFilter.of(*each) for each in filters])


def description_request(wanted: AclFilter) -> DescribeAclsRequest:
    """Return the request for the rules that fit a filter."""
    return DescribeAclsRequest.of(*wanted)


def described_acls(response: DescribeAclsResponse) -> list[Acl]:
    """Return the rules of a description."""
    return [
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
    ]


def acl_of(rule: Any) -> Acl:
    """Return the rule of an element of a request or response, or of a record."""
    kind = rule.resource_pattern_type if hasattr(rule, "resource_pattern_type") else None
    return Acl(
        rule.resource_type,
        rule.resource_name,
        rule.pattern_type if kind is None else kind,
        rule.principal,
        rule.host,
        rule.operation,
        rule.permission_type,
    )


def filter_of(asked: DescribeAclsRequest | DeleteAclsRequestFilter) -> AclFilter:
    """Return the filter of a request."""
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )
