"""DescribeAcls, CreateAcls and DeleteAcls: the rules of the authorizer (KIP-140, KIP-290).

[security/acl-requests] Without an authorizer they are refused [security/no-authorizer].
"""

from collections.abc import Generator
from enum import IntEnum
from typing import Any

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.create_acls import (
    CreateAclsRequest,
    CreateAclsRequestCreation,
    CreateAclsResponse,
    CreateAclsResponseResult,
)
from coterie.protocol.messages.delete_acls import (
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteAclsResponseAcl,
    DeleteAclsResponseResult,
)
from coterie.protocol.messages.describe_acls import (
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeAclsResponseAcl,
    DescribeAclsResponseResource,
)
from coterie.protocol.refusals import refused_in_steps
from coterie.protocol.resources import ResourceType
from coterie.security.acl import CLUSTER_NAME, Acl, AclFilter, PatternType, Permission
from coterie.security.acl_messages import acl_of, filter_of
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.network.route import Handler
from coterie.server.network.sliced_response import MADE_AT_ONCE, answer_in_slices, run_in_slices
from coterie.server.services import Services

# How many rules one request may remove, as in Kafka.
MOST_REMOVED = 10_000
# How many rules are stored: a rule takes about 700 bytes, and the first look at all rules of a type
# for one client 4 ms.
MOST_RULES = 20_000
# Codes that only filters may have.
_OF_FILTERS = (1, 2)
_NO_COLON = "(no colon is present separating the principal type from the principal name)"
_TOO_MANY_RULES = f"There are {MOST_RULES} rules already."
_TOO_MANY = "The number of ACLs to delete in one request is limited to 10000."

# A response, and the rules to add and to remove before it is sent.
_Changed = tuple[Any, list[Acl], list[Acl]]


def _describe(broker: Services, request: DescribeAclsRequest, connection: Exchange) -> Any:
    if broker.access is None:
        return _disabled(broker, request, connection, "No Authorizer is configured on the broker")
    wanted = filter_of(request)
    if _has_zero(wanted):
        return _closed(connection)
    return answer_in_slices(broker, connection, _described(broker, wanted))


def _described(broker: Services, wanted: AclFilter) -> Generator[None, None, DescribeAclsResponse]:
    resources: dict[tuple[int, str, int], DescribeAclsResponseResource] = {}
    for count, acl in enumerate(list(broker.acls.ids), 1):
        if not count % MADE_AT_ONCE:
            yield
        if wanted.fits(acl):
            key = acl[:3]
            resource = resources.get(key)
            if resource is None:
                resource = resources[key] = DescribeAclsResponseResource(
                    resource_type=acl.resource_type,
                    resource_name=acl.name,
                    pattern_type=acl.pattern_type,
                    acls=[],
                )
            resource.acls.append(
                DescribeAclsResponseAcl(
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
            )
    return DescribeAclsResponse(
        error_code=ErrorCode.NONE, error_message="", resources=list(resources.values())
    )


# --- creation -------------------------------------------------------------------------------------


def _create(broker: Services, request: CreateAclsRequest, connection: Exchange) -> Any:
    if broker.access is None:
        return _disabled(broker, request, connection, "No Authorizer is configured.")
    if any(_has_zero(acl_of(each)) for each in request.creations):
        return _closed(connection)
    if any(map(_is_of_filters, request.creations)):
        error = ErrorCode.UNKNOWN_SERVER_ERROR
        return CreateAclsResponse(results=[_result(error, None) for _ in request.creations])
    left = MOST_RULES - len(broker.acls)
    return _answer(broker, connection, _created(request, left))


def _created(request: CreateAclsRequest, left: int) -> Generator[None, None, _Changed]:
    results: list[CreateAclsResponseResult] = []
    wanted: list[Acl] = []
    for count, each in enumerate(request.creations, 1):
        if not count % MADE_AT_ONCE:
            yield
        reason = _invalid(each)
        error = ErrorCode.NONE if reason is None else ErrorCode.INVALID_REQUEST
        if reason is None and len(wanted) >= left:
            error, reason = ErrorCode.POLICY_VIOLATION, _TOO_MANY_RULES
        elif reason is None:
            wanted.append(acl_of(each))
        results.append(_result(error, reason or ""))
    return CreateAclsResponse(results=results), wanted, []


def _is_of_filters(asked: CreateAclsRequestCreation) -> bool:
    """Return whether a rule has a code that only filters have, which Kafka fails at."""
    return (
        asked.resource_type == ResourceType.ANY
        or asked.resource_pattern_type in _OF_FILTERS
        or asked.operation == AclOperation.ANY
        or asked.permission_type == Permission.ANY
    )


def _invalid(asked: CreateAclsRequestCreation) -> str | None:
    """Return why a rule cannot be created, in Kafka's words."""
    if asked.resource_type not in _codes(ResourceType):
        return "Invalid resourceType UNKNOWN"
    if asked.resource_pattern_type not in _codes(PatternType):
        return "Invalid patternType UNKNOWN"
    if asked.operation not in _codes(AclOperation):
        return "Invalid operation UNKNOWN"
    if asked.permission_type not in _codes(Permission):
        return "Invalid permissionType UNKNOWN"
    if asked.resource_type == ResourceType.CLUSTER and asked.resource_name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    if not asked.resource_name:
        return "Invalid empty resource name"
    if ":" not in asked.principal:
        return f"Could not parse principal from `{asked.principal}` {_NO_COLON}"
    return None


def _codes(values: type[IntEnum]) -> frozenset[int]:
    return frozenset(map(int, values))


def _result(error: ErrorCode, text: str | None) -> CreateAclsResponseResult:
    return CreateAclsResponseResult(error_code=error, error_message=text)


# --- deletion -------------------------------------------------------------------------------------


def _delete(broker: Services, request: DeleteAclsRequest, connection: Exchange) -> Any:
    if broker.access is None:
        return _disabled(broker, request, connection, "No Authorizer is configured.")
    filters = [filter_of(each) for each in request.filters]
    if any(map(_has_zero, filters)):
        return _closed(connection)
    return _answer(broker, connection, _deleted(broker, filters))


def _deleted(broker: Services, filters: list[AclFilter]) -> Generator[None, None, _Changed]:
    found: dict[Acl, None] = {}
    results = []
    for each in filters:
        reason = _unknown(each)
        matching: list[Acl] = []
        if reason is None:
            for count, acl in enumerate(list(broker.acls.ids), 1):
                if not count % MADE_AT_ONCE:
                    yield
                if each.fits(acl):
                    matching.append(acl)
        found.update(dict.fromkeys(matching))
        results.append(
            DeleteAclsResponseResult(
                error_code=ErrorCode.NONE if reason is None else ErrorCode.INVALID_REQUEST,
                error_message=reason,
                matching_acls=[_removed(acl) for acl in matching],
            )
        )
    if len(found) > MOST_REMOVED:
        return _too_many(results), [], []
    return DeleteAclsResponse(filter_results=results), [], list(found)


def _too_many(results: list[DeleteAclsResponseResult]) -> DeleteAclsResponse:
    for each in results:
        each.error_code, each.error_message = ErrorCode.INVALID_REQUEST, _TOO_MANY
        each.matching_acls = []
    return DeleteAclsResponse(filter_results=results)


def _unknown(wanted: AclFilter) -> str | None:
    if wanted.operation not in _codes(AclOperation) or wanted.permission not in _codes(Permission):
        return "Unknown entryFilter."
    is_known = wanted.resource_type in _codes(ResourceType)
    return (
        None
        if is_known and wanted.pattern_type in _codes(PatternType)
        else ("Unknown patternFilter.")
    )


def _removed(acl: Acl) -> DeleteAclsResponseAcl:
    return DeleteAclsResponseAcl(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


# --- both -----------------------------------------------------------------------------------------


def _answer(broker: Services, connection: Exchange, steps: Generator[None, None, _Changed]) -> None:
    """Change the rules, and answer when that is durable. The connection is muted until then."""
    delayed = DelayedResponse(connection)
    connection.delay_and_mute(delayed)

    def change(changed: _Changed) -> None:
        response, add, remove = changed
        # A rule may have gone since it was found.
        still = [each for each in remove if each in broker.acls.ids]
        assert broker.access is not None, "there is an authorizer"
        broker.access.change(add, still, lambda error: delayed.send(_outcome(response, error)))

    run_in_slices(broker, connection, steps, change)


def _outcome(response: Any, error: Exception | None) -> Any:
    """Return the response, or one that says that nothing is stored."""
    if error is not None:
        results = getattr(response, "results", None) or response.filter_results
        for each in results:
            if not each.error_code:
                each.error_code, each.error_message = ErrorCode.KAFKA_STORAGE_ERROR, str(error)
    return response


def _has_zero(asked: Acl | AclFilter) -> bool:
    """Return whether a rule or a filter has the code 0, which stands for no value."""
    return 0 in (asked.resource_type, asked.pattern_type, asked.operation, asked.permission)


def _closed(connection: Exchange) -> None:
    """Close the connection without an answer, as Kafka does."""
    connection.close("InvalidAcl", "a rule or a filter has the code 0, which stands for no value")


def _disabled(broker: Services, request: Any, connection: Exchange, text: str) -> Any:
    refused = refused_in_steps(
        request, ErrorCode.SECURITY_DISABLED, connection.version, error_message=text
    )
    return answer_in_slices(broker, connection, refused)


HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.DESCRIBE_ACLS: _describe,
    ApiKey.CREATE_ACLS: _create,
    ApiKey.DELETE_ACLS: _delete,
}
