"""What a test says of its brokers, one or several: settings, files, versions and security.

Invariants: nothing is made or opened before the start; ids of the cluster, of topics and of members
are the same in each run of a test.
"""

import random
from collections.abc import Callable, Coroutine, Iterable, Mapping
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

from coterie.address import Address
from coterie.server.config.config import Config
from coterie.server.config.listeners import Listener
from coterie.server.config.sources import ConfigError
from coterie.server.data_place import IN_MEMORY
from coterie.server.environment import Environment
from coterie.server.logging import make_logger
from coterie.server.logs.flusher import FlushMode, parse_flush_mode
from coterie.server.shared_parts import SharedParts
from coterie.storage.errors import StorageError
from coterie.storage.memory_filesystem import MemoryFileSystem
from coterie.storage.system_files import system_files
from coterie.testing.access_rules import authorizer_settings, parsed_rules
from coterie.testing.bounds import check_all
from coterie.testing.disk import Disk
from coterie.testing.disk_workers import DiskEnvironment
from coterie.testing.errors import BrokerNotStarted, WrongUse
from coterie.testing.security import CertificateFiles, Security
from coterie.testing.security_settings import check_security_settings
from coterie.testing.server_thread import ServerThread
from coterie.testing.users import Users
from coterie.testing.versions import initial_levels, release_of
from coterie.testing.views import Views

if TYPE_CHECKING:
    from coterie.server.logging import Logger

# What tests wait for less than users do. Everything else has the defaults of `coterie serve`.
TEST_CONFIG: Mapping[str, str] = {
    # The first member of a group need not wait three seconds for others.
    "group.initial.rebalance.delay.ms": "0",
    # Sessions may be short, so that a test sees one expire.
    "group.min.session.timeout.ms": "100",
    # The same for consumer groups, whose members take these times from the broker.
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "50",
    "group.consumer.min.session.timeout.ms": "100",
    "group.consumer.session.timeout.ms": "6000",
    # And for share groups. Their sessions stay longer than their locks, so that a clock put forward
    # past a lock ends no session.
    "group.share.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "50",
    "group.share.min.session.timeout.ms": "100",
    "group.share.min.record.lock.duration.ms": "1000",
    # And for streams groups.
    "group.streams.assignment.interval.ms": "0",
    "group.streams.heartbeat.interval.ms": "500",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "50",
    "group.streams.min.session.timeout.ms": "100",
    "group.streams.session.timeout.ms": "6000",
    # Four partitions have everything that fifty have, and are made faster.
    "offsets.topic.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
}


class Described(Views):
    """Brokers as a test describes them.

    Attributes:
        disk: their files.
    """

    def __init__(
        self,
        *,
        config: Mapping[str, str] | None,
        topics: Mapping[str, int] | None,
        data_dir: str | PathLike[str] | None,
        address: Address,
        flush: str,
        version: str | None,
        features: Mapping[str, int] | None,
        security: Security | str | None,
        users: Mapping[str, str] | Iterable[str],
        acls: Iterable[str] | None,
    ) -> None:
        """Take the description; see `Broker`. `address` is that of the first listener.

        Raises:
            WrongUse: a value cannot be used.
        """
        super().__init__()
        _check_mapping("topics", topics, '{"orders": 3}')
        _check_mapping("config", config, '{"group.max.size": "2"}')
        check_all("partitions", (topics or {}).values())
        secured = Security(security) if isinstance(security, str) else security
        given = config or {}
        self._certificates = _certificates_of(secured, given)
        self._users = _users_of(secured, users)
        self._listener = Listener(address)
        if secured is not None:
            protocol = secured.checked_protocol
            self._listener = self._listener._replace(name=protocol.value, protocol=protocol)
        mechanism = None if self._users is None else self._users.mechanism.value
        check_security_settings(given, self._listener, mechanism)
        self._acls = parsed_rules(acls or ())
        authorizer = {} if acls is None else authorizer_settings(given)
        self._values = {**TEST_CONFIG, **authorizer, **given}
        self._topics = dict(topics or {})
        self._data_dir = IN_MEMORY if data_dir is None else fspath(data_dir)
        files = MemoryFileSystem() if data_dir is None else system_files()
        self.disk = Disk(files, self._interception)
        self._flush = _flush_mode(flush)
        self._release = release_of(version)
        self._features = initial_levels(features, self._release)
        # It is kept over restarts, so that no id is given twice.
        self._random = random.Random(0)  # noqa: S311 - ids of a test, no secrets

    def flush(self) -> None:
        """Let everything that is written survive `lose_power`, as the kernel does in the end."""
        self.thread.call(self.disk.flush)

    # --- ends on purpose --------------------------------------------------------------------------

    async def _again(
        self, end: Coroutine[Any, Any, None], between: Callable[[], None] = lambda: None
    ) -> None:
        """End what runs, do something, and start it again with its data."""
        await self._end(end)
        between()
        await self._open({})

    async def _end(self, end: Coroutine[Any, Any, None]) -> None:
        """End what runs; from now on nothing does."""
        raise NotImplementedError

    async def _open(
        self, topics: Mapping[str, int], features: Mapping[str, int] | None = None
    ) -> None:
        """Start it where it runs, which is here."""
        raise NotImplementedError

    # --- the parts of the brokers -----------------------------------------------------------------

    def _prepare(self) -> None:
        if self._certificates is not None:
            self._certificates.begin(self._listener.address.host)

    def _clean_up(self) -> None:
        if self._certificates is not None:
            self._certificates.end()

    def _open_files(self) -> list[str]:
        return list(self.disk.open_files.values())

    def _new_environment(self) -> Environment:
        """Return the environment of the brokers, whose clock is also that of the faults."""
        environment = DiskEnvironment(self.thread.environment(self._log()), self._interception)
        self._interception.now_ms = environment.now_ms
        return environment

    def _described_parts(self, environment: Environment, brokers: int) -> SharedParts:
        """Return what so many brokers share, in their thread.

        Raises:
            BrokerNotStarted: the directory or a setting cannot be used.
        """
        values = {**self._secured(), **self._values}
        given = [f"{name}={value}" for name, value in values.items()]
        try:
            return SharedParts(
                Config.load(given),
                self._data_dir,
                environment,
                flush=self._flush,
                filesystem=self.disk,
                files_are_private=self._data_dir == IN_MEMORY,
                brokers=brokers,
            )
        except ConfigError as error:
            raise BrokerNotStarted(f"a setting cannot be used: {error}") from error
        except (StorageError, OSError) as error:
            text = f"the data directory {self._data_dir} cannot be used: {error}"
            raise BrokerNotStarted(text) from error

    def _begin_with(self, shared: SharedParts, features: Mapping[str, int]) -> None:
        """Set levels of features, and add the users and rules that are not there."""
        shared.features.start_with(features)
        if self._users is not None or self._acls:
            # Most brokers of tests have neither.
            from coterie.server.security.seeding import add_seeds

            add_seeds(shared, self._users.seeds() if self._users else (), self._acls)

    def _secured(self) -> dict[str, str]:
        """Return the settings of the security."""
        values: dict[str, str] = {}
        if self._certificates is not None:
            values.update(self._certificates.settings)
        if self._users is not None:
            values.update(self._users.settings(self._listener.name))
        return values

    # `coterie serve --control` replaces these.

    def _new_thread(self) -> ServerThread:
        return ServerThread(self._random.randbytes)

    def _log(self) -> "Logger":
        return make_logger("error")


def _flush_mode(text: str) -> FlushMode:
    try:
        return parse_flush_mode(text)
    except ValueError as error:
        raise WrongUse(f"flush: {error}") from None


def _certificates_of(
    security: Security | None, config: Mapping[str, str]
) -> CertificateFiles | None:
    if security is None or not security.checked_protocol.has_tls:
        return None
    return CertificateFiles(security, config)


def _users_of(security: Security | None, users: Mapping[str, str] | Iterable[str]) -> Users | None:
    if security is not None and security.checked_protocol.has_sasl:
        return Users(users, security.mechanism)
    if users:
        raise WrongUse('users: they log in with security="SASL_PLAINTEXT" or "SASL_SSL"')
    return None


def _check_mapping(name: str, value: object, example: str) -> None:
    if value is not None and not isinstance(value, Mapping):
        raise WrongUse(f"{name} is a dict such as {example}, not {value!r}")
