"""The tasks of a topology."""

from collections.abc import Mapping

from coterie.coordinator.streams_topology.model import ConfiguredTopology
from coterie.protocol.messages.streams_group_records import StreamsGroupTopologyValue


def configure(
    topology: StreamsGroupTopologyValue, partitions_of: Mapping[str, int]
) -> ConfiguredTopology:
    """Return a topology with its tasks, and the internal topics that are to be created.

    Args:
        topology: the topology of a group.
        partitions_of: the topics that exist, by name, and how many partitions each has.

    Raises:
        InvalidTopology: no topics can make it valid.
    """
    raise NotImplementedError
