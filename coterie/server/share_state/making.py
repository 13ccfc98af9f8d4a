"""The share coordinator of a broker, made of the parts around it."""

from coterie.coordinator.share_state.service import ShareCoordinator
from coterie.server.coordinators.host import Host
from coterie.server.services import Services
from coterie.server.share_state.runtime import ShareStateRuntime


def make_share_state_runtime(broker: Services, host: Host) -> ShareStateRuntime:
    """Return the runtime of a broker whose topics are there."""
    config = broker.config
    state_config = config.share_state_config()
    timeout_ms = config.set_text("share.coordinator.write.timeout.ms")
    if timeout_ms is not None:
        state_config = state_config._replace(write_timeout_ms=int(timeout_ms))
    coordinator = ShareCoordinator(state_config, broker.topics.published.image)
    codec = config.get_int("share.coordinator.state.topic.compression.codec")
    delete_records = broker.logs.delete_records
    return ShareStateRuntime(host, coordinator, broker.controller, codec, delete_records)
