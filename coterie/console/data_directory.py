"""The directory in which the brokers of a cluster keep their data, as their settings say."""

from coterie.client.cluster import Cluster
from coterie.client.configs import describe_settings
from coterie.client.errors import ClientError

# Kafka uses the second one if the first has no value.
_SETTINGS = "log.dirs", "log.dir"


def data_directory(cluster: Cluster) -> str | None:
    """Return the directory; several of one broker with commas.

    Returns:
        None if the brokers have different ones, or do not say: the user may lack the permission to
        describe their settings, or a broker is away.
    """
    try:
        names = [str(each.node_id) for each in cluster.brokers()]
        described = describe_settings(cluster, "brokers", names, _SETTINGS)
    except ClientError:
        return None
    found: set[str | None] = set()
    for broker in described:
        values = {each.name: each.value for each in broker.settings}
        found.add(next((values[name] for name in _SETTINGS if values.get(name)), None))
    return found.pop() if len(found) == 1 else None
