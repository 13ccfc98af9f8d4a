"""Requests for partitions whose logs are not open yet [topics/partition-states]."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from coterie.server.logs.partition import Partition

if TYPE_CHECKING:
    from coterie.server.broker import Broker
    from coterie.server.network.connection import Connection


def must_wait(
    broker: "Broker", partitions: Iterable[Partition], request: object, connection: "Connection"
) -> bool:
    """Return whether a request waits for logs to be opened; it is handled again when they are.

    Logs that cannot be opened are not waited for: the request gets an error for them.
    """
    opener = broker.topics.opener
    closed = [each for each in partitions if each.opened_log is None and opener.may_open(each)]
    if not closed:
        return False
    opener.open(closed, connection.postpone(request))
    return True
