"""Whether brokers can listen where they are to, found out before anything else happens."""

import asyncio
import errno

from coterie.address import Address
from coterie.server.config.place import Place

# The setting that gives several listeners their ports.
LISTENERS = "listeners"


class CannotStart(Exception):  # noqa: N818 - it ends the command and is no failure of the program
    """The broker cannot start here; the text says why and what to do about it."""


def port_option(place: Place) -> str:
    """Return what sets the ports of the listeners: an option, or the setting."""
    return "--port" if len(place.listeners) == 1 else LISTENERS


async def try_listeners(place: Place) -> None:
    """Find out whether all listeners can listen before anything else happens; see `try_port`."""
    for each in place.listeners:
        await try_port(each.address, port_option(place))


async def try_port(address: Address, option: str) -> None:
    """Find out whether a port is free before anything else happens [settings/listeners].

    Args:
        address: where to listen; port 0 is none in particular.
        option: sets the port.

    Raises:
        CannotStart: the port is taken.
    """
    if not address.port:
        return
    try:
        trial = await asyncio.get_running_loop().create_server(
            asyncio.Protocol, address.host, address.port, start_serving=False
        )
    except OSError as error:
        raise CannotStart(listening_failed(address, option, error)) from error
    trial.close()
    await trial.wait_closed()


def listening_failed(address: Address, option: str, error: OSError) -> str:
    """Return why an address cannot be listened on, and what to do; `option` sets its port."""
    if error.errno == errno.EADDRINUSE:
        free = "0 in listeners" if option == LISTENERS else f"{option} 0"
        return (
            f"{address} is in use by another program; stop it, or choose another port"
            f" ({free} picks a free one)"
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"this user may not listen on {address}; choose a port above 1023 with {option}"
    reason = error.strerror or str(error)
    return f"can't listen on {address}: {reason}; --host must be an address of this machine"
