"""The group coordinator of a broker, made of the parts around it."""

from functools import partial

from coterie.coordinator.groups.service import GroupCoordinator
from coterie.server.coordinators.host import Host
from coterie.server.groups.internal_topics import InternalTopics
from coterie.server.groups.runtime import GroupRuntime
from coterie.server.handlers.create_topics import new_topic
from coterie.server.services import Services
from coterie.server.share_state.group_persister import GroupPersister


def make_group_runtime(broker: Services, host: Host) -> GroupRuntime:
    """Return the runtime of a broker whose topics are there."""
    config, environment, published = broker.config, broker.environment, broker.topics.published
    offsets = broker.offsets_topic
    group_config = config.group_config()._replace(
        # The number of existing partitions counts, whatever the setting is now: another one would
        # look for groups in other partitions [coordinator/partition].
        offsets_topic_num_partitions=len(offsets.partitions)
    )
    timeout_ms = config.set_text("offsets.commit.timeout.ms")
    if timeout_ms is not None:
        group_config = group_config._replace(offsets_commit_timeout_ms=int(timeout_ms))
    groups = GroupRuntime(
        host,
        GroupCoordinator(group_config, environment.new_uuid_text, host.now_ms(), published.image),
        broker.journal,
        broker.slices,
        codec=config.get_int("offsets.topic.compression.codec"),
        failed=offsets.partition_failed,
        persister=GroupPersister(broker.loop, broker.persister),
    )
    groups.take_over(offsets.partitions)
    return groups


def make_internal_topics(broker: Services) -> InternalTopics:
    """Return what creates the internal topics of the streams groups of a broker."""
    return InternalTopics(
        broker.environment, broker.topics, broker.changes, partial(new_topic, broker)
    )
