"""Makes the authorizer of a broker, and what lays it into the routes."""

from functools import partial

from coterie.security.acl_store import AclStore
from coterie.server.authorization.access import Access, make_authorizer
from coterie.server.authorization.routes import authorized_route
from coterie.server.config.config import Config
from coterie.server.environment import Environment
from coterie.server.network.routes import Remake
from coterie.server.security.security_log import SecurityLog


def make_access(
    config: Config, acls: AclStore, security_log: SecurityLog, environment: Environment
) -> tuple[Access, list[Remake]]:
    """Return the authorizer that the settings ask for, and what makes the routes anew.

    Raises:
        ConfigError: the settings cannot be used.
    """
    access = Access(make_authorizer(config, acls), security_log, environment)
    return access, [partial(authorized_route, access)]
