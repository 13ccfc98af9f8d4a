"""The group coordinator of a broker, made of the parts around it."""

from collections.abc import Callable

from coterie.coordinator.groups.service import GroupCoordinator
from coterie.server.coordinators.host import Host
from coterie.server.groups.journal import Journal
from coterie.server.groups.offsets_topic import topic_at_start
from coterie.server.groups.runtime import GroupRuntime
from coterie.server.services import Services


def make_group_runtime(
    broker: Services, host: Host, partition_failed: Callable[[int], None]
) -> GroupRuntime:
    """Return the runtime of a broker whose topics are there; `__consumer_offsets` is created.

    Args:
        broker: the broker.
        host: the surroundings of the runtime.
        partition_failed: called with the number of a partition that is not served any more.
    """
    config, environment, published = broker.config, broker.environment, broker.topics.published
    offsets = topic_at_start(broker.controller, config)
    group_config = config.group_config()._replace(
        # The number of existing partitions counts, whatever the setting is now: another one would
        # look for groups in other partitions [coordinator/partition].
        offsets_topic_num_partitions=offsets.partition_count
    )
    groups = GroupRuntime(
        host,
        GroupCoordinator(group_config, environment.new_uuid_text, host.now_ms(), published.image),
        Journal(broker.controller, config, environment, offsets.partition_count),
        broker.slices,
        codec=config.get_int("offsets.topic.compression.codec"),
        failed=partition_failed,
    )
    published.when_changed.append(groups.topic_changed)
    groups.take_over(offsets.partitions)
    return groups
