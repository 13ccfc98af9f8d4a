"""The scenarios, by subject. Importing this package registers them, in the order of reports."""

# isort: off
from coterie.client_check.checks import (  # noqa: F401 - each registers its scenarios
    alone,
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
