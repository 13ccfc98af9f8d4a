"""The groups that read topics: by committed offsets, and by what members subscribe to."""

from collections.abc import Iterable

from coterie.client.cluster import Cluster
from coterie.client.consumer_groups import with_matched_topics
from coterie.client.groups import describe_groups, list_groups
from coterie.client.offsets import committed_offsets_of_groups

# Share groups have no such offsets.
_TYPES = ("classic", "consumer", "streams")


def groups_of_topics(cluster: Cluster, topics: Iterable[str]) -> dict[str, list[str]]:
    """Return the groups that read each topic, by name.

    Raises:
        Refused: a broker can't list its groups, or a coordinator refuses.
    """
    names = [each.group_id for each in list_groups(cluster) if each.type in _TYPES]
    if not names:
        return {topic: [] for topic in topics}
    described = with_matched_topics(cluster, describe_groups(cluster, names))
    committed = committed_offsets_of_groups(cluster, names)
    read = {
        name: {
            *(topic for topic, _ in committed[name]),
            *(topic for member in described[name].members for topic in member.topics or ()),
            *(topic for member in described[name].members for topic in member.assignment or ()),
        }
        for name in names
    }
    return {topic: [name for name in names if topic in read[name]] for topic in topics}
