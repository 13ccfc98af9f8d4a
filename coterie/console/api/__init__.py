"""The rows of the console's API, a subject a module."""

from coterie.console.api import (
    changes,
    cluster,
    control,
    events,
    group,
    records,
    topics,
    transactions,
)
from coterie.console.routes import Route

ROUTES: tuple[Route, ...] = (
    *cluster.ROUTES,
    *events.ROUTES,
    *group.ROUTES,
    *topics.ROUTES,
    *records.ROUTES,
    *transactions.ROUTES,
    *changes.ROUTES,
)
# What there is besides if the brokers have a control.
CONTROL_ROUTES = control.ROUTES
