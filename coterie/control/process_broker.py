"""A broker for tests in a process of its own, with the methods of the one in a thread.

The process is `coterie serve --control`; methods become requests to its control port. So a test can
kill the broker as an operating system does, and the broker's work takes no time from the test's
interpreter. It takes some tenths of a second to start.
"""

import os
from collections.abc import Mapping
from typing import Any

from coterie.address import Address
from coterie.control.child import ControlledBroker
from coterie.control.in_process import InProcess
from coterie.control.link import over_link
from coterie.security.acl_text import acl_text
from coterie.server.broker import Broker as Server
from coterie.storage.properties import properties_text
from coterie.testing.broker import Broker
from coterie.testing.users import new_password
from coterie.testing.waiting import Waiting

# The settings of the security, with passwords: arguments of a process are seen by everybody.
_SETTINGS_FILE = "security.properties"


@over_link("Broker")
class ProcessBroker(InProcess, Broker):
    """A broker in a process of its own; see `Broker`.

    Data are in a directory that is removed at the end, unless `data_dir` is given, because memory
    would not outlive `kill`. `virtual_time` cannot be used.
    """

    # --- its life ---------------------------------------------------------------------------------

    def kill(self) -> Waiting[None]:
        """Kill the process with SIGKILL and start another one, with its data and at its address.

        Faults end with the process, and its recorded requests are lost.
        """
        child, link = self._started(), self.link_

        async def again() -> None:
            self._end_faults()
            child.kill()
            self._begin()

        return Waiting(link, again())

    def _begin_first(self) -> None:
        if self._certificates is not None:
            self._certificates.begin(self.host)
        self._begin(self._features)
        for user, password in ({} if self._users is None else self._users.passwords).items():
            self._call("add_user", user=user, password=password)

    def _begin(self, features: Mapping[str, int] | None = None) -> None:
        """Start a process; later ones keep the data of the first."""
        config = [f"--config={name}={value}" for name, value in self._values.items()]
        address: tuple[str, ...] = "--host", self.host, "--port", str(self.port)
        if self._certificates is not None or self._users is not None:
            address = "--properties", self._write_settings()
        if self._release is not None:
            config.append(f"--kafka-version={self._release.name}")
        child = self._start_process(
            [
                *address,
                *("--data-dir", self._data_place),
                *("--flush", str(self._flush), "--log-level", "error"),
                *config,
                *(f"--add-acl={acl_text(each)}" for each in self._acls),
                *(f"--feature={name}={level}" for name, level in (features or {}).items()),
            ]
        )
        self.host, self.port = Address.parse(child.bootstrap_servers)

    def _write_settings(self) -> str:
        """Write the settings of the security into a file of the owner's; return its path."""
        protocol = self._listeners[0].protocol.value
        listeners = f"{protocol}://{self.host}:{self.port}"
        # The directory is the owner's.
        path = os.path.join(self._place, _SETTINGS_FILE)
        with open(path, "w", encoding="utf-8") as file:
            file.write(properties_text({"listeners": listeners, **self._secured()}))
        return path

    def _leave_nothing(self, child: ControlledBroker | None) -> None:
        super()._leave_nothing(child)
        if self._certificates is not None:
            self._certificates.end()

    # --- users ------------------------------------------------------------------------------------

    def add_user(self, user: str, password: str = "") -> None:
        """Let a user log in, or change its password; see `Broker.add_user`.

        Raises:
            WrongUse: the broker has no logins, or the name is empty.
        """
        secret = password or new_password()
        self._call("add_user", user=user, password=secret)
        if self._users is not None:
            self._users.add(user, secret)

    def revoke(self, user: str) -> None:
        """Let a user log in no more; see `Broker.revoke`.

        Raises:
            WrongUse: there is no such user.
        """
        self._call("revoke", user=user)
        if self._users is not None:
            self._users.revoked.add(user)

    def _call(self, name: str, **arguments: Any) -> Any:
        return self.link_.call(f"Broker.{name}", arguments)

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, as host:port."""
        _ = self._started()
        return f"{self.host}:{self.port}"

    @property
    def server(self) -> Server:
        """Raise `WrongUse`."""
        return self.servers[0]
