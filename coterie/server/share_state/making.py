"""The share coordinator of a broker, made of the parts around it."""

from coterie.coordinator.share_state.service import ShareCoordinator
from coterie.server.coordinators.host import Host
from coterie.server.services import Services
from coterie.server.share_state.runtime import ShareStateRuntime


def make_share_state_runtime(broker: Services, host: Host) -> ShareStateRuntime:
    """Return the runtime of a broker whose topics are there."""
    config = broker.config
    coordinator = ShareCoordinator(config.share_state_config(), broker.topics.published.image)
    codec = config.get_int("share.coordinator.state.topic.compression.codec")
    return ShareStateRuntime(host, coordinator, broker.controller, codec)
