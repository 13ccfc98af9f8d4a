"""Logins on the wire: Kafka's bytes, and nothing of a peer reaches a handler before them.

Rules: [security/before-login].
"""

import socket
import time
from collections.abc import Iterator
from functools import partial

import pytest

from coterie.address import Address
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.apis import response_class
from coterie.protocol.frames import decode_response
from coterie.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from coterie.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsRequestTopic
from coterie.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from coterie.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from coterie.protocol.messages.sasl_handshake import SaslHandshakeRequest
from coterie.server.config.listeners import Listener, SecurityProtocol
from coterie.server.config.sources import ConfigError
from coterie.server.network import limits
from coterie.server.network.routes import Routes
from coterie.server.security import logins
from tests.unit.server.logins import (
    ALICE,
    LoginClient,
    StoppedClock,
    frame_of,
    framed,
    sasl_broker,
)
from tests.unit.server.running import RunningBroker, SocketClient, is_closed, read_exactly

HANDSHAKE = bytes.fromhex("0000001200110001000000010001630005504c41494e")
# ApiVersions v99.
UNKNOWN_VERSION = bytes.fromhex("0000000b 0012 0063 00000001 0001 63")
SECRETS = "alice-secret", "bob-secret", "pencil", "wrong-secret"
VERSIONS = ApiVersionsRequest(client_software_name="t", client_software_version="1")
CREATION = CreateTopicsRequest(
    topics=[
        CreateTopicsRequestTopic(
            name="made", num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
    ],
    timeout_ms=1_000,
)


@pytest.fixture(scope="module")
def running() -> Iterator[RunningBroker]:
    with sasl_broker() as broker:
        yield broker
        # Nothing but ApiVersions was ever looked up, let alone handled, before a login.
        assert broker.log.named("login failed by a mistake") == []
        assert broker.log.named("request failed") == []


def frame(client: LoginClient) -> bytes:
    """Return the next frame without its length."""
    return read_exactly(client.socket, int.from_bytes(read_exactly(client.socket, 4)))


# --- Kafka's bytes --------------------------------------------------------------------------------


def test_the_frames_are_those_of_kafka(running: RunningBroker) -> None:
    with LoginClient(running) as client:
        client.socket.sendall(HANDSHAKE)
        names = "0005504c41494e 000d534352414d2d5348412d323536 000d534352414d2d5348412d353132"
        assert frame(client) == bytes.fromhex(f"00000001 0000 00000003 {names}")
        client.socket.sendall(
            bytes.fromhex(
                "000000210024000200000002000163001400616c69636500616c6963652d73656372657400"
            )
        )
        assert frame(client) == bytes.fromhex("00000002 00 000001010000000000000000 00")


@pytest.mark.parametrize("version", [0, 1])
def test_older_versions_of_authenticate(running: RunningBroker, version: int) -> None:
    with LoginClient(running) as client:
        client.handshake()
        client.socket.sendall(framed(SaslAuthenticateRequest(auth_bytes=ALICE), version, 2))
        lifetime = "" if version == 0 else "0000000000000000"
        assert frame(client) == bytes.fromhex(f"00000002 0000 0000 00000000 {lifetime}")


def test_a_wrong_password_has_kafkas_answer(running: RunningBroker) -> None:
    with LoginClient(running) as client:
        client.handshake()
        wrong = SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong-secret")
        client.socket.sendall(framed(wrong, 2, 2))
        text = b"Authentication failed: Invalid username or password"
        expected = "00000002 00 003a34" + text.hex() + "01000000000000000000"
        assert frame(client) == bytes.fromhex(expected)
        assert client.rest() == b""


def test_bare_tokens_follow_a_handshake_of_version_0(running: RunningBroker) -> None:
    with LoginClient(running) as client:
        client.handshake(version=0)
        client.socket.sendall(frame_of(ALICE))
        assert read_exactly(client.socket, 4) == bytes(4)
        assert client.call(MetadataRequest(topics=None), 9).brokers
    for token in (b"\0alice\0wrong-secret", b"", framed(MetadataRequest(topics=None), 9)[4:]):
        with LoginClient(running) as client:
            client.handshake(version=0)
            client.socket.sendall(frame_of(token))
            assert client.rest() == b""


@pytest.mark.parametrize("name", ["plain", "GSSAPI", "OAUTHBEARER", ""])
def test_another_mechanism_is_refused_with_the_list(running: RunningBroker, name: str) -> None:
    with LoginClient(running) as client:
        answer = client.handshake(name)
        assert answer.error_code == 33
        assert answer.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
        assert client.rest() == b""


def test_api_versions_may_be_asked_again_after_an_error(running: RunningBroker) -> None:
    with LoginClient(running) as client:
        client.socket.sendall(UNKNOWN_VERSION)
        assert ApiVersionsResponse.decode(frame(client), 0, 4).error_code == 35
        bad = ApiVersionsRequest(client_software_name="-", client_software_version="")
        assert client.call(bad, 3).error_code == 42
        before = client.call(VERSIONS, 4)
        assert before.error_code == 0
        client.log_in()
        assert client.call(VERSIONS, 4) == before


@pytest.mark.parametrize("version", [0, 3])
def test_a_second_api_versions_closes(running: RunningBroker, version: int) -> None:
    with LoginClient(running) as client:
        client.call(VERSIONS, version)
        client.send(VERSIONS, version)
        assert client.rest() == b""


def test_after_a_login_another_one_is_refused(running: RunningBroker) -> None:
    with LoginClient(running) as client:
        client.log_in()
        for _ in range(2):
            handshake = client.handshake()
            assert (handshake.error_code, handshake.mechanisms) == (34, [])
            answer = client.authenticate()
            assert answer.error_code == 34
            assert answer.error_message == (
                "SaslAuthenticate request received after successful authentication"
            )
        assert client.call(MetadataRequest(topics=None), 9).brokers


def test_sasl_on_a_plaintext_listener(running: RunningBroker) -> None:
    with SocketClient(socket.create_connection(running.addresses[1])) as client:
        answer = client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert (answer.error_code, answer.mechanisms) == (34, [])
        assert client.call(MetadataRequest(topics=None), 9).brokers


# --- the wall -------------------------------------------------------------------------------------


def cases() -> Iterator[tuple[int, int]]:
    """Every key with every version, and some that do not exist."""
    served = {int(api): last for api, (_, last) in SERVED_VERSIONS.items()}
    for key in [*range(95), 1_000, 10_000, 12_345, 20_000, 32_767, -1, -2, -32_768]:
        for version in range(-1, served.get(key, 0) + 2):
            yield key, version


def test_no_api_is_handled_before_a_login() -> None:
    """Every key and version, in START and in AUTHENTICATE [security/login-states]."""
    with sasl_broker() as running:
        for key, version in cases():
            head = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True)
            # An id, and zeros for tags, names and arrays, whatever the body means.
            request = frame_of(head + bytes.fromhex("00000009 0001 63") + bytes(13))
            with LoginClient(running) as client:
                client.socket.sendall(request)
                if key == ApiKey.SASL_HANDSHAKE and version in (0, 1):
                    # The mechanism is "".
                    assert frame(client)[4:6] == bytes([0, 33]), version
                elif key == ApiKey.API_VERSIONS:
                    continue
                assert client.rest() == b"", (key, version)
            with LoginClient(running) as client:
                client.handshake()
                client.socket.sendall(request)
                rest = client.rest()
                if rest and key != ApiKey.SASL_AUTHENTICATE:
                    answer = decode_response(response_class(ApiKey(key)), rest[4:], version)[1]
                    # Some have no error at their top, or not in this version.
                    assert getattr(answer, "error_code", 0) in (0, 34), (key, version)
                    lists = [getattr(answer, each) for each in answer.fields_]
                    assert [each for each in lists if isinstance(each, list) and each] == []
        handled = {route.api for route in running.broker.routes.values()}
        assert handled == {ApiKey.API_VERSIONS}
        assert {*running.broker.topics.by_name} <= {"__consumer_offsets"}
        assert running.log.named("login failed by a mistake") == []


@pytest.mark.parametrize("behind", [b"", HANDSHAKE, framed(VERSIONS, 3)])
def test_requests_behind_a_failing_login_are_not_executed(
    running: RunningBroker, behind: bytes
) -> None:
    creation = framed(CREATION, 5)
    wrong = framed(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong-secret"), 2)
    for before in (b"", HANDSHAKE, HANDSHAKE + wrong):
        with LoginClient(running) as client:
            client.socket.sendall(before + creation + behind)
            client.rest()
    assert "made" not in running.broker.topics.by_name
    with LoginClient(running) as client:
        right = framed(SaslAuthenticateRequest(auth_bytes=ALICE), 2)
        # Behind a login that succeeds it is a request like any other.
        client.socket.sendall(HANDSHAKE + right + framed(MetadataRequest(topics=None), 9))
        frame(client)
        frame(client)
        assert b"127.0.0.1" in frame(client)


def test_requests_during_the_delay_are_not_executed() -> None:
    with sasl_broker({"connection.failed.authentication.delay.ms": "300"}) as running:
        with LoginClient(running) as client:
            client.handshake()
            began = time.monotonic()
            client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong-secret"), 2)
            client.socket.sendall(framed(CREATION, 5))
            assert b"Invalid username" in frame(client)
            # The loop's clock counts milliseconds, so a timer may be one early.
            assert time.monotonic() - began >= 0.298
            assert client.rest() == b""
        assert "made" not in running.broker.topics.by_name
        assert running.broker.logins.held == 0


def test_a_client_that_leaves_during_the_delay_is_forgotten() -> None:
    with sasl_broker({"connection.failed.authentication.delay.ms": "60000"}) as running:
        with LoginClient(running) as client:
            client.handshake()
            client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong-secret"), 2)
            running.wait_for(lambda: running.broker.logins.held == 1)
            running.call(running.broker.connection_quotas.abort_all)
        running.wait_for(lambda: running.broker.logins.held == 0)


def test_beyond_the_limit_logins_are_closed_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(logins, "MOST_HELD", 0)
    settings = {"connection.failed.authentication.delay.ms": "60000"}
    with sasl_broker(settings) as running, LoginClient(running) as client:
        client.handshake()
        client.send(SaslAuthenticateRequest(auth_bytes=b"\0alice\0wrong-secret"), 2)
        assert client.rest() == b""


def test_a_login_that_arrives_byte_by_byte(running: RunningBroker) -> None:
    data = framed(VERSIONS, 3) + HANDSHAKE + framed(SaslAuthenticateRequest(auth_bytes=ALICE), 2)
    for cut in range(1, len(data)):
        with LoginClient(running) as client:
            client.socket.sendall(data[:cut])
            client.socket.sendall(data[cut:])
            frames = [frame(client) for _ in range(3)]
            assert frames[2][5:7] == b"\0\0", cut


@pytest.mark.parametrize("state", ["START", "AUTHENTICATE", "TOKENS"])
def test_the_limit_of_frames_before_a_login(running: RunningBroker, state: str) -> None:
    def begun() -> LoginClient:
        client = LoginClient(running)
        if state != "START":
            client.handshake(version=0 if state == "TOKENS" else 1)
        return client

    for length in (524_289, 2**31 - 1, -1, -(2**31)):
        with begun() as client:
            client.socket.sendall(length.to_bytes(4, "big", signed=True))
            assert client.rest() == b""
    with begun() as client:
        token = b"\0alice\0" + b"x" * (524_288 - 7)
        if state == "TOKENS":
            client.socket.sendall(frame_of(token))
            assert client.rest() == b""
        elif state == "AUTHENTICATE":
            head = framed(SaslAuthenticateRequest(auth_bytes=b""), 0)[4:-4]
            size = 524_288 - len(head) - 4
            client.socket.sendall(frame_of(head + size.to_bytes(4, "big") + token[:size]))
            assert b"Invalid username" in frame(client)


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\n\r\n", bytes(100), b"\x16\x03\x01\x02\x00\x01\x00", b"\0\0\0\0"]
)
def test_other_protocols_are_closed(running: RunningBroker, data: bytes) -> None:
    with LoginClient(running) as client:
        client.socket.sendall(data)
        assert client.rest() == b""


def test_a_login_has_a_time_however_busy_the_client_is(monkeypatch: pytest.MonkeyPatch) -> None:
    # A compiled broker is not patched: the test is skipped, and its connection must be closed then.
    with sasl_broker() as running, LoginClient(running) as done:
        done.log_in()
        monkeypatch.setattr(limits, "LOGIN_DEADLINE_MS", 200)
        with LoginClient(running) as silent, LoginClient(running) as busy:
            busy.socket.sendall(b"\0\0\1\0")
            for _ in range(200):
                time.sleep(0.01)
                try:
                    busy.socket.sendall(b"x")
                except OSError:
                    break
            assert is_closed(silent.socket)
            assert is_closed(busy.socket)
        assert done.call(MetadataRequest(topics=None), 9).brokers
        assert running.close_errors() == ["LoginTimeout"] * 2


def test_connections_before_a_login_count() -> None:
    with sasl_broker({"max.connections": "2"}) as running:
        clients = [LoginClient(running) for _ in range(3)]
        running.wait_for(lambda: len(running.close_errors()) == 1)
        assert is_closed(clients[2].socket)
        clients[0].log_in()
        for client in clients:
            client.socket.close()


def test_no_secret_is_in_a_log_line(running: RunningBroker) -> None:
    tokens = [
        b"\0alice\0wrong-secret",
        b"alice-secret",
        b"\0bob-secret\0",
        b"bob\0alice\0alice-secret",
    ]
    for token in tokens:
        with LoginClient(running) as client:
            client.handshake()
            client.send(SaslAuthenticateRequest(auth_bytes=token), 2)
            client.rest()
    with LoginClient(running) as client:
        client.handshake("wrong-\n" + "x" * 500)
    running.wait_for(lambda: "unsupported mechanism" in str(running.log.lines))
    text = str(running.log.lines) + repr(running.broker.config)
    assert [each for each in SECRETS if each in text] == []
    assert "x" * 201 not in text
    assert all("\n" not in str(fields) for _, _, fields in running.log.lines)


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "not served. Set .* PLAIN, SCRAM-SHA-256"),
        ({"sasl.enabled.mechanisms": "NTLM"}, "'NTLM' is no mechanism"),
        ({"sasl.enabled.mechanisms": ""}, "has no mechanism"),
        ({"listener.name.sasl.plain.sasl.jaas.config": "x.Evil required;"}, "not one of"),
        ({"connection.failed.authentication.delay.ms": "600000"}, "less than"),
        (
            {"listener.name.sasl.plain.sasl.server.callback.handler.class": "org.acme.Handler"},
            r"plain\.sasl\.server\.callback\.handler\.class: no class is loaded, so PLAIN has",
        ),
        (
            {"listener.name.sasl.scram-sha-256.sasl.server.callback.handler.class": "org.acme.H"},
            "no class is loaded, so SCRAM-SHA-256 has",
        ),
    ],
)
def test_wrong_settings_end_the_start(settings: dict[str, str], error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        sasl_broker(settings).__enter__()


def test_plain_without_users_ends_the_start() -> None:
    listener = Listener(Address("127.0.0.1", 0), "OTHER", SecurityProtocol.SASL_PLAINTEXT)
    with pytest.raises(ConfigError, match=r"listener.name.other.plain.sasl.jaas.config is not set"):
        RunningBroker({"sasl.enabled.mechanisms": "PLAIN"}, listeners=[listener]).__enter__()


# --- sessions -------------------------------------------------------------------------------------

LIMITED = {"connections.max.reauth.ms": "1500"}
AFTER_ITS_TIME_MS = 1_600


def test_a_session_ends_at_the_next_request_after_its_time() -> None:
    clock = StoppedClock()
    with sasl_broker(LIMITED, clock) as running, LoginClient(running) as client:
        assert client.log_in().session_lifetime_ms == 1_500
        assert client.call(MetadataRequest(topics=None), 9).brokers
        clock.now_ms += AFTER_ITS_TIME_MS
        client.send(MetadataRequest(topics=None), 9)
        assert client.rest() == b""


def test_a_client_logs_in_again_even_after_the_time() -> None:
    clock = StoppedClock()
    with sasl_broker(LIMITED, clock) as running, LoginClient(running) as client:
        client.log_in()
        for _ in range(3):
            assert client.log_in().session_lifetime_ms == 1_500
            # Not twice in a second.
            early = client.handshake()
            assert (early.error_code, early.mechanisms) == (34, [])
            assert client.call(MetadataRequest(topics=None), 9).brokers
            clock.now_ms += AFTER_ITS_TIME_MS


@pytest.mark.parametrize(
    "case",
    ["user", "password", "mechanism", "request", "spliced", "unknown version", "handshake"],
)
def test_a_second_login_that_fails(case: str) -> None:
    with sasl_broker(LIMITED, StoppedClock()) as running, LoginClient(running) as client:
        client.log_in()
        answer = client.handshake("SCRAM-SHA-256" if case == "mechanism" else "PLAIN")
        assert answer.error_code == 0
        if case == "mechanism":
            client.send(SaslAuthenticateRequest(auth_bytes=ALICE), 2)
        elif case == "request":
            assert client.call(VERSIONS, 3).error_code == 34
        elif case == "spliced":
            named = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
            assert client.call(named, 9).topics[0].error_code == 34
        elif case == "unknown version":
            client.socket.sendall(UNKNOWN_VERSION)
            assert frame(client) == bytes.fromhex("00000001002200000000")
        elif case == "handshake":
            assert client.handshake().error_code == 34
        else:
            token = b"\0bob\0bob-secret" if case == "user" else b"\0alice\0wrong-secret"
            failed = client.authenticate(token)
            assert failed.error_code == 58
            assert failed.error_message == (
                "Cannot change principals during re-authentication from User.alice: User.bob"
                if case == "user"
                else "Authentication failed: Invalid username or password"
            )
        assert client.rest() == b""


def test_a_table_that_replaces_that_of_the_broker_ends_no_session_and_opens_no_login() -> None:
    clock = StoppedClock()
    with sasl_broker(LIMITED, clock) as running, LoginClient(running) as client:
        client.log_in()
        with LoginClient(running) as stranger:
            stranger.call(VERSIONS, 3)
            running.call(partial(running.broker.use_routes, Routes()))
            assert client.call(MetadataRequest(topics=None), 9).brokers
            stranger.send(MetadataRequest(topics=None), 9)
            assert stranger.rest() == b""
        clock.now_ms += AFTER_ITS_TIME_MS
        client.send(MetadataRequest(topics=None), 9)
        assert client.rest() == b""
