"""The console of the brokers of a test: a page that goes on while the test stands still.

It has a thread and an event loop of its own and is a client of the brokers, so it works while the
test waits, is stopped by `breakpoint()`, or is looked at with `pytest --pdb`.
"""

import ssl
import sys
import webbrowser
from collections.abc import Mapping
from typing import Any, Self

from coterie.client.security import PLAINTEXT, Security
from coterie.console.beside import open_beside
from coterie.console.serving import ConsoleServer
from coterie.server.beside import BrokerControl


class Console:
    """A console that is open until `close`, or until its brokers are closed.

    Attributes:
        url: its address for a browser, with its token.
    """

    def __init__(
        self,
        bootstrap: str,
        security: Security,
        control: BrokerControl,
        *,
        allow_changes: bool,
        browser: bool | None,
    ) -> None:
        """Open it; see `Secured.console`."""
        self._server: ConsoleServer | None = open_beside(
            bootstrap, security, control, allows_changes=allow_changes
        )
        self.url = self._server.url
        if browser if browser is not None else _has_terminal():
            webbrowser.open(self.url)

    def __repr__(self) -> str:
        return f"Console({self.url if self._server is not None else 'closed'})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Cut its pages off; closing it again does nothing."""
        server, self._server = self._server, None
        if server is not None:
            server.close()


def security_of(config: Mapping[str, Any]) -> Security:
    """Return how a console connects, from the settings of a client of kafka-python."""
    protocol = config.get("security_protocol", "PLAINTEXT")
    if protocol == "PLAINTEXT":
        return PLAINTEXT
    context = None
    if protocol.endswith("SSL"):
        context = ssl.create_default_context(cafile=config["ssl_cafile"])
        if "ssl_certfile" in config:
            context.load_cert_chain(config["ssl_certfile"], config["ssl_keyfile"])
    if not protocol.startswith("SASL"):
        return Security(context)
    login = {
        "username": config["sasl_plain_username"],
        "password": config["sasl_plain_password"],
    }
    return Security(context, config["sasl_mechanism"], login)


def _has_terminal() -> bool:
    """Return whether a person is there; pytest takes the terminal away unless it debugs."""
    return sys.stdin.isatty() and sys.stdout.isatty()
