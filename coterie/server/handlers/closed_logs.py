"""Requests for partitions whose logs are not open yet [topics/partition-states]."""

from collections.abc import Iterable

from coterie.server.logs.partition import Partition
from coterie.server.network.delayed_response import Exchange
from coterie.server.services import Services


def must_wait(
    broker: Services, partitions: Iterable[Partition], request: object, connection: Exchange
) -> bool:
    """Return whether a request waits for logs to be opened; it is handled again when they are.

    Logs that cannot be opened are not waited for: the request gets an error for them.
    """
    opener = broker.logs.opener
    closed = [each for each in partitions if each.opened_log is None and opener.may_open(each)]
    if not closed:
        return False
    opener.open(closed, connection.postpone(request))
    return True
