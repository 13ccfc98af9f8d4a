"""The clients of live runs by name."""

from collections.abc import Callable

from coterie.lab.errors import WrongInput, closest
from coterie.lab.live.clients import LiveClient

CLIENTS: dict[str, Callable[[], LiveClient]] = {}


def client_named(name: str) -> LiveClient:
    """Return a client.

    Raises:
        WrongInput: there is none of this name.
    """
    if name not in CLIENTS:
        raise WrongInput(
            f"There is no client '{name}'{closest(name, CLIENTS)}. Clients: {', '.join(CLIENTS)}."
        )
    return CLIENTS[name]()
