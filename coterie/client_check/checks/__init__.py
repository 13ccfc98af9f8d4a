"""The scenarios, by subject. Importing this package registers them, in the order of reports.

The first one of each protocol is the member alone.
"""

# isort: off
from coterie.client_check.checks import alone  # noqa: F401 - each registers its scenarios
from coterie.client_check.checks.consumer import alone as consumer_alone  # noqa: F401
from coterie.client_check.checks import (  # noqa: F401
    connecting,
    joining,
    rejoining,
    coordinator,
    committing,
    positions,
    fetching,
    disconnects,
    assigning,
    following,
    cooperative,
    static,
)
from coterie.client_check.checks.consumer import (  # noqa: F401
    joining as consumer_joining,
    heartbeats as consumer_heartbeats,
    reconciling as consumer_reconciling,
    offsets as consumer_offsets,
    static as consumer_static,
    patterns as consumer_patterns,
)
from coterie.client_check.checks import logging_in  # noqa: F401
