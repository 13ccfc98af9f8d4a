"""Share fetches and acknowledgements of clients that may not read every topic.

The group decides about the whole request, a topic about its partitions, also those that the share
session remembers.
"""

from functools import partial

from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from coterie.protocol.messages.share_fetch import ShareFetchRequest
from coterie.protocol.resources import ResourceType
from coterie.server.authorization.access import ClientAccess
from coterie.server.authorization.outcome import Handled, Outcome, refused
from coterie.server.handlers.share_acknowledge import handle as acknowledge
from coterie.server.handlers.share_fetch import handle as fetch
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services


def share_fetch(
    _broker: Services, access: ClientAccess, request: ShareFetchRequest, connection: Exchange
) -> Outcome:
    """Ask for READ on the group and on each topic."""
    if not _may_use(access, request.group_id):
        return refused(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, connection.version)
    return Handled(partial(fetch, may_read=partial(_may_read, access)))


def share_acknowledge(
    _broker: Services, access: ClientAccess, request: ShareAcknowledgeRequest, connection: Exchange
) -> Outcome:
    """Ask for READ on the group and on each topic."""
    if not _may_use(access, request.group_id):
        return refused(request, ErrorCode.GROUP_AUTHORIZATION_FAILED, connection.version)
    return Handled(partial(acknowledge, may_read=partial(_may_read, access)))


def _may_use(access: ClientAccess, group_id: str | None) -> bool:
    # A request without a group is refused for that.
    return group_id is None or access.may(AclOperation.READ, ResourceType.GROUP, group_id)


def _may_read(access: ClientAccess, topic: str) -> bool:
    return access.may(AclOperation.READ, ResourceType.TOPIC, topic)
