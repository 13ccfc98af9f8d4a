"""The setting `max.connections.per.ip.overrides`: limits of some addresses."""

from coterie.address import peer_address
from coterie.server.config.broker_keys import PER_IP_OVERRIDES
from coterie.server.config.keys import InvalidValue


def address_limits(text: str) -> dict[str, int]:
    """Return the limits that the setting has, by address as connections have it.

    Names of hosts are not resolved, as elsewhere [quotas/entities].

    Raises:
        InvalidValue: it is not a list of `ADDRESS:NUMBER`.
    """
    limits = {}
    for element in filter(None, (each.strip() for each in text.split(","))):
        # An IPv6 address has colons, too.
        host, _, number = (part.strip() for part in element.rpartition(":"))
        address = peer_address(host)
        if address is None or not number.isdecimal():
            raise InvalidValue(
                f"Error parsing configuration property '{PER_IP_OVERRIDES}': {element} is not an"
                " address and a number of connections, separated by a colon"
            )
        limits[address] = int(number)
    return limits
