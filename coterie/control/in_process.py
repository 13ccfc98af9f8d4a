"""What is in a process of its own: one broker or several, with the views of those in a thread.

The process is `coterie serve --control`; methods become requests to its control port.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NoReturn, Self

from coterie.control.broker_operations import BROKER
from coterie.control.child import ControlledBroker
from coterie.control.link import Link
from coterie.control.operations import ControlOperation, Table
from coterie.control.process_control import FaultState
from coterie.control.views import ProcessFault, ProcessGroup, ProcessRequests
from coterie.security.acl_text import acl_text
from coterie.server.broker import Broker as Server
from coterie.server.data_place import IN_MEMORY
from coterie.storage.properties import properties_text
from coterie.testing.errors import BrokerNotStarted, WrongUse, check_nothing_left
from coterie.testing.faults import Fault
from coterie.testing.groups import Group
from coterie.testing.lifetime import NOT_RUNNING
from coterie.testing.requests import Requests
from coterie.testing.runner import Runner
from coterie.testing.secured import Secured
from coterie.testing.users import new_password
from coterie.testing.virtual_time import VirtualClock
from coterie.testing.waiting import take_unawaited

# The settings of the security, with passwords: arguments of a process are seen by everybody.
_SETTINGS_FILE = "security.properties"
_NOT_HERE = "the broker has a process of its own"


class InProcess(Secured):
    """What runs in a process of its own, from `start` to `close`.

    Attributes:
        table: the operations of its control port.
        in_thread: how the same is made in a thread of the test.
    """

    table: Table = BROKER
    in_thread: str = "Broker()"

    _child: ControlledBroker | None = None
    _link: Link | None = None
    _temporary: str | None = None
    _faults: list[ProcessFault]

    def __repr__(self) -> str:
        where = "not running" if self._child is None else f"process {self._child.pid}"
        return f"{type(self).__name__}({where})"

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
        self._prepare()
        try:
            self._begin_first()
            for user, password in ({} if self._users is None else self._users.passwords).items():
                self._ask("add_user", user=user, password=password)
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
        self._close_guests()
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

    def virtual_time(self, seed: int = 0) -> NoReturn:  # noqa: ARG002 - as it is in `Broker`
        """Raise `WrongUse`: a clock of this process is not that of another.

        Raises:
            WrongUse: always.
        """
        raise WrongUse(
            f"{_NOT_HERE}, whose clock cannot be virtual: use {self.in_thread}, or advance(seconds)"
        )

    @property
    def clock(self) -> VirtualClock:
        """Raise `WrongUse`: there is no virtual time."""
        return self.virtual_time()

    # --- for subclasses ---------------------------------------------------------------------------

    def _begin_first(self) -> None:
        """Start the first process."""
        raise NotImplementedError

    def _start_process(self, options: Sequence[str]) -> ControlledBroker:
        """Start a process with these options; let the link lead to it."""
        child = self._child = ControlledBroker(options)
        if self._link is None:
            self._link = Link(child.control_url, child.token, self.table)
        else:
            self._link.lead_to(child.control_url, child.token)
        return child

    def _options(self, place: Sequence[str], features: Mapping[str, int]) -> list[str]:
        """Return the options of the command for what the test has described.

        Args:
            place: those for where it listens without security.
            features: the levels to begin with.
        """
        if self._certificates is not None or self._users is not None:
            place = "--properties", self._write_settings()
        release = [] if self._release is None else [f"--kafka-version={self._release.name}"]
        return [
            *place,
            *("--data-dir", self._data_place),
            *("--flush", str(self._flush), "--log-level", "error"),
            *(f"--config={name}={value}" for name, value in self._values.items()),
            *release,
            *(f"--add-acl={acl_text(each)}" for each in self._acls),
            *(f"--feature={name}={level}" for name, level in features.items()),
        ]

    def _write_settings(self) -> str:
        """Write the settings of the security into a file of the owner's; return its path."""
        listener = self._listener
        listeners = f"{listener.protocol.value}://{listener.address}"
        # The directory is the owner's.
        path = os.path.join(self._place, _SETTINGS_FILE)
        with open(path, "w", encoding="utf-8") as file:
            file.write(properties_text({"listeners": listeners, **self._secured()}))
        return path

    @property
    def _place(self) -> str:
        """Where its files are that are removed at the end."""
        assert self._temporary is not None, "it was started"
        return self._temporary

    @property
    def _data_place(self) -> str:
        return os.path.join(self._place, "data") if self._data_dir == IN_MEMORY else self._data_dir

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
        self._clean_up()

    def _end_faults(self) -> None:
        for fault in self._faults:
            # If the process does not answer, nothing is known of its faults.
            with suppress(BrokerNotStarted):
                fault.end()
        self._faults.clear()

    # --- users ------------------------------------------------------------------------------------

    def add_user(self, user: str, password: str = "") -> None:
        """Let a user log in, or change its password; see `Secured.add_user`.

        Raises:
            WrongUse: the broker has no logins, or the name is empty.
        """
        secret = password or new_password()
        self._ask("add_user", user=user, password=secret)
        if self._users is not None:
            self._users.add(user, secret)

    def revoke(self, user: str) -> None:
        """Let a user log in no more; see `Secured.revoke`.

        Raises:
            WrongUse: there is no such user.
        """
        self._ask("revoke", user=user)
        if self._users is not None:
            self._users.revoked.add(user)

    # --- the other process ------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """The id of the process; another one after `ProcessBroker.kill`."""
        return self._started().pid

    @property
    def link_(self) -> Link:
        """The way to the control port."""
        if self._link is None:
            raise BrokerNotStarted(NOT_RUNNING)
        return self._link

    def _ask(self, name: str, **arguments: Any) -> Any:
        return self.link_.call(f"{self.table.kafka}.{name}", arguments)

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

    def _started(self) -> ControlledBroker:
        if self._child is None:
            raise BrokerNotStarted(NOT_RUNNING)
        return self._child

    @property
    def thread(self) -> Runner:
        """Raise `WrongUse`."""
        raise WrongUse(f"{_NOT_HERE}: it is not in a thread of this one")

    @property
    def servers(self) -> Sequence[Server]:
        """Raise `WrongUse`."""
        raise WrongUse(f"{_NOT_HERE}: its server cannot be used from here")

    def group(self, group_id: str) -> Group:
        """Return a view of a group, which need not exist yet."""
        return ProcessGroup(self.link_, group_id)

    @property
    def requests(self) -> Requests:
        """The newest requests of clients, decoded."""
        return ProcessRequests(self.link_)
