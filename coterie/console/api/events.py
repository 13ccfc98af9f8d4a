"""What the first page is pushed: the cluster, its groups, findings and rebalances."""

from contextlib import suppress
from typing import Any, cast

from coterie.client.history import NoJournal
from coterie.console.api.parameters import choice, choice_of
from coterie.console.hub import Subscription
from coterie.console.model.feed import GroupsFeed
from coterie.console.routes import Request, Route


def _events(request: Request) -> Subscription:
    place = request.place
    return place.hub.subscribe("groups", lambda: GroupsFeed(place))


_HOURS = choice("hours", "How long: an hour, or a day of a cluster with a journal.", ("1", "24"))


def _rebalances(request: Request) -> dict[str, Any]:
    if choice_of(request.query, _HOURS) == "24":
        # Without a journal there is what pages have seen.
        with suppress(NoJournal), request.place.cluster() as cluster:
            return request.place.recent_day.read(cluster)
    # The hub has this source by that name only.
    feed = cast("GroupsFeed | None", request.place.hub.source("groups"))
    return {"at_ms": None, "groups": []} if feed is None else feed.rebalances()


ROUTES = (
    Route(
        "GET",
        "/api/events",
        "The groups as they change: events `cluster`, `groups`, `findings` and `rebalance`.",
        _events,
        streams=True,
    ),
    Route(
        "GET",
        "/api/rebalances",
        "The rebalances of the last hour by group, as far as pages have followed the groups; those"
        " of a day, as the journal has them.",
        _rebalances,
        (_HOURS,),
    ),
)
