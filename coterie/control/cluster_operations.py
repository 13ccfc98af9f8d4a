"""The operations of the control port of several brokers: methods of `coterie.testing.Cluster`.

What a single broker also has is called the same. See `operations`.
"""

from coterie.control.cluster_control import ClusterControl
from coterie.control.operations import Row
from coterie.testing.cluster import Cluster

CLUSTER_ROWS = (
    Row("GET", "/health", ClusterControl.health, is_open=True),
    Row("GET", "/ready", ClusterControl.ready, is_open=True),
    Row("GET", "/cluster", ClusterControl.state),
    Row("POST", "/cluster/metadata_delay", Cluster.delay_metadata),
    Row("POST", "/cluster/elect", ClusterControl.elect),
    Row("POST", "/brokers/{node_id}/kill", Cluster.kill),
    Row("POST", "/brokers/{node_id}/stop", Cluster.stop),
    Row("POST", "/brokers/{node_id}/start", ClusterControl.start),
    Row("POST", "/brokers/{node_id}/pause", Cluster.pause),
    Row("POST", "/brokers/{node_id}/resume", Cluster.resume),
    Row("POST", "/advance", ClusterControl.advance),
    Row("POST", "/close", ClusterControl.close),
    Row("POST", "/certificates/reload", ClusterControl.reload_certificates),
    Row("GET", "/topics", ClusterControl.topics),
    Row("POST", "/topics", Cluster.topic),
    Row("DELETE", "/topics/{name}", ClusterControl.delete_topic),
    Row("GET", "/topics/{topic}/records", ClusterControl.records),
    Row("POST", "/topics/{topic}/records", ClusterControl.produce),
    Row("GET", "/topics/{topic}/leader", Cluster.leader_of),
    Row("GET", "/topics/{topic}/epoch", Cluster.epoch_of),
    Row("GET", "/topics/{topic}/isr", Cluster.isr_of),
    Row("POST", "/topics/{topic}/move", Cluster.move),
    Row("POST", "/topics/{topic}/cut", Cluster.cut),
    Row("POST", "/topics/{topic}/wait/leader", Cluster.wait_leader),
    Row("POST", "/topics/{topic}/wait/isr", Cluster.wait_isr),
    Row("GET", "/groups", ClusterControl.groups),
    Row("GET", "/groups/{group_id}/coordinator", Cluster.coordinator_of),
    Row("POST", "/groups/{group_id}/move", Cluster.move_coordinator),
    Row("POST", "/groups/{group_id}/wait/coordinator", Cluster.wait_coordinator),
    Row(
        "GET",
        "/transactions/{transactional_id}/coordinator",
        Cluster.transaction_coordinator_of,
    ),
    Row("POST", "/transactions/{transactional_id}/move", Cluster.move_transaction_coordinator),
)
