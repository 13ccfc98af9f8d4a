"""Checks that follow from the declaration of what a request touches [security/resources].

A resource that the request names once, or the cluster, decides about the whole request; one in a
list decides about its element, which is taken out if it is refused.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.apis import request_class
from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.errors import ErrorCode
from coterie.protocol.fields import Declaration
from coterie.protocol.refusals import refused_elements
from coterie.protocol.resources import ResourceType, Touched, resources
from coterie.protocol.schema import fields_of
from coterie.server.authorization.access import ClientAccess
from coterie.server.authorization.outcome import (
    ERRORS,
    Allowed,
    Check,
    Outcome,
    appended,
    refused,
    text_of,
)
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services

# In these APIs what was refused comes first in Kafka's answer.
_REFUSED_FIRST = {ApiKey.DESCRIBE_GROUPS, ApiKey.OFFSET_COMMIT, ApiKey.TXN_OFFSET_COMMIT}
# In these Kafka's refusal has no text.
_WITHOUT_TEXT = {
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    ApiKey.CREATE_PARTITIONS,
    ApiKey.DESCRIBE_CLIENT_QUOTAS,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.SHARE_GROUP_DESCRIBE,
    ApiKey.STREAMS_GROUP_DESCRIBE,
}


class Need(NamedTuple):
    """One row of the declaration, for one version.

    Attributes:
        row: its number.
        kind, operation: what is needed.
        path: the fields that lead to the names; empty for the cluster.
        by_id: whether topics have ids instead of names.
    """

    row: int
    kind: ResourceType
    operation: AclOperation
    path: tuple[str, ...]
    by_id: bool = False

    @property
    def is_of_elements(self) -> bool:
        """Whether it decides about elements of a list."""
        return len(self.path) > 1


def needs_of(api: ApiKey, version: int) -> list[Need]:
    """Return what an API needs in a version."""
    found = []
    for row, touched in enumerate(resources()[api]):
        if touched.operation is not None:
            path = _path(touched, request_class(api), version)
            if path is not None:
                by_id = _names_by_id(request_class(api), path, version)
                found.append(Need(row, touched.type, touched.operation, path, by_id))
    return found


def _path(touched: Touched, cls: type[Declaration], version: int) -> tuple[str, ...] | None:
    """Return the fields that lead to names in a version; None if it has none of them."""
    if not touched.names:
        return ()
    for names in touched.names:
        for field in fields_of(cls):
            if field.name == names.path[0] and field.present(version):
                # A list of names is one of elements that are names.
                return (
                    (*names.path, "") if field.type.element and len(names.path) == 1 else names.path
                )
    return None


def _names_by_id(cls: type[Declaration], path: tuple[str, ...], version: int) -> bool:
    """Return whether the elements of a list have ids and no names in a version."""
    if len(path) < 2:
        return False
    (field,) = [each for each in fields_of(cls) if each.name == path[0]]
    struct = field.type.element and field.type.element.struct
    present = (
        {each.name for each in fields_of(struct) if each.present(version)} if struct else set()
    )
    return "topic_id" in present and path[-1] not in present


def declared_check(api: ApiKey, version: int) -> Check:
    """Return the check of an API whose needs are all of the usual kinds."""
    needs = needs_of(api, version)
    if len(needs) == 1 and not needs[0].is_of_elements:
        return partial(_check_one, needs[0])

    def check(
        broker: Services, access: ClientAccess, request: Any, connection: Exchange
    ) -> Outcome:
        outcome: Outcome = None
        for need in needs:
            if need.is_of_elements:
                outcome = check_elements(broker, access, request, connection, need)
            else:
                outcome = check_whole(access, request, connection, need)
            if outcome is not None:
                break
        return outcome

    return check


def _check_one(
    need: Need, _broker: Services, access: ClientAccess, request: Any, connection: Exchange
) -> Outcome:
    """Check a request that needs one thing, as most do."""
    return check_whole(access, request, connection, need)


def check_whole(access: ClientAccess, request: Any, connection: Exchange, need: Need) -> Outcome:
    """Refuse a request if the client may not use the one resource that it is about."""
    if not need.path:
        is_allowed = access.may_with_cluster(need.operation)
    else:
        name = getattr(request, need.path[0])
        is_allowed = name is None or access.may(need.operation, need.kind, name)
    if is_allowed:
        return None
    error = ERRORS[need.kind]
    return refused(request, error, connection.version, error_message=_text(access.api, error))


def check_elements(
    broker: Services, access: ClientAccess, request: Any, connection: Exchange, need: Need
) -> Allowed | None:
    """Take the elements out of a request whose resources the client may not use."""
    elements = getattr(request, need.path[0])
    out = refused_of(broker, access, need, elements)
    if not out:
        return None
    setattr(
        request, need.path[0], [each for each, gone in zip(elements, out, strict=True) if not gone]
    )
    error = ERRORS[need.kind]
    field, parts = refused_elements(
        request,
        [each for each, gone in zip(elements, out, strict=True) if gone],
        error,
        connection.version,
        need.row,
        error_message=_text(access.api, error),
    )
    return appended(field, parts, first=access.api in _REFUSED_FIRST)


def _text(api: ApiKey, error: ErrorCode) -> str | None:
    return None if api in _WITHOUT_TEXT else text_of(error)


def refused_of(
    broker: Services, access: ClientAccess, need: Need, elements: Sequence[Any] | None
) -> list[bool]:
    """Return for each element whether it is refused; nothing if none is.

    The decision is made, and logged, once for each name. A topic id that is unknown is no matter of
    the authorizer.
    """
    if not elements:
        return []
    names = [_name(broker, each, need) for each in elements]
    counts = Counter(names)
    denied = {
        name
        for name, count in counts.items()
        if name is not None and not access.may(need.operation, need.kind, name, count)
    }
    return [name in denied for name in names] if denied else []


def _name(broker: Services, element: Any, need: Need) -> str | None:
    """Return the name of the resource of an element; None if its id is unknown."""
    if need.by_id:
        return topic_name(broker, element.topic_id)
    field = need.path[-1]
    return str(getattr(element, field) if field else element)


def topic_name(broker: Services, topic_id: bytes) -> str | None:
    """Return the name of the topic with an id; None if there is none."""
    topic = broker.topics.by_id.get(topic_id)
    return None if topic is None else topic.name
