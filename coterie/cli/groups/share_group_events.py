"""Events of a share group's timeline, from the facts about its deliveries."""

from collections.abc import Callable
from typing import Any

from coterie.cli.output import printable
from coterie.cli.timeline import Event, joined_text
from coterie.client.names import counted, short_member
from coterie.protocol.messages.share_facts import LOCK_TIMEOUT, DeliveriesFailed

_MOST_RANGES = 3


def _failed(fact: DeliveriesFailed) -> Event:
    records = sum(each.last_offset - each.first_offset + 1 for each in fact.deliveries)
    given_up = sum(
        each.last_offset - each.first_offset + 1 for each in fact.deliveries if each.given_up
    )
    ranges = [
        f"{each.first_offset}-{each.last_offset}"
        if each.first_offset < each.last_offset
        else str(each.first_offset)
        for each in fact.deliveries
    ]
    more = len(ranges) - _MOST_RANGES
    members = list(dict.fromkeys(each.member_id for each in fact.deliveries))
    most = max((each.delivery_count for each in fact.deliveries), default=0)
    timed_out = fact.cause == LOCK_TIMEOUT
    who = short_member(members[0]) if len(members) == 1 else counted(len(members), "member")
    details = joined_text(
        f"{printable(fact.topic)}-{fact.partition} at {', '.join(ranges[:_MOST_RANGES])}"
        + (f" and {more} more" if more > 0 else ""),
        f"{'held by' if timed_out else 'released by'} {who}",
        f"delivered {counted(most, 'time')}",
        f"{given_up} given up" if given_up and timed_out else None,
    )
    what = f"{counted(records, 'record')} {'timed out' if timed_out else 'given up'}"
    return Event(fact.at_ms, "!", "yellow", what, details)


EVENTS: dict[type, Callable[[Any], Event]] = {DeliveriesFailed: _failed}
