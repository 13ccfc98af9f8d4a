"""The operations of the control port of several brokers: methods of `coterie.testing.Cluster`.

What a single broker also has is called in the same way. See `broker_operations`.
"""

from coterie.control.broker_operations import ROWS
from coterie.control.cluster_control import ClusterControl
from coterie.control.operations import Row, Table
from coterie.testing.cluster import Cluster

# What is for a single broker, or is another method with several.
_NOT_HERE = ("/ready", "/restart", "/kill", "/lose_power")

_OWN = (
    Row("GET", "/ready", ClusterControl.ready, is_open=True),
    Row("POST", "/restart", ClusterControl.restart),
    Row("POST", "/lose_power", Cluster.lose_power),
    Row("GET", "/cluster", ClusterControl.state),
    Row("POST", "/cluster/metadata_delay", Cluster.delay_metadata),
    Row("POST", "/cluster/elect", ClusterControl.elect),
    Row("POST", "/brokers/{node_id}/kill", Cluster.kill),
    Row("POST", "/brokers/{node_id}/stop", Cluster.stop),
    Row("POST", "/brokers/{node_id}/start", ClusterControl.start),
    Row("POST", "/brokers/{node_id}/restart", Cluster.restart),
    Row("POST", "/brokers/{node_id}/pause", Cluster.pause),
    Row("POST", "/brokers/{node_id}/resume", Cluster.resume),
    Row("POST", "/topics", Cluster.topic),
    Row("GET", "/topics/{topic}/leader", Cluster.leader_of),
    Row("GET", "/topics/{topic}/epoch", Cluster.epoch_of),
    Row("GET", "/topics/{topic}/isr", Cluster.isr_of),
    Row("POST", "/topics/{topic}/move", Cluster.move),
    Row("POST", "/topics/{topic}/cut", Cluster.cut),
    Row("POST", "/topics/{topic}/wait/leader", Cluster.wait_leader),
    Row("POST", "/topics/{topic}/wait/isr", Cluster.wait_isr),
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
_REPLACED = {(row.method, row.path) for row in _OWN}
_SHARED = [
    row for row in ROWS if row.path not in _NOT_HERE and (row.method, row.path) not in _REPLACED
]

# The page of the operations has a section for the first part of each path.
CLUSTER_ROWS = tuple(sorted((*_SHARED, *_OWN), key=lambda row: row.path.split("/")[1]))
CLUSTER = Table("Cluster", CLUSTER_ROWS)
