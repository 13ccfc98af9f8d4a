"""Kills `coterie serve` while users, access rules and tokens change and a client writes over TLS.

An administrator sets and removes SCRAM credentials, adds and removes access rules, and a user
creates, renews and ends delegation tokens, each as fast as it is answered. After each restart
every one of them is as it was acknowledged last, or as the request makes it that was unanswered;
passwords and tokens log in, and those that were removed do not. A producer logs in with SCRAM over
TLS and goes on through all kills; at the end all that was acknowledged to it is read.
"""

import os
import random
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Hashable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from coterie.client.acls import add_acls, list_acls, remove_acls
from coterie.client.client_properties import security_of
from coterie.client.cluster import Cluster
from coterie.client.errors import ClientError, LoginFailed, Refused
from coterie.client.tokens import Token, create_token, expire_token, list_tokens, renew_token
from coterie.client.topics import create_topic
from coterie.client.users import add_user, list_users, remove_user
from coterie.security.acl import EVERYTHING, AclFilter
from coterie.security.acl_text import parse_acl
from coterie.security.mechanisms import Mechanism
from coterie.security.scram import MIN_ITERATIONS
from tests.crash.security_story import password
from tests.live.libraries import BY_NAME
from tests.live.secured.broker import SecuredBroker
from tests.live.secured.client_settings import client_settings
from tests.live.secured.setup import TOKEN, Way

_TOPIC = "ledger"
_STEADY = Way("SASL_SSL", "SCRAM-SHA-512")
_BY_PASSWORD, _BY_TOKEN = Way("SASL_SSL", "PLAIN"), Way("SASL_SSL", TOKEN)
_USERS = tuple(f"user-{number}" for number in range(3))
RULES = tuple(
    parse_acl(f"User:bob {permission} {operation} TOPIC kill-{number} PREFIXED")
    for number in range(3)
    for permission, operation in (("ALLOW", "READ"), ("ALLOW", "WRITE"), ("DENY", "DELETE"))
)
_MOST_TOKENS = 4
# The share of changes that remove something, and that of kills followed by one during the start.
_REMOVED_SHARE = 0.4
_IN_START_SHARE = 0.25
_LONGEST_RUN_S = 0.5
_LONGEST_START_S = 0.6
_PAUSE_S = 0.002
_LIMIT_S = 60.0


class _Asked(NamedTuple):
    """A change that is not answered: what it is about, and what it makes of it.

    Attributes:
        key: what it is about; `_NEW` for something whose name is in the answer.
        value: its new value; None if it is removed, `_SOME` if the answer says it.
    """

    key: Hashable
    value: Hashable


_NEW, _SOME = "new", "some"


class Changer(ABC):
    """Changes things of one kind, and knows how they are.

    Attributes:
        kept: what was acknowledged.
        removed: what was acknowledged to be gone, with its last value.
        total: how many changes were acknowledged.
        failures: what was wrong.
    """

    what = ""

    def __init__(self, broker: SecuredBroker, seed: int) -> None:
        self.broker = broker
        self.kept: dict[Any, Any] = {}
        self.removed: dict[Any, Any] = {}
        self.total = 0
        self.failures: list[str] = []
        self.random = random.Random(f"{self.what} {seed}")
        self._asked: _Asked | None = None

    def cluster(self) -> Cluster:
        """Return a client of the administrator."""
        return Cluster(self.broker.bootstrap)

    @abstractmethod
    def change(self, cluster: Cluster) -> None:
        """Ask for a change, and note its answer."""

    @abstractmethod
    def found(self, cluster: Cluster) -> Mapping[Any, Any]:
        """Return what the broker has."""

    @abstractmethod
    def login(self, key: Any, value: Any) -> dict[str, str] | None:
        """Return the properties of a client that logs in with a thing; None if nobody can."""

    def ask(self, key: Hashable, value: Hashable) -> None:
        """Note a change before it is asked for."""
        self._asked = _Asked(key, value)

    def answered(self, key: Hashable, value: Hashable) -> None:
        """Note that a change was acknowledged."""
        if value is None:
            self.removed[key] = self.kept.pop(key)
        else:
            self.kept[key] = value
            self.removed.pop(key, None)
        self._asked = None
        self.total += 1

    def live(self) -> None:
        """Make changes until the server is killed."""
        try:
            with self.cluster() as cluster:
                while True:
                    self.change(cluster)
        except Refused as refused:
            self.failures.append(f"{self.what}: {self._asked} was refused: {refused}")
        except ClientError:
            return

    def compare(self) -> None:
        """Check after a restart what there is, and that it is good for a login or is not."""
        with self.cluster() as cluster:
            found = self.found(cluster)
        for key in self.kept.keys() | found.keys():
            self._compare_one(key, found.get(key))
        self._asked = None
        # The answer is a promise too.
        self.kept = dict(found)
        self.removed = {key: old for key, old in self.removed.items() if key not in found}
        for things, is_good in ((self.kept, True), (self.removed, False)):
            if things:
                key = self.random.choice(sorted(things))
                self._log_in(key, things[key], is_good=is_good)

    def _compare_one(self, key: Hashable, found: Hashable) -> None:
        kept, asked = self.kept.get(key), self._asked
        if found == kept:
            return
        is_asked = asked is not None and asked.key in (key, _NEW if kept is None else key)
        if asked is None or not is_asked or (asked.value != found and asked.value != _SOME):
            self.failures.append(
                f"{self.what}: {key} was acknowledged with {kept}, {found} is found, and {asked}"
                f" was not answered ({self.broker.data_dir})"
            )

    def _log_in(self, key: Any, value: Any, *, is_good: bool) -> None:
        properties = self.login(key, value)
        if properties is None:
            return
        bootstrap = self.broker.setup.bootstrap("SASL_SSL")
        try:
            with Cluster(bootstrap, security=security_of(properties)) as cluster:
                cluster.brokers()
        except LoginFailed as failed:
            if is_good:
                self.failures.append(f"{self.what}: {key} cannot log in: {failed}")
        else:
            if not is_good:
                self.failures.append(f"{self.what}: {key} logs in, and was removed")


class Users(Changer):
    """SCRAM credentials, by user and mechanism, with their iterations."""

    what = "users"

    def change(self, cluster: Cluster) -> None:
        """Set a credential, or remove one."""
        name, mechanism = self.random.choice(_USERS), f"SCRAM-SHA-{self.random.choice((256, 512))}"
        key = name, mechanism
        if key in self.kept and self.random.random() < _REMOVED_SHARE:
            self.ask(key, None)
            remove_user(cluster, name, mechanism)
            self.answered(key, None)
            return
        # The password changes with it.
        iterations = MIN_ITERATIONS + self.random.randrange(100)
        self.ask(key, iterations)
        secret = password(name, iterations)
        add_user(cluster, name, mechanism, secret, iterations, os.urandom(16))
        self.answered(key, iterations)

    def found(self, cluster: Cluster) -> Mapping[Any, Any]:
        """Return the credentials."""
        return {
            (user.name, mechanism): iterations
            for user in list_users(cluster, _USERS)
            for mechanism, iterations in user.iterations.items()
        }

    def login(self, key: Any, value: Any) -> dict[str, str] | None:
        """Return a login with the password."""
        name, mechanism = key
        way = Way("SASL_SSL", Mechanism(mechanism))
        secret = password(name, value)
        return self.broker.setup.client_properties(way, name, secret)


class Rules(Changer):
    """Access rules."""

    what = "rules"

    def change(self, cluster: Cluster) -> None:
        """Add a rule, or remove one."""
        rule = self.random.choice(RULES)
        if rule in self.kept:
            self.ask(rule, None)
            remove_acls(cluster, AclFilter(*rule))
            self.answered(rule, None)
        else:
            self.ask(rule, True)
            add_acls(cluster, [rule])
            self.answered(rule, True)

    def found(self, cluster: Cluster) -> Mapping[Any, Any]:
        """Return those of the rules that there are."""
        return dict.fromkeys(set(list_acls(cluster, EVERYTHING)) & set(RULES), True)

    def login(self, key: Any, value: Any) -> dict[str, str] | None:
        """Return nothing: nobody logs in with a rule."""
        return None


class Tokens(Changer):
    """Delegation tokens of a user, by their ids, with the time when they expire."""

    what = "tokens"

    def cluster(self) -> Cluster:
        """Return a client of the user, who has logged in with a password."""
        setup = self.broker.setup
        security = security_of(setup.client_properties(_BY_PASSWORD, "bob"))
        return Cluster(setup.bootstrap("SASL_SSL"), security=security)

    def change(self, cluster: Cluster) -> None:
        """Create a token, or let one expire later or at once."""
        if len(self.kept) < _MOST_TOKENS:
            self.ask(_NEW, _SOME)
            made = create_token(cluster, None, (), -1)
            self._know(made)
            self.answered(made.token_id, made.expires_ms)
            return
        token_id = self.random.choice(sorted(self.kept))
        if self.random.random() < _REMOVED_SHARE:
            self.ask(token_id, None)
            expire_token(cluster, token_id)
            self.answered(token_id, None)
        else:
            self.ask(token_id, _SOME)
            self.answered(token_id, renew_token(cluster, token_id, -1))

    def found(self, cluster: Cluster) -> Mapping[Any, Any]:
        """Return the tokens of the user."""
        tokens = [each for each in list_tokens(cluster, ()) if each.owner == "User:bob"]
        for each in tokens:
            self._know(each)
        return {each.token_id: each.expires_ms for each in tokens}

    def login(self, key: Any, value: Any) -> dict[str, str] | None:
        """Return a login with the token."""
        setup = self.broker.setup
        return setup.client_properties(_BY_TOKEN, key, setup.tokens[key][1])

    def _know(self, token: Token) -> None:
        """Keep what a login with a token proves."""
        secret = b64encode(token.hmac).decode()
        self.broker.setup.tokens[token.token_id] = token.token_id, secret


class SteadyProducer:
    """A producer that logs in with SCRAM over TLS, and writes through all kills.

    Attributes:
        acknowledged: the numbers that were.
    """

    def __init__(self, broker: SecuredBroker) -> None:
        self.acknowledged: set[int] = set()
        settings = client_settings(BY_NAME["confluent"], broker.setup, _STEADY)
        self._settings = {**settings, "bootstrap.servers": broker.setup.bootstrap("SASL_SSL")}
        self._sent = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def _write(self) -> None:
        producer = Producer(
            {**self._settings, "linger.ms": 0, "reconnect.backoff.max.ms": 200, "acks": "all"}
        )
        while not self._is_over.is_set():
            number = self._sent
            self._sent += 1
            delivered = partial(self._delivered, number)
            producer.produce(_TOPIC, str(number).encode(), on_delivery=delivered)
            producer.poll(_PAUSE_S)
        producer.flush(_LIMIT_S)

    def _delivered(self, number: int, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged.add(number)

    def goes_on(self) -> bool:
        """Wait until one more record is acknowledged; return whether one is."""
        count, until_s = len(self.acknowledged), time.monotonic() + _LIMIT_S
        while len(self.acknowledged) <= count:
            if time.monotonic() > until_s:
                return False
            time.sleep(0.01)
        return True

    def lost(self) -> set[int]:
        """End it; return the acknowledged records that cannot be read."""
        self._is_over.set()
        self._thread.join()
        consumer = Consumer({**self._settings, "group.id": "reader", "enable.auto.commit": False})
        with closing(consumer):
            place = TopicPartition(_TOPIC, 0, 0)
            _, end = consumer.get_watermark_offsets(place, timeout=_LIMIT_S)
            consumer.assign([place])
            read, count = set[int](), 0
            until_s = time.monotonic() + _LIMIT_S
            while count < end and time.monotonic() < until_s:
                for message in consumer.consume(1_000, timeout=1.0):
                    read.add(int(message.value() or b"-1"))
                    count += 1
        return self.acknowledged - read


class SecurityKills:
    """One server, killed and restarted in one data directory.

    Attributes:
        kills, in_start: how often it was killed, and how often during a start.
        failures: what was wrong.
    """

    def __init__(self, place: Path, seed: int) -> None:
        self.broker = SecuredBroker(place)
        self.changers = [each(self.broker, seed) for each in (Users, Rules, Tokens)]
        self.producer = SteadyProducer(self.broker)
        self.kills = self.in_start = 0
        self.failures: list[str] = []
        self._random = random.Random(seed)

    def run(self, kills: int, until_s: float) -> None:
        """Kill the server `kills` times, or until a time on the monotonic clock."""
        self.broker.start()
        self.broker.setup.prepare()
        with Cluster(self.broker.bootstrap) as cluster:
            create_topic(cluster, _TOPIC, 1)
        for each in self.changers:
            with each.cluster() as cluster:
                each.kept = dict(each.found(cluster))
        self.producer.start()
        while self.kills < kills and time.monotonic() < until_s:
            self._live()
            if self._random.random() < _IN_START_SHARE:
                self.broker.begin()
                time.sleep(self._random.uniform(0.1, _LONGEST_START_S))
                self._kill()
                self.in_start += 1
            self.broker.start()
            for each in self.changers:
                each.compare()
            if not self.producer.goes_on():
                self.failures.append(f"the producer does not go on after kill {self.kills}")
        lost = self.producer.lost()
        if lost:
            self.failures.append(f"{len(lost)} acknowledged records are lost: {sorted(lost)[:5]}")
        for each in self.changers:
            self.failures += each.failures
        self.broker.kill()

    def _live(self) -> None:
        """Let everything be changed, and kill the server meanwhile."""
        before = [each.total for each in self.changers]
        threads = [threading.Thread(target=each.live) for each in self.changers]
        for thread in threads:
            thread.start()
        until_s = time.monotonic() + _LIMIT_S
        while any(each.total == count for each, count in zip(self.changers, before, strict=True)):
            if time.monotonic() > until_s:
                self.failures.append("not every change was answered")
                break
            time.sleep(0.01)
        time.sleep(self._random.uniform(0.01, _LONGEST_RUN_S))
        self._kill()
        for thread in threads:
            thread.join()

    def _kill(self) -> None:
        self.broker.kill()
        self.kills += 1

    def table(self) -> list[str]:
        """The report's lines."""
        figures = {
            "kill -9": self.kills,
            "  while starting": self.in_start,
            **{f"acknowledged changes of {each.what}": each.total for each in self.changers},
            "acknowledged records": len(self.producer.acknowledged),
            "wrong": len(self.failures),
        }
        return [*self.failures, *(f"{name:<34}{count:>10,}" for name, count in figures.items())]


def kill_secured(kills: int, until_s: float, seed: int = 0) -> SecurityKills:
    """Kill a server `kills` times, or until a time on the monotonic clock."""
    with tempfile.TemporaryDirectory() as place:
        done = SecurityKills(Path(place), seed)
        try:
            done.run(kills, until_s)
        except Exception as error:
            done.failures.append(f"{type(error).__name__}: {error}")
        finally:
            done.broker.kill()
    return done
