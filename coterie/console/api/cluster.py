"""The cluster: its brokers."""

from typing import Any

from coterie import __version__
from coterie.console.data_directory import data_directory
from coterie.console.routes import Request, Route


def _cluster(request: Request) -> dict[str, Any]:
    place = request.place
    with place.cluster() as cluster:
        brokers = cluster.brokers()
        data_dir = data_directory(cluster)
    return {
        "bootstrap": place.bootstrap,
        "version": __version__,
        "data_dir": data_dir,
        "allows_changes": place.allows_changes,
        "has_control": place.control is not None,
        "brokers": [{"id": each.node_id, "address": str(each.address)} for each in brokers],
    }


ROUTES = (Route("GET", "/api/cluster", "The brokers, and what the console may do.", _cluster),)
