"""The security of the brokers of a test: what clients need, and what the test changes meanwhile.

With several brokers each change counts for all of them, also for those that are down.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from coterie.security.acl_text import acl_text
from coterie.server.broker import Broker as Server
from coterie.server.security.user_changes import add_user, revoke_user, user_names
from coterie.testing.access_rules import change_rules, parsed_rules
from coterie.testing.client_configs import (
    CLASSIC,
    CONFLUENT,
    KAFKA_STREAMS,
    SHARE,
    client_config,
)
from coterie.testing.described import Described
from coterie.testing.errors import WrongUse
from coterie.testing.in_charge import any_server
from coterie.testing.security import VALID
from coterie.testing.users import new_password
from coterie.testing.virtual_time import LoopRunner

if TYPE_CHECKING:
    from coterie.testing.console import Console

# Where a share group begins: a setting of the group, not of its clients [settings/groups].
_SHARE_RESET = "share.auto.offset.reset"


class Secured(Described):
    """Brokers whose security a test describes, uses and changes."""

    def __init__(self, **described: Any) -> None:
        """See `Described`."""
        super().__init__(**described)
        self._consoles: list[Console] = []

    # --- for clients ------------------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of the brokers, as host:port,host:port."""
        raise NotImplementedError

    def client_config(
        self,
        library: str,
        *,
        group_id: str | None = None,
        protocol: str = CLASSIC,
        user: str | None = None,
        certificate: str = VALID,
        **more: Any,
    ) -> dict[str, Any]:
        """Return the settings with which a client of a library reaches these brokers.

        Args:
            library: "aiokafka", "kafka-python" or "confluent-kafka"; "kafka-streams" for the
                properties of an application in Java.
            group_id: makes them those of a consumer that starts at the beginning; the id of an
                application of Kafka Streams.
            protocol: "classic", "consumer" for that of KIP-848, or "share" for a ShareConsumer
                (KIP-932); confluent-kafka speaks these. A share group that has no setting of its
                own begins at the start of its topics from then on. "streams" for that of KIP-1071,
                which Kafka Streams speaks.
            user: with TLS alone, the name in the certificate of the client; None for none. With a
                login, the user; None for the first one.
            certificate: "valid", or what is wrong with it: "expired" or "untrusted".
            more: further settings, which win; the dots of confluent-kafka and Kafka Streams are
                written as underscores.

        Raises:
            WrongUse: another library, or one that does not speak the protocol.
        """
        config = client_config(library, self.bootstrap_servers, group_id, more, protocol)
        if protocol == SHARE and group_id is not None:
            group = self.group(group_id)
            if _SHARE_RESET not in group.settings:
                group.configure({_SHARE_RESET: "earliest"})
        files, users = self._certificates, self._users
        if files is None and users is None:
            if user is not None:
                raise WrongUse('there is no security: make it with security="SSL"')
            return config
        dotted = library in (CONFLUENT, KAFKA_STREAMS)
        key = "security.protocol" if dotted else "security_protocol"
        secured: dict[str, Any] = {key: self._listener.protocol.value}
        name = user
        if users is not None:
            name = users.found(user)
            secured |= users.client_config(library, name)
            if files is not None and not files.asks_clients:
                # Who logs in has a certificate only if the broker asks for one.
                name = None
        if files is not None:
            secured |= files.client_config(library, name, certificate)
        return secured | config

    def console(self, *, allow_changes: bool = False, browser: bool | None = None) -> "Console":
        """Open the console of these brokers; it is closed with them.

        It works while the test stands still, in `breakpoint()` or with `pytest --pdb`.

        Args:
            allow_changes: whether its page may change groups, topics, faults and the clock.
            browser: whether to open a browser; None to do so if there is a terminal.

        Raises:
            WrongUse: in virtual time, where nothing outside of the test's event loop can connect.
        """
        # Few tests have one, and the others start faster without this import.
        from coterie.control.console_control import control_of
        from coterie.testing.console import Console, security_of

        if isinstance(self._thread, LoopRunner):
            raise WrongUse(
                "a console cannot connect to brokers in virtual time: open it in real time, or"
                " print group.history_lines()"
            )
        security = security_of(self.client_config("kafka-python"))
        control = control_of(self)
        console = Console(
            self.bootstrap_servers, security, control, allow_changes=allow_changes, browser=browser
        )
        self._consoles.append(console)
        return console

    def _close_guests(self) -> None:
        consoles, self._consoles = self._consoles, []
        for each in consoles:
            each.close()

    # --- users ------------------------------------------------------------------------------------

    @property
    def users(self) -> list[str]:
        """The users that can log in with a password, sorted."""
        server = any_server(self)
        return self.thread.call(lambda: user_names(server))

    def add_user(self, user: str, password: str = "") -> None:
        """Let a user log in, or change its password.

        Args:
            user: its name.
            password: its password; by default a random one, which `client_config` has.

        Raises:
            WrongUse: no listener of this broker has logins, or the name is empty.
        """
        servers = self.servers
        if not user:
            raise WrongUse("users: a user has a name")
        if not any_server(self).logins.listeners:
            raise WrongUse('this broker has no logins: make it with security="SASL_PLAINTEXT"')
        secret = password or new_password()
        if self._users is not None:
            self._users.add(user, secret)
        self.thread.call(lambda: add_user(servers, user, secret))

    def revoke(self, user: str) -> None:
        """Let a user log in no more; connections that are logged in stay so.

        Args:
            user: one of the users of this broker.

        Raises:
            WrongUse: there is no such user.
        """
        servers = self.servers
        if user not in self.users:
            raise WrongUse(f"user: {user!r} is no user of this broker")
        if self._users is not None:
            self._users.revoked.add(user)
        self.thread.call(lambda: revoke_user(servers, user))

    def _renew_users(self, servers: Sequence[Server]) -> None:
        """Let brokers that have started, in their thread, know the users that were changed.

        Users of PLAIN are settings, which stay those of the first start.
        """
        if self._users is not None:
            for user, password in self._users.changed.items():
                add_user(servers, user, password)
            for user in self._users.revoked:
                revoke_user(servers, user)

    # --- access rules -----------------------------------------------------------------------------

    @property
    def acls(self) -> list[str]:
        """The access rules, as `add_acls` takes them."""
        server = any_server(self)
        return self.thread.call(lambda: [acl_text(each) for each in server.acls.ids])

    def add_acls(self, *rules: str) -> None:
        """Add access rules, as an administrator does while clients work.

        Args:
            rules: such as "User:alice ALLOW READ TOPIC orders- PREFIXED".

        Raises:
            WrongUse: a text is no rule, or the broker has no authorizer.
        """
        acls, server = parsed_rules(rules), any_server(self)
        self.thread.call(lambda: change_rules(server, acls, ()))
        self._acls += acls

    def remove_acls(self, *rules: str) -> None:
        """Remove access rules; connections that are open feel it at their next request.

        Args:
            rules: rules that this broker has.

        Raises:
            WrongUse: a text is no rule, or none of this broker.
        """
        acls, server = parsed_rules(rules), any_server(self)
        self.thread.call(lambda: change_rules(server, (), acls))
        self._acls = [each for each in self._acls if each not in acls]

    # --- certificates -----------------------------------------------------------------------------

    def use_certificate(self, certificate: str) -> None:
        """Let new connections see another certificate of the broker; open ones keep theirs.

        Args:
            certificate: "valid", or what is wrong with it: "expired", "wrong-host" (it is for
                another host) or "untrusted" (its authority is not that of the clients).

        Raises:
            WrongUse: an unknown kind of certificate, or a broker without security.
        """
        files = self._certificates
        if files is None:
            raise WrongUse('this broker has no certificate: make it with security="SSL"')
        files.certify(certificate)
        self.reload_certificates()

    def reload_certificates(self) -> None:
        """Read the files with certificates again; new connections see the new ones.

        Raises:
            WrongUse: no listener of this broker has TLS.
        """
        servers = self.servers
        if not any_server(self).tls_listeners:
            raise WrongUse('this broker has no certificate: make it with security="SSL"')
        # Imported here, because most brokers have no certificates.
        from coterie.server.tls.certificates import reload_certificates

        def reload() -> None:
            for server in servers:
                reload_certificates(server)

        self.thread.call(reload)
