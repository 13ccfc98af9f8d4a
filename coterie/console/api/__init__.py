"""The rows of the console's API, a subject a module."""

from coterie.console.api import changes, cluster
from coterie.console.routes import Route

ROUTES: tuple[Route, ...] = (*cluster.ROUTES, *changes.ROUTES)
