"""What the first page is pushed: the cluster, its groups, findings and rebalances."""

from typing import Any, cast

from coterie.console.hub import Subscription
from coterie.console.model.feed import GroupsFeed
from coterie.console.routes import Request, Route


def _events(request: Request) -> Subscription:
    place = request.place
    return place.hub.subscribe("groups", lambda: GroupsFeed(place))


def _rebalances(request: Request) -> dict[str, Any]:
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
        "The rebalances of the last hour by group, as far as pages have followed the groups.",
        _rebalances,
    ),
)
