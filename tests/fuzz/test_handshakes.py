"""Handshakes, logins and records of TLS with changed bytes: no request behind them is handled."""

import os
import random
import socket
import ssl
import time
from functools import partial

import pytest

from coterie.protocol.frames import encode_request
from tests.faults import answers
from tests.fuzz.encrypted import CHANGES, Change, TlsTarget, counting_handled, repeat
from tests.fuzz.logins import LoginTarget
from tests.fuzz.target import Finding
from tests.planting import Plant, planted
from tests.unit.server.certificates import (
    SSL,
    Files,
    client_context,
    tls_client,
    write_certificates,
)
from tests.unit.server.running import RunningBroker
from tests.unit.server.test_tls import HELLO, MemoryClient

_CASES = 300


class ChangingClient(MemoryClient):
    """A client that changes what it sends in one of its flights: hello, finish, request."""

    def __init__(
        self, running: RunningBroker, files: Files, chance: random.Random, change: Change
    ) -> None:
        super().__init__(running, files)
        self.socket.settimeout(0.3)
        self._chance, self._change = chance, change
        self._flights_before = chance.randrange(3)

    def flush(self, piece: int = 1 << 20) -> None:
        data = self.outgoing.read()
        if data and self._flights_before == 0:
            data = self._change(self._chance, data)
        self._flights_before -= bool(data)
        self.socket.sendall(data)


@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.__name__)
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_nothing_behind_changed_bytes_is_handled(
    change: Change, version: ssl.TLSVersion, tmp_path_factory: pytest.TempPathFactory
) -> None:
    files = write_certificates(tmp_path_factory.mktemp("certificates"))
    handled: list[int] = []
    settings = {
        "ssl.keystore.location": files.server,
        "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
        "ssl.protocol": "TLSv1.2" if version is ssl.TLSVersion.TLSv1_2 else "TLSv1.3",
    }
    chance = random.Random(f"{change.__name__} {version}")
    with RunningBroker(
        settings, prepare=partial(counting_handled, handled=handled), listeners=[SSL]
    ) as running:
        for number in range(_CASES // 8):
            with ChangingClient(running, files, chance, change) as client:
                try:
                    client.shake_hands()
                    client.tls.write(encode_request(HELLO, 3, number + 1, "c"))
                    client.flush()
                    client.socket.shutdown(socket.SHUT_WR)
                    client.answer()
                except (ssl.SSLError, OSError, EOFError):
                    pass
        if change is not repeat:
            # A repeated flight follows one that is as it should be.
            assert handled == []
        with tls_client(running, client_context(files)) as other:
            assert other.call(HELLO, 3).error_code == 0
        assert running.log.named("request failed") == []
        assert set(running.close_errors()) <= {"TlsError"}


SECONDS = float(os.environ.get("COTERIE_TEST_FUZZ_SECONDS", "3"))
_PLANTS = (
    Plant("any request is taken", "coterie.security.login:Login.takes", fault=answers(True)),
    Plant(
        "a proof is not compared",
        "coterie.security.scram:ScramConversation._final",
        "hmac.compare_digest(stored_key, self._keys.stored_key)",
        "True",
    ),
    Plant(
        "an authorization id is the user",
        "coterie.security.plain:PlainServer.step",
        "if other and other != name:\n        raise LoginFailed(OTHER_USER)",
        "name = other or name",
    ),
)


def test_changed_logins_reach_nothing() -> None:
    target, deadline = LoginTarget(1), time.monotonic() + SECONDS
    while time.monotonic() < deadline or target.outcomes.total() < 300:
        target.feed()
    assert min(target.outcomes["logged in"], target.outcomes["closed"]) > 50


def test_changed_tls_reaches_nothing() -> None:
    target, deadline = TlsTarget(1), time.monotonic() + SECONDS
    while time.monotonic() < deadline or target.outcomes.total() < 100:
        target.feed()
    assert min(target.outcomes.values()) > 10


def feed_often(target: LoginTarget) -> None:
    for _ in range(3_000):
        target.feed()


@pytest.mark.parametrize("plant", _PLANTS, ids=[each.name for each in _PLANTS])
def test_a_planted_bug_of_logins_is_found(plant: Plant) -> None:
    with planted(plant):
        target = LoginTarget(1)
        with pytest.raises(Finding):
            feed_often(target)
