"""ListGroups: the groups that this broker coordinates; there may be 100,000."""

from collections.abc import Callable, Generator
from typing import Any, cast

from coterie.coordinator.groups.admin import list_groups
from coterie.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from coterie.protocol.spliced import EncodedArray, elements_encoder
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.sliced_response import answer_in_slices
from coterie.server.services import Services


def handle(
    broker: Services,
    request: ListGroupsRequest,
    connection: Exchange,
    may_see: Callable[[str], bool] | None = None,
) -> ListGroupsResponse | None:
    """Return the groups of all loaded partitions; `may_see` tells which, if not all of them."""
    return answer_in_slices(
        broker, connection, _answer(broker, request, connection.version, may_see)
    )


def _answer(
    broker: Services,
    request: ListGroupsRequest,
    version: int,
    may_see: Callable[[str], bool] | None,
) -> Generator[None, None, ListGroupsResponse]:
    encode = elements_encoder(ListGroupsResponse, version, ListGroupsResponse, "groups")
    groups = EncodedArray()
    error, shards = broker.coordinator.listable_shards()
    for shard in shards:
        for part in list_groups(shard, request):
            if may_see is not None:
                part = [each for each in part if may_see(each.group_id)]
            groups.add(encode(part), len(part))
            yield
    # The route splices the encoded groups into the response.
    return ListGroupsResponse(error_code=error, groups=cast("Any", groups))
