"""The assignors that need no input but partition counts and subscriptions, by their names.

The names are those of configurations.
"""

from coterie.assignors.averagely import assign_averagely, assign_averagely_by_circle
from coterie.assignors.consistent_hash import assign_consistent_hash
from coterie.assignors.cooperative_sticky import assign_cooperative_sticky
from coterie.assignors.model import Assignor
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
