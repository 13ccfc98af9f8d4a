"""A broker for tests in a process of its own, with the methods of the one in a thread.

The process is `coterie serve --control`; methods become requests to its control port. So a test can
kill the broker as an operating system does, and the broker's work takes no time from the test's
interpreter. It takes some tenths of a second to start.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NoReturn, Self

from coterie.address import Address
from coterie.control.child import ControlledBroker
from coterie.control.control import FaultState
from coterie.control.link import Link, over_link
from coterie.control.operations import ControlOperation
from coterie.control.views import ProcessFault, ProcessGroup, ProcessRequests
from coterie.security.acl_text import acl_text
from coterie.server.broker import Broker as Server
from coterie.server.data_place import IN_MEMORY
from coterie.storage.properties import properties_text
from coterie.testing.broker import Broker
from coterie.testing.errors import BrokerNotStarted, WrongUse, check_nothing_left
from coterie.testing.faults import Fault
from coterie.testing.groups import Group
from coterie.testing.requests import Requests
from coterie.testing.runner import Runner
from coterie.testing.users import new_password
from coterie.testing.virtual_time import VirtualClock
from coterie.testing.waiting import Waiting, take_unawaited

_NOT_HERE = "the broker has a process of its own"
# The settings of the security, with passwords: arguments of a process are seen by everybody.
_SETTINGS_FILE = "security.properties"


@over_link("Broker")
class ProcessBroker(Broker):
    """A broker in a process of its own; see `Broker`.

    Data are in a directory that is removed at the end, unless `data_dir` is given, because memory
    would not outlive `kill`. `virtual_time` cannot be used.
    """

    _child: ControlledBroker | None = None
    _link: Link | None = None
    _temporary: str | None = None
    _faults: list[ProcessFault]

    def __repr__(self) -> str:
        where = "not running" if self._child is None else f"process {self._child.pid}"
        return f"ProcessBroker({where})"

    # --- its life ---------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start the process and create the topics.

        Raises:
            BrokerNotStarted: the port, the directory or a setting cannot be used.
        """
        if self._child is not None:
            raise WrongUse("the broker runs already")
        self._faults = []
        self._temporary = tempfile.mkdtemp(prefix="coterie-")
        if self._certificates is not None:
            self._certificates.begin(self.host)
        try:
            self._begin(self._features)
            for user, password in ({} if self._users is None else self._users.passwords).items():
                self._call("add_user", user=user, password=password)
            for name, partitions in self._topics.items():
                self.topic(name, partitions)
        except BaseException:
            self._leave_nothing(self._child)
            raise
        return self

    def close(self) -> None:
        """Stop the broker, wait for the end of its process, and check that nothing is left.

        Raises:
            BrokerLeak: a connection or task of the broker is left, or its process does not end.
            BrokerNotStarted: the process has ended before, by itself.
        """
        child = self._child
        if child is None:
            return
        try:
            if not child.is_running:
                words = child.last_words() or "it has written no error"
                raise BrokerNotStarted(f"the broker's process has ended by itself: {words}")
            self._end_faults()
            left = take_unawaited(self.link_.unawaited)
            self.link_.call("Control.close", {})
            child.wait()
            child = None
        finally:
            self._leave_nothing(child)
        check_nothing_left(left)

    def kill(self) -> Waiting[None]:
        """Kill the process with SIGKILL and start another one, with its data and at its address.

        Faults end with the process, and its recorded requests are lost.
        """
        child, link = self._running(), self.link_

        async def again() -> None:
            self._end_faults()
            child.kill()
            self._begin()

        return Waiting(link, again())

    def virtual_time(self, seed: int = 0) -> NoReturn:  # noqa: ARG002 - as it is in `Broker`
        """Raise `WrongUse`: a clock of this process is not that of another.

        Raises:
            WrongUse: always.
        """
        raise WrongUse(
            f"{_NOT_HERE}, whose clock cannot be virtual: use Broker(), or advance(seconds)"
        )

    @property
    def clock(self) -> VirtualClock:
        """Raise `WrongUse`: there is no virtual time."""
        return self.virtual_time()

    def _begin(self, features: Mapping[str, int] | None = None) -> None:
        """Start a process, and let the link lead to it; later ones keep the data of the first."""
        config = [f"--config={name}={value}" for name, value in self._values.items()]
        address: tuple[str, ...] = "--host", self.host, "--port", str(self.port)
        if self._certificates is not None or self._users is not None:
            address = "--properties", self._write_settings()
        if self._release is not None:
            config.append(f"--kafka-version={self._release.name}")
        child = self._child = ControlledBroker(
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
        if self._link is None:
            self._link = Link(child.control_url, child.token)
        else:
            self._link.lead_to(child.control_url, child.token)

    @property
    def _data_place(self) -> str:
        assert self._temporary is not None, "the broker was started"
        if self._data_dir == IN_MEMORY:
            return os.path.join(self._temporary, "data")
        return self._data_dir

    def _write_settings(self) -> str:
        """Write the settings of the security into a file of the owner's; return its path."""
        protocol = self._listeners[0].protocol.value
        listeners = f"{protocol}://{self.host}:{self.port}"
        assert self._temporary is not None, "the broker was started"
        # The directory is the owner's.
        path = os.path.join(self._temporary, _SETTINGS_FILE)
        with open(path, "w", encoding="utf-8") as file:
            file.write(properties_text({"listeners": listeners, **self._secured()}))
        return path

    def _leave_nothing(self, child: ControlledBroker | None) -> None:
        """Leave nothing behind; a child that is given still runs, or has failed."""
        if child is not None:
            child.kill()
        link, self._link, self._child = self._link, None, None
        if link is not None:
            link.close()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None
        if self._certificates is not None:
            self._certificates.end()

    def _end_faults(self) -> None:
        for fault in self._faults:
            # If the process does not answer, nothing is known of its faults.
            with suppress(BrokerNotStarted):
                fault.end()
        self._faults.clear()

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

    # --- the other process ------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """The id of the process; another one after `kill`."""
        return self._running().pid

    @property
    def link_(self) -> Link:
        """The way to the control port."""
        if self._link is None:
            raise BrokerNotStarted("the broker does not run: call start(), or use `with`")
        return self._link

    def request_(self, operation: ControlOperation, arguments: dict[str, Any]) -> Any:
        """Send a request."""
        result = self.link_.call(operation.operation_id, arguments)
        if operation.returns is Fault:
            return self._view(result)
        return [self._view(each) for each in result] if operation.name == "faults" else result

    def _view(self, state: FaultState) -> ProcessFault:
        """Return the view of a fault, the same each time."""
        for known in self._faults:
            if known.fault_id == state.fault_id:
                return known
        self._faults.append(ProcessFault(self.link_, state))
        return self._faults[-1]

    def _running(self) -> ControlledBroker:
        if self._child is None:
            raise BrokerNotStarted("the broker does not run: call start(), or use `with`")
        return self._child

    @property
    def thread(self) -> Runner:
        """Raise `WrongUse`."""
        raise WrongUse(f"{_NOT_HERE}: it is not in a thread of this one")

    @property
    def server(self) -> Server:
        """Raise `WrongUse`."""
        raise WrongUse(f"{_NOT_HERE}: its server cannot be used from here")

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, as host:port."""
        _ = self._running()
        return f"{self.host}:{self.port}"

    def group(self, group_id: str) -> Group:
        """Return a view of a group, which need not exist yet."""
        return ProcessGroup(self.link_, group_id)

    @property
    def requests(self) -> Requests:
        """The newest requests of clients, decoded."""
        return ProcessRequests(self.link_)
