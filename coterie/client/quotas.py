"""Quotas of users, client ids and addresses: list, set and remove them [client/quotas]."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from coterie.client.cluster import Cluster
from coterie.client.connection import Deadline
from coterie.client.errors import Refused
from coterie.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntity,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasRequestOp,
    AlterClientQuotasResponse,
)
from coterie.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasRequestComponent,
    DescribeClientQuotasResponse,
)

# Types of entities and names; None for the default of the type.
Entity = Mapping[str, str | None]

_EXACT = 0
_DEFAULT = 1


class Quotas(NamedTuple):
    """The quotas of an entity.

    Attributes:
        entity: what they are for.
        values: the quotas by their keys.
    """

    entity: Entity
    values: Mapping[str, float]


def list_quotas(cluster: Cluster, entity: Entity, *, strict: bool) -> list[Quotas]:
    """Return the quotas of all entities that have certain types and names.

    Args:
        cluster: the cluster.
        entity: the types and names; empty for all entities.
        strict: leave out entities that have other types besides.

    Raises:
        ClientError: the cluster cannot be asked or refuses the request.
    """
    request = DescribeClientQuotasRequest(
        components=[
            DescribeClientQuotasRequestComponent(
                entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name
            )
            for kind, name in entity.items()
        ],
        strict=strict,
    )
    response = cluster.call_any(request, DescribeClientQuotasResponse)
    if response.error_code:
        raise Refused(response.error_code, "Listing quotas", response.error_message)
    found = [
        Quotas(
            {part.entity_type: part.entity_name for part in each.entity},
            {value.key: value.value for value in sorted(each.values, key=lambda value: value.key)},
        )
        for each in response.entries or ()
    ]
    return sorted(found, key=lambda each: sorted((k, n or "") for k, n in each.entity.items()))


def alter_quotas(
    cluster: Cluster,
    entity: Entity,
    values: Mapping[str, float],
    removed: Sequence[str],
    *,
    only_check: bool,
) -> None:
    """Set and remove quotas of one entity.

    Args:
        cluster: the cluster.
        entity: the types and names.
        values: the quotas to set, by their keys.
        removed: the keys of the quotas to remove.
        only_check: change nothing.

    Raises:
        ClientError: the cluster cannot be asked or refuses the change.
    """
    request = AlterClientQuotasRequest(
        entries=[
            AlterClientQuotasRequestEntry(
                entity=[
                    AlterClientQuotasRequestEntity(entity_type=kind, entity_name=name)
                    for kind, name in entity.items()
                ],
                ops=[
                    *(
                        AlterClientQuotasRequestOp(key=key, value=value, remove=False)
                        for key, value in values.items()
                    ),
                    *(
                        AlterClientQuotasRequestOp(key=key, value=0.0, remove=True)
                        for key in removed
                    ),
                ],
            )
        ],
        validate_only=only_check,
    )
    controller = cluster.controller()
    response = controller.call(request, AlterClientQuotasResponse, Deadline(cluster.timeout_s))
    for each in response.entries:
        if each.error_code:
            raise Refused(each.error_code, "The quotas were not changed", each.error_message)
