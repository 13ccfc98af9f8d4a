"""The operations of the control port of one broker: methods of `coterie.testing.Broker`.

To add a verb, add a row. The table of several brokers is in `cluster_operations`.
"""

from coterie.control.console_operations import (
    ADVANCE,
    FAULTS,
    INSTALL,
    MOMENT,
    REMOVE,
    SESSIONS,
    SHARE_PARTITIONS,
)
from coterie.control.control import Control
from coterie.control.operations import Row, Table
from coterie.testing.broker import Broker
from coterie.testing.faults import Fault
from coterie.testing.groups import Group
from coterie.testing.requests import Requests

ROWS = (
    Row("GET", "/health", Control.health, is_open=True),
    Row("GET", "/ready", Control.ready, is_open=True),
    Row("POST", "/restart", Broker.restart),
    Row("POST", "/kill", Broker.kill),
    Row("POST", "/lose_power", Broker.lose_power),
    Row("POST", "/flush", Broker.flush),
    ADVANCE,
    Row("POST", "/close", Control.close),
    Row("GET", "/features", Broker.features),
    Row("POST", "/features", Broker.set_features),
    Row("GET", "/users", Broker.users),
    Row("POST", "/users", Broker.add_user),
    Row("DELETE", "/users/{user}", Broker.revoke),
    Row("GET", "/acls", Broker.acls),
    Row("POST", "/acls", Broker.add_acls),
    Row("POST", "/acls/remove", Broker.remove_acls),
    Row("POST", "/certificates/reload", Broker.reload_certificates),
    MOMENT,
    Row("GET", "/report", Broker.report),
    Row("GET", "/topics", Broker.topics),
    Row("POST", "/topics", Broker.topic),
    Row("DELETE", "/topics/{name}", Broker.delete_topic),
    Row("GET", "/topics/{topic}/records", Broker.records),
    Row("POST", "/topics/{topic}/records", Broker.produce),
    Row("GET", "/groups", Broker.groups),
    Row("GET", "/groups/{group_id}", Broker.group, Control.group_state),
    Row("DELETE", "/groups/{group_id}", Group.delete),
    Row("GET", "/groups/{group_id}/state", Group.state),
    Row("GET", "/groups/{group_id}/generation", Group.generation),
    Row("GET", "/groups/{group_id}/members", Group.members),
    SESSIONS,
    Row("GET", "/groups/{group_id}/assignment", Group.assignment),
    Row("GET", "/groups/{group_id}/offsets", Group.offsets),
    Row("GET", "/groups/{group_id}/lag", Group.lag),
    Row("GET", "/groups/{group_id}/tasks", Group.tasks),
    SHARE_PARTITIONS,
    Row("GET", "/groups/{group_id}/deliveries", Group.deliveries),
    Row("GET", "/groups/{group_id}/settings", Group.settings),
    Row("POST", "/groups/{group_id}/settings", Group.configure),
    Row("GET", "/groups/{group_id}/history", Group.history),
    Row("GET", "/groups/{group_id}/moves", Group.moves),
    Row("GET", "/groups/{group_id}/stuck", Group.stuck),
    Row("POST", "/groups/{group_id}/wait/stable", Group.wait_stable, Control.group_state),
    Row("POST", "/groups/{group_id}/wait/empty", Group.wait_empty, Control.group_state),
    Row("POST", "/groups/{group_id}/wait/assigned", Group.wait_assigned, Control.group_state),
    Row("POST", "/groups/{group_id}/wait/tasks", Group.wait_tasks, Control.group_state),
    Row("POST", "/groups/{group_id}/wait/committed", Group.wait_committed, Control.group_state),
    Row("POST", "/groups/{group_id}/wait/rebalanced", Group.wait_rebalanced, Control.group_state),
    Row("POST", "/groups/{group_id}/wait/acquired", Group.wait_acquired, Control.group_state),
    Row(
        "POST", "/groups/{group_id}/wait/acknowledged", Group.wait_acknowledged, Control.group_state
    ),
    Row("POST", "/groups/{group_id}/wait/archived", Group.wait_archived, Control.group_state),
    Row("POST", "/groups/{group_id}/rebalance", Group.rebalance),
    Row("POST", "/groups/{group_id}/expel", Group.expel),
    FAULTS,
    INSTALL,
    Row("GET", "/faults/{fault_id}", Control.fault, Control.fault_state),
    REMOVE,
    Row("POST", "/faults/{fault_id}/must_have_hit", Fault.must_have_hit),
    Row("GET", "/requests", Control.requests),
    Row("DELETE", "/requests", Requests.clear),
    Row("GET", "/requests/{api}", Requests.of),
    Row("GET", "/requests/{api}/last", Requests.last),
)

BROKER = Table("Broker", ROWS)
