"""What the first page is pushed: the cluster, its groups, findings and rebalances."""

from coterie.console.hub import Subscription
from coterie.console.model.feed import GroupsFeed
from coterie.console.routes import Request, Route


def _events(request: Request) -> Subscription:
    place = request.place
    return place.hub.subscribe("groups", lambda: GroupsFeed(place))


ROUTES = (
    Route(
        "GET",
        "/api/events",
        "The groups as they change: events `cluster`, `groups`, `findings` and `rebalance`.",
        _events,
        streams=True,
    ),
)
