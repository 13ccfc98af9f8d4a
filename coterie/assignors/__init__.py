"""Kafka's and RocketMQ's assignors, by the names that are used in configurations.

Each is a pure function from partition counts and subscriptions to an assignment, with the result of
the original [assignors/deterministic]. The functions in `ASSIGNORS` need no further input;
`by-config`, `by-machine-room` and `nearby` (`machine_room.py`) need a configuration or locations.
"""

from coterie.assignors.averagely import (
    assign_averagely,
    assign_averagely_by_circle,
    share_of_client,
)
from coterie.assignors.consistent_hash import assign_consistent_hash
from coterie.assignors.cooperative_sticky import assign_cooperative_sticky
from coterie.assignors.machine_room import (
    assign_by_config,
    assign_by_machine_room,
    assign_nearby,
)
from coterie.assignors.model import (
    Assignment,
    Assignor,
    MemberSubscription,
    PartitionCounts,
    TopicPartition,
)
from coterie.assignors.range import assign_range
from coterie.assignors.round_robin import assign_round_robin
from coterie.assignors.sticky import assign_sticky
from coterie.assignors.uniform import assign_uniform

ASSIGNORS: dict[str, Assignor] = {
    "range": assign_range,
    "roundrobin": assign_round_robin,
    "sticky": assign_sticky,
    "cooperative-sticky": assign_cooperative_sticky,
    "uniform": assign_uniform,
    "allocate-averagely": assign_averagely,
    "averagely-by-circle": assign_averagely_by_circle,
    "consistent-hash": assign_consistent_hash,
}

__all__ = [
    "ASSIGNORS",
    "Assignment",
    "Assignor",
    "MemberSubscription",
    "PartitionCounts",
    "TopicPartition",
    "assign_averagely",
    "assign_averagely_by_circle",
    "assign_by_config",
    "assign_by_machine_room",
    "assign_consistent_hash",
    "assign_cooperative_sticky",
    "assign_nearby",
    "assign_range",
    "assign_round_robin",
    "assign_sticky",
    "assign_uniform",
    "share_of_client",
]
